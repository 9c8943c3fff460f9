"""LibFM: a factorization machine over user, friends and item (Rendle, ICDM 2010; ACM TIST 2012).

    ŷ(x) = w₀ + Σ_f w_f x_f + Σ_{f<g} ⟨v_f, v_g⟩ x_f x_g

For one user this is ``⟨s_u, v_i⟩ + w_i`` and what is the same for all items (``pointwise.py`` derives the sums):
an inner product with a bias, so that it can be served. What is the same for all items still has to be learned, since
every pair is learned by itself: is it a training record, or one of the zeros drawn for it?
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mcne.models.contract import StepLoss, TrainingData
from mcne.models.factors import Factors
from mcne.models.optimizer import RowAdam
from mcne.models.pointwise import UserFeatures, UserSide, logistic_loss, pair_l2, pairs_of
from mcne.models.ranking import DotRanking, Triples, step_loss
from mcne.models.settings import Amount, Count, Rate


@dataclass(frozen=True)
class LibFMConfig:
    """Settings; ``l2`` is per pair, on all its features, each as much as its value.

    A pair is a record or none, so the loss is the logistic one that libFM has for classes. The width is that of the
    paper's other methods. The rest is ours and chosen on Ciao's validation part, as libFM leaves it to the data;
    ``negatives`` are the zeros drawn for each record.
    """

    width: Count = 100
    negatives: Count = 10
    batch_size: Count = 1024
    learning_rate: Rate = 0.003
    l2: Amount = 0.02


@dataclass(frozen=True)
class Batch:
    """A step's inputs."""

    features: UserFeatures  # of the distinct users
    triples: tuple[Triples, ...]


class LibFM(Factors):
    """Factorization machine learned by logistic regression on records and drawn zeros."""

    def __init__(self, data: TrainingData, config: LibFMConfig, *, seed: int, device: torch.device) -> None:
        self.data, self.config, self.device = data, config, device
        self.items = DotRanking(
            data,
            width=config.width,
            bias=True,
            negatives=config.negatives,
            batch_size=config.batch_size,
            seed=seed,
            device=device,
        )
        self.users = UserSide(data.graph, width=config.width, seed=seed, device=device)
        tables = self.users.tables() | self.items.tables() | {"constant": torch.zeros(1, 1)}
        self.tables = RowAdam({k: t.to(device) for k, t in tables.items()}, learning_rate=config.learning_rate)
        self._only = torch.zeros(1, dtype=torch.int64, device=device)

    def prepare(self, epoch: int, step: int) -> Batch:
        """Draw the pairs of all behaviors, and look up the friends of their users."""
        users, triples = self.items.draw(epoch, step)
        return Batch(self.users.features(users), triples)

    def loss(self, batch: Batch) -> StepLoss:
        """Logistic loss per behavior, averaged over behaviors, plus L2 on the features of the pairs."""
        self.tables.forget()
        sums = self.users.sums(self.tables.rows, batch.features)
        constant = self.tables.rows("constant", self._only)[0]  # w₀
        alone = constant + sums.weights + sums.pairs.sum(-1)  # [n] the same for all items
        fit, decay = [], []
        for pairs in pairs_of(self.tables.rows, batch.triples):
            user = sums.vectors.index_select(0, pairs.user)  # [b, k]
            products = torch.bmm(pairs.vectors, user[:, :, None])[:, :, 0]  # [b, 1+N]
            scores = products + pairs.weights + alone.index_select(0, pairs.user)[:, None]
            fit.append(logistic_loss(scores, pairs.item))
            decay.append(pair_l2(sums, pairs))
        return step_loss(torch.stack(fit), self.config.l2 * torch.stack(decay).mean(), batch.triples)

    def vectors(self) -> Tensor:
        """All users, each the sum of its features; the weight of an item is its bias."""
        return self.users.everyone(self.tables.tables).vectors
