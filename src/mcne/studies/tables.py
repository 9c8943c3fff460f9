"""The tables of a comparison: quality, the paper's numbers, slices, tests, costs, and what is missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mcne.evaluation.protocol import CUTOFFS
from mcne.evaluation.significance import RESAMPLES, Comparison
from mcne.evaluation.slices import SLICES
from mcne.files import locked, overwrite, write_json, write_parquet
from mcne.studies.plan import Plan
from mcne.studies.summary import Row, Spread, Summary
from mcne.text import NO_VALUE, Table, html_page, markdown_page, percent_with_spread, signed_interval, signed_percent

PROTOCOL_TITLES = {
    "sampled": "Against 100 random items of the behavior (the paper's protocol)",
    "full": "Against all items of the behavior",
    "popular": "Against 100 items drawn by popularity",
}
TWO = ("recall@5", "ndcg@5")
CHOICES = ("searched", "validation NDCG@5", "chosen", "fixed", "schedule")


def tables(summary: Summary) -> list[Table]:
    """Every table that the finished cells allow."""
    plan = summary.comparison.plan
    made = []
    for protocol in plan.protocols:
        made.append(_quality(summary, protocol))
        if protocol == "sampled" and plan.paper:
            made.append(_beside_the_paper(summary))
        made += [_cutoffs(summary, protocol), _slices(summary, protocol), *_tests(summary, protocol)]
    if "sampled" in plan.protocols:
        found = [(row.name, row.label, [row.metric("sampled", None, metric) for metric in TWO]) for row in summary.rows]
        made += beside_the_expected(plan.expected, found)
    return [*made, _costs(summary), *_unfinished(summary)]


def write(summary: Summary, out: Path) -> list[Path]:
    """``table.md``, ``table.html``, their cells as ``table.json``, and ``users.parquet`` behind the tests."""
    plan, comparison = summary.comparison.plan, summary.comparison
    made = tables(summary)
    data, splits = comparison.dataset, [print_[:12] for print_ in dict.fromkeys(comparison.splits)]
    about = [
        f"{data.name}: {data.n_users:,} users, {data.graph.n_links:,} links, dataset {data.fingerprint[:12]}; "
        f"{plan.repetitions} repetitions, split {plan.split} ({', '.join(splits)}).",
        f"{_searched(plan)} Percent, mean ± standard deviation over repetitions.",
        f"Command: {plan.command}",
    ]
    pages = {"table.md": markdown_page(plan.title, about, made), "table.html": html_page(plan.title, about, made)}
    with locked(out, wait=True):
        for name, text in pages.items():
            overwrite(out / name, text.encode())
        write_json(out / "table.json", [table.to_json() for table in made])
        write_parquet(out / "users.parquet", summary.users())
    return [out / name for name in (*pages, "table.json", "users.parquet")]


def _searched(plan: Plan) -> str:
    if all(len(candidates) == 1 for candidates in plan.candidates.values()):
        return "Settings are given and not searched; the test part is scored once."
    return (
        f"Every method has a budget of {plan.search} configurations, chosen on the validation part of the first split; "
        "the test part is scored once, with what was chosen."
    )


def _quality(summary: Summary, protocol: str) -> Table:
    """Recall@5 and NDCG@5 of every behavior and on average."""
    places: list[str | None] = [*summary.behaviors, None]
    header = ["method", *(f"{place or 'mean'} {title}" for place in places for title in ("R@5", "N@5"))]
    rows = []
    for row in summary.rows:
        found = [row.metric(protocol, place, metric) for place in places for metric in TWO]
        rows.append((row.label, *map(percent, found)))
    columns = [[row.metric(protocol, place, m) for row in summary.rows] for place in places for m in TWO]
    return Table(PROTOCOL_TITLES[protocol], tuple(header), tuple(rows), best=_best(summary, columns))


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
                    cells += [percent(ours), "–" if ours is None else f"{100 * ours.mean - theirs:+.1f}"]
            rows.append((row.label, behavior, *cells))
    note = (
        "Each metric in two readings, as the paper does not say which it prints: Recall as the mean over users and "
        "pooled over all test items, NDCG with the ideal built from the hits found and with the usual one."
    )
    return Table("Beside the paper's numbers", tuple(header), tuple(rows), note=note)


def beside_the_expected(
    expected: Mapping[str, Sequence[float]], found: Iterable[tuple[str, str, Sequence[Spread | None]]]
) -> list[Table]:
    """Rows by name, with labels, Recall@5 and NDCG@5, beside what the plan tells of them; no table if it tells none."""
    rows = []
    for name, label, both in found:
        if name in expected:
            cells = []
            for before, now in zip(expected[name], both, strict=True):
                gap = "–" if now is None else f"{100 * now.mean - before:+.1f}"
                cells += [f"{before:.1f}", percent(now), gap]
            rows.append((label, *cells))
    header = ("row", "expected R@5", "found", "gap", "expected N@5", "found", "gap")
    return [Table("Beside the figures that the plan expects", header, tuple(rows))] if expected else []


def _cutoffs(summary: Summary, protocol: str) -> Table:
    """Means over behaviors at every cutoff, and the pooled Recall."""
    metrics = [f"{name}@{cutoff}" for cutoff in CUTOFFS for name in ("recall", "ndcg", "hit_rate", "mrr")]
    metrics += [f"pooled_recall@{CUTOFFS[0]}"]
    header = ["method", *metrics] + ([f"coverage@{cutoff}" for cutoff in CUTOFFS] if protocol == "full" else [])
    rows, columns = [], [[row.metric(protocol, None, metric) for row in summary.rows] for metric in metrics]
    for at, row in enumerate(summary.rows):
        found = [column[at] for column in columns]
        found += [row.coverage(cutoff) for cutoff in CUTOFFS] if protocol == "full" else []
        rows.append((row.label, *map(percent, found)))
    title = f"{PROTOCOL_TITLES[protocol]}: means over behaviors at 5, 10 and 20"
    return Table(title, tuple(header), tuple(rows), best=_best(summary, columns))


def _slices(summary: Summary, protocol: str) -> Table:
    """Users without training record, cold, head and tail items."""
    header = ["method", *(f"{name.replace('_', ' ')} {title}" for name in SLICES for title in ("R@5", "N@5"))]
    columns = [[row.slice(protocol, name, metric) for row in summary.rows] for name in SLICES for metric in TWO]
    rows = [(row.label, *(percent(column[at]) for column in columns)) for at, row in enumerate(summary.rows)]
    title = f"{PROTOCOL_TITLES[protocol]}: slices"
    return Table(title, tuple(header), tuple(rows), best=_best(summary, columns))


def _tests(summary: Summary, protocol: str) -> list[Table]:
    """The reference against every other method."""
    reference = summary.comparison.plan.reference
    found = {metric: summary.tests(protocol, metric) for metric in TWO}
    rows = []
    for metric, rivals in found.items():
        for rival, each in rivals.items():
            test = each.overall
            effect = "–" if test.effect_size is None else f"{test.effect_size:+.2f}"
            interval = signed_interval(test.low, test.high)
            share = f"{100 * test.better:.0f} / {100 * test.worse:.0f}"
            rows.append((rival, metric, signed_percent(test.difference), interval, _chance(test), effect, share))
    if not rows:
        return []
    header = ("rival", "metric", f"{reference} better by", "95 % interval", "p after Holm", "d", "users better / worse")
    note = (
        f"Paired bootstrap over users with {RESAMPLES:,} resamples, scores averaged over repetitions; for each metric, "
        f"Holm's correction is over the {len(found[TWO[0]])} methods of this table. d is Cohen's, of the paired "
        "differences."
    )
    return [Table(f"{PROTOCOL_TITLES[protocol]}: {reference} against the others", header, tuple(rows), note=note)]


def _chance(test: Comparison) -> str:
    """The corrected p; where no resample was on the other side, all that is known is that it is lower."""
    if round(test.p * (1 + RESAMPLES)) <= 2:  # twice the observed difference, which counts as one
        return f"< {math.ceil(test.adjusted_p * 10_000) / 10_000:.4f}"
    return f"{test.adjusted_p:.4f}"


def _costs(summary: Summary) -> Table:
    """Parameters, seconds, and what was searched, chosen and fixed."""
    header = ("method", "numbers learned", "train s", "evaluate s", "measured on", *CHOICES)
    rows = []
    for row in summary.rows:
        parameters, train, evaluate = (row.cost(n) for n in ("parameters", "train_seconds", "evaluate_seconds"))
        rows.append(
            (
                row.label,
                "–" if parameters is None else f"{parameters.mean:,.0f}",
                "–" if train is None else f"{train.mean:.1f}",
                "–" if evaluate is None else f"{evaluate.mean:.1f}",
                "; ".join(sorted({_measured_on(result) for result in row.results})),
                *search_cells(row.candidates, row.diverged, row.validation),
                *_settings(summary, row),
            )
        )
    note = (
        "Seconds of a repetition by the clock, all attempts together; cells that ran side by side shared the device "
        "and its cores, so they are no measure of a method alone. Settings not named are the method's defaults; every "
        "cell.json holds all of them."
    )
    return Table("Costs and choices", header, tuple(rows), note=note)


def _measured_on(result: Mapping[str, Any]) -> str:
    """The device, and how many cells shared it, where that is known."""
    jobs = result.get("jobs")
    shared = "" if jobs is None else ", one at a time" if jobs == 1 else f", {jobs} side by side"
    return f"{result['device']}{shared}"


def _settings(summary: Summary, row: Row) -> tuple[str, str, str]:
    """What was chosen of what was searched, what the plan has fixed, and how long was trained."""
    candidates = [candidate.given for candidate in summary.comparison.plan.candidates[row.name]]
    _, schedule = row.candidate.resolved
    chosen, fixed = chosen_and_fixed(row.candidate.given, candidates, schedule)
    told = f"{row.candidate.mode}, {listed(chosen)}" if chosen else row.candidate.mode
    return told, listed(fixed), schedule_cell(schedule, row.results[0]["epochs"])


def search_cells(candidates: int, diverged: int, validation: float | None) -> tuple[str, str]:
    """How many were searched, and what the chosen one reached."""
    searched = f"{candidates}" + (f", {diverged} diverged" if diverged else "")
    return searched, "–" if validation is None else f"{100 * validation:.2f}"


def chosen_and_fixed(
    given: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]], schedule: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of given settings those in which candidates differ, and the others that are not of the schedule."""
    chosen = {name: value for name, value in given.items() if any(other[name] != value for other in candidates)}
    fixed = {name: value for name, value in given.items() if name not in chosen and name not in schedule}
    return chosen, fixed


def listed(settings: Mapping[str, Any]) -> str:
    """Settings for people; a dash of nothing."""
    return ", ".join(f"{name}={value}" for name, value in settings.items()) or "–"


def schedule_cell(schedule: Mapping[str, Any], epochs: int | Sequence[int]) -> str:
    """How long was trained at most; ``epochs`` are those of a result, none of a method that has no steps."""
    if not (any(epochs) if isinstance(epochs, Sequence) else epochs):
        return "no epochs"
    said = f"{schedule['epochs']} epochs, patience {schedule['patience']}"
    return said + (f", validated every {schedule['evaluate_every']}" if schedule["evaluate_every"] > 1 else "")


def _unfinished(summary: Summary) -> list[Table]:
    """What is not in the tables, or not all of it."""
    if not summary.unfinished:
        return []
    reference = summary.comparison.plan.reference
    note = "Rows with repetitions missing are never marked as best, and are not tested."
    if reference in summary.unfinished:
        note += f" Others are tested against {reference}, which is not finished: there are no tests."
    return [Table("Not finished", ("method", "lacks"), tuple(summary.unfinished.items()), note=note)]


def percent(spread: Spread | None) -> str:
    """Mean and spread for people; a dash of nothing."""
    return NO_VALUE if spread is None else percent_with_spread(spread.mean, spread.sd)


def _best(summary: Summary, columns: Sequence[Sequence[Spread | None]]) -> frozenset[tuple[int, int]]:
    """The whole row with the highest mean of each column; the first column of a table is the method's name."""
    marked = set()
    for at, column in enumerate(columns, start=1):
        of_rows = zip(summary.rows, column, strict=True)
        means = [spread.mean if spread is not None and row.is_whole else 0.0 for row, spread in of_rows]
        if means and max(means) > 0:
            marked.add((means.index(max(means)), at))
    return frozenset(marked)
