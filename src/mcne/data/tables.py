"""From tables to raw columns: CSV, parquet and RecBole files, pandas, polars and Arrow frames.

Nothing is guessed and nothing silently dropped: what does not fit is refused with its place, its value and what is
allowed. :meth:`mcne.SocialDataset.from_frames` describes the columns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mcne.data.behavior import Attribute
from mcne.data.ids import CANONICAL_INTEGER, WIDE_TEXT, IdColumn, Ids, coded, encode, in_use
from mcne.data.numeric import int64_of, ratings_of, refuse_missing, times_of, weights_of
from mcne.data.raw import Raw, RawInteractions, RawItems, RawLinks, RawUsers, refuse_rows, take
from mcne.data.source import RawTable, Wanted, is_text, read_table, value_type
from mcne.errors import DataError, UnknownError, UsageError
from mcne.files import sha256_of_file

IdType = Literal["auto", "integer", "text"]
STANDARD_COLUMNS = (
    "user_id", "item_id", "behavior", "timestamp", "rating", "source_id", "target_id", "weight", "name",
)  # fmt: skip
ONE_BEHAVIOR = {"behavior": "if all rows are one behavior, name it: single_behavior=… or --single-behavior NAME"}
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
    sep: str | None = None  # between the columns of text files; recognized if not given
    positive_from: float | None = None  # from this rating on a row is a record

    def __post_init__(self) -> None:
        if self.sep is not None and (not self.sep or set(self.sep) & set('"\r\n')):
            raise UsageError(f"{self.sep!r} cannot separate columns", "sep", "give one, such as ';'", value=self.sep)
        if self.id_type not in get_args(IdType):
            raise UnknownError.of("id type", self.id_type, get_args(IdType))
        for name in self.columns:
            if name not in STANDARD_COLUMNS:
                raise UnknownError.of("standard column", name, STANDARD_COLUMNS)


def read(interactions: Any, links: Any, users: Any, reading: Reading, *, items: Any = None, known: Any = None) -> Raw:
    """The raw columns of up to five tables, each a path or a frame."""
    wanted = _wanted_pairs(reading, ["timestamp", "rating"])
    acts = read_table(interactions, "interactions", wanted, reading.columns, reading.sep)
    if reading.single_behavior and "behavior" in acts:
        raise UsageError(
            f"has a behavior column, so it cannot all be {reading.single_behavior!r}",
            acts.label,
            "omit the single behavior, or the column",
            value=reading.single_behavior,
        )
    wanted = Wanted(["source_id", "target_id"], ["weight"])
    ties = None if links is None else read_table(links, "links", wanted, reading.columns, reading.sep)
    wanted = Wanted(["user_id"], others=True, shared=["name"])
    people = None if users is None else read_table(users, "users", wanted, reading.columns, reading.sep)
    wanted = Wanted(["item_id"], others=True, shared=["behavior", "name"])
    things = None if items is None else read_table(items, "items", wanted, reading.columns, reading.sep)
    wanted = _wanted_pairs(reading)
    pairs = None if known is None else read_table(known, "known", wanted, reading.columns, reading.sep)
    _check_mapping(reading, [table for table in (acts, ties, people, things, pairs) if table])
    tables = [(acts, "user_id")]
    tables += [(ties, "source_id"), (ties, "target_id")] if ties else []
    tables += [(people, "user_id")] if people else []
    user, *others = _agree([id_column(table, column, reading.id_type) for table, column in tables], tables)
    source, target = others[:2] if ties else [take(user, np.zeros(0, np.int64))] * 2
    item = id_column(acts, "item_id", reading.id_type)
    codes, labels = behaviors_of(acts, reading.single_behavior)
    main, extra = _chosen(labels, reading)
    notes = [note for table in (acts, ties, people, things, pairs) if table is not None for note in table.notes]
    for table, column in [*tables, (acts, "item_id")]:
        notes += _mixed(table, column, reading.id_type)
    paths = [source for source in (interactions, links, users, items, known) if isinstance(source, str | Path)]
    return Raw(
        RawInteractions(user, item, codes, labels, times_of(acts), ratings_of(acts, reading.positive_from)),
        RawLinks(source, target, weights_of(ties) if ties else None, (ties or acts).locate),
        RawUsers(others[-1], attributes_of(people), people.locate, _names_of(people)) if people else None,
        behaviors=main,
        extra_behaviors=extra,
        provenance={"sources": {str(path): sha256_of_file(Path(path)) for path in paths}},
        notes=notes,
        items=_items_of(things) if things else None,
        known=_pairs_of(pairs, reading.single_behavior) if pairs else None,
        positive_from=reading.positive_from,
    )


def _wanted_pairs(reading: Reading, optional: Sequence[str] = ()) -> Wanted:
    """The columns of a table of users and items."""
    if reading.single_behavior:
        return Wanted(["user_id", "item_id"], [*optional, "behavior"])
    return Wanted(["user_id", "item_id", "behavior"], optional, advice=ONE_BEHAVIOR)


def _check_mapping(reading: Reading, tables: Sequence[RawTable]) -> None:
    """Refuse to map a column that no table has where the standard one is looked for."""
    for name, own in reading.columns.items():
        if not any(table.own.get(name) == own for table in tables):
            raise UsageError(
                f"column {own!r}, mapped to {name!r}, is in no table that may have it",
                value=own,
                remedy=f"correct the mapping of {name!r}, or leave it out",
            )


def _pairs_of(table: RawTable, single: str | None) -> RawInteractions:
    """Pairs whose ids are text, to be found among known ones."""
    user, item = (id_column(table, column, "text") for column in ("user_id", "item_id"))
    return RawInteractions(user, item, *behaviors_of(table, single), None)


def _items_of(table: RawTable) -> RawItems:
    """What a table says of items, whose ids are text."""
    codes, labels = behaviors_of(table) if "behavior" in table else (None, {})
    attributes = attributes_of(table, besides=("item_id", "behavior", "name"))
    return RawItems(id_column(table, "item_id", "text"), codes, labels, attributes, table.locate, _names_of(table))


def _chosen(labels: Mapping[int, str], reading: Reading) -> tuple[list[int], list[int]]:
    """The numbers of the chosen behaviors and of the additional ones."""
    codes = {label: code for code, label in labels.items()}
    for label in [*reading.extra_behaviors, *(reading.behaviors or ())]:
        if label not in codes:
            raise UnknownError.of("behavior", label, codes)
    extra = [codes[label] for label in reading.extra_behaviors]
    main = [codes[label] for label in reading.behaviors or ()] or [code for code in labels if code not in extra]
    if not main:
        raise UsageError(
            "all behaviors are extra ones, but at least one must decide which users are kept",
            "extra_behaviors",
            "omit one of them",
            value=reading.extra_behaviors,
        )
    if len({*main, *extra}) < len(main) + len(extra):
        named = [labels[code] for code in [*main, *extra]]
        raise UsageError(f"a behavior is named twice: {', '.join(named)}", value=named, remedy="name each one once")
    return main, extra


def rows_of(table: RawTable, column: str, ids: Ids) -> NDArray[np.int64]:
    """The row of each raw id of a column among known ids, compared as text; −1 for an unknown id."""
    return ids.rows_in(id_column(table, column, "text"))


def id_column(
    table: RawTable, column: str, id_type: str, *, as_integers: str = "--id-type integer asks for integers"
) -> IdColumn:
    """A checked column of ids: integers as a NumPy array, text and integers read as text as coded Arrow.

    Messages say ``as_integers`` where ids must be integers.
    """
    data = table.data[column]
    refuse_missing(table, column)
    kind = value_type(data)
    if pa.types.is_integer(kind):
        return _as_text(coded(data)) if id_type == "text" else int64_of(table, column, data)
    if not is_text(data):
        raise DataError(
            f"{kind} values, but ids must be integers or text",
            f"{table.label}, column {column!r}",
            "convert the column",
            value=str(kind),
            allowed=["integers", "text"],
        )
    ids = in_use(coded(data))
    if id_type == "text" or not (table.is_text or id_type == "integer"):
        return ids
    whole = pc.match_substring_regex(ids.dictionary, CANONICAL_INTEGER)
    if pc.all(whole).as_py():
        return pa.DictionaryArray.from_arrays(ids.indices, ids.dictionary.cast(pa.int64()))
    if id_type == "integer":
        place = table.locate(_first_row(ids, pc.invert(whole)), column)
        remedy = "use integer ids, or prepare the dataset with text ids (--id-type text)"
        raise DataError(f"not a 64-bit integer, but {as_integers}", place, remedy)
    return ids


def _first_row(column: pa.DictionaryArray, values: pa.BooleanArray) -> int:
    """The first row that has one of these of the column's distinct values."""
    return int(np.argmax(np.asarray(values)[np.asarray(column.indices)]))


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
                f"text, but the ids of {table.label}, column {name!r}, are integers",
                place,
                "user ids must be all of one kind: convert one of the two, or ask for text ids (--id-type text)",
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
    refuse_missing(table, "behavior")
    data = table.data["behavior"]
    if not (is_text(data) or pa.types.is_integer(value_type(data))):
        raise DataError(
            f"{data.type} values, but names are expected",
            f"{table.label}, column 'behavior'",
            "convert the column to text",
            value=str(data.type),
        )
    names, (codes,) = encode(_as_text(coded(data)))
    return codes, {code: str(label) for code, label in enumerate(names)}


def _names_of(table: RawTable) -> pa.LargeStringArray | None:
    """The names for people, empty where there is none."""
    if "name" not in table:
        return None
    data = table.data["name"]
    if not (is_text(data) or pa.types.is_integer(value_type(data))):
        raise DataError(
            f"{data.type} values, but names are text",
            f"{table.label}, column 'name'",
            "convert the column to text",
            value=str(data.type),
        )
    return _as_text(coded(data)).dictionary_decode().fill_null("")


def attributes_of(table: RawTable, *, besides: Collection[str] = ("user_id", "name")) -> dict[str, Attribute]:
    """Every column ``besides`` ids and names: numbers, or categories of text; what is missing stays missing."""
    attributes = {}
    for name in table.data.column_names:
        if name in besides:
            continue
        data = table.data[name]
        kind = value_type(data)
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
            attributes[name] = Attribute(np.asarray(data.cast(pa.float64(), safe=False).fill_null(float("nan"))))
        elif is_text(data):
            attributes[name] = _text_attribute(data, may_be_numbers=table.is_text and name not in table.tokens)
        else:
            raise DataError(
                f"{kind} values, but attributes are numbers or text",
                f"{table.label}, column {name!r}",
                "convert the column, or remove it",
                value=str(kind),
            )
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
