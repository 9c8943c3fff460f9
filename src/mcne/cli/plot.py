"""``mcne plot …``: figures drawn from saved results, without torch.

``--out`` is checked before anything is computed; then a command draws the figure and prints its numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from mcne.cli.options import AsJson, RunPath, existing_run
from mcne.cli.output import print_json, print_line, print_table
from mcne.errors import UsageError
from mcne.text import NO_VALUE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mcne.analysis.maps import ConditionalMap, Separation
    from mcne.analysis.masks import MaskNumbers
    from mcne.plots.curves import Curves

app = typer.Typer(help="Draw figures from saved results.", no_args_is_help=True)

ThemeName = Literal["light", "dark"]


def _checked_figure(path: Path) -> Path:
    """Refuse a file that no figure can be written to, before a long computation."""
    from mcne.plots import check_place

    check_place(path)
    return path


RunOrNumbers = Annotated[
    Path,
    Argument(
        help="A finished run, saved embeddings, or the .json file of such a figure, to redraw it.",
        metavar="RUN",
        is_eager=True,
        callback=existing_run,
    ),
]
Runs = Annotated[list[Path], Argument(help="Finished runs.", metavar="RUN…")]
SweepPath = Annotated[Path, Argument(help="The directory of a sweep.", metavar="DIR")]
StructurePath = Annotated[Path, Argument(help="The directory of mcne structure.", metavar="DIR")]
Beside = Annotated[Path | None, Option(help="Another run, such as one of mcne-f, to draw on the left.")]
FigureOut = Annotated[Path, Option("--out", help="A new file: .png, .svg or .pdf.", callback=_checked_figure)]
Theme = Annotated[ThemeName, Option("--theme", help="The background to draw for.")]


@app.command()
def masks(run: RunPath, out: FigureOut, beside: Beside = None, theme: Theme = "light", as_json: AsJson = False) -> None:
    """Draw the masks: the last level per behavior, density, overlap against chance, and changes during training."""
    numbers = _mask_numbers(run)
    other = None if beside is None else _mask_numbers(beside)

    from mcne.plots.masks import draw_masks  # imports matplotlib, so mistakes above are reported first

    content = numbers.to_json() | ({} if other is None else {"beside": other.to_json()})
    _finish(partial(draw_masks, numbers, beside=other), out, theme, as_json, content, partial(_show_masks, numbers))


@app.command("map")
def map_users(
    run: RunOrNumbers,
    out: FigureOut,
    users: Annotated[int | None, Option(help="Number of random users; default: 1,000, or all if fewer.")] = None,
    seed: Annotated[int | None, Option(min=0, help="Seed of the sampled users and the map; default: 0.")] = None,
    aligned: Annotated[bool, Option("--aligned", help="Draw one map per behavior, of the same users.")] = False,
    theme: Theme = "light",
    as_json: AsJson = False,
) -> None:
    """Draw users on a t-SNE map: all conditional vectors together, or with --aligned one map per behavior.

    The numbers are saved beside the figure as .json; give that file in place of RUN to redraw it.
    """
    from mcne.api.methods import load_embeddings

    kept = None
    if run.is_file():
        if users is not None or seed is not None or aligned:
            raise UsageError(
                "is a computed map, and --users, --seed and --aligned need a run",
                run,
                "omit these options, or give a run",
            )
        from mcne.analysis.maps import ConditionalMap

        users_map = ConditionalMap.read(run)
    else:
        _check_beside(out)
        embeddings = load_embeddings(run)

        from mcne.analysis.maps import conditional_map  # imports scipy, so mistakes above are reported first

        layout: Literal["aligned", "together"] = "aligned" if aligned else "together"
        users_map = conditional_map(embeddings, n_users=users, seed=seed or 0, layout=layout)
        kept = users_map.to_json()

    from mcne.plots.maps import draw_map  # imports matplotlib, so mistakes above are reported first

    figure = partial(draw_map, users_map)
    _finish(figure, out, theme, as_json, users_map.numbers(), partial(_show_map, users_map), kept)


@app.command()
def curves(runs: Runs, out: FigureOut, theme: Theme = "light", as_json: AsJson = False) -> None:
    """Draw learning curves: the loss of each behavior and the validation NDCG@5, with the best epoch marked."""
    from mcne.training import Run

    names = _distinct_names(runs)
    opened = [Run.open(path) for path in runs]
    for run in opened:
        if parts := run.spec.parts:
            each = "behavior" if run.spec.mode == "separate" else "member"
            raise UsageError(f"has one run per {each}", run.path, f"draw {run.path}/{parts}/0 and so on")

    from mcne.plots.curves import Curves, draw_curves  # imports matplotlib, so mistakes above are reported first

    pairs = zip(names, opened, strict=True)
    all_curves = [Curves.of(name, run.records, best_epoch=run.result["best_epoch"]) for name, run in pairs]
    content = {"runs": [asdict(each) for each in all_curves]}
    _finish(partial(draw_curves, all_curves), out, theme, as_json, content, partial(_show_curves, all_curves))


@app.command("sweep")
def plot_sweep(directory: SweepPath, out: FigureOut, theme: Theme = "light", as_json: AsJson = False) -> None:
    """Draw quality on every behavior and seconds per epoch over the values of a sweep."""
    from mcne.plots import sweep as figure

    results = figure.read(directory)
    _finish(partial(figure.draw, results), out, theme, as_json, results, lambda: typer.echo(figure.caption(results)))


@app.command("ablation")
def plot_ablation(
    comparisons: Annotated[list[Path], Argument(help="Finished comparisons.", metavar="DIR…")],
    out: FigureOut,
    rows: Annotated[str, Option(help="Rows of the plans, separated by commas without spaces.")] = "mcne-f,mcne-a,mcne",
    reference: Annotated[str | None, Option(help="The row to test the others against; default: the last one.")] = None,
    theme: Theme = "light",
    as_json: AsJson = False,
) -> None:
    """Draw variants of a method side by side, with each difference from the full method and its p-value."""
    from mcne.plots import ablation as figure

    names = re.split(r",(?! )", rows)  # a row's own name may have a comma with a space
    against = names[-1] if reference is None else reference
    figure.check_rows(names, against)
    titles = zip(comparisons, _distinct_names(comparisons), strict=True)
    ablations = [figure.Ablation.read(each, names, reference=against, name=title) for each, title in titles]
    content = [each.to_json() for each in ablations]
    lines = [*figure.lines(ablations), figure.caption(ablations)]
    _finish(partial(figure.draw, ablations), out, theme, as_json, content, lambda: typer.echo("\n".join(lines)))


@app.command("structure")
def plot_structure(directory: StructurePath, out: FigureOut, theme: Theme = "light", as_json: AsJson = False) -> None:
    """Draw how well held-out links are predicted, by method and behavior."""
    from mcne.plots.structure import draw_structure, read

    results = read(directory)
    _finish(partial(draw_structure, results), out, theme, as_json, results)


@app.command()
def attention(
    run: RunOrNumbers,
    out: FigureOut,
    user: Annotated[str | None, Option(help="A user's id: draw this user's links. Default: the whole network.")] = None,
    other: Annotated[str | None, Option(help="Another user's id: draw the link between the two.")] = None,
    draws: Annotated[
        int | None,
        Option(
            min=2,
            help="For the whole network: how many random ablations to compare with; default: 20.",
        ),
    ] = None,
    seed: Annotated[int | None, Option(min=0, help="Seed of communities and draws; default: 0.")] = None,
    theme: Theme = "light",
    as_json: AsJson = False,
) -> None:
    """Draw the attention over behaviors: of a link, of a user's links, or of the whole network.

    For a network, it also shows which behaviors hold its communities together, and how far the weights can be trusted:
    what changes without the most attended behaviors or links. The numbers are saved beside the figure as .json; give
    that file in place of RUN to redraw it.
    """
    from mcne.analysis.attention import read_attention

    kept = None
    if run.is_file():
        if (user, other, draws, seed) != (None,) * 4:
            raise UsageError(
                "contains computed numbers, and --user, --other, --draws and --seed need a run",
                run,
                "omit these options, or give a run",
            )
        numbers = read_attention(run)
    else:
        _check_beside(out)
        numbers = kept = _attention_numbers(run, user, other, draws=draws, seed=seed)

    from mcne.plots.attention import draw_attention  # imports matplotlib, so mistakes above are reported first

    figure = partial(draw_attention, numbers)
    _finish(figure, out, theme, as_json, numbers, partial(_show_attention, numbers), kept)


def _finish(
    draw: Callable[..., Figure],
    out: Path,
    theme: ThemeName,
    as_json: bool,
    numbers: object,
    show: Callable[[], None] = lambda: None,
    kept: Mapping[str, Any] | None = None,
) -> None:
    """Draw a figure, write it, and print its numbers: as JSON, or for a person by ``show``.

    What is ``kept`` is written first, beside the figure: from that it can be drawn again.
    """
    from mcne.files import write_new
    from mcne.plots.style import note_on_boxes, save, styled

    beside = out.with_suffix(".json")
    if kept is not None:
        write_new(beside, json.dumps(kept, ensure_ascii=False, allow_nan=False).encode() + b"\n")
    with styled(theme) as letters:
        save(draw(theme=theme), out)
    if letters:
        typer.echo(note_on_boxes(letters), err=True)
    if as_json:
        print_json(numbers)
        return
    show()
    typer.echo(f"saved {out}" if kept is None else f"saved {out} and {beside}")


def _check_beside(out: Path) -> None:
    """Refuse a figure whose numbers cannot be kept beside it."""
    from mcne.files import check_new

    check_new(out.with_suffix(".json"), option="--out, or give it in place of the run to draw it again")


def _distinct_names(paths: Sequence[Path]) -> list[str]:
    """Names of directories, or whole paths if names repeat; refused if a directory repeats."""
    resolved = [path.resolve() for path in paths]
    for at, path in enumerate(resolved):
        if path in resolved[:at]:
            raise UsageError.of_path("is given twice", paths[at], "name each directory once")
    short = [path.name for path in resolved]
    return short if len(set(short)) == len(short) else [str(path) for path in paths]


def _mask_numbers(path: Path) -> MaskNumbers:
    """Of a run with its training, of saved embeddings without."""
    from mcne.analysis.masks import mask_numbers
    from mcne.api.methods import load_embeddings as load
    from mcne.training import SPEC, Run

    if not (path / SPEC).is_file():
        return mask_numbers(load(path))
    run = Run.open(path)
    return mask_numbers(run.embeddings, run.records, best_epoch=run.result["best_epoch"] or None)


def _attention_numbers(
    run: Path, user: str | None, other: str | None, *, draws: int | None, seed: int | None
) -> dict[str, Any]:
    """The numbers of a link, a user or the network."""
    from mcne.analysis.attention import of_link, of_network, of_user
    from mcne.analysis.faithfulness import faithfulness
    from mcne.api.methods import load_embeddings as load

    if user is None and other is not None:
        raise UsageError("needs --user, the other end of the link", f"--other {other}", "add --user", value=other)
    if user is not None and (draws is not None or seed is not None):
        raise UsageError(
            "--draws and --seed are for the network, not for one user",
            f"--user {user}",
            "omit them, or omit --user",
            value=user,
        )
    embeddings = load(run)
    if user is not None:
        return of_user(embeddings, user) if other is None else of_link(embeddings, user, other)
    network = of_network(embeddings, seed=seed or 0)
    typer.echo("leaving out parts of messages …", err=True)
    return network | {"faithfulness": faithfulness(embeddings, seed=seed or 0, draws=draws or 20)}


def _show_masks(numbers: MaskNumbers) -> None:
    for level in numbers.levels:
        used = sum(level.used)
        print_line(f"level {level.level}: {level.width} dimensions, {used} of them not zero for every user", "bold")
        print_line("ones: " + ", ".join(f"{name} {share:.0%}" for name, share in level.density.items()))
        rows = []
        for pair in level.overlaps_in_use:
            shared = f"{pair.shared} ({pair.chance:.1f})"
            jaccard = f"{pair.jaccard:.2f} ({pair.chance_jaccard:.2f})"
            rows.append([f"{pair.first}, {pair.second}", shared, jaccard, f"{pair.p:.3f}", f"{pair.holm_p:.3f}"])
        print_table(["dimensions in use", "shared (chance)", "Jaccard (chance)", "p", "p (Holm)"], rows)
    if numbers.training:
        last = numbers.training[-1]
        mean = last.flips / numbers.entries
        print_line(f"entries turned over {last.flips:,} times in {last.epoch} epochs, each {mean:.2f} times on average")


def _show_map(users_map: ConditionalMap) -> None:
    about = f"{len(users_map.user_ids):,} users, perplexity {users_map.perplexity:g}, seed {users_map.seed}"
    print_line(about, "bold")
    for panel in users_map.panels:
        kept = "" if panel.kept_neighbors is None else f", {panel.kept_neighbors:.0%} of nearest users kept"
        print_line(f"{panel.name}: trustworthiness {panel.trustworthiness:.4f}{kept}")
    if users_map.separation is None:
        return
    draws = users_map.random_masks
    rows = [
        ["vectors, learned masks", *_separation([users_map.separation])],
        ["vectors, random masks", *_separation(draws)],
    ]
    rows += [[f"map, {panel.name}", *_separation([panel.separation])] for panel in users_map.panels if panel.separation]
    print_table(["", "nearest of the same behavior", "silhouette"], rows)
    print_line(f"random masks: as many ones in use, {len(draws)} draws, lowest to highest", "dim")


def _show_curves(all_curves: Sequence[Curves]) -> None:
    for run in all_curves:
        quality = "" if run.best is None else f"best in epoch {run.best_epoch}, validation NDCG@5 {run.best:.4f}"
        typer.echo(f"{run.name}: {len(run.epochs)} epochs, {quality or 'not validated'}")


def _separation(measured: Sequence[Separation]) -> list[str]:
    """Both measures, as a range if there are several."""
    same = sorted(each.same_group for each in measured)
    silhouette = sorted(each.silhouette for each in measured)
    if len(measured) == 1:
        return [f"{same[0]:.1%}", f"{silhouette[0]:.3f}"]
    return [f"{same[0]:.1%} … {same[-1]:.1%}", f"{silhouette[0]:.3f} … {silhouette[-1]:.3f}"]


def _show_attention(numbers: Mapping[str, Any]) -> None:
    from mcne.analysis.attention import user_label

    if numbers["of"] == "network":
        _show_network(numbers)
    elif numbers["of"] == "user":
        heard = [(f"hears {user_label(link, 'sender')}", link["weights"]) for link in numbers["unusual"]]
        sent = [("sends, mean", numbers["sends"])] if numbers["sends"] else []
        lines = [("hears, mean", numbers["hears"]), *sent, *heard]
        rows = [
            [name, str(layer + 1), *_weights(weights[layer])]
            for layer in range(len(numbers["hears"]))
            for name, weights in lines
        ]
        head = f"user {user_label(numbers, 'user')}, {numbers['links']:,} links"
        print_table([head, "layer", *numbers["behaviors"]], rows)
    else:
        rows = [
            [f"{user_label(message, 'sender')} → {user_label(message, 'receiver')}", str(layer), *_weights(weights)]
            for message in numbers["messages"]
            for layer, weights in enumerate(message["attention"], start=1)
        ]
        print_table(["message", "layer", *numbers["behaviors"]], rows)
    print_line(f"all alike would be {numbers['even']:.3f}", "dim")


def _show_network(numbers: Mapping[str, Any]) -> None:
    for number, layer in enumerate(numbers["layers"], start=1):
        print_line(f"layer {number}: {numbers['messages']:,} messages, entropy {layer['entropy']:.3f} of 1", "bold")
        rows = [
            [each["behavior"], f"{each['mean']:.3f}", f"{each['deviation']:.3f}", f"{each['first']:.0%}"]
            for each in layer["spread"]
        ]
        print_table(["", "mean weight", "deviation", "weighs most in"], rows)
    about = f"modularity {numbers['modularity']:.2f}, seed {numbers['seed']}"
    print_line(f"communities ({about}), mean weights of the last layer", "bold")
    rows = [
        [f"{each['number'] + 1}: {each['users']:,} users", f"{each['messages']:,}", *_weights(each["weights"][-1])]
        for each in numbers["communities"]
    ]
    if numbers["between"]:
        rows.append(["between them", f"{numbers['between_messages']:,}", *_weights(numbers["between"][-1])])
    print_table(["", "messages", *numbers["behaviors"]], rows)
    print_line("change without what weighs or adds most or least, in multiples of chance", "bold")
    rows = []
    for each in numbers["faithfulness"]["findings"]:
        left_out = f"{each['part']}, against {each['chance']}"
        rows.append([left_out, each["measure"], _ratio(each["ratio"]), _ratio(each["least_ratio"])])
    print_table(["left out", "change of", "most", "least"], rows, left=("change of",))


def _weights(weights: list[float]) -> list[str]:
    return [f"{weight:.3f}" for weight in weights]


def _ratio(ratio: Mapping[str, float | None]) -> str:
    return NO_VALUE if ratio["value"] is None else f"{ratio['value']:.2f} ({ratio['low']:.2f}–{ratio['high']:.2f})"
