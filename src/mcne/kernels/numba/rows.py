"""Rows of a table updated by Adam in one pass, places grouped by row, and what :mod:`mcne.sampling.triples` sorts and
searches for a step, compiled for the CPU.
"""

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


@compiled
def bisect(gaps: Array, low: Array, high: Array, k: Array, below: Array) -> None:
    """Write how many seen items are below each user's k-th unseen one, ``below`` [n, count] of ``k`` [n, count].

    ``gaps`` [pairs] are the unseen items below each seen one, never decreasing within a user, whose pairs are those
    from ``low`` [n] to before ``high`` [n]. All ``count`` are bisected side by side: no step of one waits for another.
    """
    for i in range(len(k)):
        below[i] = 0
        left = high[i] - low[i]
        while left > 0:
            half = (left + 1) // 2
            for s in range(k.shape[1]):
                is_below = gaps[low[i] + below[i, s] + half - 1] <= k[i, s]
                below[i, s] += half if is_below else 0  # a select, not a branch: the CPU could not predict it
            left -= half


@compiled
def sort_buckets(keys: Array, shift: Any, first: Array, ordered: Array, places: Array) -> None:
    """Write the ``keys`` in order to ``ordered`` and where they were to ``places``, all [n].

    Keys are bucketed by their highest bits, those left after a ``shift``, and then sorted by insertion: a bucket holds
    only a few. ``first`` [buckets + 1] comes as zeros.
    """
    for key in keys:
        first[(key >> shift) + 1] += 1
    for j in range(1, len(first)):
        first[j] += first[j - 1]
    for place in range(len(keys)):
        key = keys[place]
        at = first[key >> shift]
        first[key >> shift] += 1
        ordered[at], places[at] = key, place
    for i in range(1, len(keys)):
        key, place = ordered[i], places[i]
        at = i
        while at > 0 and ordered[at - 1] > key:
            ordered[at], places[at] = ordered[at - 1], places[at - 1]
            at -= 1
        ordered[at], places[at] = key, place
