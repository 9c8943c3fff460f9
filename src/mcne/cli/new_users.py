"""``mcne embed-users``: users unknown in training; ``mcne compare-new-users``: how well such users are served."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcne.cli.query import RunPath
from mcne.cli.train import Devices, given_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from mcne.training.reporting import Reporter

METRICS = {"Recall@5": "recall@5", "NDCG@5": "ndcg@5", "Recall@20": "recall@20", "NDCG@20": "ndcg@20"}


def embed_users(
    run: RunPath,
    out: Annotated[Path, typer.Option("--out", help="A new directory for the embeddings of old and new users.")],
    links: Annotated[Path | None, typer.Option(help="A table: source_id (new), target_id (known).")] = None,
    history: Annotated[Path | None, typer.Option(help="A table: user_id, item_id, behavior.")] = None,
    attributes: Annotated[Path | None, typer.Option(help="A table: user_id and those of the training.")] = None,
) -> None:
    """Bring users into a trained network who were unknown in training; nothing is trained again.

    What comes out can be asked like a run. Of users who were known, every vector stays as it is.
    """
    from mcne.api import load
    from mcne.extend import embed_users as embed

    known = load(run)
    embeddings = embed(known, links=links, history=history, attributes=attributes)
    fingerprint = embeddings.save(out)
    typer.echo(f"{embeddings.n_users - known.n_users:,} new users beside {known.n_users:,}")
    typer.echo(f"saved {out} {fingerprint}")


def compare_new_users(
    data: Annotated[Path, typer.Option("--data", help="A prepared dataset.")],
    out: Annotated[Path, typer.Option("--out", help="The trial's directory; what is done there stays done.")],
    method: Annotated[str, typer.Option(help="mcne, mcne-a, mcne-f or mcne-plus.")] = "mcne",
    share: Annotated[float, typer.Option(help="Of all users, how many are held out.")] = 0.1,
    seeds: Annotated[int, typer.Option(min=1, help="How often, each time with other users.")] = 3,
    in_training: Annotated[
        bool, typer.Option("--in-training", help="Train with these users as well, to compare.")
    ] = False,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="One setting: learning_rate=0.01 (repeatable).", metavar="K=V")
    ] = None,
    device: Annotated[Devices, typer.Option(help="auto takes the GPU where there is one.")] = Devices.auto,
    as_json: Annotated[bool, typer.Option("--json", help="Print the data as JSON.")] = False,
) -> None:
    """Hold users out, train without them, then embed them from friends, from history and from both.

    Their test items are ranked against 100 random ones, beside popularity. Interrupted anywhere, the same command goes
    on; finished seeds are never trained again.
    """
    from rich.console import Console

    from mcne import training
    from mcne.cli.progress import shown
    from mcne.data.dataset import SocialDataset
    from mcne.studies.new_users import Trial
    from mcne.training.reporting import PlainReporter

    given = given_settings(config, setting or [])
    _, settings = training.settings_of(method, given)
    talk = Console(stderr=True)

    def reporting(title: str) -> AbstractContextManager[Reporter]:
        if talk.is_terminal:
            return shown(talk, title=title, epochs=settings.epochs)
        typer.echo(title, err=True)
        return nullcontext(PlainReporter(partial(typer.echo, err=True), epochs=settings.epochs))

    trial = Trial(method, given, share, in_training)
    dataset, chosen = SocialDataset.load(data), training.choose_device(device.value)
    summary = trial.run(dataset, out, seeds=seeds, device=chosen, reporting=reporting)
    if as_json:
        typer.echo(json.dumps(summary, indent=2, ensure_ascii=False))
        return
    _show(Console(), f"{method} on {dataset.name}", summary)


def _show(console: Console, title: str, summary: Mapping[str, Any]) -> None:
    """A line for every way, in percent, with the standard deviation over seeds."""
    from rich.text import Text

    from mcne.cli.query import table
    from mcne.text import percent_with_spread

    seeds = summary["seeds"]
    asked = ", ".join(f"{result['users']['asked']:,} of {result['users']['held_out']:,}" for result in seeds)
    console.print(Text(f"{title}: users held out of training, seeds: {len(seeds)}", style="bold"))
    console.print(Text(f"asked about {asked}; ranked with 100 random items that the user lacks; in percent"))
    rows = []
    for way, means in summary["mean"].items():
        spreads = [means[metric] for metric in METRICS.values()]
        rows.append([way, *(percent_with_spread(each["mean"] or 0, each["sd"], digits=2) for each in spreads)])
    console.print(table(["", *METRICS], rows))
