"""LightGCN: vectors smoothed over the graph of users and items (He et al., SIGIR 2020).

The items of all behaviors are nodes of one graph. ``lightgcn-trust`` has the trust between users as further links, in
both directions even where the network is directed: smoothing divides by the degrees of both ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from mcne.data.graph import Graph
from mcne.kernels.triples import bpr_loss
from mcne.models.contract import StepLoss, TrainingData
from mcne.models.node_ranking import NodeEmbedder, NodeTriples, joint_graph, rank_triples
from mcne.models.settings import Amount, Count, Rate, Whole
from mcne.models.tables import normal_table, to_device
from mcne.randomness import Stream


@dataclass(frozen=True)
class LightGCNConfig:
    """Settings, the origin's unless stated otherwise.

    ``width`` is 100, as the MCNE paper has it for all methods (64 in the origin). ``l2`` is per triple, on the free
    vectors of its three nodes; the origin writes half of it. Ours: ``bias`` adds a learned number to every item's
    score, as BPR has it.
    """

    width: Count = 100
    layers: Whole = 3  # 0 is matrix factorization
    bias: bool = False
    negatives: Count = 1
    batch_size: Count = 2048
    learning_rate: Rate = 0.001
    l2: Amount = 1e-4


@dataclass(frozen=True)
class LightGCNBatch:
    """A step's inputs."""

    nodes: Tensor  # [m] distinct
    triples: tuple[NodeTriples, ...]


class Smoothing:
    """``1/(K+1) Σ_k A^k x``: the mean of a node's vectors at layers 0 to K (Eq. 3–4).

    ``A`` in compressed rows on the device: ``share`` is ``1/√(d_u d_i)``, by the degrees of both ends of a link.
    """

    def __init__(self, graph: Graph, *, layers: int, device: torch.device) -> None:
        self.layers = layers
        self.start = to_device(graph.indptr.astype(np.int64), device)  # [nodes + 1]
        self.neighbor = to_device(graph.indices.astype(np.int64), device)  # [links]
        degree = graph.degrees.astype(np.float64)
        share = torch.from_numpy(1 / np.sqrt(degree[graph.sources()] * degree[graph.indices]))
        self.share = share.to(device, torch.get_default_dtype())  # [links]

    def __call__(self, vectors: Tensor) -> Tensor:
        """The output of every node, [nodes, d]."""
        smoothed: Tensor = _Smooth.apply(vectors, self)  # type: ignore[no-untyped-call] # as PyTorch declares it
        return smoothed

    def apply(self, vectors: Tensor) -> Tensor:
        """The same, without a gradient."""
        level, total = vectors, vectors
        for _ in range(self.layers):
            level = functional.embedding_bag(
                self.neighbor, level, self.start, mode="sum", per_sample_weights=self.share, include_last_offset=True
            )
            total = total + level
        return total / (self.layers + 1)


class _Smooth(torch.autograd.Function):
    """Smooth the gradient like the vectors, since ``A`` is symmetric; sums have a fixed order in both directions."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, smoothing: Smoothing) -> Tensor:
        ctx.smoothing = smoothing
        return smoothing.apply(vectors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.smoothing.apply(gradients[0].contiguous()), None


class LightGCN(NodeEmbedder):
    """A free vector per node; users and items are scored by their smoothed vectors."""

    trust = False
    config: LightGCNConfig

    def __init__(self, data: TrainingData, config: LightGCNConfig, *, seed: int, device: torch.device) -> None:
        super().__init__(data, config, width=config.width, bias=config.bias, seed=seed, device=device)
        graph = joint_graph(data, trust=self.trust).symmetric()
        self.smoothing = Smoothing(graph, layers=config.layers, device=device)
        stream = Stream(seed, "initialize", "nodes")
        width = config.width
        sizes = (data.n_users, sum(data.n_items))  # apart as in the origin, each as Glorot and Bengio initialize
        tables = [normal_table(n, width, std=(2 / (n + width)) ** 0.5, stream=stream) for n in sizes]
        self.nodes = nn.Parameter(torch.cat(tables).to(device))  # [nodes, d]; smoothing makes all learn in every step
        self.bias = nn.Parameter(torch.zeros(len(self.nodes), 1, device=device)) if config.bias else None  # [nodes, 1]
        parameters = [each for each in (self.nodes, self.bias) if each is not None]
        self.adam = torch.optim.Adam(parameters, lr=config.learning_rate, fused=True)

    def prepare(self, epoch: int, step: int) -> LightGCNBatch:
        """Draw the triples of all behaviors."""
        nodes, triples = self.draw(epoch, step)
        return LightGCNBatch(to_device(nodes, self.device), triples)

    def loss(self, batch: LightGCNBatch) -> StepLoss:
        """BPR of the smoothed vectors plus L2 of the free ones (Eq. 15), averaged over behaviors."""
        smoothed = self.smoothing(self.nodes).index_select(0, batch.nodes)  # [m, d]
        free = self.nodes.index_select(0, batch.nodes)  # [m, d]
        bias = None if self.bias is None else self.bias.index_select(0, batch.nodes)  # [m, 1]
        return rank_triples(
            batch.triples, scored=smoothed, decayed=free, bias=bias, ranking_loss=bpr_loss, l2=self.config.l2
        )

    def vectors(self) -> Tensor:
        """The smoothed vectors of all nodes, [nodes, d]."""
        return self.smoothing.apply(self.nodes.detach())

    def dense(self) -> dict[str, Tensor]:
        """The free vectors, and the bias."""
        return {"nodes": self.nodes.detach()} | ({} if self.bias is None else {"bias": self.bias.detach()})


class LightGCNTrust(LightGCN):
    """LightGCN whose graph also has the trust between users."""

    trust = True
