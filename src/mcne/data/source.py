"""One way to read a table, whatever it is: a text file, a parquet file, or a frame of any library.

Columns of text files come as text, numbers included; typed tables keep their types. Text comes coded, in one piece:
``dictionary<int32, large_string>``. Arrow reads text files fast but cannot say on which line a value stands, so only a
file that turned out to be wrong is walked again, line by line, to name the place.
"""

from __future__ import annotations

import csv
import gzip
import sys
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from mcne.data.assemble import Locate
from mcne.data.ids import coded
from mcne.errors import DataError, UsageError, unknown

ATOMIC_SUFFIXES = (".inter", ".net", ".user")
DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t"} | dict.fromkeys(ATOMIC_SUFFIXES, "\t")
BLOCK = 1 << 24
NO_ROWS = "no rows below the header; at least one is needed"
PARQUET_SUFFIXES = (".parquet", ".pq")
CODED_TEXT = pa.dictionary(pa.int32(), pa.string())
NUMERIC = ("timestamp", "weight")


@dataclass(frozen=True)
class RawTable:
    """Columns under their standard names; ``is_text`` where every value came as text."""

    label: str
    data: pa.Table
    is_text: bool
    locate: Locate
    tokens: Collection[str] = ()  # columns that RecBole's header declares to be names even if they look like numbers
    notes: Sequence[str] = ()  # what a person should know of how it was read

    def __contains__(self, column: str) -> bool:
        return column in self.data.column_names

    def __len__(self) -> int:
        return int(self.data.num_rows)


@dataclass(frozen=True)
class Wanted:
    """Columns to read: those that a table must have, those that it may have, and whether to read all others too."""

    required: Sequence[str]
    optional: Sequence[str] = ()
    others: bool = False


def read_table(source: Any, label: str, wanted: Wanted, columns: Mapping[str, str]) -> RawTable:
    """Read the wanted columns of a path or frame; ``columns`` maps standard names to the table's own."""
    if isinstance(source, str | Path):
        return _read_path(Path(source), wanted, columns)
    try:
        frame = source if isinstance(source, pa.Table) else pa.table(source)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise DataError(f"{label}: {type(source).__name__} is not a frame that Arrow can read ({error})") from error
    return _typed(frame, label, wanted, columns)


def _read_path(path: Path, wanted: Wanted, columns: Mapping[str, str]) -> RawTable:
    suffix = next((suffix for suffix in reversed(path.suffixes) if suffix != ".gz"), "")
    if suffix not in DELIMITERS and suffix not in PARQUET_SUFFIXES:
        raise UsageError(unknown("file type", suffix or path.name, [*DELIMITERS, *PARQUET_SUFFIXES]))
    if not path.is_file():
        raise DataError(f"{path}: {'a directory' if path.is_dir() else 'no such file'}; give the path of a file")
    if suffix in PARQUET_SUFFIXES:
        import pyarrow.parquet as pq  # takes longer to import than the rest of this module

        try:
            names = _resolve(str(path), pq.read_schema(path).names, wanted, columns)
            frame = pq.read_table(path, columns=list(names.values()))
            frame.validate(full=True)  # a damaged file may hold text that is none
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())
            raise DataError(f"{path}: not a readable parquet file ({reason}); write it again") from error
        return _typed(frame, str(path), wanted, columns)
    text = TextFile(path, suffix)
    own = _resolve(str(path), text.names, wanted, columns)
    data, notes = _trim(_code_text(text.read(own)), path)
    tokens = {name for name, written in zip(text.names, text.header, strict=True) if written.endswith(":token")}
    return RawTable(str(path), data, True, lambda row, column: text.locate(row, own.get(column, column)), tokens, notes)


def _trim(table: pa.Table, path: Path) -> tuple[pa.Table, list[str]]:
    """The table without spaces around its text, and a note for each column that had any."""
    notes = []
    for position, name in enumerate(table.column_names):
        if not pa.types.is_dictionary(table[name].type):
            continue
        column = table[name].chunk(0)
        trimmed = pc.utf8_trim(column.dictionary, characters=" ")
        changed = np.asarray(pc.not_equal(trimmed, column.dictionary))
        if changed.any():
            count = int(np.count_nonzero(changed[np.asarray(column.indices)]))
            notes.append(f"{path}, column {name!r}: spaces around {count:,} values are left out")
            distinct = trimmed.dictionary_encode()
            codes = np.asarray(distinct.indices)[np.asarray(column.indices)].astype(np.int32)
            table = table.set_column(position, name, pa.DictionaryArray.from_arrays(codes, distinct.dictionary))
    return table, notes


def _typed(frame: pa.Table, label: str, wanted: Wanted, columns: Mapping[str, str]) -> RawTable:
    names = _resolve(label, frame.column_names, wanted, columns)
    data = _code_text(frame.select(list(names.values())).rename_columns(list(names)))
    if not len(data):
        raise DataError(f"{label}: no rows; at least one is needed")

    def locate(row: int, column: str) -> str:
        value = data[column][row].as_py() if column in data.column_names else None
        return f"{label}, row {row + 1}, column {names.get(column, column)!r}, value {value!r}"

    return RawTable(label, data, False, locate)


def value_type(column: pa.ChunkedArray) -> pa.DataType:
    """The type of a column's values, coded or not."""
    return column.type.value_type if pa.types.is_dictionary(column.type) else column.type


def is_text(column: pa.ChunkedArray) -> bool:
    """Whether a column holds text, coded or not."""
    kind = value_type(column)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _code_text(table: pa.Table) -> pa.Table:
    """The table with its text coded; the numbers of text files, which hardly repeat, stay as they are."""
    for position, name in enumerate(table.column_names):
        if is_text(table[name]) and name not in NUMERIC:
            table = table.set_column(position, name, coded(table[name]))
    return table


def _resolve(label: str, existing: Sequence[str], wanted: Wanted, columns: Mapping[str, str]) -> dict[str, str]:
    """Standard name → the table's own name, for every wanted column that the table has."""
    names: dict[str, str] = {}
    for name in [*wanted.required, *wanted.optional]:
        own = columns.get(name, name)
        if existing.count(own) > 1:
            raise DataError(f"{label}: there are two columns {own!r}; rename one")
        if own in names.values():
            other = next(standard for standard, taken in names.items() if taken == own)
            raise UsageError(f"{label}: column {own!r} cannot be both {other!r} and {name!r}; map them to two columns")
        if own in existing:
            names[name] = own
        elif name in wanted.required or name in columns:
            hint = f"rename one, or map it: columns={{'{name}': …}} or --column {name}=NAME"
            if name in columns:
                hint = f"correct the mapping of {name!r}"
            shown = ", ".join(column if column.isprintable() else repr(column) for column in existing[:30])
            more = f", … {len(existing) - 30} more" if len(existing) > 30 else ""
            raise DataError(f"{label}: column {own!r} is missing; the columns are {shown}{more}; {hint}")
    for own in existing if wanted.others else []:
        if own in names and names[own] != own:
            raise DataError(f"{label}: column {own!r} exists beside {names[own]!r}, which is mapped to it; rename one")
        if own not in names.values():
            names[own] = own
    return names


class TextFile:
    """A delimited text file with a header line."""

    def __init__(self, path: Path, suffix: str) -> None:
        self.path = path
        self.delimiter = DELIMITERS[suffix]
        self.is_quoted = suffix not in ATOMIC_SUFFIXES
        try:  # blank lines count for nothing, above the header too
            _, self._header_end, header = next(self._rows(), (0, 0, []))
        except (OSError, EOFError, zlib.error, csv.Error) as error:
            reason = f"{path}: {getattr(error, 'strerror', None) or error}"
            raise DataError(f"{reason}; a text file, or one packed by gzip and named .gz, is expected") from error
        self.header = [name.strip() for name in header]  # as written in the file
        self.names = [name if self.is_quoted else name.partition(":")[0] for name in self.header]  # not RecBole's types
        _refuse_undecoded(self.delimiter.join(self.header), f"{path}, line {self._header_end}")
        if not any(self.header):
            raise DataError(f"{path}: empty; a header line with the column names is expected")
        twice = sorted({name for name in self.header if self.header.count(name) > 1})
        if twice:
            raise DataError(f"{path}, line 1: there are two columns {twice[0]!r}; rename one")

    def read(self, names: Mapping[str, str]) -> pa.Table:
        """Columns under their standard names, which map to the file's. Empty fields are empty text, not missing."""
        header = {name: self.header[self.names.index(own)] for name, own in names.items()}
        written = {own: pa.string() if name in NUMERIC else CODED_TEXT for name, own in header.items()}
        with self.path.open("rb") as file:  # Arrow, not told of line breaks inside fields, may cut the file there
            chunks = iter(lambda: file.read(BLOCK), b"")
            may_break = self.is_quoted and (self.path.suffix == ".gz" or any(b'"' in chunk for chunk in chunks))
        read = pa_csv.ReadOptions(block_size=BLOCK, skip_rows=self._header_end, column_names=self.header)
        quote = '"' if self.is_quoted else False
        parse = pa_csv.ParseOptions(delimiter=self.delimiter, quote_char=quote, newlines_in_values=may_break)
        convert = pa_csv.ConvertOptions(
            column_types=written, include_columns=list(written), null_values=[], strings_can_be_null=False
        )
        try:
            table = pa_csv.read_csv(self.path, read, parse, convert)
        except (pa.ArrowInvalid, OSError) as error:
            self._explain(written, error)
        if not len(table):
            raise DataError(f"{self.path}: {NO_ROWS}")
        return table.rename_columns(list(names))

    def locate(self, row: int, column: str) -> str:
        """``file, line 7, column 'x', value '…'`` for a row counted without the header and blank lines."""
        at = self.header[self.names.index(column)] if column in self.names else column
        for line, _, fields in islice(self._rows(), row + 1, None):
            value = fields[self.header.index(at)] if at in self.header else ""
            return f"{self.path}, line {line}, column {at!r}, value {value!r}"
        return f"{self.path}, row {row + 1}, column {at!r}"

    def _rows(self) -> Iterator[tuple[int, int, list[str]]]:
        """First line, last line and fields of the header and every row below it.

        Undecodable bytes come as lone surrogates, so that what is wrong can be shown with its place.
        """
        limit = csv.field_size_limit(sys.maxsize)  # Arrow has none either
        opened = gzip.open if self.path.suffix == ".gz" else open
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if self.is_quoted else csv.QUOTE_NONE
        try:
            with opened(self.path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
                reader = csv.reader(file, delimiter=self.delimiter, quoting=quoting)
                first = 1
                for fields in reader:
                    if fields:
                        yield first, reader.line_num, fields
                    first = reader.line_num + 1
        finally:
            csv.field_size_limit(limit)

    def _explain(self, columns: Collection[str], error: Exception) -> NoReturn:
        """Say on which line the file is wrong."""
        line = 0
        try:
            for line, _, fields in islice(self._rows(), 1, None):
                if len(fields) != len(self.header):
                    raise DataError(
                        f"{self.path}, line {line}: {len(fields)} fields where the header has {len(self.header)} "
                        f"({self.delimiter.join(fields)[:80]!r}); fill or quote the fields"
                    ) from error
                for name, value in zip(self.header, fields, strict=True):
                    if name in columns:
                        _refuse_undecoded(value, f"{self.path}, line {line}, column {name!r}")
        except (OSError, EOFError, zlib.error, csv.Error) as broken:
            raise DataError(f"{self.path}, after line {line}: {broken}; get or write the file again") from broken
        raise DataError(f"{self.path}: {f'{error}; get or write the file again' if line else NO_ROWS}") from error


def _refuse_undecoded(text: str, place: str) -> None:
    raw = text.encode("utf-8", "surrogateescape")
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{place}, value {raw[:80]!r}: not UTF-8 text; save the file as UTF-8") from error
