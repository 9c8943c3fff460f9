"""Small runs for reports, and names that try to be markup."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.small_training import train_small

from mcne import training
from mcne.data.dataset import SocialDataset
from mcne.data.split import split_of

SMALL = {"widths": [8, 8], "neighbor_samples": [3], "attention_width": 4, "batch_size": 512, "epochs": 3}
GIVEN: Mapping[str, Mapping[str, Any]] = {"mcne": SMALL, "bpr": {"width": 8, "epochs": 2}, "popularity": {}}
SCRIPT = "<script>alert('x')</script>"
EVIL = (SCRIPT, '"><img src=x onerror=alert(1)> & $\\frac{1}{$', "plain")
PLAN = """
title = "Two <b>methods</b>"
repetitions = 2
search = 1
protocols = ["sampled", "full"]
reference = "bpr"
[training]
epochs = 1
[methods.popularity]
[methods.bpr]
settings = { width = 4, batch_size = 512 }
"""


def train(method: str, data: Path, out: Path, given: Mapping[str, Any], mode: training.Mode = "joint") -> training.Run:
    dataset = SocialDataset.load(data)
    split = split_of(data, dataset, "random-0")
    return train_small(method, dataset, out, split=split, settings=given, mode=mode, dataset_path="../../network")


def trained(root: Path, dataset: SocialDataset) -> Path:
    dataset.save(root / "network")
    for method, given in GIVEN.items():
        train(method, root / "network", root / "runs" / method, given)
    return root / "runs"
