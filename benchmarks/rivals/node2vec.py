"""Skip-gram pairs per second, walks included, against pecanpy's walks with gensim's word2vec, on as many cores.

Both draw biased walks of the second order from every user and learn all pairs of users in a window, once, with the
paper's length, window, width and negatives. Ours is measured from the making of the method on, as the training loop
runs it: one thread prepares steps ahead while PyTorch computes on the other. gensim's word2vec is compiled (Cython),
and pecanpy's walks too (Numba, not counting the compilation).
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.figure import Figure
from benchmarks.rivals.environment import python_with
from mcne.data.graph import Graph
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.methods.node2vec import Batch, Node2vec, Node2vecConfig
from mcne.training.contract import TrainingData

NAME = "Node2vec pairs of pecanpy + gensim / ours per second"
HERE = Path(__file__).resolve().parent
CORES = 2
ROUNDS = 5
OURS = Node2vecConfig(walks_per_node=2, p=0.5, q=2.0)
NETWORK = SyntheticConfig(users=5000, links_per_user=10.0)


def measure_node2vec() -> list[Figure]:
    try:
        python = python_with(HERE / "requirements-node2vec.txt", "node2vec")
    except (OSError, subprocess.CalledProcessError) as error:
        return [Figure(NAME, None, "×", 1, f"pecanpy could not be installed: {error}")]
    graph = generate(NETWORK)[0].graph
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "network.npz"
        arrays: dict[str, Any] = {name: getattr(graph, name).astype(np.uint32) for name in ("indptr", "indices")}
        np.savez(path, data=np.ones(graph.n_links, dtype=np.float32), **arrays)
        seconds = _seconds(python, path, graph)
    theirs = seconds["pecanpy"] + seconds["gensim"]
    walks = OURS.walks_per_node * int((graph.degrees > 0).sum())
    pairs = walks * _pairs_of_a_walk()
    shape = f"{graph.n_users:,} users, {graph.n_links // 2:,} links, {walks:,} walks of {OURS.walk_length}, " + (
        f"window {OURS.window}, width {OURS.width}: {pairs / 1e6:.1f} M pairs"
    )
    each = (
        f"ours {pairs / seconds['ours'] / 1e6:.2f} M/s, theirs {pairs / theirs / 1e6:.2f} M/s "
        f"(walks {seconds['pecanpy']:.2f} s, skip-gram {seconds['gensim']:.2f} s)"
    )
    return [Figure(NAME, seconds["ours"] / theirs, "×", 1, f"{shape}; {each}")]


def _pairs_of_a_walk() -> int:
    places = np.arange(OURS.walk_length)
    apart = np.abs(places[:, None] - places)
    return int(((apart > 0) & (apart <= OURS.window)).sum())


def _seconds(python: Path, path: Path, graph: Graph) -> dict[str, float]:
    """Of a job of each, medians over rounds in which all take turns."""
    taken: dict[str, list[float]] = {"ours": [], "pecanpy": [], "gensim": []}
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # the other core prepares
    rival = _Rival(python, path)
    try:
        _our_seconds(graph, seed=0)  # what is made once is made now
        for seed in range(1, ROUNDS + 1):
            taken["ours"].append(_our_seconds(graph, seed=seed))
            for name, seconds in zip(("pecanpy", "gensim"), rival.seconds(seed), strict=True):
                taken[name].append(seconds)
    finally:
        torch.set_num_threads(before)
        rival.end()
    return {name: median(seconds) for name, seconds in taken.items()}


def _our_seconds(graph: Graph, *, seed: int) -> float:
    """Of every walk learned once, steps prepared ahead as in ``training/loop.py``; a single record is ranked."""
    start = time.perf_counter()
    record = (np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int32))
    data = TrainingData(graph, ("nothing",), (2,), (record,))
    model = Node2vec(data, OURS, seed=seed, device=torch.device("cpu"))
    steps = -(-OURS.walks_per_node * int((graph.degrees > 0).sum()) // OURS.walk_batch)
    with ThreadPoolExecutor(CORES - 1) as pool:
        waiting: deque[Future[Batch]] = deque(pool.submit(model.prepare, step, 0) for step in range(2))
        for step in range(2, steps + 2):
            if step < steps:
                waiting.append(pool.submit(model.prepare, step, 0))  # an epoch has one step
            model.update(model.loss(waiting.popleft().result()))
    return time.perf_counter() - start


class _Rival:
    """A process that does a job when asked."""

    def __init__(self, python: Path, path: Path) -> None:
        names = ("p", "q", "walks_per_node", "walk_length", "window", "width")
        asked = {name: getattr(OURS, name) for name in names} | {"negatives": OURS.network_negatives, "threads": CORES}
        command = [str(python), "-W", "ignore", str(HERE / "their_node2vec.py"), str(path), json.dumps(asked)]
        threads = os.environ | {"NUMBA_NUM_THREADS": str(CORES)}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=threads)
        self._answer()

    def seconds(self, seed: int) -> tuple[float, ...]:
        assert self._process.stdin is not None
        print(seed, file=self._process.stdin, flush=True)
        return tuple(map(float, self._answer().split()))

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{HERE / 'their_node2vec.py'} ended with status {self._process.wait()}")
        return line

    def end(self) -> None:
        self._process.communicate()
