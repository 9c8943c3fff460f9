"""What a run's files hold when the disk refuses a write, and what TensorBoard is told."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.errors import refused

from mcne.errors import ArtifactError, DiskError
from mcne.models.settings import TrainingSettings
from mcne.training import journal as journal_module
from mcne.training.journal import PlainReporter, Reporter, RunJournal
from mcne.training.run import METRICS, TENSORBOARD, TIMES

CPU = torch.device("cpu")
STATE = {"learned": {"a": torch.ones(2)}, "memory": {"b": torch.ones(1)}}
SAID = r": No space left on device; free some disk space, then run again with --resume$"


def journal_at(path: Path, **changes: Any) -> RunJournal:
    return RunJournal(path, identity="me", settings=TrainingSettings(**changes), reporter=Reporter())


def record(journal: RunJournal, *epochs: int) -> None:
    for epoch in epochs:
        journal.record({"epoch": epoch, "loss": {"Books": epoch / 4}}, seconds=1.0, examples=4)


def checkpoint(journal: RunJournal, *, records: int) -> None:
    journal.checkpoint({"epoch": records, "steps_done": 3 * records, "records": records}, STATE)


def epochs_of(path: Path) -> list[int]:
    return [json.loads(line)["epoch"] for line in path.read_text(encoding="utf-8").splitlines()]


def fill(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill the disk, which programs learn of when they flush."""

    def fsync(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)


# a full disk


def test_a_record_that_the_disk_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(monkeypatch)
    with pytest.raises(DiskError, match=r"metrics\.jsonl" + SAID) as error:
        record(journal_at(tmp_path), 1)
    assert error.value.exit_code == 6
    assert isinstance(error.value.__cause__, OSError)


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / TIMES).mkdir()
    with refused(DiskError, place="times.jsonl", about="directory"):
        record(journal_at(tmp_path), 1)


def test_a_record_that_is_refused_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = journal_at(tmp_path)
    record(journal, 1)
    checkpoint(journal, records=1)
    with monkeypatch.context() as patch:
        fill(patch)
        with pytest.raises(DiskError):
            record(journal, 2)
    again = journal_at(tmp_path)
    resumed = again.resume(CPU)
    assert resumed is not None
    assert resumed[0]["records"] == 1
    record(again, 2, 3)
    assert epochs_of(tmp_path / METRICS) == [1, 2, 3]


def test_a_cut_that_the_disk_refuses_leaves_the_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = journal_at(tmp_path)
    record(journal, 1)
    checkpoint(journal, records=1)
    record(journal, 2)
    before = (tmp_path / METRICS).read_bytes()
    with monkeypatch.context() as patch:
        fill(patch)
        with pytest.raises(DiskError, match=r"metrics\.jsonl" + SAID):
            journal_at(tmp_path).resume(CPU)
    assert (tmp_path / METRICS).read_bytes() == before
    assert journal_at(tmp_path).resume(CPU) is not None
    assert epochs_of(tmp_path / METRICS) == [1]


# torn lines


def test_torn_times_do_not_spoil_what_follows(tmp_path: Path) -> None:
    journal = journal_at(tmp_path)
    record(journal, 1)
    checkpoint(journal, records=1)
    record(journal, 2)
    torn = (tmp_path / TIMES).read_bytes()[:-7]
    (tmp_path / TIMES).write_bytes(torn)
    again = journal_at(tmp_path)
    again.resume(CPU)
    record(again, 2)
    assert epochs_of(tmp_path / TIMES) == epochs_of(tmp_path / METRICS) == [1, 2]


def test_metrics_that_are_no_text_are_counted_as_lines(tmp_path: Path) -> None:
    journal = journal_at(tmp_path)
    record(journal, 1)
    checkpoint(journal, records=1)
    (tmp_path / METRICS).write_bytes(b"\xff\xfe\x00")
    with refused(ArtifactError, place="metrics.jsonl", value=0):
        journal_at(tmp_path).resume(CPU)


# what was compiled


def test_compiling_is_said_in_a_line_and_written_nowhere(tmp_path: Path) -> None:
    lines: list[str] = []
    reporter = PlainReporter(lines.append, epochs=2)
    journal = RunJournal(tmp_path, identity="me", settings=TrainingSettings(), reporter=reporter)
    journal.compiled(9.26, is_kept=True)
    journal.compiled(0.04, is_kept=False)
    assert lines == [
        "compiled kernels in 9.3 s, once; kept for later runs",
        "compiled kernels in 0.0 s, as every run will; to keep them, set NUMBA_CACHE_DIR to a directory that can be "
        "written to",
    ]
    assert not any(tmp_path.iterdir())


# TensorBoard


class Writer:
    """Stands in for TensorBoard's: remembers what it is told."""

    made: list[Writer]

    def __init__(self, place: str, **options: int) -> None:
        Path(place).mkdir(exist_ok=True)
        self.place, self.options, self.is_closed = place, options, False
        self.told: list[tuple[str, float, int]] = []
        Writer.made.append(self)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.told.append((name, value, step))

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def boards(monkeypatch: pytest.MonkeyPatch) -> list[Writer]:
    monkeypatch.setattr(journal_module, "tensorboard_writer", lambda: Writer)
    Writer.made = []
    return Writer.made


def test_tensorboard_is_told_and_closed(boards: list[Writer], tmp_path: Path) -> None:
    journal = journal_at(tmp_path, tensorboard=True)
    assert journal.resume(CPU) is None
    record(journal, 1, 2)
    journal.close()
    journal.close()
    (board,) = boards
    assert (board.place, board.options, board.is_closed) == (str(tmp_path / TENSORBOARD), {}, True)
    assert board.told == [("loss/Books", 0.25, 1), ("loss/Books", 0.5, 2)]


def test_a_behavior_may_be_called_epoch(boards: list[Writer], tmp_path: Path) -> None:
    journal = journal_at(tmp_path, tensorboard=True)
    journal.resume(CPU)
    journal.record({"epoch": 1, "loss": {"epoch": 0.5}}, seconds=1.0, examples=4)
    assert boards[0].told == [("loss/epoch", 0.5, 1)]


def test_on_resume_tensorboard_forgets_what_is_trained_again(boards: list[Writer], tmp_path: Path) -> None:
    journal = journal_at(tmp_path, tensorboard=True)
    journal.resume(CPU)
    record(journal, 1)
    checkpoint(journal, records=1)
    record(journal, 2)
    again = journal_at(tmp_path, tensorboard=True)
    assert again.resume(CPU) is not None
    record(again, 2)
    assert [board.options for board in boards] == [{}, {"purge_step": 2}]
    assert [step for *_, step in boards[1].told] == [2]


def test_without_a_checkpoint_tensorboard_forgets_everything(boards: list[Writer], tmp_path: Path) -> None:
    for _ in range(2):
        journal = journal_at(tmp_path, tensorboard=True)
        assert journal.resume(CPU) is None
        record(journal, 1)
    assert [board.options for board in boards] == [{}, {"purge_step": 0}]


def test_tensorboard_on_a_full_disk(boards: list[Writer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flush(_self: Writer) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Writer, "flush", flush)
    journal = journal_at(tmp_path, tensorboard=True)
    journal.resume(CPU)
    with pytest.raises(DiskError, match=r"tensorboard" + SAID):
        record(journal, 1)
    assert len(boards) == 1


@pytest.mark.usefixtures("boards")
def test_no_tensorboard_where_it_is_not_asked_for(tmp_path: Path) -> None:
    journal = journal_at(tmp_path)
    journal.resume(CPU)
    record(journal, 1)
    journal.close()
    assert Writer.made == []
    assert not (tmp_path / TENSORBOARD).exists()
