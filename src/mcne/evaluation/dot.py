"""Scores by inner product: what embedding methods hand to evaluation while they train."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.embeddings.ranking import inner_products


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
