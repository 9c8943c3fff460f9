"""Triples: training pairs with unseen items beside them, the distinct items once, the same whoever asks when."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mcne.data.behavior import Behavior
from mcne.data.dataset import SocialDataset
from mcne.data.graph import undirected
from mcne.data.ids import Ids
from mcne.data.split import TEST, TRAIN, VALIDATION, supplied_split
from mcne.models.contract import TrainingData
from mcne.randomness import Stream
from mcne.sampling.triples import BLOCK, Positives, Triples, TripleSampler, Unseen, stable_order

SEEN = [
    {0: {0, 1, 2}, 1: {1}, 3: {0, 4}},  # five items
    {1: {0}, 2: {2}, 3: {0, 1, 2}},  # three items; user 3 has seen all
]
N_ITEMS = (5, 3)


def sampler(*, seed: int = 0, batch_size: int = 4, negatives: int = 3) -> TripleSampler:
    pairs = []
    for seen in SEEN:
        rows = sorted((user, item) for user, items in seen.items() for item in items)
        user, item = np.array(rows, dtype=np.int32).T
        pairs.append((user, item))
    return TripleSampler(pairs, n_users=5, n_items=N_ITEMS, negatives=negatives, batch_size=batch_size, seed=seed)


def listed(triples: Triples) -> list[tuple[int, int, list[int]]]:
    """(user, positive, negatives) in items of the catalog."""
    rows = zip(triples.user, triples.items[triples.positive], triples.items[triples.negative], strict=True)
    return [(int(user), int(positive), negative.tolist()) for user, positive, negative in rows]


def test_every_training_pair_once_per_epoch_with_unseen_items() -> None:
    source = sampler()
    assert source.n_steps == 2
    for behavior, seen in enumerate(SEEN):
        for epoch in range(30):
            drawn = [triple for step in range(2) for triple in listed(source.draw(behavior, epoch, step))]
            assert len(drawn) == 6
            for user, positive, negatives in drawn:
                assert positive in seen[user]
                assert len(negatives) == 3
                left = set(range(N_ITEMS[behavior])) - seen[user]
                assert set(negatives) <= (left or {positive})
            pairs = {(user, positive) for user, positive, _ in drawn}
            assert pairs == {(user, item) for user, items in seen.items() for item in items}


def test_items_are_distinct_increasing_and_all_used() -> None:
    source = sampler()
    for epoch in range(20):
        triples = source.draw(0, epoch, 0)
        used = np.concatenate([triples.positive, triples.negative.ravel()])
        assert np.array_equal(np.unique(used), np.arange(len(triples.items)))
        assert np.all(np.diff(triples.items) > 0)


def test_a_draw_depends_on_seed_behavior_epoch_and_step_alone() -> None:
    asked = [(behavior, epoch, step) for behavior in range(2) for epoch in range(3) for step in range(2)]
    expected = {key: listed(sampler().draw(*key)) for key in asked}
    source = sampler()
    for at in np.random.default_rng(0).permutation(len(asked)):
        assert listed(source.draw(*asked[at])) == expected[asked[at]]
    assert len({str(drawn) for drawn in expected.values()}) == len(asked)
    assert {key: listed(sampler(seed=1).draw(*key)) for key in asked} != expected


def test_every_behavior_epoch_and_step_draws_negatives_of_its_own() -> None:
    """All users have seen the same item, so the same random numbers would give the same negatives."""
    pairs = (np.arange(8, dtype=np.int32), np.zeros(8, dtype=np.int32))
    source = TripleSampler([pairs, pairs], n_users=8, n_items=(1000, 1000), negatives=3, batch_size=2, seed=0)
    drawn = set()
    for behavior in range(2):
        for epoch in range(3):
            for step in range(4):
                triples = source.draw(behavior, epoch, step)
                drawn.add(tuple(triples.items[triples.negative].ravel().tolist()))
    assert len(drawn) == 2 * 3 * 4


def test_a_behavior_without_training_pairs_gives_no_triples() -> None:
    none = np.zeros(0, np.int32)
    full = (np.array([0, 1], np.int32), np.array([0, 1], np.int32))
    source = TripleSampler([full, (none, none)], n_users=2, n_items=(2, 3), negatives=2, batch_size=1, seed=0)
    assert source.n_steps == 2
    triples = source.draw(1, 0, 0)
    assert listed(triples) == []
    assert triples.negative.shape == (0, 2)
    assert triples.items.tolist() == []


def test_a_draw_takes_memory_for_the_batch_alone() -> None:
    n_users, n_items, n_pairs = 300_000, 200_000, 400_000
    random = np.random.default_rng(0)
    keys = np.unique(random.integers(0, n_users * n_items, n_pairs))
    pairs = ((keys // n_items).astype(np.int32), (keys % n_items).astype(np.int32))
    source = TripleSampler([pairs], n_users=n_users, n_items=[n_items], negatives=5, batch_size=10, seed=0)
    source.draw(0, 0, 0)  # shuffles the epoch
    tracemalloc.start()
    try:
        source.draw(0, 0, 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50_000  # less than a byte per user, item or pair


def epoch_rows(positives: Positives, behavior: int, epoch: int = 0) -> list[int]:
    steps = [positives.rows(behavior, epoch, step).tolist() for step in range(positives.n_steps)]
    return [row for rows in steps for row in rows]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=4), st.integers(1, 50), st.integers(0, 3), st.integers(0, 2))
def test_an_epoch_covers_every_pair(sizes: list[int], batch_size: int, seed: int, epoch: int) -> None:
    positives = Positives(sizes, batch_size=batch_size, seed=seed)
    assert positives.n_steps == -(-max(sizes) // batch_size)
    for behavior, size in enumerate(sizes):
        rows = epoch_rows(positives, behavior, epoch)
        if not size:
            assert rows == []
            continue
        assert len(rows) == max(sizes)  # all behaviors take equally many
        cycles = [rows[start : start + size] for start in range(0, len(rows), size)]
        for cycle in cycles[:-1]:
            assert sorted(cycle) == list(range(size))
        assert set(cycles[-1]) <= set(range(size))
        assert len(set(cycles[-1])) == len(cycles[-1])  # a cycle that the epoch cuts short repeats nothing
        if size == max(sizes):
            assert sorted(rows) == list(range(size))


def test_steps_are_full_but_the_last() -> None:
    positives = Positives([10, 3], batch_size=4, seed=0)
    assert [[len(positives.rows(behavior, 0, step)) for step in range(3)] for behavior in (0, 1)] == [[4, 4, 2]] * 2
    assert positives.rows(0, 0, 3).tolist() == []


def test_every_cycle_epoch_behavior_and_seed_is_shuffled_anew() -> None:
    positives = Positives([60, 20, 60], batch_size=7, seed=0)
    orders = {tuple(epoch_rows(positives, 1, 0)[start : start + 20]) for start in (0, 20, 40)}
    orders |= {tuple(epoch_rows(positives, 1, 1)[start : start + 20]) for start in (0, 20, 40)}
    orders.add(tuple(epoch_rows(Positives([60, 20, 60], batch_size=7, seed=1), 1)[:20]))
    orders.add(tuple(range(20)))
    assert len(orders) == 8
    assert epoch_rows(positives, 0) != epoch_rows(positives, 2)


def test_the_order_of_pairs_does_not_depend_on_the_batch() -> None:
    assert epoch_rows(Positives([50, 20], batch_size=7, seed=3), 1) == epoch_rows(
        Positives([50, 20], batch_size=50, seed=3), 1
    )


def test_any_order_of_calls_gives_the_same_rows() -> None:
    asked = [(behavior, epoch, step) for behavior in range(3) for epoch in range(3) for step in range(8)]
    expected = {key: Positives([30, 4, 17], batch_size=4, seed=5).rows(*key).tolist() for key in asked}
    positives = Positives([30, 4, 17], batch_size=4, seed=5)
    for at in np.random.default_rng(0).permutation(len(asked)):
        assert positives.rows(*asked[at]).tolist() == expected[asked[at]]


@pytest.mark.parametrize("size", [1, 3, 7, BLOCK // 2, BLOCK // 2 + 1, BLOCK - 1, BLOCK, BLOCK + 1])
def test_the_cycles_of_a_block_are_shuffled_one_by_one(size: int) -> None:
    """By a stream for each block, which is a stream for each cycle where none fits in twice."""
    longest = 3 * BLOCK + 100
    per_block = max(1, BLOCK // size)
    rows = epoch_rows(Positives([longest, size], batch_size=777, seed=2), 1, epoch=4)
    expected: list[int] = []
    for block in range(-(-longest // (size * per_block))):
        stream = Stream(2, "positives", 1, 4, block)
        for _ in range(per_block):
            expected += stream.permutation(size).tolist()
    assert rows == expected[:longest]


def test_the_cycles_of_a_block_are_independent() -> None:
    rows = np.array(epoch_rows(Positives([30_000, 3], batch_size=30_000, seed=0), 1)).reshape(-1, 3)
    orders = Counter(map(tuple, rows.tolist()))
    assert len(orders) == 6
    assert stats.chisquare(list(orders.values())).pvalue > 1e-4
    follows = Counter(zip(map(tuple, rows[:-1].tolist()), map(tuple, rows[1:].tolist()), strict=True))
    assert len(follows) == 36
    assert stats.chisquare(list(follows.values())).pvalue > 1e-4


@pytest.fixture
def shuffled(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often a stream was asked for how many words."""
    asked: Counter[int] = Counter()
    original = Stream.bits

    def bits(stream: Stream, shape: int | tuple[int, ...]) -> np.ndarray:
        asked[int(np.prod(shape))] += 1
        return original(stream, shape)

    monkeypatch.setattr(Stream, "bits", bits)
    return asked


def test_a_long_behavior_is_shuffled_once_per_epoch(shuffled: Counter[int]) -> None:
    """However often a short one starts again meanwhile: else each step would cost a shuffle of all pairs."""
    positives = Positives([10_000, 3, 4000], batch_size=100, seed=0)
    for epoch in range(2):
        for step in range(positives.n_steps):
            for behavior in range(3):
                positives.rows(behavior, epoch, step)
    assert shuffled == {10_000: 2, 1023: 2 * 10, 4000: 2 * 3}


@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_step_never_takes_a_stream_for_each_of_many_short_cycles(size: int, shuffled: Counter[int]) -> None:
    assert len(Positives([1_000_000, size], batch_size=100_000, seed=0).rows(1, 0, 3)) == 100_000
    assert sum(shuffled.values()) <= 100_000 / (BLOCK - size) + 2


def test_nothing_to_learn_from_is_no_step() -> None:
    assert Positives([], batch_size=4, seed=0).n_steps == 0
    assert Positives([0, 0], batch_size=4, seed=0).n_steps == 0
    assert Positives([0, 0], batch_size=4, seed=0).rows(1, 0, 0).tolist() == []
    assert epoch_rows(Positives([1, 1], batch_size=128, seed=0), 1) == [0]


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
def test_draws_are_those_of_a_search_among_all_users(case: tuple[list[set[int]], int]) -> None:
    seen, n_items = case
    users, positives = np.arange(len(seen)), np.zeros(len(seen), int)
    unseen = unseen_of(seen, n_items)
    drawn = unseen.draw(users, positives, count=9, stream=Stream(1, "test"))
    n_unseen = n_items - np.diff(unseen.indptr)[:, None]
    k = Stream(1, "test").integers(n_unseen, (len(seen), 9))
    keys = np.repeat(users, np.diff(unseen.indptr)) * (n_items + 1) + unseen.gaps  # never decreasing
    below = np.searchsorted(keys, users[:, None] * (n_items + 1) + k, side="right") - unseen.indptr[:-1, None]
    assert drawn.tolist() == np.where(n_unseen > 0, k + below, positives[:, None]).tolist()


def test_draws_are_uniform_and_independent_per_user_and_column() -> None:
    seen = [{0, 3, 4, 9}, set(), {1, 2, 3, 4, 5, 6, 7, 8}, {5}]
    unseen = unseen_of(seen, 10)
    repeats = 4000
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


LARGEST = 2**64 - 1


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 63, 64, 65, 1000, 100_000])
def test_random_keys(size: int) -> None:
    keys = Stream(size, "keys").bits(size)
    order = stable_order(keys)
    assert order.dtype == np.int64
    assert np.array_equal(order, np.argsort(keys, kind="stable"))


@given(st.lists(st.sampled_from([0, 1, 2**32, 2**63 - 1, 2**63, LARGEST - 1, LARGEST])))
def test_equal_and_extreme_keys(listed: list[int]) -> None:
    keys = np.array(listed, np.uint64)
    assert stable_order(keys).tolist() == np.argsort(keys, kind="stable").tolist()


def test_a_long_shuffle_is_a_permutation_of_its_stream() -> None:
    shuffled = Positives([5000], batch_size=5000, seed=1).rows(0, 0, 0)
    assert shuffled.tolist() == Stream(1, "positives", 0, 0, 0).permutation(5000).tolist()
