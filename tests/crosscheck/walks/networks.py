"""What the checks of network embeddings share: networks with links held out, both sides' vectors, and link AUC."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1]))

from shared import CPU, beauty  # noqa: E402

from mcne.data.graph import Graph, undirected  # noqa: E402
from mcne.models.contract import TrainingData  # noqa: E402
from mcne.models.registry import entry  # noqa: E402

SEEDS = (0, 1, 2)
HELD_OUT = 0.1
NEGATIVES = 5
LOSS, AUC = "loss", "AUC"
COSINE = "AUC of cosines"
Vectors = tuple[np.ndarray, np.ndarray]  # of users and of contexts, [users, d] each
Pairs = tuple[np.ndarray, np.ndarray]  # centers and contexts, [n] each
Figures = dict[str, float]


@dataclass(frozen=True)
class Network:
    """A network without some of its links, those links, and as many pairs of users that are not linked."""

    name: str
    graph: Graph
    links: np.ndarray  # [n, 2]
    others: np.ndarray  # [n, 2]

    def auc(self, left: np.ndarray, right: np.ndarray) -> float:
        """How often ⟨left, right⟩ of a link held out is above that of a pair not linked, halves for ties."""
        scores = [(left[pairs[:, 0]] * right[pairs[:, 1]]).sum(1) for pairs in (self.links, self.others)]
        n = len(self.links)
        above = rankdata(np.concatenate(scores))[:n].sum() - n * (n + 1) / 2
        return float(above / n / len(self.others))

    def rewired(self, seed: int) -> Graph:
        """As many friends for everyone as before (repeated links are merged), but of no meaning."""
        source, target = once(self.graph)
        return undirected(self.graph.n_users, source, np.random.default_rng(seed).permutation(target))[0]


def networks(seed: int) -> list[Network]:
    """Communities, and Ciao's trust network."""
    whole = {"communities": communities(), "ciao": beauty().graph}
    return [hold_out(name, graph, seed) for name, graph in whole.items()]


def communities() -> Graph:
    """1,000 users in communities of 50, each with about 10 friends inside and 2 outside."""
    random = np.random.default_rng(0)
    n, size = 1000, 50
    source, target = np.triu_indices(n, 1)
    chance = np.where(source // size == target // size, 10 / (size - 1), 2 / (n - size))
    linked = random.random(len(source)) < chance
    return undirected(n, source[linked], target[linked])[0]


def once(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Both ends of all links, each in one direction."""
    source, target = graph.sources(), graph.indices
    return source[source < target], target[source < target]


def hold_out(name: str, graph: Graph, seed: int) -> Network:
    """Links held out at random. All pairs are among users who have a link left: of others no method knows anything."""
    random = np.random.default_rng(seed)
    source, target = once(graph)
    held = random.random(len(source)) < HELD_OUT
    left = undirected(graph.n_users, source[~held], target[~held])[0]
    links = np.stack([source[held], target[held]], axis=1)
    links = links[(left.degrees[links] > 0).all(1)]
    taken = set(zip(graph.sources().tolist(), graph.indices.tolist(), strict=True))
    known = np.flatnonzero(left.degrees)
    pairs = random.choice(known, (2 * len(links), 2)).tolist()
    others = [pair for pair in pairs if pair[0] != pair[1] and tuple(pair) not in taken][: len(links)]
    return Network(name, left, links, np.array(others))


def of_ours(method: str, graph: Graph, settings: dict[str, Any], *, steps: int, seed: int) -> Vectors:
    """The vectors of one of our methods, of which a single record of a single user teaches the items in passing.

    The learning rate falls to nothing in a straight line, as gensim's does.
    """
    record = (np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int32))
    data = TrainingData(graph, ("nothing",), (2,), (record,))
    made = entry(method)
    model = made.make(data, made.config(**settings, network_negatives=NEGATIVES), seed=seed, device=CPU)
    rate = model.tables.learning_rate
    for step in range(steps):
        model.tables.learning_rate = rate * (1 - step / steps)
        model.update(model.loss(model.prepare(step, 0)))  # an epoch has one step
    learned = model.learned()
    users = learned["users"]
    return users.numpy(), learned.get("contexts", users).numpy()  # of the first order of LINE users are contexts


def figures(network: Network, vectors: Vectors, pairs: Pairs) -> Figures:
    """What vectors are worth: their loss on pairs, and the AUC of ⟨user, context⟩ and of the users' cosines."""
    users, contexts = vectors
    same = users / np.maximum(np.linalg.norm(users, axis=1, keepdims=True), 1e-12)
    return {
        LOSS: loss(network.graph, vectors, pairs),
        AUC: network.auc(users, contexts),
        COSINE: network.auc(same, same),
    }


def loss(graph: Graph, vectors: Vectors, pairs: Pairs) -> float:
    """The mean over pairs of ``softplus(−⟨u, c⟩) + Σ_n softplus(⟨u, c_n⟩)``, negatives by degree^0.75."""
    users, contexts = vectors
    center, context = pairs
    random = np.random.default_rng(0)
    weight = graph.degrees**0.75
    total = np.logaddexp(0, -(users[center] * contexts[context]).sum(1)).sum()
    for _ in range(NEGATIVES):
        noise = random.choice(graph.n_users, len(center), p=weight / weight.sum())
        total += np.logaddexp(0, (users[center] * contexts[noise]).sum(1)).sum()
    return float(total / len(center))


def over_seeds(
    ours: Callable[[Graph, int], Vectors],
    theirs: Callable[[Graph, int], tuple[Vectors, Pairs]],
    tolerances: Figures,
    made: Callable[[int], list[Network]] = networks,
) -> bool:
    """Whether both sides agree on all networks. The control is ours, taught by links that mean nothing."""
    measured: dict[str, dict[str, list[Figures]]] = {}
    for seed in SEEDS:
        for network in made(seed):
            vectors, pairs = theirs(network.graph, seed)
            sides = {"ours": ours(network.graph, seed), "theirs": vectors}
            if seed == SEEDS[0]:
                sides["control"] = ours(network.rewired(seed), seed)
            for side, each in sides.items():
                value = figures(network, each, pairs)
                measured.setdefault(network.name, {}).setdefault(side, []).append(value)
    agreed = [agree(name, by_side, tolerances) for name, by_side in measured.items()]
    return all(agreed)


def agree(name: str, measured: dict[str, list[Figures]], tolerances: Figures) -> bool:
    """Print the means over seeds, whether ours are as near to theirs as asked, and whether the control is not."""
    right = True
    for metric, tolerance in tolerances.items():
        ours, theirs, control = (
            np.array([each[metric] for each in measured[side]]) for side in ("ours", "theirs", "control")
        )
        gap, off = float((ours - theirs).mean()), float(control[0] - theirs[0])
        right &= (near := abs(gap) <= tolerance < abs(off))
        print(
            f"  {name:12} {metric:14} ours {ours.mean():.4f} ± {ours.std():.4f}, theirs {theirs.mean():.4f} ± "
            f"{theirs.std():.4f}, difference {gap:+.4f} (sd {(ours - theirs).std(ddof=1):.4f}), tolerance "
            f"{tolerance:g}, control {off:+.4f}: {'agree' if near else 'DIFFER'}",
            flush=True,
        )
    return right


def of_pecanpy(graph: Graph, what: str, **settings: Any) -> dict[str, np.ndarray]:
    """The arrays that ``in_pecanpy.py`` answers with."""
    with tempfile.TemporaryDirectory() as directory:
        data = np.ones(graph.n_directions, dtype=np.float32) if graph.weights is None else graph.weights
        indptr, indices = graph.indptr.astype(np.uint32), graph.indices.astype(np.uint32)
        np.savez(Path(directory) / "network.npz", indptr=indptr, indices=indices, data=data)
        script = HERE.with_name("in_pecanpy.py")
        command = [os.environ["CROSSCHECK_PECANPY"], "-W", "ignore", str(script), directory, what, json.dumps(settings)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return {path.stem: np.load(path) for path in Path(directory).glob("*.npy")}
