"""What people see of a training."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mcne.evaluation.protocol import DECIDING_METRIC

if TYPE_CHECKING:
    from mcne.training.loop import Losses, Position, Record


class Reporter:
    """What a training tells people; this one shows nothing."""

    def say(self, line: str) -> None:
        """Something to know."""

    def step(self, position: Position, *, n_steps: int, examples: int, loss: Losses) -> None:
        """A step is done."""

    def epoch(self, record: Record, *, seconds: float, examples: int) -> None:
        """An epoch is done."""


class PlainReporter(Reporter):
    """A line per epoch, for logs and pipes."""

    def __init__(self, write: Callable[[str], None], *, epochs: int) -> None:
        self._write = write
        self._epochs = epochs

    def say(self, line: str) -> None:
        """Something to know."""
        self._write(line)

    def epoch(self, record: Record, *, seconds: float, examples: int) -> None:
        """One line."""
        self._write(describe_epoch(record, seconds=seconds, examples=examples, epochs=self._epochs))


def describe_epoch(record: Record, *, seconds: float, examples: int, epochs: int) -> str:
    """An epoch in a line: losses, the metric that decides, masks, speed."""
    parts = [f"epoch {record['epoch']}/{epochs}"] if record["epoch"] else []  # 0: of a method that needs none
    parts += [f"{name} {value:.4f}" for name, value in record.get("loss", {}).items()]
    metric = record.get("validation", {}).get("mean", {}).get(DECIDING_METRIC)
    if metric is not None:
        parts.append(f"validation {DECIDING_METRIC} {metric:.4f}")
    density = [value for name, value in record.items() if name.startswith("mask_density")]
    if density:
        parts.append(f"mask density {'/'.join(f'{value:.2f}' for value in density)}, {record['mask_flips']:.0f} flips")
    if seconds:
        parts.append(f"{examples / seconds:,.0f} examples/s")
    return ", ".join(parts)
