"""How long ``mcne --help`` takes beyond Python's own start."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from benchmarks.figure import Figure

RUNS = 15


def measure_start() -> list[Figure]:
    bare, ours = [], []
    for _ in range(RUNS):
        bare.append(_seconds("-c", "pass"))
        ours.append(_seconds("-m", "mcne", "--help"))
    beyond = statistics.median(ours) - statistics.median(bare)
    detail = f"median of {RUNS}: {statistics.median(ours):.3f} s against {statistics.median(bare):.3f} s"
    return [Figure("mcne --help beyond Python's start", beyond, "s", 0.2, detail)]


def _seconds(*arguments: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - start
