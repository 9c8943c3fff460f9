"""``mcne``: the entry point, and what becomes of errors and signals."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Annotated, NoReturn

import typer

from mcne import __version__
from mcne.cli import data
from mcne.errors import DataError, MCNEError

app = typer.Typer(
    help="Multiple conditional network embedding: who is similar to whom, on what.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(data.app, name="data")


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
    """Multiple conditional network embedding: who is similar to whom, on what."""


def main() -> None:
    """Run the command line; mistakes become a message and an exit code, never a traceback."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    try:
        app(prog_name="mcne")
    except MCNEError as error:
        _fail(str(error), error.exit_code)
    except OSError as error:  # whatever no reader foresaw: a directory without permission, a name that is too long
        place = f"{error.filename}: " if error.filename else ""
        _fail(f"{place}{error.strerror or error}; check the path and its permissions", DataError.exit_code)


def _fail(message: str, exit_code: int) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    sys.exit(exit_code)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    """Unwind, so that whatever is being written aside is removed, and exit as a signaled process does."""
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
