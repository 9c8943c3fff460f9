"""MATLAB files of untrusted origin: sizes are checked before anything is expanded.

A MATLAB 5 file is a 128-byte header and a row of elements, each compressed on its own. They are expanded here
piece by piece under a limit: a small file that would expand to fill the memory is refused after the first piece.
A numeric matrix is then read in place, without a copy. SciPy's reader is not used, since damaged files crash it.
"""

from __future__ import annotations

import math
import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcne.errors import DataError
from mcne.text import human_bytes

HEADER = 128
VERSIONS = {b"\x00\x01IM": "<", b"\x01\x00MI": ">"}  # 5.0; a 7.3 file has 2.0 here and is HDF5 below
MI_MATRIX, MI_COMPRESSED = 14, 15
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
NAMED_CLASSES = range(1, 16)  # those whose header has dimensions and a name; the newer, opaque ones differ
NUMERIC_CLASSES = range(6, 16)  # double, single and the integers; not cell, struct, object, char or sparse
IS_COMPLEX = 0x0800
MAX_FILE = 1 << 30
MAX_EXPANDED = 2 << 30
MAX_RATIO = 100
ALWAYS_ALLOWED = 1 << 20


class _Variable(NamedTuple):
    """A variable of any class: what its header says, and where its values start."""

    element: bytes
    order: str
    flags: int
    dims: tuple[int, ...]
    at: int


def read_matrix(path: Path, key: str) -> NDArray[Any]:
    """The numeric matrix ``key`` of a MATLAB 5 file, in the type its values are stored in."""
    try:
        size = path.stat().st_size
        if size > MAX_FILE:
            raise DataError(
                f"has {human_bytes(size)}, and MATLAB files of up to {human_bytes(MAX_FILE)} can be read",
                path,
                "save a smaller file",
                value=size,
                allowed=[MAX_FILE],
            )
        data = path.read_bytes()
    except OSError as error:
        raise DataError.of_path(str(error.strerror), path, "put the raw files into this directory") from error
    try:
        variables = _variables(path, data)
        if key not in variables:
            raise DataError(
                f"has no matrix {key!r}; it has {', '.join(variables) or 'none'}",
                path,
                "save the matrix under this name",
                value=key,
                allowed=variables,
            )
        return _values(path, key, variables[key])
    except (struct.error, UnicodeDecodeError) as error:
        raise DataError(f"is damaged: a matrix cannot be read ({error})", path, "download it again") from error


def _variables(path: Path, data: bytes) -> dict[str, _Variable]:
    """The variables of the file, by name."""
    order = VERSIONS.get(data[124:HEADER])
    if order is None:
        raise DataError(
            "is not a MATLAB 5 file (a 7.3 or 4 file, another format, or truncated)", path, "save it with -v7"
        )
    budget = min(MAX_EXPANDED, ALWAYS_ALLOWED + MAX_RATIO * len(data))
    variables: dict[str, _Variable] = {}
    at = HEADER
    while at < len(data):
        if at + 8 > len(data):
            raise DataError(
                f"is truncated at byte {len(data):,}, inside the tag of an element", path, "download it again"
            )
        kind, size = struct.unpack_from(order + "II", data, at)
        if at + 8 + size > len(data):
            raise DataError(f"is truncated at byte {len(data):,} of {at + 8 + size:,}", path, "download it again")
        element = data[at : at + 8 + size]
        if kind == MI_COMPRESSED:
            element = _expand(path, element[8:], budget)
            budget -= len(element)
        variables |= _header(element, order)
        at += 8 + size
    return variables


def _expand(path: Path, body: bytes, budget: int) -> bytes:
    decompress = zlib.decompressobj()
    try:
        element = decompress.decompress(body, budget + 1)
    except zlib.error as error:
        raise DataError(
            f"is damaged: its compressed data cannot be read ({error})", path, "download it again"
        ) from error
    if len(element) > budget:
        raise DataError(
            f"expands to more than {human_bytes(budget)} from {human_bytes(len(body))}, over {MAX_RATIO}×, as no "
            "table of ratings or links does",
            path,
            "download it again",
        )
    if not decompress.eof:
        raise DataError("is truncated: its compressed data ends too early", path, "download it again")
    return element


def _header(element: bytes, order: str) -> dict[str, _Variable]:
    """The variable under its name; nothing for an element that is none, or has none."""
    if struct.unpack_from(order + "I", element)[0] != MI_MATRIX:
        return {}
    _, flags, at = _part(element, 8, order)
    (bits,) = struct.unpack_from(order + "I", flags)
    if bits & 0xFF not in NAMED_CLASSES:
        return {}
    _, dims, at = _part(element, at, order)
    _, name, at = _part(element, at, order)
    shape = struct.unpack_from(f"{order}{len(dims) // 4}i", dims)
    return {name.decode("ascii"): _Variable(element, order, bits, shape, at)} if name else {}


def _part(element: bytes, at: int, order: str) -> tuple[int, bytes, int]:
    """The kind and bytes of the sub-element at ``at``, and where the next one starts."""
    (kind,) = struct.unpack_from(order + "I", element, at)
    size = kind >> 16
    if size:  # up to four bytes are packed into the tag itself
        kind &= 0xFFFF
        start = at + 4
        end = at + 8
    else:
        (size,) = struct.unpack_from(order + "I", element, at + 4)
        start = at + 8
        end = start + size + -size % 8
    if start + size > min(len(element), end):
        raise struct.error(f"{size:,} bytes announced at byte {at:,} of {len(element):,}")
    return kind, element[start : start + size], end


def _values(path: Path, name: str, variable: _Variable) -> NDArray[Any]:
    """The values of a numeric table, if it is one and they are as many as its header says."""
    its_class = variable.flags & 0xFF
    is_complex = variable.flags & IS_COMPLEX
    if its_class not in NUMERIC_CLASSES or is_complex:
        what = f"{'complex, ' if is_complex else ''}class {its_class}"
        raise DataError(f"{name!r} is not a plain numeric matrix ({what})", path, "save ids as numbers", value=name)
    if len(variable.dims) != 2:
        raise DataError(
            f"{name!r} has {len(variable.dims)} dimensions, not 2",
            path,
            "save it as a matrix of rows and columns",
            value=name,
        )
    kind, data, _ = _part(variable.element, variable.at, variable.order)
    if kind not in STORED:
        raise struct.error(f"values of unknown type {kind}")
    stored = np.dtype(variable.order + STORED[kind])
    if min(variable.dims) < 0 or math.prod(variable.dims) * stored.itemsize != len(data):
        shape = "×".join(map(str, variable.dims))
        size = human_bytes(len(data))
        raise DataError(
            f"{name!r} claims {shape} values of {stored.itemsize} bytes in {size}",
            path,
            "download it again",
            value=name,
        )
    table = np.frombuffer(data, stored).reshape(variable.dims, order="F")
    return table.astype(stored.newbyteorder("="), copy=False)
