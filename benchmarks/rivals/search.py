"""Evaluation by full ranking against faiss's exact search for the best items of the same users."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.raw import ciao
from benchmarks.rivals.process import Rival
from mcne.data.split import random_split
from mcne.evaluation.protocol import evaluate
from mcne_bench.figures import (
    BEST,
    Contender,
    Scored,
    Taken,
    describe,
    medians,
    products_of_parts,
    scored,
    trained_scorer,
)


def against_faiss() -> Taken:
    dataset = ciao()
    threads = torch.get_num_threads()
    split = random_split(dataset, seed=0)
    scorer = trained_scorer(dataset, split)
    tasks = scored(scorer, dataset, split)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "vectors.npz"
        arrays: dict[str, Any] = {f"users.{k}": users for k, (users, _) in enumerate(tasks)}
        np.savez(path, **arrays | {f"items.{k}": items for k, (_, items) in enumerate(tasks)})
        rival = Rival("faiss", path, BEST, threads, threads=threads)
    with rival:
        contenders = {
            "ours": Contender(lambda _: evaluate(scorer, dataset, split, protocol="full")),
            "theirs": Contender(lambda _: rival.ask()[0], has_clock=True),
            "product": Contender(lambda _: _all_scores(tasks)),
        }
        ours, theirs, product = medians(contenders, rounds=7).values()
    each = f"{ours:.2f} s against {theirs:.2f} s; NumPy's product alone {product:.2f} s"
    return Taken(ours / theirs, f"{describe(tasks)}: {each}")


def _all_scores(tasks: list[Scored]) -> None:
    """The products alone."""
    for users, items in tasks:
        for _ in products_of_parts(users, items):
            pass
