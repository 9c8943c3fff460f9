"""BPR: one vector per user, one per item and behavior, ranked by inner product (Rendle et al., UAI 2009).

The single-vector baseline: all behaviors share the user's vector. With ``bias`` every item also has a popularity
of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mcne.data.dataset import SocialDataset
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.space import BehaviorSpace
from mcne.evaluation.dot import DotScorer
from mcne.layers.losses import bpr_loss, scored_l2
from mcne.layers.tensors import normal_table, to_device, to_numpy
from mcne.randomness import Stream
from mcne.sampling.triples import TripleSampler
from mcne.training.contract import StepLoss, TrainingData
from mcne.training.optimizer import RowAdam

INIT_STD = 0.01


@dataclass(frozen=True)
class BPRConfig:
    """Settings; ``l2`` is per triple, on what the triple scores."""

    width: int = 100
    bias: bool = True
    negatives: int = 5
    batch_size: int = 1024
    learning_rate: float = 0.003
    l2: float = 0.05


@dataclass(frozen=True)
class Batch:
    """A step's triples; per behavior users, distinct items, and rows of those."""

    users: Tensor  # [distinct users]
    user: tuple[Tensor, ...]  # C × [b] rows of users
    items: tuple[Tensor, ...]  # C × [distinct]
    positive: tuple[Tensor, ...]  # C × [b]
    negative: tuple[Tensor, ...]  # C × [b, N]


class BPR:
    """Matrix factorization learned by ranking pairs."""

    def __init__(self, data: TrainingData, config: BPRConfig, *, seed: int, device: torch.device) -> None:
        self.data, self.config, self.device = data, config, device
        init = Stream(seed, "initialize", "users")
        tables = {"users": normal_table(data.n_users, config.width, std=INIT_STD, stream=init)}
        for k, name in enumerate(data.names):
            stream = Stream(seed, "initialize", "items", name)
            tables[f"items.{k}"] = normal_table(data.n_items[k], config.width, std=INIT_STD, stream=stream)
            if config.bias:
                tables[f"bias.{k}"] = torch.zeros(data.n_items[k], 1)
        self.tables = RowAdam({k: t.to(device) for k, t in tables.items()}, learning_rate=config.learning_rate)
        self._triples = TripleSampler(
            data.pairs,
            n_users=data.n_users,
            n_items=data.n_items,
            negatives=config.negatives,
            batch_size=config.batch_size,
            seed=seed,
        )

    @property
    def n_steps(self) -> int:
        """Steps of an epoch: as long as the longest behavior takes."""
        return self._triples.n_steps

    def prepare(self, epoch: int, step: int) -> Batch:
        """Draw the triples of all behaviors."""
        drawn = [self._triples.draw(k, epoch, step) for k in range(len(self.data.names))]
        users, at = np.unique(np.concatenate([triples.user for triples in drawn]), return_inverse=True)
        rows = np.split(at, np.cumsum([len(triples.user) for triples in drawn])[:-1])
        return Batch(
            to_device(users, self.device),
            tuple(to_device(row, self.device) for row in rows),
            tuple(to_device(triples.items, self.device) for triples in drawn),
            tuple(to_device(triples.positive, self.device) for triples in drawn),
            tuple(to_device(triples.negative, self.device) for triples in drawn),
        )

    def loss(self, batch: Batch) -> StepLoss:
        """BPR per behavior, averaged over behaviors, plus L2 on what was scored."""
        self.tables.forget()
        users = self.tables.rows("users", batch.users)
        ranking, decay = [], []
        for k in range(len(self.data.names)):
            items = self.tables.rows(f"items.{k}", batch.items[k])  # [distinct, d]
            user = users.index_select(0, batch.user[k])  # [b, d]
            positive = items.index_select(0, batch.positive[k])  # [b, d]
            at = batch.negative[k]  # [b, N]
            negative = items.index_select(0, at.flatten()).view(*at.shape, items.shape[1])
            up, down = (user * positive).sum(-1), torch.bmm(negative, user[:, :, None])[:, :, 0]
            penalty = scored_l2(user, positive, negative)
            if self.config.bias:
                bias = self.tables.rows(f"bias.{k}", batch.items[k])[:, 0]
                up_bias, down_bias = bias[batch.positive[k]], bias[batch.negative[k]]
                up, down = up + up_bias, down + down_bias
                squares = up_bias.square() + down_bias.square().mean(-1)  # [b]
                penalty = penalty + squares.sum() / max(1, len(squares))
            ranking.append(bpr_loss(up, down))
            decay.append(penalty)
        per_behavior = torch.stack(ranking)
        total = per_behavior.mean() + self.config.l2 * torch.stack(decay).mean()
        return StepLoss(total, per_behavior.detach(), sum(len(user) for user in batch.user))

    def update(self, loss: StepLoss) -> None:
        """Descend."""
        torch.autograd.backward(loss.total)
        self.tables.step()

    def vitals(self) -> dict[str, float]:
        """Nothing beside the losses."""
        return {}

    def scorer(self) -> DotScorer:
        """Inner products, plus the bias."""
        masks = np.ones((len(self.data.names), self.config.width), dtype=np.float32)
        return DotScorer(to_numpy(self.tables.tables["users"]), masks, tuple(self._items()), self._bias())

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

    def embeddings(self, dataset: SocialDataset, provenance: Mapping[str, Any]) -> ConditionalEmbeddings:
        """The artifact: every behavior has all dimensions."""
        every, bias = np.ones(self.config.width, dtype=bool), self._bias()
        spaces = tuple(
            BehaviorSpace.of(
                behavior,
                dataset.n_users,
                mask=every,
                item_vectors=self._items()[k],
                item_bias=None if bias is None else bias[k],
            )
            for k, behavior in enumerate(dataset.behaviors)
        )
        users = to_numpy(self.tables.tables["users"])
        return ConditionalEmbeddings(dataset.users, users, spaces, dataset.graph, None, provenance)

    def _items(self) -> list[Any]:
        return [to_numpy(self.tables.tables[f"items.{k}"]) for k in range(len(self.data.names))]

    def _bias(self) -> tuple[Any, ...] | None:
        if not self.config.bias:
            return None
        return tuple(to_numpy(self.tables.tables[f"bias.{k}"])[:, 0] for k in range(len(self.data.names)))
