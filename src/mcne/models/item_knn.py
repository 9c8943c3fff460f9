"""ItemKNN: a user is shown what is similar to what it has, over all behaviors at once, and what most users have.

::

    s(u, i) = Σ_{j ∈ N(i)} x_uj sim(i, j)  +  popularity_weight · log(1 + n_i)

    sim(i, j) = ⟨w ⊙ x_i, w ⊙ x_j⟩ / (‖w ⊙ x_i‖ ‖w ⊙ x_j‖ + shrinkage)

x_ui is 1 where u has item i in training, of whatever behavior, else 0; n_i = Σ_u x_ui. With ``idf`` a user counts the
less the more items it has, ``w_u = log(1 + |I| / n_u) / log(1 + |I|)``, which is 1 for a user of one item; otherwise
w = 1. N(i) are the other items most similar to the scored item i (Sarwar et al., WWW 2001; Deshpande & Karypis, TOIS
2004). The sum is not divided by the similarities: divided, it would not rank (Cremonesi et al., RecSys 2010). Shrinkage
counts against similarities that rest on few users.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from mcne.models.closed_form import (
    ProductScorer,
    columns_of,
    cosine_neighbors,
    inverse_frequency,
    joint,
    log_popularity,
    records_of,
)
from mcne.models.contract import TrainingData
from mcne.models.settings import Amount, Count


@dataclass(frozen=True)
class ItemKNNConfig:
    """Settings; all are ours, chosen on validation parts of Ciao and Epinions."""

    neighbors: Count | None = None  # None: all that have a user in common
    idf: bool = True
    shrinkage: Amount = 10.0
    popularity_weight: Amount = 0.05


class ItemKNN:
    """Cosines of items; ready when made."""

    def __init__(self, data: TrainingData, config: ItemKNNConfig, *, seed: int, device: torch.device) -> None:
        records = records_of(data)  # C × [users, items]
        x = joint(records)  # [users, all items]
        vectors = x.T.astype(np.float64)  # [all items, users]
        if config.idf:
            vectors = vectors @ sparse.diags_array(inverse_frequency(x.sum(axis=1), x.shape[1]))
        similar = cosine_neighbors(vectors, neighbors=config.neighbors, shrinkage=config.shrinkage)  # N(i) in row i
        to_score = tuple(similar[columns].T.tocsr() for columns in columns_of(records))  # C × [all items, items]
        self._scorer = ProductScorer(x, to_score, log_popularity(data, weight=config.popularity_weight))

    def scorer(self) -> ProductScorer:
        """What a user has, times how similar it is to each item, plus popularity."""
        return self._scorer

    def learned(self) -> dict[str, Tensor]:
        """The records, the similarities and the popularity."""
        return self._scorer.tensors()

    def load(self, learned: Mapping[str, Tensor]) -> None:
        """Take over records, similarities and popularity."""
        self._scorer = self._scorer.taking(learned)
