"""What is told of users who were unknown in training: links, history and attributes, from tables to rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mcne.data.behavior import Attribute
from mcne.data.ids import Ids, encode
from mcne.data.source import WIDE_TEXT, RawTable, Wanted, read_table
from mcne.data.tables import attributes_of, behaviors_of, id_column, rows_of, weights_of
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.profile import Column, Profile
from mcne.errors import DataError, UsageError, unknown

SHOWN = 3
"""Offenders that a message names."""


@dataclass(frozen=True, eq=False)
class Described:
    """New users whose attributes are told: their rows, increasing, and the attributes in that order."""

    users: NDArray[np.int64]  # [m]
    attributes: Mapping[str, Attribute]


@dataclass(frozen=True, eq=False)
class NewUsers:
    """Users unknown to the embeddings, and what is told of them in rows of both; pairs are by user, each once."""

    ids: Ids
    links: tuple[NDArray[np.int64], NDArray[np.int64]]  # new users and known friends
    weights: NDArray[np.float32] | None  # of the links, where those of the network have any
    history: tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]  # new users and items, per behavior
    described: Described | None

    @classmethod
    def read(cls, embeddings: ConditionalEmbeddings, *, links: Any, history: Any, attributes: Any) -> NewUsers:
        """From frames or files, any of which may be missing; refused where anything in them is unknown."""
        ties = _read(links, "links", Wanted(["source_id", "target_id"], ["weight"]))
        acts = _read(history, "history", Wanted(["user_id", "item_id", "behavior"]))
        facts = _read(attributes, "attributes", Wanted(["user_id"], others=True))
        every = ((ties, "source_id"), (acts, "user_id"), (facts, "user_id"))
        told = [(table, column) for table, column in every if table is not None]
        if not told:
            raise UsageError("nothing is told of any new user; give links, history or attributes")
        ids, rows = encode(*(id_column(table, column, embeddings.users.kind) for table, column in told))
        for (table, column), own in zip(told, rows, strict=True):
            _refuse_known(table, column, ids, own, embeddings.users)
        users = iter(own.astype(np.int64) for own in rows)
        pairs, weights = (_no_pairs(), None) if ties is None else _links(embeddings, ties, next(users))
        nothing = tuple(_no_pairs() for _ in embeddings.spaces)
        past = nothing if acts is None else _history(embeddings, acts, next(users))
        return cls(ids, pairs, weights, past, None if facts is None else _described(embeddings, facts, next(users)))

    def __len__(self) -> int:
        return len(self.ids)


def _read(source: Any, label: str, wanted: Wanted) -> RawTable | None:
    return None if source is None else read_table(source, label, wanted, {})


def _no_pairs() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.zeros(0, np.int64), np.zeros(0, np.int64)


def _refuse_known(table: RawTable, column: str, ids: Ids, rows: NDArray[Any], known: Ids) -> None:
    """Who is known has a vector already, which stays as it is."""
    users = np.unique(rows)
    there = users[known.rows(ids.arrow(users)) >= 0]
    if len(there):
        raise DataError(
            f"{table.label}, column {column!r}: {len(there):,} of {len(users):,} users are known already: "
            f"{_listed(ids.take(there[:SHOWN]), len(there))}; their vectors never change, so give new users alone"
        )


def _links(
    embeddings: ConditionalEmbeddings, table: RawTable, user: NDArray[np.int64]
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float32] | None]:
    """New users with their friends, each pair once; of several weights the largest, 1 where none is told."""
    friend = rows_of(table, "target_id", embeddings.users)
    _refuse_unknown(table, "target_id", friend < 0, "friends", "friends must be users of the training")
    keys, first, inverse = np.unique(user * embeddings.n_users + friend, return_index=True, return_inverse=True)
    pairs = user[first], friend[first]
    if embeddings.graph.weights is None:
        return pairs, None
    told = weights_of(table)
    weights = np.zeros(len(keys), dtype=np.float32)
    np.maximum.at(weights, inverse, np.ones(len(user), np.float32) if told is None else told)
    there = weights > 0  # a weight of 0 is no link
    return (pairs[0][there], pairs[1][there]), weights[there]


def _history(
    embeddings: ConditionalEmbeddings, table: RawTable, user: NDArray[np.int64]
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]:
    """New users with their items, behavior by behavior."""
    codes, labels = behaviors_of(table)
    known = embeddings.behavior_names
    for code, label in labels.items():
        if label not in known:
            mine = codes == code
            place = table.locate(int(np.argmax(mine)), "behavior")
            raise DataError(f"{place}: {unknown('behavior', label, known)}; {int(mine.sum()):,} rows have it")
    found = []
    for space in embeddings.spaces:
        mine = codes == next((code for code, label in labels.items() if label == space.name), -1)
        item = rows_of(table, "item_id", space.items)
        what = f"items of {space.name}"
        _refuse_unknown(table, "item_id", mine & (item < 0), what, "items must be those of the training: leave it out")
        keys = np.unique(user[mine] * len(space.items) + item[mine])
        pairs = np.divmod(keys, max(1, len(space.items)))
        found.append((pairs[0], pairs[1]))
    return tuple(found)


def _described(embeddings: ConditionalEmbeddings, table: RawTable, user: NDArray[np.int64]) -> Described:
    """Attributes as they were in training; what is not told of a user is unknown, as is a category new to the model."""
    profile = None if embeddings.trunk is None else embeddings.trunk.profile
    if profile is None:
        raise UsageError(
            f"{table.label}: {embeddings.method!r} was trained without attributes, so it can make nothing of them; "
            "leave them out, or train mcne-plus on a dataset with attributes"
        )
    repeated = np.flatnonzero(np.bincount(user) > 1)
    if len(repeated):
        row = int(np.flatnonzero(user == repeated[0])[1])
        place = table.locate(row, "user_id")
        raise DataError(f"{place}: told twice ({len(repeated):,} users are); give each user one row")
    order = np.argsort(user)
    attributes = _attributes(profile, table)
    return Described(user[order], {name: Attribute(a.values[order], a.categories) for name, a in attributes.items()})


def _attributes(profile: Profile, table: RawTable) -> dict[str, Attribute]:
    """Every attribute of the training, row by row."""
    names = [column.name for column in profile.encoding.columns]
    for name in table.data.column_names:
        if name not in (*names, "user_id"):
            raise DataError(f"{table.label}: {unknown('attribute', name, names)}; leave out what training did not have")
    return {column.name: _attribute(column, table) for column in profile.encoding.columns}


def _attribute(column: Column, table: RawTable) -> Attribute:
    if column.name not in table:
        nothing = np.full(len(table), np.nan) if column.categories is None else np.full(len(table), -1, np.int32)
        return Attribute(nothing, column.categories)
    if column.categories is not None:
        found = pc.index_in(
            table.data[column.name].cast(WIDE_TEXT), value_set=column.categories.arrow().cast(WIDE_TEXT)
        )
        return Attribute(np.asarray(pc.fill_null(found, -1)).astype(np.int32), column.categories)
    given = attributes_of(replace(table, data=table.data.select([column.name])))[column.name]
    if given.categories is not None and np.any(given.values >= 0):
        place = table.locate(int(np.argmax(given.values >= 0)), column.name)
        raise DataError(f"{place}: text, but {column.name!r} was a number in training; correct it, or leave it empty")
    return given if given.categories is None else Attribute(np.full(len(table), np.nan))


def _refuse_unknown(table: RawTable, column: str, wrong: NDArray[np.bool_], what: str, allowed: str) -> None:
    if wrong.any():
        values = table.data[column].filter(pa.array(wrong)).cast(WIDE_TEXT).unique()
        shown = _listed(values[:SHOWN].to_pylist(), len(values))
        raise DataError(f"{table.label}, column {column!r}: {len(values):,} {what} are unknown: {shown}; {allowed}")


def _listed(values: list[Any], count: int) -> str:
    return ", ".join(map(repr, values)) + (", …" if count > len(values) else "")
