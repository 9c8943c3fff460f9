"""``mcne data describe`` for a person: tables and small plots that fit a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.columns import Columns
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

BAR_WIDTH = 16
EIGHTHS = " ▏▎▍▌▋▊▉█"


def show(description: Mapping[str, Any], console: Console | None = None) -> None:
    """Print what :func:`mcne.data.describe.describe` found."""
    console = console or Console(highlight=False)
    about = f"{description['users']:,} users, {description['links']:,} link directions"
    about += " with weights" if description["weighted"] else ""
    console.print(Text.assemble((str(description["name"]), "bold"), f"  {about}"))
    console.print(f"[dim]{description['fingerprint']}[/dim]")
    for key, said in (
        ("users_without_links", "users without a link"),
        ("users_without_records", "users without any record (cold)"),
        ("self_links", "links to oneself"),
    ):
        if description[key]:
            console.print(f"{description[key]:,} {said}")
    if description["attributes"]:
        console.print(f"attributes: {', '.join(description['attributes'])}")
    console.print(Padding(_behaviors(description), (1, 0)))
    plots = [_plot("Links per user", description["degree"])]
    plots += [_plot(f"{b['name']}: records per item", b["popularity"]) for b in description["behaviors"]]
    console.print(Columns(plots, padding=(1, 4)))
    if description["overlap"]:
        console.print(Padding(_overlap(description), (1, 0)))
    for name, split in description["splits"].items():
        console.print(_split(name, split))


def _behaviors(description: Mapping[str, Any]) -> Table:
    table = _table("Behaviors", "items", "interactions", "users", "cold users", "density", "seen once", "timed")
    for behavior in description["behaviors"]:
        table.add_row(
            behavior["name"],
            f"{behavior['items']:,}",
            f"{behavior['interactions']:,}",
            f"{behavior['users']:,}",
            f"{behavior['cold_user_share']:.1%}",
            f"{behavior['density']:.4%}",
            f"{behavior['single_record_item_share']:.1%}",
            "yes" if behavior["timestamps"] else "no",
        )
    return table


def _table(title: str, *heads: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    for head in heads:
        table.add_column(head, justify="right")
    return table


def _plot(title: str, distribution: Mapping[str, Any]) -> Table:
    """A histogram over 0, 1, 2–3, 4–7, … with bars of eighths of a character."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, show_header=False)
    table.add_column(justify="right")
    table.add_column(width=BAR_WIDTH, no_wrap=True)
    table.add_column(justify="right")
    most = max((row["count"] for row in distribution["histogram"]), default=1)
    for row in distribution["histogram"]:
        label = f"{row['from']:,}" if row["from"] == row["to"] else f"{row['from']:,}–{row['to']:,}"
        table.add_row(label, Text(bar(row["count"] / max(most, 1)), style="cyan"), f"{row['count']:,}")
    median, top = distribution["median"], distribution["top_tenth_share"]
    table.caption = f"median {median:g}, top 10 % hold {top:.0%}"
    table.caption_justify = "left"
    return table


def bar(share: float, width: int = BAR_WIDTH) -> str:
    """A bar of this share of ``width`` characters; anything above nothing shows."""
    eighths = max(round(share * width * 8), 1) if share > 0 else 0
    return "█" * (eighths // 8) + (EIGHTHS[eighths % 8] if eighths % 8 else "")


def _overlap(description: Mapping[str, Any]) -> Table:
    names = [behavior["name"] for behavior in description["behaviors"]]
    shared = {frozenset(pair["behaviors"]): pair for pair in description["overlap"]}
    table = _table("Users with both (share of users with either)", *names[1:])
    for a, name in enumerate(names[:-1]):
        cells = [shared[frozenset((name, other))] if b > a else None for b, other in enumerate(names) if b]
        table.add_row(name, *(f"{cell['users']:,} ({cell['share']:.0%})" if cell else "" for cell in cells))
    return table


def _split(name: str, split: Mapping[str, Any]) -> Table:
    settings = ", ".join(f"{key} {value}" for key, value in split["settings"].items())
    title = f"Split {name} ({settings}) {split['fingerprint'][:12]}"
    table = _table(title, "train", "validation", "test", "test users", "new to it", "on new items")
    for behavior in split["behaviors"]:
        table.add_row(
            behavior["name"],
            *(f"{behavior[part]:,}" for part in ("train", "validation", "test", "test_users")),
            f"{behavior['test_users_without_training']:.1%}",
            f"{behavior['test_on_untrained_items']:.1%}",
        )
    return table
