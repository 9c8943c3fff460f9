"""LINE: user vectors learned from single links (Tang et al., WWW 2015), and LINE-B.

In the first order, linked users have similar vectors; in the second, users linked to the same others have similar
vectors, and every user has a second vector as a context. Links are drawn in proportion to their weights, and each is
compared with negatives drawn by degree^0.75. In a directed network the second order learns from the links as they are;
the first, where both ends are alike, from the undirected one.

Items are learned as in Node2vec and Node2vec-B: see :class:`mcne.models.skip_gram.NetworkTaught`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mcne.models.bpr import BPRConfig
from mcne.models.contract import TrainingData
from mcne.models.settings import Amount, Count
from mcne.models.skip_gram import NetworkTaught, logistic_loss
from mcne.models.tables import take
from mcne.randomness import Stream
from mcne.sampling.neighbors import LinkSampler, Noise, distinct


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
    """LINE's settings, and the weights of network and ranking in the user vectors; both are ours."""

    network_weight: Amount = 0.1
    beta: Amount = 1.0


class LINE(NetworkTaught):
    """Users by links and negatives, items by BPR over them."""

    config: LINEConfig

    def __init__(self, data: TrainingData, config: LINEConfig, *, seed: int, device: torch.device) -> None:
        super().__init__(data, config, seed=seed, device=device)
        graph = data.graph.symmetric() if config.order == 1 else data.graph
        self._noise = Noise(graph, weighted=config.weighted_neighbors)
        self._links = LinkSampler(graph, weighted=config.weighted_neighbors)
        self._weights = torch.tensor([[[1.0] + [-1.0] * config.network_negatives]], device=device)  # [1, 1, 1 + N]

    def user_tables(self, width: int) -> dict[str, Tensor]:
        """Users, and of the second order contexts."""
        tables = super().user_tables(width)
        if self.config.order == 2:
            tables["contexts"] = torch.zeros(self.data.n_users, width)  # as LINE starts
        return tables

    def draw(self, ranked: NDArray[np.int64], epoch: int, step: int) -> list[NDArray[Any]]:
        """Links and their negatives: distinct contexts [m] of the second order, and rows of both ends.

        The first end's are rows of the step's users [e]; the other end's and its negatives' are rows of contexts, of
        the first order rows of users, [e, 1 + N].
        """
        source, target = self._links.draw(self.config.link_batch, Stream(self.items.seed, "links", epoch, step))
        stream = Stream(self.items.seed, "network negatives", epoch, step)
        noise = self._noise.draw((len(source), self.config.network_negatives), stream)
        heads = np.concatenate([target[:, None], noise], axis=1)
        if self.config.order == 1:
            users, (rows, tail, head) = distinct(self.data.n_users, ranked, source, heads)
            contexts = np.zeros(0, dtype=np.int64)
        else:
            users, (rows, tail) = distinct(self.data.n_users, ranked, source)
            contexts, (head,) = distinct(self.data.n_users, heads)
        return [users, rows, contexts, tail, head]

    def network_loss(self, users: Tensor, drawn: Sequence[Tensor]) -> Tensor:
        """The mean over links of ``softplus(−⟨u_i, c_j⟩) + Σ_n softplus(⟨u_i, c_n⟩)``, 0 of none (Eq. 7 of LINE)."""
        context_users, tail, head = drawn
        contexts = users if self.config.order == 1 else self.tables.rows("contexts", context_users)
        source, target = take(users, tail)[:, None], take(contexts, head)  # [e, 1, d] and [e, 1 + N, d]
        return logistic_loss(source, target, self._weights) / max(1, len(source))


class LINEB(LINE):
    """LINE whose user vectors are also trained by BPR."""
