"""``python -m benchmarks.captured_step --data ciao``, on a machine with a GPU: a step of MCNE launched and replayed."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch

from mcne.data.dataset import SocialDataset
from mcne.data.split import random_split
from mcne.models.contract import TrainingData
from mcne.models.mcne import MCNE, MCNEConfig
from mcne.models.mcne_variants import MCNEA, MCNEF
from mcne_bench.figures import GPU_STEPS, NotMeasuredError, gpu, launched_and_replayed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a prepared dataset")
    parser.add_argument("--tf32", action="store_true", help="products that take 10 bits of the fraction")
    asked = parser.parse_args()
    if asked.tf32:
        torch.set_float32_matmul_precision("high")
    dataset = SocialDataset.load(asked.data)
    data = TrainingData.of(dataset, random_split(dataset, seed=0))
    for kind in (MCNE, MCNEA, MCNEF):
        model = kind(data, MCNEConfig(), seed=0, device=gpu())
        start = time.perf_counter()
        for step in range(GPU_STEPS):
            model.prepare(0, step)
        each = 1e3 * (time.perf_counter() - start) / GPU_STEPS
        launched, replayed = launched_and_replayed(model)
        print(f"{kind.__name__:6} prepared in {each:.2f} ms, launched {launched:.2f} ms, replayed {replayed:.2f} ms")


try:
    main()
except NotMeasuredError as error:
    sys.exit(f"error: {error}")
