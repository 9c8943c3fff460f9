"""What is drawn from a network: neighborhoods of a step, links, and noise users; the distinct ones of any draws; and
lists of different lengths, such as the friends of each user.

Neighborhoods are fixed-size samples, each distinct user computed once per layer. In training every user that a layer
needs draws its neighbors with replacement, once per step and layer and not once per path that leads to it (reading 11).
Inference takes all neighbors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.data.graph import Graph, offsets
from mcne.randomness import Stream

POWER = 0.75
"""Noise is drawn in proportion to degree^0.75, as word2vec does with words (Mikolov et al., NIPS 2013)."""

SPARSE = 64
"""With fewer than one number in so many drawn, what is drawn is sorted instead of marked."""


@dataclass(frozen=True)
class Hop:
    """What one layer computes: from the users of the level below to ``n`` users of the level above.

    ``receiver`` and ``sender`` are rows of the level below. A receiver without neighbors gets no message.
    """

    receiver: NDArray[np.int64]  # [n]
    sender: NDArray[np.int64]  # [n, sample], any row where has_neighbors is False
    has_neighbors: NDArray[np.bool_]  # [n] whether the receiver has neighbors


@dataclass(frozen=True)
class Neighborhood:
    """The users whose initial vectors a step needs, and the hops from them to the step's own users."""

    users: NDArray[np.int64]  # [n₀] increasing
    hops: tuple[Hop, ...]  # the first layer first


class NeighborSampler:
    """Draws neighborhoods from a graph; ``weighted`` draws neighbors in proportion to link weights."""

    def __init__(self, graph: Graph, sizes: Sequence[int], *, weighted: bool = False) -> None:
        """Take the sample sizes of the layers, the first layer's first."""
        self._indptr = graph.indptr
        self._indices = graph.indices
        self._sizes = tuple(sizes)
        self._cumulative = cumulative_shares(graph) if weighted else None

    def sample(self, seeds: NDArray[Any], *, seed: int, epoch: int, step: int) -> Neighborhood:
        """The neighborhood of distinct, increasing ``seeds``: a function of its arguments alone."""
        hops: list[Hop] = []
        users = np.asarray(seeds, dtype=np.int64)
        for layer in reversed(range(len(self._sizes))):
            stream = Stream(seed, "neighbors", layer, epoch, step)
            drawn, has_neighbors = self._draw(users, self._sizes[layer], stream)
            senders = drawn[has_neighbors]
            below, (receiver, sender) = distinct(len(self._indptr) - 1, users, senders)
            padded = np.zeros(drawn.shape, dtype=np.int64)
            padded[has_neighbors] = sender
            hops.insert(0, Hop(receiver, padded, has_neighbors))
            users = below
        return Neighborhood(users, tuple(hops))

    def _draw(self, users: NDArray[np.int64], size: int, stream: Stream) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        start, end = self._indptr[users].astype(np.int64), self._indptr[users + 1].astype(np.int64)
        has_neighbors = end > start
        chance = stream.uniform((len(users), size))
        if self._cumulative is None:
            at = start[:, None] + (chance * (end - start)[:, None]).astype(np.int64)
        else:
            floor, total = self._cumulative[start], self._cumulative[end]
            target = floor[:, None] + chance * (total - floor)[:, None]
            at = np.searchsorted(self._cumulative, target, side="right") - 1
            at = np.clip(at, start[:, None], np.maximum(end - 1, start)[:, None])
        at = np.where(has_neighbors[:, None], at, 0)
        drawn = self._indices[at] if len(self._indices) else np.zeros(at.shape, np.int32)
        return drawn.astype(np.int64), has_neighbors


def cumulative_shares(graph: Graph) -> NDArray[np.float64]:
    """Running sums of the weights up to each link, [links + 1], those of every user scaled to 1 so that none are lost
    beside larger ones."""
    return np.concatenate([[0.0], np.cumsum(graph.shares(weighted=True))])


class LinkSampler:
    """Draws links with replacement, in any stored direction; ``weighted`` in proportion to their weights."""

    def __init__(self, graph: Graph, *, weighted: bool = False) -> None:
        self._sources = graph.sources()
        self._targets = graph.indices
        self._cumulative = None
        if weighted and graph.weights is not None:
            self._cumulative = np.cumsum(graph.weights, dtype=np.float64)

    def draw(self, count: int, stream: Stream) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The sources and targets of ``count`` links, [count] each; none of a network without links."""
        last = len(self._targets) - 1
        chance = stream.uniform(count if last >= 0 else 0)
        if self._cumulative is None:
            link = (chance * (last + 1)).astype(np.int64)
        else:
            link = np.searchsorted(self._cumulative, chance * self._cumulative[last:], side="right").clip(max=last)
        return self._sources[link], self._targets[link]


class Noise:
    """Draws users of a graph; ``weighted`` counts a link by its weight. Users without links are never drawn.

    A directed link counts for both its ends, since either may be the context of the other.
    """

    def __init__(self, graph: Graph, *, weighted: bool = False) -> None:
        weights = graph.weights if weighted else None
        degrees = np.bincount(graph.sources(), weights, minlength=graph.n_users)
        if graph.is_directed:
            degrees = degrees + np.bincount(graph.indices, weights, minlength=graph.n_users)
        self._cumulative = np.cumsum(degrees**POWER)
        self._last = int(np.flatnonzero(degrees)[-1]) if graph.n_directions else 0

    def draw(self, shape: int | tuple[int, ...], stream: Stream) -> NDArray[np.int64]:
        """Users with replacement; any rows where nobody has a link."""
        target = stream.uniform(shape) * self._cumulative[-1]
        drawn: NDArray[np.int64] = np.searchsorted(self._cumulative, target, side="right").astype(np.int64)
        return drawn.clip(max=self._last)


def distinct(size: int, *drawn: NDArray[Any]) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """Of numbers below ``size`` the distinct ones, increasing, and the rows of each array of ``drawn`` among them.

    Sorting takes time and memory in proportion to the draws, marking in proportion to ``size``, but faster where
    much of it is drawn.
    """
    if SPARSE * sum(map(np.size, drawn)) < size:
        numbers = np.unique(np.concatenate([each.ravel() for each in drawn])).astype(np.int64)
        return numbers, [np.searchsorted(numbers, each) for each in drawn]
    is_drawn = np.zeros(size, dtype=bool)
    for each in drawn:
        is_drawn[each] = True
    numbers = np.flatnonzero(is_drawn)
    row = np.empty(size, dtype=np.int64)
    row[numbers] = np.arange(len(numbers))
    return numbers, [row[each] for each in drawn]


@dataclass(frozen=True)
class Lists:
    """The members of list ``i`` are ``member[first[i]:first[i + 1]]``."""

    first: NDArray[np.int64]  # [n + 1]
    member: NDArray[np.int64]  # [E]

    @classmethod
    def of_friends(cls, graph: Graph) -> Lists:
        """The friends of every user; in a directed network those whom a user follows."""
        return cls(graph.indptr.astype(np.int64), graph.indices.astype(np.int64))

    @classmethod
    def of_items(cls, pairs: Sequence[tuple[NDArray[Any], NDArray[Any]]], n_items: Sequence[int], users: int) -> Lists:
        """The items of every user in all behaviors, whose items are numbered one behavior after the other."""
        before = offsets(np.array(n_items, dtype=np.int64))
        user = np.concatenate([each for each, _ in pairs])
        item = np.concatenate([each + np.int64(start) for (_, each), start in zip(pairs, before, strict=False)])
        order = np.lexsort((item, user))
        return cls(offsets(np.bincount(user, minlength=users)).astype(np.int64), item[order])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of members of each list, [n]."""
        return np.diff(self.first)

    def take(self, rows: NDArray[np.int64]) -> Lists:
        """These lists alone."""
        start = self.first[rows]
        lengths = self.first[rows + 1] - start
        first = offsets(lengths).astype(np.int64)
        return Lists(first, self.member[np.arange(first[-1]) + np.repeat(start - first[:-1], lengths)])
