"""Positives: every pair once per epoch, shorter behaviors cycled, and the same whoever asks when."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcne.randomness import Stream
from mcne.sampling.positives import Positives


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


def test_a_long_behavior_is_shuffled_once_per_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a short one starts again meanwhile: else each step would cost a shuffle of all pairs."""
    shuffled: Counter[int] = Counter()
    original = Stream.permutation

    def permutation(stream: Stream, size: int) -> np.ndarray:
        shuffled[size] += 1
        return original(stream, size)

    monkeypatch.setattr(Stream, "permutation", permutation)
    positives = Positives([1000, 3, 400], batch_size=100, seed=0)
    for epoch in range(2):
        for step in range(positives.n_steps):
            for behavior in range(3):
                positives.rows(behavior, epoch, step)
    assert shuffled[1000] == 2
    assert shuffled[400] == 2 * 3


def test_nothing_to_learn_from_is_no_step() -> None:
    assert Positives([], batch_size=4, seed=0).n_steps == 0
    assert Positives([0, 0], batch_size=4, seed=0).n_steps == 0
    assert Positives([0, 0], batch_size=4, seed=0).rows(1, 0, 0).tolist() == []
    assert epoch_rows(Positives([1, 1], batch_size=128, seed=0), 1) == [0]
