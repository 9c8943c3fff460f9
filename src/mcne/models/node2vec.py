"""Node2vec: user vectors learned by skip-gram on random walks (Grover and Leskovec, KDD 2016), and Node2vec-B.

BPR learns the items over user vectors that are frozen for it; Node2vec-B shares the user vectors between both: see
:class:`mcne.models.skip_gram.NetworkTaught`. Users without links are in no walk and keep their initial vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mcne.models.bpr import BPRConfig
from mcne.models.contract import TrainingData
from mcne.models.settings import Amount, Count, Range, Rate
from mcne.models.skip_gram import NetworkTaught, SkipGram
from mcne.randomness import Stream
from mcne.sampling.neighbors import Noise, distinct
from mcne.sampling.walks import WalkCorpus, Walker

Outward = Annotated[float, Range("a number from 0.01 to 100", lambda value: 0.01 <= value <= 100)]
"""Beyond it nearly all candidates of a walk would be refused."""


@dataclass(frozen=True)
class Node2vecConfig(BPRConfig):
    """Settings: the walks, window and negatives of the paper, MCNE's width, and BPR's own for the items.

    Ours: ``walk_batch``, the walks of a step. They are taken in turn from the paper's ``walks_per_node`` walks of every
    user, which are repeated for as long as the training lasts.
    """

    walks_per_node: Count = 10
    walk_length: Count = 80
    window: Count = 10
    p: Rate = 1.0
    q: Outward = 1.0
    network_negatives: Count = 5
    weighted_neighbors: bool = False
    walk_batch: Count = 256


@dataclass(frozen=True)
class Node2vecBConfig(Node2vecConfig):
    """Node2vec's settings, and the weights of network and ranking in the user vectors; both are ours."""

    network_weight: Amount = 0.1
    beta: Amount = 1.0


class Node2vec(NetworkTaught):
    """Users by skip-gram on walks, items by BPR over them."""

    config: Node2vecConfig

    def __init__(self, data: TrainingData, config: Node2vecConfig, *, seed: int, device: torch.device) -> None:
        super().__init__(data, config, seed=seed, device=device)
        self.skip_gram = SkipGram(config.walk_length, config.window, negatives=config.network_negatives, device=device)
        self._noise = Noise(data.graph, weighted=config.weighted_neighbors)
        self._walks = WalkCorpus(
            Walker(data.graph, p=config.p, q=config.q, weighted=config.weighted_neighbors),
            np.flatnonzero(data.graph.degrees),
            walks_per_node=config.walks_per_node,
            length=config.walk_length,
            batch_size=config.walk_batch,
            seed=seed,
        )

    def user_tables(self, width: int) -> dict[str, Tensor]:
        """Users and contexts."""
        return super().user_tables(width) | {"contexts": torch.zeros(self.data.n_users, width)}  # as word2vec starts

    def draw(self, ranked: NDArray[np.int64], epoch: int, step: int) -> list[NDArray[Any]]:
        """The next walks and their negatives: distinct contexts [m], the walks as rows of the step's users [W, L] and
        as rows of contexts [W, L], and the negatives as rows of contexts [W, n, N].
        """
        walks = self._walks.batch(epoch * self.n_steps + step)
        stream = Stream(self.items.seed, "network negatives", epoch, step)
        noise = self._noise.draw((len(walks), *self.skip_gram.noise_shape), stream)
        users, (rows, center) = distinct(self.data.n_users, ranked, walks)
        contexts, (near, far) = distinct(self.data.n_users, walks, noise)
        return [users, rows, contexts, center, near, far]

    def network_loss(self, users: Tensor, drawn: Sequence[Tensor]) -> Tensor:
        """Skip-gram on the walks."""
        context_users, center, near, far = drawn
        contexts = self.tables.rows("contexts", context_users)
        return self.skip_gram.loss(users, contexts, center=center, context=near, noise=far)


class Node2vecB(Node2vec):
    """Node2vec whose user vectors are also trained by BPR."""
