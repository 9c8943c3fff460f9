"""The figure of a sweep: quality on every behavior over the values of a setting, and beside it what they cost."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mcne.errors import DataError
from mcne.files import checked_json
from mcne.plots.style import INK, MARKERS, Theme, canvas, colors, shortened

RESULT = "sweep.json"
ALONE = "epochs on "
METRICS = {"recall@5": "Recall@5", "ndcg@5": "NDCG@5"}
PANEL_WIDTH, PANEL_HEIGHT, LEGEND_LINE = 3.2, 2.7, 0.2  # inches
TITLE_LETTERS = 90
LETTER = 0.07  # inches, of a tick or a legend, somewhat wider than most
DODGE = 0.45  # of the space between two values, over which behaviors are spread so that error bars stay apart


def read(directory: Path) -> dict[str, Any]:
    """What ``mcne sweep`` has found there."""
    path = directory / RESULT
    if not path.is_file():
        raise DataError(
            f"{directory}: no {RESULT}, so this is no finished sweep; make one with: mcne sweep … --out DIR"
        )
    result: dict[str, Any] = checked_json(path, _check, step="remove it, and the same mcne sweep writes it again")
    if not any(point["finished"] for point in _points(result)):
        raise DataError(f"{directory}: no training is finished yet; the same mcne sweep command continues it")
    return result


def _check(result: Any) -> None:
    _ = result["title"], result["method"], result["behaviors"], result["repetitions"], result["dataset"]["name"]
    _ = [point["finished"] for point in _points(result)]


def caption(result: Mapping[str, Any]) -> str:
    """What the figure shows, in a paragraph."""
    data, machines = result["dataset"], sorted({each for point in _points(result) for each in _timed_on(point)})
    swept = ", ".join(curve["setting"] for curve in result["curves"])
    spread = (
        f"Points are means, bars one standard deviation over {result['repetitions']} repetitions, which have the same "
        "splits for every value"
        if result["repetitions"] > 1
        else "Points are single trainings, all on the same split"
    )
    text = (
        f"{result['method']} on {data['name']}: Recall@5 and NDCG@5 on the test part (sampled protocol) over the "
        f"values of {swept}, one setting at a time, and the seconds of the steps of an epoch. {spread}; behaviors are "
        f"moved a little sideways. Seconds measured{' once' * _is_timed_once(result)} on {'; '.join(machines)}."
    )
    lacking = [f"{point['value']}: {point['lacks']}" for point in _points(result) if point["lacks"]]
    text += f" Not finished: {'; '.join(lacking)}." if lacking else ""
    return text + (f" The paper: {result['paper']}" if result["paper"] else "")


def draw(result: Mapping[str, Any], theme: Theme) -> Figure:
    """A row of panels for each setting: the two metrics, then the seconds of an epoch; inside ``styled(theme)``."""
    curves, names = result["curves"], [*result["behaviors"], "mean over behaviors"]
    looks = _looks(names, theme)
    columns = max(1, int(3 * PANEL_WIDTH / (LETTER * (max(len(shortened(name)) for name in names) + 6))))
    legend_lines = -(-len(names) // columns)
    figure = canvas(3 * PANEL_WIDTH, PANEL_HEIGHT * len(curves) + LEGEND_LINE * legend_lines + 0.7)
    axes = figure.subplots(len(curves), 3, squeeze=False)
    for curve, (*quality, cost) in zip(curves, axes, strict=True):
        for panel, metric in zip(quality, METRICS, strict=True):
            _draw_quality(panel, curve["points"], metric, looks)
        plain = {"color": INK[theme], "marker": "o"}
        _draw_line(cost, curve["points"], [point["epoch_seconds"] for point in curve["points"]], plain)
        cost.set_title("seconds per epoch" + " (measured once)" * _is_timed_once(result))
        cost.set_ylim(0, 1.05 * cost.get_ylim()[1])  # so that the highest marker is whole
        for panel in (*quality, cost):
            _label_values(panel, curve)
    handles = [Line2D([], [], label=shortened(name), **look) for name, look in looks.items()]
    title = f"mean ± standard deviation over {result['repetitions']} repetitions" if result["repetitions"] > 1 else None
    figure.legend(handles=handles, loc="outside lower center", ncols=min(columns, len(names)), title=title)
    figure.suptitle(
        textwrap.fill(shortened(_title(result), 3 * TITLE_LETTERS), TITLE_LETTERS), fontweight="bold", fontsize=11
    )
    return figure


def _title(result: Mapping[str, Any]) -> str:
    """The sweep's, with the data unless it is named there."""
    title, data = result["title"], result["dataset"]["name"]
    return title if data.casefold() in title.casefold() else f"{title} ({data})"


def _is_timed_once(result: Mapping[str, Any]) -> bool:
    """Whether repetitions, which everything else is over, say nothing of the seconds."""
    seconds = [point["epoch_seconds"] for point in _points(result) if point["epoch_seconds"] is not None]
    return result["repetitions"] > 1 and all(each["sd"] is None for each in seconds)


def _timed_on(point: Mapping[str, Any]) -> list[str]:
    """What measured the seconds of an epoch: trainings for that alone, or else those that measured quality."""
    alone = [each.removeprefix(ALONE) for each in point["measured_on"] if each.startswith(ALONE)]
    return alone or point["measured_on"]


def _looks(names: Sequence[str], theme: Theme) -> dict[str, dict[str, Any]]:
    """A color and a marker for each behavior; the mean is as dark as text."""
    *behaviors, mean = names
    pairs = zip(behaviors, colors(theme, len(behaviors)), (MARKERS * len(behaviors))[: len(behaviors)], strict=True)
    looks: dict[str, dict[str, Any]] = {name: {"color": color, "marker": marker} for name, color, marker in pairs}
    return looks | {mean: {"color": INK[theme], "marker": "o", "linewidth": 2.4, "linestyle": "--"}}


def _draw_quality(
    panel: Axes, points: Sequence[Mapping[str, Any]], metric: str, looks: Mapping[str, Mapping[str, Any]]
) -> None:
    for k, (name, look) in enumerate(looks.items()):
        spreads = [(point["mean"] if k == len(looks) - 1 else point["behaviors"][name])[metric] for point in points]
        _draw_line(panel, points, spreads, look, aside=DODGE * ((k + 0.5) / len(looks) - 0.5), factor=100)
    panel.set_title(f"{METRICS[metric]} (%)")


def _draw_line(
    panel: Axes,
    points: Sequence[Mapping[str, Any]],
    spreads: Sequence[Mapping[str, Any] | None],
    look: Mapping[str, Any],
    *,
    aside: float = 0.0,
    factor: float = 1.0,
) -> None:
    """Means with one standard deviation up and down where there are repetitions; a line joins them over numbers."""
    places = [(at + aside, each) for at, each in enumerate(spreads) if each is not None]
    is_scale = all(isinstance(point["value"], int | float) for point in points)
    panel.errorbar(
        [at for at, _ in places],
        [factor * each["mean"] for _, each in places],
        [factor * (each["sd"] or 0.0) for _, each in places],
        capsize=2,
        elinewidth=1,
        **{**look, **({} if is_scale else {"linestyle": "none"})},
    )


def _label_values(panel: Axes, curve: Mapping[str, Any]) -> None:
    """Values at even distances in the order asked for, turned where they would touch."""
    texts = [_text(point["value"]) for point in curve["points"]]
    is_tight = len(texts) * (max(map(len, texts)) + 1) * LETTER > 0.8 * PANEL_WIDTH
    panel.set_xticks(range(len(texts)), texts, rotation=90 if is_tight else 0)
    panel.set_xlim(-0.5, len(texts) - 0.5)
    panel.set_xlabel(curve["setting"])
    panel.grid(True, axis="y")


def _text(value: Any) -> str:
    return shortened(", ".join(map(str, value)) if isinstance(value, list) else str(value))


def _points(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [point for curve in result["curves"] for point in curve["points"]]
