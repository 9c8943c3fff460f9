"""Tables of vectors, and the way between NumPy and a device."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mcne.models.spill import new_table
from mcne.randomness import Stream

INIT_STD = 0.01
"""Of everything that learns, but masks and biases."""

NUMBERS_AT_ONCE = 1 << 22
"""Part of what a seed means: pieces of another size would draw other numbers."""


def normal_table(rows: int, width: int, *, std: float, stream: Stream) -> Tensor:
    """N(0, std²) rows, drawn a piece at a time: a large table in double precision would not fit."""
    table = new_table(rows, width)
    at_once = max(1, NUMBERS_AT_ONCE // max(width, 1))
    for start in range(0, rows, at_once):
        stop = min(start + at_once, rows)
        table[start:stop] = torch.from_numpy(stream.normal((stop - start, width)) * std)
    return table


def take(vectors: Tensor, rows: Tensor) -> Tensor:
    """``vectors[rows]``, by a function whose gradient adds up fast, and on a CPU in a fixed order."""
    return vectors.index_select(0, rows.flatten()).view(*rows.shape, *vectors.shape[1:])


def to_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """An array as a tensor on the device."""
    tensor: Tensor = torch.from_numpy(np.ascontiguousarray(array)).to(device, non_blocking=True)
    return tensor


def to_device_at_once(arrays: Sequence[NDArray[np.int64]], device: torch.device) -> list[Tensor]:
    """Arrays as tensors on the device, by a single transfer: many small ones take longer to send than to use.

    Each begins at a multiple of 16 bytes: kernels are compiled apart for those that do not.
    """
    sizes = [array.size + array.size % 2 for array in arrays]
    together = np.zeros(sum(sizes), np.int64)
    for array, end, size in zip(arrays, accumulate(sizes), sizes, strict=True):
        together[end - size : end - size + array.size] = array.ravel()
    parts = torch.split(to_device(together, device), sizes)
    return [part[: array.size].view(array.shape) for part, array in zip(parts, arrays, strict=True)]


def to_numpy(tensor: Tensor) -> NDArray[Any]:
    """A tensor as an array on the host."""
    return tensor.detach().cpu().numpy()
