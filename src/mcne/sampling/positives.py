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

BLOCK = 1024
"""Shorter cycles share a stream up to so many pairs: one for each would take longer than the step."""


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
        start, length = step * self.batch_size, _cycles(size) * size
        stop = min(start + self.batch_size, max(self.sizes))
        rows = np.empty(max(0, stop - start), dtype=np.int64)
        for block in range(start // length, -(-stop // length)):
            first, last = max(start, block * length), min(stop, (block + 1) * length)
            order = self._order[behavior](epoch, block)
            rows[first - start : last - start] = order[first - block * length : last - block * length]
        return rows

    def _shuffle(self, behavior: int, epoch: int, block: int) -> NDArray[np.int64]:
        """The orders of a block's cycles, one after the other."""
        size = self.sizes[behavior]
        keys = Stream(self._seed, "positives", behavior, epoch, block).bits((_cycles(size), size))
        return _order(keys[0]) if len(keys) == 1 else np.argsort(keys, axis=1, kind="stable").ravel()


def _order(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """How to put keys in order, equal ones in their own."""
    try:
        from mcne.sampling.order_numba import order
    except ImportError:
        return np.argsort(keys, kind="stable")
    return order(keys)


def _cycles(size: int) -> int:
    """How many cycles of a behavior are shuffled together."""
    return max(1, BLOCK // size)
