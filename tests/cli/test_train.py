"""``mcne train`` and ``mcne demo``: what they print and leave behind, every mistake, every way to be stopped."""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from rich.console import Console
from tests.cli.in_process import Result, Run
from tests.small_training import saved, sixty_users, train_small

from mcne import files
from mcne.cli import demo as demo_command
from mcne.cli.options import METHODS_HELP
from mcne.cli.progress import training_progress
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.errors import DataError
from mcne.kernels.compilation import CompileClock
from mcne.models.contract import TrainingData
from mcne.models.registry import METHODS
from mcne.training import Run as FinishedRun
from mcne.training import trainer
from mcne.training.journal import Position
from mcne.training.run import CHECKPOINTS

TINY = ("widths=[8,8,8]", "neighbor_samples=[3,3]", "attention_width=4", "batch_size=64", "epochs=2")
TINY_ARGS = [part for setting in TINY for part in ("--set", setting)]
SLOW_ARGS = [*TINY_ARGS, "--set", "batch_size=4", "--set", "epochs=6"]  # seconds, not moments


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 users with a taste each in two behaviors, and one without links."""
    path = tmp_path_factory.mktemp("data") / "small"
    saved(sixty_users(users=pa.table({"user_id": range(60), "age": range(20, 80)})), path)
    return path


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "data"))


@pytest.fixture
def train(run: Run, data: Path, tmp_path: Path) -> Run:
    """``mcne train METHOD`` on the small data into ``tmp_path/run``."""

    def command(method: str, *args: object) -> Result:
        return run("train", method, "--data", data, "--out", tmp_path / "run", *args)

    return command


def outside(*args: object) -> subprocess.Popen[str]:
    """The command line as a process of its own."""
    command = [sys.executable, "-m", "mcne", *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@contextmanager
def training_outside(data: Path, path: Path, *args: object) -> Iterator[subprocess.Popen[str]]:
    """A training that has done its first epoch and takes some seconds for the others."""
    process = outside("train", "mcne", "--data", data, "--out", path, *args)
    try:
        deadline = time.monotonic() + 60
        while not (path / "metrics.jsonl").is_file():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.communicate()


def kept_in(path: Path) -> dict[str, bytes]:
    """Every byte that a run promises to be the same."""
    written = [path / "metrics.jsonl", path / "result.json", *sorted((path / "embeddings").iterdir())]
    return {str(file.relative_to(path)): file.read_bytes() for file in written}


def fill(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Let the disk be full when a file is flushed to it."""
    flush = os.fsync

    def fsync(descriptor: int) -> None:
        for place in (path, files.aside_of(path)):
            if place.exists() and os.path.samestat(os.fstat(descriptor), place.stat()):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)


def fails(result: Result, code: int, *says: str) -> None:
    """One line that says all of this, and no traceback."""
    assert result.code == code, result
    lines = result.err.splitlines()
    assert len(lines) == 1, result
    for part in says:
        assert part in lines[0], result


# what it does


SMALL = {"epochs": "2", "width": "8", "widths": "[8, 8, 8]", "neighbor_samples": "[3, 3]", "attention_width": "4"}
WITHOUT_VECTORS = {"userknn", "itemknn", "ease", "nfm"}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_and_says_how_it_ended(method: str, train: Run, run: Run, tmp_path: Path) -> None:
    known = {"epochs", *METHODS[method].config.__dataclass_fields__}
    settings = [part for name, value in SMALL.items() if name in known for part in ("--set", f"{name}={value}")]
    result = train(method, *settings)
    assert (result.code, result.err) == (0, ""), result
    lines = result.out.splitlines()
    assert lines[0] == f"{method} on small: 60 users, split random-0, seed 0, cpu"
    assert "validation NDCG@5 0." in lines[-2]
    kept = FinishedRun.open(tmp_path / "run")
    assert lines[-1] == f"saved {tmp_path / 'run'} {kept.fingerprint}"
    assert kept.spec.method == method
    assert kept.data()[0].name == "small"
    assert run("evaluate", tmp_path / "run", "--json").code == 0
    asked = run("recommend", tmp_path / "run", "--user", 0, "--behavior", "read")
    assert asked.code == 0
    if method in WITHOUT_VECTORS:
        fails(run("similar", tmp_path / "run", "--user", 0), 2, f"{method!r} has no vectors, so it can only recommend")
    else:
        assert kept.embeddings.method == method


def test_what_a_run_without_vectors_evaluates_to_is_what_it_had_learned(train: Run, tmp_path: Path) -> None:
    """The method is made again from its arrays, here for each behavior apart."""
    assert train("ease", "--separate").code == 0
    kept = FinishedRun.open(tmp_path / "run")
    dataset, split = kept.data()
    one = dataset.only(1)
    again = METHODS["ease"].make(
        TrainingData.of(one, split.only(1, one)), METHODS["ease"].config(), seed=0, device=torch.device("cpu")
    )
    users = np.arange(60)
    assert kept.scorer(dataset, split).scores(1, users).tobytes() == again.scorer().scores(0, users).tobytes()
    assert kept.fingerprint == FinishedRun.open(tmp_path / "run").fingerprint


def test_the_help_names_every_method() -> None:
    assert re.findall(r"[\w-]+", METHODS_HELP.replace(" or ", " ")) == list(METHODS)


def test_a_line_per_epoch_where_there_is_no_terminal(train: Run, tmp_path: Path) -> None:
    lines = train("mcne", *TINY_ARGS).out.splitlines()
    epochs = [line for line in lines if line.startswith("epoch ")]
    assert [line.split(",")[0] for line in epochs] == ["epoch 1/2", "epoch 2/2"]
    assert re.search(
        r"read 0\.\d+, watch 0\.\d+, validation ndcg@5 0\.\d+, mask density [\d./]+, \d+ flips, [\d,]+ ex", epochs[0]
    )
    kept = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in kept] == [1, 2]


def test_settings_of_a_file_and_of_the_command_line(train: Run, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("learning_rate = 0.5\nl2 = 1\nwidths = [8, 8, 8]\nepochs = 1\n")
    args = ("neighbor_samples=[3,3]", "learning_rate=0.1", "learning_rate=0.01")
    result = train("mcne", "--config", tmp_path / "s.toml", *(part for arg in args for part in ("--set", arg)))
    assert result.code == 0, result
    kept = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (kept["config"]["learning_rate"], kept["config"]["l2"], kept["config"]["widths"]) == (0.01, 1.0, [8, 8, 8])
    assert (kept["schedule"]["epochs"], kept["seed"]) == (1, 0)


def test_a_random_split_is_made_on_demand(train: Run, data: Path, tmp_path: Path) -> None:
    assert train("popularity", "--split", "random-7").code == 0
    assert (data / "splits" / "random-7" / "manifest.json").is_file()
    assert FinishedRun.open(tmp_path / "run").data()[1].settings["seed"] == 7


def test_the_run_finds_its_data_from_any_directory(
    run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data.parent)
    assert run("train", "popularity", "--data", data.name, "--out", "run").code == 0
    monkeypatch.chdir("/")
    assert run("evaluate", tmp_path / "run", "--json").code == 0


def test_the_seed_decides(train: Run, tmp_path: Path) -> None:
    prints = []
    for seed in (0, 0, 1):
        assert train("mcne", *TINY_ARGS, "--seed", seed).code == 0
        prints.append(FinishedRun.open(tmp_path / "run").embeddings.fingerprint)
        shutil.rmtree(tmp_path / "run")
    assert prints[0] == prints[1] != prints[2]


def test_without_validation_the_last_epoch_is_kept(run: Run, train: Run, data: Path, tmp_path: Path) -> None:
    assert run("data", "split", data, "--name", "two", "--ratios", "80,0,20").code == 0
    result = train("mcne", *TINY_ARGS, "--split", "two")
    assert result.code == 0, result
    assert "no interactions to validate on, so the last of 2 epochs is kept" in result.out
    assert json.loads((tmp_path / "run" / "result.json").read_text())["best_epoch"] == 2


# runs that are there already


def test_an_existing_run_is_never_replaced(train: Run, tmp_path: Path) -> None:
    assert train("mcne", *TINY_ARGS).code == 0
    fails(train("mcne", *TINY_ARGS), 2, "already contains a run", "--resume", str(tmp_path / "run"))


def test_a_finished_run_is_reported(train: Run) -> None:
    first = train("mcne", *TINY_ARGS)
    again = train("mcne", *TINY_ARGS, "--resume")
    assert (again.code, again.err) == (0, "")
    assert "finished already" in again.out
    assert again.out.splitlines()[-2:] == first.out.splitlines()[-2:]


def test_nothing_to_resume(train: Run) -> None:
    result = train("mcne", *TINY_ARGS, "--resume")
    assert result.code == 0
    assert "nothing to resume there, so the training starts anew" in result.out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--set", "l2=0.5"], "l2 there 0.001, here 0.5"),
        (["--seed", "1"], "seed there 0, here 1"),
        (["--split", "random-1"], "split there "),
        (["--set", "epochs=3"], "(epochs there 2, here 3)"),
        (["--set", "patience=3"], "(patience there 10, here 3)"),
        (["--set", "evaluate_every=2"], "(evaluate_every there 1, here 2)"),
        (["--set", "epochs=3", "--set", "l2=0.5"], "(l2 there 0.001, here 0.5, epochs there 2, here 3)"),
    ],
)
def test_another_run_is_refused(args: list[str], says: str, train: Run, tmp_path: Path) -> None:
    assert train("mcne", *TINY_ARGS).code == 0
    before = kept_in(tmp_path / "run")
    fails(train("mcne", *TINY_ARGS, *args, "--resume"), 5, "contains another run", says)
    assert kept_in(tmp_path / "run") == before
    (tmp_path / "run" / "result.json").unlink()  # not finished
    fails(
        train("mcne", *TINY_ARGS, *args, "--resume"),
        5,
        "contains another run",
        says,
        "use the arguments that it was started with",
    )


def test_what_may_change_on_resume(train: Run, tmp_path: Path) -> None:
    assert train("mcne", *TINY_ARGS, "--set", "checkpoint_seconds=0").code == 0
    before = kept_in(tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    shutil.rmtree(tmp_path / "run" / "embeddings")
    shutil.rmtree(max((tmp_path / "run" / "checkpoints").iterdir()))
    free = ("workers=3", "checkpoint_seconds=5", "keep_checkpoints=7")
    result = train("mcne", *TINY_ARGS, *(part for setting in free for part in ("--set", setting)), "--resume")
    assert result.code == 0, result
    assert "resumed after step" in result.out
    assert kept_in(tmp_path / "run") == before


def test_settings_need_not_be_said_again(train: Run, tmp_path: Path) -> None:
    assert train("mcne", *TINY_ARGS, "--set", "checkpoint_seconds=0").code == 0
    before = kept_in(tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    shutil.rmtree(tmp_path / "run" / "embeddings")
    shutil.rmtree(max((tmp_path / "run" / "checkpoints").iterdir()))
    result = train("mcne", "--resume")
    assert result.code == 0, result
    assert "resumed after step" in result.out
    assert kept_in(tmp_path / "run") == before


def test_the_same_bytes_on_a_gpu_are_asked_for_once(
    train: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[bool]()

    @contextmanager
    def one_order(device: torch.device, *, is_asked: bool) -> Iterator[None]:
        asked.append(is_asked)
        yield

    monkeypatch.setattr(trainer, "one_order", one_order)
    assert train("mcne", *TINY_ARGS, "--set", "deterministic=true", "--set", "checkpoint_seconds=0").code == 0
    (tmp_path / "run" / "result.json").unlink()
    shutil.rmtree(tmp_path / "run" / "embeddings")
    assert train("mcne", "--resume").code == 0
    assert asked == [True, True]
    other = train("mcne", *TINY_ARGS, "--set", "deterministic=false", "--resume")
    fails(other, 5, "contains another run", "deterministic there True, here None")


def test_a_run_of_another_method_is_refused(train: Run) -> None:
    assert train("popularity").code == 0
    fails(train("mcne", *TINY_ARGS, "--resume"), 5, "(method there popularity, here mcne)")


def test_something_else_is_refused(train: Run, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "diary.txt").write_text("mine")
    fails(train("popularity"), 2, "run: is not empty and is not a run")
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").write_text("a file")
    fails(train("popularity"), 2, "run: is a file; choose another --out")


def test_a_start_that_was_killed_is_started_again(train: Run, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".run.json.partial").write_text('{"meth')
    assert train("popularity", "--resume").code == 0


def test_two_trainings_never_share_a_directory(train: Run, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    first = os.open(tmp_path / "run", os.O_RDONLY)
    try:
        fcntl.flock(first, fcntl.LOCK_EX)
        fails(train("mcne", *TINY_ARGS), 2, "another process is training there")
    finally:
        os.close(first)
    assert not any((tmp_path / "run").iterdir())
    assert train("mcne", *TINY_ARGS).code == 0


def test_of_two_first_starts_one_wins(train: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second comes when the first has looked at the directory and not yet written there."""
    assert train("mcne", *TINY_ARGS).code == 0
    alone = kept_in(tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
    made = TrainingData.of
    others = ["--seed"]
    seconds: list[Result] = []

    def of(*parts: Any) -> TrainingData:
        if others:
            seconds.append(train("mcne", *TINY_ARGS, others.pop(), 1))
        return made(*parts)

    monkeypatch.setattr(TrainingData, "of", of)
    first = train("mcne", *TINY_ARGS)
    fails(seconds[0], 2, "another process is training there")
    assert first.code == 0, first
    assert FinishedRun.open(tmp_path / "run").spec.seed == 0
    assert kept_in(tmp_path / "run") == alone


def test_a_second_process_is_refused_and_spoils_nothing(data: Path, train: Run, tmp_path: Path) -> None:
    path = tmp_path / "run"
    with training_outside(data, path, *SLOW_ARGS) as process:
        process.send_signal(signal.SIGSTOP)  # so that it cannot end before the others come
        for args in (["--resume"], ["--seed", 1], ["--set", "epochs=1", "--resume"]):
            fails(train("mcne", *SLOW_ARGS, *args), 2, str(path), "another process is training there")
        process.send_signal(signal.SIGCONT)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
    shared = kept_in(path)
    shutil.rmtree(path)
    assert train("mcne", *SLOW_ARGS).code == 0
    assert kept_in(path) == shared


def test_directories_made_for_nothing_vanish(
    run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(*_parts: Any) -> TrainingData:
        raise DataError("nothing to train on")

    monkeypatch.setattr(TrainingData, "of", of)
    (tmp_path / "there").mkdir()
    for out in ("there", "not/yet/there"):
        fails(run("train", "mcne", "--data", data, "--out", tmp_path / out), 4, "nothing to train on")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "there"]
    assert not any((tmp_path / "there").iterdir())


def test_a_damaged_run_is_named(train: Run, tmp_path: Path) -> None:
    assert train("popularity").code == 0
    untrained = json.loads((tmp_path / "run" / "run.json").read_text())
    del untrained["schedule"]
    for text in ("{", "[]", '{"method": "popularity"}', json.dumps(untrained)):
        (tmp_path / "run" / "run.json").write_text(text)
        fails(train("popularity", "--resume"), 5, "run.json: is damaged", "train again")


# mistakes


@pytest.mark.parametrize(
    ("method", "args", "says"),
    [
        ("mcn", [], "unknown method 'mcn'; did you mean 'mcne'?"),
        ("mcne", ["--set", "widhts=[8]"], "unknown setting 'widhts'; did you mean 'widths'?"),
        ("mcne", ["--set", "epochs=many"], "setting epochs: 'many' is not a whole number"),
        ("mcne", ["--set", "epochs=1.5"], "setting epochs: 1.5 is not a whole number"),
        ("mcne", ["--set", "epochs"], "--set epochs: "),
        ("mcne", ["--set", "l2_form=score"], "setting l2_form: unknown value 'score'; did you mean 'scored'?"),
        ("mcne", ["--set", "epochs=0"], "setting epochs: 0 is out of range"),
        ("mcne", ["--set", "widths=[8,-1,8]"], "setting widths: -1 is out of range"),
        ("mcne", ["--set", "widths=[8]"], "setting widths: "),
        ("mcne", ["--set", "learning_rate=0"], "setting learning_rate: 0.0 is out of range"),
        ("mcne", ["--set", "learning_rate=1e300"], "setting learning_rate: 1e+300 is out of range"),
        ("mcne", ["--set", "l2=nan"], "setting l2: nan is out of range"),
        ("popularity", ["--set", "widths=[8]"], "unknown setting 'widths'"),
        ("mcne", ["--split", "radnom-0"], "unknown split 'radnom-0'; did you mean 'random-0'?"),
        ("mcne", ["--split", "../x"], "unknown split '../x'"),
        ("mcne", ["--split", ""], "unknown split ''"),
        ("mcne", ["--config", "nowhere.toml"], "nowhere.toml: no such file"),
    ],
)
def test_wrong_usage_leaves_nothing(method: str, args: list[str], says: str, train: Run, tmp_path: Path) -> None:
    fails(train(method, *args), 2, says)
    assert not (tmp_path / "run").exists()


def test_a_bad_toml_file(train: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("epochs = 1\nl2 = = 3\n")
    fails(train("mcne", "--config", tmp_path / "bad.toml"), 2, "bad.toml", "line 2", "TOML")
    (tmp_path / "nested.toml").write_text("[training]\nepochs = 1\n")
    fails(train("mcne", "--config", tmp_path / "nested.toml"), 2, "unknown setting 'training'")


def test_missing_data(run: Run, tmp_path: Path) -> None:
    result = run("train", "popularity", "--data", tmp_path / "nowhere", "--out", tmp_path / "run")
    fails(result, 4, "nowhere: no such directory; prepare a dataset")
    assert not (tmp_path / "run").exists()


def test_a_gpu_where_there_is_none(train: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    fails(train("mcne", "--device", "cuda"), 2, "device cuda: ")
    assert not (tmp_path / "run").exists()
    assert train("mcne", *TINY_ARGS, "--device", "auto").code == 0


def test_tensorboard_where_it_is_not_installed(train: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    fails(train("mcne", *TINY_ARGS, "--set", "tensorboard=true"), 2, "needs the tensorboard package; run pip install")
    assert not (tmp_path / "run").exists()


def test_a_diverged_training_names_step_and_behavior(train: Run) -> None:
    result = train("mcne", *TINY_ARGS, "--set", "learning_rate=1e30")
    fails(result, 3, "the loss of read, watch is not finite in epoch 1, step 2", "lower learning_rate")


@pytest.mark.parametrize("split", ["random-0", "two"])
def test_a_training_that_diverges_in_its_last_step(split: str, run: Run, train: Run, data: Path) -> None:
    """No loss sees it; with validation the scores do, and without the embeddings refuse it."""
    run("data", "split", data, "--name", "two", "--ratios", "80,0,20")
    args = ("--set", "learning_rate=1e18", "--set", "batch_size=100000", "--set", "epochs=1", "--split", split)
    fails(train("mcne", *TINY_ARGS, *args), 3, "the training diverged", "lower learning_rate", "not ")


# being stopped


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_leaves_a_checkpoint_and_resume_equals_never_stopped(
    number: signal.Signals, code: int, data: Path, train: Run, tmp_path: Path
) -> None:
    path = tmp_path / "run"
    with training_outside(data, path, *SLOW_ARGS) as process:
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert process.returncode == code, err
    assert re.fullmatch(rf"stopped by {number.name} after step [\d,]+, with a checkpoint; --resume continues it\n", err)
    assert not (path / "result.json").exists()
    assert len(list((path / "checkpoints").iterdir())) == 1

    resumed = train("mcne", *SLOW_ARGS, "--resume")
    assert resumed.code == 0, resumed
    assert "resumed after step" in resumed.out
    path.rename(tmp_path / "resumed")
    assert train("mcne", *SLOW_ARGS).code == 0
    assert kept_in(path) == kept_in(tmp_path / "resumed")


def test_a_full_disk_keeps_the_previous_checkpoint(train: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    free = iter([10**12] * 3)
    args = [*TINY_ARGS, "--set", "checkpoint_seconds=0"]
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=next(free, 10)))
        result = train("mcne", *args)
    fails(result, 6, "No space left on device", "bytes needed, 10 free", "missing")
    kept = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert [name.split("-")[1].lstrip("0") for name in kept] == ["2", "3"]
    resumed = train("mcne", *args, "--resume")
    assert resumed.code == 0
    assert "resumed after step 3" in resumed.out


@pytest.mark.parametrize("name", ["run.json", "metrics.jsonl", "times.jsonl", "result.json"])
def test_a_full_disk_under_a_file_of_the_run(
    name: str, train: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"
    assert train("mcne", *TINY_ARGS).code == 0
    whole = kept_in(path)
    shutil.rmtree(path)
    says = f"{path / name}: No space left on device; free some disk space, then run again with --resume"
    for resume in ([], ["--resume"]):  # with the metrics the second finds some that it cannot cut
        with monkeypatch.context() as patch:
            fill(patch, path / name)
            fails(train("mcne", *TINY_ARGS, *resume), 6, says)
        assert not (path / "result.json").exists()
    resumed = train("mcne", *TINY_ARGS, "--resume")
    assert resumed.code == 0, resumed
    assert kept_in(path) == whole
    assert len((path / "times.jsonl").read_text().splitlines()) >= 2


def test_a_damaged_checkpoint_is_passed_over(train: Run, tmp_path: Path) -> None:
    args = [*TINY_ARGS, "--set", "checkpoint_seconds=0"]
    assert train("mcne", *args).code == 0
    wanted = FinishedRun.open(tmp_path / "run").embeddings.fingerprint
    shutil.rmtree(tmp_path / "run" / "embeddings")
    (tmp_path / "run" / "result.json").unlink()
    newest = max((tmp_path / "run" / "checkpoints").iterdir())
    damaged = bytearray((newest / "learned.users.npy").read_bytes())
    damaged[-1] ^= 1
    (newest / "learned.users.npy").write_bytes(damaged)
    result = train("mcne", *args, "--resume")
    assert result.code == 0, result
    assert "passed over a checkpoint" in result.out
    assert FinishedRun.open(tmp_path / "run").embeddings.fingerprint == wanted


def test_a_checkpoint_of_another_run_is_refused(train: Run, tmp_path: Path) -> None:
    args = [*TINY_ARGS, "--set", "checkpoint_seconds=0"]
    assert train("mcne", *args).code == 0
    (tmp_path / "run").rename(tmp_path / "other")
    assert train("mcne", *args, "--seed", 1).code == 0
    (tmp_path / "run" / "result.json").unlink()
    shutil.rmtree(tmp_path / "run" / CHECKPOINTS)
    shutil.copytree(tmp_path / "other" / CHECKPOINTS, tmp_path / "run" / CHECKPOINTS)
    fails(train("mcne", *args, "--seed", 1, "--resume"), 5, "belongs to a run with other data")


# the terminal


def test_live_progress_shows_everything_within_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcne.cli.progress.REFRESH_SECONDS", 0.0)
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=80, height=30, color_system=None)
    position = Position(epoch=0, step=1, steps_done=1)
    record = {
        "epoch": 1,
        "loss": {"[b]read": 0.5, "watch": 0.6},
        "validation": {"mean": {"ndcg@5": 0.25}},
        "mask_density_0": 0.5,
        "mask_density_1": 0.25,
        "mask_flips": 1234.0,
    }
    with training_progress("mcne", 3, console=console) as reporter:
        reporter.say("[b]hello")
        reporter.step(position, n_steps=4, examples=100, loss=lambda: {"[b]read": 0.5, "watch": 0.6})
        reporter.epoch(record, seconds=1.0, examples=400)
        position = Position(epoch=1, step=1, steps_done=5, best_metric=0.25, best_epoch=1)
        reporter.step(position, n_steps=4, examples=100, loss=lambda: {"[b]read": 0.4, "watch": 0.3})
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written.getvalue())
    frames = [[line.rstrip() for line in frame.splitlines()] for frame in plain.split("mcne  ")]
    *_, live = (frame for frame in frames if "to go" in frame[-1])
    assert "[b]hello" in plain
    assert live[0].startswith("━")
    assert live[0].endswith("epoch 2 of 3, step 1 of 4")
    assert live[1:5] == [
        "  loss        [b]read 0.4000  watch 0.3000",
        "  validation  NDCG@5 0.2500",
        "  best        NDCG@5 0.2500 in epoch 1",
        "  masks       density 0.50 / 0.25 by level, 1,234 flips so far",
    ]
    assert re.fullmatch(r"  speed       [\d,]+ examples/s", live[5])
    assert re.fullmatch(r"  to go       0:00:0\d at most", live[6])
    assert frames[-1][1:] == live[1:6]
    assert max(map(len, plain.splitlines())) <= 80


def test_live_speed_leaves_out_what_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter((1000.0, 1009.5, 1010.0))
    compiling = CompileClock()
    monkeypatch.setattr("mcne.cli.progress.time", SimpleNamespace(perf_counter=lambda: next(now)))
    monkeypatch.setattr("mcne.cli.progress.CLOCK", compiling)
    monkeypatch.setattr("mcne.kernels.compilation.time", SimpleNamespace(perf_counter=lambda: 1009.0))
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=80, height=30, color_system=None)
    with training_progress("mcne", 1, console=console) as reporter:
        compiling.add(8)
        reporter.step(Position(step=1, steps_done=1), n_steps=4, examples=100, loss=dict)
    assert "speed  50 examples/s" in written.getvalue()
    assert "to go  0:00:06 at most" in written.getvalue()


def test_losses_are_looked_at_only_when_shown() -> None:
    """Looking waits for the device, so it must not happen in every step."""
    console = Console(file=io.StringIO(), force_terminal=True)

    def loss() -> dict[str, float]:
        pytest.fail("looked at too early")

    with training_progress("mcne", 1, console=console) as reporter:
        reporter.step(Position(step=1, steps_done=1), n_steps=4, examples=1, loss=loss)


# a model for each behavior


def test_separate_models_are_those_of_each_behavior_alone(train: Run, run: Run, data: Path, tmp_path: Path) -> None:
    assert train("bpr", "--separate", "--set", "epochs=2", "--set", "width=4").code == 0
    together = FinishedRun.open(tmp_path / "run")
    dataset, split = together.data()
    embeddings = together.embeddings
    assert together.spec.mode == "separate"
    assert embeddings.width == 4 * len(dataset.behaviors)
    assert not (embeddings.spaces[0].mask & embeddings.spaces[1].mask).any()
    users = np.arange(dataset.n_users)
    metrics = []
    for k, name in enumerate(dataset.behavior_names):
        one = dataset.only(k)
        alone = train_small("bpr", one, tmp_path / name, split=split.only(k, one), settings={"epochs": 2, "width": 4})
        expected = alone.embeddings.scores(0, users)
        np.testing.assert_allclose(embeddings.scores(k, users), expected, rtol=1e-5, atol=1e-6)
        metrics.append(alone.result["ndcg@5"])
    assert together.result["ndcg@5"] == pytest.approx(np.mean(metrics))
    assert run("evaluate", tmp_path / "run").code == 0
    assert "finished already" in train("bpr", "--separate", "--set", "epochs=2", "--set", "width=4", "--resume").out
    fails(train("bpr", "--set", "epochs=2", "--set", "width=4", "--resume"), 5, "mode there separate, here joint")


def test_a_separate_training_goes_on_where_it_was(train: Run, tmp_path: Path) -> None:
    """The first behavior is finished, the second was never begun."""
    args = ("bpr", "--separate", "--set", "epochs=2", "--set", "width=4")
    assert train(*args).code == 0
    whole = FinishedRun.open(tmp_path / "run").fingerprint
    for name in ("result.json", "embeddings", "behaviors/1"):
        place = tmp_path / "run" / name
        shutil.rmtree(place) if place.is_dir() else place.unlink()
    resumed = train(*args, "--resume")
    assert resumed.code == 0
    assert resumed.out.count("finished already") == 1
    assert FinishedRun.open(tmp_path / "run").fingerprint == whole


# where things are


def test_moved_data_is_found_after_a_resume(train: Run, run: Run, data: Path, tmp_path: Path) -> None:
    assert train("bpr", *("--set", "epochs=1")).code == 0
    (tmp_path / "run" / "result.json").unlink()
    moved = data.rename(data.with_name("moved"))
    again = ("train", "bpr", "--data", moved, "--out", tmp_path / "run", "--set", "epochs=1", "--resume")
    assert run(*again).code == 0
    assert run("evaluate", tmp_path / "run").code == 0


def test_a_run_that_died_before_its_result_is_finished_whatever_it_left(train: Run, tmp_path: Path) -> None:
    assert train("bpr", *("--set", "epochs=1")).code == 0
    path = tmp_path / "run"
    (path / "result.json").unlink()
    (path / "embeddings" / "vectors.npy").write_bytes(b"of another machine")
    assert train("bpr", *("--set", "epochs=1"), "--resume").code == 0
    assert FinishedRun.open(path).embeddings.width == 100


def test_another_machine_is_told(train: Run, tmp_path: Path) -> None:
    assert train("bpr", *("--set", "epochs=1")).code == 0
    path = tmp_path / "run"
    (path / "result.json").unlink()
    kept = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps(kept | {"machine": kept["machine"] | {"device": "cuda"}}))
    resumed = train("bpr", *("--set", "epochs=1"), "--resume")
    assert "started on device cuda" in resumed.out
    assert "last bits may differ" in resumed.out


def test_nothing_to_train_on(train: Run, run: Run, data: Path) -> None:
    run("data", "split", data, "--name", "none", "--ratios", "0.0001,50,50")
    fails(train("bpr", "--split", "none"), 4, "no interactions in the training part")


# the demo


@pytest.fixture
def small_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"epochs": 1, "width": 8}
    monkeypatch.setattr(demo_command, "USERS", 500)
    monkeypatch.setattr(demo_command, "SETTINGS", {"popularity": {}, "bpr": small, "mcne-plus": small})


@pytest.mark.usefixtures("small_demo")
def test_the_demo_leaves_what_its_commands_need(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("demo", "--out", "demo")
    assert (result.code, result.err) == (0, ""), result
    lines = result.out.splitlines()
    for head in ("Recall@5 ", "NDCG@5 "):
        at = next(k for k, line in enumerate(lines) if line.startswith(head))
        assert [line.split()[0] for line in lines[at + 1 : at + 4]] == ["popularity", "bpr", "mcne-plus"]
        assert all(len(line.split()) == 6 for line in lines[at : at + 4])
    assert max(len(line) for line in lines if not line.startswith("  ")) <= 80
    commands = [line.split()[1:] for line in lines if re.match(r"  \S*mcne \w", line)]
    assert [command[0] for command in commands] == [
        "similar", "recommend", "explain", "evaluate", "export", "data", "train",
    ]  # fmt: skip
    for command in commands[:5]:
        assert run(*command).code == 0, command


@pytest.mark.usefixtures("small_demo")
def test_the_demo_can_be_moved(run: Run, tmp_path: Path) -> None:
    assert run("demo", "--out", tmp_path / "demo").code == 0
    (tmp_path / "demo").rename(tmp_path / "moved")
    assert run("evaluate", tmp_path / "moved" / "runs" / "bpr").code == 0


def test_the_demo_replaces_nothing(run: Run, tmp_path: Path) -> None:
    fails(run("demo", "--out", tmp_path), 2, "already exists")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_tuned_for_the_demo() -> None:
    assert demo_command.SETTINGS == {"popularity": {}, "bpr": {}, "mcne-plus": {}}


# the artifact


def test_what_is_left_opens_without_the_run(train: Run, tmp_path: Path) -> None:
    assert train("mcne", *TINY_ARGS).code == 0
    kept = ConditionalEmbeddings.load(tmp_path / "run" / "embeddings")
    assert kept.behavior_names == ["read", "watch"]
    assert kept.provenance["spec"]["method"] == "mcne"
