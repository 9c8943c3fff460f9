"""``mcne``: the commands, and what happens on errors and signals."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Annotated, NoReturn

import typer

from mcne import __version__
from mcne.cli import data, demo, machine, plot, query, studies, train
from mcne.cli.mistakes import TyperError, reworded
from mcne.cli.options import METHODS_EPILOG, unwrapped
from mcne.errors import DataError, DiskError, Interrupted, MCNEError, UsageError

ENVIRONMENT = {
    # PyTorch's idle threads would spin and starve those that prepare steps
    "OMP_WAIT_POLICY": "PASSIVE",
    # with small pages, every row of a large table would cost a miss of the address cache
    "THP_MEM_ALLOC_ENABLE": "1",
    # matrix products that are the same bytes on any number of threads
    "MKL_CBWR": "AUTO,STRICT",
}
"""Settings of the libraries below, which they read when PyTorch is first imported."""

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(data.app, name="data")
app.add_typer(plot.app, name="plot")

COMMANDS: dict[str, Callable[..., None]] = {
    "train": train.train,
    "evaluate": query.evaluate,
    "compare": studies.compare,
    "sweep": studies.sweep,
    "structure": studies.structure,
    "recommend": query.recommend,
    "similar": query.similar,
    "explain": query.explain,
    "export": query.export,
    "transfer": train.transfer,
    "compare-transfer": studies.compare_transfer,
    "embed-users": train.embed_users,
    "compare-new-users": studies.compare_new_users,
    "report": query.report,
    "demo": demo.demo,
    "bench": machine.bench,
    "doctor": machine.doctor,
}
for name, command in COMMANDS.items():
    app.command(name, epilog=METHODS_EPILOG if name == "train" else None)(command)
for each in (app, data.app, data.prepare, plot.app):
    for registered in each.registered_commands:
        registered.help = unwrapped(registered.callback)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mcne {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Multiple conditional network embedding: who is similar to whom, and on which behavior."""


def main() -> None:
    """Run the command line; mistakes become a message and an exit code, never a traceback."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    set_environment()
    try:
        sys.exit(app(prog_name="mcne", standalone_mode=False))
    except TyperError as error:
        if wrong := reworded(error):
            _end(f"error: {wrong}", wrong.exit_code)
        sys.exit(UsageError.exit_code)
    except Interrupted as error:  # not an error: it was asked for
        _end(str(error), error.exit_code)
    except MCNEError as error:
        _end(f"error: {error}", error.exit_code)
    except OSError as error:  # whatever nobody foresaw: a directory without permission, a log on a full disk
        place = f"{error.filename}: " if error.filename else ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            _end(f"error: {place}{error.strerror}; free some disk space, then run again", DiskError.exit_code)
        _end(f"error: {place}{error.strerror or error}; check the path and its permissions", DataError.exit_code)


def set_environment() -> None:
    """Set each variable of :data:`ENVIRONMENT` that the caller has not set."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def _end(message: str, exit_code: int) -> NoReturn:
    typer.echo(message, err=True)
    sys.exit(exit_code)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    """Unwind, so that whatever is being written aside is removed, and exit as a signaled process does."""
    sys.exit(128 + number)
