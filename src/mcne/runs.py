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
from contextlib import contextmanager
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
        spec, places = _read_spec(path)
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
    for name, value in {**vars(config), **vars(settings)}.items():
        for each in value if isinstance(value, tuple) else [value]:
            _check_range(name, each)
    widths, samples = (getattr(config, name, None) for name in ("widths", "neighbor_samples"))
    if widths is not None and samples is not None and len(widths) != len(samples) + 1:
        raise UsageError(
            f"settings widths {list(widths)} and neighbor_samples {list(samples)}: a width is needed for every "
            "sample, and one more for the vectors that it starts from"
        )
    return config, settings


def _check_range(name: str, value: object) -> None:
    """Counts and sizes are 1 or more, other numbers 0 or more, and a rate of 0 would learn nothing."""
    if isinstance(value, int) and not isinstance(value, bool) and value < 1:
        raise UsageError(f"setting {name}: {value} is out of range; a whole number of 1 or more is needed")
    if isinstance(value, float) and not (0 <= value <= 1e36 and (value > 0 or name != "learning_rate")):
        more = "a number above 0" if name == "learning_rate" else "a number of 0 or more"
        raise UsageError(f"setting {name}: {value} is out of range; {more} is needed")


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
    spec = RunSpec(method, to_json(config), seed, dataset.fingerprint, split.fingerprint)
    finished = _open_finished(path, spec, resume=resume, reporter=reporter)
    if finished is not None:
        return finished
    if settings.tensorboard:
        tensorboard_writer()  # an error before anything is made
    model: Method = entry(method).make(TrainingData.of(dataset, split), config, seed=seed, device=device)
    _start(path, vars(spec) | {"training": to_json(settings), "places": dict(places), "version": __version__})
    with _alone(path):
        position = fit(
            model,
            lambda current: _validate(current, dataset, split),
            names=tuple(dataset.behavior_names),
            settings=settings,
            journal=RunJournal(path, identity=spec.identity, settings=settings, reporter=reporter),
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


def _open_finished(path: Path, spec: RunSpec, *, resume: bool, reporter: Reporter) -> Run | None:
    """The run if it is finished already; otherwise see that ``path`` is free, or this run's."""
    if (path / SPEC).is_file():
        there, places = _read_spec(path)
        if not resume:
            raise UsageError(f"{path}: a run is there already; go on with --resume, or choose another --out")
        if there.identity != spec.identity:
            raise ArtifactError(
                f"{path}: holds another run ({_difference(there, spec)}); repeat what it was started with, "
                "or choose another --out"
            )
        if (path / RESULT).is_file():
            reporter.say(f"{path}: finished already")
            return Run(path, spec, places)
        return None
    if path.exists() and (not path.is_dir() or {each.name for each in path.iterdir()} - {_aside(path / SPEC).name}):
        raise UsageError(f"{path}: holds something else than a run; choose another --out")
    if resume:
        reporter.say(f"{path}: nothing to resume there, so the training starts anew")
    return None


def _start(path: Path, said: Mapping[str, Any]) -> None:
    """Make the run's directory, unless it was made before."""
    if not (path / SPEC).is_file():
        path.mkdir(parents=True, exist_ok=True)
        _write_json(path / SPEC, said)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the run's directory: two trainings that write the same metrics would spoil both."""
    directory = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"{path}: another process is training there now; wait for it to end") from error
        yield
    finally:
        os.close(directory)


def _read_spec(path: Path) -> tuple[RunSpec, Mapping[str, str]]:
    if not (path / SPEC).is_file():
        raise DataError(f"{path}: no {SPEC}, so this is no run; make one with mcne train")
    said = _read_json(path / SPEC)
    try:
        spec = RunSpec(**{name: said[name] for name in ("method", "config", "seed", "dataset", "split")})
        return spec, dict(said["places"])
    except (ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"{path / SPEC}: damaged ({error!r}); train again") from error


def _difference(there: RunSpec, here: RunSpec) -> str:
    """What two specs differ in, setting by setting."""
    old, new = ({**vars(spec), **spec.config} for spec in (there, here))
    different = [name for name in {**old, **new} if name != "config" and old.get(name) != new.get(name)]
    if there.method != here.method:  # its settings are then others anyway
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
    aside = _aside(path)
    with aside.open("w", encoding="utf-8") as file:
        json.dump(data, file, indent=1, sort_keys=True)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def _aside(path: Path) -> Path:
    """Where a file is written before it is renamed; a killed process may leave it."""
    return path.with_name(f".{path.name}.partial")
