"""UserKNN: a user is shown what similar users have, over all behaviors at once, what friends have, and what most have.

::

    s(u, i) = Σ_{v ∈ N(u)} cos(u, v) x_vi  +  trust_weight · Σ_{f ∈ F(u)} x_fi  +  popularity_weight · log(1 + n_i)

x_ui is 1 where u has item i in training, of whatever behavior, else 0; n_i = Σ_u x_ui. The cosine is that of the
users' rows of x, each item j weighted by its inverse frequency ``log(1 + |V| / n_j)`` (a factor common to all items
cancels). N(u) are the other users that are most similar. F(u) are the users linked to u; weights of links are not
used, and a link to oneself is none. Nothing is divided by the number of neighbors or friends or by the sum of
cosines, so who has more of them hears less of popularity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from mcne.data.graph import Graph
from mcne.models.closed_form import (
    Matrix,
    ProductScorer,
    cosine_neighbors,
    inverse_frequency,
    joint,
    log_popularity,
    records_of,
)
from mcne.models.contract import TrainingData
from mcne.models.settings import Amount, Count


@dataclass(frozen=True)
class UserKNNConfig:
    """Settings; all are ours, the weights chosen on validation parts of Ciao and Epinions."""

    neighbors: Count | None = None  # None: all who have anything in common
    idf: bool = True  # off: every item weighs the same in a cosine
    trust_weight: Amount = 0.03
    popularity_weight: Amount = 0.07


class UserKNN:
    """Cosines of users; ready when made."""

    def __init__(self, data: TrainingData, config: UserKNNConfig, *, seed: int, device: torch.device) -> None:
        records = records_of(data)  # C × [users, items]
        vectors = joint(records).astype(np.float64)  # [users, all items]
        if config.idf:
            vectors = vectors @ sparse.diags_array(inverse_frequency(vectors.sum(axis=0), data.n_users))
        similar = cosine_neighbors(vectors, neighbors=config.neighbors)  # [users, users]
        weights = (similar + config.trust_weight * _friends(data.graph)).astype(np.float32)  # [users, users]
        popularity = log_popularity(data, weight=config.popularity_weight)
        self._scorer = ProductScorer(sparse.csr_array(weights), records, popularity)

    def scorer(self) -> ProductScorer:
        """How much a user hears of each other user, times what those have, plus popularity."""
        return self._scorer

    def learned(self) -> dict[str, Tensor]:
        """The weights of users for users, the records and the popularity."""
        return self._scorer.tensors()

    def load(self, learned: Mapping[str, Tensor]) -> None:
        """Take over weights, records and popularity."""
        self._scorer = self._scorer.taking(learned)


def _friends(graph: Graph) -> Matrix:
    """1 for every two users who are linked, [users, users]."""
    source, target = graph.sources(), graph.indices
    others = source != target
    ones = np.ones(np.count_nonzero(others))
    return sparse.csr_array((ones, (source[others], target[others])), shape=(graph.n_users, graph.n_users))
