"""BPR: one vector per user, one per item and behavior, ranked by inner product (Rendle et al., UAI 2009).

The single-vector baseline: all behaviors share the user's vector. With ``bias`` every item also has a popularity
of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mcne.data.dataset import SocialDataset
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.evaluation.dot import DotScorer
from mcne.layers.tensors import INIT_STD, normal_table, to_device
from mcne.methods.dot_ranking import DotRanking, Triples, step_loss
from mcne.randomness import Stream
from mcne.training.contract import StepLoss, TrainingData
from mcne.training.optimizer import RowAdam
from mcne.training.settings import Amount, Count, Rate


@dataclass(frozen=True)
class BPRConfig:
    """Settings; ``l2`` is per triple, on what the triple scores."""

    width: Count = 100
    bias: bool = True
    negatives: Count = 5
    batch_size: Count = 1024
    learning_rate: Rate = 0.003
    l2: Amount = 0.05


@dataclass(frozen=True)
class Batch:
    """A step's inputs."""

    users: Tensor  # [n] distinct
    triples: tuple[Triples, ...]


class BPR:
    """Matrix factorization learned by ranking pairs."""

    def __init__(self, data: TrainingData, config: BPRConfig, *, seed: int, device: torch.device) -> None:
        self.data, self.config, self.device = data, config, device
        self.items = DotRanking(
            data,
            width=config.width,
            bias=config.bias,
            negatives=config.negatives,
            batch_size=config.batch_size,
            seed=seed,
            device=device,
        )
        stream = Stream(seed, "initialize", "users")
        tables = {"users": normal_table(data.n_users, config.width, std=INIT_STD, stream=stream)} | self.items.tables()
        self.tables = RowAdam({k: t.to(device) for k, t in tables.items()}, learning_rate=config.learning_rate)

    @property
    def n_steps(self) -> int:
        """Steps of an epoch: as long as the longest behavior takes."""
        return self.items.n_steps

    def prepare(self, epoch: int, step: int) -> Batch:
        """Draw the triples of all behaviors."""
        users, triples = self.items.draw(epoch, step)
        return Batch(to_device(users, self.device), triples)

    def loss(self, batch: Batch) -> StepLoss:
        """BPR per behavior, averaged over behaviors, plus L2 on what was scored."""
        self.tables.forget()
        users = self.tables.rows("users", batch.users)
        ranking, scored = self.items.loss(self.tables.rows, batch.triples, [users] * len(self.data.names))
        return step_loss(ranking, self.config.l2 * scored, batch.triples)

    def update(self, loss: StepLoss) -> None:
        """Descend."""
        torch.autograd.backward(loss.total)
        self.tables.step()

    def vitals(self) -> dict[str, float]:
        """Nothing beside the losses."""
        return {}

    def scorer(self) -> DotScorer:
        """Inner products, plus the bias."""
        return self.items.scorer(self.tables.tables, self.tables.tables["users"])

    def embeddings(self, dataset: SocialDataset, provenance: Mapping[str, Any]) -> ConditionalEmbeddings:
        """The artifact: every behavior has all dimensions."""
        tables = self.tables.tables
        return self.items.embeddings(tables, tables["users"], dataset=dataset, provenance=provenance)

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
