"""BPR: one vector per user for all behaviors, one per item and behavior, ranked by inner product (Rendle et al., UAI
2009). With ``bias`` every item also has a popularity of its own.

The loss of a behavior is the mean over its triples of ``−ln σ(s_up − s_un)``. With ``weighted_records`` it is the mean
of ``w_up / w̄ · (−ln σ(s_up − s_un))``, w_up being the weight of the record and w̄ the mean weight of the behavior's
training records, so that the learning rate and L2, which stays unweighted, mean what they mean without weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mcne.models.contract import StepLoss, TrainingData
from mcne.models.ranking import DotEmbedder, Ranked, VectorLearner, step_loss
from mcne.models.settings import Amount, Count, Rate
from mcne.models.tables import to_device


@dataclass(frozen=True)
class BPRConfig:
    """Settings; ``l2`` is per triple, on what the triple scores.

    ``negatives`` are the MCNE paper's, and ``batch_size``, ``learning_rate`` and ``l2`` are ours.
    """

    width: Count = 100
    bias: bool = True
    negatives: Count = 5
    batch_size: Count = 1024
    learning_rate: Rate = 0.003
    l2: Amount = 0.05
    weighted_records: bool = False


@dataclass(frozen=True)
class BPRBatch:
    """A step's inputs."""

    users: Tensor  # [n] distinct
    triples: Ranked


class BPR(VectorLearner, DotEmbedder):
    """Matrix factorization learned by ranking pairs."""

    config: BPRConfig

    def __init__(self, data: TrainingData, config: BPRConfig, *, seed: int, device: torch.device) -> None:
        super().__init__(data, config, widths=(config.width,), bias=config.bias, seed=seed, device=device)

    def prepare(self, epoch: int, step: int) -> BPRBatch:
        """Draw the triples of all behaviors."""
        users, triples = self.items.draw_ranked(epoch, step)
        return BPRBatch(to_device(users, self.device), triples)

    def loss(self, batch: BPRBatch) -> StepLoss:
        """BPR per behavior, averaged over behaviors, plus L2 on what was scored."""
        self.tables.forget()
        users = self.tables.rows("users", batch.users)
        ranking, scored = self.items.loss(self.tables.rows, batch.triples, users)
        return step_loss(ranking, self.config.l2 * scored, batch.triples)
