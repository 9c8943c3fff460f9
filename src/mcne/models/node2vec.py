"""Node2vec: users as skip-gram learns them from random walks (Grover and Leskovec, KDD 2016), and Node2vec-B.

BPR learns the items over user vectors that are frozen for it; Node2vec-B shares the user vectors between both: see
:class:`mcne.models.skip_gram.NetworkTaught`. Users without friends are in no walk and keep their initial vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mcne.models.bpr import BPRConfig
from mcne.models.contract import TrainingData
from mcne.models.optimizer import RowAdam
from mcne.models.ranking import user_table
from mcne.models.settings import Amount, Count, Range, Rate
from mcne.models.skip_gram import NetworkTaught, SkipGram
from mcne.models.tables import to_device
from mcne.randomness import Stream
from mcne.sampling.distinct import distinct
from mcne.sampling.walks import WalkCorpus, Walker

Outward = Annotated[float, Range("a number from 0.01 to 100", lambda value: 0.01 <= value <= 100)]
"""Beyond it nearly all candidates of a walk would be refused."""


@dataclass(frozen=True)
class Node2vecConfig(BPRConfig):
    """Settings: the walks, window and negatives of the paper, MCNE's width, and BPR's own for the items.

    Ours: ``walk_batch``, the walks of a step. They are taken in turn from the paper's ``walks_per_node`` walks of every
    user, which are passed over again and again for as long as the training goes on.
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
    """Node2vec's settings, and how much network and ranking teach the user vectors; both are ours."""

    network_weight: Amount = 0.1
    beta: Amount = 1.0


@dataclass(frozen=True)
class Walks:
    """The walks of a step, as rows of its users and of its contexts."""

    contexts: Tensor  # [m] distinct users
    center: Tensor  # [W, L] rows of the step's users
    context: Tensor  # [W, L] rows of contexts
    noise: Tensor  # [W, n, N] rows of contexts


class Node2vec(NetworkTaught[Walks]):
    """Users by skip-gram on walks, items by BPR over them."""

    config: Node2vecConfig

    def __init__(self, data: TrainingData, config: Node2vecConfig, *, seed: int, device: torch.device) -> None:
        super().__init__(data, config, seed=seed, device=device)
        users = user_table(data.n_users, config.width, seed=seed)
        contexts = torch.zeros(data.n_users, config.width)  # as word2vec starts
        tables = {"users": users, "contexts": contexts} | self.items.tables()
        self.tables = RowAdam(tables, learning_rate=config.learning_rate, joined=self.items.joined, device=device)
        self.skip_gram = SkipGram(config.walk_length, config.window, negatives=config.network_negatives, device=device)
        self._walks = WalkCorpus(
            Walker(data.graph, p=config.p, q=config.q, weighted=config.weighted_neighbors),
            np.flatnonzero(data.graph.degrees),
            walks_per_node=config.walks_per_node,
            length=config.walk_length,
            batch_size=config.walk_batch,
            seed=seed,
        )

    def draw(self, ranked: NDArray[np.int64], epoch: int, step: int) -> tuple[NDArray[Any], NDArray[Any], Walks]:
        """The next walks and their negatives."""
        walks = self._walks.batch(epoch * self.n_steps + step)
        stream = Stream(self._seed, "network negatives", epoch, step)
        noise = self._noise.draw((len(walks), *self.skip_gram.noise_shape), stream)
        users, (rows, center) = distinct(self.data.n_users, ranked, walks)
        contexts, (near, far) = distinct(self.data.n_users, walks, noise)
        return users, rows, Walks(*(to_device(array, self.device) for array in (contexts, center, near, far)))

    def network_loss(self, users: Tensor, drawn: Walks) -> Tensor:
        """Skip-gram on the walks."""
        contexts = self.tables.rows("contexts", drawn.contexts)
        return self.skip_gram.loss(users, contexts, center=drawn.center, context=drawn.context, noise=drawn.noise)


class Node2vecB(Node2vec):
    """Node2vec whose user vectors BPR teaches too."""
