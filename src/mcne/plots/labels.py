"""Names written where their points are, moved so far that none lies on another, hides points or leaves the axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from numpy.typing import NDArray

from mcne.plots.style import INK, PAPER, Theme, shortened

GAP = 3.0
"""Between two names, in pixels."""
HIDDEN = 0.2
"""The share of a group's points that a name may lie on."""
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


def move_apart(figure: Figure, axes: Axes, names: Sequence[Text], points: NDArray[Any]) -> None:
    """Move names that lie on others or hide the ``points`` [groups, points, 2] of a group to the nearest free place.

    Each in turn, as they are given; a line leads to where it was. The layout must be the final one: it is computed here
    and then kept.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    inside, shown = axes.get_window_extent(), axes.transData.transform(points.reshape(-1, 2)).reshape(points.shape)
    taken: list[NDArray[np.float64]] = []
    for name in names:
        patch = name.get_bbox_patch()
        assert patch is not None
        box = patch.get_window_extent()
        center, half = np.array([box.x0 + box.x1, box.y0 + box.y1]) / 2, np.array([box.width, box.height]) / 2 + GAP
        room = np.array([[inside.x0, inside.y0], [inside.x1, inside.y1]]) + np.array([half, -half])
        free = _free(center, half, room, taken, shown)
        taken.append(np.array([free - half, free + half]))
        ends = axes.transData.inverted().transform([center, free])
        name.set_position((float(ends[1, 0]), float(ends[1, 1])))
        if np.any(np.abs(free - center) > half):
            axes.add_artist(Line2D(*ends.T, color=patch.get_edgecolor(), linewidth=1.2, zorder=4))


def _free(
    center: NDArray[np.float64],
    half: NDArray[np.float64],
    room: NDArray[np.float64],
    taken: list[NDArray[np.float64]],
    points: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The first place on a spiral from ``center`` where a box of this size touches no other and hides few points.

    Where there is none, the one that hides the fewest; at last the center.
    """
    turns = np.arange(TRIES) * 2.4  # an angle that never meets itself again
    steps = np.sqrt(np.arange(TRIES)) * 4
    spiral = center + np.stack([np.cos(turns), np.sin(turns)], axis=1) * steps[:, None]
    tried = np.minimum(np.maximum(spiral, room[0]), np.maximum(room[0], room[1]))  # [tries, 2]
    is_free = np.ones(TRIES, dtype=bool)
    for low, high in taken:
        is_free &= np.any((tried + half <= low) | (tried - half >= high), axis=1)
    hidden = []
    for place in tried[is_free]:
        hidden.append(np.all(np.abs(points - place) < half, axis=2).mean(axis=1).max())
        if hidden[-1] <= HIDDEN:
            break
    best: NDArray[np.float64] = tried[is_free][np.argmin(hidden)] if hidden else tried[0]
    return best
