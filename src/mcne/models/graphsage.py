"""GraphSage: users as the aggregate of their neighbors (Hamilton et al., NIPS 2017), without supervision.

MCNE's network with every mask open and no attention is GraphSage with the mean aggregator: sampled neighbors are
averaged, set beside the user's own vector, multiplied and rectified; the last layer is not rectified, and what it gives
is divided by its norm, as the authors' program does. Users have no attributes, so they start from free vectors.

The network learns that users are similar to those that short walks from them visit, and unlike noise users (Eq. 1).
The items are learned by BPR in the same steps, over user vectors that are detached and so frozen for it: see
:mod:`mcne.models.node2vec`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mcne.models.contract import StepLoss, TrainingData
from mcne.models.inference import graph_links, infer
from mcne.models.mcne import ConditionalNetwork
from mcne.models.mcne_variants import open_mask
from mcne.models.neighborhoods import Batch, check_widths, hops_of
from mcne.models.optimizer import DenseAdam
from mcne.models.ranking import DotEmbedder, VectorLearner, step_loss
from mcne.models.settings import Amount, Count, Rate
from mcne.models.skip_gram import logistic_loss
from mcne.models.tables import take, to_device
from mcne.randomness import Stream
from mcne.sampling.neighbors import NeighborSampler, Noise, distinct
from mcne.sampling.walks import WalkCorpus, Walker


@dataclass(frozen=True)
class GraphSageConfig:
    """Settings: the walks and negatives of the authors, the widths and samples of MCNE, and BPR's own for the items.

    A walk of 5 users gives 4 pairs, so ``walk_batch`` 128 is the authors' batch of 512 pairs. They share negatives.
    Ours: ``l2``, stronger than BPR's own, because over vectors of norm 1 items learn single users by heart.
    """

    widths: tuple[Count, ...] = (256, 128, 100)
    neighbor_samples: tuple[Count, ...] = (20, 20)
    weighted_neighbors: bool = False
    walks_per_node: Count = 50
    walk_length: Count = 5
    walk_batch: Count = 128
    network_negatives: Count = 20
    bias: bool = True
    negatives: Count = 5
    batch_size: Count = 1024
    learning_rate: Rate = 0.003
    l2: Amount = 1.0

    def __post_init__(self) -> None:
        check_widths(self.widths, self.neighbor_samples)


@dataclass(frozen=True)
class GraphSageBatch(Batch):
    """A step's inputs; the triples are of ``ranked``."""

    ranked: Tensor  # [r] rows of the last level's users
    walks: Tensor  # [W, L] rows of the last level's users
    noise: Tensor  # [N] rows of the last level's users


class GraphSage(VectorLearner, DotEmbedder):
    """Users by sampled neighborhoods, items by BPR over them."""

    config: GraphSageConfig
    network: ConditionalNetwork

    def __init__(self, data: TrainingData, config: GraphSageConfig, *, seed: int, device: torch.device) -> None:
        super().__init__(data, config, widths=config.widths, bias=config.bias, seed=seed, device=device)
        self.network = ConditionalNetwork(
            1,
            config.widths,
            masks=open_mask,
            message="neighbor",
            last_activation=False,
            stream=Stream(seed, "initialize", "network"),
        ).to(device)
        self.adam = DenseAdam(self.network.parameters(), learning_rate=config.learning_rate)
        weighted = config.weighted_neighbors
        self._neighbors = NeighborSampler(data.graph, config.neighbor_samples, weighted=weighted)
        self._noise = Noise(data.graph, weighted=weighted)
        self._links = graph_links(data.graph, weighted=weighted, device=device)
        self._walks = WalkCorpus(
            Walker(data.graph, weighted=weighted),
            np.flatnonzero(data.graph.degrees),
            walks_per_node=config.walks_per_node,
            length=config.walk_length,
            batch_size=config.walk_batch,
            seed=seed,
        )

    def prepare(self, epoch: int, step: int) -> GraphSageBatch:
        """Draw the triples of all behaviors, the next walks, noise, and the neighborhood of all their users."""
        ranked, triples = self.items.draw_ranked(epoch, step)
        walks = self._walks.batch(epoch * self.n_steps + step)
        stream = Stream(self.items.seed, "network negatives", epoch, step)
        noise = self._noise.draw(self.config.network_negatives if len(walks) else 0, stream)
        seeds, rows = distinct(self.data.n_users, ranked, walks, noise)
        around = self._neighbors.sample(seeds, seed=self.items.seed, epoch=epoch, step=step)
        return GraphSageBatch(
            to_device(around.users, self.device),
            hops_of(around, self.device, widest=max(self.config.widths)),
            triples,
            *(to_device(each, self.device) for each in rows),
        )

    def loss(self, batch: GraphSageBatch) -> StepLoss:
        """Walks against noise for the network, and BPR for the items."""
        self.tables.forget()
        users = functional.normalize(self.network(self.tables.rows("users", batch.users), batch.hops))  # [n_K, d_K]
        ranked = users.detach().index_select(0, batch.ranked)
        ranking, scored = self.items.loss(self.tables.rows, batch.triples, ranked)
        network = walk_loss(users, batch.walks, batch.noise)
        return step_loss(ranking, network + self.config.l2 * scored, batch.triples)

    def vectors(self) -> Tensor:
        """All users, each from all its neighbors, [users, d_K]."""
        return functional.normalize(infer(self.network, self.tables.tables["users"], self._links)[-1])


def walk_loss(users: Tensor, walks: Tensor, noise: Tensor) -> Tensor:
    """Eq. 1: the mean over pairs of ``softplus(−⟨z_u, z_v⟩) + Σ_n softplus(⟨z_u, z_n⟩)``, 0 of none.

    A pair is the start u of a walk and a user v that it visits, unless it has come back to u.
    ``users`` [n, d], ``walks`` [W, L] and ``noise`` [N] rows of them.
    """
    visits = (walks[:, :1] != walks[:, 1:]).to(users.dtype)  # [W, L − 1]
    start, visited = take(users, walks[:, :1]), take(users, walks[:, 1:])  # [W, 1, d] and [W, L − 1, d]
    counts = visits.sum(dim=1)
    near = logistic_loss(start, visited, visits[:, None])
    far = logistic_loss(
        start.transpose(0, 1), take(users, noise)[None], -counts[None, :, None].expand(1, -1, len(noise))
    )
    return (near + far) / counts.sum().clamp(min=1)
