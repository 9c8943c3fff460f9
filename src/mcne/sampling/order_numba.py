"""The order of random keys, compiled for the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.kernels.compilation import compiled

KEYS_PER_BUCKET = 4
"""Enough that finding the bucket of a key stays in cache, few enough that a bucket is soon sorted."""


def order(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """``np.argsort(keys, kind="stable")`` several times as fast, for keys that are uniform over 64 bits."""
    bits = max(1, (len(keys) // KEYS_PER_BUCKET).bit_length())
    ordered, places, first = np.empty_like(keys), np.empty(len(keys), np.int64), np.zeros((1 << bits) + 1, np.int64)
    _order(keys, np.uint64(64 - bits), first, ordered, places)
    return places


@compiled
def _order(
    keys: NDArray[Any],  # [n]
    shift: Any,  # of a key to its bucket
    first: NDArray[Any],  # [buckets + 1] zeros
    ordered: NDArray[Any],  # [n] out: the keys
    places: NDArray[Any],  # [n] out: and where they were
) -> None:
    """By their highest bits first, then each past those before it that are larger, of which its bucket has few."""
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
        key, place, at = ordered[i], places[i], i
        while at > 0 and ordered[at - 1] > key:
            ordered[at], places[at] = ordered[at - 1], places[at - 1]
            at -= 1
        ordered[at], places[at] = key, place
