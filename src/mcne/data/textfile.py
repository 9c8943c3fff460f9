"""CSV, TSV and RecBole atomic files, read by Arrow; whatever is wrong is named with its line.

Arrow reads fast and in parallel but cannot say on which line a value stands. So a file is read the fast way
first, and only a file that turned out to be wrong is walked again, line by line, to name the place.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TextIO

import pyarrow as pa
import pyarrow.csv as pa_csv

from mcne.errors import DataError

ATOMIC_SUFFIXES = (".inter", ".net", ".user")
DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t"} | dict.fromkeys(ATOMIC_SUFFIXES, "\t")
BLOCK = 1 << 24


@dataclass(frozen=True)
class TextFile:
    """A delimited text file with a header line."""

    path: Path
    delimiter: str
    header: tuple[str, ...]  # as written in the file
    quoted: bool

    @property
    def names(self) -> list[str]:
        """The column names; of RecBole's ``name:type`` the name."""
        return [name if self.quoted else name.partition(":")[0] for name in self.header]

    def read(self, types: Mapping[str, pa.DataType]) -> pa.Table:
        """The columns named in ``types``. Nothing is taken for missing: empty fields are empty text."""
        written = {self.header[self.names.index(name)]: kind for name, kind in types.items()}
        try:
            table = pa_csv.read_csv(
                self.path,
                read_options=pa_csv.ReadOptions(block_size=BLOCK, skip_rows=1, column_names=list(self.header)),
                parse_options=pa_csv.ParseOptions(delimiter=self.delimiter, quote_char='"' if self.quoted else False),
                convert_options=pa_csv.ConvertOptions(
                    column_types=written, include_columns=list(written), null_values=[], strings_can_be_null=False
                ),
            )
        except (pa.ArrowInvalid, OSError) as error:
            self._explain(error)
        if not len(table):
            raise DataError(f"{self.path}: no rows below the header; at least one is needed")
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
        """Line number and fields of every row below the header."""
        with _open(self.path) as file:
            reader = _reader(file, self.delimiter, self.quoted)
            next(reader)
            for fields in reader:
                if fields:
                    yield reader.line_num, fields

    def _explain(self, error: Exception) -> NoReturn:
        """Say on which line the file is wrong."""
        line = 1
        try:
            for line, fields in self._rows():
                if len(fields) != len(self.header):
                    raise DataError(
                        f"{self.path}, line {line}: {len(fields)} fields where the header has {len(self.header)} "
                        f"({self.delimiter.join(fields)[:80]!r}); fill or quote the fields"
                    ) from error
        except (UnicodeDecodeError, csv.Error) as broken:
            raise DataError(f"{self.path}, after line {line}: {broken}; save the file as UTF-8 text") from broken
        raise DataError(f"{self.path}: {error}") from error


def open_text(path: Path) -> TextFile:
    """Look at the header of a delimited text file."""
    suffixes = [suffix for suffix in path.suffixes if suffix != ".gz"]
    delimiter, quoted = DELIMITERS[suffixes[-1]], suffixes[-1] not in ATOMIC_SUFFIXES
    try:
        with _open(path) as file:
            header: list[str] = next(_reader(file, delimiter, quoted), [])
    except (OSError, UnicodeDecodeError, EOFError, csv.Error) as error:
        raise DataError(
            f"{path}: {getattr(error, 'strerror', None) or error}; a UTF-8 text file is expected"
        ) from error
    names = tuple(name.strip() for name in header)
    if not any(names):
        raise DataError(f"{path}: empty; a header line with the column names is expected")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{path}, line 1: column {twice[0]!r} is there twice; rename one")
    return TextFile(path, delimiter, names, quoted)


def _open(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _reader(file: TextIO, delimiter: str, quoted: bool) -> Any:
    return csv.reader(file, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE)
