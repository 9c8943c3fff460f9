"""Runs: one trained method in a directory, from its settings to its embeddings.

``run.json`` says what is trained on what, ``metrics.jsonl`` how it went, ``checkpoints/`` where it stands,
``embeddings/`` what came out and ``result.json`` that it is finished. Reading a run needs no torch; training imports
it where it is used.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mcne import __version__
from mcne.data.dataset import SocialDataset
from mcne.data.split import DIRECTORY, Split, random_split, split_names
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.errors import ArtifactError, DataError, DivergedError, UsageError, unknown
from mcne.evaluation.protocol import evaluate
from mcne.evaluation.scorer import Scorer

if TYPE_CHECKING:
    import torch

    from mcne.training.contract import Method
    from mcne.training.journal import Reporter
    from mcne.training.loop import Evaluated
    from mcne.training.settings import TrainingSettings

SPEC, RESULT, EMBEDDINGS = "run.json", "result.json", "embeddings"
DECIDING_METRIC = "ndcg@5"
DEVICES = ("auto", "cpu", "cuda")
SCHEDULE = ("epochs", "patience", "evaluate_every")
"""Settings of a training that decide which epoch is its best; the others decide how it gets there."""
SOMETHING_ELSE = "holds something else than a run; choose another --out"
CALMER = "the training diverged: lower learning_rate or raise l2"


@dataclass(frozen=True)
class RunSpec:
    """What is trained on what; equal specs give equal results."""

    method: str
    config: Mapping[str, Any]
    seed: int
    dataset: str  # fingerprint
    split: str  # fingerprint

    @property
    def identity(self) -> str:
        """A hash of everything that decides the result of a given number of epochs."""
        return hashlib.sha256(json.dumps(vars(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Run:
    """A finished run on disk."""

    path: Path
    spec: RunSpec
    places: Mapping[str, str]  # the dataset's directory, absolute or from the run's, and the name of the split

    @cached_property
    def embeddings(self) -> ConditionalEmbeddings:
        """What was learned, memory-mapped."""
        return ConditionalEmbeddings.load(self.path / EMBEDDINGS)

    @cached_property
    def result(self) -> Mapping[str, Any]:
        """How the training ended: ``epochs``, ``best_epoch`` and the metric that decided."""
        return dict(_read_json(self.path / RESULT))

    @classmethod
    def open(cls, path: Path) -> Run:
        """The finished run in a directory."""
        spec, places, _ = _read_spec(path)
        if not (path / RESULT).is_file():
            raise DataError(f"{path}: not finished yet; go on with: mcne train {spec.method} … --out {path} --resume")
        return cls(path, spec, places)

    def data(self) -> tuple[SocialDataset, Split]:
        """The dataset and split that it was trained on, verified."""
        place = self.path / self.places["dataset"]
        if not place.exists():
            raise DataError(f"{self.path}: trained on the dataset in {place}, which is no longer there; put it back")
        dataset = SocialDataset.load(place)
        if dataset.fingerprint != self.spec.dataset:
            raise ArtifactError(
                f"{self.path}: trained on dataset {self.spec.dataset[:12]}, but {place} is now "
                f"{dataset.fingerprint[:12]}"
            )
        split = Split.load(place / DIRECTORY / self.places["split"], dataset)
        if split.fingerprint != self.spec.split:
            raise ArtifactError(
                f"{self.path}: trained on split {self.spec.split[:12]}, but {self.places['split']} is now "
                f"{split.fingerprint[:12]}"
            )
        return dataset, split


def choose_device(name: str) -> torch.device:
    """``cpu``, ``cuda``, or with ``auto`` the GPU where there is one."""
    import torch

    if name not in DEVICES:
        raise UsageError(unknown("device", name, DEVICES))
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("device cuda: PyTorch sees no GPU here; use --device cpu, or install a CUDA build of PyTorch")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and torch.cuda.is_available()) else "cpu")


def split_of(data: Path, dataset: SocialDataset, name: str) -> Split:
    """A split kept with a dataset; ``random-N`` is made with seed N where it is not there yet."""
    kept, names = data / DIRECTORY, split_names(data)
    kind, _, number = name.rpartition("-")
    if name not in names:
        if kind != "random" or not number.isdecimal():
            known = unknown("split", name, [*names, "random-N"])
            raise UsageError(f"{known}; make others with: mcne data split {data} --name NAME …")
        random_split(dataset, seed=int(number)).save(kept / name)
    return Split.load(kept / name, dataset)


def settings_of(method: str, given: Mapping[str, Any]) -> tuple[Any, TrainingSettings]:
    """What a method and its training were told, checked: the method's own config, and how to train."""
    from mcne.methods.registry import entry
    from mcne.training.settings import TrainingSettings, parse

    config, settings = parse([entry(method).config, TrainingSettings], given)
    return config, settings


def train(
    method: str,
    dataset: SocialDataset,
    split: Split,
    path: Path,
    *,
    given: Mapping[str, Any],
    seed: int,
    device: torch.device,
    resume: bool,
    places: Mapping[str, str],
    reporter: Reporter,
) -> Run:
    """Train a method and leave a finished run at ``path``."""
    from mcne.methods.registry import entry
    from mcne.training.contract import TrainingData
    from mcne.training.journal import RunJournal, tensorboard_writer
    from mcne.training.loop import fit
    from mcne.training.settings import to_json

    config, settings = settings_of(method, given)
    spec, training = RunSpec(method, to_json(config), seed, dataset.fingerprint, split.fingerprint), to_json(settings)
    if settings.tensorboard:
        tensorboard_writer()  # an error before anything is made
    with _alone(path):
        finished = _open_finished(path, spec, training, resume=resume, reporter=reporter)
        if finished is not None:
            return finished
        model: Method = entry(method).make(TrainingData.of(dataset, split), config, seed=seed, device=device)
        _start(path, vars(spec) | {"training": training, "places": dict(places), "version": __version__})
        with closing(RunJournal(path, identity=spec.identity, settings=settings, reporter=reporter)) as journal:
            position = fit(
                model,
                lambda current: _validate(current, dataset, split),
                names=tuple(dataset.behavior_names),
                settings=settings,
                journal=journal,
                device=device,
            )
        result = {"best_epoch": position.best_epoch, DECIDING_METRIC: position.best_metric, "epochs": position.epoch}
        provenance = {"method": method, "version": __version__, "spec": vars(spec), "result": result}
        _embeddings(model, dataset, provenance).save(path / EMBEDDINGS)
        _write_json(path / RESULT, result)
    return Run(path, spec, places)


@dataclass(frozen=True)
class _Finite:
    """A scorer whose answers must be finite: a training may leave its range in a last step that no loss sees."""

    scorer: Scorer
    names: list[str]

    def scores(self, behavior: int, users: NDArray[Any], items: NDArray[Any] | None = None) -> NDArray[np.float32]:
        scores = self.scorer.scores(behavior, users, items)
        if not np.all(np.isfinite(scores)):
            raise DivergedError(f"the scores of {self.names[behavior]} are not finite; {CALMER}")
        return scores


def _validate(model: Method, dataset: SocialDataset, split: Split) -> Evaluated:
    """The metric that decides, on the validation part alone."""
    from mcne.training.loop import Evaluated

    scorer = _Finite(model.scorer(), dataset.behavior_names)
    found = evaluate(scorer, dataset, split, part="validation", protocol="sampled")
    return Evaluated(found.overall(DECIDING_METRIC), found.summary())


def _embeddings(model: Method, dataset: SocialDataset, provenance: Mapping[str, Any]) -> ConditionalEmbeddings:
    """What was learned, which validation has seen to be finite where there was any validation."""
    try:
        return model.embeddings(dataset, provenance)
    except ValueError as error:
        raise DivergedError(f"nothing usable was learned ({error}); {CALMER}") from error


def _open_finished(
    path: Path, spec: RunSpec, training: Mapping[str, Any], *, resume: bool, reporter: Reporter
) -> Run | None:
    """The run if it is finished already; otherwise see that ``path`` is free, or this run's."""
    from mcne.training.journal import aside_of

    if (path / SPEC).is_file():
        there, places, before = _read_spec(path)
        if not resume:
            raise UsageError(f"{path}: a run is there already; go on with --resume, or choose another --out")
        difference = _difference(_deciding(there, before), _deciding(spec, training))
        if difference or there.identity != spec.identity:
            raise ArtifactError(
                f"{path}: holds another run ({difference}); repeat what it was started with, or choose another --out"
            )
        if (path / RESULT).is_file():
            reporter.say(f"{path}: finished already")
            return Run(path, spec, places)
        return None
    if {each.name for each in path.iterdir()} - {aside_of(path / SPEC).name}:
        raise UsageError(f"{path}: {SOMETHING_ELSE}")
    if resume:
        reporter.say(f"{path}: nothing to resume there, so the training starts anew")
    return None


def _start(path: Path, said: Mapping[str, Any]) -> None:
    """Say what is trained here, unless it was said before."""
    if not (path / SPEC).is_file():
        _write_json(path / SPEC, said)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Make the run's directory and hold it: two trainings that write the same metrics would spoil both.

    Whatever is looked at in the block is still so when it is written. Directories that stay empty vanish again.
    """
    new = [place for place in (path, *path.parents) if not place.exists()]
    lock = _lock(path)
    try:
        yield
    finally:
        for place in new:
            with suppress(OSError):
                place.rmdir()
        os.close(lock)


def _lock(path: Path) -> int:
    """A descriptor of the directory that holds its lock."""
    while True:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise UsageError(f"{path}: {SOMETHING_ELSE}") from error
        lock = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise UsageError(f"{path}: another process is training there now; wait for it to end") from error
        if path.exists() and os.path.samestat(os.fstat(lock), path.stat()):
            return lock
        os.close(lock)  # its last holder removed it, empty as it was


def _read_spec(path: Path) -> tuple[RunSpec, Mapping[str, str], Mapping[str, Any]]:
    """What is trained there, where its data is, and how it is trained."""
    if not (path / SPEC).is_file():
        raise DataError(f"{path}: no {SPEC}, so this is no run; make one with mcne train")
    said = _read_json(path / SPEC)
    try:
        spec = RunSpec(**{name: said[name] for name in ("method", "config", "seed", "dataset", "split")})
        return spec, dict(said["places"]), dict(said["training"])
    except (ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"{path / SPEC}: damaged ({error!r}); train again") from error


def _deciding(spec: RunSpec, training: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that decides what a training gives, by its name."""
    named = {name: value for name, value in vars(spec).items() if name != "config"}
    return named | dict(spec.config) | {name: training.get(name) for name in SCHEDULE}


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """What two runs differ in, setting by setting."""
    different = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if "method" in different:  # its settings are then others anyway
        different = ["method"]
    return ", ".join(f"{name} there {_short(old.get(name))}, here {_short(new.get(name))}" for name in different)


def _short(value: object) -> str:
    return value[:12] if isinstance(value, str) else repr(value)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ArtifactError(f"{path}: damaged ({error}); train again") from error


def _write_json(path: Path, data: Mapping[str, Any]) -> None:
    from mcne.training.journal import overwrite

    overwrite(path, json.dumps(data, indent=1, sort_keys=True).encode() + b"\n")
