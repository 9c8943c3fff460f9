"""One cell of a comparison: train, evaluate, keep what the table needs."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mcne.comparison.plan import Cell
from mcne.data.dataset import SocialDataset
from mcne.data.split import Split
from mcne.evaluation.coverage import coverage
from mcne.evaluation.protocol import (
    CUTOFFS,
    DECIDING_METRIC,
    Evaluation,
    ProtocolName,
    evaluate,
    measure,
)
from mcne.evaluation.slices import sliced
from mcne.runs import choose_device, split_of, train

RESULT, RANKS, RUN = "cell.json", "ranks.parquet", "run"
SLICE_METRICS = ("recall@5", "ndcg@5", "recall@20", "ndcg@20")


def is_done(directory: Path) -> bool:
    """Whether a cell is finished there."""
    return (directory / RESULT).is_file()


def read_result(directory: Path) -> dict[str, Any]:
    """What a finished cell found."""
    found: dict[str, Any] = json.loads((directory / RESULT).read_text(encoding="utf-8"))
    return found


def read_evaluation(directory: Path, protocol: ProtocolName, dataset: SocialDataset) -> Evaluation:
    """The evaluation of a finished cell on the test part, from the places of its items."""
    pairs = pq.read_table(directory / RANKS)
    behaviors = {}
    for name in dataset.behavior_names:
        mine = pairs.filter(pc.equal(pairs["behavior"], name))
        user, item, rank = (mine[column].to_numpy() for column in ("user", "item", protocol))
        behaviors[name] = measure(user, item, ranks=rank.astype(np.int64), cutoffs=CUTOFFS)
    return Evaluation("test", protocol, 0, CUTOFFS, behaviors)


def run_cell(
    cell: Cell,
    directory: Path,
    *,
    data: Path,
    split_name: str,
    protocols: tuple[ProtocolName, ...],
    device: str,
    threads: int,
) -> None:
    """Train and evaluate one cell, or go on with it; the result is written last, and then the run is removed."""
    import torch

    from mcne.training.journal import SilentReporter, overwrite

    torch.set_num_threads(threads)
    dataset, split = _opened(data, split_name, cell.dataset, cell.split)
    where = choose_device(device)
    directory.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    run = train(
        cell.candidate.method,
        dataset,
        split,
        directory / RUN,
        given=cell.candidate.given,
        seed=cell.repetition,
        device=where,
        resume=True,
        places={"dataset": str(data.absolute()), "split": split_name},
        reporter=SilentReporter(),
        mode=cell.candidate.mode,
    )
    trained = time.perf_counter() - started
    result = dict(run.result) | {"validation": run.result[DECIDING_METRIC], "train_seconds": trained}
    if not cell.is_search:
        scorer = run.scorer(dataset, split, device=where)
        started = time.perf_counter()
        evaluations = {name: evaluate(scorer, dataset, split, protocol=name) for name in protocols}
        result |= {
            "evaluate_seconds": time.perf_counter() - started,
            "test": {name: found.summary() for name, found in evaluations.items()},
            "slices": {name: _slices(found, dataset, split) for name, found in evaluations.items()},
            "coverage": coverage(scorer, dataset, split) if "full" in protocols else None,
        }
        pq.write_table(_ranks(evaluations), directory / RANKS, compression="zstd")
    said = {"cell": _said(cell), "split_name": split_name, "device": where.type} | result
    overwrite(directory / RESULT, json.dumps(said, indent=1, allow_nan=False).encode() + b"\n")
    shutil.rmtree(directory / RUN)


def _said(cell: Cell) -> dict[str, Any]:
    return asdict(cell) | {"name": cell.name}


@lru_cache(maxsize=4)
def _opened(data: Path, split_name: str, dataset_print: str, split_print: str) -> tuple[SocialDataset, Split]:
    """The data of a cell, which a process that runs many reads once."""
    dataset = SocialDataset.load(data)
    split = split_of(data, dataset, split_name)
    assert (dataset.fingerprint, split.fingerprint) == (dataset_print, split_print)  # the comparison has checked them
    return dataset, split


def _slices(found: Evaluation, dataset: SocialDataset, split: Split) -> dict[str, Any]:
    """The means over behaviors of every slice, and how many users it has."""
    kept = {}
    for name, part in sliced(found, dataset, split).items():
        users = sum(len(behavior.users) for behavior in part.behaviors.values())
        kept[name] = {"users": users} | {metric: part.overall(metric) for metric in SLICE_METRICS}
    return kept


def _ranks(evaluations: Mapping[ProtocolName, Evaluation]) -> pa.Table:
    """A row for every scored item of a user: its place, from 0, under each protocol."""
    parts = []
    for name, behavior in next(iter(evaluations.values())).behaviors.items():
        columns: dict[str, Any] = {
            "behavior": pa.array([name] * len(behavior.items), pa.string()).dictionary_encode(),
            "user": np.repeat(behavior.users, behavior.counts),
            "item": behavior.items,
        }
        places = {protocol: found.behaviors[name].ranks.astype(np.int32) for protocol, found in evaluations.items()}
        parts.append(pa.table(columns | places))
    return pa.concat_tables(parts).unify_dictionaries()
