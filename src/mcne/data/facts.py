"""What tables of users and items tell of each: attributes and names, brought to the rows of the dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mcne.data.behavior import Attribute, Behavior
from mcne.data.graph import run_starts
from mcne.data.ids import Names, integer_array
from mcne.data.raw import Locate, RawItems, RawUsers, refuse_rows


def of_users(
    users: RawUsers, listed: NDArray[Any], kept: NDArray[np.bool_]
) -> tuple[dict[str, Attribute], Names | None]:
    """Attributes and names of the users that stay; ``listed`` has the user of each row."""
    _refuse_repeats(listed, users.locate, "user_id", "a user listed before", "list every user once")
    rows = np.full(len(kept), -1, dtype=np.int64)
    rows[listed] = np.arange(len(listed))
    rows = rows[kept]
    return _attributes_at(users.attributes, rows), _names_at(users.names, rows)


def of_items(items: RawItems, behaviors: Sequence[Behavior]) -> tuple[list[Behavior], NDArray[np.bool_]]:
    """The behaviors with attributes and names of their items, and which rows told of an item."""
    keys = np.asarray(items.item.indices).astype(np.int64)
    if items.behavior is not None:
        keys = keys * len(items.labels) + items.behavior
    _refuse_repeats(keys, items.locate, "item_id", "an item listed before", "list every item of a behavior once")
    has_told = np.zeros(len(items), dtype=bool)
    told = []
    for behavior in behaviors:
        item = behavior.items.rows_in(items.item)
        mine = np.flatnonzero((item >= 0) & items.about(behavior.name))
        has_told[mine] = True
        rows = np.full(behavior.n_items, -1, dtype=np.int64)
        rows[item[mine]] = mine
        attributes = {
            name: each for name, each in _attributes_at(items.attributes, rows).items() if _is_known_of_any(each)
        }
        told.append(replace(behavior, names=_names_at(items.names, rows), attributes=attributes))
    return told, has_told


def _refuse_repeats(keys: NDArray[Any], locate: Locate, column: str, problem: str, advice: str) -> None:
    order = np.argsort(keys, kind="stable")
    refuse_rows(np.sort(order[~run_starts(keys[order])]), locate, column, problem, advice)


def _attributes_at(attributes: Mapping[str, Attribute], rows: NDArray[Any]) -> dict[str, Attribute]:
    return {name: _attribute_at(attribute, rows) for name, attribute in attributes.items()}


def _attribute_at(attribute: Attribute, rows: NDArray[Any]) -> Attribute:
    """The attribute at rows of its table, NaN or −1 where the row is −1, with the categories that are left."""
    categories = attribute.categories
    is_listed = rows >= 0
    values = np.full(len(rows), np.nan if categories is None else -1, dtype=attribute.values.dtype)
    values[is_listed] = attribute.values[rows[is_listed]]
    if categories is None:
        return Attribute(values)
    used = np.bincount(values[values >= 0], minlength=len(categories)) > 0
    numbers = np.append(np.cumsum(used, dtype=np.int32) - np.int32(1), np.int32(-1))  # unknown, −1, stays
    return Attribute(numbers[values], categories.subset(np.flatnonzero(used)))


def _is_known_of_any(attribute: Attribute) -> bool:
    return not np.all(np.isnan(attribute.values) if attribute.categories is None else attribute.values < 0)


def _names_at(names: pa.LargeStringArray | None, rows: NDArray[Any]) -> Names | None:
    """The names at rows of their table, empty where the row is −1; none if nobody has one."""
    if names is None:
        return None
    padded = pa.concat_arrays([names, pa.array([""], names.type)])
    taken = padded.take(integer_array(np.where(rows < 0, len(names), rows)))
    return Names(taken) if pc.any(pc.not_equal(taken, "")).as_py() else None
