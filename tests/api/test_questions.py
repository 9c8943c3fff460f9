"""What can be asked of a model: who and what is left out, and one answer as a small table."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.errors import refused
from tests.small_training import nearly_all_known, sixty_users, small_settings

import mcne
from mcne.api.model import Model
from mcne.data.dataset import SocialDataset
from mcne.errors import UnknownError, UsageError


@pytest.fixture(scope="module")
def data() -> SocialDataset:
    return sixty_users()


@pytest.fixture(scope="module", params=["bpr", "ease"])
def model(request: pytest.FixtureRequest, data: SocialDataset) -> Model:
    return mcne.fit(request.param, data, progress=False, device="cpu", **small_settings(request.param))


def items_of(data: SocialDataset, behavior: str, user: int) -> set[Any]:
    known = data.behavior(behavior)
    return set(known.items.take(known.item[known.user == user]))


# items


def test_seen_in_a_behavior_or_in_any(model: Model, data: SocialDataset) -> None:
    read, watch = (items_of(data, behavior, 3) for behavior in ("read", "watch"))
    assert watch - read
    everything = set(data.behavior("read").items)
    answers = {seen: set(model.recommend(3, "read", k=30, filter_seen=seen).ids) for seen in ("behavior", "all", False)}
    assert answers["behavior"] == everything - read
    assert answers["all"] == everything - read - watch
    assert answers[False] == everything
    assert model.recommend(3, "read", filter_seen=True).ids == model.recommend(3, "read").ids
    with refused(UnknownError, value="al"):
        model.recommend(3, "read", filter_seen="al")  # type: ignore[call-overload] # wrong on purpose


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("method", ["bpr", "ease"])
def test_what_is_known_to_be_bad_is_never_recommended(method: str, separate: bool, tmp_path: Path) -> None:
    data, left = nearly_all_known(sixty_users())
    settings = small_settings(method) | {"separate": separate, "device": "cpu"}
    trained = mcne.fit(method, data, progress=False, **settings)
    trained.save(tmp_path / "model")
    own = items_of(data, "read", 3)
    one = {data.behavior("read").items[int(left[0, 3])]}
    for model in (trained, mcne.load(tmp_path / "model")):
        assert set(model.recommend(3, "read", k=30).ids) == one
        assert set(model.recommend(3, "read", k=30, filter_seen=False).ids) == one | own
        assert set(model.recommend(3, "read", k=30, items=list(data.behavior("read").items)).ids) == one
        assert set(model.recommend(3, "read", k=30, filter_seen="all").ids) <= one
        space = model.space("read")
        assert set(space.items.take(space.had(3))) == own
        assert space.records().tolist() == np.bincount(data.behavior("read").user, minlength=60).tolist()
        assert len(space.known(3)) == 30 - len(own) - 1


@pytest.mark.parametrize("k", [0, -1, 1.5, "3"])
def test_how_many_results(model: Model, k: Any) -> None:
    with refused(UsageError, place="k", value=k):
        model.recommend(3, "read", k=k)
    with refused(UsageError, place="k", value=k):
        model.recommend([], "read", k=k)


def test_ids_as_an_arrow_array(model: Model) -> None:
    ids = pa.array([3, 4])
    for asked in (ids, pa.chunked_array([ids])):
        assert model.recommend(asked, "read", k=2).to_pandas().equals(model.recommend([3, 4], "read", k=2).to_pandas())


def test_among_these_items_and_without_those(model: Model, data: SocialDataset) -> None:
    unseen = sorted(set(data.behavior("read").items) - items_of(data, "read", 3))
    whole = list(model.recommend(3, "read", k=30).ids)
    some = [*unseen[:5], *items_of(data, "read", 3)]
    assert model.recommend(3, "read", items=some).ids == tuple(raw for raw in whole if raw in some)
    assert model.recommend(3, "read", k=30, exclude=unseen[:5]).ids == tuple(raw for raw in whole if raw not in some)
    assert model.recommend(3, "read", items=some, exclude=unseen[:5]).ids == ()
    with refused(UnknownError, value=99):
        model.recommend(3, "read", items=[1, 99])


def test_the_scores_do_not_depend_on_what_is_left_out(model: Model, data: SocialDataset) -> None:
    whole = dict(model.recommend(3, "read", k=30))
    some = dict(model.recommend(3, "read", k=30, items=list(whole)[5:9]))
    assert some == {raw: whole[raw] for raw in some}
    scores = model.scorer().scores(0, np.array([3]))[0]
    rows = [data.behavior("read").items.row(raw) for raw in whole]
    np.testing.assert_allclose(list(whole.values()), scores[rows], rtol=1e-5)


def test_the_behavior_can_be_left_out_if_there_is_one(data: SocialDataset, model: Model) -> None:
    with refused(UsageError, place="behavior") as raised:
        model.recommend(3)
    assert raised.value.allowed == ("read", "watch")
    one = mcne.Popularity().fit(data.only(0), progress=False)
    assert one.recommend(3).ids == one.recommend(3, "read").ids


# users


def test_friends_are_left_out_or_alone(data: SocialDataset) -> None:
    model = mcne.BPR(**small_settings("bpr"), device="cpu").fit(data, progress=False)
    friends = set(data.users.take(data.graph.neighbors(3))) - {3}
    whole = list(model.similar_users(3, "read", k=60).ids)
    assert len(whole) == 59
    assert model.similar_users(3, "read", k=60, friends="only").ids == tuple(raw for raw in whole if raw in friends)
    assert model.similar_users(3, "read", k=60, friends="exclude").ids == tuple(
        raw for raw in whole if raw not in friends
    )
    assert model.similar_users(59, friends="only").ids == ()  # who has none
    with refused(UnknownError, value="onyl"):
        model.similar_users(3, friends="onyl")  # type: ignore[call-overload] # wrong on purpose


# answers as tables


def test_one_answer_as_a_table(model: Model) -> None:
    answer = model.recommend(3, "read", k=2)
    frame = answer.to_pandas()
    assert frame.columns.tolist() == ["rank", "item_id", "score"]
    assert list(frame.itertuples(index=False, name=None)) == [
        (1, answer.ids[0], answer.scores[0]),
        (2, answer.ids[1], answer.scores[1]),
    ]
    assert answer.to_polars().rows() == [tuple(row) for row in frame.to_numpy(dtype=object).tolist()]
    lines = str(answer).splitlines()
    assert lines[0] == "rank  item_id  score"
    assert lines[1].split() == ["1", str(answer.ids[0]), f"{answer.scores[0]:.4g}"]
    assert f"<td>{answer.ids[0]}</td>" in answer._repr_html_()


def test_many_answers_as_a_table(model: Model) -> None:
    answers = model.recommend([4, 3], "read", k=2)
    table = answers.to_arrow()
    assert table.column_names == ["user_id", "rank", "item_id", "score"]
    assert table["user_id"].to_pylist() == [4, 4, 3, 3]
    assert table["item_id"].to_pylist() == [*answers[0].ids, *answers[1].ids]
    assert [(asked, answer.ids) for asked, answer in answers.items()] == [(4, answers[0].ids), (3, answers[1].ids)]
    nobody = model.recommend([], "read")
    assert (len(nobody), len(nobody.to_arrow())) == (0, 0)


def test_many_similar_users_as_a_table(data: SocialDataset) -> None:
    model = mcne.BPR(**small_settings("bpr"), device="cpu").fit(data, progress=False)
    assert model.similar_users([4, 3], k=1).to_arrow().column_names == ["user_id", "rank", "similar_user_id", "score"]


@pytest.mark.parametrize("ids", ["integers", "text", "names"])
def test_empty_answers_have_the_columns_and_types_of_others(ids: str, data: SocialDataset) -> None:
    if ids != "integers":
        frame = pa.table({"user_id": ["a", "b", "b"], "item_id": ["x", "y", "z"], "behavior": ["read"] * 3})
        items = pa.table({"item_id": ["x", "y"], "name": ["Ex", "Why"]}) if ids == "names" else None
        users = pa.table({"user_id": ["a"], "name": ["Ann"]}) if ids == "names" else None
        links = pa.table({"source_id": ["a"], "target_id": ["b"]})
        data = mcne.datasets.from_frames(frame, links, items=items, users=users)
    some = [data.users[0], data.users[1]]
    catalog = data.behavior("read").items
    for method in ("bpr", "ease"):
        model = mcne.fit(method, data, progress=False, device="cpu", **small_settings(method))
        asks: list[Any] = [partial(model.recommend, behavior="read", k=1, filter_seen=False)]
        if method == "bpr":
            asks += [partial(model.similar_users, k=1), partial(model.similar_items, behavior="read", k=1)]
        for number, ask in enumerate(asks):
            full = ask(some if number < 2 else [catalog[0], catalog[1]])
            assert ask([]).to_arrow().schema == full.to_arrow().schema
            assert ask([]).to_polars().schema == full.to_polars().schema
            assert ask([]).to_pandas().dtypes.to_dict() == full.to_pandas().dtypes.to_dict()
        nothing = model.recommend(some, "read", exclude=list(catalog))
        one = model.recommend(some[0], "read", exclude=list(catalog))
        assert nothing.to_arrow().schema == model.recommend(some, "read", filter_seen=False).to_arrow().schema
        assert one.to_arrow().schema == model.recommend(some[0], "read", filter_seen=False).to_arrow().schema


def test_a_long_table_is_cut_in_a_notebook(model: Model) -> None:
    answers = model.recommend(list(range(10)), "read", k=10)
    assert "the first 50 of 100 rows" in answers._repr_html_()
    assert answers._repr_html_().count("<tr>") == 51
    assert len(str(answers).splitlines()) == 101


def test_ids_of_markup_stay_text() -> None:
    frame = pa.table({"user_id": ["a", "b"], "item_id": ["<b>", "x"], "behavior": ["read", "read"]})
    model = mcne.Popularity().fit(mcne.datasets.from_frames(frame), progress=False)
    assert "&lt;b&gt;" in model.recommend("b", filter_seen=False)._repr_html_()
