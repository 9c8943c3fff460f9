"""What a sweep has found: ``sweep.json`` with every number, ``sweep.md`` for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mcne.errors import UsageError
from mcne.files import locked, overwrite, read_json, write_json
from mcne.studies.execution import Comparison
from mcne.studies.kinds import WRITTEN_AGAIN
from mcne.studies.summary import Row, Spread, Summary, summarize
from mcne.studies.sweep import Sweep, row
from mcne.studies.tables import beside_the_expected
from mcne.text import NO_VALUE, Table, markdown_page, percent_with_spread

RESULT, PAGE, TIMING = "sweep.json", "sweep.md", "timing"
METRICS = ("recall@5", "ndcg@5")
COSTS = ("epoch_seconds", "train_seconds", "epochs", "parameters")


def check_place(sweep: Sweep, out: Path) -> None:
    """Refuse a directory whose result would be replaced by another; more values and repetitions are welcome."""
    if not (out / RESULT).is_file():
        return
    before = read_json(out / RESULT, step=WRITTEN_AGAIN)
    now = _asked(sweep)
    differing = [name for name in ("method", "settings", "split") if before.get(name) != now[name]]
    for curve in before.get("curves", []):
        values = sweep.values.get(curve["setting"], ())
        lost = [point["value"] for point in curve["points"] if point["value"] not in values]
        differing += [f"{curve['setting']} without {', '.join(map(str, lost))}"] if lost else []
    differing += ["fewer repetitions"] if before.get("repetitions", 0) > sweep.repetitions else []
    if differing:
        raise UsageError(f"{out}: holds another sweep ({'; '.join(differing)}); choose another --out")


def names_of(comparison: Comparison) -> dict[str, str]:
    """What people call the cells: their values, of which two settings may have one in common, and the repetition."""
    rows: dict[tuple[str, int], list[str]] = {}
    for name, (candidate,) in comparison.plan.candidates.items():
        for cell in comparison.repeated(candidate):
            rows.setdefault((cell.name, cell.repetition), []).append(name)
    return {cell: f"{' and '.join(held)}, repetition {repetition}" for (cell, repetition), held in rows.items()}


def is_shared(comparison: Comparison) -> bool:
    """Whether any of the finished trainings ran beside others, so that its seconds measure no value alone."""
    results = map(comparison.result, comparison.final_cells())
    return any(result["jobs"] > 1 for result in results if result)


def collect(sweep: Sweep, comparison: Comparison, timed: Comparison | None = None) -> dict[str, Any]:
    """Per value, means and standard deviations over the finished repetitions, and what is missing.

    ``timed`` are trainings one at a time, where the others ran side by side: seconds of epochs are theirs.
    """
    summary, data = summarize(comparison), comparison.dataset
    rows = {each.name: each for each in summary.rows}
    alone = {} if timed is None else {each.name: each.results for each in summarize(timed).rows}
    return _asked(sweep) | {
        "title": sweep.title,
        "command": sweep.command,
        "paper": sweep.paper,
        "expected": dict(sweep.expected),
        "dataset": {"name": data.name, "fingerprint": data.fingerprint, "users": data.n_users},
        "splits": list(comparison.splits),
        "behaviors": summary.behaviors,
        "curves": [
            {"setting": name, "points": [_point(value, row(name, value), rows, summary, alone) for value in values]}
            for name, values in sweep.values.items()
        ],
    }


def write(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Keep the result and its page; returns their paths."""
    with locked(out, wait=True):
        overwrite(out / PAGE, page(found).encode())
        write_json(out / RESULT, found)
    return [out / PAGE, out / RESULT]


def page(found: Mapping[str, Any]) -> str:
    """A table for each setting, as Markdown."""
    data, settings, n = found["dataset"], found["settings"], found["repetitions"]
    splits = ", ".join(each[:12] for each in dict.fromkeys(found["splits"]))
    shown = "mean ± standard deviation over repetitions, whose" if n > 1 else "of single trainings, whose"
    about = [
        f"{data['name']}: {data['users']:,} users, dataset {data['fingerprint'][:12]}; {n} "
        f"repetition{'s' * (n > 1)}, split {found['split']} ({splits}).",
        f"One setting at a time; the others are {_named(settings) or 'the defaults'}. Test part, sampled protocol; "
        f"percent, {shown} splits, negatives and seeds are the same for every value; in bold the one that validation "
        "would choose.",
        *([f"The paper: {found['paper']}"] if found["paper"] else []),
        f"Command: {found['command']}",
    ]
    tables = [_table(curve, found["behaviors"]) for curve in found["curves"]]
    return markdown_page(found["title"], about, [*tables, *beside_the_expected(found["expected"], _means(found))])


def _asked(sweep: Sweep) -> dict[str, Any]:
    return {
        "method": sweep.method,
        "settings": dict(sweep.settings),
        "split": sweep.split,
        "repetitions": sweep.repetitions,
    }


def _point(
    value: Any,
    name: str,
    rows: Mapping[str, Row],
    summary: Summary,
    timed: Mapping[str, Sequence[Mapping[str, Any]]],
) -> dict[str, Any]:
    """Everything about one value; nothing where no repetition is finished."""
    found = rows.get(name)
    results = found.results if found else ()

    def quality(behavior: str | None) -> dict[str, Any]:
        spreads = {metric: found.metric("sampled", behavior, metric) if found else None for metric in METRICS}
        return {metric: _spread(spread) for metric, spread in spreads.items()}

    point: dict[str, Any] = {"value": value, "finished": len(results), "lacks": summary.unfinished.get(name)}
    point["behaviors"] = {behavior: quality(behavior) for behavior in summary.behaviors}
    point["mean"] = quality(None)
    for cost in ("validation", *COSTS):
        point[cost] = _spread(Spread.of([result.get(cost) for result in results]))
    point["measured_on"] = sorted({_machine(result) for result in results})
    if alone := timed.get(name):
        point["epoch_seconds"] = _spread(Spread.of([result["epoch_seconds"] for result in alone]))
        point["measured_on"] += [f"epochs on {_machine(result)}" for result in alone]
    point["cells"] = [result["cell"]["name"] for result in results]
    return point


def _machine(result: Mapping[str, Any]) -> str:
    jobs = result["jobs"]
    return f"{result['device']}, " + ("one at a time" if jobs == 1 else f"{jobs} side by side")


def _spread(found: Spread | None) -> dict[str, float | None] | None:
    return None if found is None else vars(found)


def _table(curve: Mapping[str, Any], behaviors: Sequence[str]) -> Table:
    points, name = curve["points"], curve["setting"]
    places = [*((behavior, ("behaviors", behavior)) for behavior in behaviors), ("mean", ("mean",))]
    header = [name, *(f"{title} {short}" for title, _ in places for short in ("R@5", "N@5")), "validation N@5"]
    header += ["s per epoch", "train s", "epochs", "numbers learned", "measured on", "lacks"]
    rows = []
    for point in points:
        held = [point["behaviors"][path[1]] if len(path) > 1 else point["mean"] for _, path in places]
        cells = [_percent(each[metric]) for each in held for metric in METRICS] + [_percent(point["validation"])]
        cells += [_number(point["epoch_seconds"], ".2f"), _number(point["train_seconds"], ".1f")]
        cells += [_number(point["epochs"], ".0f"), _number(point["parameters"], ",.0f")]
        rows.append((str(point["value"]), *cells, "; ".join(point["measured_on"]) or "–", point["lacks"] or "–"))
    note = (
        "Seconds by the clock: of the median epoch its steps alone, of a training everything, validation included. "
        "Trainings side by side share the machine, so that epochs are measured by further ones, one at a time."
    )
    return Table(name, tuple(header), tuple(rows), note=note, best=_best(points))


def _means(found: Mapping[str, Any]) -> Iterator[tuple[str, str, list[Spread | None]]]:
    """Every row's name, its label, and its means over behaviors."""
    for curve in found["curves"]:
        for point in curve["points"]:
            name, done, planned = row(curve["setting"], point["value"]), point["finished"], found["repetitions"]
            both = [None if (held := point["mean"][metric]) is None else Spread(**held) for metric in METRICS]
            yield name, name if done == planned else f"{name} ({done} of {planned} repetitions)", both


def _best(points: Sequence[Mapping[str, Any]]) -> frozenset[tuple[int, int]]:
    """The value that validation would choose, which is no test result, marked by its name."""
    reached = [(point["validation"]["mean"], -at) for at, point in enumerate(points) if point["validation"]]
    return frozenset({(-max(reached)[1], 0)} if reached else ())


def _percent(spread: Mapping[str, float | None] | None) -> str:
    return NO_VALUE if spread is None else percent_with_spread(spread["mean"], spread["sd"])


def _number(spread: Mapping[str, float | None] | None, shape: str) -> str:
    return "–" if spread is None else format(spread["mean"], shape)


def _named(settings: Mapping[str, Any]) -> str:
    return ", ".join(row(name, value) for name, value in settings.items())
