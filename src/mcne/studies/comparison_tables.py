"""The tables of a comparison: quality, the paper's numbers, slices, tests, costs, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mcne.evaluation import significance
from mcne.evaluation.metrics import HEADLINE, USUAL
from mcne.evaluation.protocol import CUTOFFS
from mcne.evaluation.significance import RESAMPLES, Comparisons, UserScores, averaged
from mcne.evaluation.slices import SLICES
from mcne.files import locked, write_parquet
from mcne.studies.comparison import Comparison, read_evaluation
from mcne.studies.engine import Result, Spread, percent, spread_of, write_results
from mcne.text import NO_VALUE, Table, html_page, markdown_page, p_value, signed_interval, signed_percent

PROTOCOL_TITLES = {
    "sampled": "Against 100 random items of the behavior (the paper's protocol)",
    "full": "Against all items of the behavior",
    "popular": "Against 100 items drawn by popularity",
}
TWO = tuple(HEADLINE)
SHORT = ("R@5", "N@5")
CHOICES = ("searched", "validation NDCG@5", "chosen", "fixed", "schedule")


@dataclass(frozen=True)
class Row:
    """A row of a study: what was searched and chosen for it, and the results of its repetitions."""

    name: str
    candidate: Any  # the chosen one; it has ``given`` settings and a ``schedule``
    candidates: tuple[Any, ...]
    searched: tuple[Result | None, ...]  # results of the candidates in the search, if there was one
    validation: float | None  # of the chosen one, in the search
    planned: int  # repetitions
    results: tuple[Result, ...]  # of the finished ones
    unit: str = "repetitions"  # as tables call them

    @property
    def diverged(self) -> int:
        """How many candidates diverged in the search."""
        return sum(result is not None and "diverged" in result for result in self.searched)

    @property
    def is_whole(self) -> bool:
        """Whether every repetition is finished."""
        return len(self.results) == self.planned

    @property
    def label(self) -> str:
        """The name; if repetitions are missing, also how many are finished."""
        return self.name if self.is_whole else f"{self.name} ({len(self.results)} of {self.planned} {self.unit})"

    def cost(self, name: str) -> Spread | None:
        """``parameters``, ``train_seconds`` or ``evaluate_seconds``."""
        return spread_of([result[name] for result in self.results])

    def settings(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The settings in which candidates differ, and the others that do not belong to the schedule."""
        others = [candidate.given for candidate in self.candidates]
        given = self.candidate.given
        chosen = {name: value for name, value in given.items() if any(other[name] != value for other in others)}
        schedule = self.candidate.schedule
        return chosen, {name: given[name] for name in given if name not in chosen and name not in schedule}

    def choices(self, mode: str = "") -> tuple[str, ...]:
        """The cells of a table under ``CHOICES``."""
        searched = f"{len(self.candidates)}" + (f", {self.diverged} diverged" if self.diverged else "")
        validation = NO_VALUE if self.validation is None else f"{100 * self.validation:.2f}"
        chosen, fixed = self.settings()
        shown = ", ".join(filter(None, (mode, listed(chosen) if chosen or not mode else "")))
        limits = self.candidate.schedule
        schedule = f"{limits['epochs']} epochs, patience {limits['patience']}"
        if limits["evaluate_every"] > 1:
            schedule += f", validated every {limits['evaluate_every']}"
        if not np.any(self.results[0]["epochs"]):  # a list in mode separate
            schedule = "no epochs"
        return searched, validation, shown, listed(fixed), schedule


class ComparisonRow(Row):
    """A row of a comparison."""

    def metric(self, protocol: str, behavior: str | None, metric: str) -> Spread | None:
        """A metric of a behavior, or its mean over behaviors."""
        tests = [result["test"][protocol] for result in self.results]
        return spread_of(
            [(test["mean"] if behavior is None else test["behaviors"][behavior])[metric] for test in tests]
        )

    def coverage(self, cutoff: int) -> Spread | None:
        """How much of a catalog is recommended to anyone, averaged over behaviors."""
        known = [result["coverage"].values() for result in self.results if result["coverage"] is not None]
        return spread_of([float(np.mean([each[f"coverage@{cutoff}"] for each in one])) for one in known])


@dataclass(frozen=True)
class Summary:
    """Everything that the tables show."""

    comparison: Comparison
    rows: tuple[ComparisonRow, ...]  # in the order of the plan
    unfinished: Mapping[str, str]  # what rows lack, in the tables or not

    @cached_property
    def scores(self) -> dict[tuple[str, str], dict[str, UserScores]]:
        """By protocol and metric, the scores of users by every method that has all repetitions."""
        comparison = self.comparison
        names = comparison.dataset.behavior_names
        scores: dict[tuple[str, str], dict[str, UserScores]] = {}
        for protocol in comparison.plan.protocols:
            evaluations = {}
            for row in self.rows:
                if row.is_whole:
                    directories = [comparison.directory(cell) for cell in comparison.repeated(row.candidate)]
                    evaluations[row.name] = [read_evaluation(each, protocol, names) for each in directories]
            for metric in TWO:
                scores[protocol, metric] = {name: averaged(each, metric) for name, each in evaluations.items()}
        return scores

    def tests(self, protocol: str, metric: str) -> dict[str, Comparisons]:
        """The reference against every other method that has all repetitions."""
        return against(self.comparison.plan.reference, self.scores[protocol, metric])

    def users(self) -> pa.Table:
        """Every tested metric by method, behavior and user, averaged over repetitions."""
        parts = []
        for method in next(iter(self.scores.values()), {}):
            for behavior in self.comparison.dataset.behavior_names:
                of_behaviors = {" ".join(key): scores[method].behaviors for key, scores in self.scores.items()}
                known = {name: each[behavior] for name, each in of_behaviors.items() if behavior in each}
                if known:
                    first = next(iter(known.values()))
                    names = {"method": [method] * len(first.users), "behavior": [behavior] * len(first.users)}
                    columns = {name: each.scores for name, each in known.items()}
                    parts.append(pa.table({**names, "user": first.users, "weight": first.weights} | columns))
        return pa.concat_tables(parts) if parts else pa.table({})


def summarize(comparison: Comparison) -> Summary:
    """The finished cells of the whole plan; methods without any are unfinished."""
    chosen = comparison.choose()
    failures = comparison.failures()
    rows = []
    unfinished = {}
    for name, candidates in comparison.plan.candidates.items():
        candidate = chosen.get(name)
        if lacks := comparison.unfinished(name, candidate, failures):
            unfinished[name] = lacks
        repeated = [comparison.result(cell) for cell in comparison.repeated(candidate)] if candidate else []
        results = tuple(result for result in repeated if result and "diverged" not in result)
        if candidate and results:
            searched = tuple(comparison.result(cell) for cell in comparison.searched(name))
            best = (searched[candidates.index(candidate)] if searched else None) or results[0]
            planned = comparison.plan.repetitions
            rows.append(ComparisonRow(name, candidate, candidates, searched, best["validation"], planned, results))
    return Summary(comparison, tuple(rows), unfinished)


def against(reference: str, scores: Mapping[str, UserScores]) -> dict[str, Comparisons]:
    """A row against every other; nothing if it is not among them, or if no user has a test item."""
    others = dict(scores)
    own = others.pop(reference, None)
    return significance.compare(own, others) if own is not None and own.behaviors and others else {}


# tables


def tables(summary: Summary) -> list[Table]:
    """Every table that the finished cells allow."""
    plan = summary.comparison.plan
    shown = []
    for protocol in plan.protocols:
        quality, *details = _qualities(summary, protocol)
        shown.append(quality)
        if protocol == "sampled" and plan.paper:
            shown.append(_beside_the_paper(summary))
        shown += [*details, *_tests(summary, protocol)]
    if "sampled" in plan.protocols:
        means = [(row.name, row.label, [row.metric("sampled", None, metric) for metric in TWO]) for row in summary.rows]
        shown += beside_the_expected(plan.expected, means)
    return [*shown, _costs(summary), *_unfinished(summary)]


def write(summary: Summary, out: Path) -> list[Path]:
    """``table.md``, ``table.html``, their cells as ``table.json``, and ``users.parquet`` behind the tests."""
    comparison = summary.comparison
    plan = comparison.plan
    data = comparison.dataset
    splits = [fingerprint[:12] for fingerprint in dict.fromkeys(comparison.splits)]
    searched = (
        f"Every method has a budget of {plan.search} configurations, chosen on the validation part of the first split; "
        "the test part is scored once, with what was chosen."
    )
    if all(len(candidates) == 1 for candidates in plan.candidates.values()):
        searched = "Settings are given and not searched; the test part is scored once."
    links = f"{data.graph.n_links:,} {'directed ' if data.graph.is_directed else ''}links"
    about = [
        f"{data.name}: {data.n_users:,} users, {links}, dataset {data.fingerprint[:12]}; "
        f"{plan.repetitions} repetitions, split {plan.split} ({', '.join(splits)}).",
        f"{searched} Percent, mean ± standard deviation over repetitions.",
        f"Command: {plan.command}",
    ]
    shown = tables(summary)
    paths = write_tables(out, plan.title, about, shown, [table.to_json() for table in shown])
    with locked(out, wait=True):
        write_parquet(out / "users.parquet", summary.users())
    return [*paths, out / "users.parquet"]


def write_tables(out: Path, title: str, about: Sequence[str], shown: Sequence[Table], data: Any) -> list[Path]:
    """``table.md``, ``table.html`` and ``table.json`` of a study."""
    pages = {"table.md": markdown_page(title, about, shown), "table.html": html_page(title, about, shown)}
    return write_results(out, pages, "table.json", data)


def _of_columns(
    summary: Summary, title: str, header: Iterable[str], columns: Sequence[Sequence[Spread | None]], unmarked: int = 0
) -> Table:
    """A table of spreads; in each column except for the last ``unmarked``, the best whole row is marked."""
    rows = tuple((row.label, *(percent(column[at]) for column in columns)) for at, row in enumerate(summary.rows))
    best = set()
    for at, column in enumerate(columns[: len(columns) - unmarked], start=1):  # after the column of methods
        of_rows = zip(summary.rows, column, strict=True)
        means = [spread["mean"] if spread is not None and row.is_whole else 0.0 for row, spread in of_rows]
        if means and max(means) > 0:
            best.add((means.index(max(means)), at))
    return Table(title, ("method", *header), rows, best=frozenset(best))


def _qualities(summary: Summary, protocol: str) -> Iterator[Table]:
    """All behaviors; then means over behaviors at every cutoff; then slices of users and items."""
    title = PROTOCOL_TITLES[protocol]
    rows = summary.rows
    places: list[str | None] = [*summary.comparison.dataset.behavior_names, None]
    header = [f"{place or 'mean'} {short}" for place in places for short in SHORT]
    columns = [[row.metric(protocol, place, metric) for row in rows] for place in places for metric in TWO]
    yield _of_columns(summary, title, header, columns)

    metrics = [f"{name}@{cutoff}" for cutoff in CUTOFFS for name in USUAL]
    metrics += [f"pooled_recall@{CUTOFFS[0]}"]
    covered = CUTOFFS if protocol == "full" else ()
    header = [*metrics, *(f"coverage@{cutoff}" for cutoff in covered)]
    columns = [[row.metric(protocol, None, metric) for row in rows] for metric in metrics]
    columns += [[row.coverage(cutoff) for row in rows] for cutoff in covered]
    means = f"{title}: means over behaviors at 5, 10 and 20"
    yield _of_columns(summary, means, header, columns, unmarked=len(covered))

    header = [f"{name.replace('_', ' ')} {short}" for name in SLICES for short in SHORT]
    sliced = [[result["slices"][protocol] for result in row.results] for row in rows]
    columns = [[spread_of([one[name][metric] for one in each]) for each in sliced] for name in SLICES for metric in TWO]
    yield _of_columns(summary, f"{title}: slices", header, columns)


def _beside_the_paper(summary: Summary) -> Table:
    """Ours, in both readings of each metric, beside what the paper prints, with the gaps."""
    readings = (("R@5", ("recall@5", "pooled_recall@5")), ("N@5", ("hits_ideal_ndcg@5", "ndcg@5")))
    header = ["method", "behavior"]
    for title, metrics in readings:
        header += [f"paper {title}", *(part for metric in metrics for part in (metric, "gap"))]
    rows = []
    for row in summary.rows:
        for behavior, printed in summary.comparison.plan.paper.get(row.name, {}).items():
            cells = []
            for theirs, (_, metrics) in zip(printed, readings, strict=True):
                cells.append(f"{theirs:.2f}")
                for metric in metrics:
                    ours = row.metric("sampled", behavior, metric)
                    cells += [percent(ours), _gap(ours, theirs)]
            rows.append((row.label, behavior, *cells))
    note = (
        "Each metric in two readings, as the paper does not say which it prints: Recall as the mean over users and "
        "pooled over all test items, NDCG with the ideal built from the hits found and with the usual one."
    )
    return Table("Beside the paper's numbers", tuple(header), tuple(rows), note=note)


def _gap(ours: Spread | None, theirs: float) -> str:
    return NO_VALUE if ours is None else f"{100 * ours['mean'] - theirs:+.1f}"


def beside_the_expected(
    expected: Mapping[str, Sequence[float]], means: Iterable[tuple[str, str, Sequence[Spread | None]]]
) -> list[Table]:
    """Recall@5 and NDCG@5 of rows, by name and label, beside what the plan expects; no table if it expects nothing."""
    rows = []
    for name, label, both in means:
        if name in expected:
            pairs = zip(expected[name], both, strict=True)
            rows.append((label, *(cell for e, now in pairs for cell in (f"{e:.1f}", percent(now), _gap(now, e)))))
    header = ("row", "expected R@5", "found", "gap", "expected N@5", "found", "gap")
    return [Table("Beside the figures that the plan expects", header, tuple(rows))] if expected else []


def _tests(summary: Summary, protocol: str) -> list[Table]:
    reference = summary.comparison.plan.reference
    tests = {metric: summary.tests(protocol, metric) for metric in TWO}
    rows = []
    for metric, rivals in tests.items():
        for rival, each in rivals.items():
            test = each.overall
            effect = NO_VALUE if test.effect_size is None else f"{test.effect_size:+.2f}"
            share = f"{100 * test.better:.0f} / {100 * test.worse:.0f}"
            interval = signed_interval(test.low, test.high)
            chance = p_value(test.adjusted_p, is_bound=test.is_bound)
            rows.append((rival, metric, signed_percent(test.difference), interval, chance, effect, share))
    if not rows:
        return []
    header = ("rival", "metric", f"{reference} better by", "95 % interval", "p after Holm", "d", "users better / worse")
    note = (
        f"Paired bootstrap over users with {RESAMPLES:,} resamples, scores averaged over repetitions; for each metric, "
        f"Holm's correction is over the {len(tests[TWO[0]])} methods of this table. d is Cohen's, of the paired "
        "differences."
    )
    return [Table(f"{PROTOCOL_TITLES[protocol]}: {reference} against the others", header, tuple(rows), note=note)]


def _costs(summary: Summary) -> Table:
    header = ("method", "numbers learned", "train s", "evaluate s", "measured on", *CHOICES)
    rows = []
    for row in summary.rows:
        seconds = [number(row.cost(name), ".1f") for name in ("train_seconds", "evaluate_seconds")]
        measured_on = "; ".join(sorted({machine(result) for result in row.results}))
        parameters = number(row.cost("parameters"), ",.0f")
        rows.append((row.label, parameters, *seconds, measured_on, *row.choices(row.candidate.mode)))
    note = (
        "Seconds of a repetition by the clock, all attempts together; cells that ran side by side shared the device "
        "and its cores, so they are no measure of a method alone. Settings not named are the method's defaults; every "
        "cell.json holds all of them."
    )
    return Table("Costs and choices", header, tuple(rows), note=note)


def number(spread: Spread | None, form: str) -> str:
    """A mean for people; a dash if there is none."""
    return NO_VALUE if spread is None else format(spread["mean"], form)


def machine(result: Result) -> str:
    """The device, and how many cells shared it."""
    jobs = result["jobs"]
    return f"{result['device']}, " + ("one at a time" if jobs == 1 else f"{jobs} side by side")


def listed(settings: Mapping[str, Any]) -> str:
    """Settings for people; a dash if there are none."""
    return ", ".join(f"{name}={value}" for name, value in settings.items()) or NO_VALUE


def _unfinished(summary: Summary) -> list[Table]:
    if not summary.unfinished:
        return []
    reference = summary.comparison.plan.reference
    note = "Rows with repetitions missing are never marked as best, and are not tested."
    if reference in summary.unfinished:
        note += f" Others are tested against {reference}, which is not finished: there are no tests."
    return [Table("Not finished", ("method", "lacks"), tuple(summary.unfinished.items()), note=note)]
