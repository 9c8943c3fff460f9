"""Users drawn as noise: in proportion to degree^0.75, as word2vec does with words (Mikolov et al., NIPS 2013)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mcne.data.graph import Graph
from mcne.randomness import Stream

POWER = 0.75


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
