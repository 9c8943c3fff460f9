"""MCNE trained on Ciao with a GPU: an epoch, and the way to the best one."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from benchmarks.raw import ciao
from benchmarks.temporary_run import temporary_run
from mcne.data.split import random_split
from mcne.training.journal import Record, Reporter
from mcne_bench.figures import Taken, gpu

WARM_UP = 2
"""Epochs of a training before the one that is timed: in them kernels are compiled."""


def epoch_seconds() -> Taken:
    clock = _Clock()
    _train(clock, {"epochs": 12, "patience": 12})
    seconds = median(clock.seconds[WARM_UP:])
    return Taken(seconds, f"paper settings, median of {len(clock.seconds) - WARM_UP} epochs, validation aside")


def seconds_to_best() -> Taken:
    _train(_Clock(), {"epochs": WARM_UP})
    clock = _Clock()
    best = _train(clock, {})
    return Taken(clock.since_start[best - 1], f"default settings, the best epoch was the {best}th, evaluation included")


def _train(clock: _Clock, given: dict[str, Any]) -> int:
    """Train, and give the best epoch, counted from 1."""
    device = gpu()
    dataset = ciao()
    split = random_split(dataset, seed=0)
    clock.start = time.perf_counter()
    with temporary_run("mcne", dataset, split, settings=given, device=device.type, reporter=clock) as run:
        return int(run.result["best_epoch"])


class _Clock(Reporter):
    """Keeps when epochs ended, their evaluation included, and how long they took without."""

    def __init__(self) -> None:
        self.start = 0.0
        self.since_start: list[float] = []
        self.seconds: list[float] = []

    def epoch(self, record: Record, *, seconds: float, examples: int) -> None:
        self.since_start.append(time.perf_counter() - self.start)
        self.seconds.append(seconds)
