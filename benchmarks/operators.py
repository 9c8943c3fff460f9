"""``python -m benchmarks.operators --data ciao``: where a step of MCNE at the paper's settings spends its time.

Operators of PyTorch on the CPU, kernels on a GPU, per step and by their own time, the longest first. What is compiled
for the CPU outside of PyTorch's operators is not among them; of it, the drawing of a step is timed at the end.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from mcne.cli.main import ENVIRONMENT

os.environ |= {**ENVIRONMENT, **os.environ}  # as the command line does

import torch
from torch.profiler import ProfilerActivity, profile

from mcne.data.dataset import SocialDataset
from mcne.data.split import random_split
from mcne.models.contract import TrainingData
from mcne.models.mcne import MCNE, MCNEConfig
from mcne.training import choose_device

WARM_UP, STEPS, SHOWN = 10, 40, 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a prepared dataset")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    asked = parser.parse_args()
    dataset = SocialDataset.load(asked.data)
    device = choose_device(asked.device)
    model = MCNE(TrainingData.of(dataset, random_split(dataset, seed=0)), MCNEConfig(), seed=0, device=device)
    drawn = time.perf_counter()
    batches = [model.prepare(0, step) for step in range(WARM_UP + STEPS)]
    drawn = time.perf_counter() - drawn
    for batch in batches[:WARM_UP]:
        model.update(model.loss(batch))
    is_gpu = device.type == "cuda"
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if is_gpu else [])]) as profiler:
        for batch in batches[WARM_UP:]:
            model.update(model.loss(batch))
        if is_gpu:
            torch.cuda.synchronize()
    rows = [
        (event.self_device_time_total if is_gpu else event.self_cpu_time_total, event.count, event.key)
        for event in profiler.key_averages()
        if event.device_type.name == ("CUDA" if is_gpu else "CPU")
    ]
    print(f"{'':60}  calls      ms", f"{'all':60} {sum(row[1] for row in rows) / STEPS:6.1f} ", sep="\n", end="")
    print(f"{sum(row[0] for row in rows) / STEPS / 1e3:7.3f}")
    for own, count, name in sorted(rows, reverse=True)[:SHOWN]:
        print(f"{name[:60]:60} {count / STEPS:6.1f} {own / STEPS / 1e3:7.3f}")
    print(f"{'drawing a step':60} {1:6.1f} {1e3 * drawn / len(batches):7.3f}")


main()
