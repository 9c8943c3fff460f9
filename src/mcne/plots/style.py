"""The style of all figures: colors that color-blind people can distinguish, light and dark, reproducible bytes.

A figure is made in ``with styled(theme):`` with :func:`canvas`, drawn on, and given to :func:`save` or :func:`to_svg`.
There is no global state: figures are plain objects.
"""

from __future__ import annotations

import io
import itertools
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.layout_engine import ConstrainedLayoutEngine

from mcne.errors import UnknownError
from mcne.files import write_new
from mcne.plots import check_place
from mcne.text import printable

T = TypeVar("T")
Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = get_args(Theme)
UNDATED: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""What keeps the clock and the versions of programs out of a file, by its format."""
SHORT = 22  # characters of a name in a label
DPI = 200  # of PNG files: fit for print at a column's width

FONT = "DejaVu Sans"  # it comes with matplotlib, so it is everywhere
FURTHER_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei"),
    *("Microsoft YaHei", "PingFang SC", "Hiragino Sans", "Yu Gothic", "Malgun Gothic", "Apple SD Gothic Neo"),
    *("Noto Sans Devanagari", "Noto Sans Bengali", "Noto Sans Tamil", "Noto Sans Thai", "Noto Sans Hebrew"),
    *("Nirmala UI", "Leelawadee UI", "Segoe UI Symbol", "Noto Emoji", "Noto Sans Symbols 2", "Arial Unicode MS"),
)
"""Where they are installed, they have the letters that :data:`FONT` lacks, such as Chinese ones."""
NO_GLYPH = re.compile(r"Glyph (\d+) .*missing from font")

COLORS = {
    "light": (
        *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#BBAA00", "#56B4E9"),
        *("#771166", "#444444", "#8800FF", "#4400AA", "#880000", "#7A5C3A"),
    ),
    "dark": (
        *("#56B4E9", "#F0884A", "#2FC49A", "#BB99BB", "#E5C04D", "#9AD0F5"),
        *("#C06090", "#BBBBBB", "#6F2FEE", "#B01040", "#995500", "#007755"),
    ),
}
"""Those of Okabe and Ito, made darker or lighter where they would vanish in the paper or look like another to
color-blind people, and more that do not."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h", "d")
"""One more than colors: where those repeat, markers differ."""
INK = {"light": "#1A1A1A", "dark": "#E6E6E6"}
FAINT = {"light": "#8C8C8C", "dark": "#8C8C8C"}
PAPER = {"light": "#FFFFFF", "dark": "#16181C"}


@contextmanager
def styled(theme: Theme) -> Iterator[set[str]]:
    """Figures that are made, drawn and saved in the block look like this theme.

    Gives a set that holds, after the block, the letters that no font here has: boxes stand for them.
    """
    if theme not in THEMES:
        raise UnknownError.of("theme", theme, THEMES)
    installed = set(fontManager.get_font_names())  # matplotlib would warn of each other one
    inked = ("axes.labelcolor", "axes.titlecolor", "text.color", "xtick.color", "ytick.color")
    settings: Any = dict.fromkeys(inked, INK[theme]) | {
        "font.family": [FONT, *(font for font in FURTHER_FONTS if font in installed)],
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.titleweight": "bold",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": FAINT[theme],
        "axes.facecolor": PAPER[theme],
        "figure.facecolor": PAPER[theme],
        "savefig.facecolor": PAPER[theme],
        "grid.color": FAINT[theme],
        "grid.alpha": 0.3,
        "legend.frameon": False,
        "lines.linewidth": 1.6,
        "lines.markersize": 4.5,
        "svg.fonttype": "path",
        "svg.hashsalt": "mcne",
        "path.simplify": True,
    }
    letters: set[str] = set()
    with matplotlib.rc_context(settings), warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", message=NO_GLYPH.pattern)
        yield letters
    for warning in caught:
        if match := NO_GLYPH.match(str(warning.message)):
            letters.add(chr(int(match[1])))
        else:
            warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)


def note_on_boxes(letters: set[str]) -> str:
    """A note about letters shown as boxes; empty if there are none."""
    if not letters:
        return ""
    shown = "".join(sorted(letters)[:12]) + ("…" if len(letters) > 12 else "")
    return (
        f"Boxes in the figure stand for letters that no font had where it was drawn ({shown}): install one that has, "
        "such as Noto Sans CJK, and draw it again."
    )


def canvas(width: float, height: float) -> Figure:
    """An empty figure, in inches, whose parts never overlap."""
    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))


def colors(theme: Theme, n: int) -> list[str]:
    """As many colors, which repeat after the twelfth: then :data:`MARKERS` tell them apart."""
    return list(itertools.islice(itertools.cycle(COLORS[theme]), n))


def looks(theme: Theme, names: Sequence[T]) -> dict[T, dict[str, Any]]:
    """A color and a marker for each name."""
    shades = zip(names, colors(theme, len(names)), itertools.cycle(MARKERS), strict=False)
    return {name: {"color": color, "marker": marker} for name, color, marker in shades}


def diverging(theme: Theme, strength: float = 1.0) -> LinearSegmentedColormap:
    """From the second color over the paper to the first, both as strong as this."""
    paper = np.array(to_rgb(PAPER[theme]))
    more, less = (tuple((1 - strength) * paper + strength * np.array(to_rgb(each))) for each in colors(theme, 2))
    return LinearSegmentedColormap.from_list("less to more", [less, tuple(paper), more])


def panels(figure: Figure, count: int, columns: int) -> list[Axes]:
    """So many axes in rows of at most ``columns``."""
    columns = min(columns, count)
    axes = figure.subplots(-(-count // columns), columns, squeeze=False).ravel()
    for surplus in axes[count:]:
        surplus.remove()
    return list(axes[:count])


def name_rows(axes: Axes, names: Sequence[str], limit: int = SHORT) -> None:
    """Names on the left, the first above."""
    axes.set_yticks(range(len(names)), [shortened(name, limit) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.5, -0.5)


def as_table(axes: Axes, names: Sequence[str], limit: int = SHORT) -> None:
    """Names of rows, and neither a frame nor ticks."""
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    name_rows(axes, names, limit)


def shortened(name: str, limit: int = SHORT) -> str:
    """A name for a label, in one line: what is too long loses its middle, for names often differ at their ends.

    It is never markup.
    """
    line = " ".join(printable(name).split())
    tail = (limit - 1) // 3
    shown = line if len(line) <= limit else f"{line[: limit - 1 - tail]}…{line[-tail:]}"
    return shown.replace("$", r"\$")


def save(figure: Figure, path: Path) -> None:
    """Write a PNG, SVG or PDF, as its name says; an existing file is never replaced."""
    check_place(path)
    drawn = io.BytesIO()
    file_format = path.suffix.lower()[1:]
    figure.savefig(drawn, format=file_format, dpi=DPI, metadata=UNDATED[file_format])
    write_new(path, drawn.getvalue())


def to_svg(figure: Figure) -> str:
    """The figure as an ``<svg>`` element for a page."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata=UNDATED["svg"])
    return "<svg" + text.getvalue().partition("<svg")[2]
