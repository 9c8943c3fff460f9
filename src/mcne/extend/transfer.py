"""Bring a new behavior to trained embeddings, and leave a finished run of old and new behaviors."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mcne.data.split import DIRECTORY
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.trunk import Trunk
from mcne.errors import ArtifactError, UsageError
from mcne.extend.alignment import EXTENDABLE, aligned, shared_items
from mcne.extend.learner import Transfer, TransferConfig
from mcne.models.contract import Method, TrainingData
from mcne.models.memory import Estimate, TrainingSize, estimate_transfer
from mcne.models.settings import TrainingSettings, parse
from mcne.training.run import SPEC, TRANSFER, Run, RunSpec
from mcne.training.trainer import Training

DATASET, FIRST = "data", "items"
"""Where a run keeps the new behavior's data and split, and the run that its items are from."""


@dataclass(frozen=True)
class ParameterCounts:
    """The numbers that a transfer trained, and those it left as they were."""

    masks: int
    items: int
    frozen: int

    @classmethod
    def of(cls, run: Run) -> ParameterCounts:
        """Of a finished run, with the items that came before its masks."""
        embeddings, trunk = run.embeddings, run.embeddings.trunk
        assert trunk is not None
        masks = 0
        if run.spec.config["control"] in ("none", "masks-only"):
            masks = sum(level.shape[1] for level in trunk.masks)
        *old, new = embeddings.spaces
        learned = {name: array for name, array in trunk.arrays().items() if not name.endswith(".vectors")}
        # Levels above the first are derived.
        arrays = [trunk.levels[0], *learned.values(), *(space.item_vectors for space in old)]
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
    base: ConditionalEmbeddings, training: Training, path: Path, *, behavior: str, resume: bool = False
) -> Run:
    """Train the masks and items of a behavior of the training's dataset, whatever else that holds, and nothing else.

    The run has everything that ``base`` serves, byte for byte, and the new behavior beside it; its own data is the
    behavior's alone, so that it is evaluated on that.
    """
    config, _ = settings_of(base, training.settings)
    trunk = trunk_of(base, config)
    own, parts = aligned(base, training.dataset, training.split, behavior=behavior)
    options = {field.name: getattr(training, field.name) for field in dataclasses.fields(training)}
    options |= {"method": TRANSFER, "dataset": own, "split": parts, "places": {**training.places, "dataset": DATASET}}
    for line in shared_items(base, own.behaviors[0]):
        training.reporter.say(line)
    return _Transferring(**options, base=base, trunk=trunk).run(path, resume=resume)


def trunk_of(base: ConditionalEmbeddings, config: TransferConfig) -> Trunk:
    """The network to bring a behavior to; embeddings without one are refused."""
    if base.trunk is None:
        raise UsageError(
            f"{base.method!r} has no layers that masks could be put on; train one of {EXTENDABLE}, or "
            "train again with all behaviors"
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
class _Transferring(Training):
    """The training of a new behavior, on the network of embeddings that were trained before."""

    base: ConditionalEmbeddings
    trunk: Trunk

    @cached_property
    def parsed(self) -> tuple[TransferConfig, TrainingSettings]:
        """The settings, checked: those of the transfer, and how to train."""
        return settings_of(self.base, self.settings)

    @property
    def spec(self) -> RunSpec:
        """Everything that decides the result; the base counts by its content."""
        spec = super().spec
        also = {"behavior": self.dataset.behavior_names[0], "base": self.base.fingerprint}
        return dataclasses.replace(spec, config={**spec.config, **also})

    def check(self) -> None:
        """Nothing more: inputs were aligned with the base."""

    def estimate(self) -> Estimate:
        """The memory that it needs; whole vectors are a network without layers."""
        config, settings = self.parsed
        is_whole = config.control == "whole-vector"
        size = TrainingSize(config, settings, self.dataset, self.split, is_on_gpu=self.device.type != "cpu")
        widths = (self.base.width,) if is_whole else tuple(level.shape[1] for level in self.trunk.masks)
        samples = () if is_whole else config.neighbor_samples
        return estimate_transfer(size, widths, samples, weighted=self.trunk.weighted)

    def make(self, data: TrainingData, path: Path) -> Method:
        """The learner; items that come before its masks are trained first, in a run within the run."""
        self.start(path)
        self.dataset.save(path / DATASET)
        self.split.save(path / DATASET / DIRECTORY / self.places["split"])
        config, _ = self.parsed
        items = None
        if config.control == "masks-only":
            self.reporter.say("items first, against the whole vectors:")
            first = dataclasses.replace(self, settings={**self.settings, "control": "whole-vector"})
            before = first.run(path / FIRST, resume=(path / FIRST / SPEC).is_file())
            items = np.asarray(before.embeddings.spaces[-1].item_vectors)
            self.reporter.say("then masks, with these items:")
        return Transfer(self.base, self.trunk, data, config, items=items, seed=self.seed, device=self.device)
