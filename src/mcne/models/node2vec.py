"""Node2vec: users as skip-gram learns them from random walks (Grover and Leskovec, KDD 2016), and Node2vec-B.

Node2vec's user vectors are taught by the social network alone, and the items are learned by BPR over them. Both happen
in every step, so that one loop, one early stopping and one way to resume serve all methods: BPR sees the user vectors
detached, so they are frozen for it, as if the items were learned after them. Users without friends are in no walk and
keep the vectors that they started with.

Node2vec-B shares the user vectors between both: ``network_weight · network + BPR``, where the gradient of BPR (and
of its L2) that reaches the user vectors is scaled by ``beta``. With ``beta`` 0 it is Node2vec; with ``network_weight``
0 and ``beta`` 1 it is BPR.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mcne.models.contract import StepLoss, TrainingData
from mcne.models.factors import Factors
from mcne.models.gradients import partly_detached
from mcne.models.optimizer import RowAdam
from mcne.models.ranking import DotRanking, Ranked, step_loss
from mcne.models.settings import Amount, Count, Range, Rate
from mcne.models.skip_gram import SkipGram
from mcne.models.tables import INIT_STD, normal_table, to_device
from mcne.randomness import Stream
from mcne.sampling.distinct import distinct
from mcne.sampling.links import Noise
from mcne.sampling.walks import WalkCorpus, Walker

Outward = Annotated[float, Range("a number from 0.01 to 100", lambda value: 0.01 <= value <= 100)]
"""Beyond it nearly all candidates of a walk would be refused."""


@dataclass(frozen=True)
class Node2vecConfig:
    """Settings: the walks, window and negatives of the paper, MCNE's width, and BPR's own for the items.

    Ours: ``walk_batch``, the walks of a step. They are taken in turn from the paper's ``walks_per_node`` walks of every
    user, which are passed over again and again for as long as the training goes on.
    """

    width: Count = 100
    walks_per_node: Count = 10
    walk_length: Count = 80
    window: Count = 10
    p: Rate = 1.0
    q: Outward = 1.0
    network_negatives: Count = 5
    weighted_neighbors: bool = False
    walk_batch: Count = 256
    bias: bool = True
    negatives: Count = 5
    batch_size: Count = 1024
    learning_rate: Rate = 0.003
    l2: Amount = 0.05


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


@dataclass(frozen=True)
class Batch:
    """A step's inputs."""

    users: Tensor  # [n] distinct: those of the triples and of the walks
    ranked: Tensor  # [r] rows of users: those of the triples
    triples: Ranked  # of ranked
    walks: Walks | None  # without them nothing but BPR


class Node2vec(Factors):
    """Users by skip-gram on walks, items by BPR over them."""

    def __init__(self, data: TrainingData, config: Node2vecConfig, *, seed: int, device: torch.device) -> None:
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
        tables = {
            "users": normal_table(data.n_users, config.width, std=INIT_STD, stream=stream),
            "contexts": torch.zeros(data.n_users, config.width),  # as word2vec starts
        } | self.items.tables()
        self.tables = RowAdam(
            {k: t.to(device) for k, t in tables.items()}, learning_rate=config.learning_rate, joined=self.items.joined
        )
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

    def prepare(self, epoch: int, step: int) -> Batch:
        """Draw the triples of all behaviors, the next walks and their negatives."""
        ranked, triples = self.items.draw_ranked(epoch, step)
        users, at, walks = ranked, np.arange(len(ranked)), None
        if self.network_weight:
            users, at, walks = self._draw_walks(ranked, epoch, step)
        return Batch(to_device(users, self.device), to_device(at, self.device), triples, walks)

    def _draw_walks(
        self, ranked: NDArray[np.int64], epoch: int, step: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Walks]:
        """The distinct users of the walks and those ``ranked``, the rows of these, and the walks."""
        walks = self._walks.batch(epoch * self.n_steps + step)
        stream = Stream(self._seed, "network negatives", epoch, step)
        noise = self._noise.draw((len(walks), *self.skip_gram.noise_shape), stream)
        users, (at, center) = distinct(self.data.n_users, ranked, walks)
        contexts, (near, far) = distinct(self.data.n_users, walks, noise)
        return users, at, Walks(*(to_device(array, self.device) for array in (contexts, center, near, far)))

    def loss(self, batch: Batch) -> StepLoss:
        """Skip-gram on the walks, and BPR of which the user vectors feel the share ``beta``."""
        self.tables.forget()
        users = self.tables.rows("users", batch.users)
        ranked = partly_detached(users.index_select(0, batch.ranked), self.beta)
        ranking, scored = self.items.loss(self.tables.rows, batch.triples, ranked)
        penalty = self.config.l2 * scored
        if batch.walks is not None:
            walks, contexts = batch.walks, self.tables.rows("contexts", batch.walks.contexts)
            network = self.skip_gram.loss(
                users, contexts, center=walks.center, context=walks.context, noise=walks.noise
            )
            penalty = penalty + self.network_weight * network
        return step_loss(ranking, penalty, batch.triples)


class Node2vecB(Node2vec):
    """Node2vec whose user vectors BPR teaches too."""

    def __init__(self, data: TrainingData, config: Node2vecBConfig, *, seed: int, device: torch.device) -> None:
        super().__init__(data, config, seed=seed, device=device)
        self.network_weight, self.beta = config.network_weight, config.beta
