"""Links drawn from a network, and users drawn as noise beside them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mcne.data.graph import Graph
from mcne.randomness import Stream

POWER = 0.75
"""Noise is drawn in proportion to degree^0.75, as word2vec does with words (Mikolov et al., NIPS 2013)."""


class LinkSampler:
    """Draws links with replacement, in either direction; ``weighted`` in proportion to their weights."""

    def __init__(self, graph: Graph, *, weighted: bool = False) -> None:
        self._sources = graph.sources()
        self._targets = graph.indices
        self._cumulative = None
        if weighted and graph.weights is not None:
            self._cumulative = np.cumsum(graph.weights, dtype=np.float64)

    def draw(self, count: int, stream: Stream) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The users at both ends of ``count`` links, [count] each; none of a network without links."""
        last = len(self._targets) - 1
        chance = stream.uniform(count if last >= 0 else 0)
        if self._cumulative is None:
            link = (chance * (last + 1)).astype(np.int64)
        else:
            link = np.searchsorted(self._cumulative, chance * self._cumulative[last:], side="right").clip(max=last)
        return self._sources[link], self._targets[link]


class Noise:
    """Draws users of a graph; ``weighted`` counts a link by its weight. Users without links are never drawn."""

    def __init__(self, graph: Graph, *, weighted: bool = False) -> None:
        weights = graph.weights if weighted else None
        degrees = np.bincount(graph.sources(), weights, minlength=graph.n_users)
        self._cumulative = np.cumsum(degrees**POWER)
        self._last = int(np.flatnonzero(degrees)[-1]) if graph.n_links else 0

    def draw(self, shape: int | tuple[int, ...], stream: Stream) -> NDArray[np.int64]:
        """Users with replacement; any rows where nobody has a link."""
        target = stream.uniform(shape) * self._cumulative[-1]
        drawn: NDArray[np.int64] = np.searchsorted(self._cumulative, target, side="right").astype(np.int64)
        return drawn.clip(max=self._last)
