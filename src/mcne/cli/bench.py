"""``mcne bench``: how fast training and ranking are on this machine."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mcne.training.bench.figure import Figure


def bench(
    figures: Annotated[
        list[str] | None,
        typer.Argument(
            help="Take these alone, as --list names them: step, step.plain, ranking. All without.",
            metavar="FIGURE",
        ),
    ] = None,
    only_list: Annotated[bool, typer.Option("--list", help="Measure nothing: what there is to measure.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures and the machine as JSON.")] = False,
) -> None:
    """Measure MCNE's training step and ranking, each against a slower form or a floor in the same run.

    On a synthetic network of Ciao's size, in about two minutes. Other work on the machine shows in the figures.
    """
    from mcne.training.bench.figure import choose
    from mcne.training.bench.machine import machine
    from mcne.training.bench.suite import for_users

    chosen = choose(for_users(), figures or [])
    if only_list:
        for each in chosen:
            typer.echo(f"{each.key:16} {each.name}, against {each.against}")
        return
    on = machine()
    taken = []
    for each in chosen:
        typer.echo(f"{each.key} …", err=True)
        taken.append(each.figure())
    if as_json:
        typer.echo(json.dumps({"machine": on, "figures": [asdict(figure) for figure in taken]}, indent=2))
        return
    typer.echo(f"{on['processor']}, {on['threads']} threads, load {on['load'][0]}, GPU: {on['gpu'] or 'none'}")
    for figure in taken:
        typer.echo(_row(figure))


def _row(figure: Figure) -> str:
    """A line of the table, and one with the numbers behind it."""
    ratio = "–" if figure.value is None else f"{figure.value:.3g} {figure.unit}"
    asked = "" if figure.at_most is None else f"at most {figure.at_most:g}"
    shown = f"{figure.key:16} {ratio:>9}  {asked:13} {figure.verdict:9} against {figure.against}"
    return f"{shown}\n{'':16} {figure.detail}"
