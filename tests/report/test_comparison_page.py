"""The report of a comparison: every cell of its tables, means and intervals of its users, and what is damaged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.errors import refused
from tests.report.report_reader import ReportReader, checked_page

from mcne.errors import ArtifactError, DataError, UsageError
from mcne.evaluation.metrics import HEADLINE
from mcne.evaluation.significance import BehaviorScores, UserScores, compare
from mcne.report import comparison_page
from mcne.report import page as report_page
from mcne.report.comparison_page import report_of_comparison
from mcne.report.writing import report_of
from mcne.studies.comparison import Comparison, Plan
from mcne.studies.comparison_tables import summarize, write


@pytest.fixture(scope="session")
def page(compared: Path) -> ReportReader:
    return checked_page(report_of_comparison(compared).html())


@pytest.fixture
def copied(compared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A comparison of its own, whose figures are not rendered."""
    monkeypatch.setattr(report_page, "to_svg", lambda _figure: "<svg/>")
    return Path(shutil.copytree(compared, tmp_path / "copied"))


def test_every_cell_of_every_table_is_there(page: ReportReader, compared: Path) -> None:
    tables = json.loads((compared / "table.json").read_text())
    assert len(tables) > 5
    for made in tables:
        rows = [[cell.text for cell in row] for row in page.tables[made["title"]].rows]
        assert rows == [made["header"], *made["rows"]]


def test_means_are_those_of_the_tables_and_of_the_users(page: ReportReader, compared: Path) -> None:
    users = pq.read_table(compared / "users.parquet")
    tables = {made["title"]: made for made in json.loads((compared / "table.json").read_text())}
    printed = tables["Against 100 random items of the behavior (the paper's protocol)"]
    for short, (metric, title) in zip(("R@5", "N@5"), HEADLINE.items(), strict=True):
        for row in printed["rows"]:
            for place in ("Books", "Movies", "mean"):
                (mean, shown), *_ = page.tables[f"{title} against 100 random items"].column(place)[row[0]].numbers
                assert row[printed["header"].index(f"{place} {short}")].startswith(f"{100 * mean:.1f} ±")
                assert float(shown) == pytest.approx(100 * mean, abs=0.05)
                if place != "mean":
                    mine = users.filter((pc.field("method") == row[0]) & (pc.field("behavior") == place))
                    weights, scores = (mine[name].to_numpy() for name in ("weight", f"sampled {metric}"))
                    assert mean == pytest.approx(weights @ scores, abs=1e-12)


def test_intervals_are_those_of_a_bootstrap_of_one_method_alone(page: ReportReader, compared: Path) -> None:
    users = pq.read_table(compared / "users.parquet")
    behaviors, nothing = {}, {}
    for name in ("Books", "Movies"):
        mine = users.filter((pc.field("method") == "bpr") & (pc.field("behavior") == name))
        rows, weights, scores = (mine[key].to_numpy() for key in ("user", "weight", "full ndcg@5"))
        behaviors[name] = BehaviorScores(rows, weights, scores)
        nothing[name] = BehaviorScores(rows, weights, 0 * scores)
    subject = ("test", "full", "ndcg@5")
    alone = compare(UserScores(subject, behaviors), {"nothing": UserScores(subject, nothing)})["nothing"].overall
    shown = [number for number, _ in page.tables["NDCG@5 against all items"].column("mean")["bpr"].numbers]
    assert shown == pytest.approx([alone.difference, alone.low, alone.high], abs=1e-12)


def test_the_page_is_named_and_says_how_it_was_made(page: ReportReader) -> None:
    assert page.headings[0] == ("h1", "Two <b>methods</b>")
    assert "2 repetitions, split random" in page.text
    assert "name it by --data" in page.text
    titles = [text for tag, text in page.headings if tag == "h2"]
    assert titles == [
        "At a glance",
        "Against 100 random items",
        "Against all items",
        "Tables",
        "Data",
        "How to read this page",
        "Fingerprints",
    ]


def test_its_dataset_is_shown_where_it_is_given_and_another_refused(copied: Path, plain: Path, evil: Path) -> None:
    page = checked_page(report_of_comparison(copied, data=plain.parent / "network").html())
    assert set(page.tables["Behaviors"].column("items")) == {"Books", "Movies"}
    with refused(ArtifactError, place="network", about="comparison"):
        report_of_comparison(copied, data=evil.parent / "network")


def test_a_sweep_on_the_same_data_is_shown_and_another_refused(copied: Path, tmp_path: Path) -> None:
    spread = {"mean": 0.25, "sd": 0.01}
    metrics = {"recall@5": spread, "ndcg@5": {"mean": 0.125, "sd": None}}
    point = {"behaviors": {"Books": metrics, "Movies": metrics}, "mean": metrics, "epoch_seconds": spread}
    point |= {"finished": 2, "lacks": None, "measured_on": ["cpu, 1 side by side"]}
    fingerprint = json.loads((copied / "data.json").read_text())["dataset"]
    numbers = {
        "title": "mcne: sensitivity to l2",
        "method": "mcne",
        "repetitions": 2,
        "paper": "",
        "dataset": {"name": "synthetic", "fingerprint": fingerprint},
        "behaviors": ["Books", "Movies"],
        "curves": [{"setting": "l2", "points": [point | {"value": 0.01}, point | {"value": 0.1}]}],
    }
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "sweep.json").write_text(json.dumps(numbers))
    report = report_of_comparison(copied, sweeps=[tmp_path / "sweep"])
    table = checked_page(report.html()).tables["l2: test part, mean over behaviors ± standard deviation, percent"]
    assert [cell.text for cell in table.rows[1]] == ["0.01", "25.0 ± 1.0", "12.5", "0.25"]
    assert [drawing.name for drawing in report.drawings][-1] == "sensitivity-1"
    numbers["dataset"] = {"name": "other", "fingerprint": "0" * 64}
    (tmp_path / "sweep" / "sweep.json").write_text(json.dumps(numbers))
    with refused(UsageError, place="sweep", about="dataset"):
        report_of_comparison(copied, sweeps=[tmp_path / "sweep"])


def test_with_its_variants_the_ablation_is_drawn(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison_page, "VARIANTS", ("popularity", "bpr"))
    assert "ablation" in [drawing.name for drawing in report_of_comparison(copied).drawings]


@pytest.mark.parametrize("name", ["table.md", "users.parquet", "data.json"])
def test_a_missing_or_damaged_file_is_named(name: str, copied: Path) -> None:
    (copied / name).write_bytes(b"\xff{")
    with pytest.raises(ArtifactError, match=rf"{name}: is missing or damaged .*mcne compare … --table"):
        report_of_comparison(copied)
    (copied / name).unlink()
    with pytest.raises(ArtifactError, match=rf"{name}: is missing or damaged"):
        report_of_comparison(copied)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("table.json", "[{}]"),
        ("table.json", "7"),
        ("table.json", '[{"title": "t", "note": "", "best": [], "header": ["a", "b"], "rows": [["a"]]}]'),
        ("data.json", "{}"),
        ("data.json", "[]"),
    ],
)
def test_a_file_that_lacks_what_the_page_shows_is_named(name: str, text: str, copied: Path) -> None:
    (copied / name).write_text(text)
    with pytest.raises(ArtifactError, match=rf"{name}: is missing or damaged .*mcne compare … --table"):
        report_of_comparison(copied)


def test_a_method_that_lacks_a_repetition_is_named_at_the_top(copied: Path, compared: Path, plain: Path) -> None:
    (lost,) = (copied / "cells").glob("bpr-r1-*")
    shutil.rmtree(lost)
    plan = Plan.read(compared.parent / "plan.toml")
    write(summarize(Comparison.open(plan, plain.parent / "network", copied)), copied)
    report = report_of_comparison(copied)
    lacks = report.sections[0].lacks
    assert lacks.endswith("which need all repetitions: bpr: 1 of 2 repetitions not finished.")
    page = checked_page(report.html())
    assert page.text.count(lacks) == 1
    assert list(page.tables["NDCG@5 against all items"].column("mean")) == ["popularity"]


def test_a_comparison_in_which_nobody_is_tested_has_tables_alone(copied: Path) -> None:
    pq.write_table(pa.table({}), copied / "users.parquet")
    page = checked_page(report_of_comparison(copied).html())
    assert "Tables" in [text for _, text in page.headings]
    assert not page.all_of("img")


def test_without_tables_the_next_step_is_told(copied: Path) -> None:
    (copied / "table.json").unlink()
    with refused(DataError, place="copied", value="comparison"):
        report_of(copied)
