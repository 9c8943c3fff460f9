"""Train a method into a finished run, across interruptions."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mcne import __version__, files
from mcne.data.dataset import SocialDataset
from mcne.data.split import TRAIN, Split
from mcne.embeddings.artifact import averaged, side_by_side
from mcne.embeddings.ranking import Scorer
from mcne.errors import ArtifactError, DataError, DiskError, DivergedError, UsageError
from mcne.evaluation.protocol import DECIDING_METRIC, evaluate
from mcne.files import NotFiniteError
from mcne.models.contract import Embedder, Learner, Method, TrainingData
from mcne.models.memory import Estimate, estimate
from mcne.models.registry import entry, refusal
from mcne.models.saved import saved
from mcne.models.settings import TrainingSettings
from mcne.models.tables import room
from mcne.randomness import Stream
from mcne.text import human_bytes
from mcne.training import run
from mcne.training.gpu import one_order
from mcne.training.journal import Reporter, RunJournal, tensorboard_writer
from mcne.training.loop import Loop, evaluate_once, hold_signals
from mcne.training.resources import decide
from mcne.training.run import Mode, Run, RunSpec, config_of, read_spec, refuse_run, schedule_of, settings_of

CALMER = "train again in another directory, with a lower learning_rate or a higher l2"


@dataclass(frozen=True)
class Training:
    """A method, the data it learns from, and everything else that its result depends on.

    A subclass may train something that needs more than data and settings: it overrides :attr:`parsed`, :attr:`spec`,
    :meth:`check`, :meth:`estimate` and :meth:`make`.
    """

    method: str
    dataset: SocialDataset
    split: Split
    _: KW_ONLY
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the method and of its training; the rest: defaults
    seed: int = 0
    device: torch.device
    places: Mapping[str, str] = field(default_factory=dict)  # of the dataset and the split, kept for Run.data
    mode: Mode = "joint"
    reporter: Reporter = field(default_factory=Reporter)
    reports_memory: bool = False  # always; otherwise the estimate is reported only if tables go to files

    @cached_property
    def parsed(self) -> tuple[Any, TrainingSettings]:
        """The settings, checked: the method's config, and how to train."""
        return settings_of(self.method, self.settings)

    @property
    def spec(self) -> RunSpec:
        """Everything that decides the result."""
        config, settings = self.parsed
        data = self.dataset.fingerprint, self.split.fingerprint
        return RunSpec(self.method, self.mode, config_of(config), schedule_of(settings), self.seed, *data)

    def run(self, path: Path, *, resume: bool = False) -> Run:
        """Train one model of all behaviors or one of each, and leave a finished run at ``path``."""
        spec = self.spec
        self.check()
        if self.parsed[1].tensorboard:
            tensorboard_writer()  # an error before anything is written
        with files.locked(path):
            if not self._is_finished(path, resume=resume):
                if self.mode == "separate":
                    self._train_separately(path)
                elif (members := self.parsed[1].members) > 1:
                    self._train_members(path, members)
                else:
                    self._train_jointly(path)
        return Run(path, spec, self.places)

    def check(self) -> None:
        """Refuse data that the method cannot learn from, and a dtype that artifacts cannot store."""
        if refused := refusal(self.method, self.dataset, is_alone=self.mode == "separate"):
            raise refused
        if torch.get_default_dtype() != torch.float32:
            raise UsageError(
                f"the default dtype of torch is {torch.get_default_dtype()}, not torch.float32",
                value=torch.get_default_dtype(),
                allowed=[torch.float32],
                remedy="call torch.set_default_dtype(torch.float32)",
            )
        known = entry(self.method)
        if self.parsed[1].members > 1 and (known.gives != "vectors" or known.is_network):
            has = "a network for each" if known.is_network else "no vectors"
            raise UsageError(
                f"members of {self.method} cannot be averaged: it has {has}",
                "setting members",
                "leave it at 1, or train mcne-plus or bpr",
                value=self.parsed[1].members,
            )
        if getattr(self.parsed[0], "weighted_records", False):
            _require_weights(self.dataset)
        parts = zip(self.dataset.behavior_names, self.split.parts, strict=True)
        empty = [name for name, part in parts if not np.any(part == TRAIN)]
        if empty and (self.mode == "separate" or len(empty) == len(self.split.parts)):
            raise DataError(
                "no interactions in the training part, so there is nothing to learn from",
                ", ".join(empty),
                "use a split with more training interactions",
                value=empty,
            )

    def estimate(self) -> Estimate | None:
        """The memory it needs; None for a method that does not train in steps."""
        return estimate(self.method, *self.parsed, self.dataset, self.split, is_on_gpu=self.device.type != "cpu")

    def make(self, data: TrainingData, path: Path) -> Method:
        """The untrained method; a subclass that first saves something in the run at ``path`` calls :meth:`start`."""
        config, _ = self.parsed
        model: Method = entry(self.method).make(data, config, seed=self.seed, device=self.device)
        return model

    def start(self, path: Path) -> None:
        """Write ``run.json``: the spec, and where its data is."""
        places = dict(self.places)
        content = vars(self.spec) | {"places": places, "machine": _machine(self.device), "version": __version__}
        if not (path / run.SPEC).is_file() or read_spec(path)[1]["places"] != places:
            files.write_json(path / run.SPEC, content, sort_keys=True)

    def _train_jointly(self, path: Path) -> None:
        _, settings = self.parsed
        self._require_room(path, [self])
        memory = None  # for its tables: they all have room
        if (needed := self.estimate()) is not None:
            line, memory = decide(self.method, needed, self.device, path=path)
            if memory is not None or self.reports_memory:
                self.reporter.say(line)
        with one_order(self.device, is_asked=settings.deterministic), room(path, memory=memory):
            model = self.make(TrainingData.of(self.dataset, self.split), path)
            self.start(path)
            with closing(RunJournal(path, self.spec.identity, settings, self.reporter)) as journal:
                if isinstance(model, Learner):
                    names = tuple(self.dataset.behavior_names)
                    # The loop is dropped here: its copy of the best is not kept while saving.
                    position = Loop(model, self._validate, names=names, journal=journal, device=self.device).run()
                else:
                    position = evaluate_once(model, self._validate, journal, self.device)
            result = {
                "best_epoch": position.best_epoch,
                DECIDING_METRIC: position.best_metric,
                "epochs": position.epoch,
                "parameters": _numbers_learned(model),
            }
            with hold_signals() as stop:  # the rest is short, and a run that ends now would have to be trained again
                self._save(path, model, result)
                files.write_json(path / run.RESULT, result, sort_keys=True)
            stop.end("when the training was finished")  # not lost: another behavior's training may come next

    def _require_room(self, path: Path, parts: Sequence[Training]) -> None:
        """Refuse to compute what there is no room to save."""
        told = [each for part in parts if (each := saved(part.method, part.parsed[0], part.dataset, part.split))]
        if not told:
            return
        size, free = sum(each.size for each in told), shutil.disk_usage(path).free
        if size > free:
            forms = " and ".join(dict.fromkeys(each.form for each in told))
            raise DiskError(
                f"{self.method} saves {forms}, up to {human_bytes(size)}, and {human_bytes(free)} are free",
                path,
                f"free some space, choose another --out, or {told[0].instead}",
                value=size,
            )

    def _train_separately(self, path: Path) -> None:
        """Train a run for every behavior, and put their vectors side by side."""
        alone: dict[Path, Training] = {}
        for k in range(len(self.dataset.behaviors)):
            one = self.dataset.only(k)
            alone[path / run.BEHAVIORS / str(k)] = replace(
                self, dataset=one, split=self.split.only(k, one), mode="joint"
            )
        parts = self._train_parts(path, alone, self.dataset.behavior_names)
        metrics = [part.result[DECIDING_METRIC] for part in parts if part.result[DECIDING_METRIC] is not None]
        result = _result_of(parts, sum(metrics) / len(metrics) if metrics else None)
        if all((part.path / run.EMBEDDINGS).exists() for part in parts):
            _remove(path / run.EMBEDDINGS)
            together = side_by_side([part.embeddings for part in parts], self._provenance(result))
            together.save(path / run.EMBEDDINGS)
        files.write_json(path / run.RESULT, result, sort_keys=True)

    def _train_members(self, path: Path, members: int) -> None:
        """Train several runs that differ by their seeds alone, and average their scores in one artifact."""
        alone: dict[Path, Training] = {}
        for k in range(members):
            seed = self.seed if not k else int(Stream(self.seed, "member", k).integers(1 << 31, 1)[0])
            settings = {**self.settings, "members": 1}
            alone[path / run.MEMBERS / str(k)] = replace(self, settings=settings, seed=seed)
        parts = self._train_parts(path, alone, [f"member {k + 1} of {members}" for k in range(members)])
        together = averaged([part.embeddings for part in parts], {})
        summary = evaluate(together, self.dataset, self.split, part="validation", protocol="sampled").summary()
        result = _result_of(parts, summary["mean"][DECIDING_METRIC])
        _remove(path / run.EMBEDDINGS)
        replace(together, provenance=self._provenance(result)).save(path / run.EMBEDDINGS)
        files.write_json(path / run.RESULT, result, sort_keys=True)

    def _train_parts(self, path: Path, alone: Mapping[Path, Training], names: Sequence[str]) -> list[Run]:
        """The finished runs of the parts of this training, one after the other."""
        self._require_room(path, [each for place, each in alone.items() if not (place / run.RESULT).is_file()])
        self.start(path)
        parts = []
        for (place, each), name in zip(alone.items(), names, strict=True):
            self.reporter.say(f"{name}:")
            parts.append(each.run(place, resume=True))
        return parts

    def _validate(self, model: Method) -> Mapping[str, Any]:
        """How well a model ranks the validation part."""
        scorer = _Finite(model.scorer(), self.dataset.behavior_names)
        return evaluate(scorer, self.dataset, self.split, part="validation", protocol="sampled").summary()

    def _save(self, path: Path, model: Method, result: Mapping[str, Any]) -> None:
        """Save vectors where scores are inner products of them, otherwise everything that scores depend on."""
        learned = {name: value.detach().cpu().numpy() for name, value in model.learned().items()}
        bad = [name for name, value in learned.items() if value.dtype.kind == "f" and not files.is_finite(value)]
        if bad:
            raise DivergedError(f"the training diverged: the learned {', '.join(bad)} are not finite", remedy=CALMER)
        if isinstance(model, Embedder):
            try:
                embeddings = model.embeddings(self.dataset, self._provenance(result))
            except NotFiniteError as error:  # derived from what was learned, which was still finite
                raise DivergedError(f"the training diverged: {error}", remedy=CALMER) from error
            _remove(path / run.EMBEDDINGS)
            embeddings.save(path / run.EMBEDDINGS)
            return
        _remove(path / run.LEARNED)
        meta = {"run": self.spec.identity}
        files.write(path / run.LEARNED, run.LEARNED_KIND, run.LEARNED_VERSION, meta=meta, provenance={}, arrays=learned)

    def _provenance(self, result: Mapping[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {"method": self.method, "version": __version__, "spec": vars(self.spec)}
        made |= {"result": dict(result), "machine": _machine(self.device)}
        least = self.dataset.provenance.get("positive_from")  # by which histories of new users are read
        return made if least is None else made | {"positive_from": least}

    def _is_finished(self, path: Path, *, resume: bool) -> bool:
        """Whether the run is finished; otherwise check that ``path`` is free or contains this run."""
        if not (path / run.SPEC).is_file():
            if {each.name for each in path.iterdir()} - {files.aside_of(path / run.SPEC).name}:
                raise UsageError.of_path(
                    "is not empty and is not a run", path, "choose an empty directory or another --out"
                )
            if resume and not {run.BEHAVIORS, run.MEMBERS} & {*path.parts}:
                self.reporter.say(f"{path}: nothing to resume there, so the training starts anew")
            return False
        if not resume:
            refuse_run(path)
        existing, notes = read_spec(path)
        if existing.identity != self.spec.identity:
            raise ArtifactError.of_path(
                f"contains another run ({existing.difference(self.spec)})",
                path,
                "use the arguments that it was started with, or choose another --out",
            )
        if (path / run.RESULT).is_file():
            self.reporter.say(f"{path}: finished already")
            return True
        machines = [notes["machine"], _machine(self.device)]
        if machines[0] != machines[1]:
            before, now = (", ".join(f"{name} {value}" for name, value in each.items()) for each in machines)
            self.reporter.say(
                f"started on {before}, going on with {now}: last bits may differ from a run that never stopped"
            )
        return False


def _require_weights(dataset: SocialDataset) -> None:
    without = [behavior.name for behavior in dataset.behaviors if behavior.weight is None]
    if without:
        raise UsageError(
            f"the records of {', '.join(without)} have no weights",
            "setting weighted_records",
            "leave it off, or prepare the data again with a column of ratings or counts",
            value=True,
        )


def _result_of(parts: Sequence[Run], metric: float | None) -> dict[str, Any]:
    """The result of a training that is made of several."""
    return {
        "best_epoch": [part.result["best_epoch"] for part in parts],
        DECIDING_METRIC: metric,
        "epochs": [part.result["epochs"] for part in parts],
        "parameters": sum(part.result["parameters"] for part in parts),
    }


def _remove(path: Path) -> None:
    """Remove what a killed training left before it was marked as finished."""
    if path.exists():
        with files.disk_errors(path):
            shutil.rmtree(path)


@dataclass(frozen=True)
class _Finite:
    """A scorer whose scores must be finite: the last step may diverge without any later loss to show it."""

    scorer: Scorer
    names: list[str]

    def scores(self, behavior: int, users: NDArray[Any], items: NDArray[Any] | None = None) -> NDArray[np.float32]:
        scores = self.scorer.scores(behavior, users, items)
        if not np.all(np.isfinite(scores)):
            raise DivergedError(
                f"the training diverged: the scores of {self.names[behavior]} are not finite", remedy=CALMER
            )
        return scores


def _numbers_learned(model: Method) -> int:
    """Of a learner every number that has a moment in an optimizer, of others all that they keep."""
    if isinstance(model, Learner):
        is_moment = {name: name.startswith("first.") or name.endswith(".exp_avg") for name in model.memory()}
        return sum(value.numel() for name, value in model.memory().items() if is_moment[name])
    return sum(value.numel() for value in model.learned().values() if value.is_floating_point())


def _machine(device: torch.device) -> dict[str, Any]:
    """What the last bits may depend on besides the spec."""
    return {"device": device.type, "threads": torch.get_num_threads(), "torch": str(torch.__version__)}
