"""Noise and links: users by degree^0.75, links by weight."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mcne.data.graph import Graph, undirected
from mcne.randomness import Stream
from mcne.sampling.neighbors import LinkSampler, Noise


def make_graph(*, weighted: bool) -> Graph:
    """User 1 has three links, 0 and 5 none; 4 is linked to itself too."""
    source, target = np.array([(1, 2), (1, 3), (4, 1), (4, 4)], dtype=np.int32).T
    return undirected(6, source, target, np.array([1, 2, 4, 0.5], np.float32) if weighted else None)[0]


@pytest.mark.parametrize(
    ("weighted", "degrees"), [(False, [0, 3, 1, 1, 2, 0]), (True, [0, 7, 1, 2, 4.5, 0])], ids=["plain", "weighted"]
)
def test_users_are_drawn_by_their_degree(weighted: bool, degrees: list[float]) -> None:
    drawn = Noise(make_graph(weighted=weighted), weighted=weighted).draw((300, 100), Stream(1, "noise"))
    counts = np.bincount(drawn.ravel(), minlength=6)
    expected = np.array(degrees) ** 0.75
    assert counts[[0, 5]].tolist() == [0, 0]
    assert stats.chisquare(counts[1:5], expected[1:5] / expected.sum() * drawn.size).pvalue > 1e-4


@pytest.mark.parametrize("weighted", [False, True])
def test_links_are_drawn_by_their_weight_in_either_direction(weighted: bool) -> None:
    sources, targets = LinkSampler(make_graph(weighted=weighted), weighted=weighted).draw(30_000, Stream(1, "links"))
    weights = {(1, 2): 1, (1, 3): 2, (1, 4): 4, (2, 1): 1, (3, 1): 2, (4, 1): 4, (4, 4): 0.5}
    counts = [np.count_nonzero((sources == one) & (targets == other)) for one, other in weights]
    assert sum(counts) == 30_000
    expected = np.array(list(weights.values())) if weighted else np.ones(7)
    assert stats.chisquare(counts, expected / expected.sum() * 30_000).pvalue > 1e-4


@pytest.mark.parametrize("n_users", [1, 4])
def test_of_a_network_without_links_nothing_is_drawn(n_users: int) -> None:
    nobody = np.zeros(0, dtype=np.int32)
    for graph in (
        undirected(n_users, nobody, nobody)[0],
        undirected(n_users, nobody, nobody, nobody.astype(np.float32))[0],
    ):
        sources, targets = LinkSampler(graph, weighted=True).draw(9, Stream(0, "links"))
        assert len(sources) == len(targets) == 0
        assert Noise(graph, weighted=True).draw((0, 5), Stream(0, "noise")).shape == (0, 5)
