"""Places grouped by key, so that one thread can sum up all of a key."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.kernels.compilation import compiled


def grouped(keys: NDArray[np.int64], n_keys: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the places of each key begin, [n_keys + 1], and the places of ``keys``, flattened, by key."""
    first, places = np.zeros(n_keys + 1, np.int64), np.empty(keys.size, np.int64)
    _group(keys.reshape(-1), first, places)
    return first, places


@compiled
def _group(keys: NDArray[Any], first: NDArray[Any], places: NDArray[Any]) -> None:
    """Counting sort: the places of a key stay in their order."""
    for key in keys:
        first[key + 1] += 1
    for j in range(1, len(first)):
        first[j] += first[j - 1]
    free = first[:-1].copy()
    for place in range(len(keys)):
        places[free[keys[place]]] = place
        free[keys[place]] += 1
