"""A sweep: a method, settings that stay, and settings that take one value after another.

It is a comparison whose rows are the values.
"""

from __future__ import annotations

import dataclasses
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcne.errors import UsageError, unknown
from mcne.models.registry import entry
from mcne.models.settings import TrainingSettings, read_pairs
from mcne.studies.comparison import Candidate, Plan
from mcne.studies.plans import PlanTable
from mcne.training import resolved
from mcne.training.run import SCHEDULE

KEYS = ("title", "command", "paper", "method", "split", "repetitions", "settings", "values", "expected")
SHORTHANDS = {"final_width": "widths", "neighbor_sample": "neighbor_samples"}
"""Settings that change a list by one number: the last width (reading 16), and the sample of every layer."""
TIMED_EPOCHS = 5


@dataclass(frozen=True)
class Sweep:
    """One setting at a time over its values, all else equal: the same splits, negatives and seeds."""

    method: str
    settings: Mapping[str, Any]  # of every training
    values: Mapping[str, tuple[Any, ...]]  # setting -> what it takes, in this order
    repetitions: int
    split: str = "random"  # repetition r has split random-r; any other name: one split, r seeds the models alone
    title: str = ""
    command: str = ""
    paper: str = ""  # what the paper says about it
    expected: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)  # as a plan's, by row

    def __post_init__(self) -> None:
        _check_names(self.method, [*self.settings, *self.values])
        for name in self.values:
            self._check_values(name)

    @classmethod
    def of_pairs(cls, method: str, pairs: Sequence[str], *, repetitions: int, split: str) -> Sweep:
        """From ``NAME=v1,v2,…`` texts; settings with a single value are fixed."""
        entry(method)
        settings, values = _fixed_and_varied(read_values(pairs))
        title = f"{method}: sensitivity to {' and '.join(values)}"
        options = " ".join(f"--set {shlex.quote(pair)}" for pair in pairs)
        command = f"mcne sweep {method} --data DATA {options} --repetitions {repetitions} --split {split} --out DIR"
        return cls(method, settings, values, repetitions, split, title, command)._not_empty()

    @classmethod
    def of_file(
        cls, path: Path, pairs: Sequence[str], *, repetitions: int | None = None, split: str | None = None
    ) -> Sweep:
        """From a TOML file, in which ``pairs`` replace the settings and values of their names.

        The figures that the file expects hold for its own settings and split: with others nothing is expected.
        """
        plan = PlanTable.read(path, *KEYS)
        own_split = plan.text("split", "random")
        own_settings = plan.table("settings", "[settings] with l2 = 0.02").values
        own_values = plan.table("values", "[values] with l2 = [0.01, 0.02]").lists("l2 = [0.01, 0.02]")
        expected = plan.figures("expected", _rows(own_values), '"l2=0.01" = [28.2, 24.3]')
        replaced = read_values(pairs)
        fixed, varied = _fixed_and_varied(replaced)
        settings = {name: value for name, value in own_settings.items() if name not in replaced} | fixed
        values = {name: tuple(each) for name, each in own_values.items() if name not in replaced} | varied
        if settings != own_settings or split not in (None, own_split):
            expected = {}
        return cls(
            plan.text("method", "mcne"),
            settings,
            values,
            repetitions or plan.count("repetitions", 3),
            split or own_split,
            plan.text("title", path.stem),
            plan.text("command", f"mcne sweep {path}"),
            plan.text("paper", ""),
            {name: pair for name, pair in expected.items() if name in _rows(values)},
        )._not_empty()

    def candidate(self, name: str, value: Any) -> Candidate:
        """The training in which one setting has this value."""
        return Candidate(self.method, "joint", _spelled_out(self.method, {**self.settings, name: value}))

    def timing(self) -> Sweep:
        """The same values for a few epochs on the first split: trained one at a time, they tell what an epoch takes."""
        epochs = {} if "epochs" in self.values else {"epochs": TIMED_EPOCHS}
        return dataclasses.replace(self, settings={**self.settings, **epochs}, repetitions=1)

    def plan(self) -> Plan:
        """The comparison whose rows are the values."""
        rows = {name: (self.candidate(*of),) for name, of in _rows(self.values).items()}
        plan = Plan.without_search(rows, self.title, self.command, self.repetitions, reference=next(iter(rows)))
        return dataclasses.replace(plan, split=self.split, expected=self.expected)

    def _not_empty(self) -> Sweep:
        if not self.values:
            named = ", ".join(self.settings) or "no settings"
            raise UsageError(
                f"nothing to sweep in {named}: two values or more of one setting at least are needed, as in --set "
                "final_width=50,100,150"
            )
        return self

    def _check_values(self, name: str) -> None:
        """Refuse a wrong value, a value twice and a setting that decides nothing, before anything is trained."""
        values = self.values[name]
        seen = []
        if len(values) < 2:
            raise UsageError(f"values of {name}: {list(values)}; two or more are needed, or move it to settings")
        if name in {field.name for field in dataclasses.fields(TrainingSettings)} - set(SCHEDULE):
            raise UsageError(
                f"setting {name} decides nothing about a result, so there is nothing to sweep; give it once"
            )
        for value in values:
            try:
                identity = self.candidate(name, value).resolved
            except UsageError as error:
                raise UsageError(f"{row(name, value)}: {error}") from error
            if identity in seen:
                raise UsageError(f"{row(name, value)}: is there twice; give every value once")
            seen.append(identity)


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


def _fixed_and_varied(values: Mapping[str, tuple[Any, ...]]) -> tuple[dict[str, Any], dict[str, tuple[Any, ...]]]:
    """The settings with a single value, and those with several."""
    fixed = {name: each[0] for name, each in values.items() if len(each) == 1}
    return fixed, {name: each for name, each in values.items() if len(each) > 1}


def _rows(values: Mapping[str, Sequence[Any]]) -> dict[str, tuple[str, Any]]:
    """The setting and the value of every row."""
    return {row(name, value): (name, value) for name, all_ in values.items() for value in all_}


def _check_names(method: str, names: Sequence[str]) -> None:
    """Refuse unknown settings, with the nearest one."""
    own = [field.name for field in dataclasses.fields(entry(method).config)]
    derived = [name for name, whole in SHORTHANDS.items() if whole in own]
    known = [*own, *derived, *(field.name for field in dataclasses.fields(TrainingSettings))]
    for name in names:
        if name not in known:
            raise UsageError(unknown(f"setting of {method}", name, known))


def _spelled_out(method: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that change a list by one number, as that list."""
    plain = {name: value for name, value in given.items() if name not in SHORTHANDS}
    config, _ = resolved(method, plain)
    for name, whole in SHORTHANDS.items():
        if name in given:
            before, value = config[whole], given[name]
            plain[whole] = [*before[:-1], value] if name == "final_width" else [value] * len(before)
    return plain
