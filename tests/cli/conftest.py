"""What every test of a command has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cli.in_process import Run, command_line


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """The command line, in this process."""
    with command_line(monkeypatch, capsys, "mcne") as command:
        yield command
