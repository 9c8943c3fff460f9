"""``mcne evaluate | recommend | similar | explain | export``: what a finished run can be asked. None needs torch.

Names and ids of the data are printed as :class:`Text`, never as markup. With ``--json`` the data alone is on stdout.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from mcne.embeddings.artifact import ConditionalEmbeddings
    from mcne.embeddings.explanation import Explanation, Likeness
    from mcne.embeddings.ranking import Ranking

RunPath = Annotated[Path, typer.Argument(help="A finished run, or saved embeddings.", metavar="RUN")]
User = Annotated[str, typer.Option("--user", help="A user's id.")]
BehaviorName = Annotated[str, typer.Option("--behavior", help="A behavior's name.")]
K = Annotated[int, typer.Option("-k", help="How many.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the data as JSON.")]

METRICS = {
    "Recall": "recall",
    "NDCG": "ndcg",
    "HitRate": "hit_rate",
    "MRR": "mrr",
    "pooled\nRecall": "pooled_recall",
    "hits-ideal\nNDCG": "hits_ideal_ndcg",
}
FOR_COMPARISON = "pooled Recall and hits-ideal NDCG are there to compare with the paper's tables"


class Protocols(StrEnum):
    """What test items are ranked against."""

    sampled = "sampled"
    full = "full"
    popular = "popular"


class VectorFormats(StrEnum):
    """What embeddings can be exported to."""

    parquet = "parquet"
    npz = "npz"
    word2vec = "word2vec"


def evaluate(
    run: Annotated[Path, typer.Argument(help="A finished run.", metavar="RUN")],
    protocol: Annotated[Protocols, typer.Option(help="What test items are ranked against.")] = Protocols.sampled,
    as_json: AsJson = False,
) -> None:
    """How well a run ranks the test part of its split."""
    from mcne.evaluation.protocol import evaluate as measure
    from mcne.training import Run

    opened = Run.open(run)
    dataset, split = opened.data()
    summary = measure(opened.scorer(dataset, split), dataset, split, part="test", protocol=protocol.value).summary()
    if as_json:
        _print_json(summary)
        return
    from rich.console import Console
    from rich.text import Text

    from mcne.data.negatives import COUNT

    against = {"sampled": f"{COUNT} random items", "popular": f"{COUNT} items drawn by popularity", "full": "all items"}
    console = Console()
    console.print(Text(f"{opened.spec.method} on {dataset.name}, test part of {opened.places['split']}", style="bold"))
    console.print(Text(f"ranked with {against[protocol.value]} that the user lacks; in percent"))
    console.print(metric_table(summary))
    console.print(Text(FOR_COMPARISON, style="dim"))


def recommend(run: RunPath, user: User, behavior: BehaviorName, k: K = 10, as_json: AsJson = False) -> None:
    """The items of a behavior that suit a user best, without those the user has."""
    embeddings = _load(run)
    found = embeddings.recommend(user, behavior, k=k)
    user_id = embeddings.users[embeddings.users.row(user, what="user")]
    if as_json:
        items = [{"item_id": item, "score": score} for item, score in found]
        _print_json({"user_id": user_id, "behavior": behavior, "items": items})
        return
    _show_ranking(f"{behavior} for user {user_id}", "item", found)
    if len(found) < k:
        space = embeddings.space(behavior)
        seen = len(space.seen(embeddings.users.row(user_id)))
        typer.echo(f"no more: {behavior} has {len(space.items):,} items, user {user_id} has {seen:,} of them", err=True)


def similar(
    run: RunPath,
    user: User,
    behavior: Annotated[str | None, typer.Option("--behavior", help="Without: in the whole vector.")] = None,
    k: K = 10,
    as_json: AsJson = False,
) -> None:
    """The users most similar to a user on a behavior, by the inner product that training works on."""
    embeddings = _load(run)
    found = embeddings.similar_users(user, behavior, k=k)
    user_id = embeddings.users[embeddings.users.row(user, what="user")]
    if as_json:
        users = [{"user_id": other, "score": score} for other, score in found]
        _print_json({"user_id": user_id, "behavior": behavior, "users": users})
        return
    _show_ranking(f"similar to user {user_id} on {behavior or 'the whole vector'}", "user", found)
    if len(found) < k:
        typer.echo(f"no more: the network has {embeddings.n_users:,} users", err=True)


def explain(
    run: RunPath,
    user: User,
    other: Annotated[str, typer.Option("--other", help="Another user's id.")],
    as_json: AsJson = False,
) -> None:
    """Why two users are connected or alike: attention, similarity, dimensions, common friends and items."""
    found = _load(run).explain(user, other)
    if as_json:
        _print_json(found.to_json())
        return
    from rich.console import Console

    show_explanation(Console(), found)


def export(
    run: RunPath,
    out: Annotated[Path, typer.Option("--out", help="A new directory.")],
    file_format: Annotated[VectorFormats, typer.Option("--format", help="What to write.")],
) -> None:
    """Write vectors, masks and items for other programs."""
    for file in _load(run).export(out, file_format.value):
        typer.echo(str(file))


def metric_table(summary: Mapping[str, Any]) -> Table:
    """Every metric in percent: a line per behavior and cutoff, and below them the mean over behaviors."""
    from mcne.text import percent

    cutoffs = [name.partition("@")[2] for name in summary["mean"] if name.startswith("recall@")]
    rows = []
    for name, means in [*summary["behaviors"].items(), ("mean", summary["mean"])]:
        for at, cutoff in enumerate(cutoffs):
            users = f"{means['users']:,}" if "users" in means and not at else ""
            values = [percent(means[f"{metric}@{cutoff}"], 2) for metric in METRICS.values()]
            rows.append([name if not at else "", users, f"@{cutoff}", *values])
    return table(["", "users", "at", *METRICS], rows)


def show_explanation(console: Console, found: Explanation) -> None:
    """An explanation for a person, in tables that wrap."""
    from rich.text import Text

    linked = "linked" if found.linked else "not linked"
    console.print(Text(f"users {found.user_id} and {found.other_id} are {linked}", style="bold"))
    console.print(Text(f"common friends: {found.common_friends}"))
    if found.messages:
        rows = [
            [f"{message.sender_id} → {message.receiver_id}" if layer == 1 else "", str(layer)]
            + [f"{weight:.3f}" for weight in weights]
            for message in found.messages
            for layer, weights in enumerate(message.attention, start=1)
        ]
        console.print(Text("\nAttention: what counts in the messages along the link", style="italic"))
        console.print(table(["", "layer", *found.attention_on], rows))
        heard = (
            f"{message.receiver_id} hears {message.sender_id} as one of {round(1 / message.share):,}"
            for message in found.messages
        )
        console.print(Text("; ".join(heard), style="dim"))
    if found.remark:
        console.print(Text(found.remark))
    rows = [[on.behavior, *_likeness(on.likeness), str(on.common_items)] for on in found.behaviors]
    rows.append(["whole vector", *_likeness(found.whole), ""])
    console.print(Text("\nSimilarity, the dimensions that make it, and items that both have", style="italic"))
    console.print(
        table(["", "product", "cosine", "dimensions", "common items"], rows, left=("dimensions", "common items"))
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: Sequence[str] = ()) -> Table:
    """Names on the left, right-aligned numbers beside them, no lines; whatever is too wide is folded."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False)
    for at, head in enumerate(heads):
        made.add_column(Text(head), justify="left" if not at or head in left else "right", overflow="fold")
    for row in rows:
        made.add_row(*map(Text, row))
    return made


def _likeness(likeness: Likeness) -> list[str]:
    dimensions = ", ".join(f"{part.dimension} ({part.value:+.1g})" for part in likeness.dimensions[:3])
    return [f"{likeness.inner_product:.3g}", f"{likeness.cosine:.3f}", dimensions]


def _show_ranking(title: str, kind: str, found: Ranking) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    console.print(Text(title, style="bold"))
    rows = [[str(place), str(raw), f"{score:.4f}"] for place, (raw, score) in enumerate(found, start=1)]
    if rows:
        console.print(table(["", kind, "score"], rows, left=(kind,)))


def _load(run: Path) -> ConditionalEmbeddings:
    from mcne.api import load

    return load(run)


def _print_json(data: Mapping[str, Any]) -> None:
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
