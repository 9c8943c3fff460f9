"""A training whose tables do not fit in memory keeps them in files, and gives the same bytes."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from tests.errors import refused
from tests.small_training import small_network, train_small

from mcne import training
from mcne.errors import Interrupted, UsageError
from mcne.models import tables
from mcne.models.memory import Estimate
from mcne.training import resources
from mcne.training.journal import Reporter
from mcne.training.run import METRICS

SETTINGS: dict[str, dict[str, Any]] = {
    "mcne": {"widths": [8, 6], "neighbor_samples": [3], "attention_width": 3, "batch_size": 256, "epochs": 3},
    "bpr": {"width": 4, "batch_size": 512, "epochs": 3},
}


class Noted(Reporter):
    """Remembers what was said, and stops the training after so many steps."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.lines: list[str] = []
        self._stop_after = stop_after

    def say(self, line: str) -> None:
        if not line.startswith("compiled "):  # only where a process is the first one
            self.lines.append(line)

    def step(self, position: Any, **_: Any) -> None:
        if position.steps_done == self._stop_after:
            signal.raise_signal(signal.SIGTERM)


def train(method: str, path: Path, reporter: Noted, *, resume: bool = False) -> training.Run:
    dataset = small_network(seed=3)
    return train_small(method, dataset, path, settings=SETTINGS[method], seed=1, reporter=reporter, resume=resume)


def content(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in (path / METRICS, *sorted((path / "embeddings").glob("*.npy")))}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory for everything but the tables, and everything that can be is in a file."""
    monkeypatch.setattr(Estimate, "memory_beside_files", 0)
    monkeypatch.setattr(resources, "available_memory", lambda: 1)
    monkeypatch.setattr(tables, "LARGE", 1)


@pytest.mark.parametrize("method", SETTINGS)
def test_the_same_bytes_stopped_or_not(method: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    plain = Noted()
    train(method, tmp_path / "plain", plain)
    request.getfixturevalue("short")
    filed = Noted()
    train(method, tmp_path / "filed", filed)
    with pytest.raises(Interrupted):
        train(method, tmp_path / "stopped", Noted(stop_after=5))
    train(method, tmp_path / "stopped", Noted(), resume=True)
    assert (plain.lines, len(filed.lines)) == ([], 1)
    assert "tables are in files" in filed.lines[0]
    assert content(tmp_path / "plain") == content(tmp_path / "filed") == content(tmp_path / "stopped")
    assert len(content(tmp_path / "plain")) > 5
    names = [{each.name for each in (tmp_path / run).iterdir()} for run in ("plain", "filed")]
    assert names[0] == names[1]


def note_sizes_of_files(sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Append to the list the size of every file for a table."""
    real = tables._file

    def noting(directory: Path, size: int) -> Any:
        sizes.append(size)
        return real(directory, size)

    monkeypatch.setattr(tables, "_file", noting)


def test_tables_are_in_files_indeed(tmp_path: Path, short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    note_sizes_of_files(made, monkeypatch)
    train("mcne", tmp_path / "run", Noted())
    assert made.count(4 * 500 * 8) >= 4  # users, both moments, and the best


def test_as_many_tables_as_fit_are_in_memory_with_the_same_bytes(
    tmp_path: Path, short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for the users, their first moments and a little more."""
    made: list[int] = []
    users = 4 * 500 * 8
    note_sizes_of_files(made, monkeypatch)
    train("mcne", tmp_path / "filed", Noted())
    whole = made.copy()
    made.clear()
    monkeypatch.setattr(resources, "available_memory", lambda: sum(whole))
    monkeypatch.setattr(Estimate, "memory_beside_files", sum(whole) - 2 * users - 100)
    train("mcne", tmp_path / "partly", Noted())
    assert 0 < sum(made) < sum(whole)
    assert whole.count(users) - made.count(users) == 1  # tables are made before moments, and items' take the rest
    assert content(tmp_path / "partly") == content(tmp_path / "filed")


def test_what_cannot_fit_is_refused_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "available_memory", lambda: 3 << 20)
    with refused(UsageError, value="mcne"):
        train("mcne", tmp_path / "deep" / "run", Noted())
    assert not (tmp_path / "deep").exists()
