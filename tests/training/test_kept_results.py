"""What ``python -m benchmarks`` keeps and draws."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from benchmarks import history
from benchmarks.drawing import Panel, panels
from benchmarks.registry import MEASUREMENTS

from mcne.training.bench.figure import Figure

SVG = "{http://www.w3.org/2000/svg}"


def figure(value: float | None) -> Figure:
    return Figure("time", value, "×", 2, "detail", "theirs", "step.plain")


def test_every_figure_has_a_name_of_its_own() -> None:
    assert len({each.key for each in MEASUREMENTS}) == len(MEASUREMENTS) >= 18


def test_runs_of_one_second_are_all_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.strftime", lambda _: "20300101T000000")
    paths = [history.keep([figure(value)], {"cores": 2}, tmp_path) for value in (1.0, 2.0, 3.0)]
    assert len(set(paths)) == 3
    kept = [json.loads(path.read_text())["figures"][0]["value"] for path in paths]
    assert kept == [1.0, 2.0, 3.0]


def test_history_has_a_line_for_each_figure_in_the_order_of_runs(tmp_path: Path) -> None:
    old = {"machine": {}, "figures": [{"name": "old", "value": 9.0, "unit": "s", "at_most": 10, "detail": ""}]}
    (tmp_path / "20200101T000000.json").write_text(json.dumps(old))
    for stamp, value in (("20290101T000000", 3.0), ("20280101T000000", 4.0), ("20300101T000000", None)):
        run = {"machine": {}, "figures": [vars(figure(value))]}
        (tmp_path / f"{stamp}.json").write_text(json.dumps(run))
    (tmp_path / "cost.json").write_text("{}")  # another file of the directory
    assert history.lines(tmp_path) == ["old         9 s  (at most 10)", "step.plain  4 → 3 ×  (at most 2)"]


def points(panel: Panel) -> list[tuple[float, float]]:
    line = next(ElementTree.fromstring(panels([panel])).iter(f"{SVG}polyline"))
    return [(float(x), float(y)) for x, y in (point.split(",") for point in line.attrib["points"].split())]


def test_cost_in_proportion_is_a_diagonal_and_constant_cost_is_flat() -> None:
    (x0, y0), (x1, y1), (x2, y2) = points(Panel("users", "ms", (1, 10, 100), (2.0, 20.0, 200.0)))
    assert x0 < x1 < x2
    assert y0 > y1 > y2
    assert (x1 - x0, y0 - y1) == pytest.approx((x2 - x1, y1 - y2), abs=0.2)
    assert len({y for _, y in points(Panel("users", "ms", (1, 10, 100), (5.0, 5.0, 5.0)))}) == 1


def test_panels_lie_beside_each_other_inside_the_document() -> None:
    drawn = [Panel(f"size <{k}>", "ms", (1, 64), (3.0, 700.0)) for k in range(4)]
    root = ElementTree.fromstring(panels(drawn))
    places = [group.attrib["transform"] for group in root.iter(f"{SVG}g")]
    assert len(set(places)) == 4
    for group in root.iter(f"{SVG}g"):
        for circle in group.iter(f"{SVG}circle"):
            assert 0 < float(circle.attrib["cx"]) < int(root.attrib["width"]) / 2
            assert 0 < float(circle.attrib["cy"]) < int(root.attrib["height"]) / 2
    assert "size <3>" in {text.text for text in root.iter(f"{SVG}text")}
