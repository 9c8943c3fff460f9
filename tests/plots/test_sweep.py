"""The figure of a sweep: every label readable, every number the one of sweep.json, the same bytes twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from tests.errors import refused
from tests.plots.figure_parts import data_line_of, error_bars_of, x_of, y_of
from tests.plots.figure_texts import assert_legible

from mcne.errors import ArtifactError, DataError
from mcne.plots import sweep
from mcne.plots.style import THEMES, Theme, save, shortened, styled

NAMES = (
    *("Hotels & Travel", "Books", "Electronics", "Games", "Food & Drink", "Sports & Outdoors"),
    *("Movies", "Music", "Computers & Internet", "Kids", "Beauty", "Online Stores & Services"),
)
WIDTHS, SAMPLES = [50, 100, 150, 200, 250], [[10, 5], [20, 20], [5, 10], [25, 2], [50, 50]]
MANY = [[10 * k, 100 + k] for k in range(1, 13)]
TINY = [0.00001 * 3**k for k in range(12)]


def spread(mean: float, sd: float | None) -> dict[str, float | None]:
    return {"mean": mean, "sd": sd}


def made(behaviors: int, curves: dict[str, list[Any]], *, repetitions: int = 3) -> dict[str, Any]:
    """What ``mcne sweep`` would write, with numbers that are all different."""
    names = list(NAMES[:behaviors])
    sd = 0.004 if repetitions > 1 else None

    def quality(at: int, k: float) -> dict[str, Any]:
        return {"recall@5": spread(0.2 + 0.01 * at + 0.02 * k, sd), "ndcg@5": spread(0.1 + 0.01 * at + 0.02 * k, sd)}

    def point(at: int, value: Any) -> dict[str, Any]:
        return {
            "value": value,
            "finished": repetitions,
            "lacks": None,
            "behaviors": {name: quality(at, k) for k, name in enumerate(names)},
            "mean": quality(at, behaviors / 2),
            "epoch_seconds": spread(1.0 + at**2, 0.1),
            "measured_on": ["cpu, one at a time"],
        }

    return {
        "title": "mcne: sensitivity to " + " and ".join(curves),
        "method": "mcne",
        "dataset": {"name": "planted"},
        "behaviors": names,
        "repetitions": repetitions,
        "paper": "quality rises and falls again.",
        "curves": [
            {"setting": name, "points": [point(at, value) for at, value in enumerate(values)]}
            for name, values in curves.items()
        ],
    }


def drawn(numbers: dict[str, Any], theme: Theme = "light") -> Figure:
    with styled(theme):
        return sweep.draw(numbers, theme)


@pytest.mark.parametrize(
    ("behaviors", "curves"),
    [
        (2, {"bias": [True, False]}),
        (3, {"neighbor_samples": SAMPLES, "widths": MANY}),
        (12, {"final_width": WIDTHS, "l2": TINY}),
    ],
)
def test_labels_never_overlap(behaviors: int, curves: dict[str, list[Any]]) -> None:
    with styled("light"):
        shown = assert_legible(sweep.draw(made(behaviors, curves), "light"), at_least=behaviors + 9)
    for name in NAMES[:behaviors]:
        assert shown.count(shortened(name)) == 1
    for values in curves.values():
        assert shown.count(", ".join(map(str, values[0])) if isinstance(values[0], list) else str(values[0])) >= 3


def test_a_long_title_is_broken() -> None:
    numbers = made(2, {"l2": [0.1, 0.2]}) | {"title": "a sweep of many words " * 9}
    with styled("light"):
        assert_legible(sweep.draw(numbers, "light"), at_least=12)


def test_the_highest_point_of_the_seconds_is_whole() -> None:
    """Of two trainings that take nearly as long, an axis from zero leaves no room above them by itself."""
    numbers = made(2, {"l2": [0.1, 0.2]}, repetitions=1)
    for point, seconds in zip(numbers["curves"][0]["points"], (0.33, 0.40), strict=True):
        point["epoch_seconds"] = spread(seconds, None)
    low, high = drawn(numbers).axes[2].get_ylim()
    assert low == 0
    assert high > 1.04 * 0.40


def test_points_and_bars_are_those_of_the_file() -> None:
    numbers = made(2, {"final_width": WIDTHS})
    recall, ndcg, cost = drawn(numbers).axes
    for panel, first in ((recall, 20.0), (ndcg, 10.0)):
        lines = [data_line_of(container) for container in error_bars_of(panel)]
        assert len(lines) == 3  # two behaviors and the mean
        for line, k in zip(lines, (0, 1, 1), strict=True):
            assert y_of(line) == pytest.approx([first + at + 2 * k for at in range(5)])
            assert np.round(x_of(line).astype(float)) == pytest.approx(range(5))
        (bars,) = error_bars_of(panel)[0].lines[2]
        assert bars.get_segments()[0][:, 1] == pytest.approx([first - 0.4, first + 0.4])
    assert y_of(data_line_of(error_bars_of(cost)[0])) == pytest.approx([1, 2, 5, 10, 17])
    assert cost.get_ylim()[0] == 0
    assert all(line.get_visible() for panel in (recall, ndcg, cost) for line in panel.get_ygridlines())


def test_lists_have_no_order_so_no_line_joins_them() -> None:
    panels = drawn(made(2, {"neighbor_samples": SAMPLES, "final_width": WIDTHS})).axes
    styles = [data_line_of(error_bars_of(panel)[0]).get_linestyle() for panel in panels]
    assert styles == ["None"] * 3 + ["-"] * 3


def test_what_is_not_finished_is_left_out_and_told() -> None:
    numbers = made(2, {"l2": [0.1, 0.2, 0.3]}, repetitions=1)
    nothing = {"recall@5": None, "ndcg@5": None}
    numbers["curves"][0]["points"][1] |= {
        "finished": 0,
        "lacks": "1 of 1 repetitions not finished",
        "behaviors": dict.fromkeys(NAMES[:2], nothing),
        "mean": nothing,
        "epoch_seconds": None,
        "measured_on": [],
    }
    panel = drawn(numbers).axes[0]
    assert len(y_of(data_line_of(error_bars_of(panel)[0]))) == 2
    assert [label.get_text() for label in panel.get_xticklabels()] == ["0.1", "0.2", "0.3"]
    assert "Not finished: 0.2: 1 of 1 repetitions not finished." in sweep.caption(numbers)
    assert "The paper: quality rises" in sweep.caption(numbers)


def test_what_bars_are_is_said_where_there_are_bars() -> None:
    numbers = made(2, {"l2": [0.1, 0.2]})
    assert "bars one standard deviation over 3 repetitions" in sweep.caption(numbers)
    alone = sweep.caption(made(2, {"l2": [0.1, 0.2]}, repetitions=1))
    assert "Points are single trainings" in alone
    assert "deviation" not in alone


def test_seconds_that_were_measured_once_are_told_as_such() -> None:
    """The legend speaks of repetitions, which timings one at a time do not have."""
    numbers = made(3, {"final_width": WIDTHS, "l2": [0.1, 0.2]})
    assert [panel.get_title() for panel in drawn(numbers).axes[2::3]] == ["seconds per epoch"] * 2
    assert "Seconds measured on cpu" in sweep.caption(numbers)
    for point in (point for curve in numbers["curves"] for point in curve["points"]):
        point["epoch_seconds"]["sd"] = None
        point["measured_on"] = ["H200, 4 side by side", "epochs on H200, one at a time"]
    figure = drawn(numbers)
    assert [panel.get_title() for panel in figure.axes[2::3]] == ["seconds per epoch (measured once)"] * 2
    assert "Seconds measured once on H200, one at a time." in sweep.caption(numbers)
    with styled("light"):
        assert_legible(figure, at_least=12)
    alone = numbers | {"repetitions": 1}
    assert drawn(alone).axes[2].get_title() == "seconds per epoch", "as everything is then"


@pytest.mark.parametrize("theme", THEMES)
def test_the_same_sweep_has_the_same_bytes(theme: Theme, tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        with styled(theme):
            save(sweep.draw(made(3, {"final_width": WIDTHS}), theme), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_only_a_sweep_is_read(tmp_path: Path) -> None:
    with refused(DataError, about="finished"):
        sweep.read(tmp_path)
    for text in ("{", "[]", '{"curves": [{}]}'):
        (tmp_path / "sweep.json").write_text(text)
        with pytest.raises(ArtifactError, match=r"damaged .*the same mcne sweep writes it again"):
            sweep.read(tmp_path)
    numbers = made(2, {"l2": [0.1, 0.2]})
    (tmp_path / "sweep.json").write_text(json.dumps(numbers))
    assert sweep.read(tmp_path) == numbers
    for point in numbers["curves"][0]["points"]:
        point["finished"] = 0
    (tmp_path / "sweep.json").write_text(json.dumps(numbers))
    with pytest.raises(DataError, match="no training is finished yet"):
        sweep.read(tmp_path)
