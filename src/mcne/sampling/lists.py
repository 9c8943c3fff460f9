"""Lists of different lengths, one after the other: the items that each user has, the friends of each user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.data.graph import Graph, offsets


@dataclass(frozen=True)
class Lists:
    """The members of list ``i`` are ``member[first[i]:first[i + 1]]``."""

    first: NDArray[np.int64]  # [n + 1]
    member: NDArray[np.int64]  # [E]

    @classmethod
    def of_friends(cls, graph: Graph) -> Lists:
        """The friends of every user; in a directed network those whom a user follows."""
        return cls(graph.indptr.astype(np.int64), graph.indices.astype(np.int64))

    @classmethod
    def of_items(cls, pairs: Sequence[tuple[NDArray[Any], NDArray[Any]]], n_items: Sequence[int], users: int) -> Lists:
        """The items of every user in all behaviors, whose items are numbered one behavior after the other."""
        before = offsets(np.array(n_items, dtype=np.int64))
        user = np.concatenate([each for each, _ in pairs])
        item = np.concatenate([each + np.int64(start) for (_, each), start in zip(pairs, before, strict=False)])
        order = np.lexsort((item, user))
        return cls(offsets(np.bincount(user, minlength=users)).astype(np.int64), item[order])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of members of each list, [n]."""
        return np.diff(self.first)

    def take(self, rows: NDArray[np.int64]) -> Lists:
        """These lists alone."""
        start, lengths = self.first[rows], self.lengths[rows]
        first = offsets(lengths).astype(np.int64)
        return Lists(first, self.member[np.arange(first[-1]) + np.repeat(start - first[:-1], lengths)])
