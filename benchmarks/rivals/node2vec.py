"""Skip-gram pairs per second, walks included, against pecanpy's walks with gensim's word2vec, on as many cores.

Both draw biased walks of the second order from every user and learn all pairs of users in a window, once, with the
paper's length, window, width and negatives. Ours is measured from the making of the method on, as the training loop
runs it: one thread prepares steps ahead while PyTorch computes on the other. gensim's word2vec is compiled (Cython),
and pecanpy's walks too (Numba, not counting the compilation).
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.rivals.process import Rival
from mcne.data.graph import Graph
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.models.contract import TrainingData
from mcne.models.node2vec import Node2vec, Node2vecConfig
from mcne.models.skip_gram import NetworkBatch
from mcne_bench.figures import Contender, Taken, medians

CORES = 2
ROUNDS = 5
OURS = Node2vecConfig(walks_per_node=2, p=0.5, q=2.0)
NETWORK = SyntheticConfig(users=5000, links_per_user=10.0)


def against_pecanpy() -> Taken:
    graph = generate(NETWORK)[0].graph
    names = ("p", "q", "walks_per_node", "walk_length", "window", "width")
    asked = {name: getattr(OURS, name) for name in names} | {"negatives": OURS.network_negatives, "threads": CORES}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "network.npz"
        arrays: dict[str, Any] = {name: getattr(graph, name).astype(np.uint32) for name in ("indptr", "indices")}
        np.savez(path, data=np.ones(graph.n_directions, dtype=np.float32), **arrays)
        with Rival("node2vec", path, json.dumps(asked), threads=CORES) as rival:
            ours, theirs = _seconds(rival, graph)
    walks = OURS.walks_per_node * int((graph.degrees > 0).sum())
    pairs = walks * _pairs_of_a_walk()
    shape = f"{graph.n_users:,} users, {graph.n_links:,} links, {walks:,} walks of {OURS.walk_length}, " + (
        f"window {OURS.window}, width {OURS.width}: {pairs / 1e6:.1f} M pairs"
    )
    each = f"ours {pairs / ours / 1e6:.2f} M/s, theirs {pairs / theirs / 1e6:.2f} M/s"
    return Taken(ours / theirs, f"{shape}; {each}")


def _pairs_of_a_walk() -> int:
    places = np.arange(OURS.walk_length)
    apart = np.abs(places[:, None] - places)
    return int(((apart > 0) & (apart <= OURS.window)).sum())


def _seconds(rival: Rival, graph: Graph) -> tuple[float, float]:
    """Of a job of each, medians over rounds in which both take turns; what is made once is made before."""
    contenders = {
        "ours": Contender(lambda seed: _our_seconds(graph, seed=seed), has_clock=True),
        "theirs": Contender(lambda seed: sum(rival.ask(seed)), has_clock=True),
    }
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # the other core prepares
    try:
        taken = medians(contenders, rounds=ROUNDS)
    finally:
        torch.set_num_threads(before)
    return taken["ours"], taken["theirs"]


def _our_seconds(graph: Graph, *, seed: int) -> float:
    """Of every walk learned once, steps prepared ahead as in ``training/loop.py``; a single record is ranked."""
    start = time.perf_counter()
    record = (np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int32))
    data = TrainingData(graph, ("nothing",), (2,), (record,))
    model = Node2vec(data, OURS, seed=seed, device=torch.device("cpu"))
    steps = -(-OURS.walks_per_node * int((graph.degrees > 0).sum()) // OURS.walk_batch)
    with ThreadPoolExecutor(CORES - 1) as pool:
        waiting: deque[Future[NetworkBatch]] = deque(pool.submit(model.prepare, step, 0) for step in range(2))
        for step in range(2, steps + 2):
            if step < steps:
                waiting.append(pool.submit(model.prepare, step, 0))  # an epoch has one step
            model.update(model.loss(waiting.popleft().result()))
    return time.perf_counter() - start
