"""The distinct numbers of a step: each is looked up and updated once, however often it is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SPARSE = 64
"""With fewer than one number in so many drawn, what is drawn is sorted instead of marked."""


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
