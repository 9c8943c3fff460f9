"""What a transfer study has found, as Markdown, HTML and JSON: quality beside what was trained, chosen, how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mcne.evaluation.significance import Comparison, averaged, compare
from mcne.files import overwrite, write_json
from mcne.studies.cell import is_done, read_result
from mcne.studies.summary import Spread
from mcne.studies.tables import (
    CHOICES,
    beside_the_expected,
    chosen_and_fixed,
    listed,
    percent,
    schedule_cell,
    search_cells,
)
from mcne.studies.transfer_plan import Way
from mcne.studies.transfer_study import TransferStudy
from mcne.text import Table, html_page, markdown_page, signed_interval, signed_percent

METRICS = ("recall@5", "ndcg@5", "hits_ideal_ndcg@5")
TESTED = ("recall@5", "ndcg@5")
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
class Row:
    """One way with what was chosen for it, on the splits that are done."""

    name: str
    way: Way
    candidates: tuple[Way, ...]  # searched
    diverged: int  # … of them
    validation: float | None  # of the chosen one, on the first split
    planned: int
    results: tuple[Mapping[str, Any], ...]

    @property
    def label(self) -> str:
        """The name, and with splits missing how many there are."""
        done = len(self.results)
        return self.name if done == self.planned else f"{self.name} ({done} of {self.planned} splits)"

    def metric(self, name: str) -> Spread | None:
        """Of the test part."""
        return Spread.of([result["test"][name] for result in self.results])

    def seconds(self) -> Spread | None:
        """Of the training."""
        return Spread.of([result["train_seconds"] for result in self.results])

    def numbers(self) -> tuple[int, int | None]:
        """How many were trained, and of a transfer how many of them are masks."""
        first = self.results[0]
        counted = first["counted"]
        return (
            (first["parameters"], None) if counted is None else (counted["masks"] + counted["items"], counted["masks"])
        )

    def settings(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What was chosen of what was searched, and what the plan has fixed."""
        return chosen_and_fixed(self.way.given, [way.given for way in self.candidates], self.way.schedule())

    def to_json(self) -> dict[str, Any]:
        """Everything that the tables say of it, and each split's own figures."""
        (numbers, masks), (chosen, fixed) = self.numbers(), self.settings()
        metrics = {name: None if (found := self.metric(name)) is None else asdict(found) for name in METRICS}
        splits = [{name: result["test"][name] for name in METRICS} for result in self.results]
        seconds = [result["train_seconds"] for result in self.results]
        said = {"name": self.name, "way": asdict(self.way), "numbers_trained": numbers, "of_masks": masks}
        said |= {"searched": len(self.candidates), "diverged": self.diverged, "validation": self.validation}
        said |= {"chosen": chosen, "fixed": fixed, "schedule": self.way.schedule()}
        return said | {"metrics": metrics, "splits": splits, "train_seconds": seconds}


def write(study: TransferStudy, *, rows: Sequence[Row]) -> list[Path]:
    """Leave ``table.md``, ``table.html`` and ``table.json`` in the study's directory."""
    tests = _tests(study, rows)
    plan, dataset = study.plan, study.dataset
    known = ", ".join(name for name in dataset.behavior_names if name != plan.behavior)
    about = [
        f"{plan.behavior} of {dataset.name}, {dataset.n_users:,} users, brought to {plan.base.method} that had learned "
        f"{known}{_before(study)}. Made by `{plan.command}`."
    ]
    made = [_quality(study, rows), *_tested(plan.reference, tests)]
    made += beside_the_expected(plan.expected, [(row.name, row.label, [*map(row.metric, TESTED)]) for row in rows])
    made.append(_choices(rows))
    pages = {"table.md": markdown_page(plan.title, about, made), "table.html": html_page(plan.title, about, made)}
    data: dict[str, Any] = {"title": plan.title, "behavior": plan.behavior, "dataset": dataset.fingerprint}
    data |= {"rows": [row.to_json() for row in rows], "paper": dict(plan.paper), "expected": dict(plan.expected)}
    data |= {"tests": {metric: {name: asdict(test) for name, test in found.items()} for metric, found in tests.items()}}
    for name, text in pages.items():
        overwrite(study.out / name, text.encode())
    write_json(study.out / "table.json", data)
    return [study.out / name for name in (*pages, "table.json")]


def finished_rows(study: TransferStudy) -> list[Row]:
    """The rows of which something is done, in the plan's order."""
    rows = [_row(study, name, way) for name, way in study.choose().items()]
    return [row for row in rows if row.results]


def _row(study: TransferStudy, name: str, way: Way) -> Row:
    """A row with what is finished."""
    found = [study.result(way, repetition) for repetition in range(study.plan.repetitions)]
    results = tuple(result for result in found if result is not None and "test" in result)
    candidates = study.plan.rows[name]
    searched = [study.result(each, 0) for each in candidates]
    diverged = sum(result is not None and "diverged" in result for result in searched)
    validation = None if found[0] is None else found[0]["validation"]
    return Row(name, way, candidates, diverged, validation, study.plan.repetitions, results)


def _before(study: TransferStudy) -> str:
    """What it had taken to learn the other behaviors, on average over the splits that are done."""
    places = [study.base(repetition) for repetition in range(study.plan.repetitions)]
    found = [result for place in places if is_done(place) and "parameters" in (result := read_result(place))]
    if not found:
        return ""
    seconds = Spread.of([result["train_seconds"] for result in found])
    assert seconds is not None
    return f" ({found[0]['parameters']:,} numbers, {seconds.mean:.1f} s)"


def _quality(study: TransferStudy, rows: Sequence[Row]) -> Table:
    header = ("", "numbers trained", "of masks", "train s", "R@5", "N@5", "hits-ideal N@5", "paper R@5", "paper N@5")
    cells = []
    for row in rows:
        (numbers, masks), seconds = row.numbers(), row.seconds()
        paper = study.plan.paper.get(row.name)
        cells.append(
            (
                row.label,
                f"{numbers:,}",
                "–" if masks is None else f"{masks:,}",
                "–" if seconds is None else f"{seconds.mean:.1f}",
                *(percent(row.metric(name)) for name in METRICS),
                *(("–", "–") if paper is None else (f"{value:.2f}" for value in paper)),
            )
        )
    return Table(f"{study.plan.behavior}: what is trained, and how it ranks", header, tuple(cells), note=NOTE)


def _choices(rows: Sequence[Row]) -> Table:
    """What was searched, chosen and fixed."""
    cells = tuple(
        (
            row.label,
            *search_cells(len(row.candidates), row.diverged, row.validation),
            *map(listed, row.settings()),
            schedule_cell(row.way.schedule(), row.results[0]["epochs"]),
        )
        for row in rows
    )
    return Table("What was searched and chosen", ("", *CHOICES), cells, note=CHOICES_NOTE)


def _tests(study: TransferStudy, rows: Sequence[Row]) -> dict[str, dict[str, Comparison]]:
    """The reference against every other row that has all splits, by metric."""
    whole = {row.name: row.way for row in rows if len(row.results) == row.planned}
    reference = whole.pop(study.plan.reference, None)
    if reference is None or not whole:
        return {}
    splits = range(study.plan.repetitions)
    ours = [study.evaluation(reference, r) for r in splits]
    theirs = {name: [study.evaluation(way, r) for r in splits] for name, way in whole.items()}
    found = {}
    for metric in TESTED:
        rivals = {name: averaged(each, metric) for name, each in theirs.items()}
        found[metric] = {name: each.overall for name, each in compare(averaged(ours, metric), rivals).items()}
    return found


def _tested(reference: str, tests: Mapping[str, Mapping[str, Comparison]]) -> list[Table]:
    rows = tuple(
        (name, metric, signed_percent(t.difference), signed_interval(t.low, t.high), f"{t.adjusted_p:.4f}")
        for metric, found in tests.items()
        for name, t in found.items()
    )
    header = ("rival", "metric", f"{reference} better by", "95 % interval", "p after Holm")
    note = "Paired bootstrap over users, whose scores are averaged over splits."
    return [Table(f"{reference} against the others", header, rows, note=note)] if rows else []
