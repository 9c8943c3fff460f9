"""The tables of a transfer study: quality beside what was trained, what was chosen, and how long it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from mcne.evaluation.significance import Comparison, averaged, compare
from mcne.studies.comparison_tables import CHOICES, TWO, Row, beside_the_expected, number, write_tables
from mcne.studies.engine import Spread, percent, result_of
from mcne.studies.transfer import TransferStudy
from mcne.text import NO_VALUE, Table, signed_interval, signed_percent

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


class TransferRow(Row):
    """A row of a transfer study, with its chosen way on the splits that are done."""

    UNIT: ClassVar[str] = "splits"

    def metric(self, name: str) -> Spread | None:
        """Of the test part."""
        return Spread.of([result["test"][name] for result in self.results])

    def numbers(self) -> tuple[int, int | None]:
        """How many were trained, and of a transfer how many of them are masks."""
        counted = self.results[0]["counted"]
        if counted is None:
            return self.results[0]["parameters"], None
        return counted["masks"] + counted["items"], counted["masks"]

    def to_json(self) -> dict[str, Any]:
        """Everything that the tables say of it, and the figures of each split."""
        numbers, masks = self.numbers()
        chosen, fixed = self.settings()
        spreads = {name: self.metric(name) for name in METRICS}
        return {
            "name": self.name,
            "way": asdict(self.candidate),
            "numbers_trained": numbers,
            "of_masks": masks,
            "searched": len(self.candidates),
            "diverged": self.diverged,
            "validation": self.validation,
            "chosen": chosen,
            "fixed": fixed,
            "schedule": self.candidate.schedule,
            "metrics": {name: None if spread is None else asdict(spread) for name, spread in spreads.items()},
            "splits": [{name: result["test"][name] for name in METRICS} for result in self.results],
            "train_seconds": [result["train_seconds"] for result in self.results],
        }


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
        rows.append(TransferRow(name, way, candidates, searched, validation, planned, results))
    return [row for row in rows if row.results]


def write(study: TransferStudy, *, rows: Sequence[TransferRow]) -> list[Path]:
    """Write ``table.md``, ``table.html`` and ``table.json`` to the study's directory."""
    tests = _tests(study, rows)
    plan = study.plan
    dataset = study.dataset
    results = [result_of(study.base(repetition)) for repetition in range(plan.repetitions)]
    bases = [result for result in results if result and "parameters" in result]
    seconds = Spread.of([result["train_seconds"] for result in bases])
    costs = "" if seconds is None else f" ({bases[0]['parameters']:,} numbers, {seconds.mean:.1f} s)"
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
    data["tests"] = {metric: {name: asdict(test) for name, test in of.items()} for metric, of in tests.items()}
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


def _tests(study: TransferStudy, rows: Sequence[TransferRow]) -> dict[str, dict[str, Comparison]]:
    """The reference against every other row that has all splits, by metric."""
    splits = range(study.plan.repetitions)
    whole = {row.name: [study.evaluation(row.candidate, r) for r in splits] for row in rows if row.is_whole}
    reference = whole.pop(study.plan.reference, None)
    if reference is None or not whole:
        return {}
    tests = {}
    for metric in TWO:
        rivals = {name: averaged(each, metric) for name, each in whole.items()}
        compared = compare(averaged(reference, metric), rivals)
        tests[metric] = {name: each.overall for name, each in compared.items()}
    return tests


def _tested(reference: str, tests: Mapping[str, Mapping[str, Comparison]]) -> list[Table]:
    rows = tuple(
        (name, metric, signed_percent(t.difference), signed_interval(t.low, t.high), f"{t.adjusted_p:.4f}")
        for metric, rivals in tests.items()
        for name, t in rivals.items()
    )
    header = ("rival", "metric", f"{reference} better by", "95 % interval", "p after Holm")
    note = "Paired bootstrap over users, whose scores are averaged over splits."
    return [Table(f"{reference} against the others", header, rows, note=note)] if rows else []
