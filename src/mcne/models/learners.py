"""What methods share that learn step by step: the parts of the training contract that are the same for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from mcne.data.dataset import SocialDataset
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.scorer import Scorer
from mcne.models.contract import StepLoss
from mcne.models.optimizer import DenseAdam, RowAdam, adam_memory, load_adam
from mcne.models.ranking import DotRanking


class TableLearner:
    """A method that learns tables: all of the contract but ``prepare``, ``loss`` and ``scorer``."""

    items: DotRanking
    tables: RowAdam

    @property
    def n_steps(self) -> int:
        """Steps of an epoch: as many as the longest behavior takes (reading 10)."""
        return self.items.n_steps

    def update(self, loss: StepLoss) -> None:
        """Descend."""
        torch.autograd.backward(loss.total)
        self.tables.step()

    def vitals(self) -> dict[str, float]:
        """Nothing beside the losses."""
        return {}

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


class NetworkLearner(TableLearner):
    """A method that learns tables and a network, of which every parameter learns in every step."""

    network: nn.Module
    adam: DenseAdam

    def update(self, loss: StepLoss) -> None:
        """Descend."""
        self.adam.zero_grad()
        torch.autograd.backward(loss.total)
        self.adam.step()
        self.tables.step()

    def learned(self) -> dict[str, Tensor]:
        """The tables, and the parameters of the network."""
        return super().learned() | {f"network.{name}": value for name, value in self.network.state_dict().items()}

    def memory(self) -> dict[str, Tensor]:
        """The moments of both optimizers."""
        return super().memory() | adam_memory(self.adam)

    def load(self, learned: Mapping[str, Tensor]) -> None:
        """Take over tables and network."""
        super().load(learned)
        self.network.load_state_dict({name: learned[f"network.{name}"] for name in self.network.state_dict()})

    def load_memory(self, memory: Mapping[str, Tensor]) -> None:
        """Take over the moments of both optimizers."""
        super().load_memory(memory)
        load_adam(self.adam, memory)


class DotEmbedder:
    """A method that gives each user one vector for all behaviors and scores by inner products with the item tables."""

    items: DotRanking
    tables: RowAdam

    def vectors(self) -> Tensor:
        """All users, [users, d]: the table ``users``, unless a method computes them from more."""
        return self.tables.tables["users"]

    def item_tables_and_users(self) -> tuple[Mapping[str, Tensor], Tensor]:
        """What scores are products of."""
        return self.tables.tables, self.vectors()

    def scorer(self) -> Scorer:
        """Inner products, plus the bias."""
        return self.items.scorer(*self.item_tables_and_users())

    def embeddings(self, dataset: SocialDataset, provenance: Mapping[str, Any]) -> ConditionalEmbeddings:
        """The artifact: every behavior has all dimensions."""
        return self.items.embeddings(*self.item_tables_and_users(), dataset=dataset, provenance=provenance)
