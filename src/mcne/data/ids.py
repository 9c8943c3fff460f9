"""Raw ids and row numbers: the callers' ids on the outside, rows of arrays on the inside.

Ids are sorted, so that the same data in another row order gives the same dataset. Text is kept as UTF-8 bytes and
offsets: two plain arrays that memory-map, that Arrow reads without a copy and NumPy alone can read too.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mcne.errors import UnknownError
from mcne.text import counted

WIDE_TEXT = pa.large_string()
NEAR = 10_000  # ids on either side among which similar ones are looked for
DENSE_RANGE = 1 << 22  # integer ids with a range below this (or four times their count) are looked up in a table

IdColumn = Any
"""A column of raw ids: a NumPy integer array, or an Arrow (chunked, dictionary) array of text."""


def _canonical_integer(largest: str) -> str:
    """The pattern of integers up to ``largest``: shorter ones, those below it from some digit on, and itself."""
    below = [
        f"{largest[:k]}[{0 if k else 1}-{int(digit) - 1}][0-9]{{{len(largest) - 1 - k}}}"
        for k, digit in enumerate(largest)
        if int(digit) > (0 if k else 1)
    ]
    return f"^(0|-?([1-9][0-9]{{0,{len(largest) - 2}}}|{'|'.join(below)}|{largest}))$"


CANONICAL_INTEGER = _canonical_integer(str(2**63 - 1))
"""Text that means one integer and is written the one way: no leading zeros, no plus sign, fits 64 bits."""


class Ids(Sequence[int | str]):
    """Sorted unique raw ids, all integers or all text. ``ids[row]`` is the raw id, ``ids.row(raw)`` the row."""

    def __init__(self, values: NDArray[np.integer[Any]] | Iterable[str] | pa.Int64Array | pa.LargeStringArray) -> None:
        self._values: Any = values  # a pa.Int64Array or pa.LargeStringArray
        if isinstance(values, np.ndarray):
            self._values = integer_array(values)
        elif not isinstance(values, pa.Int64Array | pa.LargeStringArray):
            self._values = pa.array(values, WIDE_TEXT)
        if not pc.all(pc.greater(self._values[1:], self._values[:-1]), min_count=0).as_py():
            raise ValueError("ids must be sorted and unique")

    @property
    def kind(self) -> str:
        """``"integer"`` or ``"text"``."""
        return "integer" if pa.types.is_integer(self._values.type) else "text"

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, row: int) -> int | str: ...

    @overload
    def __getitem__(self, row: slice) -> list[int | str]: ...

    def __getitem__(self, row: int | slice) -> int | str | list[int | str]:
        if isinstance(row, slice):
            return self.take(np.arange(len(self))[row])
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of {len(self)} ids")
        raw: int | str = self._values[int(row)].as_py()
        return raw

    def __iter__(self) -> Iterator[int | str]:
        return iter(self._values.to_pylist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ids) and bool(self._values.equals(other._values))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(repr(raw) for raw in self[:3]) + (", …" if len(self) > 3 else "")
        return f"Ids({len(self):,} {self.kind}: {shown})"

    def take(self, rows: NDArray[np.integer[Any]]) -> list[int | str]:
        """The raw ids of these rows, as Python values."""
        return list(self.arrow(rows).to_pylist())

    def arrow(self, rows: NDArray[np.integer[Any]] | None = None) -> pa.Array:
        """The raw ids (of these rows) as an Arrow array."""
        return self._values if rows is None else self._values.take(integer_array(rows))

    def rows(self, raw: Any) -> NDArray[np.int64]:
        """The row of each raw id; −1 where the id is unknown."""
        if self.kind == "integer":
            known = self._integers()
            wanted = np.asarray(raw)
            if not len(self) or (wanted.size and wanted.dtype.kind not in "iu"):
                return np.full(len(wanted), -1, dtype=np.int64)
            at = np.minimum(np.searchsorted(known, wanted.astype(np.int64)), len(self) - 1)
            return np.where(known[at] == wanted, at, -1).astype(np.int64)
        values = raw if isinstance(raw, pa.Array | pa.ChunkedArray) else pa.array(list(map(str, raw)))
        rows = pc.index_in(values.cast(WIDE_TEXT), value_set=self._values)
        return np.asarray(pc.fill_null(rows, -1)).astype(np.int64)

    def rows_in(self, column: IdColumn) -> NDArray[np.int64]:
        """The row of each id of a column, compared as text if the column is coded; −1 where the id is unknown."""
        if isinstance(column, np.ndarray):
            return self.rows(column)
        values = coded(column)
        rows = pc.index_in(values.dictionary.cast(WIDE_TEXT), value_set=self._values.cast(WIDE_TEXT))
        distinct: NDArray[np.int64] = np.asarray(pc.fill_null(rows, -1)).astype(np.int64)
        at: NDArray[np.int64] = distinct[np.asarray(values.indices)]
        return at

    def row(self, raw: int | str, *, what: str = "id", of: str = "") -> int:
        """The row of one raw id; text that spells an integer finds an integer id.

        An unknown id is an error that says ``what`` it is, and ``of`` what.
        """
        known: int | str = raw
        if self.kind == "integer" and isinstance(raw, str):
            is_integer = re.fullmatch(CANONICAL_INTEGER, raw)  # by Arrow, it would import pandas
            known = int(raw) if is_integer else raw
        row = int(self.rows([known])[0])
        if row >= 0:
            return row
        if not len(self):
            raise UnknownError(f"unknown {what} {raw!r}{of}: there are none", value=raw, remedy="use other data")
        near = difflib.get_close_matches(str(raw), map(str, self._around(raw)), n=3)
        hint = f"did you mean {', '.join(near)}? The" if near else "the"
        remedy = f"{hint} data has {counted(len(self), what)}, from {self[0]!r} to {self[-1]!r}"
        raise UnknownError(f"unknown {what} {raw!r}{of}", value=raw, allowed=near, remedy=remedy)

    def _around(self, raw: int | str) -> list[int | str]:
        """The ids to look for similar ones among: the first, and those around the place that an id would have."""
        wanted: bytes | int = str(raw).encode("utf-8", "surrogatepass")
        if self.kind == "integer":
            digits = re.match("-?[0-9]{1,18}", str(raw))
            wanted = int(digits[0]) if digits else 0
        place = bisect_left(self, wanted, key=lambda each: each.encode() if isinstance(each, str) else each)
        first = max(NEAR, place - NEAR)
        return [*self[:NEAR], *self[first : place + NEAR]]

    def subset(self, rows: NDArray[np.integer[Any]]) -> Ids:
        """The ids of these rows, which must be increasing."""
        return Ids(self.arrow(rows))

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays to store under ``name``; :meth:`from_arrays` reads them back."""
        if self.kind == "integer":
            return {name: self._integers()}
        return text_arrays(self._values, name)

    def _integers(self) -> NDArray[np.int64]:
        """Integer ids, without a copy."""
        start = self._values.offset
        integers = np.frombuffer(self._values.buffers()[1], np.int64)[start : start + len(self)]
        integers.flags.writeable = False
        return integers

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], name: str) -> Ids:
        """Read what :meth:`arrays` stored, without copying."""
        if name in arrays:
            return cls(arrays[name])
        return cls(text_of(arrays, name))


class Names(Sequence[str]):
    """A name for people of each user or item, in the order of rows; empty where there is none."""

    def __init__(self, values: Iterable[str] | pa.LargeStringArray) -> None:
        self._values = values if isinstance(values, pa.LargeStringArray) else pa.array(values, WIDE_TEXT)

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, row: int) -> str: ...

    @overload
    def __getitem__(self, row: slice) -> list[str]: ...

    def __getitem__(self, row: int | slice) -> str | list[str]:
        return list(self._values[row].to_pylist()) if isinstance(row, slice) else str(self._values[int(row)])

    def take(self, rows: NDArray[np.integer[Any]]) -> list[str]:
        """The names of these rows."""
        return list(self._values.take(integer_array(rows)).to_pylist())

    def arrow(self) -> pa.LargeStringArray:
        """The names as an Arrow array."""
        return self._values

    def subset(self, rows: NDArray[np.integer[Any]]) -> Names:
        """The names of these rows, as a value of their own."""
        return Names(self._values.take(integer_array(rows)))

    @classmethod
    def joined(cls, parts: Sequence[Names]) -> Names:
        """The names of all parts, one after the other."""
        return cls(pa.concat_arrays([part._values for part in parts]))

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays to store under ``name``; :meth:`from_arrays` reads them back."""
        return text_arrays(self._values, name)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], name: str) -> Names:
        """Read what :meth:`arrays` stored, without copying."""
        return cls(text_of(arrays, name))

    @classmethod
    def stored(cls, arrays: Mapping[str, NDArray[Any]], name: str) -> Names | None:
        """Read what :meth:`arrays` stored, if it stored anything."""
        return cls.from_arrays(arrays, name) if f"{name}.offsets" in arrays else None


def name_of(names: Names | None, row: int) -> str:
    """The name of one row; empty where there is none."""
    return "" if names is None else names[row]


def names_of(names: Names | None, rows: NDArray[np.integer[Any]]) -> tuple[str, ...] | None:
    """The names of these rows, if there are any names."""
    return None if names is None else tuple(names.take(rows))


def text_arrays(values: pa.LargeStringArray, name: str) -> dict[str, NDArray[Any]]:
    """Text as two plain arrays, where each begins and the UTF-8 bytes of all."""
    whole = values.take(integer_array(np.arange(len(values)))) if values.offset else values
    _, offsets, data = whole.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[: len(values) + 1] if len(values) else np.zeros(1, np.int64)
    text = np.frombuffer(data, dtype=np.uint8)[: ends[-1]] if data else np.zeros(0, np.uint8)
    return {f"{name}.offsets": ends, f"{name}.utf8": text}


def text_of(arrays: Mapping[str, NDArray[Any]], name: str) -> pa.LargeStringArray:
    """The text that :func:`text_arrays` stored, without copying."""
    offsets, text = arrays[f"{name}.offsets"], arrays[f"{name}.utf8"]
    return pa.Array.from_buffers(WIDE_TEXT, len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(text)])


def integer_array(values: NDArray[np.integer[Any]]) -> pa.Int64Array:
    """Integers as Arrow has them, without a copy where they have 64 bits; ``pa.array`` would import pandas."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values, np.int64))])


def encode(*columns: IdColumn) -> tuple[Ids, list[NDArray[np.int32]]]:
    """Number the ids of all columns together: the sorted distinct ids, and each column as their rows.

    Columns are all integer or all text. Takes time linear in the rows; only the distinct ids are sorted.
    """
    if all(isinstance(column, np.ndarray) for column in columns):
        low = min((int(column.min()) for column in columns if len(column)), default=0)
        high = max((int(column.max()) for column in columns if len(column)), default=-1)
        if high - low < max(DENSE_RANGE, 4 * sum(map(len, columns))):
            present = np.zeros(high - low + 1, dtype=bool)
            shifted = [column.astype(np.int64, copy=False) - low if low else column for column in columns]
            for column in shifted:
                present[column] = True
            rows = np.cumsum(present, dtype=np.int32) - np.int32(1)
            return Ids(np.flatnonzero(present) + low), [rows[column] for column in shifted]
    coded_columns = [in_use(coded(column)) for column in columns]
    kind = pa.int64() if pa.types.is_integer(coded_columns[0].dictionary.type) else WIDE_TEXT
    values = [column.dictionary.cast(kind) for column in coded_columns]
    distinct = pc.unique(pa.concat_arrays(values))
    distinct = distinct.take(pc.sort_indices(distinct))
    numbers = [np.asarray(pc.index_in(own, value_set=distinct)).astype(np.int32) for own in values]
    return Ids(distinct), [own[np.asarray(column.indices)] for own, column in zip(numbers, coded_columns, strict=True)]


def coded(column: IdColumn) -> pa.DictionaryArray:
    """A column of text or integers as one array of int32 codes into its distinct values."""
    if isinstance(column, np.ndarray):
        column = integer_array(column)
    chunked = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    if not pa.types.is_dictionary(chunked.type):
        plain = chunked if pa.types.is_integer(chunked.type) else chunked.cast(WIDE_TEXT)
        chunked = plain.dictionary_encode()
    chunks = chunked.unify_dictionaries().chunks or [pa.array([], chunked.type)]
    codes = pa.concat_arrays([chunk.indices for chunk in chunks]).cast(pa.int32())
    values = chunks[-1].dictionary
    return pa.DictionaryArray.from_arrays(codes, values if pa.types.is_integer(values.type) else values.cast(WIDE_TEXT))


def in_use(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """The column without the distinct values that none of its rows has, as categories may have."""
    codes = np.asarray(column.indices)
    used = np.bincount(codes, minlength=len(column.dictionary)) > 0
    if used.all():
        return column
    rows = np.cumsum(used, dtype=np.int32) - np.int32(1)
    return pa.DictionaryArray.from_arrays(rows[codes], column.dictionary.filter(pa.array(used)))
