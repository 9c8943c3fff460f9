"""The distinct records of a behavior, the pairs that are known without being records, and what tables of users and
items tell of each: attributes and names, brought to the rows of the dataset.
"""

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
from mcne.data.ids import Names, encode, integer_array
from mcne.data.raw import Locate, Raw, RawInteractions, RawItems, RawUsers, refuse_rows, take
from mcne.errors import DataError

Counts = dict[str, int]
REPEATED = "repeat of the same user and item"


def divide(rows: RawInteractions, positive_from: float | None) -> tuple[RawInteractions, RawInteractions | None]:
    """The rows that are records, and those rated below ``positive_from``, if it is given."""
    if positive_from is None or rows.rating is None:
        return rows, None
    counts = rows.rating >= np.float32(positive_from)  # ratings were rounded to single precision, too
    unrated = np.setdiff1d(rows.behavior, rows.behavior[counts])
    if len(unrated):
        raise DataError(
            f"behavior {rows.names[int(unrated[0])]!r}: none of its interactions is rated {positive_from:g} or higher",
            value=positive_from,
            remedy="lower --positive-from (in Python positive_from=), or leave the behavior out",
        )
    return rows.at(np.flatnonzero(counts)), rows.at(np.flatnonzero(~counts))


def distinct(rows: RawInteractions, at: NDArray[Any], user: NDArray[Any], name: str) -> Behavior:
    """The distinct (user, item) pairs of one behavior; of repeated pairs the earliest time and largest rating count."""
    if not len(at):
        raise DataError("has no interactions", f"behavior {name!r}", "omit it, or check its name", value=name)
    whole = len(at) == len(rows)
    items, (item,) = encode(rows.item if whole else take(rows.item, at))
    keys = (user if whole else user[at]).astype(np.int64) * len(items) + item
    times, weight = None, None
    if rows.timestamp is None and rows.rating is None:
        keys.sort()
        first = run_starts(keys)
    else:
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        first = run_starts(keys)
        starts = np.flatnonzero(first)
        if rows.timestamp is not None:
            times = np.minimum.reduceat(rows.timestamp[at][order], starts)
        if rows.rating is not None:
            weight = np.maximum.reduceat(rows.rating[at][order], starts)
    keys = keys[first]
    user_rows, item_rows = np.divmod(keys, len(items))
    return Behavior(name, items, user_rows.astype(np.int32), item_rows.astype(np.int32), times, weight)


def known_rows(raw: Raw, below: RawInteractions | None, code: int) -> tuple[list[RawInteractions], str]:
    """The rows of pairs that one behavior knows without having them as records, and why it knows them."""
    sources = []
    reasons = []
    if below is not None:
        sources.append(below.of([code]))
        reasons.append(f"rated below {raw.positive_from:g}")
    if raw.known is not None:
        name = raw.interactions.names[code]
        sources.append(raw.known.of([own for own, label in raw.known.names.items() if label == name]))
        reasons.append("listed as known")
    return sources, " or ".join(reasons)


def with_known(behavior: Behavior, user: NDArray[Any], item: NDArray[Any]) -> tuple[Behavior, Counts, Counts]:
    """The behavior with these known pairs, and how many rows were merged and dropped; −1 is unknown to the dataset."""
    is_user = user >= 0
    is_pair = is_user & (item >= 0)
    pairs = np.unique(user[is_pair] * behavior.n_items + item[is_pair])
    records = behavior.user.astype(np.int64) * behavior.n_items + behavior.item
    known = np.setdiff1d(pairs, records, assume_unique=True)
    n_pairs = int(np.count_nonzero(is_pair))
    merged = {REPEATED: n_pairs - len(pairs), "an interaction as well": len(pairs) - len(known)}
    dropped = {
        "of a user that the dataset does not have": int(np.count_nonzero(~is_user)),
        "of an item without interactions": int(np.count_nonzero(is_user)) - n_pairs,
    }
    if not len(known):
        return behavior, merged, dropped
    known_user, known_item = np.divmod(known, behavior.n_items)
    knowing = replace(behavior, known_user=known_user.astype(np.int32), known_item=known_item.astype(np.int32))
    return knowing, merged, dropped


def told_of_users(
    users: RawUsers, listed: NDArray[Any], kept: NDArray[np.bool_]
) -> tuple[dict[str, Attribute], Names | None]:
    """Attributes and names of the users that stay; ``listed`` has the user of each row."""
    _refuse_repeats(listed, users.locate, "user_id", "duplicate user", "list every user once")
    rows = np.full(len(kept), -1, dtype=np.int64)
    rows[listed] = np.arange(len(listed))
    rows = rows[kept]
    return _attributes_at(users.attributes, rows), _names_at(users.names, rows)


def told_of_items(items: RawItems, behaviors: Sequence[Behavior]) -> tuple[list[Behavior], NDArray[np.bool_]]:
    """The behaviors with attributes and names of their items, and which rows told of an item."""
    keys = np.asarray(items.item.indices).astype(np.int64)
    if items.behavior is not None:
        keys = keys * len(items.labels) + items.behavior
    _refuse_repeats(keys, items.locate, "item_id", "duplicate item", "list every item of a behavior once")
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
