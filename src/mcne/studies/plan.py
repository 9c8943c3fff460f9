"""What is compared: methods with the settings to search, on the repetitions of a split."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from mcne.data.dataset import SocialDataset
from mcne.data.split import VALIDATION, Split, split_of
from mcne.errors import UsageError, unknown
from mcne.evaluation.protocol import ProtocolName
from mcne.models.registry import refusal
from mcne.models.settings import read_toml
from mcne.studies.given import Given
from mcne.training import Mode, RunSpec, resolved

KEYS = ("extends", "title", "command", "split", "repetitions", "search", "protocols", "reference")
TABLES = ("training", "methods", "paper", "expected")
METHOD_KEYS = ("method", "modes", "settings", "search")


@dataclass(frozen=True)
class Candidate:
    """A method with all its settings, ready to train."""

    method: str
    mode: Mode
    given: Mapping[str, Any]

    @cached_property
    def resolved(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The method's config and the schedule with every default filled in."""
        return resolved(self.method, self.given)


@dataclass(frozen=True)
class Cell:
    """One training: a candidate on one repetition; a search cell never sees the test part."""

    candidate: Candidate
    repetition: int
    is_search: bool
    dataset: str  # fingerprint
    split: str  # fingerprint
    protocols: tuple[ProtocolName, ...]  # none of a search cell

    @property
    def spec(self) -> RunSpec:
        """The run that is trained for it."""
        candidate = self.candidate
        return RunSpec(candidate.method, candidate.mode, *candidate.resolved, self.repetition, self.dataset, self.split)

    @property
    def name(self) -> str:
        """Readable, and of everything that decides the result: the same work has the same name on any machine.

        Defaults count as if they had been given, so a default that changes does not go on with older cells.
        """
        said = {"run": self.spec.identity, "is_search": self.is_search, "protocols": sorted(self.protocols)}
        digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:12]
        kind = "search" if self.is_search else f"r{self.repetition}"
        return f"{self.candidate.method}-{kind}-{digest}"


@dataclass(frozen=True)
class Plan:
    """A comparison as its TOML file tells it."""

    title: str
    command: str
    split: str  # "random": repetition r has split random-r; any other name: one split, r seeds the models alone
    repetitions: int
    search: int  # candidates of a method at most
    protocols: tuple[ProtocolName, ...]
    reference: str  # the row that others are tested against
    candidates: Mapping[str, tuple[Candidate, ...]]  # by row: a method, or a name given to one with other settings
    paper: Mapping[str, Mapping[str, tuple[float, float]]]  # row -> behavior -> Recall@5 and NDCG@5 in percent
    expected: Mapping[str, tuple[float, float]]  # row -> what an earlier run found on average over behaviors
    trained: tuple[str, ...]  # the rows to train now; tables are of all

    @classmethod
    def read(cls, path: Path, *, only: tuple[str, ...] = ()) -> Plan:
        """The plan of a TOML file, checked; ``only`` limits what is trained."""
        said = _read(path)
        methods = said.table("methods", "[methods.bpr]").tables("[methods.bpr]")
        if not methods:
            raise UsageError(f"{path}: no methods; add a table such as [methods.bpr]")
        training = said.table("training", "[training] with epochs = 100").values
        search = said.count("search", 12)
        paper = said.table("paper", "[paper.mcne]").tables("[paper.mcne] with Books = [29.67, 35.75]")
        reference = said.text("reference", "mcne")
        if reference not in methods:
            known = unknown("row", reference, methods)
            raise UsageError(f'{path}, reference: {known}; name one, as in reference = "{next(iter(methods))}"')
        expected = said.table("expected", "[expected]").pairs("bpr = [30.1, 26.8]")
        for what, names in (("method", only), ("row of paper", paper), ("row of expected", expected)):
            for name in names:
                if name not in methods:
                    raise UsageError(f"{path}: {unknown(what, name, methods)}")
        return cls(
            title=said.text("title", path.stem),
            command=said.text("command", f"mcne compare {path}"),
            split=said.text("split", "random"),
            repetitions=said.count("repetitions", 10),
            search=search,
            protocols=cast(tuple[ProtocolName, ...], said.choices("protocols", "sampled", get_args(ProtocolName))),
            reference=reference,
            candidates={name: _candidates(name, table, training, search) for name, table in methods.items()},
            paper={name: table.pairs("Books = [29.67, 35.75]") for name, table in paper.items()},
            expected=expected,
            trained=tuple(name for name in methods if not only or name in only),
        )

    @classmethod
    def of_methods(cls, methods: Sequence[str], *, repetitions: int) -> Plan:
        """Methods by name with their default settings, on random splits; tested against mcne, or the first."""
        candidates = {name: (Candidate(name, "joint", {}),) for name in methods}
        if len(candidates) < len(methods):
            raise UsageError(f"--methods {','.join(methods)}: a method is there twice; name every one once")
        for name in methods:
            resolved(name, {})  # refuses what is no method
        return cls(
            title=f"{', '.join(candidates)} with default settings",
            command=f"mcne compare --data DATA --methods {','.join(candidates)} --seeds {repetitions} --out DIR",
            split="random",
            repetitions=repetitions,
            search=1,
            protocols=("sampled",),
            reference="mcne" if "mcne" in candidates else methods[0],
            candidates=candidates,
            paper={},
            expected={},
            trained=tuple(candidates),
        )

    def split_name(self, repetition: int) -> str:
        """The split of a repetition."""
        return f"random-{repetition}" if self.split == "random" else self.split

    def splits(self, data: Path, dataset: SocialDataset) -> list[Split]:
        """The split of every repetition, made where it is not there yet."""
        return [split_of(data, dataset, self.split_name(repetition)) for repetition in range(self.repetitions)]

    def check(self, dataset: SocialDataset, first: Split) -> None:
        """Refuse what the data does not allow, before anything is trained on it."""
        for row in self.trained:
            for candidate in self.candidates[row]:
                refused = refusal(candidate.method, dataset, is_alone=candidate.mode == "separate")
                if refused:
                    raise UsageError(f"methods.{row}: {refused}")
        for row, behaviors in self.paper.items():
            for name in behaviors:
                if name not in dataset.behavior_names:
                    raise UsageError(f"paper.{row}: {unknown('behavior', name, dataset.behavior_names)}")
        searched = [name for name, candidates in self.candidates.items() if len(candidates) > 1]
        if searched and not any(np.any(part == VALIDATION) for part in first.parts):
            raise UsageError(
                f"split {self.split_name(0)} has no interactions to validate on, so nothing can be chosen for "
                f"{', '.join(searched)}; make a split with a validation part, or give one value for each setting"
            )


def _read(path: Path) -> Given:
    """A plan's file; what it leaves out is as in the file beside it that it ``extends``, if it does."""
    said = Given(path, "", read_toml(path))
    said.has_only(*KEYS, *TABLES)
    if "extends" not in said.values:
        return said
    base = path.parent / said.text("extends", "other.toml")
    if "extends" in (values := read_toml(base)):
        raise UsageError(f"{path}: {base.name} itself extends another plan; name that one")
    Given(base, "", values).has_only(*KEYS, *TABLES)
    return Given(path, "", {**values, **said.values})


def _candidates(row: str, table: Given, training: Mapping[str, Any], most: int) -> tuple[Candidate, ...]:
    """Every mode with every combination of the searched settings."""
    table.has_only(*METHOD_KEYS)
    method = table.text("method", row)
    settings = table.table("settings", "settings = { width = 64 }").values
    searched = table.table("search", f"[{table.name}.search] with l2 = [0.02, 0.1]").lists("l2 = [0.02, 0.1]")
    modes = cast(tuple[Mode, ...], table.choices("modes", "joint", get_args(Mode)))
    found = []
    for mode, *values in itertools.product(modes, *searched.values()):
        found.append(Candidate(method, mode, {**training, **settings, **dict(zip(searched, values, strict=True))}))
    if len(found) > most:
        raise UsageError(
            f"{table.path}, {table.name}: {len(found)} candidates, but every method has a budget of {most}; search "
            "fewer settings, or raise search for all methods"
        )
    _check_different(table, found)
    return tuple(found)


def _check_different(table: Given, candidates: list[Candidate]) -> None:
    """Refuse an unknown method, a wrong setting, and the same candidate twice, before anything is trained."""
    seen: list[Any] = []
    for candidate in candidates:
        try:
            identity = (candidate.mode, candidate.resolved)
        except UsageError as error:
            raise UsageError(f"{table.path}, {table.name}: {error}") from error
        if identity in seen:
            raise UsageError(f"{table.path}, {table.name}.search: a value is there twice; every one is trained once")
        seen.append(identity)
