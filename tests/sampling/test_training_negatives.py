"""Training negatives: uniform over what a user has no training record of, and nothing else counts (reading 9)."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mcne.data.dataset import Behavior, SocialDataset
from mcne.data.graph import undirected
from mcne.data.ids import Ids
from mcne.data.split import TEST, TRAIN, VALIDATION, supplied_split
from mcne.models.contract import TrainingData
from mcne.randomness import Stream
from mcne.sampling.negatives import Unseen
from mcne.sampling.triples import TripleSampler


class Chosen(Stream):
    """A stream whose whole numbers are given."""

    def __init__(self, numbers: np.ndarray) -> None:
        super().__init__(0, "unused")
        self.numbers = numbers

    def integers(self, high: Any, shape: Any) -> np.ndarray:
        assert shape == self.numbers.shape
        assert np.all((self.numbers < high) | (self.numbers == 0))
        return self.numbers


def unseen_of(seen: list[set[int]], n_items: int) -> Unseen:
    pairs = [(user, item) for user, items in enumerate(seen) for item in sorted(items)]
    user, item = np.array(pairs, dtype=np.int32).reshape(-1, 2).T
    return Unseen(user, item, n_users=len(seen), n_items=n_items)


@st.composite
def seen_items(draw: st.DrawFn) -> tuple[list[set[int]], int]:
    n_items = draw(st.integers(1, 14))
    return draw(st.lists(st.sets(st.integers(0, n_items - 1)), min_size=1, max_size=5)), n_items


@settings(max_examples=300, deadline=None)
@given(seen_items())
def test_the_kth_unseen_item_is_that_of_a_list(case: tuple[list[set[int]], int]) -> None:
    seen, n_items = case
    users = np.arange(len(seen))[::-1]
    left = [[item for item in range(n_items) if item not in seen[user]] for user in users]
    count = max(map(len, left), default=0)
    numbers = np.array([[k % max(1, len(items)) for k in range(count)] for items in left]).reshape(len(seen), count)
    positives = np.full(len(seen), -7)
    drawn = unseen_of(seen, n_items).draw(users, positives, count=count, stream=Chosen(numbers))
    expected = [[items[k % len(items)] if items else -7 for k in range(count)] for items in left]
    assert drawn.tolist() == expected


@given(seen_items())
def test_without_numba_the_draws_are_the_same(case: tuple[list[set[int]], int]) -> None:
    seen, n_items = case
    users, positives = np.arange(len(seen)), np.zeros(len(seen), int)
    unseen = unseen_of(seen, n_items)
    compiled = unseen.draw(users, positives, count=9, stream=Stream(1, "test"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "mcne.sampling.negatives_numba", None)
        plain = unseen.draw(users, positives, count=9, stream=Stream(1, "test"))
    assert compiled.tolist() == plain.tolist()


def test_draws_are_uniform_and_independent_per_user_and_column() -> None:
    seen = [{0, 3, 4, 9}, set(), {1, 2, 3, 4, 5, 6, 7, 8}, {5}]
    unseen, repeats = unseen_of(seen, 10), 4000
    users = np.tile(np.arange(4), repeats)
    drawn = unseen.draw(users, np.zeros(len(users), int), count=3, stream=Stream(1, "test"))
    for user, items in enumerate(seen):
        mine = drawn[users == user]
        left = [item for item in range(10) if item not in items]
        assert set(np.unique(mine)) == set(left)
        for column in range(3):
            assert stats.chisquare([np.sum(mine[:, column] == item) for item in left]).pvalue > 1e-4
        pairs = [np.sum((mine[:, 0] == a) & (mine[:, 1] == b)) for a in left for b in left]
        assert stats.chisquare(pairs).pvalue > 1e-4


def test_a_user_who_has_seen_everything_gets_its_positive() -> None:
    unseen = unseen_of([{0, 1, 2}, {0, 1}], 3)
    drawn = unseen.draw(np.array([0, 1, 0]), np.array([1, 0, 2]), count=4, stream=Stream(0, "test"))
    assert drawn.tolist() == [[1] * 4, [2] * 4, [2] * 4]


def test_a_catalog_of_one_item() -> None:
    unseen = unseen_of([{0}, set()], 1)
    assert unseen.draw(np.array([0, 1]), np.array([0, 0]), count=2, stream=Stream(0, "x")).tolist() == [[0, 0], [0, 0]]


def test_nobody_and_nothing() -> None:
    unseen = unseen_of([set(), set()], 5)
    none = np.zeros(0, np.int64)
    assert unseen.draw(none, none, count=3, stream=Stream(0, "x")).shape == (0, 3)
    assert unseen.draw(np.array([1]), np.array([0]), count=0, stream=Stream(0, "x")).shape == (1, 0)
    drawn = unseen.draw(np.array([0, 1] * 50), np.zeros(100, int), count=3, stream=Stream(0, "x"))
    assert set(np.unique(drawn)) == set(range(5))


def test_large_catalogs_do_not_overflow() -> None:
    """Offsets are int32 and item rows may be near 2^31: sums must not wrap."""
    n_items = 2**31 - 1
    seen = np.array([0, n_items - 2, n_items - 1], dtype=np.int32)
    unseen = Unseen(np.zeros(3, np.int32), seen, n_users=1, n_items=n_items)
    numbers = np.array([[0, n_items - 4]])
    assert unseen.draw(np.array([0]), np.array([0]), count=2, stream=Chosen(numbers)).tolist() == [[1, n_items - 3]]


# --- nothing of validation and test ---


def dataset() -> SocialDataset:
    """Ten users and eight items, a random half of the pairs and each item once."""
    touched = np.random.default_rng(0).random((10, 8)) < 0.5
    touched[0] = True
    user, item = (rows.astype(np.int32) for rows in np.nonzero(touched))
    nobody = np.zeros(0, np.int32)
    books = Behavior("Books", Ids(np.arange(8)), user, item)
    return SocialDataset("toy", Ids(np.arange(10)), undirected(10, nobody, nobody)[0], (books,))


def drawn_with(data: SocialDataset, parts: np.ndarray) -> list[tuple[int, int, list[int]]]:
    training = TrainingData.of(data, supplied_split(data, [parts], seed=0))
    sampler = TripleSampler(
        training.pairs, n_users=training.n_users, n_items=training.n_items, negatives=6, batch_size=5, seed=3
    )
    triples = [sampler.draw(0, epoch, step) for epoch in range(4) for step in range(sampler.n_steps)]
    return [
        (int(u), int(t.items[p]), t.items[n].tolist())
        for t in triples
        for u, p, n in zip(t.user, t.positive, t.negative, strict=True)
    ]


@pytest.mark.parametrize("first", [VALIDATION, TEST])
def test_draws_know_nothing_of_validation_and_test(first: int) -> None:
    data = dataset()
    random = np.random.default_rng(1)
    is_training = random.random(len(data.behaviors[0])) < 0.5
    one = np.where(is_training, TRAIN, first).astype(np.uint8)
    other = np.where(is_training, TRAIN, random.integers(VALIDATION, TEST + 1, len(one))).astype(np.uint8)
    assert not np.array_equal(one, other)
    drawn = drawn_with(data, one)
    assert drawn == drawn_with(data, other)
    user, item = data.behaviors[0].user, data.behaviors[0].item
    training = set(zip(user[is_training].tolist(), item[is_training].tolist(), strict=True))
    held_out = set(zip(user[~is_training].tolist(), item[~is_training].tolist(), strict=True))
    negatives = {(u, n) for u, _, many in drawn for n in many}
    assert {(u, p) for u, p, _ in drawn} == training
    assert not negatives & training
    assert len(negatives & held_out) > len(held_out) / 2  # held-out items are drawn like any other
