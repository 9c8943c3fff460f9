"""MATLAB files of untrusted origin: sizes are checked before anything is expanded.

A MATLAB 5 file is a 128-byte header and a row of elements, each compressed on its own. They are expanded here
piece by piece under a limit, and only a plain numeric matrix whose announced size its data can fill is handed
to ``scipy.io.loadmat``. A small file that would expand to fill the memory is refused after the first piece.
"""

from __future__ import annotations

import io
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.errors import DataError
from mcne.storage import human_bytes

HEADER = 128
MI_MATRIX, MI_COMPRESSED = 14, 15
NUMERIC_CLASSES = range(6, 16)  # double, single and the integers; not cell, struct, object, char or sparse
MAX_FILE = 1 << 30
MAX_EXPANDED = 2 << 30
MAX_RATIO = 100
ALWAYS_ALLOWED = 1 << 20


def read_matrix(path: Path, key: str) -> NDArray[Any]:
    """The numeric matrix ``key`` of a MATLAB 5 file."""
    try:
        size = path.stat().st_size
        if size > MAX_FILE:
            raise DataError(f"{path}: {human_bytes(size)}; MATLAB files up to {human_bytes(MAX_FILE)} are read")
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}; the raw files must lie in the given directory") from error
    elements = _matrices(path, data)
    if key not in elements:
        raise DataError(f"{path}: no matrix {key!r} in it; found {', '.join(elements) or 'none'}")
    return _load(path, data[:HEADER], elements[key], key)


def _matrices(path: Path, data: bytes) -> dict[str, bytes]:
    """The expanded elements of the file, by variable name."""
    if len(data) < HEADER or data[126:128] not in (b"IM", b"MI"):
        raise DataError(
            f"{path}: not a MATLAB 5 file (a 7.3 or 4 file, another format, or cut short); save it with -v7"
        )
    order = "<" if data[126:128] == b"IM" else ">"
    budget = min(MAX_EXPANDED, ALWAYS_ALLOWED + MAX_RATIO * len(data))
    found, at = {}, HEADER
    while at < len(data):
        if at + 8 > len(data):
            raise DataError(f"{path}: cut short at byte {len(data):,}, inside an element's tag; download it again")
        kind, size = struct.unpack_from(order + "II", data, at)
        body = data[at + 8 : at + 8 + size]
        if len(body) < size:
            raise DataError(f"{path}: cut short at byte {len(data):,} of {at + 8 + size:,}; download it again")
        element = _expand(path, body, budget) if kind == MI_COMPRESSED else data[at : at + 8 + size]
        budget -= len(element)
        name = _check_matrix(path, element, order)
        if name:
            found[name] = element
        at += 8 + size
    return found


def _expand(path: Path, body: bytes, budget: int) -> bytes:
    decompress = zlib.decompressobj()
    try:
        element = decompress.decompress(body, budget + 1)
    except zlib.error as error:
        raise DataError(f"{path}: damaged, its compressed data cannot be read ({error}); download it again") from error
    if len(element) > budget:
        raise DataError(
            f"{path}: expands to more than {human_bytes(budget)} from {human_bytes(len(body))}, over {MAX_RATIO}×; "
            "refused, since no table of ratings or links does"
        )
    if not decompress.eof:
        raise DataError(f"{path}: its compressed data ends too early; download it again")
    return element


def _check_matrix(path: Path, element: bytes, order: str) -> str | None:
    """The variable's name, after checking that it is a numeric matrix which its bytes can fill."""
    try:
        (kind,) = struct.unpack_from(order + "I", element, 0)
        if kind != MI_MATRIX:
            return None
        (flags,) = struct.unpack_from(order + "I", element, 16)
        (dims_size,) = struct.unpack_from(order + "I", element, 28)
        dims = struct.unpack_from(f"{order}{dims_size // 4}i", element, 32)
        at = 32 + dims_size + (-dims_size) % 8
        (tag,) = struct.unpack_from(order + "I", element, at)
        small = tag >> 16  # up to four bytes are packed into the tag itself
        size = small or struct.unpack_from(order + "I", element, at + 4)[0]
        start = at + 4 if small else at + 8
        name = element[start : start + size].decode("ascii")
    except (struct.error, UnicodeDecodeError) as error:
        raise DataError(f"{path}: damaged, an array's header cannot be read ({error}); download it again") from error
    if flags & 0xFF not in NUMERIC_CLASSES:
        raise DataError(f"{path}: {name!r} is not a plain numeric matrix (class {flags & 0xFF}); ids must be numbers")
    if min(dims, default=-1) < 0 or math.prod(dims) > len(element):
        shape = "×".join(map(str, dims))
        raise DataError(f"{path}: {name!r} announces {shape} values in {human_bytes(len(element))}; download it again")
    return name


def _load(path: Path, header: bytes, element: bytes, key: str) -> NDArray[Any]:
    from scipy.io import loadmat

    try:
        matrix = loadmat(io.BytesIO(header + element), variable_names=[key])[key]
    except Exception as error:  # scipy raises many kinds on damaged files; each means the same to the reader
        raise DataError(f"{path}: {key!r} cannot be read ({error}); download it again") from error
    if matrix.ndim != 2 or matrix.dtype.kind not in "iuf":
        raise DataError(f"{path}: {key!r} is {matrix.dtype} of shape {matrix.shape}; a table of numbers is expected")
    return np.asarray(matrix)
