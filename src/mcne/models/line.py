"""LINE: users as the links of the network teach them, one by one (Tang et al., WWW 2015), and LINE-B.

Of the first order, linked users have similar vectors; of the second, users have similar vectors who are linked to the
same others, for which every user has another vector as a context. Links are drawn in proportion to their weights, and
each is set against negatives drawn by degree^0.75.

As with Node2vec, the items of LINE are learned by BPR over user vectors that are frozen for it, in the same steps:
see :mod:`mcne.models.node2vec`. LINE-B shares the user vectors: ``network_weight · network + BPR``, where the gradient
of BPR (and of its L2) that reaches the user vectors is scaled by ``beta``. With ``beta`` 0 it is LINE; with
``network_weight`` 0 and ``beta`` 1 it is BPR.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mcne.models.contract import StepLoss, TrainingData
from mcne.models.factors import Factors
from mcne.models.gradients import partly_detached
from mcne.models.optimizer import RowAdam
from mcne.models.ranking import DotRanking, Ranked, step_loss
from mcne.models.settings import Amount, Count, Rate
from mcne.models.skip_gram import logistic_loss
from mcne.models.tables import INIT_STD, normal_table, take, to_device
from mcne.randomness import Stream
from mcne.sampling.distinct import distinct
from mcne.sampling.links import LinkSampler, Noise


@dataclass(frozen=True)
class LINEConfig:
    """Settings: the orders and negatives of the paper, MCNE's width, and BPR's own for the items.

    Ours: ``link_batch``, the links drawn in a step, and ``weighted_neighbors``, without which all links weigh the same.
    """

    width: Count = 100
    order: Literal[1, 2] = 2
    network_negatives: Count = 5
    weighted_neighbors: bool = False
    link_batch: Count = 4096
    bias: bool = True
    negatives: Count = 5
    batch_size: Count = 1024
    learning_rate: Rate = 0.003
    l2: Amount = 0.05


@dataclass(frozen=True)
class LINEBConfig(LINEConfig):
    """LINE's settings, and how much network and ranking teach the user vectors; both are ours."""

    network_weight: Amount = 0.1
    beta: Amount = 1.0


@dataclass(frozen=True)
class DrawnLinks:
    """The links of a step with their negatives."""

    contexts: Tensor  # [m] distinct users, of the second order alone
    source: Tensor  # [e] rows of the step's users
    target: Tensor  # [e, 1 + N] rows of contexts, of the first order rows of the step's users; negatives follow


@dataclass(frozen=True)
class Batch:
    """A step's inputs."""

    users: Tensor  # [n] distinct: those of the triples and of the links
    ranked: Tensor  # [r] rows of users: those of the triples
    triples: Ranked  # of ranked
    links: DrawnLinks | None  # without them nothing but BPR


class LINE(Factors):
    """Users by links and negatives, items by BPR over them."""

    def __init__(self, data: TrainingData, config: LINEConfig, *, seed: int, device: torch.device) -> None:
        self.data, self.config, self.device = data, config, device
        self.network_weight, self.beta = 1.0, 0.0
        self._seed = seed
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
        if config.order == 2:
            tables["contexts"] = torch.zeros(data.n_users, config.width)  # as LINE starts
        self.tables = RowAdam(
            {k: t.to(device) for k, t in tables.items()}, learning_rate=config.learning_rate, joined=self.items.joined
        )
        self._links = LinkSampler(data.graph, weighted=config.weighted_neighbors)
        self._noise = Noise(data.graph, weighted=config.weighted_neighbors)
        self._weights = torch.tensor([[[1.0] + [-1.0] * config.network_negatives]], device=device)  # [1, 1, 1 + N]

    def prepare(self, epoch: int, step: int) -> Batch:
        """Draw the triples of all behaviors, links and their negatives."""
        ranked, triples = self.items.draw_ranked(epoch, step)
        users, at, links = ranked, np.arange(len(ranked)), None
        if self.network_weight:
            users, at, links = self._draw_links(ranked, epoch, step)
        return Batch(to_device(users, self.device), to_device(at, self.device), triples, links)

    def _draw_links(
        self, ranked: NDArray[np.int64], epoch: int, step: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], DrawnLinks]:
        """The distinct users of the links and those ``ranked``, the rows of these, and the links."""
        source, target = self._links.draw(self.config.link_batch, Stream(self._seed, "links", epoch, step))
        stream = Stream(self._seed, "network negatives", epoch, step)
        noise = self._noise.draw((len(source), self.config.network_negatives), stream)
        heads = np.concatenate([target[:, None], noise], axis=1)
        if self.config.order == 1:
            users, (at, tail, head) = distinct(self.data.n_users, ranked, source, heads)
            contexts = np.zeros(0, dtype=np.int64)
        else:
            users, (at, tail) = distinct(self.data.n_users, ranked, source)
            contexts, (head,) = distinct(self.data.n_users, heads)
        return users, at, DrawnLinks(*(to_device(array, self.device) for array in (contexts, tail, head)))

    def loss(self, batch: Batch) -> StepLoss:
        """The links against their negatives, and BPR of which the user vectors feel the share ``beta``."""
        self.tables.forget()
        users = self.tables.rows("users", batch.users)
        ranked = partly_detached(users.index_select(0, batch.ranked), self.beta)
        ranking, scored = self.items.loss(self.tables.rows, batch.triples, ranked)
        penalty = self.config.l2 * scored
        if batch.links is not None:
            penalty = penalty + self.network_weight * self._network_loss(users, batch.links)
        return step_loss(ranking, penalty, batch.triples)

    def _network_loss(self, users: Tensor, links: DrawnLinks) -> Tensor:
        """The mean over links of ``softplus(−⟨u_i, c_j⟩) + Σ_n softplus(⟨u_i, c_n⟩)``, 0 of none (Eq. 7 of LINE)."""
        contexts = users if self.config.order == 1 else self.tables.rows("contexts", links.contexts)
        source, target = take(users, links.source)[:, None], take(contexts, links.target)  # [e, 1, d], [e, 1 + N, d]
        return logistic_loss(source, target, self._weights) / max(1, len(source))


class LINEB(LINE):
    """LINE whose user vectors BPR teaches too."""

    def __init__(self, data: TrainingData, config: LINEBConfig, *, seed: int, device: torch.device) -> None:
        super().__init__(data, config, seed=seed, device=device)
        self.network_weight, self.beta = config.network_weight, config.beta
