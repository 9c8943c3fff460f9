"""The masks of a run: the last level as in the paper's figure, density, overlap and changes during training.

Of behaviors that were added later the masks of all levels are drawn: nothing else of them was learned but items.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from mcne.analysis.masks import MaskLevel, MaskNumbers
from mcne.plots.style import FAINT, INK, PAPER, Theme, as_table, canvas, colors, diverging, shortened

NOT_USED = 0.25  # how much of its color an entry keeps where the dimension is zero for every user
WIDTH = 10.0
FEW = 7  # masks whose overlaps have room for what is expected, too
SIGNIFICANT = 0.05
LETTERS_BELOW = 60  # that fit below the overlaps, side by side


def draw_masks(numbers: MaskNumbers, *, theme: Theme, beside: MaskNumbers | None = None) -> Figure:
    """The last masks, those of ``beside`` to their left; below them density, overlap and training of the run itself."""
    shown = [each for each in (beside, numbers) if each is not None]
    rows = max(len(each.levels[-1].names) for each in shown)
    upright = 1.2 * _is_upright(numbers.levels[-1].names[:-1])
    lower = [level for level in numbers.levels[:-1] if set(level.names) & set(numbers.added)]
    heights = {"last": 0.9 + 0.24 * rows}
    heights |= {"lower": 0.8 + 0.24 * len(numbers.added)} if lower else {}
    heights |= {"numbers": 1.5 + 0.26 * rows + upright}
    heights |= {"training": 2.2 + 0.3 * bool(numbers.added)} if len(numbers.training) > 1 else {}
    figure = canvas(WIDTH, sum(heights.values()))
    stacked = figure.subfigures(len(heights), 1, height_ratios=list(heights.values()), squeeze=False)[:, 0]
    parts = dict(zip(heights, stacked, strict=True))
    for axes, each in zip(parts["last"].subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        last = each.levels[-1]
        _draw_rows(axes, each, last, last.names, theme)
        on = "\non the behaviors learned first" if each.added else ""  # those added later have vectors of their own
        axes.set_xlabel(f"dimension; pale: zero for every user{on} ({last.width - sum(last.used)} of {last.width})")
        axes.set_title(f"{each.method}: last level")
    if lower:
        panels = parts["lower"].subplots(1, len(lower), squeeze=False)[0]
        for axes, level in zip(panels, lower, strict=True):
            _draw_rows(axes, numbers, level, [name for name in numbers.added if name in level.names], theme)
            axes.set_xlabel("dimension")
            axes.set_title(f"Added later: level {level.level}")
    density, overlap = parts["numbers"].subplots(1, 2, width_ratios=[1, 2])
    _draw_density(density, numbers, theme)
    _draw_overlap(overlap, numbers.levels[-1], theme)
    if "training" in parts:
        _draw_training(parts["training"].subplots(1, 2), numbers, theme)
        if numbers.added:
            parts["training"].suptitle(f"The masks of {shortened(numbers.added[-1])} in training", fontsize=10)
    return figure


def _draw_rows(axes: Axes, numbers: MaskNumbers, level: MaskLevel, names: Sequence[str], theme: Theme) -> None:
    """The masks of these names: a row each, a column per dimension, in the name's color where the mask is one."""
    every = numbers.levels[-1].names
    row_colors = dict(zip(every, (*colors(theme, len(every) - 1), FAINT[theme]), strict=True))
    masks = np.array([level.masks[level.names.index(name)] for name in names])
    shades = np.array([to_rgb(row_colors[name]) for name in names])
    paper = np.array(to_rgb(PAPER[theme]))
    strength = masks * np.where(level.used, 1.0, NOT_USED)  # [rows, dimensions]
    picture = paper + strength[:, :, None] * (shades[:, None, :] - paper)  # [rows, dimensions, 3]
    axes.imshow(picture, aspect="auto", interpolation="nearest")
    for row in range(1, len(masks)):
        axes.axhline(row - 0.5, color=PAPER[theme], linewidth=2.5)
    as_table(axes, names)


def _draw_density(axes: Axes, numbers: MaskNumbers, theme: Theme) -> None:
    """The share of ones, a column per level; a behavior added later may have none below the last."""
    names = numbers.levels[-1].names
    table = np.array([[level.density.get(name, np.nan) for level in numbers.levels] for name in names])
    axes.imshow(np.full((*table.shape, 3), to_rgb(PAPER[theme])), aspect="auto")
    for (row, column), value in np.ndenumerate(table):
        axes.text(column, row, "–" if np.isnan(value) else f"{value:.0%}", ha="center", va="center", fontsize=8)
    as_table(axes, names)
    axes.set_xticks(range(len(numbers.levels)), [f"{level.level}\n({level.width})" for level in numbers.levels])
    axes.set_xlabel("level (and its width)")
    axes.set_title("Ones in a mask")


def _draw_overlap(axes: Axes, last: MaskLevel, theme: Theme) -> None:
    """Dimensions in use that two masks share, and random masks on average; colored by how much more or less it is."""
    at = {name: row for row, name in enumerate(last.names)}
    excess = np.full((len(at) - 1, len(at) - 1), np.nan)
    for pair in last.overlaps_in_use:
        row, column = at[pair.second] - 1, at[pair.first]
        excess[row, column] = (pair.shared - pair.chance) / max(pair.chance, 1e-9)
        shown = f"{pair.shared} ({pair.chance:.1f})" if len(at) <= FEW else str(pair.shared)
        weight = "bold" if pair.holm_p < SIGNIFICANT else "normal"
        axes.text(column, row, shown, ha="center", va="center", fontsize=8, fontweight=weight)
    axes.imshow(excess, cmap=diverging(theme, 0.55), vmin=-1, vmax=1, aspect="auto")  # weak enough to write on
    as_table(axes, last.names[1:])
    columns = last.names[:-1]
    rotation = 90 if _is_upright(columns) else 0
    axes.set_xticks(range(len(columns)), [shortened(name) for name in columns], rotation=rotation)
    axes.set_xlabel(
        "blue: more than random masks with as many ones share\norange: less; bold: p < 0.05 (Holm)", fontsize=8
    )
    axes.set_title(f"Dimensions in use that two share{' (by chance)' if len(at) <= FEW else ''}")


def _draw_training(both: NDArray[Any], numbers: MaskNumbers, theme: Theme) -> None:
    """How often entries turned over in each epoch, and the density of each level."""
    flips, density = both
    epochs = [each.epoch for each in numbers.training]
    total = np.array([each.flips for each in numbers.training])
    flips.bar(epochs, np.diff(total, prepend=0) / numbers.entries, color=FAINT[theme])
    flips.set_title("Turns per entry in an epoch")
    flips.set_ylim(bottom=0)
    trained = numbers.levels[-len(numbers.training[0].density) :]  # of whole vectors the last alone has a mask
    for k, (color, level) in enumerate(zip(colors(theme, len(trained)), trained, strict=True)):
        values = [each.density[k] for each in numbers.training]
        density.plot(epochs, values, color=color, linestyle=("-", "--", ":", "-.")[k % 4], label=f"level {level.level}")
    density.set_title("Ones in the masks of a level")
    density.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    low, high = density.get_ylim()
    density.set_ylim(max(0.0, low), min(1.0, high))
    density.yaxis.set_major_formatter(PercentFormatter(1))
    for axes in both:
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        axes.set_xlabel("epoch" if numbers.best_epoch is None else "epoch; dotted: whose masks these are")
        if numbers.best_epoch is not None:
            axes.axvline(numbers.best_epoch, color=INK[theme], linewidth=1, linestyle=":")


def _is_upright(names: tuple[str, ...]) -> bool:
    """Whether names would not fit side by side below the overlaps."""
    return len(names) * max(len(shortened(name)) for name in names) > LETTERS_BELOW
