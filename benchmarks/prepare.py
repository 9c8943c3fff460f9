"""Preparing Epinions from ``.mat``, hashing and writing included, against ``scipy.io.loadmat`` of the same files."""

from __future__ import annotations

import tempfile
from pathlib import Path

from scipy.io import loadmat

from benchmarks.raw import raw_files
from mcne.data.trust import EPINIONS, prepare
from mcne_bench.figures import Contender, Taken, medians

ROUNDS = 11
FILES = ("rating.mat", "trustnetwork.mat")


def measure_prepare() -> Taken:
    raw = raw_files("epinions")
    with tempfile.TemporaryDirectory() as directory:
        contenders = {
            "floor": Contender(lambda _: [loadmat(raw / file) for file in FILES]),
            "ours": Contender(lambda number: prepare(EPINIONS, raw).save(Path(directory) / str(number))),
        }
        floor, ours = medians(contenders, rounds=ROUNDS).values()
    return Taken(ours / floor, f"median of {ROUNDS}: {ours * 1e3:.0f} ms against {floor * 1e3:.0f} ms")
