"""``mcne plot …``: figures drawn from saved results. None needs torch.

Every command takes ``--out`` and ``--theme``, checks both before it computes anything, and ends in :func:`draw`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mcne.analysis.maps import ConditionalMap, Layout, Separation
    from mcne.analysis.masks import MaskNumbers
    from mcne.plots.curves import Curves

app = typer.Typer(help="Draw figures from saved results.", no_args_is_help=True)


class Themes(StrEnum):
    """What a figure is drawn on."""

    light = "light"
    dark = "dark"


Out = Annotated[Path, typer.Option("--out", help="A new file: .png, .svg or .pdf.")]
ThemeName = Annotated[Themes, typer.Option("--theme", help="What the figure is drawn on.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")]
RunPath = Annotated[Path, typer.Argument(help="A finished run, or saved embeddings.", metavar="RUN")]


@app.command()
def masks(
    run: RunPath,
    out: Out,
    beside: Annotated[
        Path | None, typer.Option("--beside", help="Another run, such as one of mcne-f, to draw on the left.")
    ] = None,
    theme: ThemeName = Themes.light,
    as_json: AsJson = False,
) -> None:
    """The masks: the last level per behavior, density, overlap against chance, and how they were learned."""
    from mcne.plots.masks import draw_masks
    from mcne.plots.style import check_place

    check_place(out)
    numbers, other = _mask_numbers(run), None if beside is None else _mask_numbers(beside)
    draw(lambda: draw_masks(numbers, theme=theme.value, beside=other), out, theme=theme)
    if as_json:
        print_json(numbers.to_json() | ({} if other is None else {"beside": other.to_json()}))
        return
    _show_masks(numbers)
    typer.echo(f"saved {out}")


@app.command("map")
def map_users(
    run: Annotated[Path, typer.Argument(help="A finished run, saved embeddings, or the .json of a map to draw again.")],
    out: Out,
    users: Annotated[
        int | None, typer.Option(help="How many random users; 1,000 by default, or all of fewer.", show_default=False)
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seeds the users and the map.", show_default="0")] = None,
    aligned: Annotated[bool, typer.Option("--aligned", help="A map per behavior of the same users.")] = False,
    theme: ThemeName = Themes.light,
    as_json: AsJson = False,
) -> None:
    """Users on a map by t-SNE: all their conditional vectors, or with --aligned a map per behavior.

    What was computed is kept beside the figure as .json: give that in place of RUN to draw it again.
    """
    from mcne.errors import UsageError
    from mcne.plots.maps import draw_map
    from mcne.plots.style import check_place

    check_place(out)
    is_kept = run.is_file()
    if is_kept and (users is not None or seed is not None or aligned):
        raise UsageError(f"{run}: is a computed map, and --users, --seed and --aligned need a run; leave them out")
    layout: Layout = "aligned" if aligned else "together"
    found = _read_map(run) if is_kept else _make_map(run, out, n_users=users, seed=seed or 0, layout=layout)
    draw(lambda: draw_map(found, theme=theme.value), out, theme=theme)
    if as_json:
        print_json(found.numbers())
        return
    _show_map(found)
    typer.echo(f"saved {out}" if is_kept else f"saved {out} and {_kept_beside(out)}")


@app.command()
def curves(
    runs: Annotated[list[Path], typer.Argument(help="Finished runs.", metavar="RUN…")],
    out: Out,
    theme: ThemeName = Themes.light,
    as_json: AsJson = False,
) -> None:
    """Learning curves: the loss of each behavior and the validation NDCG@5, with the best epoch."""
    from mcne.plots.curves import draw_curves
    from mcne.plots.style import check_place

    check_place(out)
    found = _curves(runs)
    draw(lambda: draw_curves(found, theme=theme.value), out, theme=theme)
    if as_json:
        print_json({"runs": [run.to_json() for run in found]})
        return
    for run in found:
        best = (
            "not validated" if run.best is None else f"best in epoch {run.best_epoch}, validation NDCG@5 {run.best:.4f}"
        )
        typer.echo(f"{run.name}: {len(run.epochs)} epochs, {best}")
    typer.echo(f"saved {out}")


def draw(make: Callable[[], Figure], out: Path, *, theme: Themes) -> None:
    """Make a figure in a theme and write it."""
    from mcne.plots.style import boxes_told, save, styled

    with styled(theme.value) as letters:
        save(make(), out)
    if letters:
        typer.echo(boxes_told(letters), err=True)


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """Those of directories, or their whole paths where names are not distinct; none may be there twice."""
    from mcne.errors import UsageError

    resolved = [path.resolve() for path in paths]
    for at, path in enumerate(resolved):
        if path in resolved[:at]:
            raise UsageError(f"{paths[at]}: is there twice, and would be drawn on itself; give it once")
    short = [path.name for path in resolved]
    return short if len(set(short)) == len(short) else [str(path) for path in paths]


def print_json(numbers: Any) -> None:
    """The numbers of a figure, alone on stdout."""
    typer.echo(json.dumps(numbers, indent=1, ensure_ascii=False, allow_nan=False))


def _mask_numbers(path: Path) -> MaskNumbers:
    """Of a run with its training, of saved embeddings without."""
    from mcne.analysis.masks import mask_numbers
    from mcne.api import load
    from mcne.training import SPEC, Run

    if not (path / SPEC).is_file():
        return mask_numbers(load(path))
    run = Run.open(path)
    return mask_numbers(run.embeddings, run.records, best_epoch=run.result["best_epoch"] or None)


def _show_masks(numbers: MaskNumbers) -> None:
    from rich.console import Console
    from rich.text import Text

    from mcne.cli.query import table

    console = Console()
    for level in numbers.levels:
        head = f"level {level.level}: {level.width} dimensions, {sum(level.used)} of them not zero for every user"
        console.print(Text(head, style="bold"))
        density = ", ".join(f"{name} {share:.0%}" for name, share in level.density.items())
        console.print(Text(f"ones: {density}"))
        rows = [
            [
                f"{pair.first}, {pair.second}",
                f"{pair.shared} ({pair.chance:.1f})",
                f"{pair.jaccard:.2f} ({pair.chance_jaccard:.2f})",
                f"{pair.p:.3f}",
                f"{pair.holm_p:.3f}",
            ]
            for pair in level.overlaps_in_use
        ]
        console.print(table(["dimensions in use", "shared (chance)", "Jaccard (chance)", "p", "p (Holm)"], rows))
    if numbers.training:
        last = numbers.training[-1]
        turned = last.flips / numbers.entries
        console.print(
            Text(f"entries turned over {last.flips:,} times in {last.epoch} epochs, each {turned:.2f} times on average")
        )


def _make_map(path: Path, out: Path, *, n_users: int | None, seed: int, layout: Layout) -> ConditionalMap:
    """Compute a map and keep it beside its figure."""
    from mcne.analysis.maps import conditional_map
    from mcne.api import load
    from mcne.errors import UsageError
    from mcne.files import write_new

    beside = _kept_beside(out)
    if beside.exists():
        raise UsageError(
            f"{beside}: is there already, and nothing is ever replaced; give it in place of the run to draw it again, "
            "or choose another --out"
        )
    found = conditional_map(load(path), n_users=n_users, seed=seed, layout=layout)
    write_new(beside, json.dumps(found.to_json(), ensure_ascii=False, allow_nan=False).encode() + b"\n")
    return found


def _kept_beside(out: Path) -> Path:
    return out.with_suffix(".json")


def _read_map(path: Path) -> ConditionalMap:
    from mcne.analysis.maps import ConditionalMap
    from mcne.errors import ArtifactError

    try:
        return ConditionalMap.from_json(path.read_text(encoding="utf-8"), source=str(path))
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path}: no text, so no map; give a run or the .json beside a map") from error


def _show_map(found: ConditionalMap) -> None:
    from rich.console import Console
    from rich.text import Text

    from mcne.cli.query import table

    console = Console()
    console.print(
        Text(f"{len(found.user_ids):,} users, perplexity {found.perplexity:g}, seed {found.seed}", style="bold")
    )
    for panel in found.panels:
        kept = "" if panel.kept_neighbors is None else f", {panel.kept_neighbors:.0%} of nearest users kept"
        console.print(Text(f"{panel.name}: trustworthiness {panel.trustworthiness:.4f}{kept}"))
    if found.separation is None:
        return
    draws = found.random_masks
    rows = [["vectors, learned masks", *_told([found.separation])], ["vectors, random masks", *_told(draws)]]
    rows += [[f"map, {panel.name}", *_told([panel.separation])] for panel in found.panels if panel.separation]
    console.print(table(["", "nearest of the same behavior", "silhouette"], rows))
    console.print(Text(f"random masks: as many ones in use, {len(draws)} draws, lowest to highest", style="dim"))


def _told(found: Sequence[Separation]) -> list[str]:
    """Both measures, as a range where there are several."""
    same, silhouette = sorted(each.same_group for each in found), sorted(each.silhouette for each in found)
    if len(found) == 1:
        return [f"{same[0]:.1%}", f"{silhouette[0]:.3f}"]
    return [f"{same[0]:.1%} … {same[-1]:.1%}", f"{silhouette[0]:.3f} … {silhouette[-1]:.3f}"]


def _curves(paths: Sequence[Path]) -> list[Curves]:
    """Of runs that are all joint."""
    from mcne.errors import UsageError
    from mcne.plots.curves import Curves
    from mcne.training import Run

    names = distinct_names(paths)
    opened = [Run.open(path) for path in paths]
    for run in opened:
        if run.spec.mode == "separate":
            raise UsageError(
                f"{run.path}: each behavior has a run of its own there; draw {run.path}/behaviors/0 and on"
            )
    pairs = zip(names, opened, strict=True)
    return [Curves.of(name, run.records, best_epoch=run.result["best_epoch"]) for name, run in pairs]
