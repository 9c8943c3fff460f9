"""Numbers, HTML and tables: nothing of the data becomes markup, and numbers keep all their digits."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.report_reader import ReportReader

from mcne import text
from mcne.text import FORBIDDEN, Table, element, escaped, human_bytes, joined

TABLE = Table("A & B", ["name", "n"], [["x|y", "1"], ["z\nw", "20"]], note="a < b", best=frozenset({(1, 1)}))


class Texts(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (5 << 20, "5.0 MiB"),
        (1 << 60, "1048576.0 TiB"),
    ],
)
def test_human_bytes(size: int, shown: str) -> None:
    assert human_bytes(size) == shown


def test_plain_numbers() -> None:
    assert [text.percent(value) for value in (0.256, -0.0004, None)] == ["25.6", "0.0", "–"]
    assert text.percent(1 / 3, 2) == "33.33"
    assert [text.signed_percent(value) for value in (0.0123, -0.5, None)] == ["+1.23", "-50.00", "–"]
    assert [text.p_value(0.01234), text.p_value(0.00032, is_bound=True)] == ["0.0123", "< 0.0004"]
    assert text.p_value(0.5, digits=2) == "0.50"
    assert text.signed_interval(-0.01, 0.02) == "-1.00 … +2.00"


def test_mean_and_spread() -> None:
    assert text.with_spread(1.25, 0.5) == "1.25 ± 0.50"
    assert text.with_spread(1.25, None) == "1.25"
    assert text.with_spread(None, None) == "–"


@given(st.text())
def test_any_text_is_read_back_as_text_and_as_attribute(given_text: str) -> None:
    allowed = FORBIDDEN.sub("\ufffd", given_text)
    read = Texts(element("p", given_text, title=f"x{given_text}"))
    assert read.text == allowed
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
    assert text.percent_cell(1 / 3) == f'<data value="{1 / 3!r}">33.3</data>'
    assert text.percent_cell(None) == text.number_cell(None, ".1f") == "–"
    assert [Texts(text.percent_cell(value)).text for value in (-0.0, -0.0004, -0.004)] == ["0.0", "0.0", "-0.4"]
    assert text.count_cell(12345) == '<data value="12345">12,345</data>'
    assert text.number_cell(0.125, "+.2f") == '<data value="0.125">+0.12</data>'
    assert Texts(text.interval_cell(0.25, 0.2, 0.3001, digits=2)).text == "25.00 20.00 … 30.01"
    assert text.interval_cell(None, 0.0, 0.0) == "–"
    assert [Texts(text.spread_cell(0.25, sd)).text for sd in (0.01, None)] == ["25.0 ± 1.0", "25.0"]


def test_a_table_in_a_terminal_is_aligned() -> None:
    assert Table("", ["name", "n"], [["x", "1"], ["longer", "20"]]).lines() == ["name    n", "x       1", "longer  20"]


def test_a_table_as_markdown_has_one_line_per_row_and_bold_best_cells() -> None:
    assert TABLE.markdown().splitlines() == [
        *("### A & B", "", "a < b", "", "| name | n |", "|---|---|"),
        *("| x\\|y | 1 |", "| z w | **20** |"),
    ]


def test_a_page_of_tables_is_one_escaped_file() -> None:
    page = text.html_page("T & U", ["about <b>"], [TABLE])
    assert page.startswith('<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>T &amp; U</title>')
    assert page.endswith("</section></body></html>\n")
    assert "<body><h1>T &amp; U</h1><p>about &lt;b&gt;</p><section><h2>A &amp; B</h2><p>a &lt; b</p>" in page
    assert '<tr><td>z\nw</td><td class="best">20</td></tr>' in page
    assert text.markdown_page("T", ["about"], [TABLE]) == f"# T\n\nabout\n\n{TABLE.markdown()}\n"


def test_plain_data_of_a_table() -> None:
    content = {"title": "A & B", "header": ["name", "n"], "rows": TABLE.rows, "note": "a < b", "best": [(1, 1)]}
    assert TABLE.to_json() == content


def test_tables_name_their_lines_columns_and_best_cells() -> None:
    table = Table(
        "A & B", ["name", "n", "note"], [["x", "1", "y"]], best=frozenset({(0, 1)}), text_columns=frozenset({0, 2})
    )
    page = ReportReader(table.captioned())
    assert page.tables["A & B"].column("n")["x"].text == "1"
    heads = [each["scope"] for each in page.all_of("th")]
    assert heads == ["col", "col", "col", "row"]
    assert [each.get("class") for each in page.all_of("td")] == ["best", "text"]
    assert page.all_of("div")[0]["aria-label"] == "A & B"


def test_a_long_table_is_closed_and_holds_every_line() -> None:
    rows = [[f"{at} <b>", str(at)] for at in range(22)]
    read = ReportReader(Table("Pairs & more", ["name", "n"], rows).folded())
    assert read.text.startswith("Pairs & more: 22 lines")
    assert [row[0].text for row in read.tables["Pairs & more"].rows[1:]] == [row[0] for row in rows]
    assert len(read.all_of("details")) == 1
    assert not ReportReader(Table("few", ["name", "n"], rows[:21]).folded()).all_of("details")


def test_long_text_gets_room_and_markup_does_not_count() -> None:
    table = Table("t", ["name", "h" * 25], [["n" * 24, text.number_cell(1 / 3, ".1f")]])
    elements = ReportReader(table.captioned()).elements
    assert [attributes.get("class") for tag, attributes in elements if tag in ("th", "td")] == [
        "text",
        "long",
        "text",
        None,
    ]
