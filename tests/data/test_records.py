"""Ratings decide which rows are records; the others are pairs that users know. Compared with loops over rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.values import not_none

from mcne.data.assemble import Ledger, UserFilter
from mcne.data.behavior import Behavior
from mcne.data.dataset import SocialDataset
from mcne.errors import DataError, UsageError

Rows = list[tuple[int, int, str, int, int]]  # user, item, behavior, rating, time
COLUMNS = ("user_id", "item_id", "behavior", "rating", "timestamp")


def table(rows: Rows) -> pa.Table:
    return pa.table(dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True)))


def build(rows: Rows, links: list[tuple[int, int]] | None = None, **options: Any) -> SocialDataset:
    pairs = (
        None if links is None else pa.table({"source_id": [a for a, _ in links], "target_id": [b for _, b in links]})
    )
    return SocialDataset.from_frames(table(rows), pairs, **options)


def records_of(dataset: SocialDataset, name: str) -> dict[tuple[Any, Any], tuple[float, int]]:
    """User and item → rating and time."""
    behavior = dataset.behavior(name)
    values = zip(not_none(behavior.weight).tolist(), not_none(behavior.timestamp).tolist(), strict=True)
    return dict(zip(_pairs(dataset, behavior, behavior.user, behavior.item), values, strict=True))


def known_of(dataset: SocialDataset, name: str) -> set[tuple[Any, Any]]:
    behavior = dataset.behavior(name)
    if behavior.known_user is None:
        return set()
    return set(_pairs(dataset, behavior, behavior.known_user, behavior.known_item))


def _pairs(dataset: SocialDataset, behavior: Behavior, user: Any, item: Any) -> list[tuple[Any, Any]]:
    return list(zip(dataset.users.take(user), behavior.items.take(item), strict=True))


def ledgers_of(dataset: SocialDataset) -> dict[str, Ledger]:
    return {ledger.what: ledger for ledger in not_none(dataset.report).ledgers}


# --- by hand ---

RATED: Rows = [
    (1, 10, "a", 5, 100),
    (1, 11, "a", 2, 90),  # known
    (1, 12, "a", 1, 80),  # of an item that nobody rated well
    (2, 11, "a", 4, 70),
    (2, 10, "a", 3, 60),  # below, and then above
    (2, 10, "a", 4, 65),
    (2, 10, "a", 5, 68),
    (3, 10, "a", 1, 50),  # of a user that nothing else is known of
    (4, 10, "a", 2, 40),  # of a user with a link
    (4, 10, "a", 1, 40),
]


def test_what_is_rated_below_is_known() -> None:
    dataset = build(RATED, [(1, 4)], positive_from=4)
    assert list(dataset.users) == [1, 2, 4]
    assert list(dataset.behavior("a").items) == [10, 11]
    assert records_of(dataset, "a") == {(1, 10): (5, 100), (2, 10): (5, 65), (2, 11): (4, 70)}
    assert known_of(dataset, "a") == {(1, 11), (4, 10)}
    assert not_none(dataset.report).lines() == [
        "users: 3 read, 3 kept",
        "links: 1 read, 1 kept",
        "a interactions: 4 read, 3 kept, 1 merged (repeat of the same user and item)",
        "a items: 2 read, 2 kept",
        "a known only (rated below 4): 6 read, 2 kept, 1 merged (repeat of the same user and item), 1 merged (an "
        "interaction as well), 1 dropped (of a user that the dataset does not have), 1 dropped (of an item without "
        "interactions)",
    ]
    assert dataset.provenance["positive_from"] == 4
    assert "by 2 users, timed, rated" in repr(dataset)


def test_without_a_threshold_every_row_is_a_record() -> None:
    dataset = build(RATED)
    assert len(dataset.behavior("a")) == 7
    assert records_of(dataset, "a")[2, 10] == (5, 60)
    assert known_of(dataset, "a") == set()
    assert "positive_from" not in dataset.provenance


def test_without_ratings_nothing_changes() -> None:
    plain = table(RATED).drop_columns("rating")
    dataset = SocialDataset.from_frames(plain)
    assert dataset.behavior("a").weight is None
    unnamed = SocialDataset.from_frames(
        table(RATED).rename_columns(["user_id", "item_id", "behavior", "x", "timestamp"])
    )
    assert dataset.fingerprint == unnamed.fingerprint
    assert "rated" not in repr(dataset)


def test_a_threshold_below_all_ratings_leaves_no_trace() -> None:
    assert build(RATED, positive_from=1).fingerprint == build(RATED).fingerprint


def test_filters_count_records_alone() -> None:
    dataset = build(RATED, [(1, 4), (2, 4)], positive_from=4, user_filter=UserFilter(min_records=2))
    assert list(dataset.users) == [2]
    assert known_of(dataset, "a") == set()
    ledger = ledgers_of(dataset)["a known only (rated below 4)"]
    assert ledger.dropped == {"of a user that the dataset does not have": 5}  # users 1, 3, 4
    assert ledger.merged == {"an interaction as well": 1}


def test_a_behavior_that_nobody_rated_well_is_refused() -> None:
    rows: Rows = [*RATED, (1, 10, "b", 3, 1)]
    with pytest.raises(DataError, match="behavior 'b': none of its interactions is rated 4 or higher") as refused:
        build(rows, positive_from=4)
    assert "--positive-from" in refused.value.remedy
    assert build(rows, positive_from=4, behaviors=["a"]).behavior_names == ["a"]


# --- naive ---

RANDOM_ROWS = st.lists(
    st.tuples(st.integers(1, 5), st.integers(1, 4), st.sampled_from("ab"), st.integers(1, 5), st.integers(0, 9)),
    max_size=40,
).map(lambda rows: [*rows, (1, 1, "a", 5, 5), (1, 1, "b", 5, 5)])


@settings(max_examples=150, deadline=None)
@given(
    RANDOM_ROWS, st.lists(st.tuples(st.integers(1, 7), st.integers(1, 7)), max_size=4), st.sampled_from([None, 2, 4])
)
def test_any_ratings(rows: Rows, links: list[tuple[int, int]], threshold: int | None) -> None:
    dataset = build(rows, links or [(1, 1)], positive_from=threshold)
    least = threshold or 0
    users = {u for u, _, _, rating, _ in rows if rating >= least} | {u for pair in links for u in pair}
    assert set(dataset.users) == users
    for name in dataset.behavior_names:
        mine = [(u, i, rating, time) for u, i, behavior, rating, time in rows if behavior == name]
        good = [row for row in mine if row[2] >= least]
        items = {i for _, i, *_ in good}
        records = {
            (u, i): (
                max(r for a, b, r, _ in good if (a, b) == (u, i)),
                min(t for a, b, _, t in good if (a, b) == (u, i)),
            )
            for u, i, *_ in good
        }
        assert records_of(dataset, name) == records
        below = {(u, i) for u, i, rating, _ in mine if rating < least and u in users and i in items}
        assert known_of(dataset, name) == below - set(records)
    if threshold:
        read = [
            ledger.read for what, ledger in ledgers_of(dataset).items() if "interactions" in what or "known" in what
        ]
        assert sum(read) == len(rows)


# --- pairs that are listed as known ---


def known_table(rows: list[tuple[Any, Any, str]]) -> pa.Table:
    return pa.table(
        {"user_id": [u for u, *_ in rows], "item_id": [i for _, i, _ in rows], "behavior": [b for *_, b in rows]}
    )


def test_pairs_that_are_listed_are_known() -> None:
    listed = [(1, 11, "a"), (1, 11, "a"), (2, 10, "a"), (9, 10, "a"), (1, 99, "a"), (1, 10, "other")]
    dataset = build(RATED, behaviors=["a"], known=known_table(listed), positive_from=4)
    assert known_of(dataset, "a") == {(1, 11)}
    ledgers = ledgers_of(dataset)
    both = ledgers["a known only (rated below 4 or listed as known)"]
    assert (both.read, both.kept) == (6 + 5, 1)
    assert ledgers["known pairs of other behaviors"].dropped == {"behavior not chosen": 1}


def test_known_pairs_of_a_table_without_ratings(tmp_path: Path) -> None:
    (tmp_path / "i.csv").write_text("user_id,item_id\n7,x\n8,y\n")
    (tmp_path / "k.csv").write_text("user_id,item_id\n7,y\n")
    dataset = SocialDataset.from_frames(tmp_path / "i.csv", known=tmp_path / "k.csv", single_behavior="a")
    assert known_of(dataset, "a") == {(7, "y")}
    assert str(tmp_path / "k.csv") in dataset.provenance["sources"]
    assert "a known only (listed as known): 1 read, 1 kept" in not_none(dataset.report).lines()


def test_known_pairs_need_the_columns_of_interactions() -> None:
    with pytest.raises(DataError, match="known: column 'behavior' is missing"):
        build(RATED, known=known_table([(1, 11, "a")]).drop_columns("behavior"))
    with pytest.raises(UsageError, match="unknown standard column 'stars'"):
        build(RATED, columns={"stars": "rating"})
