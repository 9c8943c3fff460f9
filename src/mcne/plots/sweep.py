"""The figure of a sweep: quality on every behavior and cost, over the values of a setting."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mcne.errors import DataError
from mcne.evaluation.metrics import HEADLINE
from mcne.files import absent, checked_json
from mcne.plots.style import INK, Theme, canvas, looks, shortened

Plain = Mapping[str, Any]
RESULT = "sweep.json"
ALONE = "epochs on "
PANEL_WIDTH, PANEL_HEIGHT, LEGEND_LINE = 3.2, 2.7, 0.2  # inches
TITLE_LETTERS = 90
LETTER = 0.07  # inches, of a tick or a legend, somewhat wider than most
DODGE = 0.45  # of the space between two values, over which behaviors are spread so that error bars stay apart


def read(directory: Path) -> dict[str, Any]:
    """The results of ``mcne sweep`` in a directory."""
    path = directory / RESULT
    if not path.is_file():
        remedy = f"run mcne sweep METHOD --data DATA --set NAME=V1,V2 --out {directory}"
        raise absent(directory, RESULT, "a finished sweep", remedy)
    result: dict[str, Any] = checked_json(path, _check, step="remove it, and the same mcne sweep writes it again")
    if not any(point["finished"] for point in _points(result)):
        raise DataError("no training is finished yet", directory, "continue with the same mcne sweep command")
    return result


def _check(result: Any) -> None:
    _ = result["title"], result["method"], result["behaviors"], result["repetitions"], result["dataset"]["name"]
    _ = [point["finished"] for point in _points(result)]


def caption(result: Plain) -> str:
    """What the figure shows, in a paragraph."""
    machines: set[str] = set()
    for point in _points(result):  # trainings to measure seconds alone, or else those that measured quality
        alone = {each.removeprefix(ALONE) for each in point["measured_on"] if each.startswith(ALONE)}
        machines |= alone or set(point["measured_on"])
    swept = ", ".join(curve["setting"] for curve in result["curves"])
    spread = (
        f"Points are means, bars one standard deviation over {result['repetitions']} repetitions, which have the same "
        "splits for every value"
        if result["repetitions"] > 1
        else "Points are single trainings, all on the same split"
    )
    text = (
        f"{result['method']} on {result['dataset']['name']}: Recall@5 and NDCG@5 on the test part (sampled protocol) "
        f"over the values of {swept}, one setting at a time, and the seconds of the steps of an epoch. {spread}; "
        "behaviors are moved a little sideways. Seconds measured"
        f"{' once' * _is_timed_once(result)} on {'; '.join(sorted(machines))}."
    )
    lacking = [f"{point['value']}: {point['lacks']}" for point in _points(result) if point["lacks"]]
    text += f" Not finished: {'; '.join(lacking)}." if lacking else ""
    return text + (f" The paper: {result['paper']}" if result["paper"] else "")


def draw(result: Plain, theme: Theme) -> Figure:
    """A row of panels for each setting: the two metrics, then the seconds of an epoch; inside ``styled(theme)``."""
    curves = result["curves"]
    mean = "mean over behaviors"
    plain = {"color": INK[theme], "marker": "o"}
    styles = looks(theme, result["behaviors"]) | {mean: plain | {"linewidth": 2.4, "linestyle": "--"}}
    columns = max(1, int(3 * PANEL_WIDTH / (LETTER * (max(len(shortened(name)) for name in styles) + 6))))
    legend_lines = -(-len(styles) // columns)
    figure = canvas(3 * PANEL_WIDTH, PANEL_HEIGHT * len(curves) + LEGEND_LINE * legend_lines + 0.7)
    axes = figure.subplots(len(curves), 3, squeeze=False)
    for curve, (*quality, cost) in zip(curves, axes, strict=True):
        points = curve["points"]
        for panel, (metric, title) in zip(quality, HEADLINE.items(), strict=True):
            for k, (name, look) in enumerate(styles.items()):
                spreads = [(point["mean"] if name == mean else point["behaviors"][name])[metric] for point in points]
                _draw_line(panel, points, spreads, look, aside=DODGE * ((k + 0.5) / len(styles) - 0.5), factor=100)
            panel.set_title(f"{title} (%)")
        _draw_line(cost, points, [point["epoch_seconds"] for point in points], plain)
        cost.set_title("seconds per epoch" + " (measured once)" * _is_timed_once(result))
        cost.set_ylim(0, 1.05 * cost.get_ylim()[1])  # so that the highest marker is whole
        for panel in (*quality, cost):
            _label_values(panel, curve)
    handles = [Line2D([], [], label=shortened(name), **look) for name, look in styles.items()]
    note = f"mean ± standard deviation over {result['repetitions']} repetitions" if result["repetitions"] > 1 else None
    figure.legend(handles=handles, loc="outside lower center", ncols=min(columns, len(styles)), title=note)
    title, data = result["title"], result["dataset"]["name"]
    title += "" if data.casefold() in title.casefold() else f" ({data})"
    title = textwrap.fill(shortened(title, 3 * TITLE_LETTERS), TITLE_LETTERS)
    figure.suptitle(title, fontweight="bold", fontsize=11)
    return figure


def _is_timed_once(result: Plain) -> bool:
    """Whether the seconds, unlike everything else, are not averaged over repetitions."""
    seconds = [point["epoch_seconds"] for point in _points(result) if point["epoch_seconds"] is not None]
    return result["repetitions"] > 1 and all(each["sd"] is None for each in seconds)


def _draw_line(
    panel: Axes, points: list[Plain], spreads: list[Plain | None], look: Plain, *, aside: float = 0.0, factor: int = 1
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


def _label_values(panel: Axes, curve: Plain) -> None:
    """Values at even distances in the order asked for, turned where they would touch."""
    values = [point["value"] for point in curve["points"]]
    texts = [shortened(", ".join(map(str, value)) if isinstance(value, list) else str(value)) for value in values]
    is_tight = len(texts) * (max(map(len, texts)) + 1) * LETTER > 0.8 * PANEL_WIDTH
    panel.set_xticks(range(len(texts)), texts, rotation=90 if is_tight else 0)
    panel.set_xlim(-0.5, len(texts) - 0.5)
    panel.set_xlabel(curve["setting"])
    panel.grid(True, axis="y")


def _points(result: Plain) -> list[Plain]:
    return [point for curve in result["curves"] for point in curve["points"]]
