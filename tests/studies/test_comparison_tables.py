"""Tables say what the cells hold, what was chosen and fixed, and what is missing."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.studies.small_plan import PLAN, opened
from tests.values import not_none

from mcne.evaluation import significance
from mcne.studies.comparison import Comparison
from mcne.studies.comparison_tables import ComparisonRow, summarize, tables, write
from mcne.studies.engine import Spread, merge
from mcne.text import Table, html_page, p_value


def row_of(comparison: Comparison, name: str) -> ComparisonRow:
    return next(row for row in summarize(comparison).rows if row.name == name)


def table_of(comparison: Comparison, title: str) -> Table:
    return next(table for table in tables(summarize(comparison)) if table.title == title)


def test_means_and_spreads_are_those_of_the_repetitions(finished: Comparison) -> None:
    row = row_of(finished, "bpr")
    values = [result["test"]["sampled"]["behaviors"]["Books"]["recall@5"] for result in row.results]
    spread = row.metric("sampled", "Books", "recall@5")
    assert spread is not None
    assert (spread.mean, spread.sd) == pytest.approx((np.mean(values), np.std(values, ddof=1)))
    assert Spread.of([None, 0.5]) == Spread(0.5, None)
    assert Spread.of([]) is None


def test_tables_say_what_the_cells_hold(finished: Comparison, tmp_path: Path) -> None:
    paths = write(summarize(finished), tmp_path)
    markdown, page, numbers = (path.read_text() for path in paths[:3])
    recall = row_of(finished, "bpr").metric("sampled", "Books", "recall@5")
    assert recall is not None
    shown = f"{100 * recall.mean:.1f} ± {100 * not_none(recall.sd):.1f}"
    assert shown in markdown
    assert shown in page
    assert "bpr against the others" in markdown
    assert "a budget of 4 configurations, chosen on the validation part" in markdown
    titles = [table["title"] for table in json.loads(numbers)]
    assert len(titles) == len(set(titles)) == 11
    assert page.count("<section>") == 11
    assert "http" not in page
    spread = row_of(finished, "bpr").metric("sampled", None, "recall@5")
    assert spread is not None
    (expected,) = table_of(finished, "Beside the figures that the plan expects").rows
    assert (expected[1], expected[3]) == ("9.0", f"{100 * spread.mean - 9:+.1f}")
    users = pq.read_table(paths[3])
    assert set(users["method"].to_pylist()) == {"popularity", "bpr"}
    mine = users.filter((pc.field("method") == "bpr") & (pc.field("behavior") == "Books"))
    weights, scores = (mine[name].to_numpy() for name in ("weight", "sampled recall@5"))
    assert weights @ scores == pytest.approx(recall.mean)


def test_the_papers_numbers_stand_beside_both_readings_of_each_metric(finished: Comparison) -> None:
    table = table_of(finished, "Beside the paper's numbers")
    cells = dict(zip(table.header, table.rows[0], strict=True))
    gaps = [cell for title, cell in zip(table.header, table.rows[0], strict=True) if title == "gap"]
    assert len(table.rows) == 1  # one behavior of one method is printed
    assert (cells["method"], cells["behavior"], cells["paper R@5"], cells["paper N@5"]) == (
        "bpr",
        "Books",
        "10.00",
        "12.50",
    )
    readings = {"recall@5": 10.0, "pooled_recall@5": 10.0, "hits_ideal_ndcg@5": 12.5, "ndcg@5": 12.5}
    for gap, (metric, printed) in zip(gaps, readings.items(), strict=True):
        spread = row_of(finished, "bpr").metric("sampled", "Books", metric)
        assert spread is not None
        assert cells[metric] == f"{100 * spread.mean:.1f} ± {100 * not_none(spread.sd):.1f}"
        assert gap == f"{100 * spread.mean - printed:+.1f}"
    assert cells["recall@5"] != cells["pooled_recall@5"]


def test_a_row_with_fewer_repetitions_says_so_and_is_never_best(copied: Comparison) -> None:
    shutil.rmtree(copied.directory(copied.repeated(copied.choose()["popularity"])[1]))
    assert row_of(copied, "popularity").label == "popularity (1 of 2 repetitions)"
    made = tables(summarize(copied))
    assert made[-1].rows == (("popularity", "1 of 2 repetitions not finished"),)
    assert "which is not finished" not in made[-1].note
    quality = made[0]
    assert quality.rows[0][0] == "popularity (1 of 2 repetitions)"
    assert {at for at, _ in quality.best} == {1}
    assert "**popularity" not in quality.markdown()
    assert not any("against the others" in table.title for table in made)


def test_costs_tell_what_was_chosen_what_is_fixed_and_how_long(finished: Comparison) -> None:
    table = table_of(finished, "Costs and choices")
    popularity, bpr = (dict(zip(table.header, row, strict=True)) for row in table.rows)
    best = finished.choose()["bpr"]
    assert bpr["chosen"] == f"{best.mode}, l2={best.given['l2']}"
    assert bpr["fixed"] == "width=4, batch_size=512"
    assert bpr["schedule"] == "2 epochs, patience 10"
    assert bpr["measured on"] == "cpu, one at a time"
    assert (popularity["chosen"], popularity["fixed"], popularity["schedule"]) == ("joint", "–", "no epochs")
    assert "side by side" in table.note


def test_a_list_that_is_not_searched_is_fixed(finished: Comparison) -> None:
    """Such as widths, which are no values of a set."""
    plan = finished.plan
    wide = {
        name: tuple(replace(each, given={**each.given, "widths": [8, 4]}) for each in candidates)
        for name, candidates in plan.candidates.items()
    }
    summary = summarize(finished)
    joint = next(each for each in wide["bpr"] if each.mode == "joint")
    row = summary.rows[1]
    row = ComparisonRow(**vars(row) | {"candidate": joint, "candidates": wide["bpr"]})
    object.__setattr__(row.candidate, "resolved", finished.choose()["bpr"].resolved)  # bpr itself has no widths
    changed = replace(summary, rows=(row,))
    costs = next(table for table in tables(changed) if table.title == "Costs and choices")
    assert "widths=[8, 4]" in costs.rows[0][costs.header.index("fixed")]


def test_tests_name_their_family_and_never_say_that_p_is_zero(finished: Comparison) -> None:
    table = next(table for table in tables(summarize(finished)) if "against the others" in table.title)
    assert "Holm's correction is over the 1 methods of this table" in table.note
    test = next(iter(summarize(finished).tests("sampled", "ndcg@5").values())).overall
    lowest = 2 / (1 + significance.RESAMPLES)
    bound = replace(test, p=lowest, adjusted_p=20 * lowest)
    assert p_value(bound.adjusted_p, is_bound=bound.is_bound) == "< 0.0040"
    known = replace(test, p=2 * lowest, adjusted_p=0.004)
    assert p_value(known.adjusted_p, is_bound=known.is_bound) == "0.0040"


def test_the_reference_must_be_finished_for_tests(finished: Comparison, plan: Path, data: Path, tmp_path: Path) -> None:
    plan.write_text(PLAN + "[methods.itemknn]\n")
    plan.write_text(plan.read_text().replace('reference = "bpr"', 'reference = "itemknn"'))
    comparison = opened(plan, data, tmp_path / "out", "bpr")
    merge(finished.out, comparison.out)
    made = tables(summarize(comparison))
    assert made[-1].rows == (("itemknn", "2 of 2 repetitions not finished"),)
    assert "tested against itemknn, which is not finished: there are no tests" in made[-1].note
    assert not any("against the others" in table.title for table in made)


class Outline(HTMLParser):
    """Tags that are open, and how many cells each row has."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.widths: list[int] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "meta":
            self.open.append(tag)
        if tag == "tr":
            self.widths.append(0)
        self.widths[-1:] = [self.widths[-1] + 1] if tag in ("td", "th") else self.widths[-1:]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_plan_without_search_says_so(finished: Comparison, tmp_path: Path) -> None:
    alone = {name: replace(each, modes=["joint"], search={}) for name, each in finished.plan.methods.items()}
    summary = summarize(finished)
    about = replace(summary, comparison=replace(finished, plan=replace(finished.plan, methods=alone)))
    assert "Settings are given and not searched; the test part is scored once." in write(about, tmp_path)[0].read_text()


def test_pages_are_whole_whatever_a_cell_says() -> None:
    odd = Table("a < b", ("m|n", "x"), (("one | two\nthree", "<b>1</b>"),), note="& so on", best=frozenset({(0, 1)}))
    assert odd.markdown().splitlines()[-1] == "| one \\| two three | **<b>1</b>** |"
    outline = Outline()
    page = html_page("a & b", ["<i>"], [odd, odd])
    outline.feed(page)
    assert (outline.open, outline.widths) == ([], [2, 2, 2, 2])
    assert '<td class="best">&lt;b&gt;1&lt;/b&gt;</td>' in page
