"""Tables of vectors: where their numbers are, and the way between NumPy and a device.

The tables created first are in memory, as many as there is room for, and the others in files that the system reads and
writes as needed. Such a file has no name, so it vanishes with the process, however that ends.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mcne.errors import DiskError
from mcne.randomness import Stream

LARGE = 1 << 26
"""Bytes of a table from which on a copy that is rarely needed is kept in a file."""

CHUNK = 1 << 24

INIT_STD = 0.01
"""Of everything that learns, but masks and biases."""

NUMBERS_AT_ONCE = 1 << 22
"""Part of what a seed means: pieces of another size would draw other numbers."""


@dataclass
class Room:
    """Where files are created, and how many bytes of tables still go to memory."""

    directory: Path
    memory: int | None  # without a number all tables do, and only rarely needed copies are in files

    def takes(self, size: int, *, lasts: bool) -> bool:
        """Whether a table goes to memory; if it lasts, it then takes its part of the memory for tables."""
        if self.memory is None:
            return True
        if not lasts or size > self.memory:
            return False
        self.memory -= size
        return True


_ROOM: ContextVar[Room | None] = ContextVar("room", default=None)
_MAPPED: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()


@contextmanager
def room(directory: Path, *, memory: int | None) -> Iterator[None]:
    """Within the block, keep rarely needed copies in files of this directory, and tables beyond ``memory`` bytes."""
    token = _ROOM.set(Room(directory, memory))
    try:
        yield
    finally:
        _ROOM.reset(token)


def new_table(rows: int, width: int, *, like: Tensor | None = None, zero: bool = False, lasts: bool = True) -> Tensor:
    """A table [rows, width] to be filled, or of zeros; on the host unless it is to be ``like`` a tensor elsewhere.

    A table that does not ``last``, as it is computed anew for each scoring, takes no part of the memory for tables.
    """
    current = _ROOM.get()
    like = torch.empty(0) if like is None else like
    size = rows * width * like.itemsize
    if current is None or not (size and like.device.type == "cpu") or current.takes(size, lasts=lasts):
        return like.new_zeros(rows, width) if zero else like.new_empty(rows, width)
    with _file(current.directory, size) as file:
        mapped = mmap.mmap(file.fileno(), size)
    mapped.madvise(mmap.MADV_RANDOM)  # a row is read alone: what is beside it would only be in the way
    _MAPPED.add(mapped)
    return torch.frombuffer(mapped, dtype=like.dtype).view(rows, width)  # new files are zeros


@contextmanager
def read_in_order() -> Iterator[None]:
    """Within the block, tables in files are read from the first row to the last, as for a copy: many pages at once."""
    try:
        for mapped in list(_MAPPED):
            mapped.madvise(mmap.MADV_SEQUENTIAL)
        yield
    finally:
        for mapped in list(_MAPPED):
            mapped.madvise(mmap.MADV_RANDOM)


class Kept:
    """A copy of tensors that is rarely needed; large ones of the host are in files, if there is room for them."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        current = _ROOM.get()
        self._kept: dict[str, Tensor | tuple[int, torch.dtype, torch.Size]] = {}  # files by their descriptors
        for name, tensor in tensors.items():
            if current is None or tensor.device.type != "cpu" or tensor.nbytes < LARGE:
                self._kept[name] = tensor.clone()
            else:
                file = _written(current.directory, tensor)
                weakref.finalize(self, os.close, file)
                self._kept[name] = (file, tensor.dtype, tensor.shape)

    def tensors(self) -> dict[str, Tensor]:
        """All of them; what is in a file takes memory only while somebody holds what this returns."""
        return {name: kept if isinstance(kept, Tensor) else _mapped(*kept) for name, kept in self._kept.items()}


def copied(tensor: Tensor) -> Tensor:
    """A copy that nobody else writes to, in a file if it is large and there is room."""
    return Kept({"": tensor}).tensors()[""]


def normal_table(rows: int, width: int, *, std: float, stream: Stream) -> Tensor:
    """N(0, std²) rows, drawn a piece at a time: a large table in double precision would not fit."""
    table = new_table(rows, width)
    at_once = max(1, NUMBERS_AT_ONCE // max(width, 1))
    for start in range(0, rows, at_once):
        stop = min(start + at_once, rows)
        table[start:stop] = torch.from_numpy(stream.normal((stop - start, width)) * std)
    return table


def normal_parameter(shape: tuple[int, ...], stream: Stream) -> nn.Parameter:
    """Weights of a layer, N(0, :data:`INIT_STD`²)."""
    drawn = torch.from_numpy(stream.normal(shape) * INIT_STD)
    return nn.Parameter(drawn.to(torch.get_default_dtype()))


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


def _mapped(file: int, dtype: torch.dtype, shape: torch.Size) -> Tensor:
    return torch.frombuffer(mmap.mmap(file, 0, access=mmap.ACCESS_COPY), dtype=dtype).view(shape)


def _written(directory: Path, tensor: Tensor) -> int:
    """The descriptor of a file of the tensor's bytes."""
    data = tensor.detach().contiguous().view(-1).numpy().view(np.uint8)
    with _file(directory, tensor.nbytes) as file, read_in_order():
        for start in range(0, len(data), CHUNK):
            file.write(data[start : start + CHUNK].data)
        file.flush()
        return os.dup(file.fileno())


@contextmanager
def _file(directory: Path, size: int) -> Iterator[IO[bytes]]:
    """An unnamed file with reserved space: a full disk is an error now instead of a crash later."""
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                os.ftruncate(file.fileno(), size)
            yield file
    except OSError as error:
        raise DiskError(
            f"{error.strerror or error} ({size:,} bytes are needed for a table that does not fit in memory)",
            directory,
            "free some disk space there, or choose another --out",
        ) from error


def partly_detached(values: Tensor, share: float) -> Tensor:
    """The very same values, with ``share`` times the gradient."""
    fixed = values.detach()
    return fixed + share * (values - fixed) if share else fixed
