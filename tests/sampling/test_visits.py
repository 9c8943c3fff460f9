"""Whom walks visit: the expected shares, who is kept, who has nobody; and the hops made of it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from mcne.data.graph import Graph, undirected
from mcne.sampling.walks import NODES_AT_ONCE, Visited, most_visited


def graph_of(n: int, links: list[tuple[int, int]]) -> Graph:
    source, target = np.array(links, dtype=np.int32).reshape(-1, 2).T
    return undirected(n, source, target)[0]


TOY = graph_of(7, [(0, 1), (0, 2), (0, 3), (1, 2), (3, 4), (4, 5)])  # 6 is alone


def expected_shares(graph: Graph, *, length: int, restart: float) -> NDArray[np.float64]:
    """Step t ends at v with the chance (P^t)_uv, and is taken with the chance (1 − restart)^(t − 1)."""
    n = graph.n_users
    moves = np.zeros((n, n))
    moves[graph.sources(), graph.indices] = 1 / graph.degrees[graph.sources()]
    visits, power = np.zeros((n, n)), np.eye(n)
    for step in range(length):
        power = power @ moves
        visits += (1 - restart) ** step * power
    np.fill_diagonal(visits, 0)
    shares: NDArray[np.float64] = visits / np.maximum(visits.sum(axis=1, keepdims=True), 1e-300)
    return shares


def as_matrix(visited: Visited) -> NDArray[np.float64]:
    shares = np.zeros((len(visited.node),) * 2)
    np.add.at(shares, (np.arange(len(shares))[:, None], visited.node), visited.share)
    return shares


@pytest.mark.parametrize(("length", "restart"), [(1, 0.0), (3, 0.0), (3, 0.5), (6, 0.2)])
def test_shares_are_those_of_expected_visits(length: int, restart: float) -> None:
    visited = most_visited(TOY, size=6, walks=20_000, length=length, restart=restart, seed=0)
    expected = expected_shares(TOY, length=length, restart=restart)
    np.testing.assert_allclose(as_matrix(visited), expected, atol=0.012)
    assert np.array_equal(as_matrix(visited) > 0, expected > 0)
    assert np.all(np.diff(visited.share, axis=1) <= 0)


def test_the_most_visited_are_kept_and_their_shares_add_up_to_one() -> None:
    everyone = most_visited(TOY, size=6, walks=5000, length=4, restart=0.5, seed=3)
    few = most_visited(TOY, size=2, walks=5000, length=4, restart=0.5, seed=3)
    np.testing.assert_array_equal(few.node, everyone.node[:, :2])
    kept = everyone.share[:6, :2]
    np.testing.assert_allclose(few.share[:6], kept / kept.sum(axis=1, keepdims=True), rtol=1e-6)
    assert (few.share.dtype, few.node.dtype) == (np.dtype(np.float32), np.dtype(np.int64))


def test_who_has_no_links_has_no_neighbors_and_stands_for_itself() -> None:
    visited = most_visited(TOY, size=4, walks=10, length=2, restart=0.5, seed=0)
    assert visited.node[6].tolist() == [6, 6, 6, 6]
    assert not visited.share[6].any()
    assert not most_visited(graph_of(3, []), size=2, walks=10, length=2, restart=0.5, seed=0).share.any()
    pair = most_visited(graph_of(2, [(0, 1)]), size=3, walks=7, length=4, restart=0.0, seed=0)  # back and forth
    assert (pair.node.tolist(), pair.share.tolist()) == ([[1, 0, 0], [0, 1, 1]], [[1, 0, 0]] * 2)


def test_equally_visited_nodes_are_ordered_at_random() -> None:
    """In a star of 40 leaves, each visits the others rarely: most of them once."""
    star = graph_of(41, [(0, leaf) for leaf in range(1, 41)])
    visited = most_visited(star, size=3, walks=4, length=2, restart=0.0, seed=1)
    assert np.all(visited.node[1:, 0] == 0)
    second = visited.node[1:, 1][visited.share[1:, 1] < 0.3]
    assert len(second) > 20
    assert 12 < np.median(second) < 29


def test_a_large_network_is_walked_piece_by_piece() -> None:
    """On a ring walks of three steps come no further than three, from nodes of every piece; seeds decide."""
    n = NODES_AT_ONCE + 500
    ring = graph_of(n, [(k, (k + 1) % n) for k in range(n)])
    first, again, other = (most_visited(ring, size=5, walks=30, length=3, restart=0.3, seed=seed) for seed in (0, 0, 1))
    distance = np.abs(first.node - np.arange(n)[:, None])
    distance = np.minimum(distance, n - distance)
    assert np.all((distance <= 3) & ((distance > 0) == (first.share > 0)))
    np.testing.assert_allclose(first.share.sum(axis=1), 1, rtol=1e-6)
    assert first.node.tobytes() == again.node.tobytes()
    assert first.share.tobytes() == again.share.tobytes()
    assert first.node.tobytes() != other.node.tobytes()
    assert not np.array_equal(first.share[:500], first.share[NODES_AT_ONCE:])


def test_hops_lead_from_all_that_is_needed_to_the_nodes_that_are_asked_for() -> None:
    visited = most_visited(TOY, size=2, walks=50, length=2, restart=0.5, seed=0)
    asked = np.array([1, 5, 6])
    nodes, hops = visited.around(asked, layers=3)
    expected = [set(asked.tolist())]
    for _ in range(3):
        expected.append(expected[-1] | {v for u in expected[-1] for v in visited.node[u].tolist()})
    assert nodes.tolist() == sorted(expected[-1])
    assert len(hops) == 3
    for hop, above in zip(hops, (expected[2], expected[1], expected[0]), strict=True):
        receivers = nodes[hop.receiver]
        assert receivers.tolist() == sorted(above)
        assert np.array_equal(nodes[hop.sender], visited.node[receivers])
        assert np.array_equal(hop.share, visited.share[receivers])
        nodes = receivers
