"""BPR updates per second against cornac's and implicit's (Cython, threads without locks), same data, factors and cores.

An update is one (user, positive, negative) triple learned. Ours is measured as the training loop runs it: one thread
prepares steps ahead while PyTorch computes on the other. A rival learns with as many threads, or with one where that is
faster. They learn from one triple at a time; ours by steps, of which large ones are compared, and small ones, as the
method has them by default, told beside.
"""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from benchmarks.rivals.process import Rival
from mcne.data.split import random_split
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.models.bpr import BPR, BPRBatch, BPRConfig
from mcne.models.contract import TrainingData
from mcne_bench.figures import Contender, Taken, medians

WIDTH = 64
CORES = 2
ROUNDS = 5
SECONDS = 4.0
"""Of ours in each round."""

OURS = {
    f"ours, {size:,} pairs a step": BPRConfig(width=WIDTH, bias=True, negatives=5, batch_size=size)
    for size in (32768, BPRConfig.batch_size)
}
COMPARED = next(iter(OURS))
NETWORK = SyntheticConfig(users=50_000, behaviors=2, links_per_user=0.5, records_per_user=20.0)


def against_cornac() -> Taken:
    return _against("cornac", environment="bpr")


def against_implicit() -> Taken:
    return _against("implicit", environment="implicit")


def _against(rival: str, *, environment: str) -> Taken:
    dataset = generate(NETWORK)[0].only(0)
    data = TrainingData.of(dataset, random_split(dataset, seed=0, ratios=(100, 0, 0)))
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        pairs = Path(directory) / "pairs.npz"
        np.savez(pairs, user=data.pairs[0][0], item=data.pairs[0][1], shape=[data.n_users, data.n_items[0]])
        rivals = {
            f"{rival}, {threads} thread{'s' if threads > 1 else ''}": stack.enter_context(
                Rival(rival, pairs, WIDTH, threads, environment=environment, threads=threads)
            )
            for threads in (1, CORES)
        }
        taken = _seconds_of_an_update(rivals, data)
    theirs = min(seconds for name, seconds in taken.items() if name not in OURS)
    shape = f"{data.n_users:,} users, {data.n_items[0]:,} items, {len(data.pairs[0][0]):,} records, {WIDTH} factors"
    each = ", ".join(f"{name} {1e-6 / seconds:.2f} M/s" for name, seconds in taken.items())
    return Taken(taken[COMPARED] / theirs, f"{shape}; {each}")


def _seconds_of_an_update(rivals: Mapping[str, Rival], data: TrainingData) -> dict[str, float]:
    models = {name: BPR(data, config, seed=0, device=torch.device("cpu")) for name, config in OURS.items()}
    ours = {name: Contender(_by_rate(model), has_clock=True) for name, model in models.items()}
    theirs = {name: Contender(_per_update(rival), has_clock=True) for name, rival in rivals.items()}
    before = torch.get_num_threads()
    torch.set_num_threads(CORES)
    try:
        return medians(ours | theirs, rounds=ROUNDS, warm_up=0)
    finally:
        torch.set_num_threads(before)


def _per_update(rival: Rival) -> Callable[[int], float]:
    def seconds(_: int) -> float:
        updates, taken = rival.ask()
        return taken / updates

    return seconds


def _by_rate(model: BPR) -> Callable[[int], float]:
    return lambda epoch: 1 / _our_rate(model, epoch)


def _our_rate(model: BPR, epoch: int) -> float:
    """Updates per second over some seconds, steps prepared ahead as in ``training/loop.py``."""
    updates = 0
    start = time.perf_counter()
    with ThreadPoolExecutor(1) as pool:
        waiting: deque[Future[BPRBatch]] = deque()
        steps = iter(range(model.n_steps))
        while time.perf_counter() - start < SECONDS:
            waiting.extend(pool.submit(model.prepare, epoch, step) for step in islice(steps, 3 - len(waiting)))
            if not waiting:
                break
            batch = waiting.popleft().result()
            loss = model.loss(batch)
            model.update(loss)
            updates += loss.examples * model.config.negatives
        seconds = time.perf_counter() - start
    return updates / seconds
