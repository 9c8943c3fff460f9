"""The (user, positive, negatives) triples of a step, for all methods that learn by ranking pairs.

An epoch is as long as the longest behavior takes; shorter behaviors are shuffled again and restarted until it ends
(reading 10). Negatives are uniform over the items that the user has no training record of (reading 9) and does not
know without having them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.data.graph import offsets
from mcne.randomness import Stream
from mcne.sampling.neighbors import distinct

BLOCK = 1024
"""Shorter cycles share a stream up to this many pairs: a stream for each would take longer than the step."""

KEYS_PER_BUCKET = 4
"""Enough that finding the bucket of a key stays in cache, few enough that a bucket is soon sorted."""


@dataclass(frozen=True)
class Triples:
    """The triples of one behavior; items are rows of ``items``, the distinct ones."""

    user: NDArray[np.int64]  # [b] users
    items: NDArray[np.int64]  # [distinct] items of the catalog, increasing
    positive: NDArray[np.int64]  # [b]
    negative: NDArray[np.int64]  # [b, N]
    weight: NDArray[np.float32] | None = None  # [b] of each triple in the loss


class TripleSampler:
    """Draws the triples of every step: a function of seed, epoch and step alone."""

    def __init__(
        self,
        pairs: Sequence[tuple[NDArray[Any], NDArray[Any]]],
        *,
        n_users: int,
        n_items: Sequence[int],
        negatives: int,
        batch_size: int,
        seed: int,
        seen: Sequence[tuple[NDArray[Any], NDArray[Any]]] | None = None,
        weights: Sequence[NDArray[np.float32]] | None = None,
    ) -> None:
        """Take each behavior's training pairs (users and items, sorted by user and then by item).

        ``seen`` are pairs that are never negatives, the training pairs among them; by default just these. ``weights``
        are those of the training pairs.
        """
        self._pairs = pairs
        self._weights = weights
        self._negatives = negatives
        self._seed = seed
        self._positives = Positives([len(user) for user, _ in pairs], batch_size=batch_size, seed=seed)
        self._unseen = [
            Unseen(*each, n_users=n_users, n_items=n) for each, n in zip(seen or pairs, n_items, strict=True)
        ]

    @property
    def n_steps(self) -> int:
        """Steps of an epoch."""
        return self._positives.n_steps

    def draw(self, behavior: int, epoch: int, step: int) -> Triples:
        """The triples of one behavior in one step."""
        rows = self._positives.rows(behavior, epoch, step)
        user, positive = (column[rows].astype(np.int64) for column in self._pairs[behavior])
        stream = Stream(self._seed, "negatives", behavior, epoch, step)
        negative = self._unseen[behavior].draw(user, positive, count=self._negatives, stream=stream)
        items, (liked, others) = distinct(self._unseen[behavior].n_items, positive, negative)
        weight = None if self._weights is None else self._weights[behavior][rows]
        return Triples(user, items, liked, others, weight)


class Positives:
    """Which training pairs of each behavior belong to a step: a function of seed, epoch and step alone."""

    def __init__(self, sizes: Sequence[int], *, batch_size: int, seed: int) -> None:
        self.sizes = tuple(sizes)
        self.batch_size = batch_size
        self._seed = seed
        self._order = [lru_cache(maxsize=4)(partial(self._shuffle, k)) for k in range(len(self.sizes))]

    @property
    def n_steps(self) -> int:
        """Steps of an epoch."""
        return -(-max(self.sizes, default=0) // self.batch_size)

    def rows(self, behavior: int, epoch: int, step: int) -> NDArray[np.int64]:
        """Rows of the behavior's training pairs in this step; all behaviors take equally many."""
        size = self.sizes[behavior]
        if not size:
            return np.zeros(0, dtype=np.int64)
        start = step * self.batch_size
        length = _cycles(size) * size
        stop = min(start + self.batch_size, max(self.sizes))
        rows = np.empty(max(0, stop - start), dtype=np.int64)
        for block in range(start // length, -(-stop // length)):
            first, last = max(start, block * length), min(stop, (block + 1) * length)
            order = self._order[behavior](epoch, block)
            rows[first - start : last - start] = order[first - block * length : last - block * length]
        return rows

    def _shuffle(self, behavior: int, epoch: int, block: int) -> NDArray[np.int64]:
        """The orders of a block's cycles, one after the other."""
        size = self.sizes[behavior]
        keys = Stream(self._seed, "positives", behavior, epoch, block).bits((_cycles(size), size))
        return stable_order(keys[0]) if len(keys) == 1 else np.argsort(keys, axis=1, kind="stable").ravel()


class Unseen:
    """Uniform draws among the items that a user has not seen in training, for one behavior.

    The k-th item that a user has *not* seen is found by bisection in the sorted list of those that it has: exact,
    without rejection, in time that grows with the logarithm of the list.
    """

    def __init__(self, user: NDArray[Any], item: NDArray[Any], *, n_users: int, n_items: int) -> None:
        """Take the pairs that were seen, sorted by user and then by item."""
        self.n_items = n_items
        self.indptr = offsets(np.bincount(user, minlength=n_users)).astype(np.int64)
        within = np.arange(len(user)) - np.repeat(self.indptr[:-1], np.diff(self.indptr))
        gaps = item.astype(np.int64) - within  # unseen items below each seen one; never decreases within a user
        self.gaps = gaps.astype(item.dtype, copy=False)  # half the memory, read all over it

    def draw(self, users: NDArray[Any], positives: NDArray[Any], *, count: int, stream: Stream) -> NDArray[np.int64]:
        """``count`` items per user, with replacement, [n, count].

        A user who has seen every item gets its positive back: such a triple ranks nothing, so only the
        regularization of its loss moves anything.
        """
        from mcne.kernels.numba.rows import bisect

        low, high = self.indptr[users], self.indptr[users + 1]
        unseen = self.n_items - (high - low)
        k = stream.integers(unseen[:, None], (len(users), count))
        seen_below = np.empty(k.shape, np.int64)
        bisect(self.gaps, low, high, np.ascontiguousarray(k), seen_below)
        return np.where(unseen[:, None] > 0, k + seen_below, positives[:, None])


def stable_order(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """``np.argsort(keys, kind="stable")``, several times as fast for keys that are uniform over 64 bits."""
    from mcne.kernels.numba.rows import sort_buckets

    bits = max(1, (len(keys) // KEYS_PER_BUCKET).bit_length())
    places = np.empty(len(keys), np.int64)
    sort_buckets(keys, np.uint64(64 - bits), np.zeros((1 << bits) + 1, np.int64), np.empty_like(keys), places)
    return places


def _cycles(size: int) -> int:
    """How many cycles of a behavior are shuffled together."""
    return max(1, BLOCK // size)
