"""Asked to stop, everything ends soon, and what was trained so far is not lost."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.errors import refused
from tests.studies.small_plan import (
    die,
    interrupt,
    lose_the_gpu_at,
    note_the_gpu,
    nothing,
    opened,
    refuse,
    refuse_at,
    sleep_on,
)

from mcne.cli.main import main
from mcne.data.dataset import SocialDataset
from mcne.data.split import random_split
from mcne.errors import CaptureError, DataError, Interrupted, UsageError
from mcne.files import is_held
from mcne.studies import workers
from mcne.studies.engine import Task, run_missing
from mcne.training import Mode, Training

LONG = """
repetitions = 6
reference = "bpr"
[training]
epochs = 1000000
patience = 1000000
[methods.bpr]
"""


@pytest.fixture
def own_signals() -> Iterator[None]:
    """The command line takes over signals, which belong to the other tests afterwards."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


# processes


def test_an_interruption_passes_between_processes() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        with pytest.raises(Interrupted, match=r"^stopped by SIGTERM$") as stopped:
            pool.submit(interrupt).result()
        assert stopped.value.exit_code == 143
        pool.submit(nothing).result()  # the pool is not broken


@pytest.mark.parametrize(
    ("named", "n_gpus", "seen"),
    [(None, 2, ["0", "0", "1"]), ("5,2", 2, ["2", "5", "5"]), ("3", 1, ["3", "3", "3"]), (None, 0, ["all"] * 3)],
)
def test_processes_take_gpus_in_turns(
    named: str | None, n_gpus: int, seen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if named is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    tasks = {k: partial(note_the_gpu, tmp_path / f"{k}", others=2) for k in range(3)}
    assert dict(workers.outcomes(tasks, jobs=3)) == dict.fromkeys(tasks)
    assert sorted(path.read_text() for path in tmp_path.iterdir()) == seen


def test_every_task_is_told_as_it_ends() -> None:
    outcomes = dict(workers.outcomes({"a": nothing, "b": refuse, "c": nothing, "d": nothing}, jobs=2))
    assert (outcomes.pop("b").__class__, outcomes) == (UsageError, {"a": None, "c": None, "d": None})
    assert list(workers.outcomes({}, jobs=2)) == []


def test_a_process_that_dies_is_told() -> None:
    with refused(DataError, value=-9):
        list(workers.outcomes({"a": die}, jobs=2))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_process_that_has_lost_its_gpu_does_nothing_else(jobs: int, tmp_path: Path) -> None:
    """Whatever it trained then would be wrong, and look as if it were not."""
    works: list[Callable[..., Any]] = [
        partial(refuse_at if k else lose_the_gpu_at, tmp_path / f"{k}") for k in range(9)
    ]
    tasks = [Task(tmp_path / f"cell-{k}", work) for k, work in enumerate(works)]
    with pytest.raises(CaptureError, match="could not be captured"):
        run_missing(tasks, "cells", device="cpu", jobs=jobs, say=print, about=str)
    lost, *others = [file.read_text() for k in range(9) if (file := tmp_path / f"{k}").is_file()]
    assert lost not in others
    assert jobs > 1 or not others


def test_a_process_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "PATIENCE", 0.2)
    outcomes = workers.outcomes({"a": nothing, "b": sleep_on, "c": sleep_on, "d": nothing}, jobs=2)
    assert next(outcomes) == ("a", None)
    time.sleep(1)  # until the sleepers do not hear
    signal.raise_signal(signal.SIGTERM)
    started = time.monotonic()
    with pytest.raises(
        Interrupted, match=r"stopped by SIGTERM; finished cells are kept; run the same command again to continue"
    ):
        next(outcomes)
    assert time.monotonic() - started < 10


def test_processes_end_with_whoever_takes_their_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "PATIENCE", 0.2)
    outcomes = workers.outcomes({"a": nothing, "b": sleep_on}, jobs=2)
    next(outcomes)
    before = signal.getsignal(signal.SIGTERM)
    outcomes.close()
    assert signal.getsignal(signal.SIGTERM) != before
    assert not get_context("spawn").active_children()


# the command


def commanded(plan: Path, data: Path, out: Path, *, jobs: int) -> subprocess.Popen[str]:
    """A comparison in a process group of its own, two trainings of it well under way."""
    command = [sys.executable, "-m", "mcne", "compare", plan, "--data", data, "--out", out, "--jobs", jobs]
    process = subprocess.Popen(
        [*map(str, command), "--device", "cpu"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while len(list(out.glob("cells/*/run/metrics.jsonl"))) < jobs:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return process


@pytest.mark.parametrize(
    ("number", "to_all", "jobs"),
    [
        (signal.SIGTERM, False, 2),
        (signal.SIGINT, True, 2),
        (signal.SIGTERM, False, 1),
        pytest.param(signal.SIGTERM, True, 2, marks=pytest.mark.slow),
    ],
)
def test_a_comparison_ends_soon_and_goes_on(
    number: signal.Signals, to_all: bool, jobs: int, plan: Path, data: Path, tmp_path: Path
) -> None:
    """A signal to the process alone, or to all of its group as a terminal or a batch system sends it."""
    plan.write_text(LONG)
    out = tmp_path / "out"
    process = commanded(plan, data, out, jobs=jobs)
    (os.killpg if to_all else os.kill)(process.pid, number)
    started = time.monotonic()
    printed, complaint = process.communicate(timeout=60)
    assert time.monotonic() - started < 15
    assert process.returncode == 128 + number
    assert re.fullmatch(rf"stopped by {number.name}; .*run the same command again to continue\n", complaint), complaint
    begun = list((out / "cells").iterdir())
    assert len(begun) == jobs  # none was begun after the signal
    assert all(list((cell / "run" / "checkpoints").iterdir()) for cell in begun)
    assert [line for line in printed.splitlines() if line.startswith("1/")] == []
    assert not any(is_held(cell) for cell in begun)  # nobody is left who trains


# runs


@pytest.mark.parametrize("mode", ["joint", "separate"])
def test_a_signal_while_a_result_is_kept_is_not_lost(
    mode: Mode, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is kept, and then the training stops: in mode separate before the next behavior."""
    dataset = SocialDataset.load(data)
    training = Training(
        "bpr",
        dataset,
        random_split(dataset, seed=0),
        settings={"epochs": 1, "width": 4},
        device=torch.device("cpu"),
        mode=mode,
    )
    save = Training._save
    saved: list[Path] = []

    def signaled(self: Training, path: Path, *args: Any) -> None:
        saved.append(path)
        if len(saved) == 1:
            signal.raise_signal(signal.SIGTERM)
        save(self, path, *args)

    monkeypatch.setattr(Training, "_save", signaled)
    with pytest.raises(Interrupted, match="stopped by SIGTERM when the training was finished"):
        training.run(tmp_path / "run", resume=True)
    assert len(saved) == 1
    assert (saved[0] / "result.json").is_file()
    training.run(tmp_path / "run", resume=True)
    assert len(saved) == (1 if mode == "joint" else 2)
    assert (tmp_path / "run" / "result.json").is_file()


@pytest.mark.usefixtures("own_signals")
def test_the_command(
    plan: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(*args: object) -> int:
        monkeypatch.setattr("sys.argv", ["mcne", "compare", *map(str, args)])
        with pytest.raises(SystemExit) as left:
            main()
        return int(left.value.code or 0)

    args = (plan, "--data", data, "--out", tmp_path / "out", "--only", "popularity", "--jobs", 1)
    assert call(*args, "--table") == 4
    assert "nothing is finished yet; run without --table" in capsys.readouterr().err
    assert call(*args) == 0
    printed = capsys.readouterr().out
    assert "popularity: 1 of at most 4 configurations" in printed
    assert "bpr:" not in printed
    assert "table.md" in printed
    assert call(*args, "--table") == 0
    assert call(tmp_path / "no.toml", *args[1:]) == 2
    assert opened(plan, data, tmp_path / "out").choose().keys() == {"popularity"}
