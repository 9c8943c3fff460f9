"""Nothing of the data becomes markup, and numbers keep all their digits."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.report_reader import ReportReader

from mcne.report.markup import NEVER_ALLOWED, Table, count, element, escaped, folded, joined, number, percent, table
from mcne.report.markup import with_interval as interval


class Texts(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found, self.tags = "", []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.found += data


@given(st.text())
def test_any_text_is_read_back_as_text_and_as_attribute(text: str) -> None:
    allowed = NEVER_ALLOWED.sub("\ufffd", text)
    read = Texts(element("p", text, title=f"x{text}"))
    assert read.found == allowed
    assert read.tags == [("p", {"title": f"x{allowed}"})]


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\x7f", "\x85", "\ud800", "\uffff"])
def test_characters_that_no_page_may_have_are_replaced(character: str) -> None:
    assert escaped(f"a{character}b") == "a\ufffdb"
    escaped(f"a{character}b").encode()


def test_html_is_not_escaped_twice_and_plain_parts_are() -> None:
    bold = element("b", "1 < 2")
    assert joined([bold, " & ", bold]) == "<b>1 &lt; 2</b> &amp; <b>1 &lt; 2</b>"
    assert element("input", checked="", aria_label='"') == '<input checked aria-label="&quot;">'


def test_numbers_are_shown_short_and_kept_whole() -> None:
    assert percent(1 / 3) == f'<data value="{1 / 3!r}">33.3</data>'
    assert percent(None) == number(None, "") == "–"
    assert [Texts(percent(value)).found for value in (-0.0, -0.0004, -0.004)] == ["0.0", "0.0", "-0.4"]
    assert count(12345) == '<data value="12345">12,345</data>'
    shown = Texts(interval(0.25, 0.2, 0.3001, digits=2)).found
    assert shown == "25.00 20.00 … 30.01"
    assert interval(None, 0.0, 0.0) == "–"


def test_tables_name_their_lines_columns_and_best_cells() -> None:
    made = table(Table("A & B", ["name", "n", "note"], [["x", "1", "y"]], frozenset({0, 2}), frozenset({(0, 1)})))
    page = ReportReader(made)
    assert page.tables["A & B"].column("n")["x"].text == "1"
    heads = [each["scope"] for each in page.all_of("th")]
    assert heads == ["col", "col", "col", "row"]
    assert [each.get("class") for each in page.all_of("td")] == ["best", "text"]
    assert page.all_of("div")[0]["aria-label"] == "A & B"


def test_a_long_table_is_closed_and_holds_every_line() -> None:
    rows = [[f"{at} <b>", str(at)] for at in range(22)]
    read = ReportReader(folded(Table("Pairs & more", ["name", "n"], rows)))
    assert read.text.startswith("Pairs & more: 22 lines")
    assert [row[0].text for row in read.tables["Pairs & more"].rows[1:]] == [row[0] for row in rows]
    assert len(read.all_of("details")) == 1
    assert not ReportReader(folded(Table("few", ["name", "n"], rows[:21]))).all_of("details")


def test_long_text_gets_room_and_markup_does_not_count() -> None:
    made = table(Table("t", ["name", "h" * 25], [["n" * 24, number(1 / 3, "0.3")]]))
    classes = [attributes.get("class") for tag, attributes in ReportReader(made).elements if tag in ("th", "td")]
    assert classes == ["text", "long", "text", None]
