"""Methods compared on the same splits, with the same negatives and the same search budget.

The candidates of every row are trained on the first repetition and never see the test part; the best one on
validation is trained and evaluated on every repetition.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mcne import __version__
from mcne.data.dataset import SocialDataset
from mcne.data.split import VALIDATION, Split, split_of
from mcne.errors import ArtifactError, UsageError
from mcne.evaluation.protocol import CUTOFFS, Evaluation, ProtocolName, coverage, evaluate, measure
from mcne.evaluation.slices import sliced
from mcne.files import locked, read_json, read_parquet, write_json, write_parquet
from mcne.models.registry import METHODS, refusal
from mcne.studies import engine
from mcne.studies.engine import CELLS, RANKS, RUN, Kind, Result, Say, Task
from mcne.studies.plans import Names, Pair, PlanFile, RowTable, check_names, is_distinct, located, plan_of
from mcne.training import Mode, RunSpec, resolved

if TYPE_CHECKING:
    import torch

CHOSEN, FAILED = "chosen.json", "failed.json"
SLICE_METRICS = ("recall@5", "ndcg@5", "recall@20", "ndcg@20")


@dataclass(frozen=True)
class Candidate:
    """A method with all its settings, ready to train."""

    method: str
    mode: Mode
    given: Mapping[str, Any]

    @cached_property
    def resolved(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The method's config and the schedule with every default filled in."""
        return resolved(self.method, self.given)

    @property
    def schedule(self) -> dict[str, Any]:
        """How long it is trained."""
        return self.resolved[1]


@dataclass(frozen=True)
class Cell:
    """One training: a candidate on one repetition; a search cell never sees the test part."""

    candidate: Candidate
    repetition: int
    is_search: bool
    dataset: str  # fingerprint
    split: str  # fingerprint
    protocols: tuple[ProtocolName, ...]  # none of a search cell

    @property
    def spec(self) -> RunSpec:
        """The run that is trained for it."""
        candidate = self.candidate
        return RunSpec(candidate.method, candidate.mode, *candidate.resolved, self.repetition, self.dataset, self.split)

    @property
    def name(self) -> str:
        """A readable name with a digest of everything that decides the result: it is the same on any machine.

        Defaults count as if they had been given, so after a default has changed, older cells are not continued.
        """
        identity = {"run": self.spec.identity, "is_search": self.is_search, "protocols": sorted(self.protocols)}
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
        part = "search" if self.is_search else f"r{self.repetition}"
        return f"{self.candidate.method}-{part}-{digest}"


@dataclass(frozen=True)
class ComparedTable(RowTable):
    """A row of a comparison: by default, the method of its name."""

    modes: Names[Mode] = ("joint",)


@dataclass(frozen=True)
class ComparisonFile(PlanFile):
    """A comparison as its TOML file describes it."""

    split: str = "random"  # repetition r has split random-r; any other name: one split, r seeds the models alone
    protocols: Names[ProtocolName] = ("sampled",)
    reference: str = "mcne"
    methods: Mapping[str, ComparedTable] = field(default_factory=dict)
    paper: Mapping[str, Mapping[str, Pair]] = field(default_factory=dict)  # row -> behavior -> what the paper prints


@dataclass(frozen=True)
class Plan(ComparisonFile):
    """A comparison, with the rows to train now."""

    only: tuple[str, ...] = ()  # rows; none: all of them

    @classmethod
    def read(cls, path: Path, *, only: tuple[str, ...] = ()) -> Plan:
        """The plan of a TOML file, checked; ``only`` limits what is trained."""
        with plan_of(path, ComparisonFile, "mcne compare") as file:
            check_names("method", only, file.methods)
            return cls(**vars(file), only=only).checked()

    @classmethod
    def of_methods(cls, methods: Sequence[str], *, repetitions: int) -> Plan:
        """Methods by name with their default settings, on random splits; tested against mcne, or the first."""
        if not is_distinct(methods):
            raise UsageError(
                "a method is named twice",
                f"--methods {','.join(methods)}",
                "name each method once",
                value=list(methods),
            )
        check_names("method", methods, METHODS, place="--methods")
        title = f"{', '.join(methods)} with default settings"
        command = f"mcne compare --data DATA --methods {','.join(methods)} --seeds {repetitions} --out DIR"
        reference = "mcne" if "mcne" in methods else methods[0]
        return cls(title, command, repetitions, 1, reference, methods={name: ComparedTable() for name in methods})

    def checked(self) -> Plan:
        """The plan, after its rows, methods and settings are checked."""
        self.check_rows("methods", self.methods, paper=self.paper)
        for row, candidates in self.candidates.items():
            self.check_candidates(f"methods.{row}", candidates, lambda each: (each.mode, each.resolved), "method")
        return self

    @cached_property
    def candidates(self) -> dict[str, tuple[Candidate, ...]]:
        """Of every row, every mode with every combination of the searched settings."""
        return {
            row: tuple(
                Candidate(table.method or row, mode, each) for mode in table.modes for each in table.grid(self.training)
            )
            for row, table in self.methods.items()
        }

    @property
    def trained(self) -> list[str]:
        """The rows to train now; tables show all rows."""
        return [row for row in self.methods if not self.only or row in self.only]

    def split_name(self, repetition: int) -> str:
        """The split of a repetition."""
        return f"random-{repetition}" if self.split == "random" else self.split

    def check(self, dataset: SocialDataset, first: Split) -> None:
        """Refuse a plan that the data does not allow, before anything is trained."""
        for row in self.trained:
            for candidate in self.candidates[row]:
                if refused := refusal(candidate.method, dataset, is_alone=candidate.mode == "separate"):
                    raise refused.within(f"methods.{row}")
        for row, behaviors in self.paper.items():
            with located(f"paper.{row}"):
                check_names("behavior", behaviors, dataset.behavior_names)
        searched = [name for name, candidates in self.candidates.items() if len(candidates) > 1]
        if searched and not any(np.any(part == VALIDATION) for part in first.parts):
            raise UsageError(
                f"has no interactions to validate on, so the search of {', '.join(searched)} cannot choose settings",
                f"split {self.split_name(0)}",
                "make a split with a validation part, or give one value for each setting",
                value=self.split_name(0),
            )


@dataclass(frozen=True)
class Comparison:
    """A plan for a dataset, in its own directory; several processes can work on it at once."""

    plan: Plan
    data: Path
    out: Path
    dataset: SocialDataset
    splits: tuple[str, ...]  # fingerprints, by repetition

    @classmethod
    def open(cls, plan: Plan, data: Path, out: Path, *, kind: Kind = Kind.comparison) -> Comparison:
        """Start or continue; other content of the directory is refused, and so is data that changed or does not fit."""
        engine.check_kind(out, kind)
        dataset = SocialDataset.load(data)
        splits = [split_of(data, dataset, plan.split_name(repetition)) for repetition in range(plan.repetitions)]
        plan.check(dataset, splits[0])
        comparison = cls(plan, data, out, dataset, tuple(split.fingerprint for split in splits))
        prints = {plan.split_name(r): split for r, split in enumerate(comparison.splits)}
        engine.begin(out, kind, {"dataset": dataset.fingerprint} | prints)
        (out / CELLS).mkdir(exist_ok=True)
        return comparison

    def directory(self, cell: Cell) -> Path:
        """Where a cell is kept."""
        return engine.begun(self.out / CELLS / cell.name, cell.candidate.method)

    def cell(self, candidate: Candidate, repetition: int, *, is_search: bool) -> Cell:
        """One training of this comparison."""
        protocols = () if is_search else tuple(self.plan.protocols)
        return Cell(candidate, repetition, is_search, self.dataset.fingerprint, self.splits[repetition], protocols)

    def task(self, cell: Cell, titles: Mapping[str, str] = {}) -> Task:
        """The engine's task for a cell; messages use its title, if it has one."""
        work = partial(run_cell, cell, self.data, self.plan.split_name(cell.repetition))
        return Task(self.directory(cell), work, titles.get(cell.name, ""))

    def result(self, cell: Cell) -> dict[str, Any] | None:
        """The result of a cell, once it is finished."""
        return engine.result_of(self.directory(cell))

    def searched(self, row: str) -> list[Cell]:
        """The candidates of a row on the first repetition; none if there is no choice."""
        candidates = self.plan.candidates[row]
        return [self.cell(each, 0, is_search=True) for each in candidates] if len(candidates) > 1 else []

    def repeated(self, candidate: Candidate) -> list[Cell]:
        """A candidate on every repetition."""
        return [self.cell(candidate, r, is_search=False) for r in range(self.plan.repetitions)]

    def choose(self) -> dict[str, Candidate]:
        """The chosen candidate of every row whose search is finished."""
        return engine.choose(self.plan.candidates, lambda each: self.result(self.cell(each, 0, is_search=True)))

    def search_cells(self) -> list[Cell]:
        """What must be trained before candidates can be chosen."""
        return [cell for row in self.plan.trained for cell in self.searched(row)]

    def final_cells(self) -> list[Cell]:
        """The chosen candidates on every repetition; the first repetition of all comes first."""
        chosen = self.choose()
        cells = [self.repeated(chosen[row]) for row in self.plan.trained if row in chosen]
        return [cell for repetition in zip(*cells, strict=True) for cell in repetition]

    def run(self, *, jobs: int, device: str, say: Say, titles: Mapping[str, str] = {}) -> dict[str, str]:
        """Run what is missing; failures are reported, saved and returned by name, and retried next time."""
        run = partial(engine.run_missing, device=device, jobs=jobs, say=say, about=_about)
        failed = run([self.task(cell, titles) for cell in self.search_cells()], "search")
        chosen = self.choose()
        engine.write_results(self.out, {}, CHOSEN, {row: asdict(candidate) for row, candidate in chosen.items()})
        for row in self.plan.trained:
            if row not in chosen:
                say(f"{row}: {self.unfinished(row, None, failed)}; its repetitions wait")
        failed |= run([self.task(cell, titles) for cell in self.final_cells()], "repetitions")
        reasons = {name: str(error) for name, error in failed.items()}
        with locked(self.out, wait=True):  # others may add theirs
            write_json(self.out / FAILED, self.failures() | reasons)
        return reasons

    def failures(self) -> dict[str, str]:
        """By name, the cells of the plan that failed when they were last tried and are not finished since."""
        path = self.out / FAILED
        kept = read_json(path, step=engine.WRITTEN_AGAIN) if path.is_file() else {}
        cells = [cell for row in self.plan.candidates for cell in self.searched(row)]
        cells += [cell for candidate in self.choose().values() for cell in self.repeated(candidate)]
        by_name = {self.directory(cell).name: cell for cell in cells}
        return {name: str(kept[name]) for name, cell in by_name.items() if name in kept and self.result(cell) is None}

    def unfinished(self, row: str, chosen: Candidate | None, failures: Mapping[str, object]) -> str | None:
        """What a row is missing, in one line: repetitions, or parts of its search if no candidate is chosen yet."""
        what, cells = ("repetitions", self.repeated(chosen)) if chosen else ("configurations", self.searched(row))
        lacks = engine.lacking({self.directory(cell).name: self.result(cell) for cell in cells}, failures, what)
        return ("" if chosen else "undecided: ") + lacks if lacks else None


# one cell


def _about(result: Result) -> str:
    return f"{result['cell']['candidate']['mode']}, {engine.ending(result)}"


def run_cell(
    cell: Cell, data: Path, split_name: str, directory: Path, device: torch.device, jobs: int
) -> dict[str, Any]:
    """Train a cell, and evaluate it unless it belongs to the search; test ranks are saved beside the result."""
    from mcne.training import Training

    dataset, split = _opened(data, split_name, cell.dataset, cell.split)
    method, settings, mode = cell.candidate.method, cell.candidate.given, cell.candidate.mode
    places = {"dataset": str(data.absolute()), "split": split_name}
    training = Training(
        method, dataset, split, settings=settings, seed=cell.repetition, device=device, places=places, mode=mode
    )
    run, outcome = engine.train_timed(directory / RUN, lambda: training.run(directory / RUN, resume=True))
    result: dict[str, Any] = {
        "cell": asdict(cell) | {"name": cell.name},
        "spec": vars(cell.spec),
        "version": __version__,
        "split_name": split_name,
        "device": engine.device_name(device),
        "jobs": jobs,
        **outcome,
        "epoch_seconds": sum(map(median, filter(None, engine.epoch_seconds(directory / RUN)))) or None,
    }
    if run is None or cell.is_search:
        return result
    scorer = run.scorer(dataset, split, device=device)
    started = time.perf_counter()
    evaluations = {name: evaluate(scorer, dataset, split, protocol=name) for name in cell.protocols}
    result["evaluate_seconds"] = time.perf_counter() - started
    result["test"] = {name: evaluation.summary() for name, evaluation in evaluations.items()}
    result["slices"] = {name: _slices(evaluation, dataset, split) for name, evaluation in evaluations.items()}
    result["coverage"] = coverage(scorer, dataset, split) if "full" in cell.protocols else None
    write_parquet(directory / RANKS, _ranks(evaluations))
    return result


@lru_cache(maxsize=4)
def _opened(data: Path, split_name: str, dataset_print: str, split_print: str) -> tuple[SocialDataset, Split]:
    """The data of a cell, which a process that runs many reads once."""
    dataset = SocialDataset.load(data)
    split = split_of(data, dataset, split_name)
    for what, before, now in (("dataset", dataset_print, dataset), ("split " + split_name, split_print, split)):
        if now.fingerprint != before:
            raise ArtifactError(
                f"changed since the comparison was started (the {what} was {before[:12]} and is now "
                f"{now.fingerprint[:12]})",
                data,
                "restore it, or choose another --out",
                value=now.fingerprint,
                allowed=[before],
            )
    return dataset, split


def _slices(evaluation: Evaluation, dataset: SocialDataset, split: Split) -> dict[str, Any]:
    """The means over behaviors of every slice, and how many users it has."""
    slices = {}
    for name, part in sliced(evaluation, dataset, split).items():
        users = sum(len(behavior.users) for behavior in part.behaviors.values())
        slices[name] = {"users": users} | {metric: part.overall(metric) for metric in SLICE_METRICS}
    return slices


def _ranks(evaluations: Mapping[ProtocolName, Evaluation]) -> pa.Table:
    """A row for every scored item of a user: its rank, from 0, under each protocol."""
    parts = []
    for name, behavior in next(iter(evaluations.values())).behaviors.items():
        names = pa.array([name] * len(behavior.items), pa.string()).dictionary_encode()
        users = np.repeat(behavior.users, behavior.counts)
        columns: dict[str, Any] = {"behavior": names, "user": users, "item": behavior.items}
        columns |= {protocol: each.behaviors[name].ranks.astype(np.int32) for protocol, each in evaluations.items()}
        parts.append(pa.table(columns))
    return pa.concat_tables(parts).unify_dictionaries()


def read_evaluation(directory: Path, protocol: ProtocolName, names: Sequence[str]) -> Evaluation:
    """The evaluation of a finished cell on the test part of these behaviors, from the ranks of its items."""
    ranks = read_parquet(directory / RANKS, step=engine.removal(directory))
    behaviors = {}
    for name in names:
        mine = ranks.filter(pc.equal(ranks["behavior"], name))
        user, item, rank = (mine[column].to_numpy() for column in ("user", "item", protocol))
        behaviors[name] = measure(user, item, ranks=rank.astype(np.int64), cutoffs=CUTOFFS)
    return Evaluation("test", protocol, 0, CUTOFFS, behaviors)
