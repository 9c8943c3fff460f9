"""``mcne demo``: stopped, and in places that a shell would split."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.in_process import Run, command_line

from mcne.cli import demo as demo_command
from mcne.kernels.compilation import CLOCK
from mcne.report import figures
from mcne.training.journal import RunJournal


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """The command line, in this process, with a demo of moments."""
    small = {"epochs": 2, "width": 8, "learning_rate": 0.1}  # so that some masks close
    monkeypatch.setattr(demo_command, "USERS", 500)
    monkeypatch.setattr(figures, "POINTS", 60)
    monkeypatch.setattr(demo_command, "SETTINGS", {"bpr": small, "mcne-plus": small})
    with command_line(monkeypatch, capsys, "/my tools/mcne") as command:
        yield command


def test_help_says_who_is_asked(run: Run) -> None:
    shown = run("demo", "--help").out
    assert "train and compare three methods" in " ".join(shown.split())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_it_says_to_start_again(
    number: signal.Signals, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no --resume, and refuses a directory that exists."""

    def stopped(_self: RunJournal, _record: dict[str, Any], **_options: Any) -> None:
        signal.raise_signal(number)

    monkeypatch.setattr(RunJournal, "record", stopped)
    result = run("demo", "--out", tmp_path / "demo")
    message = f"stopped by {number.name}; the demo cannot be resumed; remove {tmp_path / 'demo'}, then start again\n"
    assert (result.code, result.err) == (128 + number, message)


@pytest.mark.parametrize("is_on_path", [True, False])
def test_what_it_advises_can_be_pasted_into_a_shell(
    is_on_path: bool, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: "/bin/mcne" if is_on_path else None)
    out = tmp_path / "my demo; it's"
    result = run("demo", "--out", out)
    assert (result.code, result.err) == (0, ""), result
    _, advised = result.out.split("\nNext\n")
    commands = [shlex.split(line) for line in advised.splitlines()]
    assert [command[:2] for command in commands] == [
        ["mcne" if is_on_path else "/my tools/mcne", name]
        for name in ("similar", "recommend", "explain", "evaluate", "export", "data", "train")
    ]
    assert all(Path(command[2]) == out / "runs" / "mcne-plus" for command in commands[:5])
    for command in commands[:5]:
        assert run(*command[1:]).code == 0, command
    assert any((out / "vectors").iterdir())


def test_it_leaves_a_report_and_names_it_in_one_line(run: Run, tmp_path: Path) -> None:
    out = tmp_path / ("a place with a name that is longer than any line " * 3).strip()
    result = run("demo", "--out", out)
    assert (result.code, result.err) == (0, ""), result
    assert f"open it in a browser: {out / 'report.html'}\n" in result.out
    page = (out / "report.html").read_text()
    assert "mcne-plus on synthetic" in page
    assert 'aria-label="Figure: map of users"' in page
    assert "15 random users" in page


@pytest.mark.parametrize(("seconds", "is_told"), [(0.0, False), (3.21, True)])
def test_it_tells_what_was_compiled(
    seconds: float, is_told: bool, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CLOCK, "since", lambda _moment: seconds)
    result = run("demo", "--out", tmp_path / "demo")
    assert result.code == 0, result
    assert result.out.count("\n3.2 s of that compiled kernels, once; later runs find them\n") == 2 * is_told
    assert ("compiled" in result.out) == is_told
