"""Triples: training pairs with unseen items beside them, the distinct items once, the same whoever asks when."""

from __future__ import annotations

import tracemalloc

import numpy as np

from mcne.sampling.triples import Triples, TripleSampler

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
