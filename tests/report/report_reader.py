"""A page read back: its tables with every number, headings, images, and whatever is wrong with its tags."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import html5lib
from tests.values import not_none

VOID = {"br", "img", "input", "meta"}
HEADINGS = {"h1", "h2", "h3", "h4"}
LARGEST = 2_000_000


@dataclass
class Cell:
    text: str = ""
    numbers: list[tuple[float, str]] = field(default_factory=list)  # all digits, and what is shown


@dataclass
class ReadTable:
    caption: str = ""
    rows: list[list[Cell]] = field(default_factory=list)  # the head first

    def column(self, head: str) -> dict[str, Cell]:
        """By the name of the line."""
        at = [cell.text for cell in self.rows[0]].index(head)
        return {row[0].text: row[at] for row in self.rows[1:]}


class ReportReader(HTMLParser):
    """Reads a page whose every element must be closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[tuple[str, str]] = []
        self.tables: dict[str, ReadTable] = {}
        self.text = ""
        self._table = ReadTable()
        self._data: float | None = None
        self.feed(page)
        self.close()
        assert self.open == [], self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), (tag, attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag in HEADINGS:
            self.headings.append((tag, ""))
        if tag == "table":
            self._table = ReadTable()
        if tag == "tr":
            self._table.rows.append([])
        if tag in {"td", "th"}:
            self._table.rows[-1].append(Cell())
        if tag == "data":
            self._data = float(dict(attrs)["value"] or "nan")
            self._cell().numbers.append((self._data, ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag == "table":
            assert self._table.caption not in self.tables, self._table.caption
            self.tables[self._table.caption] = self._table
        if tag == "data":
            self._data = None

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open and self.open[-1] in HEADINGS:
            self.headings[-1] = (self.headings[-1][0], self.headings[-1][1] + data)
        if "caption" in self.open:
            self._table.caption += data
        if {"td", "th"} & set(self.open):
            self._cell().text += data
        if self._data is not None:
            self._cell().numbers[-1] = (self._data, data)

    def _cell(self) -> Cell:
        inside = {"td", "th"} & set(self.open)
        return self._table.rows[-1][-1] if inside else Cell(numbers=[(0.0, "")])

    def all_of(self, tag: str) -> list[dict[str, Any]]:
        """The attributes of every element of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]


def checked_page(text: str) -> ReportReader:
    """What every page must be: whole, self-contained, without scripts, and usable without eyes or with a keyboard.

    A strict parser finds nothing wrong with it either.
    """
    html5lib.HTMLParser(strict=True).parse(text)
    page = ReportReader(text)
    assert len(text.encode()) <= LARGEST
    names = {tag for tag, _ in page.elements}
    assert not names & {"script", "iframe", "object", "embed", "link", "base", "form"}
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        for name in ("src", "href"):
            target = not_none(attributes.get(name, "#"))
            assert target.startswith(("data:image/", "#")), (tag, target[:60])
    style = text[text.index("<style>") : text.index("</style>")]
    assert not re.search(r"url\(|@import|//", style)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {link["href"][1:] for link in page.all_of("a")} <= set(ids)
    assert page.all_of("html") == [{"lang": "en"}]
    assert any(meta.get("name") == "viewport" for meta in page.all_of("meta"))
    policy = next(meta["content"] for meta in page.all_of("meta") if "http-equiv" in meta)
    assert policy.startswith("default-src 'none'")
    assert "script" not in policy
    levels = [int(tag[1]) for tag, _ in page.headings]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert all(text.strip() for _, text in page.headings)
    assert all(len(image["alt"]) > 20 for image in page.all_of("img"))
    assert len(page.tables) == len(page.all_of("caption")) == len(page.all_of("table"))
    assert all(len(row) == len(each.rows[0]) for each in page.tables.values() for row in each.rows)
    assert all(head.get("scope") in ("row", "col") for head in page.all_of("th"))
    return page
