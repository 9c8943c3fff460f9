"""Slices: hand values, a loop over users, and slices that share out what was scored."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.errors import refused
from tests.evaluation.test_protocol import EVERY, Table, make, random_triples, tables

from mcne.data.dataset import SocialDataset
from mcne.data.split import PARTS, TEST, TRAIN, VALIDATION, Split, random_split
from mcne.errors import UsageError
from mcne.evaluation.protocol import Evaluation, evaluate
from mcne.evaluation.slices import SLICES, restricted, sliced, slices_of

USERS, ITEMS = SLICES[:2], SLICES[2:]


@pytest.fixture(scope="module")
def toy() -> tuple[SocialDataset, Split]:
    """Two behaviors in which every slice has users: some items and users lose their training records."""
    books = [
        (u, i, VALIDATION if u >= 30 or i % 7 == 0 else p) if p == TRAIN else (u, i, p)
        for u, i, p in random_triples(0, 40, 60, 0.3)
    ]
    return make(books, [(u, i, TEST if i % 5 == 0 else p) for u, i, p in random_triples(1, 40, 30, 0.2)])


def test_hand_values() -> None:
    # training records: item 0 three, 1 two, 2 one, 3 and 4 none; user 3 has none
    books = [(0, 0, TRAIN), (1, 0, TRAIN), (2, 0, TRAIN), (0, 1, TRAIN), (1, 1, TRAIN), (0, 2, TRAIN)]
    books += [(2, 1, TEST), (2, 3, TEST), (2, 4, TEST), (3, 0, TEST), (3, 2, TEST)]
    dataset, split = make(books)
    users, items = slices_of(dataset, split, behavior=0)
    assert {name: np.flatnonzero(inside).tolist() for name, inside in items.items()} == {
        "cold_items": [3, 4],
        "head_items": [0],
        "tail_items": [1, 2],
    }
    assert {name: np.flatnonzero(inside).tolist() for name, inside in users.items()} == {
        "cold_users": [3],
        "warm_users": [0, 1, 2],
    }
    # user 2's list is 3 1 2 4 (0 is known), user 3's is 1 0 4 3 2
    scorer = Table(np.array([[0] * 5, [0] * 5, [9, 3, 2, 4, 1], [4, 5, 1, 2, 3]]))
    got = sliced(evaluate(scorer, dataset, split, protocol="full", cutoffs=(2, 3)), dataset, split)
    assert list(got) == list(SLICES)
    scored = {name: one.behaviors["Books"].users.tolist() for name, one in got.items()}
    assert scored == {"cold_users": [3], "warm_users": [2], "cold_items": [2], "head_items": [3], "tail_items": [2, 3]}
    cold = got["cold_items"].behaviors["Books"]  # items 3 and 4 at places 0 and 3
    assert cold.counts.tolist() == [2]
    assert cold.metrics["recall@3"].tolist() == [0.5]
    assert cold.metrics["ndcg@3"].tolist() == pytest.approx([1 / (1 + 1 / math.log2(3))])
    tail = got["tail_items"].behaviors["Books"]  # item 1 at place 1 for user 2, item 2 at place 4 for user 3
    assert tail.metrics["recall@2"].tolist() == [1, 0]
    assert tail.metrics["ndcg@2"].tolist() == pytest.approx([1 / math.log2(3), 0])  # item 3, of no matter, is above
    assert tail.pooled == {"pooled_recall@2": 0.5, "pooled_recall@3": 0.5}
    assert got["head_items"].mean("Books", "mrr@2") == 0.5
    assert got["cold_users"].mean("Books", "recall@3") == 0.5  # places 1 and 4
    assert got["warm_users"].mean("Books", "recall@2") == pytest.approx(2 / 3)  # places 0, 1 and 3


def test_the_head_takes_in_what_ties_with_its_last_item() -> None:
    # 21 items with records: three make the head, whose third has two records like two more
    counts = [5, 4, 2, 2, 2, *([1] * 16)]
    dataset, split = make([(user, item, TRAIN) for item, count in enumerate(counts) for user in range(count)])
    _, items = slices_of(dataset, split, behavior=0)
    assert np.flatnonzero(items["head_items"]).tolist() == [0, 1, 2, 3, 4]
    assert np.count_nonzero(items["tail_items"]) == 16


def test_only_training_records_count() -> None:
    dataset, split = make([(0, 0, VALIDATION), (0, 1, TEST), (1, 0, TEST)])
    users, items = slices_of(dataset, split, behavior=0)
    assert items["cold_items"].all()
    assert not items["head_items"].any()
    assert not items["tail_items"].any()
    assert users["cold_users"].all()


def by_hand(table: np.ndarray, dataset: SocialDataset, split: Split, k: int, part: str, name: str) -> dict[int, float]:
    """Recall at 5 of full ranking on one slice, user by user, without ties."""
    behavior = dataset.behaviors[k]
    rows = list(zip(behavior.user.tolist(), behavior.item.tolist(), split.parts[k].tolist(), strict=True))
    records = [sum(i == item and p == TRAIN for _, i, p in rows) for item in range(behavior.n_items)]
    warm = sorted((count for count in records if count), reverse=True)
    head = warm[math.ceil(len(warm) / 10) - 1]
    recalls = {}
    for user in range(dataset.n_users):
        trained = any(u == user and p == TRAIN for u, _, p in rows)
        known = {i for u, i, p in rows if u == user and p < PARTS.index(part)}
        ranked = sorted(set(range(behavior.n_items)) - known, key=lambda i: -table[user, i])
        mine: Callable[[int], bool] = {
            "cold_users": lambda i: not trained,  # noqa: B023
            "warm_users": lambda i: trained,  # noqa: B023
            "cold_items": lambda i: records[i] == 0,
            "head_items": lambda i: records[i] >= head,
            "tail_items": lambda i: 0 < records[i] < head,
        }[name]
        own = [i for u, i, p in rows if u == user and p == PARTS.index(part) and mine(i)]
        if own:
            recalls[user] = sum(i in ranked[:5] for i in own) / len(own)
    return recalls


@pytest.mark.parametrize("part", ["validation", "test"])
def test_equals_a_loop_over_users(toy: Any, part: Any) -> None:
    dataset, split = toy
    scores = tables(dataset, 2, None)
    got = sliced(evaluate(Table(*scores), dataset, split, part=part, protocol="full"), dataset, split)
    filled = 0
    for name, evaluation in got.items():
        assert (evaluation.part, evaluation.protocol) == (part, "full")
        for k, (result, table) in enumerate(zip(evaluation.behaviors.values(), scores, strict=True)):
            expected = by_hand(table, dataset, split, k, part, name)
            assert result.users.tolist() == list(expected)
            assert result.metrics["recall@5"].tolist() == pytest.approx(list(expected.values()))
            filled += len(expected) > 0
    assert filled >= 8


@pytest.mark.parametrize(("part", "protocol"), EVERY)
def test_slices_share_out_what_was_scored(toy: Any, part: Any, protocol: Any) -> None:
    dataset, split = toy
    whole = evaluate(Table(*tables(dataset, 3, 5)), dataset, split, part=part, protocol=protocol)
    got = sliced(whole, dataset, split)
    for name, result in whole.behaviors.items():
        for family in (USERS, ITEMS):
            parts = [got[one].behaviors[name] for one in family]
            assert sum(each.counts.sum() for each in parts) == len(result.items)
            hits = sum((each.pooled["pooled_recall@5"] or 0) * each.counts.sum() for each in parts)
            assert hits / len(result.items) == pytest.approx(result.pooled["pooled_recall@5"])
        for one in USERS:  # a slice of users has the metrics that they had
            each = got[one].behaviors[name]
            inside = np.isin(result.users, each.users)
            assert np.array_equal(each.counts, result.counts[inside])
            for metric, values in each.metrics.items():
                assert np.array_equal(values, result.metrics[metric][inside])


def test_all_and_nothing(toy: Any) -> None:
    dataset, split = toy
    whole = evaluate(Table(*tables(dataset, 4, 3)), dataset, split)
    for keep, expected in ((True, whole.summary()["mean"]), (False, dict.fromkeys(whole.summary()["mean"]))):
        chosen = {name: np.full(len(result.items), keep) for name, result in whole.behaviors.items()}
        part: Evaluation = restricted(whole, chosen)
        assert part.summary()["mean"] == expected


def test_another_split_is_refused(toy: Any) -> None:
    dataset, split = toy
    whole = evaluate(Table(*tables(dataset, 4, 3)), dataset, split)
    with refused(UsageError, place="behavior 'Books'", value="Books"):
        sliced(whole, dataset, random_split(dataset, seed=1))
