"""A training step: against the literal form on Ciao, and on a graph ten times as large."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch

from benchmarks.figure import Figure
from benchmarks.literal import LiteralStep
from mcne.data.dataset import SocialDataset
from mcne.data.split import random_split
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.data.trust import CIAO, prepare
from mcne.methods.mcne import MCNE, Batch, MCNEConfig
from mcne.sampling.triples import TripleSampler
from mcne.training.contract import TrainingData

AGAINST_LITERAL = "step of Ciao / literal form"
AGAINST_SIZE = "step at 1,000,000 users / at 100,000"
SIZES = (100_000, 1_000_000)


def measure_step() -> list[Figure]:
    return [_against_literal(), _against_size()]


def _against_literal() -> Figure:
    raw = Path(os.environ.get("MCNE_DATA_DIR", "nowhere")) / "ciao"
    if not raw.is_dir():
        return Figure(AGAINST_LITERAL, None, "×", 1 / 12, "set MCNE_DATA_DIR to the directory of the raw files")
    model = _model(prepare(CIAO, raw))
    triples = TripleSampler(
        model.data.pairs, n_users=model.data.n_users, n_items=model.data.n_items, negatives=5, batch_size=128, seed=1
    )
    literal = LiteralStep(_model(prepare(CIAO, raw)), triples, model.data.graph)
    ours, theirs = [], []
    for round_ in range(4):
        ours += [_seconds(lambda step=10 * round_ + k: _step(model, step)) for k in range(10)]  # type: ignore[misc]
        theirs.append(_seconds(lambda step=round_: literal.run(step)))  # type: ignore[misc]
    fast, slow = median(ours[1:]), median(theirs[1:])
    detail = f"paper settings, {fast * 1e3:.0f} ms against {slow * 1e3:,.0f} ms: {slow / fast:.0f} times as fast"
    return Figure(AGAINST_LITERAL, fast / slow, "×", 1 / 12, detail)


def _against_size() -> Figure:
    """On networks of the same degree law, 10 links from each user on average.

    Some of the difference is work: a step samples 80,000 links, enough to meet a fifth of the smaller network and so
    many a user twice, where the larger one has more distinct users to compute.
    """
    networks = [generate(SyntheticConfig(users=users, links_per_user=5.0, records_per_user=1.0))[0] for users in SIZES]
    measured = _medians([_model(network) for network in networks])
    small, large = (f"{seconds * 1e3:.0f} ms for {parts:,.0f} distinct users and links" for seconds, parts in measured)
    each = [seconds / parts for seconds, parts in measured]
    detail = f"paper settings, {large} against {small}, per user and link {each[1] / each[0]:.2f}×"
    return Figure(AGAINST_SIZE, measured[1][0] / measured[0][0], "×", 1.25, detail)


def _medians(models: list[MCNE]) -> list[tuple[float, float]]:
    """Seconds of a step of each model, in turns, and how many distinct users and links it has."""
    taken: list[list[tuple[float, float]]] = [[] for _ in models]
    for step in range(14):
        for model, times in zip(models, taken, strict=True):
            start = time.perf_counter()
            batch = model.prepare(0, step)
            model.update(model.loss(batch))
            assert isinstance(batch, Batch)  # on a CPU
            parts = len(batch.users) + sum(hop.sender.numel() for hop in batch.hops)
            times.append((time.perf_counter() - start, parts))
    return [(median(s for s, _ in times[2:]), median(n for _, n in times[2:])) for times in taken]


def _model(dataset: SocialDataset) -> MCNE:
    split = random_split(dataset, seed=0, ratios=(100, 0, 0))
    return MCNE(TrainingData.of(dataset, split), MCNEConfig(), seed=0, device=torch.device("cpu"))


def _step(model: MCNE, step: int) -> None:
    model.update(model.loss(model.prepare(0, step)))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
