"""How behaviors are weighed: of a link, of a user, or of a network with its communities and the check of the weights.

Drawn from plain data, as :mod:`mcne.analysis.attention` gives it and ``mcne plot attention`` keeps it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator, PercentFormatter
from numpy.typing import NDArray

from mcne.plots.style import FAINT, INK, MARKERS, PAPER, SEQUENTIAL, Theme, canvas, colors, shortened

Numbers = Mapping[str, Any]
FEW = 7
"""Behaviors whose tables fit side by side."""
NEAR_EVEN = 0.02
"""At least so far around even weights an axis goes, and so much differs what has the strongest color: what is nearly
even looks so."""
TICKS = {
    2: (0.6, 0.8, 1, 1.2, 1.4),
    5: (0.2, 0.3, 0.5, 0.7, 1, 1.4, 2, 3, 4),
    50: (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50),
    math.inf: (0.001, 0.01, 0.1, 1, 10, 100, 1000),
}
"""Ratios that have room on an axis, by how many times its end is its start."""


def draw_attention(numbers: Numbers, *, theme: Theme) -> Figure:
    """The figure of a link, a user or a network; inside ``styled(theme)``."""
    return {"link": _draw_link, "user": _draw_user, "network": _draw_network}[numbers["of"]](numbers, theme)


def _draw_link(numbers: Numbers, theme: Theme) -> Figure:
    """A bar per behavior and direction, a panel per layer."""
    names, messages = numbers["behaviors"], numbers["messages"]
    layers = len(messages[0]["attention"])
    figure = canvas(1.8 + 3.4 * layers, 1.5 + 0.42 * len(names))
    panels = figure.subplots(1, layers, sharey=True, squeeze=False)[0]
    for layer, panel in enumerate(panels):
        for at, (message, color) in enumerate(zip(messages, colors(theme, 2), strict=True)):
            places = np.arange(len(names)) + (at - 0.5) * 0.36
            panel.barh(places, message["attention"][layer], height=0.34, color=color, label=_told(message))
        _mark_even(panel, numbers["even"], theme)
        panel.set_title(f"Layer {layer + 1}")
        panel.set_xlim(left=0)
        panel.tick_params(axis="y", length=0)
    _name_rows(panels[0], names)
    figure.supxlabel("weight in the message; dashed: all alike", fontsize=9)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=1)
    return figure


def _draw_user(numbers: Numbers, theme: Theme) -> Figure:
    """A table per layer: the means over the user's links, then the links that differ most from them."""
    rows = [f"hears, mean of {numbers['links']:,}", f"sends, mean of {numbers['links']:,}"]
    rows += [f"hears {shortened(str(link['sender_id']), 16)}" for link in numbers["unusual"]]
    names, layers = numbers["behaviors"], len(numbers["hears"])
    panels, figure = _tables(layers, len(rows), names)
    shown = np.array(
        [numbers["hears"], numbers["sends"], *(link["weights"] for link in numbers["unusual"])]
    )  # [rows, K, B]
    norm = Normalize(0, max(0.5, shown.max()))
    for layer, panel in enumerate(panels):
        _fill(panel, shown[:, layer], shown[:, layer], colormaps[SEQUENTIAL[theme]], norm)
        panel.axhline(1.5, color=INK[theme], linewidth=1.2)
        panel.set_title(f"Layer {layer + 1}")
        _name_columns(panel, names)
        _name_rows(panel, rows, is_reversed=False)
    who = shortened(str(numbers["user_id"]), 30)
    figure.suptitle(f"User {who}: weights in percent (all alike: {numbers['even']:.1%})", fontsize=10)
    return figure


def _draw_network(numbers: Numbers, theme: Theme) -> Figure:
    """Above the weights of all messages, then the communities, and below what changes without the most attended."""
    names, layers, checked = numbers["behaviors"], len(numbers["layers"]), numbers.get("faithfulness")
    n_rows = len(numbers["communities"]) + 1
    is_side_by_side = len(names) <= FEW
    table = (0.24 * n_rows + 1.9) * (1 if is_side_by_side else layers)
    heights = [1.1 + 0.27 * len(names)] + [table] * bool(numbers["between"]) + [3.3] * (checked is not None)
    figure = canvas(9.5, sum(heights))
    parts = iter(figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0])
    _draw_spread(next(parts).subplots(1, layers, sharey=True, squeeze=False)[0], numbers, theme)
    if numbers["between"]:
        part = next(parts)
        shape = (1, layers) if is_side_by_side else (layers, 1)
        full = _draw_communities(part.subplots(*shape, sharey=True, squeeze=False).ravel(), numbers, theme)
        shades = f"blue: more than on links between communities, orange: less; full at {100 * full:.1f} points"
        part.supxlabel(shades, fontsize=8)
    if checked is not None:
        _draw_faithfulness(next(parts).subplots(1, 3, sharey=True), checked, theme)
    return figure


def _draw_spread(panels: Sequence[Axes], numbers: Numbers, theme: Theme) -> None:
    """The middle 90 and 50 % of every behavior's weights and their median."""
    names, even = numbers["behaviors"], numbers["even"]
    for number, (panel, layer) in enumerate(zip(panels, numbers["layers"], strict=True), start=1):
        table = np.array([each["quantiles"] for each in layer["spread"]])  # [B, 5]
        places = np.arange(len(names))
        for color, place, row in zip([*colors(theme, len(names) - 1), FAINT[theme]], places, table, strict=True):
            panel.plot(row[[0, 4]], [place, place], color=color, linewidth=1.2)
            panel.plot(row[[1, 3]], [place, place], color=color, linewidth=5, solid_capstyle="butt")
            panel.plot(row[2], place, "o", color=PAPER[theme], markeredgecolor=INK[theme], markersize=5)
        _mark_even(panel, even, theme)
        low, high = min(float(table.min()), even - NEAR_EVEN), max(float(table.max()), even + NEAR_EVEN)
        panel.set_xlim(low - 0.04 * (high - low), high + 0.04 * (high - low))
        panel.tick_params(axis="y", length=0)
        panel.set_title(f"Layer {number}: entropy {layer['entropy']:.3f} of 1")
        panel.set_xlabel("weight; 90 and 50 % of messages, median")
    _name_rows(panels[0], names)


def _draw_communities(panels: Sequence[Axes], numbers: Numbers, theme: Theme) -> float:
    """The mean weights within each community, colored by how far they are from those between communities.

    Returns the difference that has the strongest color, the same in all layers.
    """
    communities = numbers["communities"]
    labels = [f"{each['number'] + 1}: {each['users']:,} users" for each in communities] + ["between them"]
    strong = colors(theme, 2)
    scale = LinearSegmentedColormap.from_list("less to more", [strong[1], PAPER[theme], strong[0]])
    weights = np.array([*(each["weights"] for each in communities), numbers["between"]])  # [rows, K, B]
    difference = weights - weights[-1]
    full = float(np.abs(difference).max(initial=NEAR_EVEN))
    for layer, panel in enumerate(panels):
        _fill(panel, weights[:, layer], difference[:, layer], scale, Normalize(-full, full))
        panel.axhline(len(communities) - 0.5, color=INK[theme], linewidth=1.2)
        panel.set_title(f"Layer {layer + 1}: weights within communities (%)")
        _name_columns(panel, numbers["behaviors"])
    _name_rows(panels[0], labels, is_reversed=False)
    return full


def _draw_faithfulness(panels: Sequence[Axes], checked: Numbers, theme: Theme) -> None:
    """How much more changes without the most (and the least) attended than without what chance says."""
    findings = checked["findings"]
    kinds = list(dict.fromkeys((each["part"], each["chance"]) for each in findings))
    titles = {"vectors": "Users' vectors", "scores": "Scores of items", "top items": f"Best {checked['top']} items"}
    looks = {"ratio": ("weigh or add most", MARKERS[0], 0), "least_ratio": ("weigh or add least", MARKERS[1], 1)}
    reached = [1.0]
    for panel, (measure, title) in zip(panels, titles.items(), strict=True):
        for key, (label, marker, color) in looks.items():
            shown = [(at, each[key]) for at, each in _of(findings, measure, kinds) if each[key]["value"] is not None]
            places = [at + (0.13 if color else -0.13) for at, _ in shown]
            values = np.array([[r["value"], r["low"], r["high"]] for _, r in shown]).reshape(-1, 3)
            ends = np.abs(values[:, 1:].T - values[:, 0])
            panel.errorbar(
                values[:, 0], places, xerr=ends, fmt=marker, color=colors(theme, 2)[color], capsize=2, label=label
            )
            reached += values[values > 0].tolist()
        panel.axvline(1, color=INK[theme], linestyle="--", linewidth=1)
        panel.set_title(title)
        panel.set_xscale("log")
        if all(each["ratio"]["value"] is None for _, each in _of(findings, measure, kinds)):
            panel.text(0.5, 0.5, "nothing changes\nby chance", ha="center", va="center", transform=panel.transAxes)
    low, high = min(reached) / 1.25, max(reached) * 1.25
    ticks = [tick for tick in next(each for most, each in TICKS.items() if high < most * low) if low <= tick <= high]
    for panel in panels:
        panel.set_xlim(low, high)
        panel.xaxis.set_major_locator(FixedLocator(ticks))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
        panel.tick_params(axis="y", length=0)
        panel.grid(axis="x")
    names = {"behaviors": "behaviors left out", "links": "links left out"}
    panels[0].set_yticks(range(len(kinds)), [f"{names[part]},\nagainst {chance} ones" for part, chance in kinds])
    panels[0].set_ylim(len(kinds) - 0.5, -0.5)
    panels[1].set_xlabel("change against the change by chance, 95 % interval")
    panels[1].legend(loc="upper center", bbox_to_anchor=(0.5, -0.24), ncols=2)


def _of(findings: Sequence[Numbers], measure: str, kinds: Sequence[tuple[str, str]]) -> list[tuple[int, Numbers]]:
    return [(kinds.index((each["part"], each["chance"])), each) for each in findings if each["measure"] == measure]


def _tables(layers: int, n_rows: int, names: Sequence[str]) -> tuple[list[Axes], Figure]:
    """A panel for each layer, side by side where there is room."""
    is_side_by_side = len(names) <= FEW
    width, height = 1.6 + 0.62 * len(names), 1.7 + 0.26 * n_rows
    size = (width * layers, height + 0.4) if is_side_by_side else (width + 1, height * layers + 0.4)
    figure = canvas(*size)
    shape = (1, layers) if is_side_by_side else (layers, 1)
    return list(figure.subplots(*shape, sharey=True, squeeze=False).ravel()), figure


def _fill(
    panel: Axes, weights: NDArray[np.float64], shade: NDArray[np.float64], scale: Colormap, norm: Normalize
) -> None:
    """A table of weights in percent, each cell in the color of its shade."""
    picture = scale(norm(shade))[..., :3]
    panel.imshow(picture, aspect="auto", interpolation="nearest")
    for (row, column), value in np.ndenumerate(weights):
        bright = np.dot(picture[row, column], (0.299, 0.587, 0.114)) > 0.5
        ink = INK["light"] if bright else INK["dark"]
        panel.text(column, row, f"{100 * value:.1f}", ha="center", va="center", fontsize=8, color=to_rgb(ink))
    for side in panel.spines.values():
        side.set_visible(False)
    panel.tick_params(length=0)


def _mark_even(panel: Axes, even: float, theme: Theme) -> None:
    panel.axvline(even, color=INK[theme], linestyle="--", linewidth=1)
    panel.xaxis.set_major_formatter(PercentFormatter(1.0))
    panel.xaxis.set_major_locator(MaxNLocator(6))
    panel.grid(axis="x")
    panel.set_axisbelow(True)


def _name_rows(panel: Axes, names: Sequence[str], *, is_reversed: bool = True) -> None:
    """Names on the left, the first above; a picture counts its rows from above anyway."""
    panel.set_yticks(range(len(names)), [shortened(name) for name in names])
    panel.tick_params(axis="y", length=0)
    if is_reversed:
        panel.set_ylim(len(names) - 0.5, -0.5)


def _name_columns(panel: Axes, names: Sequence[str]) -> None:
    """Names below, turned where they would touch."""
    is_long = max(map(len, names)) > 7 or len(names) > FEW
    panel.set_xticks(range(len(names)), [shortened(name, 16) for name in names], rotation=90 if is_long else 0)


def _told(message: Numbers) -> str:
    """Who sends to whom, and how much of what is heard that is."""
    sender, receiver = (shortened(str(message[key]), 20) for key in ("sender_id", "receiver_id"))
    return f"{sender} → {receiver} ({message['share']:.1%} of what {receiver} hears)"
