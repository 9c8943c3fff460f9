"""Times of several contenders taken side by side: in rounds in which all have their turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from statistics import median
from typing import cast


@dataclass(frozen=True)
class Contender:
    """Work to be timed, given a number that never repeats; so often in each round."""

    work: Callable[[int], object]
    per_round: int = 1
    has_clock: bool = False  # whether the work answers its own seconds, as that of another process does


def medians(contenders: Mapping[str, Contender], *, rounds: int, warm_up: int = 1) -> dict[str, float]:
    """Seconds of each contender's work, medians over rounds; of warm-up rounds nothing is counted."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    numbers = {name: count() for name in contenders}
    for at in range(warm_up + rounds):
        for name, contender in contenders.items():
            for _ in range(contender.per_round):
                start = time.perf_counter()
                answer = contender.work(next(numbers[name]))
                seconds = time.perf_counter() - start
                if at >= warm_up:
                    taken[name].append(cast(float, answer) if contender.has_clock else seconds)
    return {name: median(seconds) for name, seconds in taken.items()}
