"""Maps of users: all conditional vectors in one map, or one map per behavior of the same users."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from numpy.typing import NDArray

from mcne.analysis.maps import LEARNED, RANDOM, ConditionalMap, Panel
from mcne.plots.style import INK, MARKERS, PAPER, Theme, canvas, looks, panels, shortened
from mcne.text import with_name

Array = NDArray[np.float64]
FOLLOWED = 5  # users that can be followed from one map to the next
COLUMNS = 4
ORDER, SHOWN = "cividis", {"light": (0.0, 0.85), "dark": (0.3, 1.0)}
"""Colors that color-blind people see in the same order, and which part of them stands out from the paper."""
TITLES = {LEARNED: "Learned masks", RANDOM: "Random masks with as many ones in use"}
GAP = 3.0  # between two names, in pixels
HIDDEN = 0.2  # the share of a group's points that a name may lie on
TRIES = 4000


def draw_map(drawn: ConditionalMap, *, theme: Theme) -> Figure:
    """The figure of a map, whichever it is."""
    return _draw_together(drawn, theme) if drawn.layout == "together" else _draw_aligned(drawn, theme)


def _draw_together(drawn: ConditionalMap, theme: Theme) -> Figure:
    """Every user once per behavior; beside it the same vectors under random masks."""
    figure = canvas(10.5, 6.0)
    figure.suptitle(
        f"{drawn.method}: {len(drawn.user_ids):,} users × {len(drawn.panels[0].groups)} behaviors in a t-SNE "
        f"(perplexity {drawn.perplexity:g}, seed {drawn.seed})"
    )
    written = []
    for axes, panel in zip(figure.subplots(1, len(drawn.panels)), drawn.panels, strict=True):
        written.append((axes, _draw_groups(axes, panel, theme)))
    for panel, (axes, names) in zip(drawn.panels, written, strict=True):
        move_apart(figure, axes, names, panel.places)
    return figure


def _draw_groups(axes: Axes, panel: Panel, theme: Theme) -> list[Text]:
    """The points of every behavior, and its name in the middle of them; returns the names."""
    # Points that are snapped to pixels lose their arms where they are small crosses.
    flat: dict[str, Any] = {"alpha": 0.6, "linewidths": 0, "rasterized": True, "snap": False}
    flat["s"] = max(2.0, 20_000 / panel.places[..., 0].size)
    names = []
    for (name, look), places in zip(looks(theme, panel.groups).items(), panel.places, strict=True):
        axes.scatter(places[:, 0], places[:, 1], **look, **flat)
        box = {"boxstyle": "round,pad=0.25", "facecolor": PAPER[theme], "edgecolor": look["color"], "linewidth": 1.6}
        x, y = places.mean(axis=0)
        text: dict[str, Any] = {"ha": "center", "va": "center", "fontweight": "bold", "color": INK[theme], "zorder": 5}
        names.append(axes.text(x, y, shortened(name), bbox=box, **text))
    _bare(axes)
    axes.set_aspect("equal", adjustable="datalim")
    assert panel.separation is not None
    trust = f"trustworthiness {panel.trustworthiness:.3f}"
    nearest = f"{panel.separation.same_group:.0%} of nearest points are of the same behavior"
    axes.set_title(TITLES[panel.name])
    axes.set_xlabel(f"{nearest}\nsilhouette {panel.separation.silhouette:.2f}, {trust}")
    return names


def _draw_aligned(drawn: ConditionalMap, theme: Theme) -> Figure:
    """A small map per behavior; users keep the color of their place in the first, and some can be followed."""
    columns = min(COLUMNS, len(drawn.panels))
    rows = math.ceil(len(drawn.panels) / columns)
    figure = canvas(2.7 * columns, 3.3 * rows + 1.0)
    figure.suptitle(
        f"{drawn.method}: the same {len(drawn.user_ids):,} users in a t-SNE per behavior (perplexity "
        f"{drawn.perplexity:g}, seed {drawn.seed})\ncolored from left to right as they are in the first"
    )
    cells = panels(figure, len(drawn.panels), columns)
    shared = drawn.panels[0].places[0]
    followed = spread_out(shared, FOLLOWED)
    labels = list(map(with_name, drawn.user_ids, drawn.user_names or [""] * len(shared)))
    rank = np.argsort(np.argsort(shared[:, 0])) / len(shared)
    tones = colormaps[ORDER](SHOWN[theme][0] + rank * (SHOWN[theme][1] - SHOWN[theme][0]))
    every = np.concatenate([panel.places[0] for panel in drawn.panels])
    middle = (every.max(axis=0) + every.min(axis=0)) / 2
    reach = 0.55 * np.ptp(every, axis=0).max()
    edge: dict[str, Any] = {"edgecolors": PAPER[theme], "linewidths": 1.0, "zorder": 4}
    for axes, panel in zip(cells, drawn.panels, strict=True):
        places = panel.places[0]
        axes.scatter(places[:, 0], places[:, 1], s=5, color=tones, linewidths=0, rasterized=True)
        for marker, user in zip(MARKERS, followed, strict=False):
            x, y = places[user]
            label = f"user {shortened(labels[user], 12)}"
            axes.scatter(x, y, s=80, color=INK[theme], marker=marker, label=label, **edge)
        _bare(axes)
        low, high = middle - reach, middle + reach
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
        axes.set_title(shortened(panel.name))
        kept = "" if panel.kept_neighbors is None else f"\nneighbors kept {panel.kept_neighbors:.0%}"
        axes.set_xlabel(f"trustworthiness {panel.trustworthiness:.3f}{kept}", fontsize=8)
    figure.legend(*cells[0].get_legend_handles_labels(), loc="outside lower center", ncols=FOLLOWED, fontsize=8)
    return figure


def spread_out(places: Array, count: int) -> list[int]:
    """Rows far from one another: the first is farthest from the center, each next farthest from those before."""
    chosen: list[int] = []
    distance = np.linalg.norm(places - places.mean(axis=0), axis=1)
    for _ in range(min(count, len(places))):
        chosen.append(int(distance.argmax()))
        reach = np.linalg.norm(places - places[chosen[-1]], axis=1)
        distance = reach if len(chosen) == 1 else np.minimum(distance, reach)
    return chosen


def _bare(axes: Axes) -> None:
    """Places in a map have no units: no ticks, and a faint frame."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color(axes.spines["left"].get_edgecolor())


def move_apart(figure: Figure, axes: Axes, names: Sequence[Text], points: NDArray[Any]) -> None:
    """Move names that lie on others or hide the ``points`` [groups, points, 2] of a group to the nearest free place.

    Each in turn, as they are given; a line leads to where it was. The layout must be the final one: it is computed here
    and then kept.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    inside = axes.get_window_extent()
    shown = axes.transData.transform(points.reshape(-1, 2)).reshape(points.shape)
    taken: list[Array] = []
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


def _free(center: Array, half: Array, room: Array, taken: list[Array], points: Array) -> Array:
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
    best: Array = tried[is_free][np.argmin(hidden)] if hidden else tried[0]
    return best
