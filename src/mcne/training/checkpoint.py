"""Checkpoints: everything a training needs to go on as if it had never stopped.

Each is an artifact (written aside, verified by checksums). The newest complete one wins; the last few are kept.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mcne import files
from mcne.errors import ArtifactError, DataError
from mcne.models.tables import read_in_order

KIND = "mcne checkpoint"
VERSION = 1
PREFIX = "step-"

State = dict[str, dict[str, Tensor]]
"""Named groups of tensors: ``learned``, ``memory``, ``best``."""


@dataclass(frozen=True)
class Checkpoint:
    """Where the training stood, and its tensors."""

    position: dict[str, Any]
    state: State


def save(directory: Path, position: Mapping[str, Any], state: State, *, run: str, keep: int) -> None:
    """Write a checkpoint of a run and drop all but the newest ``keep``.

    The number of records is part of the name: an epoch's last step and its evaluation are two places to go on from.
    Whatever is there of a later place was passed over on resume as damaged, so it goes.
    """
    arrays = {
        f"{group}.{name}": tensor.detach().cpu().numpy()
        for group, tensors in state.items()
        for name, tensor in tensors.items()
    }
    target = directory / f"{PREFIX}{position['steps_done']:012d}-{position['records']:06d}"
    _remove([path for path in _found(directory) if path.name >= target.name])
    meta = {"run": run, "position": dict(position)}
    with read_in_order():
        files.write(target, KIND, VERSION, meta=meta, provenance={}, arrays=arrays)
    _remove(_found(directory)[:-keep])
    _remove(list(directory.glob(f".{PREFIX}*.partial")))  # of killed processes


def newest(directory: Path, *, run: str, device: torch.device) -> tuple[Checkpoint | None, list[str]]:
    """The newest complete checkpoint, and what is wrong with any newer one that was passed over.

    Only damage is passed over. One of another format is sound, and the next :func:`save` would remove it.
    """
    complaints = []
    for path in reversed(_found(directory)):
        try:
            version = files.read_manifest(path, KIND)["version"]
            saved = files.read(path, KIND, version)
        except (ArtifactError, DataError) as error:
            complaints.append(str(error))
            continue
        if version != VERSION:
            newer = "a newer" if version > VERSION else "an older"
            raise ArtifactError(
                f"{path}: {KIND} format {version} is of {newer} mcne than this one, which reads format {VERSION}; "
                "go on with the mcne that wrote it, or choose another directory"
            )
        if saved.meta["run"] != run:
            raise ArtifactError(
                f"{path}: belongs to another run ({saved.meta['run'][:12]}, this one is {run[:12]}): other data, "
                "method or settings; choose another directory, or repeat the settings that it was started with"
            )
        state: State = {}
        for name in saved.arrays:
            group, _, rest = name.partition(".")
            mine = np.load(path / f"{name}.npy", mmap_mode="c", allow_pickle=False)  # all at once may not fit in memory
            state.setdefault(group, {})[rest] = torch.from_numpy(mine.view(np.ndarray)).to(device)
        return Checkpoint(saved.meta["position"], state), complaints
    return None, complaints


def _found(directory: Path) -> list[Path]:
    """Checkpoint directories, complete or not, oldest first."""
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if path.name.startswith(PREFIX))


def _remove(paths: list[Path]) -> None:
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)
