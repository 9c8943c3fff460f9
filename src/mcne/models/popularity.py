"""Popularity: recommend every user the most popular items, behavior by behavior.

``s(u, i) = Σ_v x_vi`` over all users v, with x_vi = 1 where v has item i in training, else 0. With ``weighted_records``
x_vi is the weight of that record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mcne.data.dataset import SocialDataset
from mcne.embeddings.artifact import BehaviorSpace, ConditionalEmbeddings
from mcne.embeddings.ranking import DotScorer
from mcne.models.contract import TrainingData


@dataclass(frozen=True)
class PopularityConfig:
    """Whether records count by their weights."""

    weighted_records: bool = False


class Popularity:
    """Training records per item, or the sum of their weights."""

    def __init__(self, data: TrainingData, config: PopularityConfig, *, seed: int, device: torch.device) -> None:
        self._n_users = data.n_users
        self._counts = tuple(
            np.bincount(item, data.weights[k] if config.weighted_records else None, minlength=n).astype(np.float32)
            for k, ((_, item), n) in enumerate(zip(data.pairs, data.n_items, strict=True))
        )

    def scorer(self) -> DotScorer:
        """The counts, the same for all users."""
        users = np.zeros((self._n_users, 0), dtype=np.float32)
        items = tuple(np.zeros((len(counts), 0), dtype=np.float32) for counts in self._counts)
        return DotScorer(users, np.zeros((len(items), 0), dtype=bool), items, self._counts)

    def learned(self) -> dict[str, Tensor]:
        """The counts."""
        return {f"counts.{k}": torch.from_numpy(counts) for k, counts in enumerate(self._counts)}

    def load(self, learned: Mapping[str, Tensor]) -> None:
        """Take over counts."""
        self._counts = tuple(learned[f"counts.{k}"].numpy().copy() for k in range(len(self._counts)))

    def embeddings(self, dataset: SocialDataset, provenance: Mapping[str, Any]) -> ConditionalEmbeddings:
        """The artifact: vectors without dimensions, and the counts as bias."""
        spaces = tuple(
            BehaviorSpace.of(
                behavior,
                dataset.n_users,
                mask=np.zeros(0, dtype=bool),
                item_vectors=np.zeros((behavior.n_items, 0), dtype=np.float32),
                item_bias=self._counts[k],
            )
            for k, behavior in enumerate(dataset.behaviors)
        )
        vectors = np.zeros((dataset.n_users, 0), dtype=np.float32)
        return ConditionalEmbeddings(
            dataset.users, vectors, spaces, dataset.graph, provenance=provenance, user_names=dataset.user_names
        )
