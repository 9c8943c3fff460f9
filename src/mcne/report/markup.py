"""HTML from plain text: whatever is not made here is escaped, so that no name or id of the data can be markup."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

VOID = frozenset({"br", "img", "input", "meta"})
NEVER_ALLOWED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
"""Characters that no HTML text may have, escaped or not; a name of the data may."""

NO_VALUE = "–"
LONG = 24
"""Letters of a cell from which it needs room."""
MOST_LINES = 21
"""Of a table that stays open: as many as seven behaviors have pairs."""


class Html(str):
    """Text that is HTML already: made here, of parts that were escaped."""

    __slots__ = ()


@dataclass(frozen=True)
class Table:
    """Lines of cells under a head; the first cell of a line is its name. ``best`` marks cells by row and column."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: frozenset[int] = frozenset({0})
    best: frozenset[tuple[int, int]] = frozenset()


def escaped(text: str) -> Html:
    """Text as HTML; what is HTML already stays as it is."""
    if isinstance(text, Html):
        return text
    return Html(html.escape(NEVER_ALLOWED.sub("\ufffd", text)))


def joined(parts: Iterable[str]) -> Html:
    """Parts one after the other."""
    return Html("".join(map(escaped, parts)))


def element(tag: str, /, *children: str, **attributes: str) -> Html:
    """``<tag attributes>children</tag>``; an attribute's name may end in ``_``, and has ``-`` for other ``_``.

    An attribute without a value is there or not.
    """
    named = {key.rstrip("_").replace("_", "-"): escaped(value) for key, value in attributes.items()}
    opened = "".join([tag, *(f' {key}="{value}"' if value else f" {key}" for key, value in named.items())])
    return Html(f"<{opened}>" if tag in VOID else f"<{opened}>{joined(children)}</{tag}>")


def paragraph(*parts: str, class_: str = "") -> Html:
    """A paragraph."""
    return element("p", *parts, class_=class_) if class_ else element("p", *parts)


def listed(items: Iterable[str]) -> Html:
    """A list with a dot before every item."""
    return element("ul", *(element("li", item) for item in items))


def number(value: float | None, shown: str) -> Html:
    """A number as it is shown, with all its digits beside for whoever reads the page by program."""
    return escaped(NO_VALUE) if value is None else element("data", shown, value=repr(value))


def count(value: int) -> Html:
    """A whole number, by thousands."""
    return number(value, f"{value:,}")


def percent(value: float | None, digits: int = 1) -> Html:
    """A share in percent, without that sign; what rounds to nothing has no minus."""
    return number(value, "" if value is None else f"{100 * value:z.{digits}f}")


def with_interval(value: float | None, low: float, high: float, *, digits: int = 1) -> Html:
    """A share in percent over the interval that it lies in."""
    if value is None:
        return escaped(NO_VALUE)
    interval = element("span", percent(low, digits), " … ", percent(high, digits), class_="interval")
    return joined([percent(value, digits), " ", interval])


def side_by_side(tables: Iterable[Html]) -> Html:
    """Tables in one line where the page is wide enough."""
    return element("div", *tables, class_="pair")


def code(text: str) -> Html:
    """A hash, a setting or a command."""
    return element("code", text)


def table(made: Table) -> Html:
    """A table that scrolls in its own box where the page is narrow."""
    head = [_cell("th", text, ["text"] * (at in made.text_columns), scope="col") for at, text in enumerate(made.head)]
    lines = [element("tr", *_cells(made, at)) for at in range(len(made.rows))]
    inner = element(
        "table",
        element("caption", element("span", made.caption)),
        element("thead", element("tr", *head)),
        element("tbody", *lines),
    )
    return element("div", inner, class_="wide", role="group", tabindex="0", aria_label=made.caption)


def folded(made: Table) -> Html:
    """A table that is closed at first where it has so many lines that nobody would read on below it."""
    if len(made.rows) <= MOST_LINES:
        return table(made)
    return element("details", element("summary", f"{made.caption}: {len(made.rows)} lines"), table(made))


def _cells(made: Table, at: int) -> Iterable[Html]:
    first, *others = made.rows[at]
    yield _cell("th", first, ["text"], scope="row")
    for column, cell in enumerate(others, start=1):
        classes = ["text"] if column in made.text_columns else []
        yield _cell("td", cell, classes + ["best"] * ((at, column) in made.best))


def _cell(tag: str, text: str, classes: Sequence[str], **attributes: str) -> Html:
    """A cell; text that is long gets more room, for else it would stand a word to a line."""
    is_long = not isinstance(text, Html) and len(text) > LONG
    if named := " ".join([*classes, *(["long"] if is_long else [])]):
        attributes["class_"] = named
    return element(tag, text, **attributes)
