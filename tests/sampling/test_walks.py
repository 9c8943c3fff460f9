"""Walks: every step has the chance that the second order gives it; a corpus hands out every walk once per turn."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from tests.values import not_none

from mcne.data.graph import Graph, directed, undirected
from mcne.randomness import Stream
from mcne.sampling import walks as walks_module
from mcne.sampling.walks import WalkCorpus, Walker, most_visited

# A triangle, a hub, a tail that ends, a user linked to itself, a pair of its own, and two users alone (3 and 11).
LINKS = [(0, 1), (1, 2), (2, 0), (2, 4), (2, 5), (4, 5), (2, 6), (6, 7), (7, 7), (2, 7), (8, 9), (2, 10)]
WEIGHTS = [1.0, 0.5, 3.0, 0.25, 2.0, 1.0, 8.0, 1.0, 0.75, 1.5, 4.0, 1.0]


def make_graph(*, weighted: bool = False) -> Graph:
    source, target = np.array(LINKS, dtype=np.int32).T
    return undirected(12, source, target, np.array(WEIGHTS, np.float32) if weighted else None)[0]


def weights_of(graph: Graph, user: int, *, weighted: bool) -> dict[int, float]:
    neighbors = graph.neighbors(user).tolist()
    values = [1.0] * len(neighbors)
    if weighted:
        values = not_none(graph.weights)[graph.indptr[user] : graph.indptr[user + 1]].tolist()
    return dict(zip(neighbors, values, strict=True))


def second_order(graph: Graph, came: int, here: int, *, p: float, q: float, weighted: bool) -> dict[int, float]:
    """Section 3.2.2 of the paper, by its definition."""
    weights = weights_of(graph, here, weighted=weighted)
    for target in weights:
        if target == came:
            weights[target] /= p
        elif target not in graph.neighbors(came):
            weights[target] /= q
    return {target: weight / sum(weights.values()) for target, weight in weights.items()}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (0.25, 1.0), (4.0, 1.0), (1.0, 0.25), (0.5, 4.0), (4.0, 0.5)])
def test_every_step_has_the_chance_of_the_second_order(p: float, q: float, weighted: bool) -> None:
    graph = make_graph(weighted=weighted)
    starts = np.repeat(np.flatnonzero(graph.degrees), 600)
    walks = Walker(graph, p=p, q=q, weighted=weighted).walk(starts, 12, stream=Stream(3, "walks"))
    assert np.array_equal(walks[:, 0], starts)
    first = Counter(zip(walks[:, 0].tolist(), walks[:, 1].tolist(), strict=True))
    later = Counter(zip(*(walks[:, k : k + 10].ravel().tolist() for k in range(3)), strict=True))
    compared = [
        ({target: first[user, target] for target in range(12)}, weights_of(graph, user, weighted=weighted))
        for user in np.flatnonzero(graph.degrees).tolist()
    ] + [
        (
            {target: later[came, here, target] for target in range(12)},
            second_order(graph, came, here, p=p, q=q, weighted=weighted),
        )
        for came in range(12)
        for here in graph.neighbors(came).tolist()
    ]
    assert len(compared) == 10 + graph.n_directions
    for counts, chances in compared:
        expected = np.array([chances.get(target, 0.0) for target in range(12)])
        observed = np.array(list(counts.values()))
        assert observed.sum() > 100
        assert np.all(observed[expected == 0] == 0)
        possible = expected > 0
        scaled = expected[possible] / expected.sum() * observed.sum()
        assert possible.sum() == 1 or stats.chisquare(observed[possible], scaled).pvalue > 1e-5


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (0.25, 1.0), (1.0, 0.25), (0.5, 4.0), (4.0, 0.5)])
def test_directed_walks_follow_links_and_begin_again_where_somebody_follows_nobody(
    p: float, q: float, weighted: bool
) -> None:
    links = [*LINKS, (1, 0), (4, 2), (2, 1), (6, 2)]  # some in both directions; 5, 9 and 10 follow nobody
    source, target = np.array(links, dtype=np.int32).T
    weights = np.array([*WEIGHTS, 2.0, 0.5, 1.0, 0.25], np.float32)
    graph, _ = directed(12, source, target, weights if weighted else None)
    starts = np.repeat(np.flatnonzero(graph.degrees), 2400)
    walks = Walker(graph, p=p, q=q, weighted=weighted).walk(starts, 12, stream=Stream(3, "walks"))
    steps: Counter[tuple[int | None, int, int]] = Counter()
    for walk in walks.tolist():
        came = None
        for here, following in pairwise(walk):
            if graph.degrees[here]:
                steps[came, here, following] += 1
                came = here
            else:
                assert following == walk[0]
                came = None
    ways = {(came, here) for came, here, _ in steps}
    assert {came for came, _ in ways} >= {None, 0, 1, 2, 6}
    for came, here in ways:
        chances = weights_of(graph, here, weighted=weighted)
        if came is not None:
            chances = second_order(graph, came, here, p=p, q=q, weighted=weighted)
        expected = np.array([chances.get(other, 0.0) for other in range(12)])
        observed = np.array([steps[came, here, other] for other in range(12)])
        assert np.all(observed[expected == 0] == 0)
        possible = expected > 0
        scaled = expected[possible] / expected.sum() * observed.sum()
        assert observed.sum() > 100
        assert possible.sum() == 1 or stats.chisquare(observed[possible], scaled).pvalue > 1e-5


def test_visits_go_along_directed_links() -> None:
    """0 follows 1, who follows 2; 3 follows 0. Walks that come to 2 begin again."""
    graph, _ = directed(4, np.array([0, 1, 3]), np.array([1, 2, 0]))
    visited = most_visited(graph, size=2, walks=50, length=4, restart=0.0, seed=0)
    assert [set(row.tolist()) for row in visited.node] == [{1, 2}, {1, 2}, {2}, {0, 1}]
    assert visited.share[2].tolist() == [0, 0]
    assert visited.share[1].tolist() == [1, 0]
    np.testing.assert_allclose(visited.share[0], [2 / 3, 1 / 3])  # 1, 2, back to 0, 1


def test_weights_matter_only_where_they_are_asked_for() -> None:
    starts = np.repeat(np.flatnonzero(make_graph().degrees), 5)
    plain, other, by_weight = (
        Walker(make_graph(weighted=has), p=0.5, q=2, weighted=asked).walk(starts, 9, stream=Stream(0, "walks"))
        for has, asked in ((False, True), (True, False), (True, True))
    )
    assert np.array_equal(plain, other)
    assert not np.array_equal(plain, by_weight)


def test_a_heavy_link_is_taken_beside_one_that_weighs_next_to_nothing() -> None:
    graph = undirected(3, np.array([0, 0]), np.array([1, 2]), np.array([1e-30, 1e30], np.float32))[0]
    walks = Walker(graph, p=100, q=0.01, weighted=True).walk(np.full(50, 2), 7, stream=Stream(0, "walks"))
    assert np.all(walks == [2, 0, 2, 0, 2, 0, 2])


def corpus(graph: Graph, *, batch_size: int, seed: int = 0, walks_per_node: int = 3) -> WalkCorpus:
    users = np.flatnonzero(graph.degrees)
    return WalkCorpus(Walker(graph), users, walks_per_node=walks_per_node, length=4, batch_size=batch_size, seed=seed)


def test_every_user_starts_as_many_walks_as_said_and_then_they_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks_module, "BLOCK", 4)  # so that the last block of a turn has 2 of the 10 users
    drawn = corpus(make_graph(), batch_size=30)
    walks = drawn.batch(0)
    turns = [set(walks[10 * k : 10 * k + 10, 0].tolist()) for k in range(3)]
    assert turns == [set(range(12)) - {3, 11}] * 3
    assert len({tuple(walk) for walk in walks.tolist()}) > 15
    assert walks[:10, 0].tolist() != walks[10:20, 0].tolist()  # each turn in its own order
    assert np.array_equal(drawn.batch(1), walks)


@pytest.mark.parametrize("batch_size", [1, 7, 10, 64])
def test_batches_are_parts_of_one_sequence(batch_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks_module, "BLOCK", 4)
    whole = corpus(make_graph(), batch_size=448).batch(0)
    batches = corpus(make_graph(), batch_size=batch_size)
    parts = {number: batches.batch(number) for number in reversed(range(448 // batch_size))}
    assert all(len(part) == batch_size for part in parts.values())
    assert np.array_equal(np.concatenate([parts[number] for number in sorted(parts)]), whole[: batch_size * len(parts)])


def test_the_seed_decides() -> None:
    one, same, other = (corpus(make_graph(), batch_size=20, seed=seed).batch(0) for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_where_nobody_has_friends_nobody_walks() -> None:
    nobody = np.zeros(0, dtype=np.int32)
    assert corpus(undirected(5, nobody, nobody)[0], batch_size=8).batch(3).shape == (0, 4)
