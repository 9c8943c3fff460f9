"""Neighborhoods: real neighbors with the right chances, each distinct user once per layer (reading 11)."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mcne.data.graph import Graph, directed, undirected
from mcne.randomness import Stream
from mcne.sampling.neighbors import SPARSE, Hop, LinkSampler, Neighborhood, NeighborSampler, Noise, distinct


def graph_of(n_users: int, links: list[tuple[int, int]], weights: list[float] | None = None) -> Graph:
    source, target = np.array(links, dtype=np.int32).reshape(-1, 2).T
    return undirected(n_users, source, target, None if weights is None else np.array(weights, np.float32))[0]


def level_users(around: Neighborhood) -> list[np.ndarray]:
    """The users of every level, the initial one first."""
    levels = [around.users]
    for hop in around.hops:
        levels.append(levels[-1][hop.receiver])
    return levels


def heard_by(around: Neighborhood, layer: int) -> dict[int, list[int]]:
    """For every user of the level above a layer, the users whom it hears."""
    users, hop = level_users(around)[layer], around.hops[layer]
    rows = zip(users[hop.receiver], users[hop.sender], hop.has_neighbors, strict=True)
    return {int(receiver): senders.tolist() if heard else [] for receiver, senders, heard in rows}


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Graph, list[int]]:
    n_users = draw(st.integers(1, 9))
    ends = st.integers(0, n_users - 1)
    links = draw(st.lists(st.tuples(ends, ends), max_size=14))
    weights = draw(st.none() | st.lists(st.floats(0.125, 8, width=32), min_size=len(links), max_size=len(links)))
    return graph_of(n_users, links, weights), sorted(draw(st.sets(ends)))


@settings(max_examples=200, deadline=None)
@given(graphs(), st.lists(st.integers(1, 4), max_size=3), st.booleans(), st.integers(0, 3))
def test_every_neighborhood_is_whole_and_has_nothing_to_spare(
    case: tuple[Graph, list[int]], sizes: list[int], weighted: bool, step: int
) -> None:
    graph, seeds = case
    around = NeighborSampler(graph, sizes, weighted=weighted).sample(np.array(seeds, int), seed=1, epoch=2, step=step)
    levels = level_users(around)
    assert levels[-1].tolist() == seeds
    assert len(around.hops) == len(sizes)
    for layer, (hop, size) in enumerate(zip(around.hops, sizes, strict=True)):
        below, above = levels[layer], levels[layer + 1]
        assert np.all(np.diff(below) > 0)
        assert hop.sender.shape == (len(above), size)
        assert np.array_equal(hop.has_neighbors, graph.degrees[above] > 0)
        assert np.all((hop.sender >= 0) & (hop.sender < max(1, len(below))))  # valid rows, also where nobody is heard
        needed = set(above.tolist())
        for receiver, senders in heard_by(around, layer).items():
            assert set(senders) <= set(graph.neighbors(receiver).tolist())
            needed |= set(senders)
        assert below.tolist() == sorted(needed)  # one row per distinct user, and no user that nobody needs


def test_a_neighborhood_by_hand() -> None:
    """0 – 1 – 2 – 3, and 4 alone: with one neighbor each, nothing is left to chance but whom 1 and 2 hear."""
    graph = graph_of(5, [(0, 1), (1, 2), (2, 3)])
    around = NeighborSampler(graph, [2]).sample(np.array([0, 3, 4]), seed=0, epoch=0, step=0)
    assert around.users.tolist() == [0, 1, 2, 3, 4]
    (hop,) = around.hops
    assert hop.receiver.tolist() == [0, 3, 4]
    assert hop.sender[:2].tolist() == [[1, 1], [2, 2]]
    assert hop.has_neighbors.tolist() == [True, True, False]


def test_the_first_size_belongs_to_the_first_layer() -> None:
    graph = graph_of(6, [(a, b) for a in range(6) for b in range(a)])
    around = NeighborSampler(graph, [4, 2]).sample(np.array([1]), seed=0, epoch=0, step=0)
    assert [hop.sender.shape[1] for hop in around.hops] == [4, 2]
    assert around.hops[1].sender.shape == (1, 2)


def counts(sampler: NeighborSampler, user: int, *, n_users: int, draws: int = 2000) -> np.ndarray:
    """How often a user hears each other one, [sample, users]."""
    total = np.zeros((4, n_users), dtype=int)
    for step in range(draws // 4):
        heard = heard_by(sampler.sample(np.array([user]), seed=7, epoch=1, step=step), 0)[user]
        for column, sender in enumerate(heard):
            total[column, sender] += 1
    return total


def test_neighbors_are_drawn_uniformly_with_replacement() -> None:
    graph = graph_of(8, [(0, 2), (0, 3), (0, 5), (0, 6), (0, 7), (1, 2), (4, 4), (0, 0)])
    sampler = NeighborSampler(graph, [4])
    drawn = counts(sampler, 0, n_users=8, draws=8000)
    neighbors = [0, 2, 3, 5, 6, 7]
    assert drawn[:, [1, 4]].sum() == 0
    for column in range(4):
        assert stats.chisquare(drawn[column, neighbors]).pvalue > 1e-4
    assert counts(sampler, 4, n_users=8)[:, 4].tolist() == [500] * 4  # linked to itself alone
    samples = [heard_by(sampler.sample(np.array([0]), seed=7, epoch=1, step=k), 0)[0] for k in range(300)]
    distinct = sum(len(set(heard)) == 4 for heard in samples) / 300
    assert abs(distinct - 6 * 5 * 4 * 3 / 6**4) < 0.12  # four draws of six are all different with chance 0.28


@pytest.mark.parametrize("scale", [1.0, 1e-18, 1e18])
def test_weighted_draws_are_in_proportion_to_weights(scale: float) -> None:
    """Whatever the weights of other users, many orders of magnitude larger or smaller."""
    links = [(0, 1), (2, 3), (2, 4), (2, 5), (2, 6), (7, 8)]
    weights = [3.0, scale, 2 * scale, 4 * scale, 0.25 * scale, 5.0]
    sampler = NeighborSampler(graph_of(10, links, weights), [4], weighted=True)
    drawn = counts(sampler, 2, n_users=10, draws=8000)
    expected = np.array([1, 2, 4, 0.25]) / 7.25 * 2000
    for column in range(4):
        assert drawn[column].sum() == 2000
        assert stats.chisquare(drawn[column, 3:7], expected).pvalue > 1e-4
    assert counts(sampler, 3, n_users=10)[:, 2].tolist() == [500] * 4
    assert counts(sampler, 9, n_users=10).sum() == 0


def test_weighted_draws_without_weights_are_uniform() -> None:
    graph = graph_of(6, [(0, 1), (0, 2), (0, 3), (4, 5)])
    drawn = counts(NeighborSampler(graph, [4], weighted=True), 0, n_users=6, draws=4000)
    assert stats.chisquare(drawn[:, 1:4].sum(axis=0)).pvalue > 1e-4


def test_weights_change_nothing_unless_asked_for() -> None:
    links = [(0, 1), (0, 2), (0, 3)]
    seeds = np.arange(4)
    plain = NeighborSampler(graph_of(4, links), [3, 2]).sample(seeds, seed=0, epoch=0, step=0)
    weighted = NeighborSampler(graph_of(4, links, [1, 50, 1]), [3, 2]).sample(seeds, seed=0, epoch=0, step=0)
    assert as_lists(plain) == as_lists(weighted)


def as_lists(around: Neighborhood) -> list[Any]:
    def plain(hop: Hop) -> list[Any]:
        return [hop.receiver.tolist(), hop.sender[hop.has_neighbors].tolist(), hop.has_neighbors.tolist()]

    return [around.users.tolist(), [plain(hop) for hop in around.hops]]


def random_graph(seed: int, n_users: int, n_links: int) -> Graph:
    source, target = np.random.default_rng(seed).integers(0, n_users, (2, n_links)).astype(np.int32)
    return undirected(n_users, source, target)[0]


def test_a_sample_depends_on_its_arguments_alone() -> None:
    graph = random_graph(0, 50, 300)
    seeds = np.arange(0, 50, 3)
    asked = [(seed, epoch, step) for seed in range(2) for epoch in range(3) for step in range(4)]

    def sample(sampler: NeighborSampler, at: int) -> list[Any]:
        seed, epoch, step = asked[at]
        return as_lists(sampler.sample(seeds, seed=seed, epoch=epoch, step=step))

    expected = [sample(NeighborSampler(graph, [3, 2]), at) for at in range(len(asked))]
    sampler = NeighborSampler(graph, [3, 2])
    for at in np.random.default_rng(0).permutation(len(asked)):
        assert sample(sampler, at) == expected[at]
    assert len({str(drawn) for drawn in expected}) == len(asked)


def test_a_user_draws_once_per_layer_and_anew_in_the_next() -> None:
    """Complete graph: every path to a user on one layer sees the same neighbors, on another layer others."""
    graph = graph_of(30, [(a, b) for a in range(30) for b in range(a)])
    around = NeighborSampler(graph, [5, 5]).sample(np.arange(30), seed=0, epoch=0, step=0)
    lower, upper = heard_by(around, 0), heard_by(around, 1)
    assert sorted(lower) == sorted(upper) == list(range(30))  # a row for each, and no user twice
    assert sum(lower[user] == upper[user] for user in range(30)) == 0


def test_no_seeds_no_links_and_no_layers() -> None:
    empty = np.zeros(0, np.int64)
    alone = graph_of(3, [])
    around = NeighborSampler(graph_of(3, [(0, 1)]), [2, 2]).sample(empty, seed=0, epoch=0, step=0)
    assert as_lists(around) == [[], [[[], [], []], [[], [], []]]]
    for weighted in (False, True):
        around = NeighborSampler(alone, [2], weighted=weighted).sample(np.array([0, 2]), seed=0, epoch=0, step=0)
        assert as_lists(around) == [[0, 2], [[[0, 1], [], [False, False]]]]
        assert np.all(around.hops[0].sender < 2)
    assert as_lists(NeighborSampler(alone, []).sample(np.array([1]), seed=0, epoch=0, step=0)) == [[1], []]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_sample_takes_memory_for_the_batch_alone(weighted: bool) -> None:
    sampler = NeighborSampler(random_graph(1, 200_000, 600_000), [5, 5], weighted=weighted)
    seeds = np.arange(0, 200_000, 20_000)
    sampler.sample(seeds, seed=0, epoch=0, step=0)
    tracemalloc.start()
    try:
        around = sampler.sample(seeds, seed=0, epoch=0, step=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(around.users) > 100
    assert peak < 100_000  # less than a byte per user


def test_directed_links_are_drawn_as_they_are_and_neighbors_are_those_followed() -> None:
    graph, _ = directed(4, np.array([0, 1, 1]), np.array([1, 2, 0]))
    source, target = LinkSampler(graph).draw(300, Stream(0, "links"))
    assert set(zip(source.tolist(), target.tolist(), strict=True)) == {(0, 1), (1, 2), (1, 0)}
    hop = NeighborSampler(graph, [8]).sample(np.arange(4), seed=0, epoch=0, step=0).hops[0]
    assert hop.has_neighbors.tolist() == [True, True, False, False]
    assert [set(row.tolist()) for row in hop.sender[:2]] == [{1}, {0, 2}]


def test_noise_counts_both_ends_of_directed_links() -> None:
    graph, _ = directed(5, np.array([0, 1, 1]), np.array([1, 2, 0]), np.array([1, 2, 4], np.float32))
    for weighted, degrees in ((False, [2, 3, 1, 0, 0]), (True, [5, 7, 2, 0, 0])):
        drawn = Noise(graph, weighted=weighted).draw(9000, Stream(0, "noise"))
        chances = np.array(degrees) ** 0.75
        expected = chances[:3] / chances.sum() * 9000
        observed = np.bincount(drawn, minlength=5)
        assert observed[3:].tolist() == [0, 0]
        assert stats.chisquare(observed[:3], expected).pvalue > 1e-4


# --- distinct numbers ---


@given(st.lists(st.lists(st.integers(0, 19)), min_size=1, max_size=3))
def test_marking_equals_sorting(lists: list[list[int]]) -> None:
    drawn = [np.array(each, np.int64) for each in lists]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mcne.sampling.neighbors.SPARSE", 20)
        marked = distinct(20, *drawn)
        patch.setattr("mcne.sampling.neighbors.SPARSE", 0)
        in_order = distinct(20, *drawn)
    assert marked[0].tolist() == in_order[0].tolist() == sorted({number for each in lists for number in each})
    assert [rows.tolist() for rows in marked[1]] == [rows.tolist() for rows in in_order[1]]
    for each, rows in zip(lists, marked[1], strict=True):
        assert marked[0][rows].tolist() == each


def test_rows_have_the_shape_of_what_was_drawn() -> None:
    for size in (6, 20 * SPARSE):  # marked, sorted
        keys, (flat, square) = distinct(size, np.array([5, 0]), np.array([[5, 3], [3, 3]], np.int32))
        assert keys.tolist() == [0, 3, 5]
        assert (flat.tolist(), square.tolist()) == ([2, 0], [[2, 1], [1, 1]])
        assert {each.dtype for each in (keys, flat, square)} == {np.dtype(np.int64)}
