"""A training step: against the literal form on Ciao, and on a graph ten times as large."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.figure import Figure
from benchmarks.literal import LiteralStep
from mcne.data.dataset import SocialDataset
from mcne.data.split import random_split
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.data.trust import CIAO, prepare
from mcne.methods.mcne import MCNE, MCNEConfig
from mcne.sampling.triples import TripleSampler
from mcne.training.contract import TrainingData

AGAINST_LITERAL, AGAINST_SIZE = "step of Ciao / literal form", "step at 1,000,000 users / at 100,000"


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
    fast, slow = statistics.median(ours[1:]), statistics.median(theirs[1:])
    detail = f"paper settings, {fast * 1e3:.0f} ms against {slow * 1e3:,.0f} ms: {slow / fast:.0f} times as fast"
    return Figure(AGAINST_LITERAL, fast / slow, "×", 1 / 12, detail)


def _against_size() -> Figure:
    models = [_model(generate(SyntheticConfig(users=users, records_per_user=1.0))[0]) for users in (100_000, 1_000_000)]
    seconds: list[list[float]] = [[], []]
    for step in range(12):
        for times, model in zip(seconds, models, strict=True):
            times.append(_seconds(lambda model=model, step=step: _step(model, step)))  # type: ignore[misc]
    small, large = (statistics.median(times[2:]) for times in seconds)
    detail = f"same degree law, widths and batch: {large * 1e3:.0f} ms against {small * 1e3:.0f} ms"
    return Figure(AGAINST_SIZE, large / small, "×", 1.25, detail)


def _model(dataset: SocialDataset) -> MCNE:
    split = random_split(dataset, seed=0, ratios=(100, 0, 0))
    return MCNE(TrainingData.of(dataset, split), MCNEConfig(), seed=0, device=torch.device("cpu"))


def _step(model: MCNE, step: int) -> None:
    model.update(model.loss(model.prepare(0, step)))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
