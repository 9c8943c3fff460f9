"""Bring a new behavior to trained embeddings, and leave a finished run of old and new behaviors."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mcne.data.dataset import SocialDataset
from mcne.data.split import DIRECTORY, Split
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.trunk import Trunk
from mcne.errors import ArtifactError, UsageError
from mcne.extend.alignment import aligned, shared_items
from mcne.extend.learner import Transfer, TransferConfig
from mcne.models.contract import Method, TrainingData
from mcne.models.memory import Estimate, estimate_transfer
from mcne.models.settings import TrainingSettings, parse, to_json
from mcne.training.choices import schedule_of
from mcne.training.journal import Reporter, tensorboard_writer
from mcne.training.run import SPEC, TRANSFER, Run, RunSpec
from mcne.training.trainer import train_made

if TYPE_CHECKING:
    import torch

DATASET, FIRST = "data", "items"
"""Where a run keeps the new behavior's data and split, and the run that its items are from."""


@dataclass(frozen=True)
class Counted:
    """The numbers that a transfer trained, and those it left as they were."""

    masks: int
    items: int
    frozen: int

    @classmethod
    def of(cls, run: Run) -> Counted:
        """Of a finished run, with the items that came before its masks."""
        embeddings, trunk = run.embeddings, run.embeddings.trunk
        assert trunk is not None
        masks = 0
        if run.spec.config["control"] in ("none", "masks-only"):
            masks = sum(level.shape[1] for level in trunk.masks)
        *old, new = embeddings.spaces
        learned = {name: array for name, array in trunk.arrays().items() if not name.endswith(".vectors")}
        arrays = [
            trunk.levels[0],
            *learned.values(),
            *(space.item_vectors for space in old),
        ]  # levels above are derived
        return cls(masks, new.item_vectors.size, sum(array.size for array in arrays))

    def __str__(self) -> str:
        return (
            f"trained {self.masks + self.items:,} numbers: {self.masks:,} of masks and {self.items:,} of new items; "
            f"{self.frozen:,} that were learned before stay as they are"
        )


def settings_of(base: ConditionalEmbeddings, given: Mapping[str, Any]) -> tuple[TransferConfig, TrainingSettings]:
    """What a transfer was told, checked; the rest is as ``base`` was trained, where that is known."""
    names = [field.name for field in dataclasses.fields(TransferConfig) if field.name != "control"]
    before = base.provenance.get("spec", {}).get("config", {})
    kept = {name: before[name] for name in names if name in before}
    if before.get("l2_form", "scored") != "scored":  # another number then
        kept.pop("l2", None)
    config, settings = parse([TransferConfig, TrainingSettings], {**kept, **given})
    return config, settings


def transfer(
    base: ConditionalEmbeddings,
    dataset: SocialDataset,
    split: Split,
    path: Path,
    *,
    behavior: str,
    given: Mapping[str, Any],
    seed: int,
    device: torch.device,
    resume: bool,
    split_name: str,
    reporter: Reporter,
) -> Run:
    """Train the masks and items of a behavior of ``dataset``, whatever else that holds, and nothing else.

    The run has everything that ``base`` serves, byte for byte, and the new behavior beside it; its own data is the
    behavior's alone, so that it is evaluated on that.
    """
    config, settings = settings_of(base, given)
    trunk = trunk_of(base, config)
    own, parts = aligned(base, dataset, split, behavior=behavior)
    if settings.tensorboard:
        tensorboard_writer()  # an error before anything is made
    for line in shared_items(base, own.behaviors[0]):
        reporter.say(line)
    work = _Work(base, trunk, own, parts, settings, seed, device, split_name, reporter)
    return work.train(config, path, resume=resume)


def trunk_of(base: ConditionalEmbeddings, config: TransferConfig) -> Trunk:
    """The network to bring a behavior to; embeddings without one are refused."""
    if base.trunk is None:
        raise UsageError(
            f"{base.method!r} has no layers that masks could be put on; a behavior can be brought to mcne, mcne-a, "
            "mcne-f and mcne-plus: train one of them, or train anew with all behaviors"
        )
    if base.trunk.combine is None:
        raise ArtifactError(
            f"these embeddings of {base.method!r} do not keep the weights of their layers, as an mcne before this one "
            "made them; train them again, then bring the behavior"
        )
    if len(config.neighbor_samples) != base.trunk.n_layers:
        raise UsageError(
            f"setting neighbor_samples {list(config.neighbor_samples)}: the trained network has "
            f"{base.trunk.n_layers} layers, and a number is needed for each"
        )
    return base.trunk


@dataclass(frozen=True)
class _Work:
    """A transfer whose inputs are sound."""

    base: ConditionalEmbeddings
    trunk: Trunk
    dataset: SocialDataset
    split: Split
    settings: TrainingSettings
    seed: int
    device: torch.device
    split_name: str
    reporter: Reporter

    def train(self, config: TransferConfig, path: Path, *, resume: bool) -> Run:
        return train_made(
            lambda data: self._made(data, config, path),
            self.dataset,
            self.split,
            path,
            needed=lambda: self._needed(config),
            spec=self._spec(config),
            settings=self.settings,
            device=self.device,
            resume=resume,
            places={"dataset": DATASET, "split": self.split_name},
            reporter=self.reporter,
        )

    def _needed(self, config: TransferConfig) -> Estimate:
        """The memory that it takes; whole vectors are a network without layers."""
        is_whole = config.control == "whole-vector"
        return estimate_transfer(
            (self.base.width,) if is_whole else tuple(level.shape[1] for level in self.trunk.masks),
            () if is_whole else config.neighbor_samples,
            config,
            self.settings,
            self.dataset,
            self.split,
            weighted=self.trunk.weighted,
            is_on_gpu=self.device.type != "cpu",
        )

    def _made(self, data: TrainingData, config: TransferConfig, path: Path) -> Method:
        """The learner; items that come before its masks are trained first, in a run within the run."""
        self.dataset.save(path / DATASET)
        self.split.save(path / DATASET / DIRECTORY / self.split_name)
        items = None
        if config.control == "masks-only":
            self.reporter.say("items first, against the whole vectors:")
            whole, place = dataclasses.replace(config, control="whole-vector"), path / FIRST
            before = self.train(whole, place, resume=(place / SPEC).is_file())
            items = np.asarray(before.embeddings.spaces[-1].item_vectors)
            self.reporter.say("then masks, with these items:")
        return Transfer(self.base, self.trunk, data, config, items=items, seed=self.seed, device=self.device)

    def _spec(self, config: TransferConfig) -> RunSpec:
        """Everything that decides the result: what was trained before counts by its content."""
        told = to_json(config) | {"behavior": self.dataset.behavior_names[0], "base": self.base.fingerprint}
        schedule = schedule_of(self.settings)
        return RunSpec(TRANSFER, "joint", told, schedule, self.seed, self.dataset.fingerprint, self.split.fingerprint)
