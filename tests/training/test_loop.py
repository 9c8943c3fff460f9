"""The loop followed step by step with a method that only counts, and what a run writes while it trains."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.errors import refused
from torch import Tensor

from mcne.embeddings.ranking import DotScorer
from mcne.errors import ArtifactError, DivergedError, Interrupted, UsageError
from mcne.kernels import compilation
from mcne.models.contract import Learner, Method, StepLoss
from mcne.models.settings import TrainingSettings
from mcne.training import loop
from mcne.training.journal import PlainReporter, Position, Reporter, RunJournal, State
from mcne.training.loop import Evaluate, Loop, evaluate_once
from mcne.training.run import CHECKPOINTS, METRICS, TIMES

CPU = torch.device("cpu")
NAMES = ("Books", "Travel")
FOREVER = 1e9


class Counter:
    """Learns nothing but how many steps it took; ``before`` is called with the batch of every step."""

    def __init__(self, n_steps: int = 3, before: Callable[[tuple[int, int]], StepLoss | None] | None = None) -> None:
        self.n_steps = n_steps
        self.updates = 0
        self._before = before
        self._count, self._momentum = torch.zeros(1), torch.ones(2)

    def prepare(self, epoch: int, step: int) -> tuple[int, int]:
        return epoch, step

    def loss(self, batch: tuple[int, int]) -> StepLoss:
        changed = self._before(batch) if self._before is not None else None
        return changed or step_loss(1.0 + batch[1], 2.0)

    def update(self, loss: StepLoss) -> None:
        self.updates += 1
        self._count += 1
        self._momentum *= 1.5

    def vitals(self) -> Mapping[str, float]:
        return {"count": float(self._count)}

    def learned(self) -> dict[str, Tensor]:
        return {"count": self._count}

    def memory(self) -> dict[str, Tensor]:
        return {"momentum": self._momentum}

    def load(self, learned: Mapping[str, Tensor]) -> None:
        self._count.copy_(learned["count"])

    def load_memory(self, memory: Mapping[str, Tensor]) -> None:
        self._momentum.copy_(memory["momentum"])

    def scorer(self) -> DotScorer:
        raise NotImplementedError

    def embeddings(self, dataset: Any, provenance: Any) -> Any:
        raise NotImplementedError

    @property
    def count(self) -> int:
        return int(self._count)


class Ready:
    """Knows everything when made."""

    def learned(self) -> dict[str, Tensor]:
        return {}

    def load(self, learned: Mapping[str, Tensor]) -> None:
        raise NotImplementedError

    def scorer(self) -> DotScorer:
        raise NotImplementedError

    def embeddings(self, dataset: Any, provenance: Any) -> Any:
        raise NotImplementedError


class Notes:
    """A journal in memory."""

    def __init__(self, kept: tuple[Mapping[str, Any], State] | None = None) -> None:
        self.kept = kept
        self.checkpoints: list[dict[str, Any]] = []
        self.records: list[dict[str, Any]] = []
        self.seconds: list[float] = []
        self.compiling: list[tuple[int, float, bool]] = []  # after how many records
        self.shown: list[tuple[int, int, int, int, Mapping[str, float]]] = []

    def resume(self, device: torch.device) -> tuple[Mapping[str, Any], State] | None:
        return self.kept

    def checkpoint(self, position: Mapping[str, Any], state: State) -> None:
        self.checkpoints.append(dict(position))
        copy = {group: {name: value.clone() for name, value in held.items()} for group, held in state.items()}
        self.kept = dict(position), copy

    def record(self, record: dict[str, Any], *, seconds: float, examples: int) -> None:
        self.records.append(record)
        self.seconds.append(seconds)

    def compiled(self, seconds: float, *, is_kept: bool) -> None:
        self.compiling.append((len(self.records), seconds, is_kept))

    @property
    def reporter(self) -> Notes:
        return self

    def step(self, position: Position, *, n_steps: int, examples: int, loss: Callable[[], Mapping[str, float]]) -> None:
        self.shown.append((position.epoch, position.step, n_steps, examples, loss()))


def step_loss(*per_behavior: float, total: float = 0.0) -> StepLoss:
    return StepLoss(torch.tensor(total), torch.tensor(per_behavior), examples=4)


def settings(**changes: Any) -> TrainingSettings:
    return TrainingSettings(**{"epochs": 4, "patience": 10, "checkpoint_seconds": FOREVER} | changes)


def scripted(*metrics: float | None) -> Evaluate:
    """An evaluation that answers these, one after the other."""
    answers = iter(metrics)

    def evaluate(_method: Method) -> Mapping[str, Any]:
        metric = next(answers)
        return {"mean": {"ndcg@5": metric}}

    return evaluate


def by_count(metrics: Mapping[int, float | None]) -> Evaluate:
    """An evaluation that depends on how many steps were taken, as a real one does."""

    def evaluate(method: Method) -> Mapping[str, Any]:
        metric = metrics[int(method.learned()["count"])]
        return {"mean": {"ndcg@5": metric}}

    return evaluate


def train(method: Method, evaluate: Evaluate, journal: Any, chosen: TrainingSettings | None = None) -> Position:
    if not isinstance(method, Learner):
        return evaluate_once(method, evaluate, journal, CPU)
    journal.settings = chosen or settings()
    return Loop(method, evaluate, names=NAMES, journal=journal, device=CPU).run()


def journal_at(path: Path, chosen: TrainingSettings | None = None, *, lines: list[str] | None = None) -> RunJournal:
    chosen = chosen or settings()
    reporter = Reporter() if lines is None else PlainReporter(lines.append, epochs=chosen.epochs)
    return RunJournal(path, identity="this run", settings=chosen, reporter=reporter)


RISING = [0.1, 0.2, 0.3, 0.4]


# steps and epochs


def test_the_doubles_are_what_they_stand_for() -> None:
    assert isinstance(Counter(), Learner)
    assert not isinstance(Ready(), Learner)


@pytest.mark.parametrize("workers", [1, 4])
def test_every_step_of_every_epoch_once_and_in_order(workers: int) -> None:
    chance = random.Random(0)
    seen = []

    class Slow(Counter):
        def prepare(self, epoch: int, step: int) -> tuple[int, int]:
            time.sleep(chance.random() * 0.003)
            return epoch, step

    method = Slow(n_steps=7, before=lambda batch: seen.append(batch))
    position = train(method, scripted(*RISING), Notes(), settings(workers=workers))
    assert seen == [(epoch, step) for epoch in range(4) for step in range(7)]
    assert (position.epoch, position.step, position.steps_done, position.records) == (4, 0, 28, 4)


@pytest.mark.parametrize("workers", [1, 3])
def test_steps_are_prepared_ahead_but_not_far(workers: int) -> None:
    asked: list[int] = []
    ahead = []

    class Watched(Counter):
        def prepare(self, epoch: int, step: int) -> tuple[int, int]:
            asked.append(step)
            return epoch, step

    method = Watched(n_steps=20, before=lambda batch: ahead.append(len(asked) - batch[1]))
    train(method, scripted(0.1), Notes(), settings(epochs=1, workers=workers))
    assert sorted(asked) == list(range(20))
    assert max(ahead) <= workers + 2


def test_what_goes_wrong_in_a_worker_comes_out() -> None:
    class Failing(Counter):
        def prepare(self, epoch: int, step: int) -> tuple[int, int]:
            if step == 1:
                raise RuntimeError("no such step")
            return epoch, step

    method = Failing()
    with pytest.raises(RuntimeError, match="no such step"):
        train(method, scripted(*RISING), Notes())
    assert method.count == 1


def test_an_epoch_without_steps() -> None:
    """Nothing to train on: the loop still ends, evaluates and records zero losses."""
    notes = Notes()
    position = train(Counter(n_steps=0), scripted(0.5, 0.5), notes, settings(epochs=2))
    assert (position.epoch, position.steps_done, position.best_epoch) == (2, 0, 1)
    assert [record["loss"] for record in notes.records] == [{"Books": 0.0, "Travel": 0.0}] * 2


def test_progress_is_shown_after_every_step() -> None:
    notes = Notes()
    train(Counter(), scripted(*RISING), notes, settings(epochs=2))
    means = [(1.0, 2.0), (1.5, 2.0), (2.0, 2.0)]  # of the epoch so far
    one_epoch = [(step, {"Books": a, "Travel": b}) for step, (a, b) in enumerate(means, start=1)]
    assert notes.shown == [(epoch, step, 3, 4, loss) for epoch in (0, 1) for step, loss in one_epoch]


def test_records_hold_losses_metrics_and_vitals() -> None:
    notes = Notes()
    train(Counter(), scripted(*RISING), notes, settings(epochs=2))
    loss = {"Books": 2.0, "Travel": 2.0}
    assert notes.records == [
        {"epoch": 1, "loss": loss, "validation": {"mean": {"ndcg@5": 0.1}}, "count": 3.0},
        {"epoch": 2, "loss": loss, "validation": {"mean": {"ndcg@5": 0.2}}, "count": 6.0},
    ]


def test_a_method_that_is_ready_is_evaluated_once() -> None:
    notes = Notes()
    position = train(Ready(), scripted(0.25), notes)
    assert (position.best_metric, position.best_epoch, position.epoch, position.records) == (0.25, 0, 0, 1)
    assert notes.records == [{"epoch": 0, "validation": {"mean": {"ndcg@5": 0.25}}}]


# what is compiled on the way


class Clock:
    """Stands still but for what is told to take time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.compiling = compilation.CompileClock()
        told = types.SimpleNamespace(perf_counter=lambda: self.now, monotonic=time.monotonic)
        monkeypatch.setattr(loop, "time", told)
        monkeypatch.setattr(loop, "CLOCK", self.compiling)
        monkeypatch.setattr(compilation, "time", told)

    def compile(self, seconds: float) -> None:
        self.compiling.start()
        self.now += seconds
        self.compiling.stop()


@pytest.mark.parametrize("is_kept", [True, False])
def test_compiling_is_told_and_no_part_of_an_epoch(is_kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    clock.compiling.is_kept = is_kept

    def step(batch: tuple[int, int]) -> None:
        clock.now += 2
        if batch in ((0, 0), (0, 2), (2, 1)):
            clock.compile(10)

    def evaluate(method: Method) -> Mapping[str, Any]:
        clock.now += 1
        if int(method.learned()["count"]) in (3, 12):
            clock.compile(5)
        return {"mean": {"ndcg@5": None}}

    notes = Notes()
    train(Counter(before=step), evaluate, notes)
    assert notes.seconds == [6, 6, 6, 6]
    assert notes.compiling == [(0, 25, is_kept), (2, 10, is_kept), (3, 5, is_kept)]  # ahead of the epoch's own record


def test_what_was_compiled_before_a_training_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch).compile(10)
    notes = Notes()
    train(Counter(), scripted(*RISING), notes)
    assert not notes.compiling


# which epoch is kept


@pytest.mark.parametrize(
    ("metrics", "patience", "epochs", "best"),
    [
        ([0.3, 0.2, 0.1, 0.0, 0.9], 3, 4, 1),  # three worse ones in a row, the fifth is never seen
        ([0.3, 0.2, 0.4, 0.1, 0.1, 0.1], 3, 6, 3),  # a better one starts the count again
        ([0.3, 0.3, 0.3, 0.3], 2, 3, 1),  # as good is not better
        ([0.1, 0.2, 0.3], 1, 3, 3),
        ([0.2, 0.1, 0.9], 1, 2, 1),
    ],
)
def test_early_stopping(metrics: list[float], patience: int, epochs: int, best: int) -> None:
    method = Counter()
    position = train(method, scripted(*metrics), Notes(), settings(epochs=len(metrics), patience=patience))
    assert (position.epoch, position.best_epoch, position.best_metric) == (epochs, best, metrics[best - 1])
    assert method.count == 3 * best  # the best epoch's, not the last one's


def test_patience_counts_evaluations_and_not_epochs() -> None:
    notes = Notes()
    position = train(Counter(), scripted(0.3, 0.2, 0.1, 0.9), notes, settings(epochs=20, patience=2, evaluate_every=3))
    assert (position.epoch, position.best_epoch) == (9, 3)
    assert [record["epoch"] for record in notes.records if "validation" in record] == [3, 6, 9]
    assert [record["epoch"] for record in notes.records] == list(range(1, 10))


def test_the_last_epoch_is_always_evaluated() -> None:
    notes = Notes()
    position = train(Counter(), scripted(0.1, 0.2, 0.3), notes, settings(epochs=5, evaluate_every=2))
    assert [record["epoch"] for record in notes.records if "validation" in record] == [2, 4, 5]
    assert position.best_epoch == 5


def test_what_is_best_does_not_change_with_later_steps() -> None:
    """``learned`` hands out what the method goes on to change: the loop must copy it."""
    method = Counter()
    train(method, scripted(0.9, 0.1, 0.1), Notes(), settings(epochs=3))
    assert method.count == 3


def test_without_validation_the_newest_is_the_best_and_patience_has_no_end() -> None:
    method, notes = Counter(), Notes()
    position = train(method, scripted(None, None, None, None), notes, settings(patience=1))
    assert (position.epoch, position.best_epoch, position.best_metric, position.stale) == (4, 4, None, 0)
    assert method.count == 12
    json.dumps(notes.records, allow_nan=False)


# divergence


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (step_loss(1.0, float("nan"), total=float("nan")), "the loss of Travel is not finite"),
        (step_loss(float("inf"), 1.0, total=float("inf")), "the loss of Books is not finite"),
        (step_loss(float("-inf"), float("nan"), total=float("nan")), "the loss of Books, Travel is not finite"),
        (step_loss(1.0, 2.0, total=float("inf")), "the loss of the regularization is not finite"),
    ],
)
def test_divergence_is_noticed_before_the_update(loss: StepLoss, message: str, tmp_path: Path) -> None:
    method = Counter(before=lambda batch: loss if batch == (1, 2) else None)
    with pytest.raises(DivergedError, match=rf"{message} in epoch 2, step 3; .*lower learning_rate") as error:
        train(method, scripted(*RISING), journal_at(tmp_path), settings(checkpoint_seconds=0))
    assert error.value.exit_code == 3
    assert method.count == 5
    assert float(method.memory()["momentum"][0]) == 1.5**5
    lines: list[str] = []
    saved = journal_at(tmp_path, lines=lines).newest_checkpoint(CPU)
    assert saved is not None
    assert not lines
    assert (saved.position["epoch"], saved.position["step"]) == (1, 2)
    assert float(saved.state["learned"]["count"]) == 5


@pytest.mark.parametrize(("seconds", "step"), [(1000, 3), (0, 2)])
@pytest.mark.parametrize("is_captured", [True, False])
def test_divergence_on_a_gpu_is_noticed_before_anything_is_kept(
    seconds: int, step: int, is_captured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = step_loss(1.0, float("nan"), total=float("nan"))
    method = Counter(before=lambda batch: lost if batch == (1, 1) else None)

    def in_one(batch: Any) -> StepLoss:
        loss = method.loss(batch)
        method.update(loss)
        return loss

    if is_captured:
        monkeypatch.setattr(loop, "captured_steps", lambda *_: in_one)
    else:
        monkeypatch.setattr(Loop, "looks_at_each", property(lambda _: False, lambda *_: None), raising=False)
    with pytest.raises(DivergedError, match=rf"the loss of Travel is not finite in epoch 2, by step {step}; .*lower"):
        train(method, scripted(*RISING), journal_at(tmp_path), settings(checkpoint_seconds=seconds))
    saved = journal_at(tmp_path).newest_checkpoint(CPU)
    assert (saved is None) == (seconds > 0)
    assert saved is None or (saved.position["epoch"], saved.position["step"]) == (1, 1)


# checkpoints and signals


def test_checkpoints_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step takes a second here, a checkpoint is due every two."""
    clock = itertools.count()
    now = 0

    def tick(_batch: Any) -> None:
        nonlocal now
        now = next(clock)

    monkeypatch.setattr(time, "monotonic", lambda: now)
    notes = Notes()
    train(Counter(before=tick), scripted(*RISING), notes, settings(epochs=2, checkpoint_seconds=2))
    assert [(at["epoch"], at["step"]) for at in notes.checkpoints] == [(0, 3), (1, 2)]


def test_a_checkpoint_at_every_step_and_at_the_end_of_every_epoch() -> None:
    notes = Notes()
    train(Counter(), scripted(*RISING), notes, settings(epochs=2, checkpoint_seconds=0))
    places = [(at["epoch"], at["step"], at["records"]) for at in notes.checkpoints]
    assert places == [(0, 1, 0), (0, 2, 0), (0, 3, 0), (1, 0, 1), (1, 1, 1), (1, 2, 1), (1, 3, 1), (2, 0, 2)]
    assert [at["steps_done"] for at in notes.checkpoints] == [1, 2, 3, 3, 4, 5, 6, 6]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
@pytest.mark.parametrize("place", [(0, 0), (1, 1), (1, 2), (3, 2)], ids=str)
def test_a_signal_ends_the_step_and_keeps_a_checkpoint(number: signal.Signals, place: tuple[int, int]) -> None:
    def strike(batch: tuple[int, int]) -> None:
        if batch == place:
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)  # once more does no harm

    before = signal.getsignal(number)
    method, notes = Counter(before=strike), Notes()
    done = place[0] * 3 + place[1] + 1
    with pytest.raises(Interrupted, match=rf"stopped by {number.name} after step {done}, .*--resume") as stopped:
        train(method, scripted(*RISING), notes)
    assert stopped.value.exit_code == 128 + number
    assert signal.getsignal(number) is before
    assert method.count == done
    assert [(at["epoch"], at["step"], at["steps_done"]) for at in notes.checkpoints] == [(place[0], place[1] + 1, done)]
    resumed = Counter()
    position = train(resumed, by_count({3: 0.1, 6: 0.2, 9: 0.3, 12: 0.4}), notes)
    assert (position.epoch, position.best_epoch, resumed.count) == (4, 4, 12)
    assert resumed.updates == 12 - done


def test_a_signal_during_evaluation_keeps_the_evaluation() -> None:
    def evaluate(_method: Method) -> Mapping[str, Any]:
        os.kill(os.getpid(), signal.SIGTERM)
        return {"mean": {"ndcg@5": 0.5}}

    notes = Notes()
    with pytest.raises(Interrupted):
        train(Counter(), evaluate, notes)
    (kept,) = notes.checkpoints
    assert (kept["epoch"], kept["step"], kept["records"], kept["best_metric"]) == (1, 0, 1, 0.5)


def test_handlers_are_restored_whatever_happens() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]

    def during(_batch: Any) -> None:
        assert all(signal.getsignal(n) is not handler for n, handler in zip(numbers, before, strict=True))
        raise MemoryError

    with pytest.raises(MemoryError):
        train(Counter(before=during), scripted(), Notes())
    assert [signal.getsignal(number) for number in numbers] == before


def test_training_in_a_thread_leaves_signals_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    heard = []
    method = Counter(before=lambda _batch: heard.append(signal.getsignal(signal.SIGTERM)))
    thread = threading.Thread(target=train, args=(method, scripted(*RISING), Notes()))
    thread.start()
    thread.join()
    assert method.count == 12
    assert set(heard) == {before}


@pytest.mark.parametrize("stop", range(1, 12))
def test_a_training_goes_on_where_it_stood(stop: int) -> None:
    """Early stopping, the best epoch and the losses of a half epoch come back."""
    metrics = {3: 0.3, 6: 0.5, 9: 0.4, 12: 0.4, 15: 0.9}
    chosen = settings(epochs=5, patience=2)
    whole_method, whole = Counter(), Notes()
    expected = train(whole_method, by_count(metrics), whole, chosen)

    def strike(batch: tuple[int, int]) -> None:
        if batch[0] * 3 + batch[1] + 1 == stop:
            os.kill(os.getpid(), signal.SIGTERM)

    first = Notes()
    with pytest.raises(Interrupted):
        train(Counter(before=strike), by_count(metrics), first, chosen)
    method, second = Counter(), Notes(first.kept)
    position = train(method, by_count(metrics), second, chosen)
    assert position == expected
    assert first.records + second.records == whole.records
    assert content(method) == content(whole_method)


def content(method: Counter) -> list[list[float]]:
    return [tensor.tolist() for tensor in (*method.learned().values(), *method.memory().values())]


# what a run writes


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_metrics_hold_what_the_seed_decides_and_times_the_rest(tmp_path: Path) -> None:
    metrics = {3: 0.25, 6: 0.125}
    for name, pause in (("a", 0.0), ("b", 0.01)):
        (tmp_path / name).mkdir()
        slow = Counter(before=lambda _batch, pause=pause: time.sleep(pause))  # type: ignore[misc]
        train(slow, by_count(metrics), journal_at(tmp_path / name), settings(epochs=2))
    expected = [
        {"epoch": epoch, "loss": {"Books": 2.0, "Travel": 2.0}, "validation": {"mean": {"ndcg@5": metric}}, "count": n}
        for epoch, (n, metric) in enumerate(metrics.items(), start=1)
    ]
    assert lines_of(tmp_path / "a" / METRICS) == expected
    assert (tmp_path / "a" / METRICS).read_bytes() == (tmp_path / "b" / METRICS).read_bytes()
    for name in "ab":
        times = lines_of(tmp_path / name / TIMES)
        assert [sorted(line) for line in times] == [["epoch", "examples_per_second", "seconds"]] * 2
        assert all(line["seconds"] > 0 and line["examples_per_second"] > 0 for line in times)
    assert lines_of(tmp_path / "b" / TIMES)[0]["seconds"] > 0.03


def test_metrics_are_whole_lines_of_strict_json(tmp_path: Path) -> None:
    journal = journal_at(tmp_path)
    journal.record({"epoch": 1, "loss": {"Bücher\u2028\n": 1.0}}, seconds=1.0, examples=5)
    with pytest.raises(ValueError, match="JSON"):
        journal.record({"epoch": 2, "loss": {"Books": float("nan")}}, seconds=1.0, examples=5)
    assert lines_of(tmp_path / METRICS) == [{"epoch": 1, "loss": {"Bücher\u2028\n": 1.0}}]
    assert (tmp_path / METRICS).read_bytes().count(b"\n") == 1


@pytest.mark.parametrize("torn", ["", '{"epoch": 3, "lo', '{"epoch": 3}\n{"epoch"', "\n\n"], ids=repr)
def test_records_past_the_checkpoint_are_cut(torn: str, tmp_path: Path) -> None:
    chosen = settings(epochs=2, checkpoint_seconds=0)
    train(Counter(), by_count({3: 0.1, 6: 0.2}), journal_at(tmp_path, chosen), chosen)
    whole = (tmp_path / METRICS).read_bytes()
    for cut, kept in (("step-000000000006-000002", 2), ("step-000000000006-000001", 1)):
        (tmp_path / METRICS).write_bytes(whole + torn.encode())
        resumed = journal_at(tmp_path, chosen).resume(CPU)
        assert resumed is not None
        assert resumed[0]["records"] == kept
        assert lines_of(tmp_path / METRICS) == [json.loads(line) for line in whole.splitlines()[:kept]]
        for file in (tmp_path / CHECKPOINTS / cut).iterdir():
            file.unlink()


def test_records_are_cut_altogether_where_there_is_no_checkpoint(tmp_path: Path) -> None:
    lines: list[str] = []
    journal = journal_at(tmp_path, lines=lines)
    assert journal.resume(CPU) is None
    assert not (tmp_path / METRICS).exists()
    journal.record({"epoch": 1}, seconds=0.0, examples=0)
    assert journal_at(tmp_path, lines=lines).resume(CPU) is None
    assert (tmp_path / METRICS).read_bytes() == b""
    assert lines == ["epoch 1/4"]


def test_a_ready_method_stopped_and_started_again_has_one_record(tmp_path: Path) -> None:
    for _ in range(2):
        train(Ready(), scripted(0.25), journal_at(tmp_path))
    assert lines_of(tmp_path / METRICS) == [{"epoch": 0, "validation": {"mean": {"ndcg@5": 0.25}}}]


def test_missing_records_are_refused(tmp_path: Path) -> None:
    """A checkpoint that has seen two epochs cannot go on without the metrics of both."""
    chosen = settings(epochs=2, checkpoint_seconds=0)
    train(Counter(), by_count({3: 0.1, 6: 0.2}), journal_at(tmp_path, chosen), chosen)
    whole = (tmp_path / METRICS).read_bytes()
    for left in (b"", whole.splitlines(keepends=True)[0], whole[:-5]):
        (tmp_path / METRICS).write_bytes(left)
        with refused(ArtifactError, place="metrics.jsonl", value=left.count(b"\n")):
            journal_at(tmp_path, chosen).resume(CPU)
        assert (tmp_path / METRICS).read_bytes() == left
    (tmp_path / METRICS).unlink()
    with pytest.raises(ArtifactError, match=r"metrics\.jsonl: has 0 "):
        journal_at(tmp_path, chosen).resume(CPU)


# what people see

RECORD = {
    "epoch": 7,
    "loss": {"Books": 0.51236, "Travel": 0.4},
    "validation": {"mean": {"ndcg@5": 0.123456}},
    "mask_density_0": 0.5,
    "mask_density_1": 0.261,
    "mask_flips": 12.0,
}


def test_an_epoch_in_a_line() -> None:
    lines: list[str] = []
    reporter = PlainReporter(lines.append, epochs=200)
    reporter.epoch(RECORD, seconds=2.0, examples=25_000)
    reporter.epoch(
        {"epoch": 1, "loss": {"Books": 0.5}, "validation": {"mean": {"ndcg@5": None}}}, seconds=0.0, examples=0
    )
    assert lines == [
        "epoch 7/200, Books 0.5124, Travel 0.4000, validation ndcg@5 0.1235, mask density 0.50/0.26, 12 flips, "
        "12,500 examples/s",
        "epoch 1/200, Books 0.5000",
    ]


def test_the_plain_reporter_writes_a_line_per_epoch(tmp_path: Path) -> None:
    lines: list[str] = []
    chosen = settings(epochs=2, checkpoint_seconds=0)
    train(Counter(), by_count({3: 0.1, 6: 0.2}), journal_at(tmp_path, chosen, lines=lines), chosen)
    assert [line.rpartition(", ")[0] for line in lines] == [
        f"epoch {epoch}/2, Books 2.0000, Travel 2.0000, validation ndcg@5 0.{epoch}000" for epoch in (1, 2)
    ]
    assert all(line.endswith(" examples/s") for line in lines)
    train(Counter(), by_count({}), journal_at(tmp_path, chosen, lines=lines), chosen)
    assert lines[2:] == ["resumed after step 6, in epoch 3"]


def test_the_silent_reporter_is_silent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    train(Counter(), scripted(*RISING), journal_at(tmp_path))
    assert capfd.readouterr() == ("", "")


def test_tensorboard_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with refused(UsageError, place="setting tensorboard"):
        journal_at(tmp_path, settings(tensorboard=True)).resume(CPU)
    assert not any(tmp_path.iterdir())


def test_tensorboard_is_told_every_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, float, int]] = []

    class Writer:
        def __init__(self, path: str) -> None:
            assert path == str(tmp_path / "tensorboard")

        def add_scalar(self, name: str, value: float, step: int) -> None:
            told.append((name, value, step))

        def flush(self) -> None:
            told.append(("flush", 0.0, 0))

    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    journal = journal_at(tmp_path, settings(tensorboard=True))
    journal.resume(CPU)
    record = {"epoch": 7, "loss": {"Books": 0.5}, "validation": {"part": "validation", "mean": {"a": 1, "b": None}}}
    journal.record(record, seconds=1.0, examples=1)
    assert told == [("loss/Books", 0.5, 7), ("validation/mean/a", 1.0, 7), ("flush", 0.0, 0)]
