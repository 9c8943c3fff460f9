"""The parts of a figure by their kind: matplotlib's own lists name their base classes alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from numpy.typing import NDArray


def bars_of(axes: Axes) -> list[Rectangle]:
    """All patches of the axes, which must be bars."""
    bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    assert len(bars) == len(axes.patches)
    return bars


def error_bars_of(axes: Axes) -> list[ErrorbarContainer]:
    """All containers of the axes, which must be lines with error bars."""
    containers = [container for container in axes.containers if isinstance(container, ErrorbarContainer)]
    assert len(containers) == len(axes.containers)
    return containers


def data_line_of(container: ErrorbarContainer) -> Line2D:
    """The line through the points, without the bars and their caps."""
    line = container.lines[0]
    assert isinstance(line, Line2D)
    return line


def x_of(line: Line2D) -> NDArray[Any]:
    return np.asarray(line.get_xdata())


def y_of(line: Line2D) -> NDArray[Any]:
    return np.asarray(line.get_ydata())
