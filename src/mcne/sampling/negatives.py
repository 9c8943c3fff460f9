"""Training negatives: uniform over the items that the user has no training record of (reading 9).

The k-th item that a user has *not* touched is found by bisection in the sorted list of those that it has: exact,
without rejection, in time that grows with the logarithm of the list.
"""

from __future__ import annotations

from functools import cached_property
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
        self.indptr = offsets(np.bincount(user, minlength=n_users)).astype(np.int64)
        within = np.arange(len(user)) - np.repeat(self.indptr[:-1], np.diff(self.indptr))
        gaps = item.astype(np.int64) - within  # unseen items below each seen one; never decreases within a user
        self.gaps = gaps.astype(item.dtype, copy=False)  # half the memory, read all over it
        self._user = user

    def draw(self, users: NDArray[Any], positives: NDArray[Any], *, count: int, stream: Stream) -> NDArray[np.int64]:
        """``count`` items per user, with replacement, [n, count].

        A user who has touched every item gets its positive back: such a triple ranks nothing, so that of its loss
        only the regularization moves anything.
        """
        low, high = self.indptr[users], self.indptr[users + 1]
        unseen = self.n_items - (high - low)
        k = stream.integers(unseen[:, None], (len(users), count))
        return np.where(unseen[:, None] > 0, k + self._seen_below(users, low, high, k), positives[:, None])

    def _seen_below(
        self, users: NDArray[Any], low: NDArray[np.int64], high: NDArray[np.int64], k: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """How many seen items are below each user's k-th unseen one, [n, count]."""
        try:
            from mcne.sampling.negatives_numba import seen_below
        except ImportError:
            wanted = users.astype(np.int64)[:, None] * (self.n_items + 1) + k
            return np.searchsorted(self._keys, wanted, side="right").astype(np.int64) - low[:, None]
        found = np.empty(k.shape, np.int64)
        seen_below(self.gaps, low, high, np.ascontiguousarray(k), found)
        return found

    @cached_property
    def _keys(self) -> NDArray[np.int64]:
        """The gaps of all users in one line, [pairs], which never decreases."""
        keys: NDArray[np.int64] = self._user.astype(np.int64) * (self.n_items + 1) + self.gaps
        return keys
