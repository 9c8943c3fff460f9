"""GraphSage's layers against PyTorch Geometric's ``SAGEConv`` with the mean aggregator: values and gradients.

Ours multiplies ``W [mean of neighbors, own]``, theirs adds ``W_l · mean of neighbors`` and ``W_r · own``: ``W_l`` and
``W_r`` are the halves of our ``W``. Neither has a bias here. A random network of 2,000 users, of whom 200 have no
links, the widths (256, 128, 100) and samples (20, 20) of the method, random vectors and weights.

1. **Sampled.** The neighborhoods of a step as our method draws them (with replacement, so that a neighbor may count
   twice). Each layer alone, and both, rectified between them and divided by the norm at the end: what comes out, and
   the gradients of a random combination of it by vectors and weights.
2. **All neighbors.** What our method gives to all users, against ``torch_geometric.nn.GraphSAGE`` and the norm.

Single precision; within 1e-5 of the largest of theirs. As a control ``W_l`` and ``W_r`` change places: everything must
be told apart.

Last result, torch-geometric 2.8.1: largest difference 5.5e-7, control 0.79 or more. Agreed.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from shared import CPU, largest_difference
from torch import Tensor
from torch.nn import functional

from mcne.data.graph import undirected
from mcne.kernels.edges import TensorHop
from mcne.models.contract import TrainingData
from mcne.models.graphsage import GraphSage, GraphSageConfig

TOLERANCE = 1e-5
LINKED, ALONE, LINKS = 1800, 200, 10_000


def compare() -> bool:
    print(f"  torch-geometric {version('torch-geometric')}: largest difference, and of the control")
    model = randomized()
    hops = model.prepare(0, 0).hops
    heard = [(int(hop.has_neighbors.sum()), len(hop.has_neighbors)) for hop in hops]
    print("  with neighbors in the first and the second layer: " + ", ".join(f"{n} of {m} users" for n, m in heard))
    same, control = (sampled(model, exchanged) | everyone(model, exchanged) for exchanged in (False, True))
    for what, difference in same.items():
        print(f"  {what:40} {difference:.1e}   {control[what]:.1e}")
    worst, least = max(same.values()), min(control.values())
    print(f"  largest {worst:.1e}, tolerance {TOLERANCE:g}, control {least:.1e} or more")
    return worst <= TOLERANCE < least and all(0 < n < m for n, m in heard)


def randomized() -> GraphSage:
    """Our method over a random network, its vectors and weights of ordinary size: the initial ones are tiny."""
    random = np.random.default_rng(0)
    users = LINKED + ALONE
    popular = (random.random(LINKS) ** 3 * LINKED).astype(np.int64)  # degrees from 1 or so to hundreds
    graph, _ = undirected(users, random.integers(0, LINKED, LINKS), popular)
    pairs = np.arange(users, dtype=np.int32), random.integers(0, 50, users, dtype=np.int32)
    model = GraphSage(TrainingData(graph, ("only",), (50,), (pairs,)), GraphSageConfig(), seed=0, device=CPU)
    drawn = {
        name: torch.from_numpy(random.normal(0, value.shape[-1] ** -0.5, value.shape)).to(value.dtype)
        for name, value in model.learned().items()
    }
    model.load(drawn)
    return model


def sampled(model: GraphSage, exchanged: bool) -> dict[str, float]:
    """The largest differences over a step's neighborhoods."""
    batch = model.prepare(0, 0)
    layers = model.network.message_layers()
    initial = model.tables.tables["users"][batch.users]
    largest: dict[str, float] = {}
    level = initial
    for k, (layer, hop) in enumerate(zip(layers, batch.hops, strict=True)):
        vectors = level.clone().requires_grad_()
        masks = torch.ones(1, level.shape[1])
        out = layer(vectors, masks, hop)
        theirs = in_torch_geometric(level, [hop], [layer.combine], exchanged, normalize=False)
        largest |= differences(f"layer {k + 1}", results(out, vectors, [layer.combine]), theirs)
        level = torch.relu(out).detach()
    vectors = initial.clone().requires_grad_()
    weights = [layer.combine for layer in layers]
    out = functional.normalize(model.network(vectors, batch.hops))
    theirs = in_torch_geometric(initial, batch.hops, weights, exchanged, normalize=True)
    return largest | differences("both layers", results(out, vectors, weights), theirs)


def in_torch_geometric(
    level: Tensor, hops: Sequence[TensorHop], weights: Sequence[Tensor], exchanged: bool, *, normalize: bool
) -> list[Tensor]:
    """What ``SAGEConv`` after ``SAGEConv`` gives over the same hops, and its gradients."""
    from torch_geometric.nn import SAGEConv

    vectors = x = level.clone().requires_grad_()
    halves = []
    for k, (hop, weight) in enumerate(zip(hops, weights, strict=True)):
        last = k == len(hops) - 1
        layer = SAGEConv(weight.shape[1] // 2, len(weight), bias=False, normalize=normalize and last)
        halves.append(take_over(layer, weight, exchanged))
        row, column = torch.nonzero(hop.has_neighbors[:, None].expand_as(hop.sender), as_tuple=True)
        x = layer((x, x[hop.receiver]), torch.stack([hop.sender[row, column], row]))
        x = x if last else torch.relu(x)
    out, by_vectors, *by_halves = results(x, vectors, [half for pair in halves for half in pair])
    pairs = zip(by_halves[::2], by_halves[1::2], strict=True)
    return [out, by_vectors, *(torch.cat(pair, dim=1) for pair in pairs)]


def take_over(layer: Any, weight: Tensor, exchanged: bool) -> tuple[Tensor, Tensor]:
    """Put our weight into a ``SAGEConv``; the parameters that our halves became, in our order."""
    near, own = weight.detach().chunk(2, dim=1)
    with torch.no_grad():
        layer.lin_l.weight.copy_(own if exchanged else near)
        layer.lin_r.weight.copy_(near if exchanged else own)
    pair = layer.lin_l.weight, layer.lin_r.weight
    return pair[::-1] if exchanged else pair


def results(out: Tensor, vectors: Tensor, weights: Sequence[Tensor]) -> list[Tensor]:
    """The output, and the gradients of a random combination of it."""
    probe = torch.randn(out.shape, generator=torch.Generator().manual_seed(0))
    return [out.detach(), *torch.autograd.grad((out * probe).sum(), [vectors, *weights])]


def differences(label: str, ours: list[Tensor], theirs: list[Tensor]) -> dict[str, float]:
    names = ("output", "gradient by vectors", *(f"gradient by weights {k + 1}" for k in range(len(ours) - 2)))
    return {
        f"{label}, {name}": largest_difference(a.numpy(), b.numpy())
        for name, a, b in zip(names, ours, theirs, strict=True)
    }


@torch.no_grad()
def everyone(model: GraphSage, exchanged: bool) -> dict[str, float]:
    """The largest difference over all users and all their neighbors."""
    from torch_geometric.nn import GraphSAGE

    width, hidden, out = model.config.widths
    theirs = GraphSAGE(width, hidden, num_layers=2, out_channels=out, bias=False)
    for convolution, layer in zip(theirs.convs, model.network.message_layers(), strict=True):
        take_over(convolution, layer.combine, exchanged)
    graph = model.data.graph
    links = torch.from_numpy(np.stack([graph.indices, graph.sources()]).astype(np.int64))
    given = functional.normalize(theirs(model.tables.tables["users"], links))
    return {"all users, all neighbors": largest_difference(model.vectors().numpy(), given.numpy())}
