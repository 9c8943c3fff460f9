"""``mcne``: the entry point, and what becomes of errors and signals."""

from __future__ import annotations

import errno
import signal
import sys
from types import FrameType
from typing import Annotated, NoReturn

import typer

from mcne import __version__
from mcne.cli import (
    attention,
    bench,
    compare,
    data,
    demo,
    doctor,
    new_users,
    plot,
    query,
    report,
    structure,
    sweep,
    train,
    transfer,
)
from mcne.cli.environment import set_environment
from mcne.errors import DataError, DiskError, Interrupted, MCNEError

app = typer.Typer(
    help="Multiple conditional network embedding: who is similar to whom, on what.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(data.app, name="data")
app.add_typer(plot.app, name="plot")
app.command("train")(train.train)
app.command("evaluate")(query.evaluate)
app.command("compare")(compare.compare)
app.command("sweep")(sweep.sweep)
plot.app.command("sweep")(sweep.plot_sweep)
plot.app.command("ablation")(sweep.plot_ablation)
plot.app.command("attention")(attention.attention)
app.command("structure")(structure.structure)
plot.app.command("structure")(structure.plot_structure)
app.command("recommend")(query.recommend)
app.command("similar")(query.similar)
app.command("explain")(query.explain)
app.command("export")(query.export)
app.command("transfer")(transfer.transfer)
app.command("compare-transfer")(transfer.compare_transfer)
app.command("embed-users")(new_users.embed_users)
app.command("compare-new-users")(new_users.compare_new_users)
app.command("report")(report.report)
app.command("demo")(demo.demo)
app.command("bench")(bench.bench)
app.command("doctor")(doctor.doctor)


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
    set_environment()
    try:
        app(prog_name="mcne")
    except Interrupted as error:  # not an error: it was asked for
        _end(str(error), error.exit_code)
    except MCNEError as error:
        _end(f"error: {error}", error.exit_code)
    except OSError as error:  # whatever nobody foresaw: a directory without permission, a log on a full disk
        place = f"{error.filename}: " if error.filename else ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            _end(f"error: {place}{error.strerror}; free some space, then go on", DiskError.exit_code)
        _end(f"error: {place}{error.strerror or error}; check the path and its permissions", DataError.exit_code)


def _end(message: str, exit_code: int) -> NoReturn:
    typer.echo(message, err=True)
    sys.exit(exit_code)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    """Unwind, so that whatever is being written aside is removed, and exit as a signaled process does."""
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
