"""A run's directory: what was trained on which data, and the result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from mcne import files
from mcne.data.dataset import SocialDataset
from mcne.data.split import DIRECTORY, Split
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.queries import WITH_VECTORS
from mcne.embeddings.ranking import Scorer
from mcne.errors import ArtifactError, DataError, MissingError, UnavailableError, UsageError
from mcne.models.registry import entry, first_name, present_name, refuse_former_settings, settings_classes
from mcne.models.settings import TrainingSettings, parse, to_json

if TYPE_CHECKING:
    import torch

SPEC, RESULT, EMBEDDINGS, LEARNED, BEHAVIORS = "run.json", "result.json", "embeddings", "learned", "behaviors"
MEMBERS = "members"
METRICS, TIMES, CHECKPOINTS, TENSORBOARD = "metrics.jsonl", "times.jsonl", "checkpoints", "tensorboard"
LEARNED_KIND, LEARNED_VERSION = "mcne learned", 1
TRANSFER = "mcne-transfer"
"""The method of a run that brought a behavior to a trained run; it cannot be made from data alone."""

SCHEDULE = ("epochs", "patience", "evaluate_every")
"""Settings of a training that decide which epoch is its best; the others decide how it gets there."""

Mode = Literal["joint", "separate"]
"""One model of all behaviors, or one of each."""


@dataclass(frozen=True)
class RunSpec:
    """A method, its settings and its data; equal specs give equal results on one machine."""

    method: str
    mode: Mode
    config: Mapping[str, Any]
    schedule: Mapping[str, Any]  # epochs, patience, evaluate_every
    seed: int
    dataset: str  # fingerprint
    split: str  # fingerprint

    @property
    def parts(self) -> str | None:
        """The directory of the runs that this one is made of: of behaviors or members; None if it is made at once."""
        if self.mode == "separate":
            return BEHAVIORS
        return MEMBERS if self.schedule.get("members", 1) > 1 else None

    @property
    def identity(self) -> str:
        """A hash of everything that decides the result; it stays the same when a method is renamed."""
        content = vars(self) | {"method": first_name(self.method)}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def difference(self, other: RunSpec) -> str:
        """The differences between two runs, setting by setting."""
        old, new = ({**vars(spec), **spec.config, **spec.schedule} for spec in (self, other))
        names = [name for name in {**old, **new} if name not in ("config", "schedule")]
        different = [name for name in names if old.get(name) != new.get(name)]
        if "method" in different:  # its settings are then others anyway
            different = ["method"]
        return ", ".join(f"{name} there {_short(old.get(name))}, here {_short(new.get(name))}" for name in different)


@dataclass(frozen=True)
class Run:
    """A finished run on disk."""

    path: Path
    spec: RunSpec
    places: Mapping[str, str]  # the dataset's directory, absolute or from the run's, and the name of the split

    @classmethod
    def open(cls, path: Path) -> Run:
        """The finished run in a directory."""
        spec, notes = read_spec(path)
        if not (path / RESULT).is_file():
            command = "transfer …" if spec.method == TRANSFER else f"train {spec.method} …"
            raise DataError.of_path("is not finished", path, f"continue it with: mcne {command} --out {path} --resume")
        return cls(path, spec, notes["places"])

    @property
    def has_vectors(self) -> bool:
        """Whether scores are inner products of vectors of users and items."""
        return (self.path / EMBEDDINGS).exists()

    @cached_property
    def embeddings(self) -> ConditionalEmbeddings:
        """What was learned, memory-mapped."""
        if not self.has_vectors:
            raise UnavailableError(
                f"{self.spec.method!r} has no vectors, so it can only recommend",
                self.path,
                WITH_VECTORS,
                value=self.spec.method,
            )
        return open_embeddings(self.path / EMBEDDINGS)

    @property
    def fingerprint(self) -> str:
        """The identity of what was learned."""
        if self.has_vectors:
            return self.embeddings.fingerprint
        if self.spec.mode == "separate":
            parts = sorted((self.path / BEHAVIORS).iterdir())
            return hashlib.sha256("".join(Run.open(part).fingerprint for part in parts).encode()).hexdigest()
        return files.read(self.path / LEARNED, LEARNED_KIND, LEARNED_VERSION).fingerprint

    @cached_property
    def result(self) -> Mapping[str, Any]:
        """How the training ended: ``epochs``, ``best_epoch`` and the metric that decided."""
        result = files.read_json(self.path / RESULT, step="train again")
        for name in ("best_epoch", "epochs", "ndcg@5", "parameters"):
            if name not in result:
                raise ArtifactError(f"is damaged (no {name})", self.path / RESULT, "train again")
        return result

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """The records of every epoch; empty if each behavior has its own model and run."""
        path = self.path / METRICS
        try:
            lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
            return [dict(json.loads(line)) for line in lines]
        except (ValueError, TypeError) as error:
            raise ArtifactError(f"is damaged ({error})", path, "train again") from error

    def data(self) -> tuple[SocialDataset, Split]:
        """The dataset and split that it was trained on, verified."""
        place = self.path / self.places["dataset"]
        if not place.exists():
            raise MissingError(
                f"its dataset {place} no longer exists", self.path, "put the dataset back", value=str(place)
            )
        dataset = SocialDataset.load(place)
        self._require("dataset", self.spec.dataset, dataset.fingerprint, place)
        split = Split.load(place / DIRECTORY / self.places["split"], dataset)
        self._require("split", self.spec.split, split.fingerprint, self.places["split"])
        return dataset, split

    def _require(self, what: str, trained: str, now: str, place: object) -> None:
        if now != trained:
            raise ArtifactError(
                f"was trained on {what} {trained[:12]}, and {place} is now {now[:12]}",
                self.path,
                f"restore the {what}, or train again",
                value=now,
                allowed=[trained],
            )

    def scorer(self, dataset: SocialDataset, split: Split, *, device: torch.device | None = None) -> Scorer:
        """The scorer of items for users; a method without vectors is rebuilt from what it learned."""
        if self.has_vectors:
            names = self.embeddings.behavior_names
            places = [names.index(name) for name in dataset.behavior_names]
            return OneOfEach(tuple((self.embeddings, at) for at in places))
        if self.spec.mode == "separate":
            scorers = []
            for k in range(len(dataset.behaviors)):
                one = dataset.only(k)
                run = Run.open(self.path / BEHAVIORS / str(k))
                scorers.append((run.scorer(one, split.only(k, one), device=device), 0))
            return OneOfEach(tuple(scorers))

        import torch

        from mcne.models.contract import Method, TrainingData

        known = entry(self.spec.method)
        (config,) = parse([known.config], self.spec.config)
        saved = files.read(self.path / LEARNED, LEARNED_KIND, LEARNED_VERSION)
        where = torch.device("cpu") if device is None else device
        method: Method = known.make(TrainingData.of(dataset, split), config, seed=self.spec.seed, device=where)
        method.load({name: torch.from_numpy(np.array(array)).to(where) for name, array in saved.arrays.items()})
        return method.scorer()


@dataclass(frozen=True)
class OneOfEach:
    """A scorer for each behavior of a dataset, and the behavior's index in that scorer."""

    scorers: tuple[tuple[Scorer, int], ...]

    def scores(self, behavior: int, users: NDArray[Any], items: NDArray[Any] | None = None) -> NDArray[np.float32]:
        """The scores of the behavior."""
        scorer, place = self.scorers[behavior]
        return scorer.scores(place, users, items)


def read_spec(path: Path) -> tuple[RunSpec, Mapping[str, Any]]:
    """The spec of a run, and everything else in ``run.json``."""
    if not (path / SPEC).is_file():
        remedy = f"train a run with: mcne train METHOD --data DATA --out {'RUN' if path.exists() else path}"
        raise files.absent(path, SPEC, "a run", remedy)
    content = files.read_json(path / SPEC, step="train again")
    try:
        spec = RunSpec(**{name: content[name] for name in RunSpec.__dataclass_fields__})
        notes = {name: dict(content[name]) for name in ("places", "machine")}
        method = present_name(spec.method, spec.config)
        return replace(spec, method=method), notes | {"version": content["version"]}
    except (ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"is damaged ({error!r})", path / SPEC, "train again") from error


def open_embeddings(path: Path) -> ConditionalEmbeddings:
    """Saved embeddings; their provenance names the method as it is called today."""
    embeddings = ConditionalEmbeddings.load(path)
    spec = embeddings.provenance.get("spec")
    if not isinstance(spec, dict):  # no training made them
        return embeddings
    method = present_name(embeddings.method, spec.get("config", ()))
    if method == embeddings.method:
        return embeddings
    renamed = {"method": method, "spec": {**spec, "method": method}}
    return replace(embeddings, provenance={**embeddings.provenance, **renamed})


def settings_of(method: str, settings: Mapping[str, Any]) -> tuple[Any, TrainingSettings]:
    """The settings of a method and its training, checked: the method's own config, and how to train."""
    refuse_former_settings(method, settings)
    config, schedule = parse([entry(method).config, TrainingSettings], settings)
    return config, schedule


def resolved(method: str, settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Everything in the settings that decides a result, defaults included: the method's config and the schedule.

    Wrong settings are refused, without importing torch.
    """
    refuse_former_settings(method, settings)
    config, schedule = parse(settings_classes(method), settings)
    return config_of(config), schedule_of(schedule)


def config_of(config: Any) -> dict[str, Any]:
    """What decides a result of a method's own settings; ``weighted_records`` only where it was asked for."""
    return {name: value for name, value in to_json(config).items() if name != "weighted_records" or value}


def schedule_of(settings: TrainingSettings) -> dict[str, Any]:
    """The settings of the training that decide the result; ``deterministic`` and ``members`` only if set."""
    order = {"deterministic": True} if settings.deterministic else {}
    members = {"members": settings.members} if settings.members > 1 else {}
    return {name: getattr(settings, name) for name in SCHEDULE} | order | members


def refuse_run(path: Path) -> None:
    """Refuse a directory that contains a run, finished or not."""
    if (path / SPEC).is_file():
        raise UsageError.of_path("already contains a run", path, "continue it with --resume, or choose another --out")


def begun_with(path: Path, method: str) -> dict[str, Any]:
    """The settings of an unfinished run of a method; none if there is no run, or one of another method."""
    if not (path / SPEC).is_file():
        return {}
    spec, _ = read_spec(path)
    known = {**spec.config, **spec.schedule} if spec.method == method else {}
    return {name: value for name, value in known.items() if value is not None}


def _short(value: object) -> str:
    return value[:12] if isinstance(value, str) else repr(value)
