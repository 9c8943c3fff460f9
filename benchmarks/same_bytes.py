"""``python -m benchmarks.same_bytes --data ciao``: whether two trainings with the same seed end in the same bytes.

Every method that learns by steps is trained twice for a few epochs. With ``--deterministic`` PyTorch takes the
operations alone whose sums have one order (or says that it has none), so that it can be seen what that costs.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time
from pathlib import Path
from statistics import median
from typing import Any

METHODS = (
    *("mcne", "mcne-a", "mcne-f", "soft-gate", "shared-bottom", "mcne-random-masks", "bpr", "libfm", "nfm"),
    *("node2vec", "node2vec-b", "line", "line-b", "graphsage", "pinsage", "lightgcn", "lightgcn-trust"),
)
VARIANTS: dict[str, dict[str, Any]] = {
    "mcne, literal messages": {"message": "literal"},
    "mcne, l2 of parameters": {"l2_form": "parameters"},
    "nfm, batch_norm": {"batch_norm": True},
    "pinsage, BPR": {"loss": "bpr"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a prepared dataset")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--only", nargs="*", help="methods or variants")
    asked = parser.parse_args()
    if asked.deterministic:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # cuBLAS reads it when it is opened
        import torch

        torch.use_deterministic_algorithms(True)
    rows = {name: {} for name in METHODS} | VARIANTS
    for name in asked.only or rows:
        try:
            (first, seconds), (second, _) = (_trained(name, rows[name], asked) for _ in range(2))
            said = "the same" if first == second else "OTHER"
            print(f"{name:24} {said:9} {first[:12]} {second[:12]} {1e3 * seconds:8.1f} ms an epoch", flush=True)
        except RuntimeError as error:
            print(f"{name:24} refused: {str(error).splitlines()[0][:160]}", flush=True)


def _trained(name: str, given: dict[str, Any], asked: argparse.Namespace) -> tuple[str, float]:
    """The hash of all files that a training leaves of what it learned, and the median of an epoch's seconds."""
    from benchmarks.temporary_run import temporary_run
    from mcne.data.dataset import SocialDataset
    from mcne.data.split import random_split
    from mcne.training.journal import SilentReporter

    class Clock(SilentReporter):
        def epoch(self, record: Any, *, seconds: float, examples: int) -> None:
            taken.append(seconds)

    taken: list[float] = []
    dataset = SocialDataset.load(asked.data)
    split = random_split(dataset, seed=0)
    schedule = {"epochs": asked.epochs, "patience": asked.epochs}
    method = name.split(",")[0]
    with temporary_run(method, dataset, split, given=schedule | given, device=asked.device, reporter=Clock()) as run:
        digest = hashlib.sha256()
        for path in sorted(run.path.rglob("*.npy")):
            digest.update(path.relative_to(run.path).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest(), median(taken[1:])


if __name__ == "__main__":
    started = time.perf_counter()
    main()
    print(f"{time.perf_counter() - started:.0f} s in all")
