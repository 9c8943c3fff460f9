"""Printing: JSON for programs; lines, tables and small plots for people.

Names and ids of the data are printed as :class:`Text`, never as markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer
from rich.cells import cell_len
from rich.columns import Columns
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mcne.text import NO_VALUE, printable, with_spread

BAR_WIDTH = 16
GAP = 2
EIGHTHS = " ▏▎▍▌▋▊▉█"

# head of a column -> what it shows, and in which format
BEHAVIOR_COLUMNS = {
    "items": ("items", ","),
    "interactions": ("interactions", ","),
    "users": ("users", ","),
    "cold users": ("cold_user_share", ".1%"),
    "density": ("density", ".4%"),
    "seen once": ("single_record_item_share", ".1%"),
}
SPLIT_COLUMNS = {
    "train": ("train", ","),
    "validation": ("validation", ","),
    "test": ("test", ","),
    "test users": ("test_users", ","),
    "new to it": ("test_users_without_training", ".1%"),
    "on new items": ("test_on_untrained_items", ".1%"),
}


def print_json(data: Any) -> None:
    """The result alone on stdout; control characters in names and ids are escaped."""
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)
    typer.echo(re.sub("[\x7f-\x9f]", lambda each: f"\\u{ord(each[0]):04x}", text))


def print_line(line: str, style: str = "") -> None:
    """A line that wraps at the width of the terminal."""
    Console().print(_text(line, style))


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: Sequence[str] = ()) -> None:
    """Names on the left, right-aligned numbers beside them, no lines; cells that are too wide are folded.

    ``left`` names further columns that are left-aligned.
    """
    grid = Table(box=None, pad_edge=False)
    for at, head in enumerate(heads):
        grid.add_column(_text(head), justify="left" if not at or head in left else "right", overflow="fold")
    for row in rows:
        grid.add_row(*map(_text, row))
    Console().print(grid)


def _text(text: str, style: str = "") -> Text:
    """Text that is never markup; of control characters only line breaks are obeyed."""
    return Text("\n".join(map(printable, text.split("\n"))), style=style)


def labeled(facts: Iterable[tuple[str, str]]) -> Table:
    """Names, dim, and what there is to say of each."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="dim")
    for name, fact in facts:
        grid.add_row(name, Text(fact))
    return grid


def print_description(description: Mapping[str, Any], console: Console | None = None) -> None:
    """What :func:`mcne.data.describe.describe` found, in tables and small plots that fit the terminal.

    Nothing is cut off: a table that is too wide for the terminal is printed as several, one below the other.
    """
    console = console or Console()
    directed = "directed " if description["directed"] else ""
    about = f"{description['users']:,} users, {description['links']:,} {directed}links"
    about += " with weights" if description["weighted"] else ""
    console.print(Text.assemble((str(description["name"]), "bold"), f"  {about}"))
    console.print(Text(description["fingerprint"], style="dim"))
    for key, meaning in (
        ("users_without_links", "users without a link"),
        ("users_without_records", "users without any record (cold)"),
        ("self_links", "links to oneself"),
    ):
        if description[key]:
            console.print(Text(f"{description[key]:,} {meaning}"))
    if "user_names" in description:
        console.print(Text(f"{description['user_names']:,} users with a name"))
    if description["attributes"]:
        console.print(Text(f"attributes: {', '.join(description['attributes'])}"))
    behaviors = description["behaviors"]
    for behavior in behaviors:
        if "item_attributes" in behavior:
            listed = ", ".join(behavior["item_attributes"])
            console.print(Text(f"attributes of items of {behavior['name']}: {listed}"))
    names = [behavior["name"] for behavior in behaviors]
    timed = {"timed": ["yes" if behavior["timestamps"] else "no" for behavior in behaviors]}
    _print(console, "Behaviors", names, _formatted(behaviors, BEHAVIOR_COLUMNS) | timed)
    if beside := _optional(behaviors):
        _print(console, "Beside the records", names, beside)
    if any(behavior["likeness"]["links"] for behavior in behaviors):
        _print(console, "Friends beside any two users (mean cosine of their items)", names, _likeness(behaviors))
    console.print()
    plots = [_plot("Followed per user" if directed else "Links per user", description["degree"])]
    plots += [_plot("Followers per user", description["followers"])] if directed else []
    plots += [_plot(f"{behavior['name']}: records per item", behavior["popularity"]) for behavior in behaviors]
    console.print(Columns(plots, padding=(1, 4)))
    if pairs := description["overlap"]:
        shared = {tuple(pair["behaviors"]): f"{pair['users']:,} ({pair['share']:.0%})" for pair in pairs}
        upper_half = {other: [shared.get((name, other), "") for name in names] for other in names[1:]}
        _print(console, "Users with both (share of users with either)", names, upper_half)
    for name, split in description["splits"].items():
        settings = ", ".join(f"{key} {value}" for key, value in split["settings"].items())
        title = f"Split {name} ({settings}) {split['fingerprint'][:12]}"
        _print(console, title, names, _formatted(split["behaviors"], SPLIT_COLUMNS))


def bar(share: float, width: int = BAR_WIDTH) -> str:
    """A bar of this share of ``width`` characters; anything above nothing shows."""
    eighths = max(round(share * width * 8), 1) if share > 0 else 0
    return "█" * (eighths // 8) + (EIGHTHS[eighths % 8] if eighths % 8 else "")


def _formatted(behaviors: Sequence[Mapping[str, Any]], columns: Mapping[str, tuple[str, str]]) -> dict[str, list[str]]:
    return {head: [f"{behavior[key]:{form}}" for behavior in behaviors] for head, (key, form) in columns.items()}


def _optional(behaviors: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """What some of the behaviors have beside their records."""
    columns = {}
    if any("ratings" in behavior for behavior in behaviors):
        for head, key in (("lowest rating", "min"), ("median", "median"), ("highest", "max")):
            columns[head] = [f"{b['ratings'][key]:g}" if "ratings" in b else NO_VALUE for b in behaviors]
    for head, key in (("known only", "known_pairs"), ("named items", "item_names")):
        if any(key in behavior for behavior in behaviors):
            columns[head] = [f"{behavior.get(key, 0):,}" for behavior in behaviors]
    return columns


def _likeness(behaviors: Sequence[Mapping[str, Any]]) -> dict[str, Sequence[str]]:
    """How alike friends are, and how many of the links that count were compared if not all."""
    rows = []
    for alike in (behavior["likeness"] for behavior in behaviors):
        cosines = [NO_VALUE if value is None else f"{value:#.2g}" for value in (alike["friends"], alike["chance"])]
        sample = "" if alike["compared"] == alike["links"] else f"{alike['compared']:,} of "
        rows.append([*cosines, with_spread(alike["ratio"], alike["ratio_error"]), f"{sample}{alike['links']:,}"])
    return dict(zip(("friends", "any two", "times as alike", "links"), zip(*rows, strict=True), strict=True))


def _print(console: Console, title: str, names: Sequence[str], columns: Mapping[str, Sequence[str]]) -> None:
    """Columns by their heads, beside the names, in as many blocks as the width asks for, without empty lines."""
    console.print()
    console.print(Text(title, style="italic"))
    first = min(max(map(cell_len, names)), console.width // 3)
    for widths in _blocks(columns, first, console.width):
        table = Table(box=None, pad_edge=False)
        table.add_column(width=first, overflow="fold")
        for head, width in widths.items():
            table.add_column(Text(head), width=width, justify="right", overflow="fold")
        for name, *line in zip(names, *(columns[head] for head in widths), strict=True):
            if any(line):
                table.add_row(Text(name), *line)
        console.print(table)


def _blocks(columns: Mapping[str, Sequence[str]], first: int, width: int) -> list[dict[str, int]]:
    """Columns that fit side by side, with their widths; heads are broken into words only where space is short."""
    widest = width - first - GAP
    longest = {head: max(map(cell_len, cells)) for head, cells in columns.items()}
    widths = {head: max(longest[head], cell_len(head)) for head in columns}
    if first + sum(GAP + wide for wide in widths.values()) > width:
        widths = {head: min(widest, max([longest[head], *map(cell_len, head.split())])) for head in columns}
    blocks: list[dict[str, int]] = [{}]
    for head, wide in widths.items():
        if blocks[-1] and first + sum(GAP + other for other in [*blocks[-1].values(), wide]) > width:
            blocks.append({})
        blocks[-1][head] = wide
    return blocks


def _plot(title: str, distribution: Mapping[str, Any]) -> Table:
    """A histogram over 0, 1, 2–3, 4–7, … with bars of eighths of a character."""
    table = Table(title=Text(title, overflow="fold"), title_justify="left", box=None, pad_edge=False, show_header=False)
    table.add_column(justify="right")
    table.add_column(width=BAR_WIDTH, no_wrap=True)
    table.add_column(justify="right")
    most = max((row["count"] for row in distribution["histogram"]), default=1)
    for row in distribution["histogram"]:
        label = f"{row['from']:,}" if row["from"] == row["to"] else f"{row['from']:,}–{row['to']:,}"
        table.add_row(label, Text(bar(row["count"] / max(most, 1)), style="cyan"), f"{row['count']:,}")
    table.caption = f"median {distribution['median']:g}, top 10 % hold {distribution['top_tenth_share']:.0%}"
    table.caption_justify = "left"
    return table
