"""Printing: JSON for programs; lines and tables for people.

Names and ids of the data are printed as :class:`Text`, never as markup.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import typer


def print_json(data: Any) -> None:
    """The result alone on stdout."""
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))


def print_line(line: str, style: str = "") -> None:
    """A line that wraps at the width of the terminal."""
    from rich.console import Console
    from rich.text import Text

    Console().print(Text(line, style=style))


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: Sequence[str] = ()) -> None:
    """Names on the left, right-aligned numbers beside them, no lines; cells that are too wide are folded.

    ``left`` names further columns that are left-aligned.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False)
    for at, head in enumerate(heads):
        grid.add_column(Text(head), justify="left" if not at or head in left else "right", overflow="fold")
    for row in rows:
        grid.add_row(*map(Text, row))
    Console().print(grid)
