"""Names written where their points are, moved just so far that none lies on another or leaves the axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from numpy.typing import NDArray

from mcne.plots.style import INK, PAPER, Theme, shortened

GAP = 3.0
"""Between two names, in pixels."""
TRIES = 4000


def write_names(
    axes: Axes, names: Sequence[str], places: NDArray[Any], *, colors: Sequence[str], theme: Theme
) -> list[Text]:
    """Write a name at each of ``places`` [names, 2], in a box that has the color of its points."""
    return [
        axes.text(
            place[0],
            place[1],
            shortened(name),
            ha="center",
            va="center",
            fontweight="bold",
            color=INK[theme],
            zorder=5,
            bbox={"boxstyle": "round,pad=0.25", "facecolor": PAPER[theme], "edgecolor": color, "linewidth": 1.6},
        )
        for name, place, color in zip(names, places, colors, strict=True)
    ]


def move_apart(figure: Figure, axes: Axes, names: Sequence[Text]) -> None:
    """Move names that lie on others to the nearest free place; each in turn, as they are given.

    The layout must be the final one: it is computed here and then kept.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    inside = axes.get_window_extent()
    taken: list[NDArray[np.float64]] = []
    for name in names:
        patch = name.get_bbox_patch()
        assert patch is not None
        box = patch.get_window_extent()
        center, half = np.array([box.x0 + box.x1, box.y0 + box.y1]) / 2, np.array([box.width, box.height]) / 2 + GAP
        room = np.array([[inside.x0, inside.y0], [inside.x1, inside.y1]]) + np.array([half, -half])
        free = _free(center, half, room, taken)
        taken.append(np.array([free - half, free + half]))
        x, y = axes.transData.inverted().transform(free)
        name.set_position((float(x), float(y)))


def _free(
    center: NDArray[np.float64], half: NDArray[np.float64], room: NDArray[np.float64], taken: list[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """The first place on a spiral from ``center`` where a box of this size touches no other; at last the center."""
    turns = np.arange(TRIES) * 2.4  # an angle that never meets itself again
    steps = np.sqrt(np.arange(TRIES)) * 4
    spiral = center + np.stack([np.cos(turns), np.sin(turns)], axis=1) * steps[:, None]
    tried = np.minimum(np.maximum(spiral, room[0]), np.maximum(room[0], room[1]))  # [tries, 2]
    is_free = np.ones(TRIES, dtype=bool)
    for low, high in taken:
        is_free &= np.any((tried + half <= low) | (tried - half >= high), axis=1)
    best: NDArray[np.float64] = tried[is_free.argmax()]
    return best
