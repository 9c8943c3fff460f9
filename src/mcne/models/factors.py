"""What methods share that learn tables and nothing else: BPR, LibFM, Node2vec, LINE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mcne.data.dataset import SocialDataset
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.scorer import Scorer
from mcne.models.contract import StepLoss
from mcne.models.optimizer import RowAdam
from mcne.models.ranking import DotRanking


class Factors:
    """All of the training contract but :meth:`prepare` and :meth:`loss`."""

    items: DotRanking
    tables: RowAdam

    @property
    def n_steps(self) -> int:
        """Steps of an epoch: as long as the longest behavior takes."""
        return self.items.n_steps

    def update(self, loss: StepLoss) -> None:
        """Descend."""
        torch.autograd.backward(loss.total)
        self.tables.step()

    def vitals(self) -> dict[str, float]:
        """Nothing beside the losses."""
        return {}

    def vectors(self) -> Tensor:
        """All users, [users, d]: the table ``users``, unless a method makes them of more."""
        return self.tables.tables["users"]

    def scorer(self) -> Scorer:
        """Inner products, plus the bias."""
        return self.items.scorer(self.tables.tables, self.vectors())

    def embeddings(self, dataset: SocialDataset, provenance: Mapping[str, Any]) -> ConditionalEmbeddings:
        """The artifact: every behavior has all dimensions."""
        return self.items.embeddings(self.tables.tables, self.vectors(), dataset=dataset, provenance=provenance)

    def learned(self) -> dict[str, Tensor]:
        """The tables."""
        return dict(self.tables.tables)

    def memory(self) -> dict[str, Tensor]:
        """The optimizer's moments."""
        return self.tables.memory()

    def load(self, learned: Mapping[str, Tensor]) -> None:
        """Take over tables."""
        self.tables.load_tables(learned)

    def load_memory(self, memory: Mapping[str, Tensor]) -> None:
        """Take over the optimizer's moments."""
        self.tables.load_memory(memory)
