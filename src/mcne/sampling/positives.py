"""The positive pairs of each step: every behavior shuffled, the shorter ones cycled.

An epoch is as long as the longest behavior takes (reading 10). Shorter behaviors are shuffled anew and started
again until the epoch ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from mcne.randomness import Stream


class Positives:
    """Which training pairs of each behavior belong to a step: a function of seed, epoch and step alone."""

    def __init__(self, sizes: Sequence[int], *, batch_size: int, seed: int) -> None:
        self.sizes = tuple(sizes)
        self.batch_size = batch_size
        self._seed = seed
        self._order = [lru_cache(maxsize=4)(partial(self._shuffle, k)) for k in range(len(self.sizes))]

    @property
    def n_steps(self) -> int:
        """Steps of an epoch."""
        return -(-max(self.sizes, default=0) // self.batch_size)

    def rows(self, behavior: int, epoch: int, step: int) -> NDArray[np.int64]:
        """Rows of the behavior's training pairs in this step; all behaviors take equally many."""
        size = self.sizes[behavior]
        if not size:
            return np.zeros(0, dtype=np.int64)
        start = step * self.batch_size
        positions = np.arange(start, min(start + self.batch_size, max(self.sizes)))
        cycles, within = np.divmod(positions, size)
        rows = np.empty(len(positions), dtype=np.int64)
        for cycle in np.unique(cycles):
            mine = cycles == cycle
            rows[mine] = self._order[behavior](epoch, int(cycle))[within[mine]]
        return rows

    def _shuffle(self, behavior: int, epoch: int, cycle: int) -> NDArray[np.int64]:
        return Stream(self._seed, "positives", behavior, epoch, cycle).permutation(self.sizes[behavior])
