"""What evaluation asks of a trained method, whatever it is inside; and the scorer of methods that have vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mcne.embeddings.ranking import inner_products

SAMPLED_AT_ONCE = 1 << 16
"""Scores of sampled items asked for in one call: a scorer may gather a vector for each."""


class Scorer(Protocol):
    """Scores items of one behavior for users; the higher, the sooner recommended.

    The same pair gets the same score wherever it stands in ``items``: a score computed differently by position
    would break ties by position.
    """

    def scores(self, behavior: int, users: NDArray[Any], items: NDArray[Any] | None = None) -> NDArray[np.float32]:
        """Scores [n, m] of ``items`` [n, m] for ``users`` [n], or [n, n_items] of the whole catalog.

        Users are rows of the dataset, items rows of the behavior's catalog; ``items`` holds valid rows only (a caller
        with lists of several lengths fills them up and ignores those scores). The caller never writes to the result.
        """
        ...


class DeferredScorer:
    """A scorer that is made at the first question; a wrong name is reported before that."""

    def __init__(self, make: Callable[[], Scorer]) -> None:
        self._make = make

    @cached_property
    def _scorer(self) -> Scorer:
        return self._make()

    def scores(self, behavior: int, users: NDArray[Any], items: NDArray[Any] | None = None) -> NDArray[np.float32]:
        """As :meth:`Scorer.scores`."""
        return self._scorer.scores(behavior, users, items)


@dataclass(frozen=True)
class DotScorer:
    """``⟨u ⊙ m_c, z⟩ + b``: users by items, with a mask and a catalog per behavior."""

    vectors: NDArray[np.float32]  # [users, d]
    masks: NDArray[np.bool_]  # [C, d]
    item_vectors: tuple[NDArray[np.float32], ...]  # C × [items, d]
    item_bias: tuple[NDArray[np.float32], ...] | None = None  # C × [items]

    def scores(self, behavior: int, users: NDArray[Any], items: NDArray[Any] | None = None) -> NDArray[np.float32]:
        """[n, m] for ``items`` [n, m] of each user, [n, all items] without."""
        bias = None if self.item_bias is None else self.item_bias[behavior]
        queries = self.vectors[users] * self.masks[behavior]
        return inner_products(queries, self.item_vectors[behavior], bias=bias, items=items)
