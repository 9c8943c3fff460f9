"""``mcne sweep``: how a method depends on its settings. ``mcne plot sweep|ablation``: settings and variants drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mcne.cli.plot import AsJson, Out, ThemeName, Themes, distinct_names, draw, print_json
from mcne.cli.train import METHODS_HELP, Devices


def sweep(
    data: Annotated[Path, typer.Option("--data", help="A prepared dataset.")],
    out: Annotated[Path, typer.Option("--out", help="The sweep's directory; what is done there stays done.")],
    what: Annotated[
        str, typer.Argument(help=f"{METHODS_HELP} Or a TOML file with method, settings and values.", metavar="METHOD")
    ] = "mcne",
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A setting with its values: l2=0.01,0.02, neighbor_samples=[10,5],[20,20], final_width=50,100 (the "
            "last of widths), neighbor_sample=10,20 (of every layer). With one value it stays. Repeatable: of several "
            "settings, one is changed at a time.",
            metavar="NAME=V1,V2,…",
        ),
    ] = None,
    repetitions: Annotated[
        int | None, typer.Option(min=1, help="Splits and seeds of every value; 3, or what the file says.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="random (the default): repetition r has random-r. Any other: r seeds the models alone."),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(min=1, help="Trainings side by side; if several, short ones after them measure epochs."),
    ] = 1,
    device: Annotated[Devices, typer.Option(help="auto takes the GPU where there is one.")] = Devices.auto,
    as_json: Annotated[bool, typer.Option("--json", help="Print sweep.json on stdout.")] = False,
) -> None:
    """Train a method with every value of its settings on the same splits, and write sweep.md and sweep.json.

    Interrupted anywhere, the same command goes on; finished trainings are never repeated. Draw it with mcne plot sweep.
    """
    from mcne.errors import DataError
    from mcne.studies.execution import Comparison
    from mcne.studies.kinds import Kind, check_kind
    from mcne.studies.sweep import Sweep
    from mcne.studies.sweep_results import TIMING, check_place, collect, is_shared, names_of, write
    from mcne.training import choose_device

    if what.endswith(".toml"):
        asked = Sweep.of_file(Path(what), setting or [], repetitions=repetitions, split=split)
    else:
        asked = Sweep.of_pairs(what, setting or [], repetitions=repetitions or 3, split=split or "random")
    chosen = choose_device(device.value)
    check_kind(out, Kind.sweep)
    check_place(asked, out)
    comparison = Comparison.open(asked.plan(), data, out, kind=Kind.sweep)
    names = names_of(comparison)

    def say(line: str) -> None:
        start, _, rest = line.partition(": ")
        place, _, cell = start.partition(" ")
        if start != "search":  # of which there is none
            typer.echo(f"{place} {names[cell]}: {rest}" if cell in names else line, err=as_json)

    failed = comparison.run(jobs=jobs, device=chosen.type, say=say)
    timed = None
    if is_shared(comparison):
        typer.echo("epochs of every value, one at a time", err=as_json)
        timed = Comparison.open(asked.timing().plan(), data, out / TIMING, kind=Kind.timing)
        names |= names_of(timed)
        failed |= timed.run(jobs=1, device=chosen.type, say=say)
    found = collect(asked, comparison, timed)
    for path in write(found, out):
        typer.echo(f"wrote {path}", err=as_json)
    if as_json:
        print_json(found)
    if failed:
        raise DataError(
            f"{len(failed)} trainings failed, the first: {next(iter(failed.values()))}; see {out}/failed.json; the "
            "same command tries them again"
        )


def plot_sweep(
    directory: Annotated[Path, typer.Argument(help="What mcne sweep has made.", metavar="DIR")],
    out: Out,
    theme: ThemeName = Themes.light,
    as_json: AsJson = False,
) -> None:
    """Quality on every behavior and seconds per epoch, over the values of a sweep."""
    from mcne.plots import sweep as figure
    from mcne.plots.style import check_place

    check_place(out)
    found = figure.read(directory)
    draw(lambda: figure.draw(found, theme.value), out, theme=theme)
    if as_json:
        print_json(found)
        return
    typer.echo(f"{figure.caption(found)}\nsaved {out}")


def plot_ablation(
    comparisons: Annotated[list[Path], typer.Argument(help="Finished comparisons.", metavar="DIR…")],
    out: Out,
    rows: Annotated[
        str, typer.Option(help="Rows of the plans, separated by commas without spaces.")
    ] = "mcne-f,mcne-a,mcne",
    reference: Annotated[
        str | None, typer.Option(help="The row that the others are tested against; by default the last.")
    ] = None,
    theme: ThemeName = Themes.light,
    as_json: AsJson = False,
) -> None:
    """Variants of a method side by side, and how far each is from the whole, with its chance."""
    import re

    from mcne.plots import ablation as figure
    from mcne.plots.style import check_place

    check_place(out)
    names = re.split(r",(?! )", rows)  # a row's own name may have a comma with a space
    against = names[-1] if reference is None else reference
    figure.check_rows(names, against)
    titles = zip(comparisons, distinct_names(comparisons), strict=True)
    found = [figure.Ablation.read(each, names, reference=against, name=title) for each, title in titles]
    draw(lambda: figure.draw(found, theme.value), out, theme=theme)
    if as_json:
        print_json([each.to_json() for each in found])
        return
    for line in (*figure.lines(found), figure.caption(found), f"saved {out}"):
        typer.echo(line)
