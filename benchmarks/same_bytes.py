"""``python -m benchmarks.same_bytes --data ciao``: whether two trainings with the same seed end in the same bytes.

Methods that learn by steps are trained twice for a few epochs, as they are or with the setting ``deterministic``, so
that it can be seen what that costs.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.temporary_run import temporary_run
from mcne.data.dataset import SocialDataset
from mcne.data.split import random_split
from mcne.training.journal import Record, Reporter

METHODS = [
    "mcne",
    "mcne-a",
    "mcne-f",
    "mcne-random-masks",
    "mcne-constant-masks",
    "soft-gate",
    "shared-bottom",
    "bpr",
    "libfm",
    "nfm",
    "node2vec",
    "node2vec-b",
    "line",
    "line-b",
    "graphsage",
    "pinsage",
    "lightgcn",
    "lightgcn-trust",
]
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
    for name in asked.only or (*METHODS, *VARIANTS):
        (first, seconds), (second, _) = (_trained(name, asked) for _ in range(2))
        verdict = "the same" if first == second else "OTHER"
        print(f"{name:24} {verdict:9} {first[:12]} {second[:12]} {1e3 * seconds:8.1f} ms an epoch", flush=True)


def _trained(name: str, asked: argparse.Namespace) -> tuple[str, float]:
    """The hash of all files that a training leaves of what it learned, and the median of an epoch's seconds."""
    clock = _Clock()
    dataset = SocialDataset.load(asked.data)
    split = random_split(dataset, seed=0)
    given = {"epochs": asked.epochs, "patience": asked.epochs, "deterministic": asked.deterministic}
    given |= VARIANTS.get(name, {})
    method = name.split(",")[0]
    with temporary_run(method, dataset, split, settings=given, device=asked.device, reporter=clock) as run:
        digest = hashlib.sha256()
        files = sorted(run.path.rglob("*.npy"))
        assert files, "nothing was kept of what it learned"
        for path in files:
            digest.update(path.relative_to(run.path).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest(), median(clock.seconds[1:] or clock.seconds)


class _Clock(Reporter):
    def __init__(self) -> None:
        self.seconds: list[float] = []

    def epoch(self, record: Record, *, seconds: float, examples: int) -> None:
        self.seconds.append(seconds)


if __name__ == "__main__":
    main()
