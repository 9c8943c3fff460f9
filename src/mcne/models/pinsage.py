"""PinSage: a graph convolutional network over most visited neighbors (Ying et al., KDD 2018).

The MCNE paper gives it "a complete network by user-user and user-item bipartite graphs": users and the items of all
behaviors are nodes, linked by trust (in a directed network to whom a user trusts) and by training pairs. Nodes have no
features here and so start from free vectors. What the network makes of a user and of an item is ranked by inner
product. The hard negatives that the origin adds from epoch to epoch are left out: all negatives are uniform.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from mcne.errors import UsageError
from mcne.kernels.products import weighed
from mcne.kernels.triples import bpr_loss
from mcne.models.contract import StepLoss, TrainingData
from mcne.models.node_ranking import NodeEmbedder, NodeTriples, joint_graph, rank_triples
from mcne.models.optimizer import DenseAdam, RowAdam
from mcne.models.settings import Amount, Count, Rate, Share
from mcne.models.tables import normal_table, to_device, to_numpy
from mcne.randomness import Stream
from mcne.sampling.walks import Visited, WeightedHop, most_visited

TABLE_STD = 0.1
"""Of the free vectors. The first layer divides by their length, so this is how slowly steps turn them."""


@dataclass(frozen=True)
class PinSageConfig:
    """Settings. Of the origin are two layers and the margin loss, of MCNE the widths and the number of neighbors.

    The origin states neither the margin nor the walks, and all else is ours: ``l2`` is per triple, on what it scores;
    ``bias`` adds a learned number to every item's score, as BPR has it.
    A walk ends with the chance ``restart`` after each of its steps, and after ``walk_length`` in any case.
    """

    widths: tuple[Count, ...] = (256, 128, 100)
    neighbors: Count = 20
    walks: Count = 100
    walk_length: Count = 5
    restart: Share = 0.5
    loss: Literal["margin", "bpr"] = "margin"
    margin: Amount = 1.0
    bias: bool = False
    negatives: Count = 5
    batch_size: Count = 1024
    learning_rate: Rate = 0.003
    l2: Amount = 0.1

    def __post_init__(self) -> None:
        if len(self.widths) < 2:
            raise UsageError(
                f"{list(self.widths)} has {len(self.widths)} numbers, and at least two are needed: the width of the "
                "initial vectors, then one for every layer",
                "setting widths",
                "for example, use widths=[64,64]",
                value=list(self.widths),
            )


@dataclass(frozen=True)
class VisitHop:
    """A layer's edges on the device: see :class:`mcne.sampling.walks.WeightedHop`."""

    receiver: Tensor  # [n]
    sender: Tensor  # [n, T]
    share: Tensor  # [n, T]

    @classmethod
    def of(cls, hop: WeightedHop, device: torch.device) -> VisitHop:
        """A hop on the device."""
        return cls(*(to_device(each, device) for each in (hop.receiver, hop.sender, hop.share)))


@dataclass(frozen=True)
class PinSageBatch:
    """A step's inputs."""

    nodes: Tensor  # [n₀] nodes whose free vectors are needed
    scored: Tensor  # [n_K] nodes of the last level
    hops: tuple[VisitHop, ...]
    triples: tuple[NodeTriples, ...]  # of the last level's nodes


class Dense(nn.Linear):
    """PyTorch's, the same bytes on any number of threads: N(0, 2/(d_in + d_out)) (Glorot and Bengio), its bias 0."""

    def __init__(self, d_in: int, d_out: int, *, stream: Stream, bias: bool = True) -> None:
        super().__init__(d_in, d_out, bias=bias)
        with torch.no_grad():
            self.weight.copy_(torch.from_numpy(stream.normal((d_out, d_in)) * (2 / (d_in + d_out)) ** 0.5))
            if bias:
                self.bias.zero_()

    def forward(self, rows: Tensor) -> Tensor:
        """``rows`` [n, d_in] → [n, d_out]."""
        return weighed(rows, self.weight, self.bias)


class Convolve(nn.Module):
    """Algorithm 1: vectors of the m nodes of the level below to those of n receivers among them, of length 1."""

    def __init__(self, d_in: int, d_out: int, *, stream: Stream) -> None:
        super().__init__()
        self.near = Dense(d_in, d_in, stream=stream)  # Q, q
        self.combine = Dense(2 * d_in, d_out, stream=stream)  # W, w

    def forward(self, vectors: Tensor, hop: VisitHop) -> Tensor:
        """``vectors`` [m, d_in] → [n, d_out]; a receiver without neighbors receives zeros."""
        sent = torch.relu(self.near(vectors))  # [m, d_in]
        shares = hop.share.to(sent.dtype)
        received = functional.embedding_bag(hop.sender, sent, mode="sum", per_sample_weights=shares)  # [n, d_in]
        own = vectors.index_select(0, hop.receiver)  # [n, d_in]
        return functional.normalize(torch.relu(self.combine(torch.cat([own, received], dim=1))))


class PinSageNetwork(nn.Module):
    """Algorithm 2: convolutions, and at the end ``z = G₂ ReLU(G₁ h + g)``, which gives vectors their length."""

    def __init__(self, widths: Sequence[int], *, stream: Stream) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Convolve(*pair, stream=stream) for pair in pairwise(widths))
        self.hidden = Dense(widths[-1], widths[-1], stream=stream)  # G₁, g
        self.output = Dense(widths[-1], widths[-1], stream=stream, bias=False)  # G₂

    def forward(self, vectors: Tensor, hops: Sequence[VisitHop]) -> Tensor:
        """The nodes at the end of the hops, [n_K, d_K], from the free ``vectors`` [n₀, d₀]."""
        for layer, hop in zip(self.layers, hops, strict=True):
            vectors = layer(vectors, hop)
        output: Tensor = self.output(torch.relu(self.hidden(vectors)))
        return output


class PinSage(NodeEmbedder):
    """Every node by its own vector and those of its most visited neighbors, layer by layer."""

    config: PinSageConfig
    network: PinSageNetwork

    def __init__(self, data: TrainingData, config: PinSageConfig, *, seed: int, device: torch.device) -> None:
        super().__init__(data, config, width=config.widths[-1], bias=config.bias, seed=seed, device=device)
        self.network = PinSageNetwork(config.widths, stream=Stream(seed, "initialize", "network")).to(device)
        stream = Stream(seed, "initialize", "nodes")
        nodes = normal_table(self.n_nodes, config.widths[0], std=TABLE_STD, stream=stream)
        tables = {"nodes": nodes} | ({"bias": torch.zeros(len(nodes), 1)} if config.bias else {})
        self.tables = RowAdam(tables, learning_rate=config.learning_rate, device=device)
        self.adam = DenseAdam(self.network.parameters(), learning_rate=config.learning_rate)
        self._visited = most_visited(
            joint_graph(data, trust=True),
            size=config.neighbors,
            walks=config.walks,
            length=config.walk_length,
            restart=config.restart,
            seed=seed,
        )

    def prepare(self, epoch: int, step: int) -> PinSageBatch:
        """Draw the triples of all behaviors, and find the neighborhood of their nodes."""
        seeds, triples = self.draw(epoch, step)
        nodes, hops = self._visited.around(seeds, layers=len(self.network.layers))
        moved = tuple(VisitHop.of(hop, self.device) for hop in hops)
        return PinSageBatch(to_device(nodes, self.device), to_device(seeds, self.device), moved, triples)

    def loss(self, batch: PinSageBatch) -> StepLoss:
        """Margin loss or BPR per behavior, averaged over behaviors, plus L2 on what was scored."""
        self.tables.forget()
        vectors = self.network(self.tables.rows("nodes", batch.nodes), batch.hops)  # [n_K, d_K]
        bias = self.tables.rows("bias", batch.scored) if self.config.bias else None  # [n_K, 1]
        ranking_loss = bpr_loss if self.config.loss == "bpr" else partial(margin_loss, margin=self.config.margin)
        return rank_triples(
            batch.triples, scored=vectors, decayed=vectors, bias=bias, ranking_loss=ranking_loss, l2=self.config.l2
        )

    @torch.no_grad()
    def vectors(self) -> Tensor:
        """The output of the network for all nodes, [nodes, d_K]."""
        everyone = WeightedHop(np.arange(self.n_nodes), self._visited.node, self._visited.share)
        hops = [VisitHop.of(everyone, self.device)] * len(self.network.layers)
        vectors: Tensor = self.network(self.tables.tables["nodes"], hops)
        return vectors

    def learned(self) -> dict[str, Tensor]:
        """The tables, the weights of the network, and the neighbors that were drawn for it."""
        visited = {f"visited.{name}": torch.from_numpy(value) for name, value in vars(self._visited).items()}
        return super().learned() | visited

    def load(self, learned: Mapping[str, Tensor]) -> None:
        """Take over tables, weights and neighbors."""
        super().load(learned)
        self._visited = Visited(*(to_numpy(learned[f"visited.{name}"]).copy() for name in ("node", "share")))


def margin_loss(positive: Tensor, negative: Tensor, *, margin: float) -> Tensor:
    """Eq. 1: the mean of ``max(0, s_n − s_p + Δ)`` over all triples, 0 of none, for scores [b] and [b, N]."""
    return torch.relu(negative - positive[:, None] + margin).sum() / max(1, negative.numel())
