"""Rows of a table updated by Adam in one pass, and places grouped by row, compiled for the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.kernels.compilation import compiled

Array = NDArray[Any]


@compiled
def adam(
    table: Array, first: Array, second: Array, rows: Array, gradient: Array, numbers: Any, start: int, stop: int
) -> None:
    """Move a ``table`` [n, d] and both its moments, in place, from ``start`` to ``stop`` of the distinct ``rows`` [r].

    ``numbers`` are β₁ and β₂, 1 − β₁ and 1 − β₂ (which single precision could not subtract), √(1 − β₂ᵗ), the learning
    rate over 1 − β₁ᵗ, and ε.
    """
    keep, keep_second, new, new_second, scale, rate, epsilon = numbers
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
