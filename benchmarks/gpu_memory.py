"""``python -m benchmarks.gpu_memory --data ciao``: what a training is estimated to need of a GPU, and its peak.

Both without what cuBLAS takes once.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from benchmarks.temporary_run import temporary_run
from mcne.data.dataset import SocialDataset
from mcne.data.split import random_split
from mcne.models.memory import estimate
from mcne.text import human_bytes
from mcne.training.resources import WORKSPACES, gpu_bytes
from mcne.training.run import settings_of

METHODS = ("mcne", "mcne-a", "bpr", "libfm", "nfm", "node2vec", "line", "graphsage", "pinsage", "lightgcn-trust")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a prepared dataset")
    parser.add_argument("--methods", nargs="*", default=METHODS)
    asked = parser.parse_args()
    dataset = SocialDataset.load(asked.data)
    split = random_split(dataset, seed=0)
    given = {"epochs": 1}
    with temporary_run("mcne", dataset, split, settings=given, device="cuda"):
        pass  # what is allocated once, by the first training, is not a training's own
    for method in asked.methods:
        config, settings = settings_of(method, given)
        needed = estimate(method, config, settings, dataset, split, is_on_gpu=True)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        with temporary_run(method, dataset, split, settings=given, device="cuda"):
            peak = torch.cuda.max_memory_allocated() - before
        reserved = torch.cuda.max_memory_reserved()
        expected = 0 if needed is None else gpu_bytes(needed) - WORKSPACES
        print(
            f"{method:16} estimated {human_bytes(expected):>10}, peak {human_bytes(peak):>10} ({expected / peak:.2f}), "
            f"with what PyTorch keeps {human_bytes(reserved):>10}",
            flush=True,
        )


if __name__ == "__main__":
    main()
