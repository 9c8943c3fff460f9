"""What is asked: methods on the same networks without some of their links, in a directory that can be gone on with."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcne.analysis.links import HeldOut, hold_out
from mcne.data.dataset import SocialDataset
from mcne.data.split import Split, random_split
from mcne.errors import ArtifactError, UsageError, unknown
from mcne.files import aside_of, locked, read_json, write_json
from mcne.models.registry import METHODS, entry, refusal
from mcne.models.settings import TrainingSettings, read_pairs
from mcne.training import RunSpec, resolved

STUDY, CELLS = "study.json", "cells"
KIND = "mcne structure"
SOMETHING_ELSE = "holds something else than such a study; choose another --out"


@dataclass(frozen=True, eq=False)
class Repetition:
    """The network without the held-out links of one repetition, whose number seeds everything drawn for it."""

    number: int
    held_out: HeldOut
    dataset: SocialDataset  # in which nobody can see the held-out links
    split: Split

    @classmethod
    def of(cls, dataset: SocialDataset, number: int, *, share: float) -> Repetition:
        """Hold out a share of the links; interactions and their parts are those of split ``random-NUMBER``."""
        held_out = hold_out(dataset.graph, share=share, seed=number)
        thinned = dataclasses.replace(dataset, graph=held_out.graph)
        return cls(number, held_out, thinned, random_split(thinned, seed=number))


@dataclass(frozen=True)
class Study:
    """Methods with their settings, and how many times which share of the links is held out."""

    dataset: SocialDataset
    out: Path
    share: float
    repetitions: int
    methods: Mapping[str, Mapping[str, Any]]  # by name: the settings given

    def __post_init__(self) -> None:
        if not self.methods:
            raise UsageError("no methods; name some, as in --methods mcne,node2vec,line")
        if self.repetitions < 1:
            raise UsageError(f"{self.repetitions} repetitions: 1 or more are needed")
        for method, given in self.methods.items():
            _check(method, self.dataset)
            resolved(method, given)
        hold_out(self.dataset.graph, share=self.share, seed=0)  # which tells a share or a network that cannot be used

    def open(self) -> None:
        """Begin in the directory, or go on there; what it holds of another study is never touched."""
        now = self._said()
        if self.out.exists() and not self.out.is_dir():
            raise UsageError(f"{self.out}: {SOMETHING_ELSE}")
        self.out.mkdir(parents=True, exist_ok=True)
        with locked(self.out, wait=True):
            is_new = not (self.out / STUDY).is_file()
            if is_new and {each.name for each in self.out.iterdir()} - {aside_of(self.out / STUDY).name}:
                raise UsageError(f"{self.out}: {SOMETHING_ELSE}")
            before = now if is_new else read_study(self.out)
            for key, what in (("dataset", "dataset"), ("share", "share")):
                if before[key] != now[key]:
                    raise UsageError(
                        f"{self.out}: holds a study of another {what} ({_short(before[key])}, this one is "
                        f"{_short(now[key])}); choose another --out"
                    )
            for method, settings in now["methods"].items():
                if before["methods"].get(method, settings) != settings:
                    raise UsageError(f"{self.out}: holds {method} with other settings; choose another --out")
            repetitions = max(before["repetitions"], now["repetitions"])
            methods = {**before["methods"], **now["methods"]}
            write_json(self.out / STUDY, now | {"repetitions": repetitions, "methods": methods})

    def _said(self) -> dict[str, Any]:
        return {
            "kind": KIND,
            "dataset": self.dataset.fingerprint,
            "share": self.share,
            "repetitions": self.repetitions,
            "methods": {method: list(resolved(method, given)) for method, given in self.methods.items()},
        }


def read_study(out: Path) -> dict[str, Any]:
    """All that was ever asked for in a directory."""
    said = read_json(out / STUDY, step="choose another --out")
    missing = {"dataset", "share", "repetitions", "methods"} - set(said)
    if missing or said.get("kind") != KIND:
        raise ArtifactError(f"{out / STUDY}: damaged (no {', '.join(sorted(missing)) or 'kind'}); choose another --out")
    return said


def cell_directory(out: Path, method: str, settings: Sequence[Mapping[str, Any]], repetition: Repetition) -> Path:
    """Where a training is kept; the name depends on everything that decides its result."""
    config, schedule = settings
    prints = repetition.dataset.fingerprint, repetition.split.fingerprint
    spec = RunSpec(method, "joint", config, schedule, repetition.number, *prints)
    others = {kind: hashlib.sha256(pairs.tobytes()).hexdigest() for kind, pairs in repetition.held_out.others.items()}
    said = json.dumps([spec.identity, others], sort_keys=True)
    digest = hashlib.sha256(said.encode() + repetition.held_out.links.tobytes()).hexdigest()
    return out / CELLS / f"{method}-r{repetition.number}-{digest[:12]}"


def settings_by_method(methods: Sequence[str], pairs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What ``--set`` gives each method: ``epochs=5`` to all that have such a setting, ``mcne.epochs=5`` to one."""
    for name in methods:
        entry(name)
    if len(set(methods)) < len(methods):
        raise UsageError(f"--methods {','.join(methods)}: one is there twice; name every method once")
    known = {name: _settings_of(name) for name in methods}
    shared: dict[str, dict[str, Any]] = {name: {} for name in methods}
    alone: dict[str, dict[str, Any]] = {name: {} for name in methods}
    for key, value in read_pairs(pairs).items():
        method, dot, setting = key.partition(".")
        if dot:
            if method not in known:
                raise UsageError(f"--set {key}: {unknown('method', method, methods)}")
            alone[method][setting] = value
            continue
        takers = [name for name in methods if key in known[name]]
        if not takers:
            raise UsageError(unknown("setting", key, dict.fromkeys(each for names in known.values() for each in names)))
        for name in takers:
            shared[name][key] = value
    return {name: shared[name] | alone[name] for name in methods}


def _settings_of(method: str) -> list[str]:
    return [field.name for kind in (entry(method).config, TrainingSettings) for field in dataclasses.fields(kind)]


def _check(method: str, dataset: SocialDataset) -> None:
    if not entry(method).has_user_vectors:
        able = [name for name, each in METHODS.items() if each.has_user_vectors]
        raise UsageError(f"{method} has no vectors of users, so it says nothing of links; choose {', '.join(able)}")
    refused = refusal(method, dataset, is_alone=False)
    if refused:
        raise UsageError(refused)


def _short(value: object) -> str:
    return value[:12] if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)
