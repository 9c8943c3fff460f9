"""PinSage against LibRecommender's: its network, losses, walks and negatives, put to work on our graph.

As a whole LibRecommender's PinSage is another model: its nodes are items alone, walks go from item to item, and users
are means of items or have vectors that nothing is heard from. What it is made of knows nothing of that, so here our
nodes, users and items, are all items to it. Its first dense layer, which mixes features, passes our vectors on. All on
a planted network of 1,000 users with trust between them and one behavior with 500 items, of which 20 % are held out.

1. **One step.** Our triples, neighbors, shares and random weights, two layers of width 32, 10 neighbors: the loss
   (margin, and BPR), its gradient by all that learns, and what all nodes are given. Single precision; within 1e-5 of
   the largest of theirs. As a control, the same neighbors with equal shares must be told apart.
2. **Walks.** 50,000 walks from each of 60 nodes of a random graph, at most 4 steps, given up with a chance of 0.5: by
   how much the shares of visits are apart, half their absolute differences, mean over nodes: within 0.015. With the 5
   most visited alone these are compared by place, since which of two equals is taken is chance: within 0.007. As a
   control, ours with a chance of 0.4, and ours with at most 3 steps, must be told apart.
3. **An epoch.** Both from our initial weights, on the 5 neighbors and the triples that ours draws, 24 steps with one
   negative, margin loss, PyTorch's Adam at 0.003 for both: the scores of all pairs, on three splits, within 1e-4. As a
   control, ours with its own optimizer, which moves the nodes of a step alone, must be told apart.
4. **Whole trainings.** Both from our initial weights, 20 epochs of the same settings, on 12 splits: theirs with walks,
   an order of pairs, negatives (``unconsumed``: uniform among what the user has not, as ours) and PyTorch's Adam, ours
   as it is used. These trainings are chaotic: vectors that start 1e-6 longer end elsewhere after five epochs (by 0.4 of
   the largest), and after 20 epochs Recall@10 of three trainings on one split that differ in no more than that, or in
   the optimizer of 3., is 0.165, 0.171 and 0.178. So means are compared, by the differences on each split: their 95 %
   interval, by Student's t, must contain 0 for held-out Recall@10 and NDCG@10 (full ranking), and reach no further
   than 0.015 to either side of its middle. As a control, where every node of ours hears the neighbors of another one,
   the interval must not contain 0.

Some differences of definition do not show here. To a node without links theirs sends the node itself, and ours
nothing. A node with one link has none to theirs (it gets each link twice here, which changes no chance). Theirs walks
anew for every step, ours once before training, as both do here. And left to itself theirs starts from other weights
(Glorot's, uniform, larger before a ReLU) and takes any item but the positive for a negative.

Last result, LibRecommender 1.5.2: one step 3.2e-6 apart at most, control 2.0e-4 or more; walks 0.010 and, by place,
0.0038, controls 0.041 and 0.0091 or more; an epoch 2.0e-6, control 0.13 or more. Recall@10 ours 0.180 ± 0.019, theirs
0.179 ± 0.013, difference 0.0002 ± 0.0133, control −0.026 ± 0.008; NDCG@10 ours 0.188 ± 0.018, theirs 0.189 ± 0.014,
difference −0.0004 ± 0.0130, control −0.027 ± 0.008. Agreed (± standard deviation; of differences, 95 % interval).
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from scipy.stats import t as student
from shared import CPU, METRICS, Case, Figures, Scores, case, largest_difference, train
from torch import Tensor, nn

from mcne.data.graph import Graph, undirected
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.models.node_ranking import joint_graph
from mcne.models.pinsage import PinSage, PinSageConfig
from mcne.sampling.walks import most_visited

SCRIPT = Path(__file__).resolve().with_name("in_librecommender.py")
ONE_STEP = 1e-5
SHARES, PLACES = 0.015, 0.007
SEEDS = (0, 1, 2)
AN_EPOCH = 1e-4
STEP = PinSageConfig(widths=(32, 32, 32), neighbors=10, negatives=5, batch_size=256, l2=0.0)
WALKS: dict[str, Any] = {"walks": 50_000, "length": 4, "restart": 0.5}
TRAINED = replace(STEP, neighbors=5, negatives=1, batch_size=1024)
WHOLE_SEEDS = range(12)
EPOCHS = 20
HALF_WIDTH = 0.015

Arrays = dict[str, np.ndarray]


def compare() -> bool:
    dataset = generate(SyntheticConfig(users=1000, records_per_user=100))[0].only(0)
    agree = one_step(case(dataset, 0), "margin") & one_step(case(dataset, 0), "bpr")
    agree &= same_walks()
    agree &= an_epoch([case(dataset, seed) for seed in SEEDS])
    return agree & whole_trainings([case(dataset, seed) for seed in WHOLE_SEEDS])


def of_librecommender(task: str, given: Mapping[str, Any]) -> Arrays:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "arrays.npz"
        np.savez(path, **given)
        command: list[str | Path] = [os.environ["CROSSCHECK_LIBRECOMMENDER"], "-W", "ignore", SCRIPT, task, path]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=directory)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return dict(np.load(path))


def one_step(case: Case, loss: Literal["margin", "bpr"]) -> bool:
    model = PinSage(case.data, replace(STEP, loss=loss), seed=0, device=CPU)
    randomize(model)
    nodes, (triples,) = model.draw(0, 0)
    given: dict[str, Any] = {at: nodes[getattr(triples, at).numpy()] for at in ("user", "positive", "negative")}
    given |= arrays(renamed(model.learned())) | {"loss": loss, "margin": model.config.margin}
    theirs, control = (of_librecommender("step", given | heard(model, equally)) for equally in (False, True))
    print(f"  one step, {loss}: largest difference, tolerance {ONE_STEP:g}, and of the control")
    agree = True
    for name, value in of_ours(model).items():
        difference, wrong = (largest_difference(value, each[name]) for each in (theirs, control))
        agree &= difference <= ONE_STEP < wrong
        print(f"  {name:20} {difference:.1e}   {wrong:.1e}", flush=True)
    return agree


def randomize(model: PinSage) -> None:
    """Weights and biases of ordinary size; the neighbors stay."""
    random = torch.Generator().manual_seed(0)
    drawn = {
        name: torch.randn(value.shape, generator=random) * value.shape[-1] ** -0.5
        for name, value in model.learned().items()
        if not name.startswith("visited.")
    }
    model.load(model.learned() | drawn)


def of_ours(model: PinSage) -> Arrays:
    """The loss of a step, its gradients, and what all nodes are given."""
    batch = model.prepare(0, 0)
    loss = model.loss(batch).total
    (rows,) = model.tables.touched()
    parameters = dict(model.network.named_parameters())
    by_rows, *others = torch.autograd.grad(loss, [rows, *parameters.values()])
    by_nodes = torch.zeros_like(model.tables.tables["nodes"]).index_copy_(0, batch.nodes, by_rows)
    gradients = {"nodes": by_nodes} | {f"network.{name}": by for name, by in zip(parameters, others, strict=True)}
    return arrays({"loss": loss.detach(), "vectors": model.vectors()} | renamed(gradients))


def renamed(learned: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our weights, or their gradients, by LibRecommender's names."""
    names = {"near": "q_linears", "combine": "w_linears", "hidden": "G1", "output": "G2"}
    tensors = {}
    for name, value in learned.items():
        match name.split("."):
            case ["nodes"]:
                tensors["item_embeds.weight"] = value
            case ["network", "layers", k, part, kind]:
                tensors[f"{names[part]}.{k}.{kind}"] = value
            case ["network", part, kind]:
                tensors[f"{names[part]}.{kind}"] = value
    return tensors


def arrays(tensors: Mapping[str, Tensor]) -> Arrays:
    return {name: value.detach().numpy().copy() for name, value in tensors.items()}


def heard(model: PinSage, equally: bool) -> Arrays:
    """Whom each node hears, without what only fills up a row, and by which shares."""
    node, share = (model.learned()[f"visited.{name}"].numpy() for name in ("node", "share"))
    real = share > 0
    counts = real.sum(axis=1)
    share = np.repeat(1 / counts[counts > 0], counts[counts > 0]) if equally else share[real]
    return {"start": np.concatenate([[0], np.cumsum(counts)]), "node": node[real], "share": share}


def same_walks() -> bool:
    random = np.random.default_rng(0)
    some, other = random.integers(0, 60, 150), (random.random(150) ** 2 * 60).astype(np.int64)
    graph, _ = undirected(60, some[some != other], other[some != other])
    agree = True
    for size, tolerance in ((59, SHARES), (5, PLACES)):
        given = {"start": graph.indptr, "node": graph.indices, "size": size, "seed": 0}
        visited = of_librecommender("visits", given | WALKS)
        expected = np.zeros((60, 60))
        expected[np.repeat(np.arange(60), np.diff(visited["start"])), visited["node"]] = visited["share"]
        for change in ({}, {"restart": 0.4}, {"length": 3}):
            difference = apart(expected, shares(graph, size, WALKS | change), by_place=size == 5)
            agree &= (difference <= tolerance) == (not change)
            label = ", ".join(f"{name} {value}" for name, value in change.items()) or "the same settings"
            print(f"  walks, {size} neighbors, {label:18} {difference:.4f}, tolerance {tolerance:g}", flush=True)
    return agree


def shares(graph: Graph, size: int, settings: Mapping[str, Any]) -> np.ndarray:
    """The shares that our walks give to everyone, [nodes, nodes]."""
    visited = most_visited(graph, size=size, seed=0, **settings)
    table = np.zeros((graph.n_users, graph.n_users))
    np.add.at(table, (np.arange(graph.n_users)[:, None], visited.node), visited.share)
    return table


def apart(some: np.ndarray, others: np.ndarray, *, by_place: bool) -> float:
    """Half the absolute differences of two nodes' shares, mean over nodes."""
    if by_place:
        some, others = np.sort(some, axis=1), np.sort(others, axis=1)
    return float(np.abs(some - others).sum(axis=1).mean() / 2)


class Adam:
    """PyTorch's behind the face of ``RowAdam``: every row moves in every step."""

    def __init__(self, tables: Mapping[str, Tensor], learning_rate: float) -> None:
        self.tables = {name: nn.Parameter(table) for name, table in tables.items()}
        self._adam = torch.optim.Adam(self.tables.values(), lr=learning_rate)

    def rows(self, table: str, rows: Tensor) -> Tensor:
        return self.tables[table].index_select(0, rows)

    def forget(self) -> None:
        self._adam.zero_grad()

    def step(self) -> None:
        self._adam.step()


def an_epoch(cases: list[Case]) -> bool:
    print(f"  an epoch: largest difference of scores, tolerance {AN_EPOCH:g}, and of the control")
    agree = True
    for seed, each in zip(SEEDS, cases, strict=True):
        same, control = (PinSage(each.data, TRAINED, seed=seed, device=CPU) for _ in range(2))
        theirs = their_scores(same)
        same.tables = Adam(same.tables.tables, TRAINED.learning_rate)
        everyone = np.arange(each.data.n_users)
        mine, other = (train(model, 1).scores(0, everyone) for model in (same, control))
        difference, wrong = (largest_difference(scores, theirs) for scores in (mine, other))
        agree &= difference <= AN_EPOCH < wrong
        print(f"  split {seed}, {same.n_steps} steps {difference:.1e}   {wrong:.1e}", flush=True)
    return agree


def their_scores(model: PinSage) -> np.ndarray:
    """All users and items after an epoch of LibRecommender's parts on what ``model`` starts from and draws."""
    steps = [model.draw(0, step) for step in range(model.n_steps)]
    given: dict[str, Any] = {
        at: np.concatenate([nodes[getattr(triples, at).numpy()].ravel() for nodes, (triples,) in steps])
        for at in ("user", "positive", "negative")
    }
    given |= {"sizes": np.array([len(triples.user) for _, (triples,) in steps])}
    return trained_there("train", model, given | heard(model, equally=False))


def trained_there(task: str, model: PinSage, given: Mapping[str, Any]) -> np.ndarray:
    """The scores of all users and items after a training of LibRecommender's parts from what ``model`` starts from."""
    settings = {name: getattr(model.config, name) for name in ("loss", "margin", "learning_rate")}
    vectors = of_librecommender(task, {**given, **settings, **arrays(renamed(model.learned()))})["vectors"]
    users, items = np.split(vectors, [model.data.n_users])
    return users @ items.T


def whole_trainings(cases: list[Case]) -> bool:
    with ThreadPoolExecutor(1) as beside:  # another process, on the other core
        started = beside.map(their_figures, cases, WHOLE_SEEDS)
        ours = [our_figures(each, seed) for each, seed in zip(cases, WHOLE_SEEDS, strict=True)]
        control = [our_figures(each, seed, shuffled=True) for each, seed in zip(cases, WHOLE_SEEDS, strict=True)]
        theirs = list(started)
    print(f"  {EPOCHS} epochs, {len(cases)} splits: mean ± deviation, and difference with 95 % interval")
    agree = True
    for metric in METRICS:
        gap, half = interval("ours", metric, ours, theirs)
        wrong, wide = interval("neighbors shuffled", metric, control, theirs)
        agree &= abs(gap) <= half <= HALF_WIDTH and abs(wrong) > wide
    return agree


def their_figures(case: Case, seed: int) -> Figures:
    model = PinSage(case.data, TRAINED, seed=seed, device=CPU)
    data, graph = model.data, joint_graph(model.data, trust=True)
    ((user, item),), (n_items,) = data.pairs, data.n_items
    given: dict[str, Any] = {"pair.user": user.astype(np.int64), "pair.item": item.astype(np.int64)}
    given |= {"n_users": data.n_users, "n_items": n_items, "batch_size": TRAINED.batch_size, "epochs": EPOCHS}
    given |= {"start": graph.indptr, "node": graph.indices, "size": TRAINED.neighbors, "seed": seed}
    given |= {"walks": TRAINED.walks, "length": TRAINED.walk_length, "restart": TRAINED.restart}
    return case.figures(Scores(trained_there("whole", model, given)))


def our_figures(case: Case, seed: int, *, shuffled: bool = False) -> Figures:
    model = PinSage(case.data, TRAINED, seed=seed, device=CPU)
    if shuffled:
        learned, order = model.learned(), np.random.default_rng(seed).permutation(model.n_nodes)
        model.load(learned | {name: learned[name][order] for name in ("visited.node", "visited.share")})
    return case.figures(train(model, EPOCHS))


def interval(label: str, metric: str, ours: list[Figures], theirs: list[Figures]) -> tuple[float, float]:
    """Print both sides and their difference on the same splits; its mean, and how far its interval reaches."""
    mine, other = (np.array([figures[metric] for figures in each]) for each in (ours, theirs))
    gap, error = (mine - other).mean(), (mine - other).std(ddof=1) / len(mine) ** 0.5
    half = student.ppf(0.975, len(mine) - 1) * error
    print(
        f"  {label:18} {metric:9} {mine.mean():.4f} ± {mine.std(ddof=1):.4f}, theirs {other.mean():.4f} ± "
        f"{other.std(ddof=1):.4f}, difference {gap:+.4f} ± {half:.4f}",
        flush=True,
    )
    return float(gap), float(half)
