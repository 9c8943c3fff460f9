"""The one training loop: steps, evaluation, early stopping, checkpoints, signals.

Everything that decides the result is a function of seed, epoch and step or is part of a checkpoint; clocks only decide
when to save and what to show. So an interrupted and resumed training gives the same bytes as an uninterrupted one.
"""

from __future__ import annotations

import dataclasses
import math
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from mcne.errors import DivergedError, Interrupted
from mcne.evaluation.protocol import DECIDING_METRIC
from mcne.kernels.compilation import CLOCK
from mcne.models.contract import Adaptive, Learner, Method
from mcne.models.tables import Kept
from mcne.training.gpu import captured_steps
from mcne.training.journal import Position, Record, RunJournal, State

Evaluate = Callable[[Method], Mapping[str, Any]]
"""The summary of a method's evaluation on the validation part, with None for its means if nobody has items there."""


def evaluate_once(method: Method, evaluate: Evaluate, journal: RunJournal, device: torch.device) -> Position:
    """Evaluate and record a method that does not learn step by step."""
    journal.resume(device)  # which cuts what an earlier attempt recorded
    validation = evaluate(method)
    journal.record({"epoch": 0, "validation": dict(validation)}, seconds=0.0, examples=0)
    return Position(best_metric=validation["mean"][DECIDING_METRIC], best_epoch=0, records=1)


@dataclass(eq=False)
class Loop:
    """The training of a learner."""

    method: Learner
    evaluate: Evaluate
    _: KW_ONLY
    names: tuple[str, ...]
    journal: RunJournal
    device: torch.device

    def __post_init__(self) -> None:
        self.settings = self.journal.settings
        self.position = Position()
        self.best: Kept | None = None
        self.captured = captured_steps(self.method, self.device)
        self.looks_at_each = self.captured is None and self.device.type == "cpu"  # elsewhere it would wait for each
        self.total = torch.zeros((), device=self.device)  # of steps that nobody has looked at yet
        self.losses = torch.zeros(len(self.names), dtype=torch.float64, device=self.device)  # sums of the epoch
        self.saved_at = time.monotonic()
        self.compiled_until = time.perf_counter()  # what was compiled before is reported

    def run(self) -> Position:
        """Train, restore what the method had learned at its best evaluation, and return the final position."""
        with hold_signals() as stop, closing(self._batches()) as batches:
            if isinstance(self.method, Adaptive) and (choices := self.method.choices()):
                self.journal.reporter.say(choices)
            saved = self.journal.resume(self.device)
            if saved is not None:
                position, state = saved
                self.position = Position(**position)
                self.method.load(state["learned"])
                self.method.load_memory(state["memory"])
                self.losses.copy_(state["loop"]["loss"])
                self.best = Kept(state["best"]) if "best" in state else None
            at = self.position
            while at.epoch < self.settings.epochs and not self._has_lost_patience():
                started = time.perf_counter()
                examples = 0
                for batch in islice(batches, self.method.n_steps - at.step):
                    examples += self._step(batch)
                    self._save_if_due(stop)
                self._look_at_total()  # which waits for them, so that the clock does too
                compiling = CLOCK.since(started)
                self._end_epoch(seconds=time.perf_counter() - started - compiling, examples=examples)
                self._save_if_due(stop)
            if self.best is not None:
                self.method.load(self.best.tensors())
        return self.position

    def _has_lost_patience(self) -> bool:
        is_settled = not isinstance(self.method, Adaptive) or self.method.is_settled
        return is_settled and self.position.stale >= self.settings.patience

    def _batches(self) -> Generator[Any, None, None]:
        """The remaining steps of all epochs, prepared ahead by threads and yielded in order."""
        threads = torch.get_num_threads()  # now: a step may have fewer for a moment (mcne.kernels.products)
        pool = ThreadPoolExecutor(self.settings.workers, initializer=torch.set_num_threads, initargs=(threads,))
        waiting: deque[Future[Any]] = deque()
        first = self.position.epoch * self.method.n_steps + self.position.step
        try:
            for at in range(first, self.settings.epochs * self.method.n_steps):
                waiting.append(pool.submit(self.method.prepare, *divmod(at, self.method.n_steps)))
                if len(waiting) > self.settings.workers + 1:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _step(self, batch: Any) -> int:
        if self.captured is not None:
            loss = self.captured(batch)
        else:
            loss = self.method.loss(batch)
            if self.looks_at_each:
                self._refuse_divergence(loss.total, loss.per_behavior, f"step {self.position.step + 1}")
            self.method.update(loss)
        if not self.looks_at_each:
            self.total += loss.total.detach()  # of a training that diverged nothing is ever kept
        self.losses += loss.per_behavior
        self.position.step += 1
        self.position.steps_done += 1
        reporter = self.journal.reporter
        reporter.step(self.position, n_steps=self.method.n_steps, examples=loss.examples, loss=self._mean_losses)
        return loss.examples

    def _mean_losses(self) -> dict[str, float]:
        return dict(zip(self.names, (self.losses / max(1, self.position.step)).tolist(), strict=True))

    def _refuse_divergence(self, total: Tensor, per_behavior: Tensor, when: str) -> None:
        if bool(torch.isfinite(total.detach())):
            return
        bad = [name for name, value in zip(self.names, per_behavior.tolist(), strict=True) if not math.isfinite(value)]
        where = ", ".join(bad) or "the regularization"
        raise DivergedError(
            f"the loss of {where} is not finite in epoch {self.position.epoch + 1}, {when}",
            remedy="train again in another directory, with a lower learning_rate or a higher l2",
        )

    def _look_at_total(self) -> None:
        self._refuse_divergence(self.total, self.losses, f"by step {self.position.step}")
        self.total.zero_()

    def _end_epoch(self, *, seconds: float, examples: int) -> None:
        position = self.position
        record: Record = {"epoch": position.epoch + 1, "loss": self._mean_losses()}
        vitals = self.method.vitals()  # of this epoch: an evaluation may change how the next ones learn
        is_last = position.epoch + 1 == self.settings.epochs
        if is_last or (position.epoch + 1) % self.settings.evaluate_every == 0:
            record["validation"] = dict(self.evaluate(self.method))
            metric = record["validation"]["mean"][DECIDING_METRIC]
            self._compare(metric)
            if isinstance(self.method, Adaptive) and (line := self.method.validated(metric)):
                self.journal.reporter.say(line)
        record |= vitals
        position.epoch += 1
        position.step = 0
        position.records += 1
        self.losses.zero_()
        if compiling := CLOCK.since(self.compiled_until):
            self.journal.compiled(compiling, is_kept=CLOCK.is_kept)
            self.compiled_until = time.perf_counter()
        self.journal.record(record, seconds=seconds, examples=examples)

    def _compare(self, metric: float | None) -> None:
        """Keep what was learned if it is the best so far; without validation, the newest is."""
        position = self.position
        if metric is None or position.best_metric is None or metric > position.best_metric:
            position.best_metric = metric
            position.best_epoch = position.epoch + 1
            position.stale = 0
            self.best = Kept(self.method.learned())
        else:
            position.stale += 1

    def _save_if_due(self, stop: Stop) -> None:
        if stop.number is None and time.monotonic() - self.saved_at < self.settings.checkpoint_seconds:
            return
        self._look_at_total()
        state: State = {"learned": self.method.learned(), "memory": self.method.memory(), "loop": {"loss": self.losses}}
        if self.best is not None:
            state["best"] = self.best.tensors()
        self.journal.checkpoint(dataclasses.asdict(self.position), state)
        self.saved_at = time.monotonic()
        stop.end(f"after step {self.position.steps_done:,}, with a checkpoint")


@dataclass
class Stop:
    """The signal to stop, if one arrived."""

    number: int | None = None

    def end(self, when: str) -> None:
        """End the training if a signal arrived."""
        if self.number is not None:
            name = signal.Signals(self.number).name
            raise Interrupted(f"stopped by {name} {when}", remedy="--resume continues it", signal_number=self.number)


@contextmanager
def hold_signals() -> Iterator[Stop]:
    """SIGINT and SIGTERM become a request to stop at a convenient moment; only the main thread receives them."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def ask(number: int, _frame: FrameType | None) -> None:
        stop.number = number

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
