"""Reasons add up to the score, tell the score after a true removal, and name other people only where asked."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.errors import refused
from tests.models.test_mcne_plus import Naive, made, network
from tests.small_training import small_network, train_small

from mcne.embeddings import ConditionalEmbeddings
from mcne.embeddings.artifact import averaged
from mcne.embeddings.reasons import Level
from mcne.errors import UnavailableError, UnknownError

BEHAVIOR = 0


@cache
def naive() -> Naive:
    return Naive(made())


@cache
def embeddings() -> ConditionalEmbeddings:
    return naive().model.embeddings(network()[0], {"method": "mcne-plus"})


@cache
def busy_user() -> int:
    """The user with the most training records, of those whose attributes are known."""
    attributes = network()[0].attributes
    is_known = ~np.isnan(attributes["age"].values) & (attributes["city"].values >= 0)
    return int(np.argmax(is_known * [len(had) for had in naive().had]))


@pytest.mark.parametrize("level", ["own", "full"])
@pytest.mark.parametrize("behavior", [0, 1])
def test_reasons_add_up_to_the_score(level: Level, behavior: int) -> None:
    model = embeddings()
    name = model.behavior_names[behavior]
    for user in (*range(0, 500, 41), busy_user()):
        for item in (0, 7):
            why = model.why(model.users[user], model.spaces[behavior].items[item], name, level=level)
            (score,) = model.scores(behavior, np.array([user]), np.array([[item]]))[0]
            assert why.score == pytest.approx(score, rel=1e-5, abs=1e-6)
            assert sum(each.value for each in why) == pytest.approx(why.score, rel=1e-9, abs=1e-12)
            assert [abs(each.value) for each in why] == sorted((abs(each.value) for each in why), reverse=True)


def test_each_thing_that_is_known_is_a_reason() -> None:
    model, user = embeddings(), busy_user()
    why = model.why(model.users[user], model.spaces[BEHAVIOR].items[3], "Books", level="full")
    kinds = [each.kind for each in why]
    assert kinds.count("popularity") == kinds.count("taste") == 1
    records = {(each.behavior, each.id) for each in why if each.kind == "record"}
    assert records == {(model.behavior_names[k], model.spaces[k].items[item]) for k, item in naive().had[user]}
    friends = {each.id for each in why if each.kind == "friend"}
    assert friends == {model.users[int(friend)] for friend in model.graph.neighbors(user)}
    assert {each.id for each in why if each.kind == "attribute"} == {"age", "city"}


def test_validation_and_test_records_are_no_reasons() -> None:
    model, user = embeddings(), busy_user()
    why = model.why(model.users[user], model.spaces[BEHAVIOR].items[3], "Books")
    seen = sum(len(space.seen(user)) for space in model.spaces)
    assert 0 < sum(each.kind == "record" for each in why) == len(naive().had[user]) < seen


def test_without_is_the_score_after_a_true_removal() -> None:
    model, user = embeddings(), busy_user()
    why = model.why(model.users[user], model.spaces[BEHAVIOR].items[3], "Books", level="full")
    aim, bias = naive().mask(BEHAVIOR) * naive().item(BEHAVIOR, 3), naive().bias(BEHAVIOR, 3)
    checked = 0
    for each in why:
        if each.kind == "record":
            k = model.behavior_names.index(str(each.behavior))
            removed = (k, model.spaces[k].items.row(each.id or 0, what="item"))
            vector = naive().user(user, without=removed)
        elif each.kind == "friend":
            own = naive().tables["nodes"]
            friends = [int(friend) for friend in model.graph.neighbors(user)]
            left = [friend for friend in friends if model.users[friend] != each.id]
            mean = sum((own[friend] for friend in friends), np.zeros(6)) / len(friends)
            mean_left = sum((own[friend] for friend in left), np.zeros(6)) / max(1, len(left))
            vector = naive().user(user) + naive().config.friends * (mean_left - mean)
        elif each.kind == "attribute":
            vector = naive().user(user, unknown=str(each.id))
        else:
            continue
        assert each.without == pytest.approx(vector @ aim + bias, rel=1e-4, abs=1e-6)
        checked += 1
    assert checked > 10
    assert {each.kind for each in why if each.without is not None} == {"record", "friend", "attribute"}


def test_an_attribute_that_is_unknown_is_told_so() -> None:
    model = embeddings()
    age = network()[0].attributes["age"].values
    user = int(np.flatnonzero(np.isnan(age))[0])
    why = model.why(model.users[user], model.spaces[BEHAVIOR].items[3], "Books")
    (reason,) = (each for each in why if each.kind == "attribute" and str(each.id).startswith("age"))
    assert reason.id == "age, which is unknown"
    assert reason.without is None


def test_reasons_are_a_frame() -> None:
    model, user = embeddings(), busy_user()
    why = model.why(model.users[user], model.spaces[BEHAVIOR].items[3], "Books", level="full")
    table = why.to_arrow()
    assert table.column_names == ["kind", "behavior", "id", "name", "value", "without"]
    assert len(table) == len(why)
    assert sum(table["value"].to_pylist()) == pytest.approx(why.score)
    assert all(type(each.value) is float for each in why)


def test_own_reasons_tell_nothing_about_other_people() -> None:
    model, user = embeddings(), busy_user()
    item = model.spaces[BEHAVIOR].items[3]
    own = model.why(model.users[user], item, "Books", level="own")
    full = model.why(model.users[user], item, "Books", level="full")
    assert not any(each.kind == "friend" for each in own)
    assert len(full) == len(own) + len(model.graph.neighbors(user))
    assert "friend" not in json.dumps(own.to_json()) + own.sentence(most=1000)
    assert json.loads(json.dumps(full.to_json(), allow_nan=False))["score"] == full.score


def test_a_sentence_tells_the_largest_and_sums_up_the_rest() -> None:
    model, user = embeddings(), busy_user()
    why = model.why(model.users[user], model.spaces[BEHAVIOR].items[3], "Books")
    first, second, rest = why.sentence(most=2).split(", ")
    assert first.endswith(f"{why.reasons[0].value:+.2f}")
    assert second.endswith(f"{why.reasons[1].value:+.2f}")
    assert rest == f"{len(why) - 2} more {sum(each.value for each in why.reasons[2:]):+.2f}"


@pytest.mark.parametrize("behavior", [None, "Books", "Movies"])
def test_likeness_is_told_part_by_part(behavior: str | None) -> None:
    model = embeddings()
    table = model.likeness(model.users[3], model.users[busy_user()], behavior)
    vectors, mask = model.matrix_and_mask(behavior)
    assert table.parts == ("own", "history", "friends", "attributes")
    assert table.products.sum() == pytest.approx(float(vectors[3] * mask @ vectors[busy_user()]), rel=1e-4)
    assert len(table.to_arrow()) == 4


def test_reasons_come_back_from_disk(tmp_path: Path) -> None:
    model, user = embeddings(), embeddings().users[busy_user()]
    model.save(tmp_path / "a")
    back = ConditionalEmbeddings.load(tmp_path / "a")
    item = model.spaces[BEHAVIOR].items[3]
    assert back.why(user, item, "Books", level="full").reasons == model.why(user, item, "Books", level="full").reasons


def test_an_average_of_members_has_the_average_of_their_reasons() -> None:
    other = made(4).embeddings(network()[0], {})
    both = averaged([embeddings(), other], {})
    scores = [each.scores(0, np.arange(500)) for each in (embeddings(), other, both)]
    np.testing.assert_allclose(scores[2], (scores[0] + scores[1]) / 2, rtol=1e-4, atol=1e-6)
    user, item = both.users[busy_user()], both.spaces[BEHAVIOR].items[3]
    by_reason = [
        {(each.kind, each.behavior, each.id): each.value for each in one.why(user, item, "Books", level="full")}
        for one in (embeddings(), other, both)
    ]
    for reason, value in by_reason[2].items():
        assert value == pytest.approx((by_reason[0][reason] + by_reason[1][reason]) / 2, rel=1e-4, abs=1e-6)


def test_methods_whose_vectors_are_no_sums_have_no_reasons(tmp_path: Path) -> None:
    run = train_small("bpr", small_network(), tmp_path / "bpr")
    with refused(UnavailableError, value="bpr"):
        run.embeddings.why(1, run.embeddings.spaces[0].items[0], "Books")


def test_a_level_that_does_not_exist() -> None:
    with refused(UnknownError, value="everything"):
        embeddings().why(1, embeddings().spaces[0].items[0], "Books", level="everything")  # type: ignore[arg-type] # as users may
