"""A sweep: a method, fixed settings, and settings that take one value after another.

It is a comparison whose rows are the values. Its results are ``sweep.json``, with every number, and ``sweep.md``.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from mcne.errors import UsageError
from mcne.files import read_json
from mcne.models.registry import refuse_former_settings, setting_names
from mcne.models.settings import Count, TrainingSettings, read_pairs
from mcne.studies.comparison import Candidate, ComparedTable, Comparison, Plan
from mcne.studies.comparison_tables import TWO, Summary, beside_the_expected, listed, machine, number, summarize
from mcne.studies.engine import WRITTEN_AGAIN, Result, Spread, percent, spread_of, write_results
from mcne.studies.plans import Pair, Values, check_names, located, plan_of
from mcne.text import NO_VALUE, Table, markdown_page
from mcne.training import resolved
from mcne.training.run import SCHEDULE

SHORTHANDS = {"final_width": "widths", "neighbor_sample": "neighbor_samples"}
"""Settings that change a list by one number: the last width (reading 16), and the sample of every layer."""
TIMED_EPOCHS = 5
RESULT, PAGE, TIMING = "sweep.json", "sweep.md", "timing"
REQUEST = ("method", "settings", "split", "repetitions", "title", "command", "paper", "expected")
COSTS = ("validation", "epoch_seconds", "train_seconds", "epochs", "parameters")
NOTE = (
    "Seconds by the clock: of the median epoch its steps alone, of a training everything, validation included. "
    "Trainings side by side share the machine, so that epochs are measured by further ones, one at a time."
)


@dataclass(frozen=True)
class Sweep:
    """One setting at a time over its values, all else equal: the same splits, negatives and seeds."""

    method: str = "mcne"
    settings: Mapping[str, Any] = field(default_factory=dict)  # of every training
    values: Mapping[str, Values[Any]] = field(default_factory=dict)  # setting -> what it takes, in this order
    repetitions: Count = 3
    split: str = "random"  # repetition r has split random-r; any other name: one split, r seeds the models alone
    title: str = ""
    command: str = ""
    paper: str = ""  # what the paper says about it
    expected: Mapping[str, Pair] = field(default_factory=dict)  # as a plan's, by row

    def with_pairs(self, pairs: Sequence[str], repetitions: int, split: str) -> Sweep:
        """With ``pairs`` in place of settings and values, checked; figures are expected for its own settings alone."""
        replaced = read_values(pairs)
        settings = {name: value for name, value in self.settings.items() if name not in replaced}
        settings |= {name: each[0] for name, each in replaced.items() if len(each) == 1}
        values = {name: each for name, each in self.values.items() if name not in replaced}
        values |= {name: each for name, each in replaced.items() if len(each) > 1}
        if not values:
            raise UsageError(
                f"only one value of {', '.join(settings)}" if settings else "nothing to sweep",
                "--set",
                "give two or more values of a setting, such as --set l2=0.01,0.02",
            )
        is_same = settings == self.settings and split == self.split
        expected = {name: pair for name, pair in self.expected.items() if is_same and name in _rows(values)}
        sweep = replace(self, settings=settings, values=values, repetitions=repetitions, split=split, expected=expected)
        sweep.check()
        return sweep

    def check(self) -> None:
        """Refuse unknown settings, and values that do not differ."""
        known = setting_names(self.method)
        derived = [name for name, whole in SHORTHANDS.items() if whole in known]
        general = [each.name for each in fields(TrainingSettings)]
        names = [*self.settings, *self.values]
        refuse_former_settings(self.method, names)
        check_names(f"setting of {self.method}", names, [*known, *derived])
        for name, values in self.values.items():
            if len(values) < 2:
                raise UsageError(
                    f"{list(values)} has only one value" if values else "has no values",
                    f"values.{name}",
                    "give two or more, or move it to [settings]",
                    value=list(values),
                )
            if name in general and name not in SCHEDULE:
                raise UsageError(
                    "does not affect the result, so sweeping it is useless",
                    f"setting {name}",
                    "give it one value",
                    value=name,
                )
            seen = []
            for value in values:
                with located(row(name, value)):
                    identity = self.candidate(name, value).resolved
                    if identity in seen:
                        raise UsageError("is given twice", value=value, remedy="give each value once")
                    seen.append(identity)

    @classmethod
    def of_pairs(cls, method: str, pairs: Sequence[str], *, repetitions: int, split: str) -> Sweep:
        """From ``NAME=v1,v2,…`` texts; settings with a single value are fixed."""
        sweep = cls(method).with_pairs(pairs, repetitions, split)
        title = f"{method}: sensitivity to {' and '.join(sweep.values)}"
        options = " ".join(f"--set {shlex.quote(pair)}" for pair in pairs)
        command = f"mcne sweep {method} --data DATA {options} --repetitions {repetitions} --split {split} --out DIR"
        return replace(sweep, title=title, command=command)

    @classmethod
    def of_file(
        cls, path: Path, pairs: Sequence[str], *, repetitions: int | None = None, split: str | None = None
    ) -> Sweep:
        """From a TOML file, in which ``pairs`` replace the settings and values of their names."""
        with plan_of(path, cls, "mcne sweep") as own:
            check_names("row of expected", own.expected, _rows(own.values))
            return own.with_pairs(pairs, repetitions or own.repetitions, split or own.split)

    def candidate(self, name: str, value: Any) -> Candidate:
        """The training in which one setting has this value; shorthands are spelled out as the lists they change."""
        settings = {**self.settings, name: value}
        plain = {key: each for key, each in settings.items() if key not in SHORTHANDS}
        config, _ = resolved(self.method, plain)
        for key, whole in SHORTHANDS.items():
            if key in settings:
                before = config[whole]
                number = settings[key]
                plain[whole] = [*before[:-1], number] if key == "final_width" else [number] * len(before)
        return Candidate(self.method, "joint", plain)

    def timing(self) -> Sweep:
        """The same values for a few epochs on the first split, trained one at a time to measure seconds per epoch."""
        epochs = {} if "epochs" in self.values else {"epochs": TIMED_EPOCHS}
        return replace(self, settings={**self.settings, **epochs}, repetitions=1)

    def plan(self) -> Plan:
        """The comparison whose rows are the values."""
        candidates = {name: self.candidate(*of) for name, of in _rows(self.values).items()}
        rows = {name: ComparedTable(each.method, each.given) for name, each in candidates.items()}
        plan = Plan(self.title, self.command, self.repetitions, search=1, reference=next(iter(rows)), methods=rows)
        return replace(plan, split=self.split, expected=self.expected)


def read_values(pairs: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """``NAME=v1,v2,…`` texts: values as in TOML, lists in brackets (``[10,5],[20,20]``), bare words as text."""
    values: dict[str, tuple[Any, ...]] = {}
    for pair in pairs:
        name, sign, text = (part.strip() for part in pair.partition("="))
        if not (name and sign and text):
            raise UsageError(
                "is not a setting with values",
                f"--set {pair}",
                "write NAME=V1,V2, such as final_width=50,100,150",
                value=pair,
            )
        if name in values:
            raise UsageError(
                f"{name} is given twice", f"--set {pair}", f"give all its values at once: {name}=V1,V2", value=name
            )
        try:
            values[name] = tuple(tomllib.loads(f"values = [{text}]")["values"])
        except (ValueError, RecursionError):
            values[name] = tuple(read_pairs([f"{name}={word.strip()}"])[name] for word in text.split(","))
    return values


def row(name: str, value: Any) -> str:
    """What tables and messages call a value."""
    return f"{name}={value}"


def _rows(values: Mapping[str, Sequence[Any]]) -> dict[str, tuple[str, Any]]:
    """The setting and the value of every row."""
    return {row(name, value): (name, value) for name, all_ in values.items() for value in all_}


# results


def check_place(sweep: Sweep, out: Path) -> None:
    """Refuse a directory with another sweep; more values and repetitions are fine."""
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
        raise UsageError(
            f"already contains another sweep ({'; '.join(differing)})", out, "choose another --out", value=differing
        )


def titles_of(comparison: Comparison) -> dict[str, str]:
    """What messages call the cells: their values, of which two settings may have one in common, and the repetition."""
    rows: dict[tuple[str, int], list[str]] = {}
    for name, (candidate,) in comparison.plan.candidates.items():
        for cell in comparison.repeated(candidate):
            rows.setdefault((cell.name, cell.repetition), []).append(name)
    return {cell: f"{' and '.join(names)}, repetition {repetition}" for (cell, repetition), names in rows.items()}


def is_shared(comparison: Comparison) -> bool:
    """Whether finished trainings ran in parallel, so their seconds cannot be compared."""
    results = map(comparison.result, comparison.final_cells())
    return any(result["jobs"] > 1 for result in results if result)


def collect(sweep: Sweep, comparison: Comparison, timed: Comparison | None = None) -> dict[str, Any]:
    """Per value, means and standard deviations over the finished repetitions, and what is missing.

    ``timed`` are trainings run one at a time, for a sweep that ran in parallel: they give the seconds per epoch.
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
        return {metric: finished.metric("sampled", behavior, metric) if finished else None for metric in TWO}

    point: dict[str, Any] = {"value": value, "finished": len(results), "lacks": summary.unfinished.get(name)}
    point["behaviors"] = {behavior: quality(behavior) for behavior in summary.comparison.dataset.behavior_names}
    point["mean"] = quality(None)
    point |= {cost: spread_of([result.get(cost) for result in results]) for cost in COSTS}
    point["measured_on"] = sorted({machine(result) for result in results})
    if timed := alone.get(name):
        point["epoch_seconds"] = spread_of([result["epoch_seconds"] for result in timed])
        point["measured_on"] += [f"epochs on {machine(result)}" for result in timed]
    point["cells"] = [result["cell"]["name"] for result in results]
    return point


def _table(curve: Mapping[str, Any], behaviors: Sequence[str]) -> Table:
    header = [curve["setting"], *(f"{title} {short}" for title in (*behaviors, "mean") for short in ("R@5", "N@5"))]
    reached = [(point["validation"]["mean"], -at) for at, point in enumerate(curve["points"]) if point["validation"]]
    best = frozenset({(-max(reached)[1], 0)} if reached else ())  # what validation would choose, not a test result
    header += ["validation N@5", "s per epoch", "train s", "epochs", "numbers learned", "measured on", "lacks"]
    rows = []
    for point in curve["points"]:
        of_behaviors = [point["behaviors"][behavior] for behavior in behaviors]
        spreads = [each[metric] for each in (*of_behaviors, point["mean"]) for metric in TWO]
        cells = [percent(each) for each in (*spreads, point["validation"])]
        forms = {"epoch_seconds": ".2f", "train_seconds": ".1f", "epochs": ".0f", "parameters": ",.0f"}
        cells += [number(point[cost], form) for cost, form in forms.items()]
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
            yield name, label, [point["mean"][metric] for metric in TWO]
