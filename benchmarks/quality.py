"""``python -m benchmarks.quality --data ciao``: MCNE by compiled kernels against MCNE by plain operations.

Both are trained on the same splits, at the paper's settings but for a stronger L2 and smaller steps. Where chance
enters they draw differently on a GPU, so what is compared is how well users are served. Without compiled kernels a CPU
takes hours; with ``--epochs 2`` some ten minutes.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.temporary_run import temporary_run
from mcne.data.dataset import SocialDataset
from mcne.data.split import random_split
from mcne.evaluation.protocol import Evaluation, evaluate
from mcne.evaluation.significance import averaged, compare
from mcne.kernels import backend

SETTINGS = {"l2": 0.005, "learning_rate": 0.001, "patience": 15}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a prepared dataset")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--jobs", type=int, default=5, help="trainings side by side")
    parser.add_argument("--epochs", type=int, help="at most so many")
    asked = parser.parse_args()
    evaluations = {}
    for path, initializer in (("compiled", None), ("plain", _compile_nothing)):
        with ProcessPoolExecutor(asked.jobs, get_context("spawn"), initializer=initializer) as pool:
            waiting = [pool.submit(_trained, asked.data, n, asked.device, asked.epochs) for n in range(asked.splits)]
            evaluations[path] = [each.result() for each in waiting]
        for metric in ("recall@5", "ndcg@5"):
            values = ", ".join(f"{100 * (each.overall(metric) or 0):.2f}" for each in evaluations[path])
            print(f"{path:9} {metric:9} {values}", flush=True)
    for metric in ("recall@5", "ndcg@5"):
        mine, rival = (averaged(evaluations[path], metric) for path in ("compiled", "plain"))
        told = compare(mine, {"plain": rival})["plain"].overall
        interval = f"{100 * told.low:+.2f} … {100 * told.high:+.2f}"
        print(f"compiled better by {100 * told.difference:+.2f} {metric}, 95 % interval {interval}, p {told.p:.4f}")


def _compile_nothing() -> None:
    """Leave steps to operations of PyTorch, in a process that has imported nothing of Triton yet."""
    backend.ON_CPU = "torch"
    sys.modules["triton"] = None  # type: ignore[assignment] # which is how Python says that it cannot be imported
    warnings.filterwarnings("ignore", message="training on")


def _trained(data: Path, n: int, device: str, epochs: int | None) -> Evaluation:
    """The test part of the split of seed ``n``."""
    dataset = SocialDataset.load(data)
    split = random_split(dataset, seed=n)
    given = SETTINGS if epochs is None else SETTINGS | {"epochs": epochs}
    with temporary_run("mcne", dataset, split, settings=given, seed=n, device=device) as run:
        return evaluate(run.embeddings, dataset, split)


if __name__ == "__main__":
    main()
