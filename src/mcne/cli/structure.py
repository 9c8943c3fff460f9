"""``mcne structure``: how well vectors predict links that training did not see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from mcne.cli.plot import AsJson, Out, ThemeName, Themes, draw, print_json
from mcne.cli.train import Devices


def structure(
    data: Annotated[Path, typer.Option("--data", help="A prepared dataset.")],
    out: Annotated[Path, typer.Option("--out", help="The study's directory; what is done there stays done.")],
    methods: Annotated[
        str, typer.Option("--methods", help="Methods whose users have vectors, comma-separated.")
    ] = "mcne,node2vec,line",
    repetitions: Annotated[int, typer.Option(min=1, help="Times that links are held out, each time others.")] = 3,
    share: Annotated[float, typer.Option(help="Of the links, to hold out.")] = 0.1,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="epochs=20 for all methods that have it, mcne.epochs=20 for one of them (repeatable).",
            metavar="K=V",
        ),
    ] = None,
    device: Annotated[Devices, typer.Option(help="auto takes the GPU where there is one.")] = Devices.auto,
    as_json: AsJson = False,
) -> None:
    """Hold out links, train methods on the others, and see whether vectors tell the links from other pairs.

    Whole and conditional vectors, beside degrees and common friends; structure.md and structure.json. Every method
    has its own settings (equal budgets are yours to --set), and keeps the epoch that ranks validation items best.
    Interrupted anywhere, the same command goes on. Draw it with mcne plot structure.
    """
    from mcne.data.dataset import SocialDataset
    from mcne.errors import DataError
    from mcne.studies.structure import Study, settings_by_method
    from mcne.studies.structure_results import collect, lines, run, write
    from mcne.training import choose_device

    names = [name.strip() for name in methods.split(",") if name.strip()]
    given = settings_by_method(names, setting or [])
    chosen, dataset = choose_device(device.value), SocialDataset.load(data)
    study = Study(dataset, out, share, repetitions, given)
    study.open()
    run(study, device=chosen, say=lambda line: typer.echo(line, err=as_json))
    found = collect(dataset, out)
    paths = write(found, out)
    if as_json:
        typer.echo(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        _show(lines(found, "uniform"), lines(found, "degree"))
    for path in paths:
        typer.echo(f"wrote {path}", err=as_json)
    diverged = {name: lacks for name, lacks in found["lacking"].items() if "diverged" in lacks}
    if diverged:
        raise DataError("; ".join(f"{name}: {lacks}" for name, lacks in diverged.items()))


def plot_structure(
    directory: Annotated[Path, typer.Argument(help="What mcne structure wrote.", metavar="DIR")],
    out: Out,
    theme: ThemeName = Themes.light,
    as_json: AsJson = False,
) -> None:
    """How well held-out links are told from other pairs, by method and behavior."""
    from mcne.plots.structure import draw_structure, read
    from mcne.plots.style import check_place

    check_place(out)
    found = read(directory)
    draw(lambda: draw_structure(found, theme=theme.value), out, theme=theme)
    if as_json:
        print_json(found)
        return
    typer.echo(f"saved {out}")


def _show(uniform: tuple[tuple[str, ...], ...], degree: tuple[tuple[str, ...], ...]) -> None:
    """Both tables side by side: a line per method, vector and similarity."""
    from rich.console import Console
    from rich.text import Text

    from mcne.cli.query import table

    console = Console()
    console.print(Text("links told from any two users, and from users with as many friends; percent", style="bold"))
    console.print(
        table(
            ["", "similarity", "AUC", "AP", "AUC\n(degrees)", "AP\n(degrees)"],
            [[*one, *other[2:]] for one, other in zip(uniform, degree, strict=True)],
            left=("similarity",),
        )
    )
