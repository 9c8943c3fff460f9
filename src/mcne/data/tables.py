"""From tables to raw columns: CSV, parquet and RecBole files, pandas, polars and Arrow frames.

Nothing is guessed and nothing silently dropped: what does not fit is refused with its place, its value and what is
allowed. :meth:`mcne.SocialDataset.from_frames` describes the columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mcne.data.assemble import Raw, RawInteractions, RawLinks, RawUsers, refuse_rows, take
from mcne.data.behavior import Attribute
from mcne.data.ids import CANONICAL_INTEGER, WIDE_TEXT, IdColumn, Ids, coded, encode, in_use
from mcne.data.source import RawTable, Wanted, is_text, read_table, value_type
from mcne.errors import DataError, UsageError, unknown
from mcne.files import sha256_of_file

MISSING = ("", "nan", "NaN", None)
IdType = Literal["auto", "integer", "text"]
STANDARD_COLUMNS = ("user_id", "item_id", "behavior", "timestamp", "source_id", "target_id", "weight")
NOT_A_NUMBER = "^[+-]?(0[0-9xX]|[0-9]{16})"
"""Text that looks like a number but is none: leading zeros, more digits than a float keeps, hexadecimal."""


@dataclass(frozen=True)
class Reading:
    """How tables are read; :meth:`mcne.SocialDataset.from_frames` describes the options."""

    columns: Mapping[str, str] = field(default_factory=dict)  # standard name -> the table's own
    behaviors: Sequence[str] | None = None
    extra_behaviors: Sequence[str] = ()
    single_behavior: str | None = None
    id_type: IdType = "auto"

    def __post_init__(self) -> None:
        if self.id_type not in get_args(IdType):
            raise UsageError(unknown("id type", self.id_type, get_args(IdType)))
        for name in self.columns:
            if name not in STANDARD_COLUMNS:
                raise UsageError(unknown("standard column", name, STANDARD_COLUMNS))


def read(interactions: Any, links: Any, users: Any, reading: Reading) -> Raw:
    """The raw columns of up to three tables, each a path or a frame."""
    wanted = Wanted(["user_id", "item_id", "behavior"], ["timestamp"])
    if reading.single_behavior:
        wanted = Wanted(["user_id", "item_id"], ["timestamp", "behavior"])
    acts = read_table(interactions, "interactions", wanted, reading.columns)
    if reading.single_behavior and "behavior" in acts:
        raise UsageError(
            f"{acts.label}: has a behavior column, so it cannot all be {reading.single_behavior!r}; leave one out"
        )
    wanted = Wanted(["source_id", "target_id"], ["weight"])
    ties = None if links is None else read_table(links, "links", wanted, reading.columns)
    wanted = Wanted(["user_id"], others=True)
    people = None if users is None else read_table(users, "users", wanted, reading.columns)
    tables = [(acts, "user_id")]
    tables += [(ties, "source_id"), (ties, "target_id")] if ties else []
    tables += [(people, "user_id")] if people else []
    user, *others = _agree([id_column(table, column, reading.id_type) for table, column in tables], tables)
    source, target = others[:2] if ties else [take(user, np.zeros(0, np.int64))] * 2
    item = id_column(acts, "item_id", reading.id_type)
    codes, labels = behaviors_of(acts, reading.single_behavior)
    main, extra = _chosen(labels, reading)
    notes = [note for table in (acts, ties, people) if table is not None for note in table.notes]
    for table, column in [*tables, (acts, "item_id")]:
        notes += _mixed(table, column, reading.id_type)
    paths = [source for source in (interactions, links, users) if isinstance(source, str | Path)]
    return Raw(
        RawInteractions(user, item, codes, labels, _times(acts)),
        RawLinks(source, target, weights_of(ties) if ties else None, (ties or acts).locate),
        RawUsers(others[-1], attributes_of(people), people.locate) if people else None,
        behaviors=main,
        extra_behaviors=extra,
        provenance={"sources": {str(path): sha256_of_file(Path(path)) for path in paths}},
        notes=notes,
    )


def _chosen(labels: Mapping[int, str], reading: Reading) -> tuple[list[int], list[int]]:
    """The numbers of the chosen behaviors and of the additional ones."""
    codes = {label: code for code, label in labels.items()}
    for label in [*reading.extra_behaviors, *(reading.behaviors or ())]:
        if label not in codes:
            raise UsageError(unknown("behavior", label, codes))
    extra = [codes[label] for label in reading.extra_behaviors]
    main = [codes[label] for label in reading.behaviors or ()] or [code for code in labels if code not in extra]
    if not main:
        raise UsageError(
            "all behaviors are extra ones; at least one must decide which users are kept, so leave one out"
        )
    if len({*main, *extra}) < len(main) + len(extra):
        raise UsageError(f"a behavior is named twice: {', '.join(labels[code] for code in [*main, *extra])}")
    return main, extra


def rows_of(table: RawTable, column: str, ids: Ids) -> NDArray[np.int64]:
    """The row of each raw id of a column among known ids, compared as text; −1 for an unknown id."""
    values = id_column(table, column, "text")
    distinct = pc.index_in(values.dictionary, value_set=ids.arrow().cast(WIDE_TEXT))
    rows: NDArray[np.int64] = np.asarray(pc.fill_null(distinct, -1)).astype(np.int64)[np.asarray(values.indices)]
    return rows


def id_column(table: RawTable, column: str, id_type: str) -> IdColumn:
    """A checked column of ids: integers as a NumPy array, text and integers read as text as coded Arrow."""
    data = table.data[column]
    _refuse_missing(table, column)
    kind = value_type(data)
    if pa.types.is_integer(kind):
        return _as_text(coded(data)) if id_type == "text" else _int64(table, column, data)
    if not is_text(data):
        raise DataError(f"{table.label}, column {column!r}: {kind} values; ids must be integers or text, so convert it")
    ids = in_use(coded(data))
    if id_type == "text" or not (table.is_text or id_type == "integer"):
        return ids
    whole = pc.match_substring_regex(ids.dictionary, CANONICAL_INTEGER)
    if pc.all(whole).as_py():
        return pa.DictionaryArray.from_arrays(ids.indices, ids.dictionary.cast(pa.int64()))
    if id_type == "integer":
        place = table.locate(_first_row(ids, pc.invert(whole)), column)
        remedy = "use integer ids, or prepare the dataset with text ids (--id-type text)"
        raise DataError("not a 64-bit integer, and the ids here are integers", place=place, remedy=remedy)
    return ids


def _int64(table: RawTable, column: str, data: pa.ChunkedArray) -> NDArray[np.int64]:
    try:
        return np.asarray(data.cast(pa.int64()))
    except pa.ArrowInvalid as error:
        raise DataError(f"{table.label}, column {column!r}: {error}; make them smaller, or ask for text ids") from error


def _first_row(column: pa.DictionaryArray, values: pa.BooleanArray) -> int:
    """The first row that has one of these of the column's distinct values."""
    return int(np.argmax(np.asarray(values)[np.asarray(column.indices)]))


def _refuse_missing(table: RawTable, column: str) -> None:
    data = table.data[column]
    missing = np.zeros(0, dtype=bool)
    if data.null_count:
        missing = np.asarray(data.is_null())
    elif is_text(data):
        values = coded(data)
        blank = pc.is_in(pc.utf8_trim_whitespace(values.dictionary), value_set=pa.array(MISSING, WIDE_TEXT))
        if pc.any(blank).as_py():
            missing = np.asarray(blank)[np.asarray(values.indices)]
    rows = np.flatnonzero(missing)
    refuse_rows(rows, table.locate, column, "a missing value", "every row needs one: fill or remove it")


def _agree(columns: list[IdColumn], tables: Sequence[tuple[RawTable, str]]) -> list[IdColumn]:
    """User ids are all integers or all text. Integers that were read as text go back to text without loss."""
    if all(_is_integer(column) for column in columns) or not any(_is_integer(column) for column in columns):
        return columns
    text = next(k for k, column in enumerate(columns) if not _is_integer(column))
    agreed = []
    for column, (table, name) in zip(columns, tables, strict=True):
        if _is_integer(column) and not table.is_text:
            other, other_name = tables[text]
            bad = pc.invert(pc.match_substring_regex(columns[text].dictionary, CANONICAL_INTEGER))
            place = other.locate(_first_row(columns[text], bad) if pc.any(bad).as_py() else 0, other_name)
            raise DataError(
                f"{place}: text, but the ids of {table.label}, column {name!r}, are integers; user ids must be all "
                "of one kind: convert one of the two, or ask for text ids"
            )
        agreed.append(_as_text(column))
    return agreed


def _as_text(column: pa.DictionaryArray) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(WIDE_TEXT))


def _is_integer(column: IdColumn) -> bool:
    return isinstance(column, np.ndarray) or pa.types.is_integer(column.dictionary.type)


def _mixed(table: RawTable, column: str, id_type: str) -> list[str]:
    """A note if most ids of a text file are integers: the others are perhaps mistakes."""
    if not table.is_text or id_type != "auto":
        return []
    values = coded(table.data[column])
    whole = np.asarray(pc.match_substring_regex(values.dictionary, CANONICAL_INTEGER))
    if whole.all() or whole.mean() < 0.5:
        return []
    place = table.locate(_first_row(values, pa.array(~whole)), column)
    return [
        f"{place}: {int((~whole).sum()):,} of {len(whole):,} distinct ids are not integers, so all are taken as text"
    ]


def behaviors_of(table: RawTable, single: str | None = None) -> tuple[NDArray[Any], dict[int, str]]:
    """The behavior of each row as a number, and the behaviors' names by number, in the order of the names."""
    if single:
        return np.zeros(len(table), np.int32), {0: single}
    _refuse_missing(table, "behavior")
    data = table.data["behavior"]
    if not (is_text(data) or pa.types.is_integer(value_type(data))):
        raise DataError(f"{table.label}, column 'behavior': {data.type} values; names are expected, so convert it")
    names, (codes,) = encode(_as_text(coded(data)))
    return codes, {code: str(label) for code, label in enumerate(names)}


def _times(table: RawTable) -> NDArray[Any] | None:
    """Timestamps as int64 where all are whole, else float64; calendar types as seconds since 1970."""
    if "timestamp" not in table:
        return None
    data = table.data["timestamp"]
    if pa.types.is_timestamp(data.type) or pa.types.is_date(data.type):
        as_micro = pc.CastOptions(pa.timestamp("us"), allow_time_truncate=True)
        try:
            micro = _numbers(table, "timestamp", pc.cast(data, options=as_micro).cast(pa.int64()))
        except pa.ArrowInvalid as error:
            raise DataError(f"{table.label}, column 'timestamp': {error}; correct these dates") from error
        return micro / 1e6 if np.any(micro % 1_000_000) else micro // 1_000_000
    times = _numbers(table, "timestamp", data)
    if times.dtype == np.float64 and np.all((times == np.floor(times)) & (np.abs(times) < 2.0**63)):
        return times.astype(np.int64)
    return times


def weights_of(table: RawTable) -> NDArray[np.float32] | None:
    """The weights of links, none where there are none; 0 is no link."""
    if "weight" not in table:
        return None
    weights = _numbers(table, "weight", table.data["weight"])
    advice = "weights are 0, no link, or more: correct it"
    refuse_rows(np.flatnonzero(weights < 0), table.locate, "weight", "a negative weight", advice)
    with np.errstate(over="ignore"):
        small = weights.astype(np.float32)
    lost = np.flatnonzero((weights > 0) & ((small == 0) | np.isinf(small)))
    refuse_rows(lost, table.locate, "weight", "beyond single precision", "scale the weights")
    return small


def _numbers(table: RawTable, column: str, data: pa.ChunkedArray) -> NDArray[Any]:
    """A column of finite numbers: int64 where every value is written as one, else float64."""
    if data.null_count:
        _refuse_missing(table, column)
    if pa.types.is_integer(data.type):
        numbers = _int64(table, column, data)
    elif pa.types.is_floating(data.type):
        numbers = np.asarray(data.cast(pa.float64()))
    elif table.is_text:
        numbers = _parse(table, column, data)
    else:
        raise DataError(f"{table.label}, column {column!r}: {data.type} values; numbers are expected, so convert it")
    refuse_rows(np.flatnonzero(~np.isfinite(numbers)), table.locate, column, "not a finite number", "correct it")
    return numbers


def _parse(table: RawTable, column: str, data: pa.ChunkedArray) -> NDArray[Any]:
    is_hexadecimal = pc.any(pc.match_substring(data, "x", ignore_case=True)).as_py()  # which Arrow would take
    for kind in () if is_hexadecimal else (pa.int64(), pa.float64()):
        with suppress(pa.ArrowInvalid):
            return np.asarray(data.cast(kind))
    row = next(row for row, value in enumerate(data) if not _is_number(value))
    raise DataError(f"{table.locate(row, column)}: not a decimal number; correct it")


def _is_number(text: pa.Scalar) -> bool:
    try:
        text.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return "x" not in text.as_py().lower()


def attributes_of(table: RawTable) -> dict[str, Attribute]:
    """Every column beside the id: numbers, or categories of text; what is missing stays missing."""
    attributes = {}
    for name in table.data.column_names:
        if name == "user_id":
            continue
        data = table.data[name]
        kind = value_type(data)
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
            attributes[name] = Attribute(np.asarray(data.cast(pa.float64(), safe=False).fill_null(float("nan"))))
        elif is_text(data):
            attributes[name] = _text_attribute(data, may_be_numbers=table.is_text and name not in table.tokens)
        else:
            raise DataError(f"{table.label}, column {name!r}: {kind} values; attributes are numbers or text")
        infinite = np.flatnonzero(np.isinf(attributes[name].values))
        refuse_rows(infinite, table.locate, name, "an infinite value", "leave it empty if unknown")
    return attributes


def _text_attribute(data: pa.ChunkedArray, *, may_be_numbers: bool) -> Attribute:
    known = data.cast(WIDE_TEXT).combine_chunks()
    known = pc.if_else(pc.equal(known, ""), pa.scalar(None, WIDE_TEXT), known)
    if may_be_numbers and not pc.any(pc.match_substring_regex(known, NOT_A_NUMBER)).as_py():
        with suppress(pa.ArrowInvalid):
            return Attribute(np.asarray(known.cast(pa.float64()).fill_null(float("nan"))))
    categories, (codes,) = encode(known.drop_null())
    rows = np.full(len(known), -1, dtype=np.int32)
    rows[np.asarray(known.is_valid())] = codes
    return Attribute(rows, categories)
