"""Preparing Epinions from ``.mat``, hashing and writing included, against ``scipy.io.loadmat`` of the same files."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

from scipy.io import loadmat

from benchmarks.figure import Figure
from mcne.data.trust import EPINIONS, prepare

RUNS = 11
NAME = "prepare Epinions / loadmat"


def measure_prepare() -> list[Figure]:
    raw = Path(os.environ.get("MCNE_DATA_DIR", "nowhere")) / "epinions"
    if not raw.is_dir():
        return [Figure(NAME, None, "×", 5, "set MCNE_DATA_DIR to the directory of the raw files")]
    floor, ours = [], []
    with tempfile.TemporaryDirectory() as directory:
        for run in range(RUNS):
            start = time.perf_counter()
            for file in ("rating.mat", "trustnetwork.mat"):
                loadmat(raw / file)
            middle = time.perf_counter()
            prepare(EPINIONS, raw).save(Path(directory) / str(run))
            floor.append(middle - start)
            ours.append(time.perf_counter() - middle)
    ratio = statistics.median(a / b for a, b in zip(ours, floor, strict=True))
    detail = f"median of {RUNS}: {statistics.median(ours) * 1e3:.0f} ms against {statistics.median(floor) * 1e3:.0f} ms"
    return [Figure(NAME, ratio, "×", 5, detail)]
