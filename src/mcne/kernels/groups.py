"""Places grouped by the row that they refer to, so that one program can sum up all of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mcne.kernels.backend import compiled


@dataclass(frozen=True)
class Groups:
    """Of m rows, each row's places: ``order[start[j]:stop[j]]``, increasing."""

    order: Tensor  # [places, at least]
    start: Tensor  # [m]
    stop: Tensor  # [m]


def places(keys: NDArray[Any], n_keys: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The groups of ``keys`` below ``n_keys``, whose places are those of the flattened keys: order, start and stop."""
    if (module := compiled("numba.groups")) is not None:
        first, order = module.grouped(keys, n_keys)
        return order, first[:-1], first[1:]
    ends = np.cumsum(np.bincount(keys.ravel(), minlength=n_keys))
    return np.argsort(keys, axis=None, kind="stable"), np.concatenate([[0], ends[:-1]]), ends
