"""The results of a sweep: ``sweep.json`` with every number, ``sweep.md`` for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mcne.errors import UsageError
from mcne.files import read_json
from mcne.studies.comparison import Comparison
from mcne.studies.comparison_tables import TWO, Summary, beside_the_expected, listed, machine, number, summarize
from mcne.studies.engine import WRITTEN_AGAIN, Result, Spread, percent, write_results
from mcne.studies.sweep import Sweep, row
from mcne.text import NO_VALUE, Table, markdown_page

RESULT, PAGE, TIMING = "sweep.json", "sweep.md", "timing"
REQUEST = ("method", "settings", "split", "repetitions", "title", "command", "paper", "expected")
COSTS = ("validation", "epoch_seconds", "train_seconds", "epochs", "parameters")
NOTE = (
    "Seconds by the clock: of the median epoch its steps alone, of a training everything, validation included. "
    "Trainings side by side share the machine, so that epochs are measured by further ones, one at a time."
)


def check_place(sweep: Sweep, out: Path) -> None:
    """Refuse a directory whose result would be lost; more values and repetitions are welcome."""
    if not (out / RESULT).is_file():
        return
    before = read_json(out / RESULT, step=WRITTEN_AGAIN)
    differing = [name for name in ("method", "settings", "split") if before.get(name) != getattr(sweep, name)]
    for curve in before.get("curves", []):
        values = sweep.values.get(curve["setting"], ())
        lost = [point["value"] for point in curve["points"] if point["value"] not in values]
        differing += [f"{curve['setting']} without {', '.join(map(str, lost))}"] if lost else []
    differing += ["fewer repetitions"] if before.get("repetitions", 0) > sweep.repetitions else []
    if differing:
        raise UsageError(f"{out}: contains another sweep ({'; '.join(differing)}); choose another --out")


def titles_of(comparison: Comparison) -> dict[str, str]:
    """What messages call the cells: their values, of which two settings may have one in common, and the repetition."""
    rows: dict[tuple[str, int], list[str]] = {}
    for name, (candidate,) in comparison.plan.candidates.items():
        for cell in comparison.repeated(candidate):
            rows.setdefault((cell.name, cell.repetition), []).append(name)
    return {cell: f"{' and '.join(names)}, repetition {repetition}" for (cell, repetition), names in rows.items()}


def is_shared(comparison: Comparison) -> bool:
    """Whether any of the finished trainings ran beside others, so that its seconds measure no value alone."""
    results = map(comparison.result, comparison.final_cells())
    return any(result["jobs"] > 1 for result in results if result)


def collect(sweep: Sweep, comparison: Comparison, timed: Comparison | None = None) -> dict[str, Any]:
    """Per value, means and standard deviations over the finished repetitions, and what is missing.

    ``timed`` are trainings one at a time, for a sweep that ran side by side: the seconds of epochs are theirs.
    """
    summary = summarize(comparison)
    data = comparison.dataset
    alone = {} if timed is None else {each.name: each.results for each in summarize(timed).rows}
    return {name: getattr(sweep, name) for name in REQUEST} | {
        "dataset": {"name": data.name, "fingerprint": data.fingerprint, "users": data.n_users},
        "splits": list(comparison.splits),
        "behaviors": data.behavior_names,
        "curves": [
            {"setting": name, "points": [_point(summary, name, value, alone) for value in values]}
            for name, values in sweep.values.items()
        ],
    }


def write(results: Mapping[str, Any], out: Path) -> list[Path]:
    """Write the results and their page; returns the paths."""
    return write_results(out, {PAGE: page(results)}, RESULT, results)


def page(results: Mapping[str, Any]) -> str:
    """A table for each setting, as Markdown."""
    data = results["dataset"]
    n = results["repetitions"]
    splits = ", ".join(each[:12] for each in dict.fromkeys(results["splits"]))
    shown = "mean ± standard deviation over repetitions, whose" if n > 1 else "of single trainings, whose"
    fixed = listed(results["settings"]) if results["settings"] else "the defaults"
    about = [
        f"{data['name']}: {data['users']:,} users, dataset {data['fingerprint'][:12]}; {n} "
        f"repetition{'s' * (n > 1)}, split {results['split']} ({splits}).",
        f"One setting at a time; the others are {fixed}. Test part, sampled protocol; "
        f"percent, {shown} splits, negatives and seeds are the same for every value; in bold the one that validation "
        "would choose.",
        *([f"The paper: {results['paper']}"] if results["paper"] else []),
        f"Command: {results['command']}",
    ]
    tables = [_table(curve, results["behaviors"]) for curve in results["curves"]]
    return markdown_page(results["title"], about, [*tables, *beside_the_expected(results["expected"], _means(results))])


def _point(summary: Summary, setting: str, value: Any, alone: Mapping[str, Sequence[Result]]) -> dict[str, Any]:
    """Everything about one value; numbers are None while no repetition is finished."""
    name = row(setting, value)
    finished = next((each for each in summary.rows if each.name == name), None)
    results = finished.results if finished else ()

    def quality(behavior: str | None) -> dict[str, Any]:
        return {metric: _json(finished.metric("sampled", behavior, metric) if finished else None) for metric in TWO}

    point: dict[str, Any] = {"value": value, "finished": len(results), "lacks": summary.unfinished.get(name)}
    point["behaviors"] = {behavior: quality(behavior) for behavior in summary.comparison.dataset.behavior_names}
    point["mean"] = quality(None)
    point |= {cost: _json(Spread.of([result.get(cost) for result in results])) for cost in COSTS}
    point["measured_on"] = sorted({machine(result) for result in results})
    if timed := alone.get(name):
        point["epoch_seconds"] = _json(Spread.of([result["epoch_seconds"] for result in timed]))
        point["measured_on"] += [f"epochs on {machine(result)}" for result in timed]
    point["cells"] = [result["cell"]["name"] for result in results]
    return point


def _json(spread: Spread | None) -> dict[str, float | None] | None:
    return None if spread is None else vars(spread)


def _spread(value: Mapping[str, Any] | None) -> Spread | None:
    return None if value is None else Spread(**value)


def _table(curve: Mapping[str, Any], behaviors: Sequence[str]) -> Table:
    header = [curve["setting"], *(f"{title} {short}" for title in (*behaviors, "mean") for short in ("R@5", "N@5"))]
    reached = [(point["validation"]["mean"], -at) for at, point in enumerate(curve["points"]) if point["validation"]]
    best = frozenset({(-max(reached)[1], 0)} if reached else ())  # what validation would choose, not a test result
    header += ["validation N@5", "s per epoch", "train s", "epochs", "numbers learned", "measured on", "lacks"]
    rows = []
    for point in curve["points"]:
        of_behaviors = [point["behaviors"][behavior] for behavior in behaviors]
        spreads = [each[metric] for each in (*of_behaviors, point["mean"]) for metric in TWO]
        cells = [percent(_spread(each)) for each in (*spreads, point["validation"])]
        forms = {"epoch_seconds": ".2f", "train_seconds": ".1f", "epochs": ".0f", "parameters": ",.0f"}
        cells += [number(_spread(point[cost]), form) for cost, form in forms.items()]
        cells += ["; ".join(point["measured_on"]) or NO_VALUE, point["lacks"] or NO_VALUE]
        rows.append((str(point["value"]), *cells))
    return Table(curve["setting"], tuple(header), tuple(rows), note=NOTE, best=best)


def _means(results: Mapping[str, Any]) -> Iterator[tuple[str, str, list[Spread | None]]]:
    """The name, the label and the means over behaviors of every row."""
    planned = results["repetitions"]
    for curve in results["curves"]:
        for point in curve["points"]:
            name = row(curve["setting"], point["value"])
            done = point["finished"]
            label = name if done == planned else f"{name} ({done} of {planned} repetitions)"
            yield name, label, [_spread(point["mean"][metric]) for metric in TWO]
