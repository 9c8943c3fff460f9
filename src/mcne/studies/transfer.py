"""A behavior added to trained models in several ways, compared with methods trained from scratch.

For every repetition a base is trained on all other behaviors. The candidates of every row are trained and measured on
the first repetition; the one that is best on validation there is trained on the others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from mcne.data.dataset import SocialDataset
from mcne.data.split import split_of
from mcne.errors import UsageError
from mcne.evaluation.protocol import Evaluation, ProtocolName, evaluate
from mcne.evaluation.significance import Comparisons, averaged
from mcne.extend.checks import Control, TransferConfig
from mcne.files import write_parquet
from mcne.models.registry import first_name
from mcne.models.settings import TrainingSettings, parse
from mcne.studies import engine
from mcne.studies.comparison import read_evaluation
from mcne.studies.comparison_tables import CHOICES, TWO, Row, against, beside_the_expected, number, write_tables
from mcne.studies.engine import BASES, CELLS, RANKS, RUN, Kind, Say, Spread, Task, percent, spread_of
from mcne.studies.plans import MethodTable, Pair, PlanFile, RowTable, plan_of
from mcne.text import NO_VALUE, Table, signed_interval, signed_percent
from mcne.training import Run, resolved
from mcne.training.run import TRANSFER, schedule_of

if TYPE_CHECKING:
    import torch

PROTOCOL: ProtocolName = "sampled"
METRICS = (*TWO, "hits_ideal_ndcg@5")
NOTE = (
    "Mean ± sd over splits, in percent; seconds by the clock, with validation and what is compiled at first. "
    "A transfer's numbers are its masks and its new items; what it was brought to was trained before. The last of the "
    "metrics builds the ideal from the hits found, for comparison with the paper's figures."
)
CHOICES_NOTE = (
    "Chosen by validation on the first split, for all splits; a row that learns all behaviors is validated on their "
    "mean, the others on the new one. Settings not named are the method's defaults, of a transfer those of what it is "
    "brought to."
)


@dataclass(frozen=True)
class Way:
    """One way to serve the new behavior, with all its settings: a transfer, or a method from scratch."""

    method: str
    on: str
    given: Mapping[str, Any]

    @property
    def is_transfer(self) -> bool:
        """Whether it takes a trained model."""
        return self.method == TRANSFER

    @property
    def schedule(self) -> dict[str, Any]:
        """How long it is trained, defaults included; a wrong setting is refused."""
        if self.is_transfer:
            _, settings = parse([TransferConfig, TrainingSettings], self.given)
            return schedule_of(settings)
        return resolved(self.method, self.given)[1]

    @property
    def resolved(self) -> Any:
        """Its settings, with defaults unless it is a transfer, whose defaults are those of its base."""
        return dict(self.given) if self.is_transfer else resolved(self.method, self.given)

    def digest(self, base: Way) -> str:
        """The identity of what it computes from a seed and data; a transfer depends on its base."""
        identity = [first_name(self.method), self.on, self.resolved, base.resolved if self.is_transfer else None]
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class WayTable(RowTable):
    """A row of a transfer study: a transfer, unless it names a method."""

    on: Literal["new", "all"] = "new"  # what a method learns from: the new behavior alone, or all of them together
    control: Control | None = None


@dataclass(frozen=True)
class TransferPlan(PlanFile):
    """A transfer study as its TOML file describes it."""

    behavior: str = ""
    reference: str = "transfer"
    base: MethodTable = field(default_factory=MethodTable)  # what is trained on all other behaviors
    rows: Mapping[str, WayTable] = field(default_factory=dict)
    paper: Mapping[str, Pair] = field(default_factory=dict)  # row -> what the paper prints

    @classmethod
    def read(cls, path: Path) -> TransferPlan:
        """The plan of a TOML file, checked."""
        with plan_of(path, cls, "mcne compare-transfer") as plan:
            if not plan.behavior:
                raise UsageError(
                    "is missing: the name of the new behavior", "behavior", 'add it, such as behavior = "Sports"'
                )
            plan.check_rows("rows", plan.rows, paper=plan.paper)
            tables = {"base": (plan.base_way,)} | {f"rows.{row}": ways for row, ways in plan.ways.items()}
            for place, ways in tables.items():
                plan.check_candidates(place, ways, lambda way: (way.schedule, way.resolved))
            return plan

    @cached_property
    def base_way(self) -> Way:
        """How the base is trained."""
        return Way(self.base.method or "mcne", "new", {**self.training, **self.base.settings})

    @cached_property
    def ways(self) -> dict[str, tuple[Way, ...]]:
        """Of every row, every combination of the searched settings; validation chooses one."""
        ways = {}
        for row, table in self.rows.items():
            method = table.method or TRANSFER
            if method != TRANSFER and table.control is not None:
                raise UsageError(
                    "only a transfer, which is a row without a method, has a control",
                    f"rows.{row}.control",
                    "remove control, or method",
                    value=table.control,
                )
            control = {"control": table.control or "none"} if method == TRANSFER else {}
            ways[row] = tuple(Way(method, table.on, each) for each in table.grid(self.training, **control))
        return ways


@dataclass(frozen=True)
class TransferStudy:
    """A plan for a dataset, in its own directory; finished results are kept."""

    plan: TransferPlan
    data: Path
    out: Path
    dataset: SocialDataset

    @classmethod
    def open(cls, plan: TransferPlan, data: Path, out: Path) -> TransferStudy:
        """Start or continue; other content of the directory is refused, and data that changed or lacks the behavior."""
        from mcne.extend.transfer import without  # imports torch, so mistakes in plans are reported first

        engine.check_kind(out, Kind.transfer)
        dataset = SocialDataset.load(data)
        splits = {name: split_of(data, dataset, name) for name in (f"random-{r}" for r in range(plan.repetitions))}
        without(dataset, splits["random-0"], behavior=plan.behavior)
        prints = {name: split.fingerprint for name, split in splits.items()}
        engine.begin(out, Kind.transfer, {"behavior": plan.behavior, "dataset": dataset.fingerprint} | prints)
        return cls(plan, data, out, dataset)

    def directory(self, way: Way, repetition: int, place: str = CELLS) -> Path:
        """Where a way on a repetition is kept."""
        name = f"{way.method}-r{repetition}-{way.digest(self.plan.base_way)}"
        return engine.begun(self.out / place / name, way.method)

    def base(self, repetition: int) -> Path:
        """Where the model of a repetition is kept that the behavior is brought to."""
        return self.directory(self.plan.base_way, repetition, BASES)

    def result(self, way: Way, repetition: int) -> dict[str, Any] | None:
        """The result of a way on a repetition, once it is finished."""
        return engine.result_of(self.directory(way, repetition))

    def evaluation(self, way: Way, repetition: int) -> Evaluation:
        """The test part of a finished way, user by user."""
        return read_evaluation(self.directory(way, repetition), PROTOCOL, [self.plan.behavior])

    def choose(self) -> dict[str, Way]:
        """The chosen way of every row whose search is finished, for all repetitions; the test part is not used."""
        return engine.choose(self.plan.ways, lambda way: self.result(way, 0))

    def run(self, *, jobs: int, device: str, say: Say) -> dict[str, str]:
        """Do what is missing; failures are reported and returned by name, and retried next time."""
        run = partial(engine.run_missing, device=device, jobs=jobs, say=say, about=engine.ending)
        repetitions = range(self.plan.repetitions)
        rows = {**self.plan.ways, **{row: (way,) for row, way in self.choose().items()}}
        transfers = [way for ways in rows.values() for way in ways if way.is_transfer]
        needed = [r for r in repetitions if any(self.result(way, r) is None for way in transfers)]
        bases = [self._task(self.plan.base_way, r, is_base=True) for r in needed]
        failed = run(bases, "bases")
        results = {task.directory.name: engine.result_of(task.directory) for task in bases}
        diverged = {name: result["diverged"] for name, result in results.items() if result and "diverged" in result}
        if not failed and not diverged:
            failed |= run([self._task(way, 0) for ways in self.plan.ways.values() for way in ways], "first repetition")
            chosen = self.choose().values()
            failed |= run([self._task(way, r) for r in repetitions for way in chosen], "chosen, all repetitions")
        return {name: str(error) for name, error in failed.items()} | diverged

    def _task(self, way: Way, repetition: int, *, is_base: bool = False) -> Task:
        base = None if is_base else self.base(repetition)
        work = partial(run_training, way, repetition, self.plan.behavior, self.data, base)
        return Task(self.base(repetition) if is_base else self.directory(way, repetition), work, keeps_run=is_base)


# one training


def run_training(
    way: Way, seed: int, behavior: str, data: Path, base: Path | None, directory: Path, device: torch.device, jobs: int
) -> dict[str, Any]:
    """Train a way or, without a ``base``, one for others; a way's ranks of test items are kept beside the result."""
    from mcne.extend.transfer import ParameterCounts, transfer, without
    from mcne.training import Training

    dataset = SocialDataset.load(data)
    split_name = f"random-{seed}"
    split = split_of(data, dataset, split_name)
    if base is None:
        dataset, split = without(dataset, split, behavior=behavior)
    elif way.on == "new":
        at = dataset.behavior_names.index(behavior)
        dataset = dataset.only(at)
        split = split.only(at, dataset)
    places = {"dataset": str(data.absolute()), "split": split_name}
    training = Training(way.method, dataset, split, settings=way.given, seed=seed, device=device, places=places)

    def train() -> Run:
        path = directory / RUN
        if base is None or not way.is_transfer:
            return training.run(path, resume=True)
        return transfer(Run.open(base / RUN).embeddings, training, path, behavior=behavior, resume=True)

    run, outcome = engine.train_timed(directory / RUN, train)
    cell = asdict(way) | {"repetition": seed}
    result = {"cell": cell, "device": engine.device_name(device), "jobs": jobs, **outcome}
    if run is None or base is None:
        return result
    evaluation = evaluate(run.scorer(dataset, split), dataset, split, protocol=PROTOCOL)
    new = evaluation.behaviors[behavior]
    columns: dict[str, Any] = {"behavior": [behavior] * len(new.items), "user": np.repeat(new.users, new.counts)}
    columns |= {"item": new.items, PROTOCOL: new.ranks.astype(np.int32)}
    write_parquet(directory / RANKS, pa.table(columns))
    counted = asdict(ParameterCounts.of(run)) if way.is_transfer else None
    return result | {"test": evaluation.summary()["behaviors"][behavior], "counted": counted}


# tables


class TransferRow(Row):
    """A row of a transfer study, with its chosen way on the splits that are done."""

    def metric(self, name: str) -> Spread | None:
        """Of the test part."""
        return spread_of([result["test"][name] for result in self.results])

    def numbers(self) -> tuple[int, int | None]:
        """How many parameters were trained, and for a transfer how many of them are masks."""
        counted = self.results[0]["counted"]
        if counted is None:
            return self.results[0]["parameters"], None
        return counted["masks"] + counted["items"], counted["masks"]

    def to_json(self) -> dict[str, Any]:
        """Everything that the tables say of it, and the figures of each split."""
        numbers, masks = self.numbers()
        chosen, fixed = self.settings()
        data = {"name": self.name, "way": asdict(self.candidate), "numbers_trained": numbers, "of_masks": masks}
        data |= {"searched": len(self.candidates), "diverged": self.diverged, "validation": self.validation}
        data |= {"chosen": chosen, "fixed": fixed, "schedule": self.candidate.schedule}
        data["metrics"] = {name: self.metric(name) for name in METRICS}
        data["splits"] = [{name: result["test"][name] for name in METRICS} for result in self.results]
        data["train_seconds"] = [result["train_seconds"] for result in self.results]
        return data


def finished_rows(study: TransferStudy) -> list[TransferRow]:
    """The rows with results, in the plan's order."""
    planned = study.plan.repetitions
    rows = []
    for name, way in study.choose().items():
        repeated = [study.result(way, repetition) for repetition in range(planned)]
        results = tuple(result for result in repeated if result is not None and "test" in result)
        candidates = study.plan.ways[name]
        searched = tuple(study.result(each, 0) for each in candidates)
        validation = None if repeated[0] is None else repeated[0]["validation"]
        rows.append(TransferRow(name, way, candidates, searched, validation, planned, results, "splits"))
    return [row for row in rows if row.results]


def write(study: TransferStudy, *, rows: Sequence[TransferRow]) -> list[Path]:
    """Write ``table.md``, ``table.html`` and ``table.json`` to the study's directory."""
    tests = _tests(study, rows)
    plan = study.plan
    dataset = study.dataset
    results = [engine.result_of(study.base(repetition)) for repetition in range(plan.repetitions)]
    bases = [result for result in results if result and "parameters" in result]
    seconds = spread_of([result["train_seconds"] for result in bases])
    costs = "" if seconds is None else f" ({bases[0]['parameters']:,} numbers, {seconds['mean']:.1f} s)"
    known = ", ".join(name for name in dataset.behavior_names if name != plan.behavior)
    about = (
        f"{plan.behavior} of {dataset.name}, {dataset.n_users:,} users, brought to {plan.base_way.method} that had "
        f"learned {known}{costs}. Made by `{plan.command}`."
    )
    means = [(row.name, row.label, [row.metric(metric) for metric in TWO]) for row in rows]
    tables = [_quality(study, rows), *_tested(plan.reference, tests), *beside_the_expected(plan.expected, means)]
    choices = tuple((row.label, *row.choices()) for row in rows)
    tables.append(Table("What was searched and chosen", ("", *CHOICES), choices, note=CHOICES_NOTE))
    data: dict[str, Any] = {"title": plan.title, "behavior": plan.behavior, "dataset": dataset.fingerprint}
    data |= {"rows": [row.to_json() for row in rows], "paper": dict(plan.paper), "expected": dict(plan.expected)}
    data["tests"] = {metric: {name: asdict(each.overall) for name, each in of.items()} for metric, of in tests.items()}
    return write_tables(study.out, plan.title, [about], tables, data)


def _quality(study: TransferStudy, rows: Sequence[TransferRow]) -> Table:
    header = ("", "numbers trained", "of masks", "train s", "R@5", "N@5", "hits-ideal N@5", "paper R@5", "paper N@5")
    cells = []
    for row in rows:
        numbers, masks = row.numbers()
        trained = (f"{numbers:,}", NO_VALUE if masks is None else f"{masks:,}")
        paper = study.plan.paper.get(row.name)
        printed = (NO_VALUE, NO_VALUE) if paper is None else (f"{value:.2f}" for value in paper)
        quality = (percent(row.metric(name)) for name in METRICS)
        cells.append((row.label, *trained, number(row.cost("train_seconds"), ".1f"), *quality, *printed))
    return Table(f"{study.plan.behavior}: what is trained, and how it ranks", header, tuple(cells), note=NOTE)


def _tests(study: TransferStudy, rows: Sequence[TransferRow]) -> dict[str, dict[str, Comparisons]]:
    """The reference against every other row that has all splits, by metric."""
    splits = range(study.plan.repetitions)
    whole = {row.name: [study.evaluation(row.candidate, r) for r in splits] for row in rows if row.is_whole}
    tests = {}
    for metric in TWO:
        scores = {name: averaged(each, metric) for name, each in whole.items()}
        if compared := against(study.plan.reference, scores):
            tests[metric] = compared
    return tests


def _tested(reference: str, tests: Mapping[str, Mapping[str, Comparisons]]) -> list[Table]:
    rows = []
    for metric, rivals in tests.items():
        for rival, each in rivals.items():
            test = each.overall
            interval = signed_interval(test.low, test.high)
            rows.append((rival, metric, signed_percent(test.difference), interval, f"{test.adjusted_p:.4f}"))
    header = ("rival", "metric", f"{reference} better by", "95 % interval", "p after Holm")
    note = "Paired bootstrap over users, whose scores are averaged over splits."
    return [Table(f"{reference} against the others", header, tuple(rows), note=note)] if rows else []
