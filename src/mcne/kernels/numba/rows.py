"""Rows of a table updated by Adam in one pass, and places grouped by row, compiled for the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.kernels.compilation import compiled

Array = NDArray[Any]


@compiled
def adam(
    table: Array,  # [n, d]
    first: Array,  # [n, d] both moments
    second: Array,  # [n, d]
    rows: Array,  # [r] distinct
    gradient: Array,  # [r, d]
    keep: Any,  # β₁ and β₂
    keep_second: Any,
    new: Any,  # 1 − β₁ and 1 − β₂, which single precision could not subtract
    new_second: Any,
    scale: Any,  # √(1 − β₂ᵗ)
    rate: Any,  # of learning, over 1 − β₁ᵗ
    epsilon: Any,
    start: int,
    stop: int,
) -> None:
    """Update the rows from ``start`` to ``stop`` of ``rows``, in place."""
    for i in range(start, stop):
        values, m, v, own = table[rows[i]], first[rows[i]], second[rows[i]], gradient[i]  # [d], which vectorizes
        for k in range(len(own)):
            m[k] = keep * m[k] + new * own[k]
            v[k] = keep_second * v[k] + new_second * own[k] * own[k]
            values[k] -= rate * m[k] / (np.sqrt(v[k]) / scale + epsilon)


def grouped(keys: NDArray[np.int64], n_keys: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the places of each key begin, [n_keys + 1], and the places of ``keys``, flattened, by key."""
    first = np.zeros(n_keys + 1, np.int64)
    places = np.empty(keys.size, np.int64)
    _group(keys.reshape(-1), first, places)
    return first, places


@compiled
def _group(keys: Array, first: Array, places: Array) -> None:
    """Counting sort: the places of a key stay in their order."""
    for key in keys:
        first[key + 1] += 1
    for j in range(1, len(first)):
        first[j] += first[j - 1]
    free = first[:-1].copy()
    for place in range(len(keys)):
        places[free[keys[place]]] = place
        free[keys[place]] += 1
