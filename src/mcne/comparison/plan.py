"""What is compared: methods with the settings to search, on the repetitions of a split."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from mcne.data.dataset import SocialDataset
from mcne.data.split import Split
from mcne.errors import UsageError, unknown
from mcne.evaluation.protocol import ProtocolName
from mcne.runs import Mode, settings_of, split_of
from mcne.training.settings import read_toml

KEYS = ("title", "command", "split", "repetitions", "search", "protocols", "reference")
TABLES = ("training", "methods", "paper")
METHOD_KEYS = ("method", "modes", "settings", "search")
MODES = get_args(Mode)
PROTOCOLS = get_args(ProtocolName)


@dataclass(frozen=True)
class Candidate:
    """A method with all its settings, ready to train."""

    method: str
    mode: Mode
    given: Mapping[str, Any]

    def said(self, common: Mapping[str, Any]) -> str:
        """What sets it apart, in a line."""
        own = {name: value for name, value in self.given.items() if common.get(name) != value}
        return ", ".join([self.mode, *(f"{name}={value}" for name, value in own.items())])


@dataclass(frozen=True)
class Cell:
    """One training: a candidate on one repetition; a search cell never sees the test part."""

    candidate: Candidate
    repetition: int
    is_search: bool
    dataset: str  # fingerprint
    split: str  # fingerprint

    @property
    def name(self) -> str:
        """Unique and readable: the same work has the same name on any machine."""
        said = {**vars(self), "candidate": vars(self.candidate)}
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

    @classmethod
    def read(cls, path: Path, *, only: tuple[str, ...] = ()) -> Plan:
        """The plan of a TOML file, checked; ``only`` keeps some of its methods."""
        said = read_toml(path)
        _known(path, said, (*KEYS, *TABLES), what="key")
        methods = said.get("methods", {})
        for name in only:
            if name not in methods:
                raise UsageError(f"{path}: {unknown('method', name, methods)}")
        search = _count(path, said, "search", 12)
        plan = cls(
            title=str(said.get("title", path.stem)),
            command=str(said.get("command", f"mcne compare {path}")),
            split=str(said.get("split", "random")),
            repetitions=_count(path, said, "repetitions", 10),
            search=search,
            protocols=tuple(said.get("protocols", ["sampled"])),
            reference=str(said.get("reference", "mcne")),
            candidates={
                name: _candidates(path, name, table, said.get("training", {}), search)
                for name, table in methods.items()
                if not only or name in only
            },
            paper={m: {b: (row[0], row[1]) for b, row in rows.items()} for m, rows in said.get("paper", {}).items()},
        )
        for protocol in plan.protocols:
            if protocol not in PROTOCOLS:
                raise UsageError(f"{path}: {unknown('protocol', protocol, PROTOCOLS)}")
        if not plan.candidates:
            raise UsageError(f"{path}: no methods; add a table such as [methods.bpr]")
        return plan

    def split_name(self, repetition: int) -> str:
        """The split of a repetition."""
        return f"random-{repetition}" if self.split == "random" else self.split

    def splits(self, data: Path, dataset: SocialDataset) -> list[Split]:
        """The split of every repetition, made where it is not there yet."""
        return [split_of(data, dataset, self.split_name(repetition)) for repetition in range(self.repetitions)]


def _candidates(
    path: Path, row: str, table: Mapping[str, Any], training: Mapping[str, Any], most: int
) -> tuple[Candidate, ...]:
    """Every mode with every combination of the searched settings."""
    _known(path, table, METHOD_KEYS, what=f"key of methods.{row}")
    method = str(table.get("method", row))
    searched: Mapping[str, Any] = table.get("search", {})
    modes = table.get("modes", ["joint"])
    for mode in modes:
        if mode not in MODES:
            raise UsageError(f"{path}, methods.{row}: {unknown('mode', mode, MODES)}")
    found = []
    for mode in modes:
        for values in itertools.product(*searched.values()):
            given = {**training, **table.get("settings", {}), **dict(zip(searched, values, strict=True))}
            settings_of(method, given)  # an unknown method or a wrong setting is told before anything is trained
            found.append(Candidate(method, mode, given))
    if len(found) > most:
        raise UsageError(
            f"{path}, methods.{row}: {len(found)} candidates, but every method has a budget of {most}; search fewer "
            "settings, or raise search for all methods"
        )
    return tuple(found)


def _known(path: Path, table: Mapping[str, Any], allowed: tuple[str, ...], *, what: str) -> None:
    for key in table:
        if key not in allowed:
            raise UsageError(f"{path}: {unknown(what, key, allowed)}")


def _count(path: Path, said: Mapping[str, Any], name: str, default: int) -> int:
    value = said.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"{path}: {name} is {value!r}; a whole number of 1 or more is needed")
    return value
