"""CSV, TSV and RecBole atomic files, read by Arrow; whatever is wrong is named with its line.

Arrow reads fast and in parallel but cannot say on which line a value stands. So a file is read the fast way
first, and only a file that turned out to be wrong is walked again, line by line, to name the place.
"""

from __future__ import annotations

import csv
import gzip
import sys
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TextIO

import pyarrow as pa
import pyarrow.csv as pa_csv

from mcne.errors import DataError

ATOMIC_SUFFIXES = (".inter", ".net", ".user")
DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t"} | dict.fromkeys(ATOMIC_SUFFIXES, "\t")
BLOCK = 1 << 24
NO_ROWS = "no rows below the header; at least one is needed"


@dataclass(frozen=True)
class TextFile:
    """A delimited text file with a header line."""

    path: Path
    delimiter: str
    header: tuple[str, ...]  # as written in the file
    header_lines: int  # lines down to the header's last, blank ones included
    quoted: bool

    @property
    def names(self) -> list[str]:
        """The column names; of RecBole's ``name:type`` the name."""
        return [name if self.quoted else name.partition(":")[0] for name in self.header]

    @property
    def tokens(self) -> frozenset[str]:
        """The columns that RecBole's header declares to be names, even where they look like numbers."""
        return frozenset(
            name for name, written in zip(self.names, self.header, strict=True) if written.endswith(":token")
        )

    def read(self, types: Mapping[str, pa.DataType]) -> pa.Table:
        """The columns named in ``types``. Nothing is taken for missing: empty fields are empty text."""
        written = {self.header[self.names.index(name)]: kind for name, kind in types.items()}
        try:
            table = pa_csv.read_csv(
                self.path,
                read_options=pa_csv.ReadOptions(
                    block_size=BLOCK, skip_rows=self.header_lines, column_names=list(self.header)
                ),
                parse_options=pa_csv.ParseOptions(
                    delimiter=self.delimiter,
                    quote_char='"' if self.quoted else False,
                    newlines_in_values=self.quoted and _may_hold_quotes(self.path),
                ),
                convert_options=pa_csv.ConvertOptions(
                    column_types=written, include_columns=list(written), null_values=[], strings_can_be_null=False
                ),
            )
        except (pa.ArrowInvalid, OSError) as error:
            self._explain(written, error)
        if not len(table):
            raise DataError(f"{self.path}: {NO_ROWS}")
        return table.rename_columns(list(types))

    def locate(self, row: int, column: str) -> str:
        """``file, line 7, column 'x', value '…'`` for a row counted without the header and blank lines."""
        at = self.header[self.names.index(column)] if column in self.names else column
        for number, (line, fields) in enumerate(self._rows()):
            if number == row:
                value = fields[self.header.index(at)] if at in self.header else ""
                return f"{self.path}, line {line}, column {at!r}, value {value!r}"
        return f"{self.path}, row {row + 1}, column {at!r}"

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """First line and fields of every row below the header."""
        limit = csv.field_size_limit(sys.maxsize)  # Arrow has none either
        try:
            with _open(self.path) as file:
                reader = _reader(file, self.delimiter, self.quoted)
                first = 1
                for fields in reader:
                    if fields and first > self.header_lines:
                        yield first, fields
                    first = reader.line_num + 1
        finally:
            csv.field_size_limit(limit)

    def _explain(self, columns: Collection[str], error: Exception) -> NoReturn:
        """Say on which line the file is wrong."""
        line = 0
        try:
            for line, fields in self._rows():
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


def open_text(path: Path) -> TextFile:
    """Look at the header of a delimited text file."""
    suffixes = [suffix for suffix in path.suffixes if suffix != ".gz"]
    delimiter, quoted = DELIMITERS[suffixes[-1]], suffixes[-1] not in ATOMIC_SUFFIXES
    try:
        with _open(path) as file:
            reader = _reader(file, delimiter, quoted)
            header: list[str] = next(filter(None, reader), [])  # blank lines count for nothing, above it too
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        said = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: {said}; a text file, or one packed by gzip and named .gz, is expected") from error
    names = tuple(name.strip() for name in header)
    _refuse_undecoded(delimiter.join(names), f"{path}, line {reader.line_num}")
    if not any(names):
        raise DataError(f"{path}: empty; a header line with the column names is expected")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{path}, line 1: column {twice[0]!r} is there twice; rename one")
    return TextFile(path, delimiter, names, reader.line_num, quoted)


def _open(path: Path) -> TextIO:
    """Undecodable bytes come as lone surrogates: only the walk over the lines can say where they stand."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="")
    return path.open(encoding="utf-8-sig", errors="surrogateescape", newline="")


def _may_hold_quotes(path: Path) -> bool:
    """Whether a line break may stand inside a field: Arrow, not told, may cut the file there and mix up rows."""
    with path.open("rb") as file:
        return path.suffix == ".gz" or any(b'"' in chunk for chunk in iter(lambda: file.read(BLOCK), b""))


def _refuse_undecoded(text: str, place: str) -> None:
    raw = text.encode("utf-8", "surrogateescape")
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{place}, value {raw[:80]!r}: not UTF-8 text; save the file as UTF-8") from error


def _reader(file: TextIO, delimiter: str, quoted: bool) -> Any:
    return csv.reader(file, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE)
