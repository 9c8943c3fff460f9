"""What LightGCN and PinSage share: users and items as nodes of one graph, its triples, its artifact."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mcne.data.graph import Graph, directed, undirected
from mcne.kernels.triples import scored_l2
from mcne.models.contract import StepLoss, TrainingData
from mcne.models.optimizer import RowAdam
from mcne.models.ranking import Config, DotEmbedder, DotRanking, StepLearner
from mcne.models.tables import take, to_device_at_once


def joint_graph(data: TrainingData, *, trust: bool) -> Graph:
    """Users, then the items of every behavior; linked by the training pairs, and with ``trust`` also by the network.

    All links count the same. Links to oneself are left out: methods add a node's own vector to those of its neighbors.
    In a directed network users are linked to whom they follow, and users and items to each other all the same.
    """
    first = _first_nodes(data)
    users = [user for user, _ in data.pairs]
    items = [item + first[k] for k, (_, item) in enumerate(data.pairs)]
    sources, targets, link = users, items, undirected
    if trust and data.graph.is_directed:
        sources, targets, link = users + items, items + users, directed
    if trust:
        user = data.graph.sources()
        others = user != data.graph.indices
        sources = [*sources, user[others]]
        targets = [*targets, data.graph.indices[others]]
    return link(int(first[-1]), np.concatenate(sources), np.concatenate(targets))[0]


@dataclass(frozen=True)
class NodeTriples:
    """The triples of one behavior in a step, on the device; all are rows of the step's distinct nodes."""

    user: Tensor  # [b]
    positive: Tensor  # [b]
    negative: Tensor  # [b, N]

    def of(self, vectors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What ``vectors`` [m, d] of the distinct nodes are to the triples: [b, d], [b, d] and [b, N, d]."""
        return take(vectors, self.user), take(vectors, self.positive), take(vectors, self.negative)


def triple_scores(user: Tensor, positive: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
    """``⟨u, z⟩`` of the positives, [b], and of the negatives, [b, N]."""
    return (user * positive).sum(-1), torch.bmm(negative, user[:, :, None])[:, :, 0]


def rank_triples(
    triples: Sequence[NodeTriples],
    *,
    scored: Tensor,
    decayed: Tensor,
    bias: Tensor | None,
    ranking_loss: Callable[[Tensor, Tensor], Tensor],
    l2: float,
) -> StepLoss:
    """A loss of the scores by ``scored`` [m, d] and items' ``bias`` [m, 1], plus L2 on biases and ``decayed``.

    Both are averaged over behaviors. ``decayed`` [m, d] is of the same distinct nodes; L2 takes those of the triples.
    """
    losses, penalties = [], []
    for each in triples:
        positive, negative = triple_scores(*each.of(scored))
        penalty = scored_l2(*each.of(decayed))
        if bias is not None:
            _, own, others = each.of(bias)  # [b, 1] and [b, N, 1]
            positive, negative = positive + own[:, 0], negative + others[:, :, 0]
            penalty = penalty + scored_l2(torch.zeros_like(own), own, others)
        losses.append(ranking_loss(positive, negative))
        penalties.append(penalty)
    ranking = torch.stack(losses)
    total = ranking.mean() + l2 * torch.stack(penalties).mean()
    return StepLoss(total, ranking.detach(), sum(len(each.user) for each in triples))


class NodeEmbedder(StepLearner, DotEmbedder):
    """Ranking by ``⟨z_u, z_i⟩`` where a method gives a vector of this ``width`` to every node of the joint graph.

    With ``bias`` it also learns a number of every node, under that name, and those of items are added to their scores.
    :meth:`vectors` are of all nodes here, [nodes, d].
    """

    tables: RowAdam

    def __init__(
        self, data: TrainingData, config: Config, *, width: int, bias: bool, seed: int, device: torch.device
    ) -> None:
        self.data, self.config, self.device = data, config, device
        self._first = _first_nodes(data)
        self.n_nodes = int(self._first[-1])  # users and items of all behaviors
        on_host = torch.device("cpu")  # drawn items become nodes on the host, and go to the device after that
        self.items = DotRanking(data, config, width=width, bias=bias, seed=seed, device=on_host)

    def draw(self, epoch: int, step: int) -> tuple[NDArray[np.int64], tuple[NodeTriples, ...]]:
        """The distinct nodes of a step, increasing, and the triples of every behavior."""
        users, drawn = self.items.draw(epoch, step)
        nodes = [users]
        parts = []
        row = len(users)
        for first, each in zip(self._first, drawn, strict=False):
            nodes.append(first + each.items.numpy())
            parts += [each.user.numpy(), row + each.positive.numpy(), row + each.negative.numpy()]
            row += len(each.items)
        sent = to_device_at_once(parts, self.device)
        triples = tuple(NodeTriples(*sent[at : at + 3]) for at in range(0, len(sent), 3))
        return np.concatenate(nodes), triples

    def item_tables_and_users(self) -> tuple[Mapping[str, Tensor], Tensor]:
        """The vectors and biases of items by the names of their tables, and the vectors of users."""
        sizes = [self.data.n_users, *self.data.n_items]
        users, *items = torch.split(self.vectors(), sizes)
        tables = {f"items.{k}": table for k, table in enumerate(items)}
        if (bias := self.learned().get("bias")) is not None:
            tables |= {f"bias.{k}": table for k, table in enumerate(torch.split(bias, sizes)[1:])}
        return tables, users


def _first_nodes(data: TrainingData) -> NDArray[np.int64]:
    """The node of each behavior's first item, and at the end the number of nodes, [C + 1]."""
    return np.cumsum([data.n_users, *data.n_items], dtype=np.int64)
