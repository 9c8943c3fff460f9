"""A training stopped anywhere and resumed gives, byte for byte, what one gives that was never stopped.

Run as a program, this file trains for the tests that kill whole processes: see ``main``.
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import pytest
import torch

from mcne import training
from mcne.data.dataset import SocialDataset
from mcne.data.split import Split, random_split
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.errors import DivergedError, Interrupted
from mcne.training.journal import Position, Reporter, RunJournal
from mcne.training.run import CHECKPOINTS, METRICS

pytestmark = pytest.mark.usefixtures("no_flushing", "one_thread")

CPU = torch.device("cpu")
FOREVER = 1e9

SETTINGS: dict[str, dict[str, Any]] = {
    "popularity": {},
    "bpr": {"width": 4, "batch_size": 512, "learning_rate": 0.05, "l2": 0.001},
    "mcne": {
        "widths": [8, 6],
        "neighbor_samples": [3],
        "attention_width": 3,
        "batch_size": 512,
        "learning_rate": 0.05,
        "l2": 0.0001,
    },
}
SETTINGS["mcne-plus"] = {"width": 4, "batch_size": 512, "walk_batch": 16, "learning_rate": 0.05}
LEARNERS = [name for name in SETTINGS if name != "popularity"]


@cache
def network(behaviors: int = 2) -> tuple[SocialDataset, Split]:
    dataset, _ = generate(SyntheticConfig(users=500, behaviors=2, seed=3))
    dataset = replace(dataset, behaviors=dataset.behaviors[:behaviors])
    return dataset, random_split(dataset, seed=0)


def train(
    method: str,
    path: Path,
    *,
    resume: bool = False,
    behaviors: int = 2,
    reporter: Reporter | None = None,
    **changes: Any,
) -> training.Run:
    dataset, split = network(behaviors)
    schedule = {"epochs": 4, "checkpoint_seconds": FOREVER} | changes
    return training.Training(
        method,
        dataset,
        split,
        settings=SETTINGS[method] | schedule,
        seed=1,
        device=CPU,
        places={"dataset": "here", "split": "random-0"},
        reporter=reporter or Reporter(),
    ).run(path, resume=resume)


def result_of(path: Path) -> dict[str, bytes]:
    """Every byte that a run promises to be the same."""
    files = [path / METRICS, path / "result.json", *sorted((path / "embeddings").iterdir())]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, bytes]]:
    @cache
    def whole(method: str) -> dict[str, bytes]:
        path = tmp_path_factory.mktemp(method) / "run"
        train(method, path)
        return result_of(path)

    return whole


# the same seed


@pytest.mark.parametrize("method", SETTINGS)
@pytest.mark.parametrize(
    "changes",
    [{}, {"workers": 4}, {"checkpoint_seconds": 0, "keep_checkpoints": 1, "workers": 3}],
    ids=str,
)
def test_the_same_seed_gives_the_same_bytes(
    method: str, changes: Mapping[str, Any], uninterrupted: Callable[[str], dict[str, bytes]], tmp_path: Path
) -> None:
    train(method, tmp_path / "run", **changes)
    files = result_of(tmp_path / "run")
    assert {"result.json", "metrics.jsonl", "embeddings/manifest.json", "embeddings/vectors.npy"} <= set(files)
    assert files == uninterrupted(method)


def test_the_bytes_depend_on_what_was_learned(uninterrupted: Callable[[str], dict[str, bytes]], tmp_path: Path) -> None:
    """Otherwise the comparisons here would compare nothing."""
    for method in LEARNERS:
        train(method, tmp_path / method, epochs=2)
        names = [name for name, data in result_of(tmp_path / method).items() if data != uninterrupted(method)[name]]
        assert {"metrics.jsonl", "embeddings/vectors.npy", "embeddings/behavior.0.item_vectors.npy"} <= set(names)
        metrics = [json.loads(line) for line in uninterrupted(method)[METRICS].splitlines()]
        assert [line["epoch"] for line in metrics] == [1, 2, 3, 4]
        assert metrics[-1]["loss"]["Books"] < metrics[0]["loss"]["Books"] - 0.005


# stopped inside the process


class Death(BaseException):
    """The end of a process, as far as the code under test can tell."""


class Stopper(Reporter):
    """Ends a training at its ``every``-th step, as a signal does or as death does, or once after every epoch."""

    def __init__(self, how: str, every: int) -> None:
        self.how, self.every = how, every
        self.steps = 0
        self.epochs: set[int] = set()

    def step(self, position: Position, *, n_steps: int, examples: int, loss: Callable[[], Mapping[str, float]]) -> None:
        self.steps += 1
        if self.how != "recorded" and self.steps % self.every == 0:
            if self.how == "died":
                raise Death
            os.kill(os.getpid(), signal.SIGTERM)

    def epoch(self, record: Mapping[str, Any], *, seconds: float, examples: int) -> None:
        if self.how == "recorded" and record["epoch"] not in self.epochs:  # the line is written, nothing saved yet
            self.epochs.add(record["epoch"])
            raise Death


def train_in_pieces(method: str, path: Path, how: str, every: int, **changes: Any) -> int:
    """Resume until it is finished; how many pieces that took."""
    stopper = Stopper(how, every)
    for pieces in range(1, 100):
        try:
            train(method, path, resume=pieces > 1, reporter=stopper, **changes)
            return pieces
        except (Interrupted, Death):
            assert not (path / "result.json").exists()
    raise AssertionError("never finished")


@pytest.mark.parametrize(
    ("method", "how", "every", "pieces"),
    [
        *((method, "signaled", every, 12 // every + 1) for method in LEARNERS for every in (1, 2, 3, 5)),
        *((method, "died", every, 11 // (every - 1) + 1) for method in LEARNERS for every in (2, 3, 5)),
        *((method, "recorded", 1, 5) for method in LEARNERS),
        ("popularity", "recorded", 1, 2),
    ],
)
def test_stopped_every_few_steps(
    method: str,
    how: str,
    every: int,
    pieces: int,
    uninterrupted: Callable[[str], dict[str, bytes]],
    tmp_path: Path,
) -> None:
    """12 steps in all; a signal loses none, death the one that was not saved yet."""
    seconds = FOREVER if how == "signaled" else 0
    n_pieces = train_in_pieces(method, tmp_path / "run", how, every, checkpoint_seconds=seconds)
    assert result_of(tmp_path / "run") == uninterrupted(method)
    assert n_pieces == pieces


def test_resumed_with_other_workers(uninterrupted: Callable[[str], dict[str, bytes]], tmp_path: Path) -> None:
    for workers in (4, 1, 3, 2):
        stopper = Stopper("signaled", 3)
        try:
            train("mcne", tmp_path / "run", resume=workers != 4, reporter=stopper, workers=workers)
        except Interrupted:
            continue
    train("mcne", tmp_path / "run", resume=True)
    assert result_of(tmp_path / "run") == uninterrupted("mcne")


def test_stopped_after_the_best_epoch(tmp_path: Path) -> None:
    """What was best, and how long ago, is part of what comes back."""
    chosen = {"epochs": 40, "patience": 3, "learning_rate": 0.2}

    def overfit(path: Path, *, resume: bool, reporter: Reporter) -> training.Run:
        settings = SETTINGS["bpr"] | chosen | {"checkpoint_seconds": FOREVER}
        one = training.Training("bpr", *network(), settings=settings, seed=1, device=CPU, reporter=reporter)
        return one.run(path, resume=resume)

    overfit(tmp_path / "whole", resume=False, reporter=Reporter())
    result = json.loads((tmp_path / "whole" / "result.json").read_bytes())
    assert result["epochs"] == result["best_epoch"] + 3 < 40
    stopper = Stopper("signaled", 4)
    resume = False
    while not (tmp_path / "pieces" / "result.json").exists():
        try:
            overfit(tmp_path / "pieces", resume=resume, reporter=stopper)
        except Interrupted:
            resume = True
    assert resume
    assert result_of(tmp_path / "pieces") == result_of(tmp_path / "whole")


def test_a_damaged_checkpoint_costs_steps_and_nothing_else(
    uninterrupted: Callable[[str], dict[str, bytes]], tmp_path: Path
) -> None:
    """The newest, then all of them: the training falls back, says so and writes its checkpoints again."""
    lines: list[str] = []

    class Speaking(Stopper):
        def say(self, line: str) -> None:
            lines.append(line)

    for damaged, resumed in ((1, "resumed after step 6, in epoch 3"), (2, None)):
        path = tmp_path / str(damaged)
        with pytest.raises(Death):
            train("bpr", path, reporter=Speaking("died", 8), checkpoint_seconds=0)
        kept = sorted((path / CHECKPOINTS).iterdir())
        assert [place.name for place in kept] == ["step-000000000006-000002", "step-000000000007-000002"]
        for place in kept[-damaged:]:
            file = place / "learned.users.npy"
            file.write_bytes(file.read_bytes()[:-1] + b"?")
        lines.clear()
        train("bpr", path, resume=True, reporter=Speaking("never", 10**9), checkpoint_seconds=0)
        assert ["passed over a checkpoint" in line and "sha256" in line for line in lines[:damaged]] == [True] * damaged
        assert lines[damaged:] == ([resumed] if resumed else [])
        assert result_of(path) == uninterrupted("bpr")


def test_a_diverged_training_stops_before_the_update_and_can_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mcne.models.bpr import BPR

    loss = BPR.loss
    learned = []

    def poisoned(self: BPR, batch: Any) -> Any:
        step_loss = loss(self, batch)
        if self.tables.steps == 7:
            learned.append({name: value.numpy().tobytes() for name, value in self.learned().items()})
            per_behavior = step_loss.per_behavior.clone()
            per_behavior[1] = torch.nan
            return replace(step_loss, total=step_loss.total * torch.nan, per_behavior=per_behavior)
        return step_loss

    monkeypatch.setattr(BPR, "loss", poisoned)
    for resume in (False, True):  # again and again at the same place
        with pytest.raises(DivergedError, match="the loss of Movies is not finite in epoch 3, step 2"):
            train("bpr", tmp_path / "run", resume=resume, checkpoint_seconds=0)
    assert learned[0] == learned[1]
    saved = tmp_path / "run" / CHECKPOINTS / "step-000000000007-000002" / "learned.users.npy"
    assert saved.read_bytes().endswith(learned[0]["users"])


# whole processes, killed


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})


LONG: dict[str, Any] = {"epochs": 30, "patience": 30, "checkpoint_seconds": 0.0}


@pytest.mark.slow
def test_killed_twenty_times_at_random_points_in_chains_of_up_to_five(tmp_path: Path) -> None:
    chance = random.Random(20)
    kills = 0
    chains = 0
    places = []
    expected, seconds = {}, {}
    for method in LEARNERS:
        train(method, tmp_path / method, **LONG)
        expected[method] = result_of(tmp_path / method)
        seconds[method] = _seconds_of_a_process(method, tmp_path / f"timed-{method}")
    while kills < 20:
        method = LEARNERS[chains % 2]
        path = tmp_path / f"chain-{chains}"
        chains += 1
        assert chains < 30, "the processes finish before they are killed"
        length = min(chance.randint(1, 5), 20 - kills)
        for _ in range(length):
            process = start("train", method, path)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(chance.uniform(0, 1.5 * seconds[method] / (length + 1)))
            process.kill()
            process.communicate()
            if process.returncode == 0:
                break
            assert process.returncode == -signal.SIGKILL
            kills += 1
            places.append(_last_checkpoint(path))
        process = start("train", method, path)
        process.communicate()
        assert process.returncode == 0
        assert result_of(path) == expected[method]
    assert kills == 20
    assert len(set(places)) > 8, places  # not all at the start


def _seconds_of_a_process(method: str, path: Path) -> float:
    process = start("train", method, path)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    began = time.monotonic()
    process.communicate()
    assert process.returncode == 0
    return time.monotonic() - began


def _last_checkpoint(path: Path) -> str:
    return max((place.name for place in (path / CHECKPOINTS).glob("step-*")), default="none")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "how", "stride"),
    [("bpr", "exits", 1), ("bpr", "raises", 2), ("mcne", "exits", 9), ("mcne", "raises", 14)],
)
def test_death_at_every_file_event_of_a_run(method: str, how: str, stride: int, tmp_path: Path) -> None:
    """From ``run.json`` to ``result.json``, with a checkpoint at every step and after every epoch.

    A process that exits leaves everything as it is; an exception passes through code that tidies up.
    """
    process = start("die", method, tmp_path, how, stride)
    output, _ = process.communicate()
    assert process.returncode == 0
    report = json.loads(output)
    assert (report["failures"], report["divergences"], report["lost"]) == ([], [], [])
    assert set(report["events"]) == {"open", "write", "os.fsync", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}
    assert report["deaths"] == -(-sum(report["events"].values()) // stride) > 50


# what those processes do

FINISHED, BROKEN, DIED = 0, 1, 9
SHORT: dict[str, Any] = {"epochs": 2, "checkpoint_seconds": 0.0, "batch_size": 2048}


class Fate:
    """Counts what is done to files, and ends the process, or the training, at the ``deadly``-th of these events."""

    def __init__(self, deadly: int, how: str) -> None:
        self.deadly, self.how = deadly, how
        self.events: Counter[str] = Counter()

    def install(self) -> None:
        sys.addaudithook(self._audit)
        opened = io.open

        def counted_fsync(_descriptor: int) -> None:  # what was written outlives the process without it
            if self._strikes("os.fsync"):
                self._end()

        def counted_open(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            made = opened(file, mode, *arguments, **named)
            return _Fragile(made, self) if set(mode) & set("wax+") else made

        os.fsync, io.open = counted_fsync, counted_open  # type: ignore[assignment]

    def write_half(self, file: Any, data: Any) -> None:
        """Die in the middle of a write, if it is its turn."""
        if self._strikes("write"):
            file.write(data[: len(data) // 2])
            file.flush()
            self._end()

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and (
            set(arguments[1]) & set("wax+") if arguments[1] else arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        )
        if (writes or event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir")) and self._strikes(event):
            self._end()

    def _strikes(self, event: str) -> bool:
        self.events[event] += 1
        return self.events.total() == self.deadly

    def _end(self) -> NoReturn:
        if self.how == "exits":
            os._exit(DIED)
        raise Death


class _Fragile:
    """A file whose writes count."""

    def __init__(self, file: Any, fate: Fate) -> None:
        self._file, self._fate = file, fate

    def write(self, data: Any) -> Any:
        self._fate.write_half(self._file, data)
        return self._file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _Fragile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def forked(work: Callable[[Callable[[Any], None]], None]) -> tuple[int, list[Any]]:
    """Run in a process of its own: how it ended, and what it told on its way."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        code = BROKEN
        try:
            work(lambda message: _write_whole(writing, json.dumps(message).encode() + b"\n"))
            code = FINISHED
        except Death:
            code = DIED
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    with open(reading, "rb") as pipe:  # noqa: PTH123 - a descriptor
        messages = [json.loads(line) for line in pipe]
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), messages


def _write_whole(descriptor: int, data: bytes) -> None:
    assert os.write(descriptor, data) == len(data)


def attempt(method: str, path: Path, fate: Fate, tell: Callable[[Any], None]) -> None:
    """Train or resume, telling of every checkpoint that is safe and of the one that was resumed from."""
    saved, resumed = RunJournal.checkpoint, RunJournal.resume

    def checkpoint(self: RunJournal, position: Mapping[str, Any], state: Any) -> None:
        saved(self, position, state)
        tell(["saved", position["steps_done"], position["records"]])

    def resume(self: RunJournal, device: torch.device) -> Any:
        newest = resumed(self, device)
        tell(["resumed", *((newest[0]["steps_done"], newest[0]["records"]) if newest else (0, 0))])
        return newest

    RunJournal.checkpoint, RunJournal.resume = checkpoint, resume  # type: ignore[method-assign]
    fate.install()
    train(method, path, resume=True, behaviors=FEWEST[method], **SHORT)
    tell(["events", fate.events])


FEWEST = {"bpr": 1, "mcne": 2}
"""Behaviors that a method needs."""


def die_everywhere(method: str, directory: Path, how: str, stride: int) -> dict[str, Any]:
    """Die at every ``stride``-th file event of a run, resume each time, and compare."""
    warm_up(method, behaviors=FEWEST[method])
    code, messages = forked(lambda tell: attempt(method, directory / "whole", Fate(0, how), tell))
    assert code == FINISHED
    (events,) = (each[1] for each in messages if each[0] == "events")
    expected = result_of(directory / "whole")
    report: dict[str, Any] = {"events": events, "deaths": 0, "failures": [], "divergences": [], "lost": []}
    for deadly in range(1, sum(events.values()) + 1, stride):
        path = directory / str(deadly)
        code, before = forked(lambda tell, n=deadly, path=path: attempt(method, path, Fate(n, how), tell))  # type: ignore[misc]
        report["deaths"] += code == DIED
        code, after = forked(lambda tell, path=path: attempt(method, path, Fate(0, how), tell))  # type: ignore[misc]
        if code != FINISHED:
            report["failures"].append(deadly)
        elif result_of(path) != expected:
            report["divergences"].append(deadly)
        safe = max((each[1:] for each in before if each[0] == "saved"), default=[0, 0])
        if not (path / "result.json").exists() or (after and after[0][0] == "resumed" and after[0][1:] < safe):
            report["lost"].append(deadly)
        shutil.rmtree(path, ignore_errors=True)
    return report


def warm_up(method: str, **changes: Any) -> None:
    """Make the network, and have PyTorch import what it imports late."""
    with TemporaryDirectory() as aside:
        train(method, Path(aside) / "run", epochs=1, **changes)


def main(what: str, method: str, path: Path, *more: str) -> None:
    """``train METHOD PATH`` says "ready" and trains or resumes; ``die METHOD PATH HOW STRIDE`` dies at file events."""
    torch.set_num_threads(1)
    os.fsync = lambda _descriptor: None  # type: ignore[assignment]  # files outlive a killed process without it, and disks take their time
    if what == "train":
        warm_up(method)
        print("ready", flush=True)
        train(method, path, resume=True, **LONG)
    else:
        sys.dont_write_bytecode = True
        print(json.dumps(die_everywhere(method, path, more[0], int(more[1]))))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), *sys.argv[4:])
