"""Random walks of the second order (Grover and Leskovec, KDD 2016, section 3.2), thousands at a time.

At ``v``, coming from ``t``, the next user is ``x`` in proportion to ``w_vx`` times 1/p if x is t, 1 if x is linked to
t, and 1/q otherwise. Nothing is kept per pair of links: candidates are drawn by ``w_vx``, and accepted or drawn anew.
The way back is no candidate but chosen by its exact weight, so that whatever p is, at least min(q, 1/q) of the
candidates are accepted, and all of them where q is 1.

In a directed graph walks go along the links: v follows x, "linked to t" is whom t follows, and there is a way back only
where v follows t. A walk that comes to a user who follows nobody goes on from its start, as if it had just begun.

The nodes that short walks from a node visit most are its neighborhood in PinSage (Ying et al., KDD 2018, section 3.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.data.graph import Graph, run_starts
from mcne.randomness import Stream
from mcne.sampling.neighbors import cumulative_shares, distinct

BLOCK = 4096
"""Walks that are drawn together. Part of what a seed means."""

NO_LINK = -1
"""In place of the link that a walk came by: it stands at its start."""

NODES_AT_ONCE = 4096
"""Whose visits are counted together. Part of what a seed means: pieces of another size would draw other numbers."""


class Walker:
    """Walks on a graph; ``weighted`` takes links in proportion to their weights."""

    def __init__(self, graph: Graph, *, p: float = 1.0, q: float = 1.0, weighted: bool = False) -> None:
        self._indptr, self._indices = graph.indptr.astype(np.int64), graph.indices
        self._p, self._q = p, q
        self._is_biased = p != 1 or q != 1
        self._is_directed = graph.is_directed
        self._cumulative = None
        if weighted and graph.weights is not None:
            self._cumulative = cumulative_shares(graph)
        if self._is_biased:
            self._sources = graph.sources()
            self._keys = self._sources * np.int64(graph.n_users) + graph.indices  # increasing
            self._opposite = self._links_back(graph)

    def walk(self, starts: NDArray[Any], length: int, *, stream: Stream) -> NDArray[np.int32]:
        """A walk of ``length`` users from every start, [n, length]; every start must have a neighbor."""
        walks = np.empty((len(starts), length), dtype=np.int32)
        walks[:, 0] = starts
        came = np.full(len(starts), NO_LINK)
        for k in range(1, length):
            came = self._go_on(walks[:, k - 1], came, stream)
            walks[:, k] = self._indices[came]
            if self._is_directed:
                begins_again = came == NO_LINK
                walks[begins_again, k] = starts[begins_again]
        return walks

    def _go_on(self, here: NDArray[np.int32], came: NDArray[np.int64], stream: Stream) -> NDArray[np.int64]:
        """The links to go on by from ``here`` after the links ``came`` by; none where a user follows nobody."""
        if not self._is_directed:  # everybody has a link, the one back at least
            is_first = not self._is_biased or np.all(came == NO_LINK)
            return self._link_by_weight(here, stream) if is_first else self._next_link(came, stream)
        taken = np.full(len(here), NO_LINK)
        goes_on = self._indptr[here] < self._indptr[here + 1]
        is_biased = goes_on & (came != NO_LINK) & self._is_biased
        by_weight = goes_on & ~is_biased
        if by_weight.any():
            taken[by_weight] = self._link_by_weight(here[by_weight], stream)
        if is_biased.any():
            taken[is_biased] = self._next_link(came[is_biased], stream)
        return taken

    def _link_by_weight(self, here: NDArray[np.int32], stream: Stream) -> NDArray[np.int64]:
        """A link of every user, in proportion to the weights."""
        start, end = self._indptr[here], self._indptr[here + 1]
        low, high = self._weight_before(start), self._weight_before(end)
        return np.clip(self._at(low + stream.uniform(len(here)) * (high - low)), start, end - 1)

    def _next_link(self, came: NDArray[np.int64], stream: Stream) -> NDArray[np.int64]:
        """The next links, after the links ``came``."""
        back = self._opposite[came]
        here = self._indices[came]
        start, end = self._indptr[here], self._indptr[here + 1]
        low, high = self._weight_before(start), self._weight_before(end)
        below = self._weight_before(back)
        weight_back = np.where(back == NO_LINK, 0, self._weight_before(back + 1) - below)
        others = (high - low) - weight_back  # the weight of all links but the one back
        limit = max(1.0, 1 / self._q)
        share_back = weight_back / self._p / (weight_back / self._p + others * limit)
        taken = back.copy()
        left = np.arange(len(came))
        while len(left):
            returns, which, accept = stream.uniform((3, len(left)))
            goes_on = returns >= share_back[left]
            left, which, accept = left[goes_on], which[goes_on], accept[goes_on]
            target = low[left] + which * others[left]
            target += np.where(target < below[left], 0, weight_back[left])  # over the link back
            candidate = np.clip(self._at(target), start[left], end[left] - 1)
            accepted = accept * limit < self._bias(came[left], candidate)
            taken[left[accepted]] = candidate[accepted]
            left = left[~accepted]
        return taken

    def _bias(self, came: NDArray[np.int64], candidate: NDArray[np.int64]) -> NDArray[np.float64]:
        """1 where the candidate leads to a neighbor of where the walk came from, otherwise 1/q."""
        if self._q == 1:
            return np.ones(len(came))
        return np.where(self._link(self._sources[came], self._indices[candidate]) == NO_LINK, 1 / self._q, 1.0)

    def _links_back(self, graph: Graph) -> NDArray[np.int64]:
        """For every link the one in the other direction, if there is one."""
        if graph.is_directed:
            return self._link(self._indices, self._sources)
        back = np.empty(graph.n_directions, dtype=np.int64)
        back[np.argsort(graph.indices, kind="stable")] = np.arange(graph.n_directions)  # by target, and then by source
        return back

    def _link(self, source: NDArray[np.int32], target: NDArray[np.int32]) -> NDArray[np.int64]:
        """The links between these users, where there are any."""
        keys = source * np.int64(len(self._indptr) - 1) + target
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[at] == keys, at, NO_LINK)

    def _weight_before(self, link: NDArray[np.int64]) -> NDArray[np.float64]:
        """The running sum of weights before a link, which without weights is its place."""
        before: NDArray[np.float64] = link.astype(np.float64) if self._cumulative is None else self._cumulative[link]
        return before

    def _at(self, weight: NDArray[np.float64]) -> NDArray[np.int64]:
        """The links in which the running sum of weights reaches ``weight``."""
        if self._cumulative is None:
            return weight.astype(np.int64)
        return (np.searchsorted(self._cumulative, weight, side="right") - 1).astype(np.int64)


class WalkCorpus:
    """``walks_per_node`` walks from every user with friends, shuffled, handed out by the batch again and again.

    Which walks belong to a batch is a function of the seed and of the batch's number alone, and takes time and memory
    that depend on the batch alone, beside one order of the users for every pass.
    """

    def __init__(
        self, walker: Walker, users: NDArray[Any], *, walks_per_node: int, length: int, batch_size: int, seed: int
    ) -> None:
        """Take the users to start from, each of whom must have a neighbor."""
        self._walker = walker
        self._users = users
        self._walks_per_node = walks_per_node
        self._length = length
        self._batch_size = batch_size
        self._seed = seed
        self._order = lru_cache(maxsize=2)(self._shuffle)
        self._block = lru_cache(maxsize=8)(self._draw)

    def batch(self, number: int) -> NDArray[np.int32]:
        """The walks of a batch, [batch, length]; none where nobody has friends."""
        at, stop = number * self._batch_size, (number + 1) * self._batch_size
        pieces = [np.zeros((0, self._length), dtype=np.int32)]
        while len(self._users) and at < stop:
            turn, place = divmod(at, len(self._users))
            block, first = divmod(place, BLOCK)
            piece = self._block(turn % self._walks_per_node, block)[first : first + stop - at]
            pieces.append(piece)
            at += len(piece)
        return np.concatenate(pieces)

    def _draw(self, turn: int, block: int) -> NDArray[np.int32]:
        starts = self._order(turn)[block * BLOCK : (block + 1) * BLOCK]
        return self._walker.walk(starts, self._length, stream=Stream(self._seed, "walks", turn, block))

    def _shuffle(self, turn: int) -> NDArray[Any]:
        return self._users[Stream(self._seed, "walk starts", turn).permutation(len(self._users))]


@dataclass(frozen=True)
class WeightedHop:
    """What one layer computes: from the nodes of the level below, whose rows it holds, to ``n`` nodes above."""

    receiver: NDArray[np.int64]  # [n]
    sender: NDArray[np.int64]  # [n, size]
    share: NDArray[np.float32]  # [n, size] in what the receiver aggregates


@dataclass(frozen=True)
class Visited:
    """The most visited nodes of every node's walks, and their shares of the visits.

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
    probability ``restart``. Coming back to the start, also from a node without neighbors, is no visit. Equally visited
    nodes are ordered at random.
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
