"""Whom short walks from a node visit most: the neighborhoods of PinSage (Ying et al., KDD 2018, section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcne.data.graph import Graph, run_starts
from mcne.randomness import Stream
from mcne.sampling.distinct import distinct
from mcne.sampling.walks import Walker

NODES_AT_ONCE = 4096
"""Part of what a seed means: pieces of another size would draw other numbers."""


@dataclass(frozen=True)
class WeightedHop:
    """What one layer computes: from the nodes of the level below, whose rows it holds, to ``n`` nodes above."""

    receiver: NDArray[np.int64]  # [n]
    sender: NDArray[np.int64]  # [n, size]
    share: NDArray[np.float32]  # [n, size] in what the receiver aggregates


@dataclass(frozen=True)
class Visited:
    """For every node those whom its walks visited most, and their shares in the visits to them.

    Where fewer were visited the node itself stands, with the share 0. The other shares add up to 1, but for a node
    without links, which has none.
    """

    node: NDArray[np.int64]  # [nodes, size]
    share: NDArray[np.float32]  # [nodes, size], never increasing along a row

    def around(self, nodes: NDArray[np.int64], *, layers: int) -> tuple[NDArray[np.int64], tuple[WeightedHop, ...]]:
        """The nodes, increasing, whose initial vectors ``layers`` layers need to give ``nodes``, and the hops to those.

        Each layer has each node once.
        """
        hops: list[WeightedHop] = []
        for _ in range(layers):
            below, (receiver, sender) = distinct(len(self.node), nodes, self.node[nodes])
            hops.insert(0, WeightedHop(receiver, sender, self.share[nodes]))
            nodes = below
        return nodes, tuple(hops)


def most_visited(graph: Graph, *, size: int, walks: int, length: int, restart: float, seed: int) -> Visited:
    """The ``size`` nodes most visited by ``walks`` walks from each node.

    A walk takes at most ``length`` steps to a uniform neighbor, and before each but the first it ends with
    probability ``restart``. Coming back to the start is no visit. Equally visited nodes are ordered at random.
    """
    walker = Walker(graph)
    starts = np.flatnonzero(graph.degrees)
    node = np.repeat(np.arange(graph.n_users, dtype=np.int64)[:, None], size, axis=1)
    share = np.zeros(node.shape, dtype=np.float32)
    for piece in range(-(-len(starts) // NODES_AT_ONCE)):
        stream = Stream(seed, "visits", piece)
        some = starts[piece * NODES_AT_ONCE : (piece + 1) * NODES_AT_ONCE]
        trail = walker.walk(np.repeat(some, walks), length + 1, stream=stream)[:, 1:]  # [some × walks, length]
        goes_on = np.cumprod(stream.uniform((len(trail), length - 1)) >= restart, axis=1, dtype=bool)
        row = np.repeat(np.arange(len(some)), walks)[:, None]
        counts = trail != some[row]
        counts[:, 1:] &= goes_on
        visits = np.sort((row * graph.n_users + trail)[counts])
        first = np.flatnonzero(run_starts(visits))
        row, visited = np.divmod(visits[first], graph.n_users)
        count = np.diff(first, append=len(visits))
        order = np.lexsort((stream.bits(len(first)), -count, row))
        row, visited, count = row[order], visited[order], count[order]
        place = np.arange(len(row)) - np.flatnonzero(run_starts(row))[np.cumsum(run_starts(row)) - 1]
        kept = place < size
        row, place, count = row[kept], place[kept], count[kept]
        node[some[row], place] = visited[kept]
        share[some[row], place] = count / np.bincount(row, count, minlength=len(some))[row]
    return Visited(node, share)
