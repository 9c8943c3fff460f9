"""A sweep: a method, settings that stay, and settings that take one value after another.

It is a comparison whose rows are the values.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from mcne.errors import UsageError
from mcne.models.registry import entry
from mcne.models.settings import Count, TrainingSettings, read_pairs
from mcne.studies.comparison import Candidate, ComparedTable, Plan
from mcne.studies.plans import Pair, Values, check_names, located, plan_of
from mcne.training import resolved
from mcne.training.run import SCHEDULE

SHORTHANDS = {"final_width": "widths", "neighbor_sample": "neighbor_samples"}
"""Settings that change a list by one number: the last width (reading 16), and the sample of every layer."""
TIMED_EPOCHS = 5


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
                f"nothing to sweep in {', '.join(settings) or 'no settings'}: two values or more of one setting at "
                "least are needed, as in --set final_width=50,100,150"
            )
        is_same = settings == self.settings and split == self.split
        expected = {name: pair for name, pair in self.expected.items() if is_same and name in _rows(values)}
        sweep = replace(self, settings=settings, values=values, repetitions=repetitions, split=split, expected=expected)
        sweep.check()
        return sweep

    def check(self) -> None:
        """Refuse settings that the method does not have, and values among which nothing can be swept."""
        own = [each.name for each in fields(entry(self.method).config)]
        derived = [name for name, whole in SHORTHANDS.items() if whole in own]
        general = [each.name for each in fields(TrainingSettings)]
        names = [*self.settings, *self.values]
        check_names(f"setting of {self.method}", names, [*own, *derived, *general])
        for name, values in self.values.items():
            if len(values) < 2:
                raise UsageError(f"values of {name}: {list(values)}; two or more are needed, or move it to settings")
            if name in general and name not in SCHEDULE:
                raise UsageError(
                    f"setting {name} decides nothing about a result, so there is nothing to sweep; give it once"
                )
            seen = []
            for value in values:
                with located(row(name, value)):
                    identity = self.candidate(name, value).resolved
                    if identity in seen:
                        raise UsageError("is there twice; give every value once")
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
        """The same values for a few epochs on the first split: trained one at a time, they tell what an epoch takes."""
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
            raise UsageError(f"--set {pair}: a setting with its values is needed, as in final_width=50,100,150")
        if name in values:
            raise UsageError(f"--set {pair}: {name} is there twice; give all its values at once, as in {name}=v1,v2")
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
