"""``python -m benchmarks.captured_step --data ciao``, on a machine with a GPU: a step of MCNE launched and replayed."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from mcne.data.dataset import SocialDataset
from mcne.data.split import random_split
from mcne.methods.mcne import MCNE, MCNEA, MCNEF, MCNEConfig
from mcne.training.capture import CapturedSteps
from mcne.training.contract import TrainingData

STEPS = 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a prepared dataset")
    dataset = SocialDataset.load(parser.parse_args().data)
    data = TrainingData.of(dataset, random_split(dataset, seed=0))
    for kind in (MCNE, MCNEA, MCNEF):
        model = kind(data, MCNEConfig(), seed=0, device=torch.device("cuda"))
        start = time.perf_counter()
        batches = [model.prepare(0, step) for step in range(STEPS)]
        prepared = time.perf_counter() - start
        launched = _milliseconds(partial(_launch, model), batches)
        replayed = _milliseconds(CapturedSteps(model), batches)
        each = 1e3 * prepared / STEPS
        print(f"{kind.__name__:6} prepared in {each:.1f} ms, launched {launched:.1f} ms, replayed {replayed:.1f} ms")


def _launch(model: MCNE, batch: Any) -> None:
    model.update(model.loss(batch))


def _milliseconds(step: Callable[[Any], object], batches: list[Any]) -> float:
    """Of a step, the second time through all batches, when every shape is known."""
    for _ in range(2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for batch in batches:
            step(batch)
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start) / len(batches)


main()
