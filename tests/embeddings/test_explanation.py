"""Why two users are connected or alike, computed by hand."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from tests.errors import refused

from mcne.data.graph import Graph, directed
from mcne.data.ids import Ids
from mcne.embeddings import ConditionalEmbeddings
from mcne.embeddings.explanation import Common, Contribution
from mcne.errors import UsageError

SOFTMAX = (np.exp([1, 2, 3]) / np.exp([1, 2, 3]).sum()).tolist()


def test_a_link_by_hand(tiny: ConditionalEmbeddings) -> None:
    why = tiny.explain(10, "20")
    assert (why.user_id, why.other_id, why.linked, why.remark) == (10, 20, True, "")
    assert why.attention_on == ("Books", "Travel", "other")
    to_user, to_other = why.messages
    assert (to_user.sender_id, to_user.receiver_id, to_user.share) == (20, 10, 0.5)
    assert (to_other.sender_id, to_other.receiver_id, to_other.share) == (10, 20, 0.5)
    assert np.array(to_user.attention) == pytest.approx(np.full((1, 3), 1 / 3))
    assert np.array(to_other.attention) == pytest.approx(np.array([SOFTMAX]))
    assert why.common_friends == Common(1, (30,))


def test_similarity_and_dimensions_by_hand(tiny: ConditionalEmbeddings) -> None:
    why = tiny.explain(10, 20)
    books, travel = why.behaviors
    assert (why.whole.inner_product, why.whole.cosine) == pytest.approx((4, 4 / np.sqrt(30)))
    assert (books.behavior, books.likeness.inner_product) == ("Books", 4)
    assert books.likeness.cosine == pytest.approx(0.8)
    assert books.likeness.dimensions == (Contribution(0, 2), Contribution(1, 2))
    assert travel.likeness.dimensions == (Contribution(1, 2),)
    assert travel.likeness.cosine == pytest.approx(1 / np.sqrt(2))
    assert (books.common_items, travel.common_items) == (Common(1, ("a",)), Common(1, ("x",)))


def test_users_without_a_link_have_everything_but_attention(tiny: ConditionalEmbeddings) -> None:
    why = tiny.explain(10, 40)
    assert (why.linked, why.messages, why.attention_on, why.common_friends) == (False, (), (), Common(0, ()))
    assert why.remark == "no attention: no message passes between users that are not linked"
    assert (why.whole.inner_product, why.whole.cosine, why.whole.dimensions) == (0, 0, ())
    assert [on.common_items.count for on in why.behaviors] == [0, 0]


def test_a_method_without_messages_says_so(parts: dict[str, Any]) -> None:
    bpr = ConditionalEmbeddings(**parts | {"trunk": None, "provenance": {"method": "bpr"}})
    why = bpr.explain(10, 20)
    assert (why.linked, why.messages) == (True, ())
    assert why.remark == "no attention: 'bpr' passes no messages along links"
    assert why.whole.inner_product == 4


def test_uniform_weights_say_so(parts: dict[str, Any]) -> None:
    trunk = dataclasses.replace(parts["trunk"], attention=None)
    why = ConditionalEmbeddings(**parts | {"trunk": trunk, "provenance": {"method": "mcne-a"}}).explain(10, 20)
    assert why.remark == "'mcne-a' weighs all behaviors alike"
    assert [message.attention for message in why.messages] == [((1 / 3, 1 / 3, 1 / 3),)] * 2


def test_bias_alone_has_common_ground_too(bias_alone: ConditionalEmbeddings) -> None:
    why = bias_alone.explain(10, 20)
    assert why.behaviors[0].common_items == Common(1, ("a",))
    assert (why.whole.inner_product, why.whole.cosine, why.whole.dimensions) == (0, 0, ())


def test_links_to_oneself_make_no_common_friend(parts: dict[str, Any]) -> None:
    # 10 to itself and 20, 20 to itself and 30
    graph = Graph(np.array([0, 2, 5, 6, 6], np.int32), np.array([0, 1, 0, 1, 2, 1], np.int32))
    why = ConditionalEmbeddings(**parts | {"graph": graph}).explain(10, 20)
    assert (why.linked, why.common_friends) == (True, Common(0, ()))
    assert [message.share for message in why.messages] == [1 / 2, 1 / 3]


def test_what_users_know_without_having_it_is_not_common(tiny: ConditionalEmbeddings) -> None:
    books, travel = tiny.spaces
    assert tiny.explain(10, 20).behaviors[0].common_items == Common(1, ("a",))
    knowing = dataclasses.replace(books, seen_known=np.array([False, True, False]))  # user 20 knows a and has b
    embeddings = dataclasses.replace(tiny, spaces=(knowing, travel))
    assert [on.common_items.count for on in embeddings.explain(10, 20).behaviors] == [0, 1]
    with pytest.raises(ValueError, match=r"seen known: bool \[3\] expected"):
        dataclasses.replace(books, seen_known=np.array([True]))


def test_long_lists_are_counted_and_cut(random_embeddings: Any) -> None:
    embeddings = random_embeddings(1, n_users=20, n_items=60, d=12)
    why = embeddings.explain("u000", "u002")  # u000 has seen every item
    for on, space in zip(why.behaviors, embeddings.spaces, strict=True):
        assert on.common_items == Common(len(space.seen(2)), tuple(space.items.take(space.seen(2)[:10])))
        parts = embeddings.vector("u000", on.behavior) * embeddings.vector("u002", on.behavior)
        assert on.likeness.inner_product == parts.sum()
        shown = [(part.dimension, part.value) for part in on.likeness.dimensions]
        ordered = sorted(((d, float(part)) for d, part in enumerate(parts) if part), key=lambda p: (-abs(p[1]), p[0]))
        assert shown == ordered[:5]
        near = embeddings.similar_users("u000", on.behavior, k=20)
        assert dict(near)["u002"] == on.likeness.inner_product


def test_it_is_plain_json(tiny: ConditionalEmbeddings) -> None:
    why = json.loads(json.dumps(tiny.explain(10, 20).to_json(), allow_nan=False))
    assert why["messages"][1]["attention"] == [pytest.approx(SOFTMAX)]
    assert why["behaviors"][0]["likeness"]["dimensions"][0] == {"dimension": 0, "value": 2.0}
    assert why["common_friends"] == {"count": 1, "ids": [30]}


def test_every_number_is_a_line_of_a_data_frame(tiny: ConditionalEmbeddings) -> None:
    why = tiny.explain(10, 20)
    frame = why.to_pandas()
    assert frame.columns.tolist() == ["part", "behavior", "what", "value"]
    assert [tuple(line) for line in why] == [
        ("similarity", "Books", "inner product", 4),
        ("similarity", "Books", "cosine", pytest.approx(0.8)),
        ("dimension", "Books", "0", 2),
        ("dimension", "Books", "1", 2),
        ("similarity", "Travel", "inner product", 2),
        ("similarity", "Travel", "cosine", pytest.approx(1 / np.sqrt(2))),
        ("dimension", "Travel", "1", 2),
        ("similarity", None, "inner product", 4),
        ("similarity", None, "cosine", pytest.approx(4 / np.sqrt(30))),
        ("dimension", None, "0", 2),
        ("dimension", None, "1", 2),
        ("share", None, "20 → 10", 0.5),
        *(("attention", on, "20 → 10, layer 1", pytest.approx(1 / 3)) for on in ("Books", "Travel", "other")),
        ("share", None, "10 → 20", 0.5),
        *(
            ("attention", on, "10 → 20, layer 1", pytest.approx(weight))
            for on, weight in zip(("Books", "Travel", "other"), SOFTMAX, strict=True)
        ),
        ("common friends", None, "count", 1),
        ("common friends", None, "30", None),
        ("common items", "Books", "count", 1),
        ("common items", "Books", "a", None),
        ("common items", "Travel", "count", 1),
        ("common items", "Travel", "x", None),
    ]
    table = why.to_arrow()
    assert table.to_pylist() == why.to_polars().to_dicts() == [line._asdict() for line in why]
    assert frame.query("part == 'attention' and behavior == 'other'")["value"].tolist() == pytest.approx(
        [1 / 3, SOFTMAX[2]]
    )


def test_a_notebook_shows_its_tables(tiny: ConditionalEmbeddings, parts: dict[str, Any]) -> None:
    shown = tiny.explain(10, 20)._repr_html_()
    assert shown.startswith("<p>users 10 and 20 are linked; common friends: 1 (30)</p>")
    assert shown.count("<table>") == 3
    assert "<td>1 (a)</td>" in shown
    assert "<p>no attention: no message passes" in tiny.explain(10, 40)._repr_html_()
    markup = ConditionalEmbeddings(**parts | {"users": Ids(["<a>", "b", "c", "d"])}).explain("<a>", "b")._repr_html_()
    assert "<a>" not in markup


def test_it_reads_well(tiny: ConditionalEmbeddings) -> None:
    assert str(tiny.explain(10, 20)).splitlines() == [
        "users 10 and 20 are linked; common friends: 1 (30)",
        "",
        "message, attention on  layer  Books  Travel  other  share",
        "20 → 10                1      0.333  0.333   0.333  0.500",
        "10 → 20                1      0.090  0.245   0.665  0.500",
        "",
        "similarity on     inner product  cosine  strongest dimensions",
        "Books             4              0.800   0 (+2), 1 (+2)",
        "Travel            2              0.707   1 (+2)",
        "the whole vector  4              0.730   0 (+2), 1 (+2)",
        "",
        "common items",
        "  Books: 1 (a)",
        "  Travel: 1 (x)",
    ]
    apart = str(tiny.explain(10, 40)).splitlines()
    assert apart[:3] == [
        "users 10 and 40 are not linked; common friends: 0",
        "",
        "no attention: no message passes between users that are not linked",
    ]
    assert str(Common(12, (1, 2))) == "12 (1, 2, …)"


def test_mistakes_are_named(tiny: ConditionalEmbeddings) -> None:
    with refused(UsageError, value=10):
        tiny.explain(10, "10")
    with pytest.raises(UsageError, match="unknown user 11"):
        tiny.explain(10, 11)


def followed(parts: dict[str, Any], **changes: Any) -> ConditionalEmbeddings:
    """10 and 20 follow each other; both follow 40, and 30 follows 10."""
    graph, _ = directed(4, np.array([0, 1, 0, 1, 2]), np.array([1, 0, 3, 3, 0]))
    return ConditionalEmbeddings(**parts | {"graph": graph} | changes)


def test_users_who_follow_each_other(parts: dict[str, Any]) -> None:
    why = followed(parts).explain(10, 20)
    assert (why.linked, why.follows, why.relation) == (True, ((10, 20), (20, 10)), "follow each other")
    assert [(message.sender_id, message.receiver_id) for message in why.messages] == [(20, 10), (10, 20)]
    assert why.common_friends == Common(1, (40,))  # and not 30, who follows one of them
    assert str(why).startswith("users 10 and 20 follow each other; common friends: 1 (40)\n")


def test_a_user_who_follows_the_other(parts: dict[str, Any]) -> None:
    model = followed(parts)
    for asked in ((10, 30), (30, 10)):
        why = model.explain(*asked)
        assert (why.linked, why.follows, why.relation) == (True, ((30, 10),), "are linked (30 follows 10)")
        assert [(message.sender_id, message.receiver_id, message.share) for message in why.messages] == [(10, 30, 1.0)]
        assert json.loads(json.dumps(why.to_json()))["follows"] == [[30, 10]]
    apart = model.explain(30, 20)
    assert (apart.linked, apart.follows, apart.messages) == (False, (), ())
    without = followed(parts, trunk=None, provenance={"method": "bpr"}).explain(10, 30)
    assert (without.relation, without.messages) == ("are linked (30 follows 10)", ())


def test_only_directed_networks_say_who_follows_whom(tiny: ConditionalEmbeddings) -> None:
    why = tiny.explain(10, 20)
    assert (why.follows, why.relation) == ((), "are linked")
    assert "follows" not in why.to_json()
    assert tiny.explain(10, 40).relation == "are not linked"


def test_friends_are_whom_one_follows(parts: dict[str, Any]) -> None:
    model = followed(parts)
    assert set(model.similar_users(10, k=4, friends="only").ids) == {20, 40}
    assert set(model.similar_users(10, k=4, friends="exclude").ids) == {30}
    assert model.similar_users(40, k=4, friends="only").ids == ()
