"""``mcne plot attention``: how behaviors are weighed along links. Needs no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from mcne.cli.plot import AsJson, Out, ThemeName, Themes, draw, print_json


def attention(
    run: Annotated[
        Path, typer.Argument(help="A finished run, saved embeddings, or the .json of a figure to draw again.")
    ],
    out: Out,
    user: Annotated[str | None, typer.Option("--user", help="A user's id: its links. Without: the network.")] = None,
    other: Annotated[str | None, typer.Option("--other", help="Another user's id: the link between both.")] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Of a network: how often chance leaves parts of messages out to compare with.",
            show_default="20",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seeds communities and chance.", show_default="0")] = None,
    theme: ThemeName = Themes.light,
    as_json: AsJson = False,
) -> None:
    """How the behaviors are weighed: along a link, along a user's links, or over the network.

    Of a network, also which behaviors hold its communities together, and whether the weights can be believed: what
    changes without the most attended behaviors or links. The numbers are kept beside the figure as .json: give that in
    place of RUN to draw it again.
    """
    from mcne.errors import UsageError
    from mcne.files import write_new
    from mcne.plots.attention import draw_attention
    from mcne.plots.style import check_place

    check_place(out)
    beside = out.with_suffix(".json")
    if run.is_file():
        if (user, other, draws, seed) != (None,) * 4:
            raise UsageError(
                f"{run}: holds computed numbers; --user, --other, --draws and --seed need a run: leave out"
            )
        found = _read(run)
    else:
        if beside.exists():
            raise UsageError(
                f"{beside}: is there already, and nothing is ever replaced; give it in place of the run to draw it "
                "again, or choose another --out"
            )
        found = _found(run, user, other, draws=draws, seed=seed)
        write_new(beside, json.dumps(found, ensure_ascii=False, allow_nan=False).encode() + b"\n")
    draw(lambda: draw_attention(found, theme=theme.value), out, theme=theme)
    if as_json:
        print_json(found)
        return
    _show(found)
    typer.echo(f"saved {out}" if run.is_file() else f"saved {out} and {beside}")


def _found(run: Path, user: str | None, other: str | None, *, draws: int | None, seed: int | None) -> dict[str, Any]:
    """The numbers of what was asked for."""
    from mcne.analysis.attention import of_link, of_network, of_user
    from mcne.analysis.faithfulness import faithfulness
    from mcne.api import load
    from mcne.errors import UsageError

    if user is None and other is not None:
        raise UsageError(f"--other {other}: --user is needed too, for the other end of the link")
    if user is not None and (draws is not None or seed is not None):
        raise UsageError("--draws and --seed are for a network: leave them out, or leave out --user")
    embeddings = load(run)
    if user is not None:
        return (of_user(embeddings, user) if other is None else of_link(embeddings, user, other)).to_json()
    network = of_network(embeddings, seed=seed or 0).to_json()
    typer.echo("leaving out parts of messages …", err=True)
    return network | {"faithfulness": faithfulness(embeddings, seed=seed or 0, draws=draws or 20).to_json()}


def _read(path: Path) -> dict[str, Any]:
    """The numbers kept beside a figure."""
    from mcne.analysis.attention import LinkAttention, NetworkAttention, UserAttention
    from mcne.errors import ArtifactError

    kinds = {"link": LinkAttention, "user": UserAttention, "network": NetworkAttention}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict) or found.get("of") not in kinds:
            raise ValueError("no attention of a link, a user or a network")
        needed = {"even", *(field.name for field in fields(kinds[found["of"]]))}
        needed |= {"faithfulness"} if found["of"] == "network" else set()
        if missing := needed - set(found):
            raise ValueError(f"damaged (no {', '.join(sorted(missing))})")
    except ValueError as error:
        raise ArtifactError(f"{path}: {error}; give a run, or the .json beside such a figure") from error
    return found


def _show(found: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    {"link": _show_link, "user": _show_user, "network": _show_network}[found["of"]](found, console)
    console.print(Text(f"all alike would be {found['even']:.3f}", style="dim"))


def _show_link(found: Mapping[str, Any], console: Any) -> None:
    from mcne.cli.query import table

    rows = [
        [f"{message['sender_id']} → {message['receiver_id']}", str(layer), *_weights(weights)]
        for message in found["messages"]
        for layer, weights in enumerate(message["attention"], start=1)
    ]
    console.print(table(["message", "layer", *found["behaviors"]], rows))


def _show_user(found: Mapping[str, Any], console: Any) -> None:
    from mcne.cli.query import table

    rows = []
    for layer in range(len(found["hears"])):
        for name in ("hears", "sends"):
            rows.append([f"{name}, mean", str(layer + 1), *_weights(found[name][layer])])
        rows += [
            [f"hears {link['sender_id']}", str(layer + 1), *_weights(link["weights"][layer])]
            for link in found["unusual"]
        ]
    console.print(table([f"user {found['user_id']}, {found['links']:,} links", "layer", *found["behaviors"]], rows))


def _show_network(found: Mapping[str, Any], console: Any) -> None:
    from rich.text import Text

    from mcne.cli.query import table

    for number, layer in enumerate(found["layers"], start=1):
        head = f"layer {number}: {found['links']:,} messages, entropy {layer['entropy']:.3f} of 1"
        console.print(Text(head, style="bold"))
        rows = [
            [each["behavior"], f"{each['mean']:.3f}", f"{each['deviation']:.3f}", f"{each['first']:.0%}"]
            for each in layer["spread"]
        ]
        console.print(table(["", "mean weight", "deviation", "weighs most in"], rows))
    last = len(found["layers"]) - 1
    rows = [
        [f"{each['number'] + 1}: {each['users']:,} users", f"{each['links']:,}", *_weights(each["weights"][last])]
        for each in found["communities"]
    ]
    rows += [["between them", f"{found['between_links']:,}", *_weights(found["between"][last])]] * bool(
        found["between"]
    )
    head = f"communities (modularity {found['modularity']:.2f}, seed {found['seed']}), mean weights of the last layer"
    console.print(Text(head, style="bold"))
    console.print(table(["", "links", *found["behaviors"]], rows))
    head = "change without what weighs or adds most or least, in multiples of chance"
    console.print(Text(head, style="bold"))
    rows = [
        [
            f"{each['part']}, against {each['chance']}",
            each["measure"],
            _ratio(each["ratio"]),
            _ratio(each["least_ratio"]),
        ]
        for each in found["faithfulness"]["findings"]
    ]
    console.print(table(["left out", "change of", "most", "least"], rows, left=("change of",)))


def _weights(weights: list[float]) -> list[str]:
    return [f"{weight:.3f}" for weight in weights]


def _ratio(ratio: Mapping[str, float | None]) -> str:
    return "–" if ratio["value"] is None else f"{ratio['value']:.2f} ({ratio['low']:.2f}–{ratio['high']:.2f})"
