"""The distinct records of a behavior, and the pairs that are known without being records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.data.behavior import Behavior
from mcne.data.graph import run_starts
from mcne.data.ids import encode
from mcne.data.raw import Raw, RawInteractions, take
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
        raise DataError(
            "has no interactions", place=f"behavior {name!r}", value=name, remedy="omit it, or check its name"
        )
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
