"""What ``python -m benchmarks`` keeps and draws."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from benchmarks import history
from benchmarks.drawing import Panel, draw
from benchmarks.registry import MEASUREMENTS
from matplotlib.axes import Axes
from tests.plots.figure_parts import x_of, y_of

from mcne.plots.style import styled, to_svg
from mcne_bench.figures import Figure


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


def axes_of(*panels: Panel) -> list[Axes]:
    with styled("light"):
        figure = draw(panels)
        figure.draw_without_rendering()
    return figure.axes


def points(panel: Panel) -> list[tuple[float, float]]:
    """Where the points of a panel lie on the page."""
    (axes,) = axes_of(panel)
    (line,) = axes.lines
    return [(float(x), float(y)) for x, y in axes.transData.transform(np.stack([x_of(line), y_of(line)], axis=1))]


def test_cost_in_proportion_is_a_diagonal_and_constant_cost_is_flat() -> None:
    (x0, y0), (x1, y1), (x2, y2) = points(Panel("users", "ms", (1, 10, 100), (2.0, 20.0, 200.0)))
    assert x0 < x1 < x2
    assert y0 < y1 < y2
    assert (x1 - x0, y1 - y0) == pytest.approx((x2 - x1, y2 - y1), abs=0.2)
    assert x1 - x0 == pytest.approx(y1 - y0, abs=0.2)  # a decade is as long on both axes
    assert len({y for _, y in points(Panel("users", "ms", (1, 10, 100), (5.0, 5.0, 5.0)))}) == 1


def test_panels_lie_beside_each_other_inside_the_figure() -> None:
    panels = [Panel(f"size <{k}>", "ms", (1, 64), (3.0, 700.0)) for k in range(4)]
    every = axes_of(*panels)
    boxes = [axes.get_window_extent() for axes in every]
    assert [axes.get_xlabel() for axes in every] == [panel.name for panel in panels]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    for axes, box in zip(every, boxes, strict=True):
        assert all(box.contains(*axes.transData.transform(point)) for point in ((1, 3.0), (64, 700.0)))


def test_the_same_figure_has_the_same_bytes() -> None:
    def drawn() -> str:
        with styled("light"):
            return to_svg(draw([Panel("users", "ms", (1, 10), (2.0, 3.0))]))

    assert drawn() == drawn()
