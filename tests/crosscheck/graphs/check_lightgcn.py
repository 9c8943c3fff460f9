"""LightGCN against PyTorch Geometric's, number by number, and against RecBole's, by whole trainings.

1. **The same vectors.** ``torch_geometric.nn.LightGCN`` has random vectors of ours, and links of its own making: every
   training pair both ways, and with trust every link between users. Compared are the vectors of all nodes, the scores
   of a step's triples, its loss with L2 (per triple, on the free vectors, in both) and the gradient of that loss, of 1
   and of 3 layers, on ml-100k and, with trust, on a planted network of 1,000 users and 4 behaviors. Single precision;
   vectors and scores within 1e-6 of the largest of theirs, loss and gradient within 1e-5: their loss squares a norm of
   400,000 numbers that was rounded in single precision, which is 5e-6 from its value in double precision (ours 8e-8).
   As a control, 2 layers must be told from 3, and 0 from 1.
2. **Whole trainings.** RecBole's on three random 80/20 splits of ml-100k: 64 numbers, 2 layers, 40 epochs of batches
   of 2,048, one uniform negative, Adam at 0.005. Its L2 is squared (``require_pow``) as the authors have it and is
   halved, so a weight of 1e-4 there is 5e-5 here. Ours starts from RecBole's initial distribution, whose vectors are
   three to four times as long as our own initial ones; from those it is still behind then (by 0.003 and 0.008 on one
   split). Held-out Recall@10 and NDCG@10, full ranking: within 0.006. As a control, no layers (matrix factorization by
   our program) must be told apart.

Last result, torch-geometric 2.8.1 and RecBole 1.2.1: vectors and scores 2.0e-7, losses 3.9e-6, gradients 2.6e-7 apart
at most, control 0.0055 or more. Recall@10 ours 0.2204, theirs 0.2200, without layers 0.192; NDCG@10 ours 0.4080,
theirs 0.4075, without layers 0.335. Agreed.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from shared import CPU, Case, Figures, Scores, case, largest_difference, movies, of_recbole, train, within
from torch import Tensor

from mcne.data.synthetic import SyntheticConfig, generate
from mcne.models.contract import TrainingData
from mcne.models.lightgcn import LightGCN, LightGCNConfig, LightGCNTrust
from mcne.models.node_ranking import triple_scores

TOLERANCES = {"vectors": 1e-6, "scores": 1e-6, "loss": 1e-5, "gradient": 1e-5}
SEEDS = (0, 1, 2)
EPOCHS = 40
TOLERANCE = 0.006
OURS = LightGCNConfig(width=64, layers=2, learning_rate=0.005, l2=5e-5)
THEIRS = {
    "model": "LightGCN",
    "embedding_size": 64,
    "n_layers": 2,
    "learning_rate": 0.005,
    "reg_weight": 1e-4,
    "require_pow": True,
    "epochs": EPOCHS,
}


def compare() -> bool:
    print(f"  torch-geometric {version('torch-geometric')}: largest difference, and of the control")
    planted, _ = generate(SyntheticConfig(users=1000))
    agree = same_vectors(LightGCN, case(movies(), 0))
    agree &= same_vectors(LightGCNTrust, case(planted, 0))
    return agree & whole_trainings()


def same_vectors(kind: type[LightGCN], case: Case) -> bool:
    agree = True
    for layers in (1, 3):
        theirs: dict[str, Tensor] = {}
        largest: list[dict[str, float]] = []
        for depth in (layers, layers - 1):
            model = kind(case.data, replace(OURS, layers=depth, l2=0.01), seed=0, device=CPU)
            drawn = torch.randn(model.nodes.shape, generator=torch.Generator().manual_seed(0))
            model.load({"nodes": drawn})
            theirs = theirs or of_torch_geometric(model, links(case.data, trust=kind.trust), drawn)
            mine = of_ours(model)
            largest.append({what: largest_difference(mine[what].numpy(), theirs[what].numpy()) for what in theirs})
        for what, difference in largest[0].items():
            agree &= difference <= TOLERANCES[what] < largest[1][what]
            label = f"{case.name}{', trust' if kind.trust else ''}, layers {layers}, {what}"
            print(f"  {label:40} {difference:.1e}   {largest[1][what]:.1e}, tolerance {TOLERANCES[what]:g}", flush=True)
    return agree


def of_ours(model: LightGCN) -> dict[str, Tensor]:
    """What a step computes, and its gradient."""
    batch = model.prepare(0, 0)
    total = model.loss(batch).total
    (gradient,) = torch.autograd.grad(total, [model.nodes])
    smoothed = model.smoothing.apply(model.nodes.detach())
    scores = [triple_scores(*each.of(smoothed[batch.nodes])) for each in batch.triples]
    return {
        "vectors": smoothed,
        "scores": torch.cat([torch.cat([up, down[:, 0]]) for up, down in scores]),
        "loss": total.detach(),
        "gradient": gradient,
    }


def of_torch_geometric(model: LightGCN, links: Tensor, vectors: Tensor) -> dict[str, Tensor]:
    """The same of the same triples, by their layers, scores and loss."""
    from torch_geometric.nn import LightGCN as Theirs

    other = Theirs(*vectors.shape, model.config.layers)
    with torch.no_grad():
        other.embedding.weight.copy_(vectors)
    batch = model.prepare(0, 0)
    losses, scores = [], []
    for each in batch.triples:
        user, positive, negative = (batch.nodes[at] for at in (each.user, each.positive, each.negative[:, 0]))
        up, down = (other(links, torch.stack([user, item])) for item in (positive, negative))
        nodes = torch.cat([user, positive, negative])
        losses.append(other.recommendation_loss(up, down, nodes, lambda_reg=model.config.l2))
        scores.append(torch.cat([up, down]).detach())
    loss = torch.stack(losses).mean()
    (gradient,) = torch.autograd.grad(loss, [other.embedding.weight])
    with torch.no_grad():
        smoothed = other.get_embedding(links)
    return {"vectors": smoothed, "scores": torch.cat(scores), "loss": loss.detach(), "gradient": gradient}


def links(data: TrainingData, *, trust: bool) -> Tensor:
    """Both ends of every link in both directions, [2, links]; the items of a behavior after those before it."""
    ends = []
    first = data.n_users
    for (user, item), size in zip(data.pairs, data.n_items, strict=True):
        ends += [(user, first + item), (first + item, user)]
        first += size
    if trust:
        ends.append((data.graph.sources(), data.graph.indices))  # has both directions
    return torch.from_numpy(np.concatenate([np.stack(each) for each in ends], axis=1).astype(np.int64))


def whole_trainings() -> bool:
    dataset = movies()
    ours: list[Figures] = []
    theirs: list[Figures] = []
    flat: list[Figures] = []
    for seed in SEEDS:
        each = case(dataset, seed)
        settings: dict[str, Any] = THEIRS | {"seed": seed}
        theirs.append(each.figures(Scores(of_recbole(each, settings)[0])))
        for config, figures in ((OURS, ours), (replace(OURS, layers=0), flat)):
            model = LightGCN(each.data, config, seed=seed, device=CPU)
            model.load({"nodes": as_in_recbole(each.data, config.width, seed)})
            figures.append(each.figures(train(model, EPOCHS)))
    agree = within("ml-100k, RecBole", ours, theirs, TOLERANCE)
    print("  as a control, without layers:")
    return agree and not within("ml-100k, RecBole", flat, theirs, TOLERANCE)


def as_in_recbole(data: TrainingData, width: int, seed: int) -> Tensor:
    """Initial vectors as RecBole draws them, users and items apart."""
    random = torch.Generator().manual_seed(seed)
    tables = (torch.empty(size, width) for size in (data.n_users, *data.n_items))
    return torch.cat([torch.nn.init.xavier_uniform_(table, generator=random) for table in tables])
