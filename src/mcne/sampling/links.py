"""Links drawn from a network, one independent of the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mcne.data.graph import Graph
from mcne.randomness import Stream


class LinkSampler:
    """Draws links with replacement, in either direction; ``weighted`` in proportion to their weights."""

    def __init__(self, graph: Graph, *, weighted: bool = False) -> None:
        self._sources, self._targets = graph.sources(), graph.indices
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
