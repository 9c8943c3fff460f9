"""LINE: users as the links of the network teach them, one by one (Tang et al., WWW 2015), and LINE-B.

Of the first order, linked users have similar vectors; of the second, users have similar vectors who are linked to the
same others, for which every user has another vector as a context. Links are drawn in proportion to their weights, and
each is set against negatives drawn by degree^0.75.

Items are learned as in Node2vec and Node2vec-B: see :class:`mcne.models.skip_gram.NetworkTaught`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mcne.models.bpr import BPRConfig
from mcne.models.contract import TrainingData
from mcne.models.optimizer import RowAdam
from mcne.models.ranking import user_table
from mcne.models.settings import Amount, Count
from mcne.models.skip_gram import NetworkTaught, logistic_loss
from mcne.models.tables import take, to_device
from mcne.randomness import Stream
from mcne.sampling.distinct import distinct
from mcne.sampling.neighbors import LinkSampler


@dataclass(frozen=True)
class LINEConfig(BPRConfig):
    """Settings: the orders and negatives of the paper, MCNE's width, and BPR's own for the items.

    Ours: ``link_batch``, the links drawn in a step, and ``weighted_neighbors``, without which all links weigh the same.
    """

    order: Literal[1, 2] = 2
    network_negatives: Count = 5
    weighted_neighbors: bool = False
    link_batch: Count = 4096


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


class LINE(NetworkTaught[DrawnLinks]):
    """Users by links and negatives, items by BPR over them."""

    config: LINEConfig

    def __init__(self, data: TrainingData, config: LINEConfig, *, seed: int, device: torch.device) -> None:
        super().__init__(data, config, seed=seed, device=device)
        tables = {"users": user_table(data.n_users, config.width, seed=seed)} | self.items.tables()
        if config.order == 2:
            tables["contexts"] = torch.zeros(data.n_users, config.width)  # as LINE starts
        self.tables = RowAdam(tables, learning_rate=config.learning_rate, joined=self.items.joined, device=device)
        self._links = LinkSampler(data.graph, weighted=config.weighted_neighbors)
        self._weights = torch.tensor([[[1.0] + [-1.0] * config.network_negatives]], device=device)  # [1, 1, 1 + N]

    def draw(self, ranked: NDArray[np.int64], epoch: int, step: int) -> tuple[NDArray[Any], NDArray[Any], DrawnLinks]:
        """Links and their negatives."""
        source, target = self._links.draw(self.config.link_batch, Stream(self._seed, "links", epoch, step))
        stream = Stream(self._seed, "network negatives", epoch, step)
        noise = self._noise.draw((len(source), self.config.network_negatives), stream)
        heads = np.concatenate([target[:, None], noise], axis=1)
        if self.config.order == 1:
            users, (rows, tail, head) = distinct(self.data.n_users, ranked, source, heads)
            contexts = np.zeros(0, dtype=np.int64)
        else:
            users, (rows, tail) = distinct(self.data.n_users, ranked, source)
            contexts, (head,) = distinct(self.data.n_users, heads)
        return users, rows, DrawnLinks(*(to_device(array, self.device) for array in (contexts, tail, head)))

    def network_loss(self, users: Tensor, drawn: DrawnLinks) -> Tensor:
        """The mean over links of ``softplus(−⟨u_i, c_j⟩) + Σ_n softplus(⟨u_i, c_n⟩)``, 0 of none (Eq. 7 of LINE)."""
        contexts = users if self.config.order == 1 else self.tables.rows("contexts", drawn.contexts)
        source, target = take(users, drawn.source)[:, None], take(contexts, drawn.target)  # [e, 1, d], [e, 1 + N, d]
        return logistic_loss(source, target, self._weights) / max(1, len(source))


class LINEB(LINE):
    """LINE whose user vectors BPR teaches too."""
