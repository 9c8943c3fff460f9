"""Progress of a training: a few lines that are updated on a terminal, a line per epoch in pipes and logs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mcne.cli.output import labeled
from mcne.evaluation.protocol import DECIDING_METRIC
from mcne.kernels.compilation import CLOCK
from mcne.training import Run
from mcne.training.journal import Losses, PlainReporter, Position, Reporter

REFRESH_SECONDS = 0.125


@contextmanager
def training_progress(
    title: str, epochs: int, *, console: Console | None = None, on_stderr: bool = False, only_live: bool = False
) -> Iterator[Reporter]:
    """The reporter that suits the terminal or pipe, for as long as the training takes.

    On stderr, where reports of several trainings follow one another, each starts with its title. With ``only_live``,
    nothing is printed unless it is on a terminal.
    """
    console = console or Console(stderr=on_stderr)
    if not console.is_terminal:
        if on_stderr:
            typer.echo(title, err=True)
        yield Reporter() if only_live else PlainReporter(partial(typer.echo, err=on_stderr), epochs=epochs)
        return
    with closing(LiveReporter(console, title=title, epochs=epochs)) as reporter:
        yield reporter


def outcome(run: Run) -> str:
    """How a training ended, in a line."""
    result = run.result
    metric = result[DECIDING_METRIC]
    quality = [] if metric is None else [f"validation NDCG@5 {metric:.4f}"]
    if run.spec.parts:
        members = run.spec.schedule.get("members", 1)
        made_of = "a model for each behavior" if run.spec.mode == "separate" else f"the average of {members} members"
        return "; ".join([made_of, *quality])
    if not result["epochs"]:
        return "; ".join(["closed form, no epochs", *quality])
    if not quality:
        return f"no interactions to validate on, so the last of {result['epochs']} epochs is kept"
    return f"best of {result['epochs']} epochs: {result['best_epoch']}, {quality[0]}"


class LiveReporter(Reporter):
    """Loss per behavior, validation metric, mask density and flips, examples per second, time to go."""

    def __init__(self, console: Console, *, title: str, epochs: int) -> None:
        self._live = Live(console=console, auto_refresh=False)
        self._title = title
        self._epochs = epochs
        self._started = self._refreshed = time.perf_counter()
        self._steps = self._examples = 0
        self._place = ""
        self._share = 0.0
        self._rows = dict.fromkeys(("loss", "validation", "best", "masks", "speed", "to go"), "")

    def say(self, line: str) -> None:
        """Print a line above the lines that are updated."""
        self._live.console.print(Text(line))

    def step(self, position: Position, *, n_steps: int, examples: int, loss: Losses) -> None:
        """Count the step; a few times a second, read the losses (which waits for the device) and draw everything."""
        self._steps += 1
        self._examples += examples
        now = time.perf_counter()
        if now - self._refreshed < REFRESH_SECONDS:
            return
        self._refreshed = now
        self._place = f"epoch {position.epoch + 1:,} of {self._epochs:,}, step {position.step:,} of {n_steps:,}"
        self._share = position.step / n_steps
        self._rows["loss"] = "  ".join(f"{name} {value:.4f}" for name, value in loss().items())
        if position.best_metric is not None:
            self._rows["best"] = f"NDCG@5 {position.best_metric:.4f} in epoch {position.best_epoch}"
        elapsed = time.perf_counter() - self._started - CLOCK.since(self._started)
        left = (self._epochs - position.epoch) * n_steps - position.step
        self._rows["speed"] = f"{self._examples / max(elapsed, 1e-9):,.0f} examples/s"
        self._rows["to go"] = f"{timedelta(seconds=round(left * elapsed / self._steps))} at most"
        self._draw()

    def epoch(self, record: Mapping[str, Any], *, seconds: float, examples: int) -> None:
        """Take the metric and the masks from the record of an epoch."""
        metric = record.get("validation", {}).get("mean", {}).get(DECIDING_METRIC)
        if metric is not None:
            self._rows["validation"] = f"NDCG@5 {metric:.4f}"
        density = [f"{value:.2f}" for name, value in record.items() if name.startswith("mask_density")]
        if density:
            self._rows["masks"] = f"density {' / '.join(density)} by level, {record['mask_flips']:,.0f} flips so far"
        if self._live.is_started:
            self._place = f"epoch {record['epoch']:,} of {self._epochs:,}"
            self._share = 1.0
            self._draw()

    def close(self) -> None:
        """Leave the last state on the terminal."""
        if self._live.is_started:
            self._rows["to go"] = ""
            self._draw()
            self._live.stop()

    def _draw(self) -> None:
        head = Table.grid(padding=(0, 2, 0, 0))
        bar = ProgressBar(total=1.0, completed=self._share, width=24)
        head.add_row(Text(self._title, style="bold"), bar, Text(self._place))
        body = labeled((f"  {name}", text) for name, text in self._rows.items() if text)
        self._live.start()
        self._live.update(Group(head, body), refresh=True)
