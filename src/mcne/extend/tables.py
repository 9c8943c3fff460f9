"""Tables about users who were not in the training data: links, history and attributes, checked and turned into rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mcne.data.behavior import Attribute
from mcne.data.ids import WIDE_TEXT, Ids, Names, encode
from mcne.data.numeric import ratings_of, weights_of
from mcne.data.source import RawTable, Wanted, read_table
from mcne.data.tables import attributes_of, behaviors_of, id_column, rows_of
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.profile import Column
from mcne.errors import DataError, UsageError, suggestion
from mcne.extend.checks import network_of
from mcne.text import counted

SHOWN = 3
"""Offenders that a message names."""

SKIPPING = "with --skip-unknown (in Python skip_unknown=True)"

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
NONE: Pairs = np.zeros(0, np.int64), np.zeros(0, np.int64)
Rows = NDArray[np.int64]
Tables = dict[str, tuple[RawTable, str]]
"""What is known of new users: of every table its label, and the column with the new user."""
KnownAttributes = tuple[NDArray[np.int64], dict[str, Attribute]]
"""The rows of the new users whose attributes are known, increasing, and the attributes in that order."""


@dataclass(frozen=True, eq=False)
class NewUsers:
    """Users unknown to the embeddings, as rows of ``ids``, and what is known of them; pairs are by user, each once."""

    ids: Ids
    links: Pairs  # new users and friends, who are rows of the embeddings
    weights: NDArray[np.float32] | None  # of the links, if those of the network have weights
    history: tuple[Pairs, ...]  # of each behavior new users and items, rows of the embeddings too
    known: tuple[Pairs, ...]  # the same of items that new users know without having them, such as those rated badly
    attributes: KnownAttributes | None
    names: Names | None  # for people
    skipped: Mapping[str, int] | None  # what was left out, and how often; None if that was not allowed
    notes: tuple[str, ...]  # what a person should know of how the tables were read

    @classmethod
    def read(
        cls,
        embeddings: ConditionalEmbeddings,
        *,
        links: Any,
        history: Any,
        attributes: Any,
        names: Any = None,
        skip_unknown: bool = False,
    ) -> NewUsers:
        """From frames or files, any of which may be missing; unknown friends, items and attributes are refused.

        Rows of a history that are rated lower than records of the training are known pairs. A column ``name`` of the
        attributes names the users if there are no ``names``. With ``skip_unknown`` links to unknown friends and records
        of unknown items and behaviors are left out and counted, and so are users of whom nothing else is known.
        """
        network_of(embeddings)
        wanted = {
            "links": (links, "source_id", Wanted(["source_id", "target_id"], ["weight"])),
            "history": (history, "user_id", Wanted(["user_id", "item_id", "behavior"], ["rating"])),
            "attributes": (attributes, "user_id", Wanted(["user_id"], others=True)),
        }
        tables = {
            label: (read_table(source, label, columns, {}), user_column)
            for label, (source, user_column, columns) in wanted.items()
            if source is not None
        }
        if not tables:
            raise UsageError("no new users given", remedy="pass --links, --history or --attributes")
        ids, users = _numbered(embeddings, tables)
        skipped: dict[str, int] = {}
        if skip_unknown:
            n_before = len(ids)
            tables, skipped = _known_alone(embeddings, tables)
            if not tables:
                raise DataError(
                    f"none of {n_before:,} new users has a known friend or item: {text_of_skipped(skipped)}",
                    remedy="check that the tables are about the data that the model was trained on",
                )
            ids, users = _numbered(embeddings, tables)
            skipped |= {"new users of whom nothing else is known": n_before - len(ids)}
        named = None if names is None else read_table(names, "names", Wanted(["user_id", "name"]), {})
        if named is None and "attributes" in users and "name" in users["attributes"][0]:
            named, _ = users["attributes"]
        called, n_others = (None, 0) if named is None else _names(named, ids, skip_unknown=skip_unknown)
        skipped |= {"names of other users": n_others}
        pairs, weights = _links(embeddings, *users["links"]) if "links" in users else (NONE, None)
        items = known = (NONE,) * len(embeddings.spaces)
        if "history" in users:
            items, known = _history(embeddings, *users["history"])
        about = _known_attributes(embeddings, *users["attributes"]) if "attributes" in users else None
        counts = {what: n for what, n in skipped.items() if n} if skip_unknown else None
        read = [table for table, _ in users.values()]
        notes = [note for table in [*read, *([named] if named else [])] for note in table.notes]
        if "history" in users:
            notes += _unused_ratings(embeddings, users["history"][0])
        return cls(ids, pairs, weights, items, known, about, called, counts, tuple(dict.fromkeys(notes)))

    def __len__(self) -> int:
        return len(self.ids)


def text_of_skipped(skipped: Mapping[str, int]) -> str:
    """What was left out, in words."""
    parts = [f"{count:,} {what if count > 1 else what.replace('s ', ' ', 1)}" for what, count in skipped.items()]
    return f"skipped {', '.join(parts)}"


def _numbered(embeddings: ConditionalEmbeddings, tables: Tables) -> tuple[Ids, dict[str, tuple[RawTable, Rows]]]:
    """The new users of all tables, and of each table who its rows are about."""
    ids, rows = encode(
        *(
            id_column(table, column, embeddings.users.kind, as_integers="this run uses integer ids")
            for table, column in tables.values()
        )
    )
    users = {}
    for (label, (table, column)), own in zip(tables.items(), rows, strict=True):
        _refuse_known(table, column, ids, own, embeddings.users)
        users[label] = table, own.astype(np.int64)
    return ids, users


def _known_alone(embeddings: ConditionalEmbeddings, tables: Tables) -> tuple[Tables, dict[str, int]]:
    """The rows whose friends, behaviors and items are known, of the tables that have any, and how many others."""
    left = {}
    skipped: dict[str, int] = {}
    for label, (table, column) in tables.items():
        is_known = np.ones(len(table), dtype=bool)
        if label == "links":
            is_known = rows_of(table, "target_id", embeddings.users) >= 0
            skipped["links to unknown users"] = int(np.count_nonzero(~is_known))
        elif label == "history":
            has_behavior, is_known = _known_records(embeddings, table)
            skipped["records of unknown behaviors"] = int(np.count_nonzero(~has_behavior))
            skipped["records of unknown items"] = int(np.count_nonzero(has_behavior & ~is_known))
        if is_known.any():
            left[label] = _only(table, np.flatnonzero(is_known)), column
    return left, skipped


def _known_records(embeddings: ConditionalEmbeddings, table: RawTable) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows of a history have a known behavior, and which of these a known item, too."""
    has_behavior, has_item = np.zeros((2, len(table)), dtype=bool)
    codes, labels = behaviors_of(table)
    places = {label: code for code, label in labels.items()}
    for space in embeddings.spaces:
        here = codes == places.get(space.name, -1)
        has_behavior |= here
        has_item |= here & (rows_of(table, "item_id", space.items) >= 0)
    return has_behavior, has_item


def _only(table: RawTable, rows: NDArray[np.int64]) -> RawTable:
    """Some rows of a table; messages still name their places in the whole."""
    return replace(table, data=table.data.take(rows), locate=lambda row, column: table.locate(int(rows[row]), column))


def _names(table: RawTable, ids: Ids, *, skip_unknown: bool) -> tuple[Names, int]:
    """The names of new users, empty where none is given, and how many rows are about others."""
    user = rows_of(table, "user_id", ids)
    if not skip_unknown:
        _refuse_unknown(table, "user_id", user < 0, "user", "users of the other tables", ids)
    known = user[user >= 0]
    given = pc.fill_null(table.data["name"].cast(WIDE_TEXT), "").filter(pa.array(user >= 0)).to_pylist()
    _refuse_repeated(table, user)
    names = [""] * len(ids)
    for row, name in zip(known.tolist(), given, strict=True):
        names[row] = name
    return Names(names), int(np.count_nonzero(user < 0))


def _refuse_known(table: RawTable, column: str, ids: Ids, rows: NDArray[Any], known: Ids) -> None:
    """Refuse users of the training: their vectors never change."""
    users = np.unique(rows)
    repeated = users[known.rows(ids.arrow(users)) >= 0]
    if len(repeated):
        shown = _listed(ids.take(repeated[:SHOWN]), len(repeated))
        several = f"{len(repeated):,} of {len(users):,} users are already in the network ({shown})"
        raise DataError(
            f"user {shown} is already in the network" if len(repeated) == 1 else several,
            f"{table.label}, column {column!r}",
            "list only new users",
            value=ids.take(repeated),
        )


def _links(
    embeddings: ConditionalEmbeddings, table: RawTable, user: NDArray[np.int64]
) -> tuple[Pairs, NDArray[np.float32] | None]:
    """New users with their friends, each pair once; of several weights the largest, and 1 without weights."""
    friend = rows_of(table, "target_id", embeddings.users)
    _refuse_unknown(table, "target_id", friend < 0, "friend", "users from the training data", embeddings.users)
    keys, first, inverse = np.unique(user * embeddings.n_users + friend, return_index=True, return_inverse=True)
    if embeddings.graph.weights is None:
        return (user[first], friend[first]), None
    given_weights = weights_of(table)
    weights = np.zeros(len(keys), dtype=np.float32)
    np.maximum.at(weights, inverse, np.ones(len(user), np.float32) if given_weights is None else given_weights)
    is_link = weights > 0
    return (user[first[is_link]], friend[first[is_link]]), weights[is_link]


def _history(
    embeddings: ConditionalEmbeddings, table: RawTable, user: NDArray[np.int64]
) -> tuple[tuple[Pairs, ...], tuple[Pairs, ...]]:
    """New users with their items, behavior by behavior, and with those that they rated too low to have them."""
    codes, labels = behaviors_of(table)
    known = embeddings.behavior_names
    for code, label in labels.items():
        if label not in known:
            has_label = codes == code
            raise DataError(
                f"unknown behavior ({counted(int(has_label.sum()), 'row')})",
                table.locate(int(np.argmax(has_label)), "behavior"),
                f"{suggestion(label, known)}, or skip these rows {SKIPPING}",
                value=label,
                allowed=known,
            )
    is_low = np.zeros(len(table), dtype=bool)
    if "rating" in table and (least := positive_from(embeddings)) is not None:
        is_low = np.asarray(ratings_of(table, least)) < np.float32(least)
    pairs: list[Pairs] = []
    known_pairs: list[Pairs] = []
    for space in embeddings.spaces:
        here = codes == next((code for code, label in labels.items() if label == space.name), -1)
        item = rows_of(table, "item_id", space.items)
        _refuse_unknown(
            table,
            "item_id",
            here & (item < 0),
            f"item in behavior {space.name!r}",
            "items from the training data",
            space.items,
        )
        keys = user * len(space.items) + item
        had = np.unique(keys[here & ~is_low])
        only_known = np.setdiff1d(keys[here & is_low], had)
        for each, into in ((had, pairs), (only_known, known_pairs)):
            into.append(np.divmod(each, max(1, len(space.items))))
    return tuple(pairs), tuple(known_pairs)


def positive_from(embeddings: ConditionalEmbeddings) -> float | None:
    """The rating from which on a row of the training data is a record, if it was prepared with one."""
    return embeddings.provenance.get("positive_from")


def _unused_ratings(embeddings: ConditionalEmbeddings, table: RawTable) -> list[str]:
    """A note if ratings of a history say nothing, as in the training every row was a record."""
    if "rating" not in table or positive_from(embeddings) is not None:
        return []
    return [
        f"{table.label}: column 'rating' is not used, since the training data was prepared without --positive-from; "
        "every row counts as a record"
    ]


def _known_attributes(embeddings: ConditionalEmbeddings, table: RawTable, user: NDArray[np.int64]) -> KnownAttributes:
    """Attributes as in training; missing values and new categories count as unknown."""
    profile = None if embeddings.trunk is None else embeddings.trunk.profile
    if profile is None:
        raise UsageError(
            f"{embeddings.method!r} was trained without attributes, so it cannot use them",
            table.label,
            "omit the table, or train mcne-attributes on a dataset with attributes",
            value=embeddings.method,
        )
    _refuse_repeated(table, user)
    names = [column.name for column in profile.encoding.columns]
    for name in table.data.column_names:
        if name not in (*names, "user_id", "name"):  # names are for people
            raise DataError(
                f"unknown attribute {name!r}",
                table.label,
                f"{suggestion(name, names)}, or remove the column",
                value=name,
                allowed=names,
            )
    order = np.argsort(user)
    attributes = [_attribute(column, table) for column in profile.encoding.columns]
    by_user = [Attribute(each.values[order], each.categories) for each in attributes]
    return user[order], dict(zip(names, by_user, strict=True))


def _attribute(column: Column, table: RawTable) -> Attribute:
    if column.name not in table:
        missing = np.full(len(table), np.nan) if column.categories is None else np.full(len(table), -1, np.int32)
        return Attribute(missing, column.categories)
    if column.categories is not None:
        rows = pc.index_in(table.data[column.name].cast(WIDE_TEXT), value_set=column.categories.arrow().cast(WIDE_TEXT))
        return Attribute(np.asarray(pc.fill_null(rows, -1)).astype(np.int32), column.categories)
    attribute = attributes_of(replace(table, data=table.data.select([column.name])), besides=())[column.name]
    if attribute.categories is not None and np.any(attribute.values >= 0):
        raise DataError(
            f"text, but {column.name!r} was a number in training",
            table.locate(int(np.argmax(attribute.values >= 0)), column.name),
            "correct it, or leave it empty",
        )
    return attribute if attribute.categories is None else Attribute(np.full(len(table), np.nan))


def _refuse_unknown(table: RawTable, column: str, wrong: NDArray[np.bool_], what: str, kind: str, known: Ids) -> None:
    if wrong.any():
        values = table.data[column].filter(pa.array(wrong)).cast(WIDE_TEXT).unique()
        shown = _listed(values[:SHOWN].to_pylist(), len(values))
        raise DataError(
            f"unknown {what} ({len(values):,} distinct: {shown})",
            table.locate(int(np.argmax(wrong)), column),
            f"use {kind}, remove these rows, or skip them {SKIPPING}",
            value=values.to_pylist(),
            allowed=[known[0], known[-1]] if len(known) else [],
        )


def _refuse_repeated(table: RawTable, user: NDArray[np.int64]) -> None:
    """Each user, given as its row, has one line at most; −1 is nobody."""
    repeated = np.flatnonzero(np.bincount(user[user >= 0]) > 1)
    if len(repeated):
        raise DataError(
            f"a second row for this user ({len(repeated):,} users have several)",
            table.locate(int(np.flatnonzero(user == repeated[0])[1]), "user_id"),
            "give each user one row",
        )


def _listed(values: list[Any], count: int) -> str:
    return ", ".join(map(repr, values)) + (", …" if count > len(values) else "")
