"""What is compared where a behavior comes to a trained model: ways to bring it, and methods that know it alone."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from mcne.errors import UsageError, unknown
from mcne.extend.learner import Control, TransferConfig
from mcne.models.settings import TrainingSettings, parse, read_toml
from mcne.studies.given import Given
from mcne.training import resolved, settings_of
from mcne.training.run import TRANSFER, schedule_of

KEYS = ("title", "command", "behavior", "repetitions", "search", "reference")
TABLES = ("training", "base", "rows", "paper", "expected")
ROW_KEYS = ("method", "control", "on", "settings", "search")
PLACES = ("new", "all")
"""What a method learns from: the new behavior alone, or all of them together."""


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

    def schedule(self) -> dict[str, Any]:
        """How long it is trained, defaults included; a wrong setting is refused."""
        if self.is_transfer:
            _, settings = parse([TransferConfig, TrainingSettings], self.given)
        else:
            _, settings = settings_of(self.method, self.given)
        return schedule_of(settings)

    def digest(self, base: Way) -> str:
        """The identity of what it computes from a seed and data; a transfer's depends on what it is brought to."""
        said = [self.method, self.on, self._resolved(), base._resolved() if self.is_transfer else None]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:12]

    def _resolved(self) -> Any:
        return dict(self.given) if self.is_transfer else resolved(self.method, self.given)


@dataclass(frozen=True)
class TransferPlan:
    """A comparison as its TOML file tells it."""

    title: str
    command: str
    behavior: str
    repetitions: int
    reference: str  # the row that others are tested against
    base: Way  # what is trained on all other behaviors
    rows: Mapping[str, tuple[Way, ...]]  # by name: the candidates, of which validation chooses one
    paper: Mapping[str, tuple[float, float]]  # row -> Recall@5 and NDCG@5 in percent
    expected: Mapping[str, tuple[float, float]]  # row -> what an earlier run found

    @classmethod
    def read(cls, path: Path) -> TransferPlan:
        """The plan of a TOML file, checked."""
        said = Given(path, "", read_toml(path))
        said.has_only(*KEYS, *TABLES)
        behavior = said.text("behavior", "")
        if not behavior:
            raise said.wrong("behavior", "the name of the behavior that comes is needed", 'behavior = "Sports"')
        training = said.table("training", "[training] with epochs = 100").values
        search = said.count("search", 12)
        tables = said.table("rows", "[rows.transfer]").tables("[rows.transfer]")
        rows = {name: _ways(name, table, training, search) for name, table in tables.items()}
        reference = said.text("reference", "transfer")
        paper = said.table("paper", "[paper]").pairs("transfer = [31.20, 27.55]")
        expected = said.table("expected", "[expected]").pairs("transfer = [31.2, 26.7]")
        for what, names in (("reference", [reference]), ("row of paper", paper), ("row of expected", expected)):
            for name in names:
                if name not in rows:
                    raise UsageError(f"{path}: {unknown(what, name, rows)}; add a table such as [rows.{reference}]")
        return cls(
            title=said.text("title", path.stem),
            command=said.text("command", f"mcne compare-transfer {path}"),
            behavior=behavior,
            repetitions=said.count("repetitions", 10),
            reference=reference,
            base=_base(said.table("base", '[base] with method = "mcne"'), training),
            rows=rows,
            paper=paper,
            expected=expected,
        )


def _base(table: Given, training: Mapping[str, Any]) -> Way:
    table.has_only("method", "settings")
    settings = table.table("settings", "settings = { l2 = 0.005 }").values
    return _checked(table, Way(table.text("method", "mcne"), "new", {**training, **settings}))


def _ways(row: str, table: Given, training: Mapping[str, Any], most: int) -> tuple[Way, ...]:
    """Every combination of the searched settings."""
    table.has_only(*ROW_KEYS)
    method, on = table.text("method", TRANSFER), table.text("on", "new")
    if on not in PLACES:
        raise UsageError(f"{table.path}, {table.name}: {unknown('value of on', on, PLACES)}")
    control = table.text("control", "none")
    if control not in get_args(Control):
        raise UsageError(f"{table.path}, {table.name}: {unknown('control', control, get_args(Control))}")
    fixed = dict(table.table("settings", "settings = { l2 = 0.01 }").values)
    if method == TRANSFER:
        fixed["control"] = control
    elif "control" in table.values:
        raise table.wrong("control", "only a transfer has one", "a row without method")
    searched = table.table("search", f"[{table.name}.search] with l2 = [0.02, 0.1]").lists("l2 = [0.02, 0.1]")
    found = [
        _checked(table, Way(method, on, {**training, **fixed, **dict(zip(searched, values, strict=True))}))
        for values in itertools.product(*searched.values())
    ]
    if len(found) > most:
        raise UsageError(
            f"{table.path}, {table.name}: {len(found)} candidates, but every row has a budget of {most}; search fewer "
            "settings, or raise search for all rows"
        )
    return tuple(found)


def _checked(table: Given, way: Way) -> Way:
    """Refuse an unknown method and a wrong setting before anything is trained."""
    try:
        way.schedule()  # refuses both
    except UsageError as error:
        raise UsageError(f"{table.path}, {table.name}: {error}") from error
    return way
