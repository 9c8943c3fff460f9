"""What a run writes and reports while it trains: metrics, clock times, checkpoints, progress.

``metrics.jsonl`` contains only what the seed decides, so it has the same bytes however often the training
was stopped; clock times have their own file. On resume, lines past the checkpoint are cut. A checkpoint is an
artifact with everything that a training needs to continue as if it had never stopped; the newest complete one wins.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from mcne import files
from mcne.errors import ArtifactError, DataError, UsageError
from mcne.evaluation.protocol import DECIDING_METRIC
from mcne.files import disk_errors, overwrite
from mcne.models.settings import TrainingSettings
from mcne.models.tables import read_in_order
from mcne.text import Html, element, paragraph
from mcne.training.run import CHECKPOINTS, METRICS, TENSORBOARD, TIMES

KIND, VERSION = "mcne checkpoint", 1
PREFIX = "step-"

Record = dict[str, Any]
State = dict[str, dict[str, Tensor]]
"""Named groups of tensors, of which a checkpoint is made: ``learned``, ``memory``, ``best``, ``loop``."""
Losses = Callable[[], Mapping[str, float]]
"""The mean of each behavior so far in the epoch, looked at when asked for: that waits for the device."""


class Checkpoint(NamedTuple):
    """Where a training stood, in the fields of a :class:`Position`, and its tensors."""

    position: dict[str, Any]
    state: State


@dataclass
class Position:
    """Where a training stands; the next step is ``step`` of ``epoch``, both counted from 0."""

    epoch: int = 0
    step: int = 0
    steps_done: int = 0
    best_metric: float | None = None
    best_epoch: int | None = None
    stale: int = 0  # evaluations since the best
    records: int = 0  # lines of metrics written


class Reporter:
    """Receives the progress of a training; this one shows nothing."""

    def say(self, line: str) -> None:
        """Show a line."""

    def step(self, position: Position, *, n_steps: int, examples: int, loss: Losses) -> None:
        """A step is done."""

    def epoch(self, record: Record, *, seconds: float, examples: int) -> None:
        """An epoch is done."""

    def end(self) -> None:
        """The training is done."""


class PlainReporter(Reporter):
    """A line per epoch, for logs and pipes: losses, the metric that decides, masks, speed."""

    def __init__(self, write: Callable[[str], None], *, epochs: int) -> None:
        self._write = write
        self._epochs = epochs

    def say(self, line: str) -> None:
        """Show a line."""
        self._write(line)

    def epoch(self, record: Record, *, seconds: float, examples: int) -> None:
        """One line."""
        parts = [f"epoch {record['epoch']}/{self._epochs}"] if record["epoch"] else []  # 0: a method that needs none
        parts += [f"{name} {value:.4f}" for name, value in record.get("loss", {}).items()]
        metric = record.get("validation", {}).get("mean", {}).get(DECIDING_METRIC)
        if metric is not None:
            parts.append(f"validation {DECIDING_METRIC} {metric:.4f}")
        density = "/".join(f"{value:.2f}" for name, value in record.items() if name.startswith("mask_density"))
        if density:
            parts.append(f"mask density {density}, {record['mask_flips']:.0f} flips")
        if seconds:
            parts.append(f"{examples / seconds:,.0f} examples/s")
        self._write(", ".join(parts))


class NotebookReporter(PlainReporter):
    """In a notebook, a progress bar with the latest line of terminal output below it."""

    def __init__(self, title: str, *, epochs: int) -> None:
        from IPython.display import display

        super().__init__(self._show, epochs=epochs)
        self._title = title
        self._done = 0
        self._line = ""
        self._handle: Any = display(self, display_id=True)

    def epoch(self, record: Record, *, seconds: float, examples: int) -> None:
        """Move the bar."""
        self._done = record["epoch"]
        super().epoch(record, seconds=seconds, examples=examples)

    def end(self) -> None:
        """Fill the bar: a training may need fewer epochs, or none."""
        self.move(self._epochs, self._line)

    def move(self, done: int, line: str) -> None:
        """Move the bar to a number, and show a line."""
        self._done = done
        self._show(line)

    def _show(self, line: str) -> None:
        self._line = line
        self._handle.update(self)

    def _repr_html_(self) -> Html:
        bar = element("progress", value=str(self._done), max=str(self._epochs))
        return element("div", element("strong", self._title), " ", bar, paragraph(self._line))


def is_notebook() -> bool:
    """Whether this process shows its output in a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return any(kind.__name__ == "ZMQInteractiveShell" for kind in type(shell).__mro__)  # Colab's is a subclass


@dataclass(eq=False)
class RunJournal:
    """Records a training in a directory, and passes its progress to a reporter."""

    path: Path
    identity: str
    settings: TrainingSettings
    reporter: Reporter
    _board: Any = field(default=None, init=False)

    def resume(self, device: torch.device) -> Checkpoint | None:
        """The newest complete checkpoint; metrics past it are cut."""
        newest = self.newest_checkpoint(device)
        records = 0 if newest is None else int(newest.position["records"])
        self._cut(records)
        if self.settings.tensorboard:
            place = self.path / TENSORBOARD
            purged = {"purge_step": records + 1 if records else 0}  # epochs that are trained again are drawn once
            with disk_errors(place):
                self._board = tensorboard_writer()(str(place), **(purged if place.exists() else {}))
        if newest is not None:
            done, epoch = newest.position["steps_done"], newest.position["epoch"] + 1
            self.reporter.say(f"resumed after step {done:,}, in epoch {epoch}")
        return newest

    def checkpoint(self, position: Mapping[str, Any], state: State) -> None:
        """Write a checkpoint, and keep the last few of the earlier ones."""
        arrays = {
            f"{group}.{name}": tensor.detach().cpu().numpy()
            for group, tensors in state.items()
            for name, tensor in tensors.items()
        }
        directory = self.path / CHECKPOINTS
        # With the number of records: an epoch's last step and its evaluation are two places to go on from.
        target = directory / f"{PREFIX}{position['steps_done']:012d}-{position['records']:06d}"
        _remove([path for path in _checkpoints(directory) if path.name >= target.name])  # damaged, as resume found
        meta = {"run": self.identity, "position": dict(position)}
        with read_in_order():
            files.write(target, KIND, VERSION, meta=meta, provenance={}, arrays=arrays)
        left_aside = directory.glob(f".{PREFIX}*.partial")  # by killed processes
        _remove([*_checkpoints(directory)[: -self.settings.keep_checkpoints], *left_aside])

    def newest_checkpoint(self, device: torch.device) -> Checkpoint | None:
        """The newest complete checkpoint; damaged ones are skipped."""
        for path in reversed(_checkpoints(self.path / CHECKPOINTS)):
            try:
                version = files.read_manifest(path, KIND)["version"]
                saved = files.read(path, KIND, version)
            except (ArtifactError, DataError) as error:
                self.reporter.say(f"passed over a checkpoint: {error}")
                continue
            if version != VERSION:  # not damaged, and the next checkpoint would remove it
                newer = "a newer" if version > VERSION else "an older"
                raise ArtifactError(
                    f"was written by {newer} mcne: {KIND} format {version}, and this one reads format {VERSION}",
                    path,
                    "continue with the mcne that wrote it, or choose another --out",
                    value=version,
                    allowed=[VERSION],
                )
            if saved.meta["run"] != self.identity:
                raise ArtifactError(
                    f"belongs to a run with other data, method or settings ({saved.meta['run'][:12]}; this one is "
                    f"{self.identity[:12]})",
                    path,
                    "use the settings that it was started with, or choose another --out",
                    value=saved.meta["run"],
                    allowed=[self.identity],
                )
            state: State = {}
            for name in saved.arrays:
                group, _, rest = name.partition(".")
                mapped = np.load(path / f"{name}.npy", mmap_mode="c", allow_pickle=False)  # all may not fit in memory
                state.setdefault(group, {})[rest] = torch.from_numpy(mapped.view(np.ndarray)).to(device)
            return Checkpoint(saved.meta["position"], state)
        return None

    def record(self, record: Record, *, seconds: float, examples: int) -> None:
        """Append an epoch's metrics, and to their own file its clock times."""
        speed = examples / seconds if seconds else 0.0
        times = {"epoch": record["epoch"], "seconds": seconds, "examples_per_second": speed}
        for path, written in ((self.path / METRICS, record), (self.path / TIMES, times)):
            line = json.dumps(written, allow_nan=False) + "\n"
            with disk_errors(path), path.open("a", encoding="utf-8") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        if self._board is not None:
            with disk_errors(self.path / TENSORBOARD):
                for name, value in _scalars({name: part for name, part in record.items() if name != "epoch"}):
                    self._board.add_scalar(name, value, record["epoch"])
                self._board.flush()
        self.reporter.epoch(record, seconds=seconds, examples=examples)

    def compiled(self, seconds: float, *, is_kept: bool) -> None:
        """Say that kernels had to be compiled."""
        step = "to keep them, set NUMBA_CACHE_DIR to a directory that can be written to"
        later = "once; kept for later runs" if is_kept else f"as every run will; {step}"
        self.reporter.say(f"compiled kernels in {seconds:.1f} s, {later}")

    def close(self) -> None:
        """Close the files."""
        if self._board is not None:
            with disk_errors(self.path / TENSORBOARD):
                self._board.close()
            self._board = None

    def _cut(self, records: int) -> None:
        """Keep the metrics up to the checkpoint, and all times but an incomplete last line."""
        for name, most in ((METRICS, records), (TIMES, None)):
            path = self.path / name
            with disk_errors(path):
                content = path.read_bytes() if path.exists() else b""
            lines = [line for line in content.splitlines(keepends=True) if line.endswith(b"\n")]
            if most is not None and len(lines) < most:
                raise ArtifactError(
                    f"has {len(lines):,} records, and its checkpoint has {most:,}",
                    path,
                    "restore it, or train again in another directory",
                    value=len(lines),
                    allowed=[most],
                )
            kept = b"".join(lines[:most])
            if len(kept) != len(content):
                overwrite(path, kept)


def _scalars(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """The numbers of a nested record with slashed names."""
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _scalars(value, f"{prefix}{name}/")
        elif isinstance(value, int | float):
            yield prefix + name, float(value)


def tensorboard_writer() -> Any:
    """TensorBoard's writer, if it is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise UsageError(
            "needs the tensorboard package", "setting tensorboard", "run pip install 'mcne[tensorboard]'"
        ) from error
    return SummaryWriter


def _checkpoints(directory: Path) -> list[Path]:
    """Checkpoint directories, complete or not, oldest first."""
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if path.name.startswith(PREFIX))


def _remove(paths: list[Path]) -> None:
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)
