"""How behaviors are weighed: of a link, of a user, or of a network with its communities and the check of the weights.

Drawn from plain data, as :mod:`mcne.analysis.attention` returns it and ``mcne plot attention`` saves it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, Normalize, to_rgb
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator, PercentFormatter
from numpy.typing import NDArray

from mcne.analysis.attention import user_label
from mcne.plots.style import (
    FAINT,
    INK,
    PAPER,
    SHORT,
    Theme,
    as_table,
    canvas,
    colors,
    diverging,
    looks,
    name_rows,
    shortened,
)

Numbers = Mapping[str, Any]
Table = NDArray[np.float64]
SEQUENTIAL = {"light": "Blues", "dark": "Blues_r"}  # a color map whose lowest value is near the paper
LONG = 40  # characters of a user's id and name
WIDE = 0.075  # inches of a character
FEW = 7  # behaviors whose tables fit side by side
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
    """A bar per behavior and message, a panel per layer."""
    names, messages = numbers["behaviors"], numbers["messages"]
    layers = len(messages[0]["attention"])
    labels = []
    for message in messages:
        sender, receiver = (shortened(user_label(message, end), LONG) for end in ("sender", "receiver"))
        labels.append(f"{sender} → {receiver} ({message['share']:.1%} of what {receiver} hears)")
    width = max(1.8 + 3.4 * layers, 0.6 + WIDE * max(map(len, labels)))
    figure = canvas(width, 1.5 + 0.42 * len(names))
    panels = figure.subplots(1, layers, sharey=True, squeeze=False)[0]
    for layer, panel in enumerate(panels):
        for at, (message, label, color) in enumerate(zip(messages, labels, colors(theme, len(messages)), strict=True)):
            places = np.arange(len(names)) + (at - (len(messages) - 1) / 2) * 0.36
            panel.barh(places, message["attention"][layer], height=0.34, color=color, label=label)
        _mark_even(panel, numbers["even"], theme)
        panel.set_title(f"Layer {layer + 1}")
        panel.set_xlim(left=0)
    name_rows(panels[0], names)
    figure.supxlabel("weight in the message; dashed: all alike", fontsize=9)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=1)
    return figure


def _draw_user(numbers: Numbers, theme: Theme) -> Figure:
    """A table per layer: the means over the user's links, then the links that differ most from them."""
    means = {"hears": numbers["links"], "sends": numbers.get("followers", numbers["links"])}
    means = {name: count for name, count in means.items() if count}
    rows = [f"{name}, mean of {count:,}" for name, count in means.items()]
    rows += [f"hears {user_label(link, 'sender')}" for link in numbers["unusual"]]
    longest = min(LONG, max(map(len, rows)))
    names = numbers["behaviors"]
    layers = len(numbers["hears"])
    width, height = 1.6 + 0.62 * len(names) + WIDE * max(0, longest - SHORT), 1.7 + 0.26 * len(rows)
    is_side_by_side = len(names) <= FEW
    figure = canvas(*((width * layers, height + 0.4) if is_side_by_side else (width + 1, height * layers + 0.4)))
    weights = np.array([*(numbers[name] for name in means), *(link["weights"] for link in numbers["unusual"])])
    norm = Normalize(0, max(0.5, weights.max()))
    for layer, panel in enumerate(_layer_panels(figure, layers, names)):
        _fill(panel, rows, names, weights[:, layer], weights[:, layer], colormaps[SEQUENTIAL[theme]], norm, LONG)
        panel.axhline(len(means) - 0.5, color=INK[theme], linewidth=1.2)
        panel.set_title(f"Layer {layer + 1}")
    who = shortened(user_label(numbers, "user"), LONG)
    figure.suptitle(f"User {who}: weights in percent (all alike: {numbers['even']:.1%})", fontsize=10)
    return figure


def _draw_network(numbers: Numbers, theme: Theme) -> Figure:
    """Above the weights of all messages, then the communities, and below what changes without the most attended."""
    names = numbers["behaviors"]
    layers = len(numbers["layers"])
    checked = numbers.get("faithfulness")
    table = (0.24 * (len(numbers["communities"]) + 1) + 1.9) * (1 if len(names) <= FEW else layers)
    heights = [1.1 + 0.27 * len(names)] + [table] * bool(numbers["between"]) + [3.3] * (checked is not None)
    figure = canvas(9.5, sum(heights))
    parts = iter(figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0])
    _draw_spread(next(parts).subplots(1, layers, sharey=True, squeeze=False)[0], numbers, theme)
    if numbers["between"]:
        _draw_communities(next(parts), numbers, theme)
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
        panel.set_title(f"Layer {number}: entropy {layer['entropy']:.3f} of 1")
        panel.set_xlabel("weight; 90 and 50 % of messages, median")
    name_rows(panels[0], names)


def _draw_communities(figure: SubFigure, numbers: Numbers, theme: Theme) -> None:
    """The mean weights within each community, colored by how far they are from those between communities."""
    names, communities = numbers["behaviors"], numbers["communities"]
    weights = np.array([*(each["weights"] for each in communities), numbers["between"]])  # [rows, K, B]
    difference = weights - weights[-1]
    full = float(np.abs(difference).max(initial=NEAR_EVEN))  # has the strongest color, the same in all layers
    rows = [*(f"{each['number'] + 1}: {each['users']:,} users" for each in communities), "between them"]
    for layer, panel in enumerate(_layer_panels(figure, weights.shape[1], names)):
        _fill(panel, rows, names, weights[:, layer], difference[:, layer], diverging(theme), Normalize(-full, full))
        panel.axhline(len(communities) - 0.5, color=INK[theme], linewidth=1.2)
        panel.set_title(f"Layer {layer + 1}: weights within communities (%)")
    shades = f"blue: more than on links between communities, orange: less; full at {100 * full:.1f} points"
    figure.supxlabel(shades, fontsize=8)


def _draw_faithfulness(panels: Sequence[Axes], checked: Numbers, theme: Theme) -> None:
    """How much more changes without the most (or least) attended parts than without random ones."""
    findings = checked["findings"]
    kinds = list(dict.fromkeys((each["part"], each["chance"]) for each in findings))
    titles = {"vectors": "Users' vectors", "scores": "Scores of items", "top items": f"Best {checked['top']} items"}
    ends = {"ratio": ("weigh or add most", -0.13), "least_ratio": ("weigh or add least", 0.13)}  # label and place
    styles = looks(theme, list(ends))
    reached = [1.0]
    for panel, (measure, title) in zip(panels, titles.items(), strict=True):
        measured = [each for each in findings if each["measure"] == measure]
        for key, (label, aside) in ends.items():
            known = [each for each in measured if each[key]["value"] is not None]
            places = [kinds.index((each["part"], each["chance"])) + aside for each in known]
            ratios = [[each[key][name] for name in ("value", "low", "high")] for each in known]
            values = np.array(ratios).reshape(-1, 3)
            bars = np.abs(values[:, 1:].T - values[:, 0])
            panel.errorbar(values[:, 0], places, xerr=bars, linestyle="none", capsize=2, label=label, **styles[key])
            reached += values[values > 0].tolist()
        panel.axvline(1, color=INK[theme], linestyle="--", linewidth=1)
        panel.set_title(title)
        panel.set_xscale("log")
        if all(each["ratio"]["value"] is None for each in measured):
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


def _layer_panels(figure: Figure | SubFigure, layers: int, names: Sequence[str]) -> list[Axes]:
    """A panel for each layer, side by side where tables with these columns have room."""
    shape = (1, layers) if len(names) <= FEW else (layers, 1)
    return list(figure.subplots(*shape, sharey=True, squeeze=False).ravel())


def _fill(
    panel: Axes,
    rows: list[str],
    names: list[str],
    weights: Table,
    shade: Table,
    scale: Colormap,
    norm: Normalize,
    limit: int = SHORT,
) -> None:
    """A table of weights in percent, whose columns have the names, with each cell in the color of its shade."""
    picture = scale(norm(shade))[..., :3]
    panel.imshow(picture, aspect="auto", interpolation="nearest")
    for (row, column), value in np.ndenumerate(weights):
        bright = np.dot(picture[row, column], (0.299, 0.587, 0.114)) > 0.5
        ink = INK["light"] if bright else INK["dark"]
        panel.text(column, row, f"{100 * value:.1f}", ha="center", va="center", fontsize=8, color=to_rgb(ink))
    as_table(panel, rows, limit)
    is_long = max(map(len, names)) > 7 or len(names) > FEW  # names that would touch are turned
    panel.set_xticks(range(len(names)), [shortened(name, 16) for name in names], rotation=90 if is_long else 0)


def _mark_even(panel: Axes, even: float, theme: Theme) -> None:
    panel.axvline(even, color=INK[theme], linestyle="--", linewidth=1)
    panel.xaxis.set_major_formatter(PercentFormatter(1.0))
    panel.xaxis.set_major_locator(MaxNLocator(6))
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="x")
    panel.set_axisbelow(True)
