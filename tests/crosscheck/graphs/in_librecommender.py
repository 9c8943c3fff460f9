"""LibRecommender's side of the PinSage check, in its own environment: ``python in_librecommender.py TASK FILE``.

The file is ``.npz``: it has what is needed, and what was found is left in its place. All that is computed here is
computed by LibRecommender's network, losses and walks, over *our* graph: its users and items are all items to it.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from libreco.algorithms.torch_modules.pinsage_module import PinSageModel
from libreco.sampling import bipartite_neighbors_with_weights, negatives_from_unconsumed
from libreco.torchops.loss import bpr_loss, compute_pair_scores, max_margin_loss
from torch import Tensor

Arrays = dict[str, np.ndarray]
torch.set_num_threads(1)


@dataclass(frozen=True)
class Lists:
    """For every node a list of others and their weights."""

    start: np.ndarray  # [nodes + 1]
    node: np.ndarray  # [n]
    weight: np.ndarray  # [n]

    def of(self, nodes: np.ndarray) -> tuple[np.ndarray, Tensor, Tensor]:
        """The lists of these nodes one after the other, where each begins, and the weights."""
        counts = self.start[nodes + 1] - self.start[nodes]
        offsets = np.cumsum(counts) - counts
        at = np.arange(counts.sum()) + np.repeat(self.start[nodes] - offsets, counts)
        return self.node[at], torch.from_numpy(offsets), torch.from_numpy(self.weight[at]).float()


def network(given: Arrays) -> PinSageModel:
    """Their network with our weights; the dense layer that they have before it passes the free vectors on."""
    nodes, width = given["item_embeds.weight"].shape
    none = SimpleNamespace(name=[], index=[])
    about = SimpleNamespace(n_items=nodes, item_col=[], item_dense_col=none, sparse_col=none, dense_col=none)
    layers = sum(name.startswith("q_linears") and name.endswith("weight") for name in given)
    model = PinSageModel("i2i", about, embed_size=width, batch_size=1, num_layers=layers, dropout_rate=0.0)
    weights = {name: torch.from_numpy(given[name]) for name in model.state_dict() if not name.startswith("item_proj")}
    model.load_state_dict(weights | {"item_proj.weight": torch.eye(width), "item_proj.bias": torch.zeros(width)})
    model.item_proj.requires_grad_(False)
    return model


def represent(model: PinSageModel, nodes: np.ndarray, lists: Lists) -> Tensor:
    """What their network gives to these nodes."""
    neighbors = []
    offsets = []
    weights = []
    level = nodes
    for _ in range(model.num_layers):
        level, offset, weight = lists.of(level)
        neighbors.append(torch.from_numpy(level))
        offsets.append(offset)
        weights.append(weight)
    none = [None] * model.num_layers
    return model(torch.from_numpy(nodes), None, None, neighbors, none, none, offsets, weights)


def loss_of(model: PinSageModel, triples: list[np.ndarray], lists: Lists, *, kind: str, margin: float) -> Tensor:
    """Their loss of ``triples``: users [b], positives [b] and negatives [b, N]."""
    nodes, at = np.unique(np.concatenate([each.ravel() for each in triples]), return_inverse=True)
    rows = torch.split(represent(model, nodes, lists)[torch.from_numpy(at)], [each.size for each in triples])
    positive, negative = compute_pair_scores(*rows)
    return bpr_loss(positive, negative) if kind == "bpr" else max_margin_loss(positive, negative, margin)


def step(given: Arrays) -> Arrays:
    """Loss and gradients of one step, and what all nodes are given."""
    model = network(given)
    lists = Lists(given["start"], given["node"], given["share"])
    triples = [given[name] for name in ("user", "positive", "negative")]
    loss = loss_of(model, triples, lists, kind=str(given["loss"]), margin=float(given["margin"]))
    loss.backward()
    gradients = {name: value.grad.numpy() for name, value in model.named_parameters() if value.grad is not None}
    with torch.no_grad():
        given_to_all = represent(model, np.arange(len(lists.start) - 1), lists)
    return {"loss": loss.detach().numpy(), "vectors": given_to_all.numpy()} | gradients


def visits(given: Arrays) -> Arrays:
    """Whom their walks visit most. A node is an item that one user has, who has the items that are its neighbors.

    They take a user with a single item for one that leads nowhere, so everyone has all items twice. A node without
    links is theirs to itself, and to us nobody's: it gets no list.
    """
    random.seed(int(given["seed"]))
    start, indices = given["start"], given["node"]
    linked = np.flatnonzero(np.diff(start)).tolist()
    users = {node: indices[start[node] : start[node + 1]].tolist() * 2 for node in linked}
    node, weight, offsets, _ = bipartite_neighbors_with_weights(
        linked,
        users,
        {node: [node] for node in linked},
        num_neighbors=int(given["size"]),
        num_walks=int(given["walks"]),
        walk_length=int(given["length"]),
        termination_prob=float(given["restart"]),
    )
    counts = np.zeros(len(start), dtype=np.int64)
    counts[np.array(linked) + 1] = np.diff([*offsets, len(node)])
    return {"start": np.cumsum(counts), "node": np.array(node), "share": np.array(weight)}


def train(given: Arrays) -> Arrays:
    """Train from our weights on our neighbors and triples, with PyTorch's Adam."""
    model = network(given)
    lists = Lists(given["start"], given["node"], given["share"])
    adam = torch.optim.Adam(model.parameters(), lr=float(given["learning_rate"]))
    ends = np.cumsum(given["sizes"])[:-1]
    for triples in zip(*(np.split(given[name], ends) for name in ("user", "positive", "negative")), strict=True):
        adam.zero_grad()
        loss_of(model, list(triples), lists, kind=str(given["loss"]), margin=float(given["margin"])).backward()
        adam.step()
    with torch.no_grad():
        return {"vectors": represent(model, np.arange(len(lists.start) - 1), lists).numpy()}


def whole(given: Arrays) -> Arrays:
    """Train from our weights on neighbors, an order of pairs and negatives of their own, one for each pair."""
    arrays = visits(given)  # seeds their negatives, too
    order = np.random.default_rng(int(given["seed"]))
    epochs = int(given["epochs"])
    n_pairs, n_users = len(given["pair.user"]), int(given["n_users"])
    rows = np.concatenate([order.permutation(n_pairs) for _ in range(epochs)])
    user, item = given["pair.user"][rows], given["pair.item"][rows]
    has: dict[int, set[int]] = {}
    for who, what in zip(given["pair.user"].tolist(), given["pair.item"].tolist(), strict=True):
        has.setdefault(who, set()).add(what)
    negative = negatives_from_unconsumed(has, user.tolist(), item.tolist(), int(given["n_items"]), num_neg=1)
    sizes = np.diff(np.arange(0, n_pairs, int(given["batch_size"])), append=n_pairs)
    drawn = {"user": user, "positive": n_users + item, "negative": n_users + negative}
    return train(given | arrays | drawn | {"sizes": np.tile(sizes, epochs)})


task, path = sys.argv[1], Path(sys.argv[2])
arrays = {"step": step, "visits": visits, "train": train, "whole": whole}[task](dict(np.load(path)))
np.savez(path, **arrays)
