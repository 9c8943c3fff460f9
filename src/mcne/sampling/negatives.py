"""Training negatives: uniform over the items that the user has no training record of (reading 9).

The k-th item that a user has *not* touched is found by bisection in the sorted list of those that it has: exact,
without rejection, in time that grows with the logarithm of the list.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.data.compressed import offsets
from mcne.randomness import Stream


class Unseen:
    """Uniform draws among the items that a user has not touched in training, for one behavior."""

    def __init__(self, user: NDArray[Any], item: NDArray[Any], *, n_users: int, n_items: int) -> None:
        """Take the training pairs, sorted by user and then by item."""
        self.n_items = n_items
        self._indptr = offsets(np.bincount(user, minlength=n_users)).astype(np.int64)
        within = np.arange(len(user)) - np.repeat(self._indptr[:-1], np.diff(self._indptr))
        self._gaps = item.astype(np.int64) - within  # unseen items below each seen one; never decreases within a user

    def draw(self, users: NDArray[Any], positives: NDArray[Any], *, count: int, stream: Stream) -> NDArray[np.int64]:
        """``count`` items per user, with replacement, [n, count].

        A user who has touched every item gets its positive back: such a triple ranks nothing, so that of its loss
        only the regularization moves anything.
        """
        low, high = self._indptr[users], self._indptr[users + 1]
        unseen = self.n_items - (high - low)
        k = stream.integers(unseen[:, None], (len(users), count))
        rank = _count_at_most(self._gaps, low[:, None], high[:, None], k)
        return np.where(unseen[:, None] > 0, k + rank, positives[:, None])


def _count_at_most(
    values: NDArray[np.int64], low: NDArray[np.int64], high: NDArray[np.int64], bound: NDArray[np.int64]
) -> NDArray[np.int64]:
    """How many of the non-decreasing ``values[low:high]`` are at most ``bound``, for every element at once."""
    first = np.broadcast_to(low, bound.shape).copy()
    last = np.broadcast_to(high, bound.shape).copy()
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        open_ = first < last
        middle = (first + last) // 2
        below = values[np.where(open_, middle, 0)] <= bound if len(values) else np.zeros(bound.shape, dtype=bool)
        first = np.where(open_ & below, middle + 1, first)
        last = np.where(open_ & ~below, middle, last)
    return first - low
