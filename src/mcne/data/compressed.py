"""Two steps of every compressed layout: where runs of equal keys start, and offsets from counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

INT32_MAX = np.iinfo(np.int32).max


def run_starts(ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """True where a sorted array takes a new value."""
    starts = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=starts[1:])
    return starts


def offsets(counts: NDArray[Any]) -> NDArray[Any]:
    """Row offsets ``[0, c0, c0 + c1, …]``, int32 where they fit."""
    ends = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=ends[1:])
    return ends.astype(np.int32) if ends[-1] <= INT32_MAX else ends
