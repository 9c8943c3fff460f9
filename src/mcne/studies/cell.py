"""One cell of a comparison: train, evaluate, keep what the table needs."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mcne import __version__
from mcne.data.dataset import SocialDataset
from mcne.data.split import Split, split_of
from mcne.embeddings.scorer import Scorer
from mcne.errors import ArtifactError, DivergedError
from mcne.evaluation.protocol import (
    CUTOFFS,
    DECIDING_METRIC,
    Evaluation,
    ProtocolName,
    coverage,
    evaluate,
    measure,
)
from mcne.evaluation.slices import sliced
from mcne.files import locked, read_json, read_parquet, write_json, write_parquet
from mcne.studies.plan import Cell
from mcne.training import Run, Training, choose_device
from mcne.training.journal import TIMES

if TYPE_CHECKING:
    import torch

RESULT, RANKS, RUN = "cell.json", "ranks.parquet", "run"
SLICE_METRICS = ("recall@5", "ndcg@5", "recall@20", "ndcg@20")


def is_done(directory: Path) -> bool:
    """Whether a cell is finished there."""
    return (directory / RESULT).is_file()


def read_result(directory: Path) -> dict[str, Any]:
    """What a finished cell found; ``diverged`` says why where there is nothing."""
    found = read_json(directory / RESULT, step=_again(directory))
    missing = {"cell", "validation", "train_seconds"} - set(found)
    if missing:
        raise ArtifactError(f"{directory / RESULT}: damaged (no {', '.join(missing)}); {_again(directory)}")
    return found


def read_evaluation(directory: Path, protocol: ProtocolName, dataset: SocialDataset) -> Evaluation:
    """The evaluation of a finished cell on the test part, from the places of its items."""
    pairs = read_parquet(directory / RANKS, step=_again(directory))
    behaviors = {}
    for name in dataset.behavior_names:
        mine = pairs.filter(pc.equal(pairs["behavior"], name))
        user, item, rank = (mine[column].to_numpy() for column in ("user", "item", protocol))
        behaviors[name] = measure(user, item, ranks=rank.astype(np.int64), cutoffs=CUTOFFS)
    return Evaluation("test", protocol, 0, CUTOFFS, behaviors)


def run_cell(cell: Cell, directory: Path, *, data: Path, split_name: str, device: str, threads: int, jobs: int) -> None:
    """Train and evaluate one cell, or go on with it; the result is written last, and then the run is removed.

    A training that diverged is a result too: it would diverge again. The directory is held all the time, so of two
    comparisons in one place each cell is done by one.
    """
    import torch

    torch.set_num_threads(threads)
    dataset, split = _opened(data, split_name, cell.dataset, cell.split)
    where = choose_device(device)
    with locked(directory):
        if is_done(directory):  # by another process, since this one looked
            return
        before, started = sum(map(sum, seconds_of(directory / RUN))), time.perf_counter()
        result: dict[str, Any] = {}
        try:
            run = _trained(cell, directory / RUN, dataset, split, data=data, split_name=split_name, device=where)
            result |= {**run.result, "validation": run.result[DECIDING_METRIC]}
        except DivergedError as error:
            result |= {"validation": None, "diverged": str(error)}
        result["train_seconds"] = before + time.perf_counter() - started
        result["epoch_seconds"] = sum(map(median, filter(None, seconds_of(directory / RUN)))) or None
        if not cell.is_search and "diverged" not in result:
            result |= _evaluated(cell, run.scorer(dataset, split, device=where), directory, dataset, split)
        name = where.type if where.type == "cpu" else torch.cuda.get_device_name(where)
        about: dict[str, Any] = {
            "cell": asdict(cell) | {"name": cell.name},
            "spec": vars(cell.spec),
            "version": __version__,
        }
        about |= {"split_name": split_name, "device": name, "jobs": jobs}
        write_json(directory / RESULT, about | result)
        shutil.rmtree(directory / RUN, ignore_errors=True)


def _trained(
    cell: Cell, path: Path, dataset: SocialDataset, split: Split, *, data: Path, split_name: str, device: torch.device
) -> Run:
    return Training(
        cell.candidate.method,
        dataset,
        split,
        settings=cell.candidate.given,
        seed=cell.repetition,
        device=device,
        places={"dataset": str(data.absolute()), "split": split_name},
        mode=cell.candidate.mode,
    ).run(path, resume=True)


def _evaluated(cell: Cell, scorer: Scorer, directory: Path, dataset: SocialDataset, split: Split) -> dict[str, Any]:
    """The test part under every protocol; the place of every item is kept beside."""
    started = time.perf_counter()
    evaluations = {name: evaluate(scorer, dataset, split, protocol=name) for name in cell.protocols}
    result = {
        "evaluate_seconds": time.perf_counter() - started,
        "test": {name: found.summary() for name, found in evaluations.items()},
        "slices": {name: _slices(found, dataset, split) for name, found in evaluations.items()},
        "coverage": coverage(scorer, dataset, split) if "full" in cell.protocols else None,
    }
    write_parquet(directory / RANKS, _ranks(evaluations))
    return result


def seconds_of(run: Path) -> list[list[float]]:
    """What the steps of every finished epoch took, earlier attempts included; in mode separate, of each behavior."""
    found = []
    for path in sorted(run.rglob(TIMES)):
        lines = path.read_text().splitlines(keepends=True)
        found.append([float(json.loads(line)["seconds"]) for line in lines if line.endswith("\n")])  # one may be torn
    return found


def _again(directory: Path) -> str:
    return f"remove {directory}, and the same command trains it again"


@lru_cache(maxsize=4)
def _opened(data: Path, split_name: str, dataset_print: str, split_print: str) -> tuple[SocialDataset, Split]:
    """The data of a cell, which a process that runs many reads once."""
    dataset = SocialDataset.load(data)
    split = split_of(data, dataset, split_name)
    for what, began, now in (("dataset", dataset_print, dataset), ("split " + split_name, split_print, split)):
        if now.fingerprint != began:
            raise ArtifactError(
                f"{data}: changed since the comparison began ({what} was {began[:12]}, now {now.fingerprint[:12]}); "
                "restore it, or compare in another directory"
            )
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
