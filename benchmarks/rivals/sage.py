"""A training step of MCNE against two ``SAGEConv`` layers of PyG of the same widths on the same batches.

Another model, with neither masks nor attention: it computes less. Batches are at hand for both: nothing is drawn in the
time that is taken.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.raw import ciao
from benchmarks.rivals.process import Rival
from mcne.models.mcne import MCNE
from mcne.models.neighborhoods import Batch
from mcne_bench.figures import Contender, Taken, all_for_training, medians, paper_model

BATCHES = 8


def against_sage() -> Taken:
    """Edges as lists, as PyG's loaders give them."""
    return _against("lists")


def against_sparse_sage() -> Taken:
    """Edges as sparse matrices, by which vectors are multiplied."""
    return _against("matrices")


def _against(edges: str) -> Taken:
    model = paper_model(all_for_training(ciao()))
    batches = [model.prepare(0, number) for number in range(BATCHES)]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "batches.npz"
        np.savez(path, **_arrays(model, batches))
        rival = Rival("sage", path, json.dumps(model.config.widths), edges, threads=torch.get_num_threads())
    with rival:
        contenders = {
            "ours": Contender(lambda number: model.update(model.loss(batches[number % BATCHES]))),
            "theirs": Contender(lambda number: rival.ask(number)[0], has_clock=True),
        }
        ours, theirs = medians(contenders, rounds=24, warm_up=2).values()
    return Taken(ours / theirs, f"{1e3 * ours:.1f} ms against {1e3 * theirs:.1f} ms ({rival.ready})")


def _arrays(model: MCNE, batches: list[Any]) -> dict[str, Any]:
    """What ``their_sage.py`` reads."""
    data = model.data
    arrays: dict[str, Any] = {"batches": len(batches), "n_users": data.n_users, "n_items": np.array(data.n_items)}
    for number, batch in enumerate(batches):
        assert isinstance(batch, Batch)  # on a CPU
        assert isinstance(batch.triples, tuple)
        arrays[f"{number}.users"] = batch.users
        for k, hop in enumerate(batch.hops):
            arrays |= {f"{number}.{k}.{name}": getattr(hop, name) for name in ("receiver", "sender", "has_neighbors")}
        for k, triples in enumerate(batch.triples):
            names = ("user", "items", "positive", "negative")
            arrays |= {f"{number}.triples.{k}.{name}": getattr(triples, name) for name in names}
    return arrays
