"""``mcne report``: one page that shows a run or a comparison to a person."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    path: Annotated[Path, typer.Argument(help="A finished run, or a comparison with tables.", metavar="RUN|DIR")],
    out: Annotated[Path, typer.Option("--out", help="A new HTML file.")],
    data: Annotated[
        Path | None, typer.Option("--data", help="Its dataset: of a comparison, or of a run whose dataset was moved.")
    ] = None,
    sweep: Annotated[
        list[Path] | None, typer.Option("--sweep", help="Show this sweep on the same dataset, too (repeatable).")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", help="A new directory for each figure as PNG and SVG.")
    ] = None,
    kept_map: Annotated[
        Path | None, typer.Option("--map", help="The .json that mcne plot map kept; without, a smaller map is made.")
    ] = None,
    no_map: Annotated[bool, typer.Option("--no-map", help="Leave out the map of users, the slowest part.")] = False,
) -> None:
    """Write one HTML file: data, learning curves, quality with intervals beside other runs, masks, a map, example
    answers, settings and a model card.

    It needs no network, is light or dark, and never replaces anything. Finished runs beside RUN that have the same
    split are evaluated, too.
    """
    from mcne.errors import UsageError
    from mcne.files import check_new
    from mcne.report.page import save_all
    from mcne.report.writing import report_of, write_page
    from mcne.text import human_bytes

    if no_map and kept_map is not None:
        raise UsageError("--no-map and --map: choose one of them")
    check_new(out)
    if figures is not None:
        check_new(figures, option="--figures")
    made = report_of(path, data=data, sweeps=sweep or (), with_map=not no_map, kept_map=kept_map)
    for section in made.sections:
        if section.lacks:
            typer.echo(f"{section.title}: {section.lacks}", err=True)
    if figures is not None:
        save_all(made.drawings, figures)
        typer.echo(f"wrote {len(made.drawings)} figures, each as PNG and SVG, in {figures}")
    typer.echo(f"wrote {out} ({human_bytes(write_page(made, out))})")
