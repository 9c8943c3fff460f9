"""The (user, positive, negatives) triples of a step, for every method that learns by ranking pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.randomness import Stream
from mcne.sampling.distinct import distinct
from mcne.sampling.negatives import Unseen
from mcne.sampling.positives import Positives


@dataclass(frozen=True)
class Triples:
    """The triples of one behavior; items are rows of ``items``, the distinct ones."""

    user: NDArray[np.int64]  # [b] users
    items: NDArray[np.int64]  # [distinct] items of the catalog, increasing
    positive: NDArray[np.int64]  # [b]
    negative: NDArray[np.int64]  # [b, N]


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
    ) -> None:
        """Take each behavior's training pairs (users and items, sorted by user and then by item)."""
        self._pairs = pairs
        self._negatives = negatives
        self._seed = seed
        self._positives = Positives([len(user) for user, _ in pairs], batch_size=batch_size, seed=seed)
        self._unseen = [
            Unseen(user, item, n_users=n_users, n_items=n) for (user, item), n in zip(pairs, n_items, strict=True)
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
        items, at = distinct(self._unseen[behavior].n_items, positive, negative)
        return Triples(user, items, *at)
