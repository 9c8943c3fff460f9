"""Nearest neighbors over all behaviors at once: UserKNN and ItemKNN, plus popularity.

x_ui is 1 where u has item i in training, of whatever behavior, else 0; n_i are the users who have item i, and n_u the
items of user u. With ``weighted_records`` x_ui is the weight of the record over the mean weight of the behavior's
training records, w_ui / w̄, in cosines and in sums; n_i and n_u stay what they are.

UserKNN offers what similar users have, and what friends have::

    s(u, i) = Σ_{v ∈ N(u)} cos(u, v) x_vi  +  trust_weight · Σ_{f ∈ F(u)} x_fi  +  popularity_weight · log(1 + n_i)

The cosine is that of the users' rows of x, each item j weighted by its inverse frequency ``log(1 + |V| / n_j)`` (a
factor common to all items cancels). N(u) are the other users that are most similar. F(u) are the users linked to u, in
a directed network whom u follows; weights of links are not used, and links to oneself do not count. Nothing is divided
by the number of neighbors or friends or by the sum of cosines, so popularity counts less for users who have more of
them.

ItemKNN offers what is similar to the user's items (Sarwar et al., WWW 2001; Deshpande & Karypis, TOIS 2004)::

    s(u, i) = Σ_{j ∈ N(i)} x_uj sim(i, j)  +  popularity_weight · log(1 + n_i)

    sim(i, j) = ⟨w ⊙ x_i, w ⊙ x_j⟩ / (‖w ⊙ x_i‖ ‖w ⊙ x_j‖ + shrinkage)

With ``idf`` a user counts the less the more items it has, ``w_u = log(1 + |I| / n_u) / log(1 + |I|)``, which is 1 for a
user of one item; otherwise w = 1. N(i) are the other items most similar to the scored item i. The sum is not divided by
the similarities: divided, it would not rank (Cremonesi et al., RecSys 2010). Shrinkage counts against similarities that
rest on few users.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse

from mcne.models.closed_form import (
    ClosedForm,
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
class UserKNNConfig:
    """Settings; all are ours, the weights chosen on validation parts of Ciao and Epinions."""

    neighbors: Count | None = None  # None: all who have anything in common
    idf: bool = True  # off: every item weighs the same in a cosine
    trust_weight: Amount = 0.03
    popularity_weight: Amount = 0.07
    weighted_records: bool = False


class UserKNN(ClosedForm):
    """How much each user counts for a user, times what those have, plus popularity."""

    def __init__(self, data: TrainingData, config: UserKNNConfig, *, seed: int, device: torch.device) -> None:
        records = records_of(data, weighted=config.weighted_records)  # C × [users, items]
        vectors = joint(records).astype(np.float64)  # [users, all items]
        if config.idf:
            vectors = vectors @ sparse.diags_array(inverse_frequency(vectors.count_nonzero(axis=0), data.n_users))
        similar = cosine_neighbors(vectors, neighbors=config.neighbors)  # [users, users]
        source, target = data.graph.sources(), data.graph.indices
        others = source != target
        links = (np.ones(np.count_nonzero(others)), (source[others], target[others]))
        friends = sparse.csr_array(links, shape=similar.shape)  # 1 where f is in F(u)
        weights = (similar + config.trust_weight * friends).astype(np.float32)  # [users, users]
        popularity = log_popularity(data, weight=config.popularity_weight)
        self._scorer = ProductScorer(sparse.csr_array(weights), records, popularity)


@dataclass(frozen=True)
class ItemKNNConfig:
    """Settings; all are ours, chosen on validation parts of Ciao and Epinions."""

    neighbors: Count | None = None  # None: all that have a user in common
    idf: bool = True
    shrinkage: Amount = 10.0
    popularity_weight: Amount = 0.05
    weighted_records: bool = False


class ItemKNN(ClosedForm):
    """What a user has, times how similar it is to each item, plus popularity."""

    def __init__(self, data: TrainingData, config: ItemKNNConfig, *, seed: int, device: torch.device) -> None:
        records = records_of(data, weighted=config.weighted_records)  # C × [users, items]
        x = joint(records)  # [users, all items]
        vectors = x.T.astype(np.float64)  # [all items, users]
        if config.idf:
            counts = x.count_nonzero(axis=1).astype(x.dtype)  # n_u
            vectors = vectors @ sparse.diags_array(inverse_frequency(counts, x.shape[1]))
        similar = cosine_neighbors(vectors, neighbors=config.neighbors, shrinkage=config.shrinkage)  # N(i) in row i
        to_score = tuple(similar[columns].T.tocsr() for columns in columns_of(records))  # C × [all items, items]
        self._scorer = ProductScorer(x, to_score, log_popularity(data, weight=config.popularity_weight))
