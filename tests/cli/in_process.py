"""The command line in this process: how it ended, and what it said."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from mcne.cli.main import main


class Result(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Result]


@contextmanager
def command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *first: str, columns: int = 80
) -> Iterator[Run]:
    """Called with arguments, runs ``first`` and these; colors are left out of what it said."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setenv("COLUMNS", str(columns))

    def command(*args: object) -> Result:
        monkeypatch.setattr(sys, "argv", [*first, *map(str, args)])
        with pytest.raises(SystemExit) as left:
            main()
        texts = (re.sub(r"\x1b\[[0-9;]*m", "", text) for text in capsys.readouterr())
        return Result(int(left.value.code or 0), *texts)

    yield command
    for number, handler in handlers.items():
        signal.signal(number, handler)
