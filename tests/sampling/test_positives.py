"""Positives: every pair once per epoch, shorter behaviors cycled, and the same whoever asks when."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mcne.randomness import Stream
from mcne.sampling.positives import BLOCK, Positives


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
    longest, per_block = 3 * BLOCK + 100, max(1, BLOCK // size)
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
