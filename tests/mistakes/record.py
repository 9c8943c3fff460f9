"""``python -m tests.mistakes.record`` writes the message of every mistake to ``messages.md``, to be read by people."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import signal
import sys
import tempfile
from pathlib import Path
from unittest import mock

from tests.mistakes.mistakes import COMMANDS, PYTHON, prepare

from mcne.cli.main import main
from mcne.errors import MCNEError

PLACE = Path(__file__).with_name("messages.md")
HEAD = """# Error messages

Every message names the place, the value and the next step. Written by `python -m tests.mistakes.record`; read it before
you commit it.
"""


def messages() -> str:
    """The whole page: every mistake with the exit code and message, or in Python the class and fields of the error."""
    lines = [HEAD, "## At the command line", ""]
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory).resolve()
        known = prepare(place)
        os.chdir(place)
        try:
            for title, command in COMMANDS.items():
                code, text = run(command)
                lines += [f"### {title}", "", "```", f"$ {command}", text, f"(exit code {code})", "```", ""]
            lines += ["## In Python", ""]
            for title, (text, call) in PYTHON.items():
                lines += [f"### {title}", "", "```", f">>> {text}"]
                try:
                    call(known)
                except MCNEError as error:
                    lines += [f"{type(error).__name__}: {error}", "```", ""]
                else:
                    raise AssertionError(f"{title}: no error")
        finally:
            os.chdir(before)
    return "\n".join(lines).replace(str(place), "…")


def run(command: str) -> tuple[int, str]:
    """The exit code of a command and what it printed on both streams."""
    shown = io.StringIO()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    patched = mock.patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"})
    streams = (contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown))
    argv = mock.patch.object(sys, "argv", shlex.split(command))
    with patched, argv, streams[0], streams[1]:
        try:
            main()
        except SystemExit as left:
            code = int(left.code or 0)
    for number, handler in handlers.items():
        signal.signal(number, handler)
    return code, shown.getvalue().rstrip()


if __name__ == "__main__":
    PLACE.write_text(messages())
