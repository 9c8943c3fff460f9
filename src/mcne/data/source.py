"""One way to read a table, whatever it is: a text file, a parquet file, or a frame of any library.

Columns of text files come as text, numbers included; typed tables keep their types. Text comes coded, in one piece:
``dictionary<int32, large_string>``. Arrow reads text files fast but cannot say on which line a value stands, so only a
file that turned out to be wrong is walked again, line by line, to name the place.
"""

from __future__ import annotations

import csv
import gzip
import re
import sys
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NoReturn, TextIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from mcne.data.ids import coded
from mcne.data.raw import Locate
from mcne.errors import DataError, MissingError, UnknownError, UsageError
from mcne.text import counted

ATOMIC_SUFFIXES = (".inter", ".net", ".user", ".item")
DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t", ".dat": "\t"} | dict.fromkeys(ATOMIC_SUFFIXES, "\t")
SEPARATORS = (",", ";", "\t", "::", "|")  # that are recognized in a header without the usual one
UNIT = "\x1f"  # what ASCII has between fields; it takes the place of separators that are more than a byte
BLOCK = 1 << 24
NO_ROWS = "no rows below the header"
AGAIN = "get or write the file again"
QUOTED = re.compile('"[^"]*"')
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")
PARQUET_SUFFIXES = (".parquet", ".pq")
CODED_TEXT = pa.dictionary(pa.int32(), pa.string())
NUMERIC = ("timestamp", "weight", "rating")


@dataclass(frozen=True)
class RawTable:
    """Columns under their standard names; ``is_text`` where every value came as text."""

    label: str
    data: pa.Table
    is_text: bool
    locate: Locate
    tokens: Collection[str] = ()  # columns that RecBole's header declares to be names even if they look like numbers
    notes: Sequence[str] = ()  # what a person should know of how it was read
    own: Mapping[str, str] = field(default_factory=dict)  # the table's names of its columns, by the standard ones

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
    shared: Sequence[str] = ()  # optional ones, too; a mapping of theirs may be meant for another table
    advice: Mapping[str, str] = field(default_factory=dict)  # what else to do where a column is missing


def read_table(source: Any, label: str, wanted: Wanted, columns: Mapping[str, str], sep: str | None = None) -> RawTable:
    """Read the wanted columns of a path or frame; ``columns`` maps standard names to the table's own."""
    if isinstance(source, str | Path):
        return _read_path(Path(source), wanted, columns, sep)
    try:
        frame = source if isinstance(source, pa.Table) else pa.table(source)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise DataError(
            f"{type(source).__name__} is not a frame that Arrow can read ({error})",
            label,
            "give a pandas, polars or Arrow frame, or the path of a file",
            value=type(source).__name__,
        ) from error
    return _typed(frame, label, wanted, columns)


def _read_path(path: Path, wanted: Wanted, columns: Mapping[str, str], sep: str | None) -> RawTable:
    if path.is_dir():
        raise DataError.of_path("is a directory", path, "give the path of a file")
    suffix = next((suffix for suffix in reversed(path.suffixes) if suffix.lower() != ".gz"), "").lower()
    if suffix not in DELIMITERS and suffix not in PARQUET_SUFFIXES:
        raise UnknownError.of("file type", suffix or path.name, [*DELIMITERS, *PARQUET_SUFFIXES], place=path)
    if not path.is_file():
        raise MissingError.of_path("no such file", path, "give the path of a file")
    if suffix in PARQUET_SUFFIXES:
        import pyarrow.parquet as pq  # takes longer to import than the rest of this module

        try:
            names = _resolve(str(path), pq.read_schema(path).names, wanted, columns)
            frame = pq.read_table(path, columns=list(names.values()))
            frame.validate(full=True)  # a damaged file may hold text that is none
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())
            raise DataError(f"not a readable parquet file ({reason})", path, "write it again") from error
        return _typed(frame, str(path), wanted, columns)
    text = TextFile(path, suffix, sep)
    required = [columns.get(name, name) for name in wanted.required]
    is_strange = not {*wanted.required, *required} & {*text.names}
    text.check_header(required, is_strange=is_strange)
    if is_strange:
        advice = "if something else separates them, name it with --sep (in Python sep=)"
        wanted = replace(wanted, advice={**wanted.advice, wanted.required[0]: advice})
    own = _resolve(str(path), text.names, wanted, columns)
    data, notes = _trim(_code_text(text.read(own)), path)
    tokens = {name for name, written in zip(text.names, text.header, strict=True) if ":token" in written}
    notes = [*text.notes, *notes]
    return RawTable(
        str(path), data, True, lambda row, column: text.locate(row, own.get(column, column)), tokens, notes, own
    )


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
            notes.append(f"{path}, column {name!r}: spaces around {counted(count, 'value')} stripped")
            distinct = trimmed.dictionary_encode()
            codes = np.asarray(distinct.indices)[np.asarray(column.indices)].astype(np.int32)
            table = table.set_column(position, name, pa.DictionaryArray.from_arrays(codes, distinct.dictionary))
    return table, notes


def _typed(frame: pa.Table, label: str, wanted: Wanted, columns: Mapping[str, str]) -> RawTable:
    names = _resolve(label, frame.column_names, wanted, columns)
    data = _code_text(frame.select(list(names.values())).rename_columns(list(names)))
    if not len(data):
        raise DataError("no rows", label, "at least one is needed")

    def locate(row: int, column: str) -> str:
        value = data[column][row].as_py() if column in data.column_names else None
        return f"{label}, row {row + 1}, column {names.get(column, column)!r}, value {value!r}"

    return RawTable(label, data, False, locate, own=names)


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
    for name in [*wanted.required, *wanted.optional, *wanted.shared]:
        own = columns.get(name, name)
        own = name if own not in existing and (name in existing or name in wanted.shared) else own
        if existing.count(own) > 1:
            raise DataError(f"there are two columns {own!r}", label, "rename one", value=own)
        if own in names.values():
            other = next(standard for standard, taken in names.items() if taken == own)
            raise UsageError(
                f"column {own!r} cannot be both {other!r} and {name!r}", label, "map them to two columns", value=own
            )
        if own in existing:
            names[name] = own
        elif name in wanted.required or (name in columns and name not in wanted.shared):
            hint = f"rename one, or map it: columns={{'{name}': …}} or --column {name}=NAME"
            if name in columns:
                hint = f"correct the mapping of {name!r}"
            hint += f"; {wanted.advice[name]}" if name in wanted.advice else ""
            shown = ", ".join(column if column.isprintable() else repr(column) for column in existing[:30])
            more = f", … {len(existing) - 30} more" if len(existing) > 30 else ""
            raise DataError(
                f"column {own!r} is missing; the columns are {shown}{more}", label, hint, value=own, allowed=existing
            )
    for own in existing if wanted.others else []:
        if own in names and names[own] != own:
            raise DataError(
                f"column {own!r} exists beside {names[own]!r}, which is mapped to it", label, "rename one", value=own
            )
        if own not in names.values():
            names[own] = own
    return names


class TextFile:
    """A delimited text file with a header line."""

    def __init__(self, path: Path, suffix: str, sep: str | None) -> None:
        self.path = path
        self.notes: list[str] = []
        self.is_atomic = suffix in ATOMIC_SUFFIXES
        self.is_packed = path.suffix.lower() == ".gz"
        try:  # blank lines count for nothing, above the header too
            self.sep = DELIMITERS[suffix] if self.is_atomic else sep or self._recognized(DELIMITERS[suffix])
            self.delimiter = self.sep if len(self.sep.encode()) == 1 else UNIT  # Arrow takes one byte
            self.is_quoted = not self.is_atomic and self.sep == self.delimiter
            _, self._header_end, header = next(self._rows(), (0, 0, []))
        except (OSError, EOFError, zlib.error, csv.Error) as error:
            reason = str(getattr(error, "strerror", None) or error)
            raise DataError(reason, path, "give a text file, or one packed by gzip and named .gz") from error
        self.header = [name.strip() for name in header]  # as written in the file
        self.names = [name.partition(":")[0] if self.is_atomic else name for name in self.header]  # not RecBole's types
        _refuse_undecoded(self.sep.join(self.header), f"{path}, line {self._header_end}")
        if not any(self.header):
            raise DataError("empty", path, "a header line with the column names is expected")

    def check_header(self, required: Sequence[str], *, is_strange: bool) -> None:
        """Refuse a first line that names a column twice, or that ``is_strange``, without any of the required names.

        Such a line may have values, or cannot be taken apart.
        """
        line = self.sep.join(self.header)
        place = f"{self.path}, line {self._header_end}"
        if is_strange and any(NUMBER.fullmatch(name) for name in self.names):
            problem = f"the first line has values instead of column names ({line[:80]!r})"
            remedy = f"add a header such as {self.sep.join(required)}"
            raise DataError(problem, place, remedy, value=line)
        if is_strange and len(self.names) == 1 < len(required) and not self.is_atomic:
            known = f"{', '.join(repr(sep) if sep.isprintable() else 'tab' for sep in SEPARATORS[:-1])}"
            remedy = "set the separator with --sep (in Python sep=), or omit it to detect "
            remedy += f"{known} or {SEPARATORS[-1]!r}"
            problem = f"header has no {self.sep!r} ({line[:80]!r})"
            raise DataError(problem, place, remedy, value=line, allowed=SEPARATORS)
        if twice := sorted({name for name in self.header if self.header.count(name) > 1}):
            raise DataError(f"there are two columns {twice[0]!r}", place, "rename one", value=twice[0])

    def read(self, names: Mapping[str, str]) -> pa.Table:
        """Columns under their standard names, which map to the file's. Empty fields are empty text, not missing."""
        header = {name: self.header[self.names.index(own)] for name, own in names.items()}
        written = {own: pa.string() if name in NUMERIC else CODED_TEXT for name, own in header.items()}
        with self.path.open("rb") as file:  # Arrow, not told of line breaks inside fields, may cut the file there
            chunks = iter(lambda: file.read(BLOCK), b"")
            may_break = self.is_quoted and (self.is_packed or any(b'"' in chunk for chunk in chunks))
        read = pa_csv.ReadOptions(block_size=BLOCK, skip_rows=self._header_end, column_names=self.header)
        quote = '"' if self.is_quoted else False
        parse = pa_csv.ParseOptions(delimiter=self.delimiter, quote_char=quote, newlines_in_values=may_break)
        convert = pa_csv.ConvertOptions(
            column_types=written, include_columns=list(written), null_values=[], strings_can_be_null=False
        )
        try:
            table = pa_csv.read_csv(self._source(), read, parse, convert)
        except (pa.ArrowInvalid, OSError) as error:
            self._explain(written, error)
        if not len(table):
            raise DataError(NO_ROWS, self.path, "add at least one")
        return table.rename_columns(list(names))

    def locate(self, row: int, column: str) -> str:
        """``file, line 7, column 'x', value '…'`` for a row counted without the header and blank lines."""
        at = self.header[self.names.index(column)] if column in self.names else column
        for line, _, fields in islice(self._rows(), row + 1, None):
            value = fields[self.header.index(at)] if at in self.header else ""
            return f"{self.path}, line {line}, column {at!r}, value {value!r}"
        return f"{self.path}, row {row + 1}, column {at!r}"

    def _recognized(self, usual: str) -> str:
        """The separator that is most often in the header outside quotes; the usual one if no other is more often."""
        with self._opened() as file:
            line = QUOTED.sub("", next((line for line in file if line.strip()), ""))
        most = max((usual, *SEPARATORS), key=line.count)
        if most != usual:
            self.notes.append(f"{self.path}: separator {most!r} detected from the header; override with --sep")
        return most

    def _opened(self) -> TextIO:
        opened = gzip.open if self.is_packed else open
        text = opened(self.path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="")
        return cast("TextIO", text)

    def _source(self) -> Any:
        """What Arrow reads: the file, or its bytes with another separator."""
        packed = pa.input_stream(self.path, compression="gzip" if self.is_packed else None)
        if self.sep == self.delimiter:
            return packed if self.is_packed else self.path
        return pa.TransformInputStream(packed, _replacing(self.sep.encode(), UNIT.encode()))

    def _rows(self) -> Iterator[tuple[int, int, list[str]]]:
        """First line, last line and fields of the header and every row below it.

        Undecodable bytes come as lone surrogates, so that what is wrong can be shown with its place.
        """
        limit = csv.field_size_limit(sys.maxsize)  # Arrow has none either
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if self.is_quoted else csv.QUOTE_NONE
        try:
            with self._opened() as file:
                lines = file if self.sep == self.delimiter else (line.replace(self.sep, UNIT) for line in file)
                reader = csv.reader(lines, delimiter=self.delimiter, quoting=quoting)
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
                        f"{counted(len(fields), 'field')} where the header has {len(self.header)} "
                        f"({self.sep.join(fields)[:80]!r})",
                        f"{self.path}, line {line}",
                        "fill or quote the fields" if self.is_quoted else f"give {len(self.header)} fields",
                        value=self.sep.join(fields),
                    ) from error
                for name, value in zip(self.header, fields, strict=True):
                    if name in columns:
                        _refuse_undecoded(value, f"{self.path}, line {line}, column {name!r}")
        except (OSError, EOFError, zlib.error, csv.Error) as broken:
            raise DataError(str(broken), f"{self.path}, after line {line}", AGAIN) from broken
        problem, remedy = (str(error), AGAIN) if line else (NO_ROWS, "add at least one")
        raise DataError(problem, self.path, remedy) from error


def _replacing(old: bytes, new: bytes) -> Callable[[pa.Buffer], bytes]:
    """Replace in a stream that comes in blocks; what may be the beginning of ``old`` waits for the next block."""
    waiting = b""

    def replace(block: pa.Buffer) -> bytes:
        nonlocal waiting
        replaced: bytes = (waiting + block.to_pybytes()).replace(old, new)
        longest = len(old) - 1 if block.size else 0
        kept = next((k for k in range(longest, 0, -1) if replaced.endswith(old[:k])), 0)
        cut = len(replaced) - kept
        waiting = replaced[cut:]
        return replaced[:cut]

    return replace


def _refuse_undecoded(text: str, place: str) -> None:
    raw = text.encode("utf-8", "surrogateescape")
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            "not UTF-8 text", f"{place}, value {raw[:80]!r}", "save the file as UTF-8", value=raw
        ) from error
