"""BPR updates per second against cornac's BPR (Cython, threads without locks), same data, factors and cores.

An update is one (user, positive, negative) triple learned. Ours is measured as the training loop runs it: one thread
prepares steps ahead while PyTorch computes on the other. cornac learns with as many threads, or with one where that is
faster.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from statistics import median

import numpy as np
import torch

from benchmarks.figure import Figure
from benchmarks.rivals.environment import python_with
from mcne.data.split import random_split
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.methods.bpr import BPR, Batch, BPRConfig
from mcne.methods.dot_ranking import examples
from mcne.training.contract import TrainingData

NAME = "BPR updates of cornac / ours per second"
HERE = Path(__file__).resolve().parent
WIDTH = 64
CORES = 2
ROUNDS = 5
SECONDS = 4.0
"""Of ours in each round."""

OURS = BPRConfig(width=WIDTH, bias=True, negatives=5, batch_size=32768)
NETWORK = SyntheticConfig(users=50_000, behaviors=2, links_per_user=0.5, records_per_user=20.0)


def measure_bpr() -> list[Figure]:
    try:
        python = python_with(HERE / "requirements-bpr.txt", "bpr")
    except (OSError, subprocess.CalledProcessError) as error:
        return [Figure(NAME, None, "×", 1, f"cornac could not be installed: {error}")]
    dataset = generate(NETWORK)[0].only(0)
    data = TrainingData.of(dataset, random_split(dataset, seed=0, ratios=(100, 0, 0)))
    with tempfile.TemporaryDirectory() as directory:
        pairs = Path(directory) / "pairs.npz"
        np.savez(pairs, user=data.pairs[0][0], item=data.pairs[0][1], shape=[data.n_users, data.n_items[0]])
        rates = _rates(python, pairs, data)
    theirs = max(rates["cornac, 1 thread"], rates[f"cornac, {CORES} threads"])
    shape = f"{data.n_users:,} users, {data.n_items[0]:,} items, {len(data.pairs[0][0]):,} records, {WIDTH} factors"
    each = ", ".join(f"{name} {rate / 1e6:.2f} M/s" for name, rate in rates.items())
    return [Figure(NAME, theirs / rates["ours"], "×", 1, f"{shape}; {each}")]


def _rates(python: Path, pairs: Path, data: TrainingData) -> dict[str, float]:
    """Updates per second of each, medians over rounds in which all take turns."""
    rivals = {threads: _Rival(python, pairs, threads) for threads in (1, CORES)}
    model = BPR(data, OURS, seed=0, device=torch.device("cpu"))
    taken: dict[str, list[float]] = {}
    before = torch.get_num_threads()
    torch.set_num_threads(CORES)
    try:
        for epoch in range(ROUNDS):
            taken.setdefault("ours", []).append(_our_rate(model, epoch))
            for threads, rival in rivals.items():
                taken.setdefault(f"cornac, {threads} thread{'s' if threads > 1 else ''}", []).append(rival.rate())
    finally:
        torch.set_num_threads(before)
        for rival in rivals.values():
            rival.end()
    return {name: median(rates) for name, rates in taken.items()}


def _our_rate(model: BPR, epoch: int) -> float:
    """Updates per second over some seconds, steps prepared ahead as in ``training/loop.py``."""
    updates, start = 0, time.perf_counter()
    with ThreadPoolExecutor(1) as pool:
        waiting: deque[Future[Batch]] = deque()
        steps = iter(range(model.n_steps))
        while time.perf_counter() - start < SECONDS:
            waiting.extend(pool.submit(model.prepare, epoch, step) for step in islice(steps, 3 - len(waiting)))
            if not waiting:
                break
            batch = waiting.popleft().result()
            model.update(model.loss(batch))
            updates += examples(batch.triples) * OURS.negatives
        seconds = time.perf_counter() - start
    return updates / seconds


class _Rival:
    """A process that trains when asked."""

    def __init__(self, python: Path, pairs: Path, threads: int) -> None:
        command = [str(python), "-W", "ignore", str(HERE / "their_bpr.py"), str(pairs), str(WIDTH), str(threads)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()

    def rate(self) -> float:
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        updates, seconds = map(float, self._answer().split())
        return updates / seconds

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{HERE / 'their_bpr.py'} ended with status {self._process.wait()}")
        return line

    def end(self) -> None:
        self._process.communicate()
