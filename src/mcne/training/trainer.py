"""Train a method and leave a finished run, however often it takes."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mcne import __version__, files
from mcne.data.dataset import SocialDataset
from mcne.data.split import Split
from mcne.embeddings.arrays import NotFiniteError
from mcne.embeddings.joined import side_by_side
from mcne.errors import ArtifactError, DataError, DivergedError, Interrupted, UsageError
from mcne.evaluation.protocol import DECIDING_METRIC
from mcne.models.memory import Estimate, estimate
from mcne.training.choices import resolved, settings_of
from mcne.training.fitting import decide
from mcne.training.place import SOMETHING_ELSE, alone
from mcne.training.run import (
    BEHAVIORS,
    EMBEDDINGS,
    LEARNED,
    LEARNED_KIND,
    LEARNED_VERSION,
    RESULT,
    SPEC,
    Mode,
    Run,
    RunSpec,
    read_spec,
)
from mcne.training.validation import CALMER, validate

if TYPE_CHECKING:
    import torch

    from mcne.models.contract import Method, TrainingData
    from mcne.models.settings import TrainingSettings
    from mcne.training.journal import Reporter


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
    mode: Mode = "joint",
    tells_memory: bool = False,
) -> Run:
    """Train a method, one model of all behaviors or one of each, and leave a finished run at ``path``.

    What does not fit in memory is refused before anything is made; with ``tells_memory`` the reporter is told the
    estimate in any case, and else only where tables have to be in files.
    """
    from mcne.models.registry import entry
    from mcne.training.journal import tensorboard_writer

    def make(data: TrainingData) -> Method:
        made: Method = entry(method).make(data, config, seed=seed, device=device)
        return made

    def needed() -> Estimate | None:
        return estimate(method, config, settings, dataset, split, is_on_gpu=device.type != "cpu")

    config, settings = settings_of(method, given)
    spec = RunSpec(method, mode, *resolved(method, given), seed, dataset.fingerprint, split.fingerprint)
    _check(method, dataset, split, mode)
    if settings.tensorboard:
        tensorboard_writer()  # an error before anything is made
    with alone(path):
        if _is_finished(path, spec, device, resume=resume, reporter=reporter, places=places):
            return Run(path, spec, places)
        work = _Work(dataset, split, path, spec, needed, make, settings, device, reporter, dict(places), tells_memory)
        if mode == "separate":
            work.train_separately(given)
        else:
            work.train_jointly()
    return Run(path, spec, places)


def train_made(
    make: Callable[[TrainingData], Method],
    dataset: SocialDataset,
    split: Split,
    path: Path,
    *,
    needed: Callable[[], Estimate],
    spec: RunSpec,
    settings: TrainingSettings,
    device: torch.device,
    resume: bool,
    places: Mapping[str, str],
    reporter: Reporter,
) -> Run:
    """Train what ``make`` makes, which needs more than data and settings, and leave a finished run at ``path``.

    The reporter is told the memory ``needed``. When ``make`` is called the directory is this run's already, so that it
    may keep there what comes first.
    """

    def begun(data: TrainingData) -> Method:
        work._start()
        return make(data)

    with alone(path):
        if not _is_finished(path, spec, device, resume=resume, reporter=reporter, places=places):
            work = _Work(dataset, split, path, spec, needed, begun, settings, device, reporter, dict(places), True)
            work.train_jointly()
    return Run(path, spec, places)


@dataclass(frozen=True)
class _Work:
    """A training that has its directory to itself."""

    dataset: SocialDataset
    split: Split
    path: Path
    spec: RunSpec
    needed: Callable[[], Estimate | None]
    make: Callable[[TrainingData], Method]
    settings: TrainingSettings
    device: torch.device
    reporter: Reporter
    places: dict[str, str]
    tells_memory: bool

    def train_jointly(self) -> None:
        from mcne.models.tables import room
        from mcne.training.determinism import one_order

        with one_order(self.device, is_asked=self.settings.deterministic):
            needed = self.needed()
            found = None if needed is None else decide(self.spec.method, needed, self.device, path=self.path)
            if found is not None and (found.memory_for_tables is not None or self.tells_memory):
                self.reporter.say(found.line)
            with room(self.path, memory=None if found is None else found.memory_for_tables):
                self._train_jointly()

    def _train_jointly(self) -> None:
        from mcne.models.contract import TrainingData
        from mcne.training.journal import RunJournal
        from mcne.training.loop import fit, hold_signals

        data = TrainingData.of(self.dataset, self.split)
        model = self.make(data)
        self._start()
        journal = RunJournal(self.path, identity=self.spec.identity, settings=self.settings, reporter=self.reporter)
        with closing(journal):
            position = fit(
                model,
                lambda current: validate(current, self.dataset, self.split),
                names=tuple(self.dataset.behavior_names),
                settings=self.settings,
                journal=journal,
                device=self.device,
            )
        result = {
            "best_epoch": position.best_epoch,
            DECIDING_METRIC: position.best_metric,
            "epochs": position.epoch,
            "parameters": _numbers_learned(model),
        }
        with hold_signals() as stop:  # what is left is short, and a run that ends now would have to be trained again
            self._keep(model, result)
            self._finish(result)
        if stop.number is not None:  # heard, so it must not be lost: another behavior's training may come next
            name = signal.Signals(stop.number).name
            raise Interrupted(
                f"stopped by {name} when the training was finished; --resume goes on", signal_number=stop.number
            )

    def train_separately(self, given: Mapping[str, Any]) -> None:
        """A run of its own for every behavior, then all side by side."""
        self._start()
        parts = []
        for k, name in enumerate(self.dataset.behavior_names):
            one = self.dataset.only(k)
            self.reporter.say(f"{name}:")
            parts.append(
                train(
                    self.spec.method,
                    one,
                    self.split.only(k, one),
                    self.path / BEHAVIORS / str(k),
                    given=given,
                    seed=self.spec.seed,
                    device=self.device,
                    resume=True,
                    places=self.places,
                    reporter=self.reporter,
                    tells_memory=self.tells_memory,
                )
            )
        metrics = [part.result[DECIDING_METRIC] for part in parts if part.result[DECIDING_METRIC] is not None]
        result = {
            "best_epoch": [part.result["best_epoch"] for part in parts],
            DECIDING_METRIC: sum(metrics) / len(metrics) if metrics else None,
            "epochs": [part.result["epochs"] for part in parts],
            "parameters": sum(part.result["parameters"] for part in parts),
        }
        if all((part.path / EMBEDDINGS).exists() for part in parts):
            self._replace(EMBEDDINGS)
            together = side_by_side([part.embeddings for part in parts], self._provenance(result))
            together.save(self.path / EMBEDDINGS)
        self._finish(result)

    def _start(self) -> None:
        """Say what is trained here and where its data is now."""
        said = vars(self.spec) | {"places": self.places, "machine": _machine(self.device), "version": __version__}
        if not (self.path / SPEC).is_file() or read_spec(self.path)[1]["places"] != self.places:
            _write_json(self.path / SPEC, said)

    def _keep(self, model: Method, result: Mapping[str, Any]) -> None:
        """What was learned: vectors where scores are inner products of them, else everything that scores depend on."""
        from mcne.models.contract import Embedder

        learned = {name: value.detach().cpu().numpy() for name, value in model.learned().items()}
        bad = [name for name, value in learned.items() if value.dtype.kind == "f" and not _is_finite(value)]
        if bad:
            raise DivergedError(f"what was learned is not finite ({', '.join(bad)}); {CALMER}")
        if isinstance(model, Embedder):
            try:
                embeddings = model.embeddings(self.dataset, self._provenance(result))
            except NotFiniteError as error:  # derived from what was learned, which was still finite
                raise DivergedError(f"{error}; {CALMER}") from error
            self._replace(EMBEDDINGS)
            embeddings.save(self.path / EMBEDDINGS)
            return
        self._replace(LEARNED)
        meta = {"run": self.spec.identity}
        files.write(self.path / LEARNED, LEARNED_KIND, LEARNED_VERSION, meta=meta, provenance={}, arrays=learned)

    def _replace(self, name: str) -> None:
        """Remove what a training left that died before it could say that it was finished."""
        if (self.path / name).exists():
            shutil.rmtree(self.path / name)

    def _provenance(self, result: Mapping[str, Any]) -> dict[str, Any]:
        said = {"method": self.spec.method, "version": __version__, "spec": vars(self.spec), "result": dict(result)}
        return said | {"machine": _machine(self.device)}

    def _finish(self, result: Mapping[str, Any]) -> None:
        _write_json(self.path / RESULT, result)


def _is_finite(values: NDArray[Any]) -> bool:
    """Whether all are, at no cost in memory."""
    return not values.size or bool(np.isfinite(values.min()) and np.isfinite(values.max()))


def _check(method: str, dataset: SocialDataset, split: Split, mode: Mode) -> None:
    """There must be something to learn from, and numbers must be those that artifacts hold."""
    import torch

    from mcne.models.registry import refusal

    refused = refusal(method, dataset, is_alone=mode == "separate")
    if refused:
        raise UsageError(refused)
    if torch.get_default_dtype() != torch.float32:
        raise UsageError(f"the default dtype of torch is {torch.get_default_dtype()}; set it back to torch.float32")
    counts = [int(np.count_nonzero(part == 0)) for part in split.parts]
    empty = [name for name, count in zip(dataset.behavior_names, counts, strict=True) if not count]
    if empty and (mode == "separate" or len(empty) == len(counts)):
        raise DataError(f"{', '.join(empty)}: no interactions in the training part, so nothing can be learned there")


def _numbers_learned(model: Method) -> int:
    """Of a learner every number that has a moment in an optimizer, of others all that they keep."""
    from mcne.models.contract import Learner

    if isinstance(model, Learner):
        is_moment = {name: name.startswith("first.") or name.endswith(".exp_avg") for name in model.memory()}
        return sum(value.numel() for name, value in model.memory().items() if is_moment[name])
    return sum(value.numel() for value in model.learned().values() if value.is_floating_point())


def _is_finished(
    path: Path, spec: RunSpec, device: torch.device, *, resume: bool, reporter: Reporter, places: Mapping[str, str]
) -> bool:
    """Whether the run is finished already; otherwise see that ``path`` is free, or this run's."""
    from mcne.training.journal import aside_of

    if not (path / SPEC).is_file():
        if {each.name for each in path.iterdir()} - {aside_of(path / SPEC).name}:
            raise UsageError(f"{path}: {SOMETHING_ELSE}")
        if resume and BEHAVIORS not in path.parts:
            reporter.say(f"{path}: nothing to resume there, so the training starts anew")
        return False
    there, said = read_spec(path)
    if not resume:
        raise UsageError(f"{path}: a run is there already; go on with --resume, or choose another --out")
    if there.identity != spec.identity:
        raise ArtifactError(
            f"{path}: holds another run ({there.difference(spec)}); repeat what it was started with, or choose "
            "another --out"
        )
    if (path / RESULT).is_file():
        reporter.say(f"{path}: finished already")
        return True
    if said["machine"] != _machine(device):
        before, now = (", ".join(f"{k} {v}" for k, v in each.items()) for each in (said["machine"], _machine(device)))
        reporter.say(f"started on {before}, going on with {now}: last bits may differ from a run that never stopped")
    return False


def _machine(device: torch.device) -> dict[str, Any]:
    """What last bits may depend on beside the spec."""
    import torch

    return {"device": device.type, "threads": torch.get_num_threads(), "torch": str(torch.__version__)}


def _write_json(path: Path, data: Mapping[str, Any]) -> None:
    from mcne.training.journal import overwrite

    overwrite(path, json.dumps(data, indent=1, sort_keys=True).encode() + b"\n")
