"""Communities of a network by modularity (Blondel and others, 2008): users move, then communities become users.

It needs no number of communities, which nobody knows of a social network, unlike a spectral method, and does not end in
one community that holds nearly everybody, as labels that spread along links do where users have tens of friends. The
order in which users are looked at is drawn from a seed; equal gains go to the lower number, so a seed means one answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mcne.data.graph import Graph
from mcne.randomness import Stream

SWEEPS = 20
"""Rounds over all users at most; most users stand still after a few."""
LITTLE = 1e-9  # a gain that is rounding alone


def communities(graph: Graph, *, seed: int) -> NDArray[np.int64]:
    """The community of every user, the largest being 0; links count alike. Users without links are on their own."""
    ones = np.ones(graph.n_links)
    links = sparse.csr_array((ones, graph.indices, graph.indptr), (graph.n_users, graph.n_users))
    label = np.arange(graph.n_users)
    for level in range(graph.n_users):
        moved = _moved(links, Stream(seed, "communities", level))
        _, compact = np.unique(moved, return_inverse=True)
        label = compact[label]
        n_found = int(compact.max(initial=-1)) + 1
        if n_found == links.shape[0]:
            break
        member = sparse.csr_array((np.ones(len(compact)), (np.arange(len(compact)), compact)), (len(compact), n_found))
        links = (member.T @ links @ member).tocsr()
    return _by_size(label)


def modularity(graph: Graph, label: NDArray[Any]) -> float:
    """The share of links within communities, less what chance would give users of these degrees."""
    if not graph.n_links:
        return 0.0
    inner = float(np.mean(label[graph.sources()] == label[graph.indices]))
    degrees = np.bincount(label, graph.degrees) / graph.n_links
    return inner - float(degrees @ degrees)


def _moved(links: Any, stream: Stream) -> NDArray[np.int64]:
    """Every user in turn joins the neighboring community that gains most, until nobody moves."""
    degree: NDArray[np.float64] = np.asarray(links.sum(axis=1)).ravel()
    label, total, size = np.arange(len(degree)), degree.copy(), degree.sum()
    own = links.diagonal()
    order = stream.permutation(len(degree))
    for _ in range(SWEEPS):
        n_moved = 0
        for user in order[degree[order] > own[order]]:
            near = slice(links.indptr[user], links.indptr[user + 1])
            candidates, which = np.unique(label[links.indices[near]], return_inverse=True)
            linked = np.bincount(which, np.where(links.indices[near] == user, 0.0, links.data[near]))
            here = label[user]
            total[here] -= degree[user]
            gain = linked - degree[user] * total[candidates] / size
            stay = -degree[user] * total[here] / size + linked[candidates == here].sum()
            best = int(np.argmax(gain))
            if gain[best] > stay + LITTLE:
                label[user] = candidates[best]
                n_moved += 1
            total[label[user]] += degree[user]
        if not n_moved:
            break
    return label


def _by_size(label: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbered from the largest; of equals the one whose first user comes first."""
    _, first, which, counts = np.unique(label, return_index=True, return_inverse=True, return_counts=True)
    rank = np.empty(len(counts), dtype=np.int64)
    rank[np.lexsort((first, -counts))] = np.arange(len(counts))
    return rank[which]
