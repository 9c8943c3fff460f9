"""Small plots side by side on logarithmic axes: what is flat does not grow, a diagonal grows in proportion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from mcne.plots.style import canvas, colors

WIDTH, HEIGHT = 3.4, 3.2  # inches of a panel
COLUMNS = 2
MARGIN = 1.3
"""By which factor an axis goes on beyond the outermost point."""


@dataclass(frozen=True)
class Panel:
    """One curve: ``values`` against ``sizes``, all above 0."""

    name: str  # of the sizes
    unit: str  # of the values
    sizes: tuple[int, ...]
    values: tuple[float, ...]


def draw(panels: Sequence[Panel]) -> Figure:
    """All panels in one figure; call it inside ``styled(theme)``."""
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure = canvas(WIDTH * columns, HEIGHT * rows)
    cells = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, panel in zip(cells, panels, strict=False):
        _draw_panel(axes, panel)
    for axes in cells[len(panels) :]:
        axes.remove()
    return figure


def _draw_panel(axes: Axes, panel: Panel) -> None:
    """A decade is as long on both axes, so that a cost in proportion to its size is a diagonal."""
    lowest = 10 ** math.floor(math.log10(min(panel.values)))
    decades = max(math.log10(panel.sizes[-1] / panel.sizes[0]), math.log10(max(panel.values) / lowest), 1)
    axes.loglog(panel.sizes, panel.values, marker="o", color=colors("light", 1)[0])
    axes.set_xlim(panel.sizes[0] / MARGIN, panel.sizes[0] * 10**decades * MARGIN)
    axes.set_ylim(lowest / MARGIN, lowest * 10**decades * MARGIN)
    axes.set_aspect("equal")
    axes.set_xticks(panel.sizes, [_short(size) for size in panel.sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    for size, value in zip(panel.sizes, panel.values, strict=True):
        axes.annotate(
            _rounded(value), (size, value), xytext=(0, 5), textcoords="offset points", ha="center", fontsize=8
        )
    axes.set_title(panel.unit, loc="left")
    axes.set_xlabel(panel.name)
    axes.grid(axis="y")


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _short(size: int) -> str:
    for factor, letter in ((1_000_000, "M"), (1_000, "k")):
        if size >= factor:
            return f"{size / factor:g}{letter}"
    return str(size)
