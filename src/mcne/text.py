"""Text for people: numbers, mean ± spread, and tables as terminal text, Markdown and HTML.

All HTML is built by :func:`element`, which escapes plain text: no name or id of the data can become markup.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

NO_VALUE = "–"
VOID = frozenset({"br", "img", "input", "meta"})  # elements that have no end tag
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
"""Characters that HTML text may not contain, even escaped; names in the data may contain them."""
LONG = 24  # cells with more characters than this get a wider column
MOST_ROWS = 21  # tables with more rows are folded; seven behaviors have 21 pairs

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 92rem; padding: 0 1rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: Canvas; }
td.best { font-weight: 700; background: var(--soft); }
"""
"""The style sheet of a page of tables."""


# Numbers as plain text


def percent(share: float | None, digits: int = 1) -> str:
    """``0.256`` → ``25.6``, without the percent sign; what rounds to zero has no minus sign."""
    return NO_VALUE if share is None else f"{100 * share:z.{digits}f}"


def signed_percent(difference: float | None, digits: int = 2) -> str:
    """``0.0123`` → ``+1.23``."""
    return NO_VALUE if difference is None else f"{100 * difference:+.{digits}f}"


def signed_interval(low: float, high: float, digits: int = 2) -> str:
    """``-0.01, 0.02`` → ``-1.00 … +2.00``, in percent."""
    return f"{signed_percent(low, digits)} … {signed_percent(high, digits)}"


def with_spread(mean: float | None, spread: float | None, digits: int = 2) -> str:
    """``1.25, 0.5`` → ``1.25 ± 0.50``; the mean alone if there is no spread, a dash if there is no mean."""
    if mean is None:
        return NO_VALUE
    return f"{mean:.{digits}f}" + ("" if spread is None else f" ± {spread:.{digits}f}")


def p_value(p: float, *, is_bound: bool = False, digits: int = 4) -> str:
    """``0.01234`` → ``0.0123``; a bound is rounded up: ``0.00032`` → ``< 0.0004``."""
    return f"< {math.ceil(p * 10_000) / 10_000:.4f}" if is_bound else f"{p:.{digits}f}"  # of bounds always four


def counted(count: int, noun: str) -> str:
    """``1 user``, ``2,000 users``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def human_bytes(size: float) -> str:
    """``1536`` → ``1.5 KiB``."""
    power = min(4, int(math.log(max(size, 1), 1024)))
    unit = ["B", "KiB", "MiB", "GiB", "TiB"][power]
    return f"{size / 1024**power:.{0 if power == 0 else 1}f} {unit}"


def printable(text: str) -> str:
    """Text with a space for each line break and control character, which a terminal would obey."""
    return text if text.isprintable() else "".join(each if each.isprintable() else " " for each in text)


def with_name(raw: object, name: str) -> str:
    """An id with its name for people, ``17 (Ann)``; without a name the id alone."""
    return printable(f"{raw} ({name})" if name else str(raw))


# HTML


class Html(str):
    """Text that is HTML already, built here from escaped parts."""

    __slots__ = ()


def escaped(text: str) -> Html:
    """Plain text as HTML; what is HTML already stays unchanged."""
    if isinstance(text, Html):
        return text
    return Html(html.escape(FORBIDDEN.sub("\ufffd", text)))


def joined(parts: Iterable[str]) -> Html:
    """Parts one after the other, plain text escaped."""
    return Html("".join(map(escaped, parts)))


def element(tag: str, /, *children: str, **attributes: str) -> Html:
    """``<tag attributes>children</tag>``.

    Attribute names may end in ``_`` and use ``_`` for ``-``. An attribute with an empty value is written without one.
    """
    named = {key.rstrip("_").replace("_", "-"): escaped(value) for key, value in attributes.items()}
    opened = "".join([tag, *(f' {key}="{value}"' if value else f" {key}" for key, value in named.items())])
    return Html(f"<{opened}>" if tag in VOID else f"<{opened}>{joined(children)}</{tag}>")


def paragraph(*parts: str, class_: str = "") -> Html:
    """A paragraph."""
    return element("p", *parts, class_=class_) if class_ else element("p", *parts)


def bullet_list(items: Iterable[str]) -> Html:
    """An unordered list."""
    return element("ul", *(element("li", item) for item in items))


def code(text: str) -> Html:
    """A hash, a setting or a command."""
    return element("code", text)


def side_by_side(parts: Iterable[Html]) -> Html:
    """Parts in one line if the page is wide enough."""
    return element("div", *parts, class_="pair")


# Numbers as HTML: shown rounded, with all digits in an attribute for programs that read the page


def data_cell(shown: str, value: float) -> Html:
    """A number as it is shown, with all its digits."""
    return element("data", shown, value=repr(value))


def number_cell(value: float | None, form: str) -> Html:
    """A number by a format specification, or a dash."""
    return escaped(NO_VALUE) if value is None else data_cell(f"{value:{form}}", value)


def count_cell(value: int) -> Html:
    """A whole number with thousands separators."""
    return number_cell(value, ",")


def percent_cell(share: float | None, digits: int = 1) -> Html:
    """A share in percent."""
    return escaped(NO_VALUE) if share is None else data_cell(percent(share, digits), share)


def interval_cell(mean: float | None, low: float, high: float, *, digits: int = 1) -> Html:
    """A mean in percent above its interval."""
    if mean is None:
        return escaped(NO_VALUE)
    interval = element("span", percent_cell(low, digits), " … ", percent_cell(high, digits), class_="interval")
    return joined([percent_cell(mean, digits), " ", interval])


def spread_cell(mean: float | None, spread: float | None, *, digits: int = 1) -> Html:
    """Mean ± spread in percent; the mean alone if there is no spread."""
    mean_only = percent_cell(mean, digits)
    return mean_only if spread is None else joined([mean_only, " ± ", percent_cell(spread, digits)])


# Tables


@dataclass(frozen=True)
class Table:
    """Rows of text cells under a header; the first cell of a row is its name.

    ``best`` marks cells by row and column; ``text_columns`` are left-aligned where the page aligns numbers right.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    best: frozenset[tuple[int, int]] = frozenset()
    text_columns: frozenset[int] = frozenset({0})

    def to_json(self) -> dict[str, Any]:
        """Plain data: what the table says."""
        content = {"title": self.title, "header": self.header, "rows": self.rows, "note": self.note}
        return content | {"best": sorted(self.best)}

    def lines(self) -> list[str]:
        """Header and rows for a terminal: aligned columns, two spaces apart."""
        cells = [list(map(printable, row)) for row in (self.header, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        padded = ([cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in cells)
        return ["  ".join(row).rstrip() for row in padded]

    def markdown(self) -> str:
        """A Markdown section; the best cells are bold."""
        lines = [f"### {self.title}", "", *([self.note, ""] if self.note else [])]
        lines += ["| " + " | ".join(self.header) + " |", "|" + "---|" * len(self.header)]
        for at, row in enumerate(self.rows):
            texts = [" ".join(cell.split()).replace("|", "\\|") for cell in row]  # a cell is one line, without bars
            cells = (f"**{cell}**" if (at, column) in self.best else cell for column, cell in enumerate(texts))
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines)

    def section(self) -> Html:
        """A section of a page of tables: title, note and table."""
        head = element("thead", element("tr", *(element("th", cell) for cell in self.header)))
        rows = (element("tr", *self._plain_cells(at)) for at in range(len(self.rows)))
        note = [paragraph(self.note)] if self.note else []
        box = element("div", element("table", head, element("tbody", *rows)), class_="wide")
        return element("section", element("h2", self.title), *note, box)

    def captioned(self) -> Html:
        """A table with a caption that scrolls in its own box if the page is narrow."""
        head = [
            _cell("th", cell, ["text"] * (at in self.text_columns), scope="col") for at, cell in enumerate(self.header)
        ]
        caption = element("caption", element("span", self.title))
        rows = (element("tr", *self._classed_cells(at)) for at in range(len(self.rows)))
        table = element("table", caption, element("thead", element("tr", *head)), element("tbody", *rows))
        return element("div", table, class_="wide", role="group", tabindex="0", aria_label=self.title)

    def folded(self) -> Html:
        """Like :meth:`captioned`, but collapsed at first if it is long."""
        if len(self.rows) <= MOST_ROWS:
            return self.captioned()
        return element("details", element("summary", f"{self.title}: {len(self.rows)} lines"), self.captioned())

    def _plain_cells(self, at: int) -> Iterator[Html]:
        for column, cell in enumerate(self.rows[at]):
            yield element("td", cell, class_="best") if (at, column) in self.best else element("td", cell)

    def _classed_cells(self, at: int) -> Iterator[Html]:
        name, *others = self.rows[at]
        yield _cell("th", name, ["text"], scope="row")
        for column, cell in enumerate(others, start=1):
            classes = ["text"] * (column in self.text_columns) + ["best"] * ((at, column) in self.best)
            yield _cell("td", cell, classes)


def markdown_page(title: str, about: Sequence[str], tables: Sequence[Table]) -> str:
    """A page of tables as Markdown."""
    return "\n\n".join([f"# {title}", *about, *(table.markdown() for table in tables)]) + "\n"


def html_page(title: str, about: Sequence[str], tables: Sequence[Table]) -> str:
    """A page of tables as one HTML file that needs no other."""
    charset = element("meta", charset="utf-8")
    viewport = element("meta", name="viewport", content="width=device-width")
    head = element("head", charset, element("title", title), viewport, element("style", Html(STYLE)))
    sections = (table.section() for table in tables)
    body = element("body", element("h1", title), *map(paragraph, about), *sections)
    return f"<!DOCTYPE html>{element('html', head, body, lang='en')}\n"


def _cell(tag: str, text: str, classes: Sequence[str], **attributes: str) -> Html:
    """A cell; long text gets a wider column, or it would wrap after every word."""
    is_long = not isinstance(text, Html) and len(text) > LONG
    if names := " ".join([*classes, *["long"] * is_long]):
        attributes["class_"] = names
    return element(tag, text, **attributes)
