"""The items that test items are ranked against, drawn once per user and kept with the split.

Skipping what was drawn before, or was touched by the user, is exactly drawing without replacement among the items that
are left. So candidates are drawn for many users at once and the first new ones kept; users for whom that would take
long, because hardly anything is left, draw from the list of what is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.data.graph import offsets
from mcne.files import freeze
from mcne.randomness import Stream

COUNT = 100
ROUNDS = 4
USERS_AT_ONCE = 1 << 14
LIST_CELLS = 1 << 22


@dataclass(frozen=True, eq=False)
class Negatives:
    """Items to rank against, a row per user; rows of users with too few unseen items end in −1."""

    users: NDArray[np.int32]  # [n] increasing
    items: NDArray[np.int32]  # [n, COUNT], in the order drawn

    def __post_init__(self) -> None:
        freeze(self, "users", "items")

    @property
    def n_short(self) -> int:
        """Users who got fewer than the usual number, because no more items exist for them."""
        return int(np.count_nonzero(self.items[:, -1] < 0)) if len(self.users) else 0


def draw_negatives(
    users: NDArray[np.int32],
    seen_user: NDArray[Any],
    seen_item: NDArray[Any],
    *,
    weights: NDArray[np.int64],
    stream: Stream,
    count: int = COUNT,
) -> Negatives:
    """For each of ``users`` (increasing), ``count`` distinct items in proportion to ``weights``, none that it saw.

    ``seen_user, seen_item`` list what each user touched, sorted by user and item. Items of weight 0 are never
    drawn. A user for whom fewer items are left gets all of them.
    """
    n_items = len(weights)
    drawn = np.full((len(users), count), -1, dtype=np.int32)
    tickets = np.repeat(np.arange(n_items, dtype=np.int32), weights)  # an item has as many as its weight
    drawable_items = int(np.count_nonzero(weights))
    for start in range(0, len(users) if len(tickets) else 0, USERS_AT_ONCE):
        some = users[start : start + USERS_AT_ONCE]
        here = drawn[start : start + USERS_AT_ONCE]  # a view: the rows of these users
        own = slice(*np.searchsorted(seen_user, (some[0], some[-1] + 1)))
        seen = seen_user[own].astype(np.int64) * n_items + seen_item[own]  # increasing
        drawable = offsets(weights[seen % n_items] > 0)
        keys = some.astype(np.int64) * n_items  # of each user's first item
        first, last = (np.searchsorted(seen, keys + step) for step in (0, n_items))
        available = drawable_items - (drawable[last] - drawable[first])
        open_rows = np.flatnonzero(available > 2 * count)  # the others draw from the list of what is left
        for _ in range(ROUNDS):
            if not len(open_rows):
                break
            ticket = stream.uniform((len(open_rows), count + count // 2)) * len(tickets)
            candidates = tickets[np.minimum(ticket.astype(np.int64), len(tickets) - 1)]
            known = _is_in(seen, keys[open_rows, None] + candidates)
            fresh = _first_fresh(here[open_rows], np.where(known, -1, candidates))
            here[open_rows] = fresh
            open_rows = open_rows[fresh[:, -1] < 0]
        short = np.flatnonzero(here[:, -1] < 0)
        at_once = max(1, LIST_CELLS // n_items)
        for begin in range(0, len(short), at_once):
            rows = short[begin : begin + at_once]
            here[rows] = _complete(here[rows], keys[rows], seen, weights, stream)
    return Negatives(users, drawn)


def _is_in(ordered: NDArray[np.int64], keys: NDArray[np.int64]) -> NDArray[np.bool_]:
    if not len(ordered):
        return np.zeros(keys.shape, dtype=bool)
    at = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    return np.asarray(ordered[at] == keys)


def _first_fresh(before: NDArray[np.int32], candidates: NDArray[np.int32]) -> NDArray[np.int32]:
    """Per row: what was drawn before, then the new distinct candidates in order; −1 is nothing, also in the result."""
    is_enough = candidates.shape[1] >= before.shape[1] and not np.any(before >= 0)
    both = candidates if is_enough else np.concatenate([before, candidates], axis=1)  # [n, w]
    n, width = both.shape
    bits = width.bit_length()
    keys = np.sort((both.astype(np.int64) + 1) << bits | np.arange(width), axis=1)  # by item, then by position
    item, order = keys >> bits, keys & (1 << bits) - 1  # of nothing, 0
    new = item > 0
    new[:, 1:] &= item[:, 1:] != item[:, :-1]
    keep = np.zeros((n, width), dtype=bool)
    np.put_along_axis(keep, order, new, axis=1)
    place = np.where(keep, np.cumsum(keep, axis=1) - 1, width)
    fresh = np.full((n, width + 1), -1, dtype=np.int32)
    np.put_along_axis(fresh, place, both, axis=1)
    return fresh[:, : before.shape[1]]


def _complete(
    drawn: NDArray[np.int32],
    user_keys: NDArray[np.int64],
    seen: NDArray[np.int64],
    weights: NDArray[np.int64],
    stream: Stream,
) -> NDArray[np.int32]:
    """Rows completed by exponential races among all items left: the smallest −ln(u)/weight come first."""
    left = (weights > 0) & ~_is_in(seen, user_keys[:, None] + np.arange(len(weights)))  # [n, items]
    row, place = np.nonzero(drawn >= 0)
    left[row, drawn[row, place]] = False
    arrival = np.where(left, -np.log1p(-stream.uniform(left.shape)) / np.maximum(weights, 1), np.inf)
    order = np.argsort(arrival, axis=1, kind="stable").astype(np.int32)
    chosen = np.where(np.take_along_axis(left, order, axis=1), order, -1)
    return _first_fresh(drawn, chosen)
