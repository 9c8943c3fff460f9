"""Figures of the page: drawn light and dark, held in the page itself, and on request in files for print."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

from mcne import files
from mcne.plots.style import THEMES, Theme, boxes_told, canvas, colors, save, shortened, styled, to_svg
from mcne.text import Html, element

LARGEST_SVG = 120_000
"""Bytes; a figure of thousands of marks is smaller, and faster to show, as an image of points."""
POINTS_PER_INCH = 144
SHADES = 256
"""Colors of such an image: few figures have more, and it takes a third of the bytes."""
FORMATS = ("png", "svg")


@dataclass(frozen=True)
class Drawing:
    """A figure that can be drawn in each theme; ``name`` is its file's, ``told`` what it shows, in words."""

    name: str
    title: str
    told: str
    draw: Callable[[Theme], Figure]


@dataclass(frozen=True)
class Measured:
    """A mean and the interval that it lies in, all from 0 to 1."""

    mean: float
    low: float
    high: float


def shown(drawing: Drawing, caption: str) -> Html:
    """The figure in the page, in both themes, of which the style sheet shows one."""
    images = []
    for theme in THEMES:
        with styled(theme) as letters:
            figure = drawing.draw(theme)
            width, height = (round(96 * inches) for inches in figure.get_size_inches())
            source = _embedded(figure)
        size = {"width": str(width), "height": str(height), "style": f"--width: {width}px"}
        images.append(element("img", class_=f"on-{theme}", src=source, alt=drawing.told, **size))
    box = element("div", *images, class_="wide", role="group", tabindex="0", aria_label=f"Figure: {drawing.title}")
    return element("figure", box, element("figcaption", " ".join([caption, boxes_told(letters)]).rstrip()))


def save_all(drawings: Sequence[Drawing], directory: Path) -> None:
    """Every figure as PNG and as SVG in a new directory, all or none, on white paper."""
    with files.written_aside(files.place(directory)) as aside:
        for drawing in drawings:
            for suffix in FORMATS:
                with styled("light"):
                    save(drawing.draw("light"), aside / f"{drawing.name}.{suffix}")


def measured(found: Mapping[str, Mapping[str, Measured]], *, title: str, theme: Theme) -> Figure:
    """A row for each name, a color and marker for each metric, with intervals; in percent."""
    metrics = list(dict.fromkeys(metric for values in found.values() for metric in values))
    figure = canvas(6.6, 1.0 + 0.3 * max(2, len(found)))
    axes = figure.subplots()
    for k, (metric, color) in enumerate(zip(metrics, colors(theme, len(metrics)), strict=True)):
        held = [(row, values[metric]) for row, values in enumerate(found.values()) if metric in values]
        rows = [row + 0.3 * (k - (len(metrics) - 1) / 2) for row, _ in held]
        means = [100 * value.mean for _, value in held]
        sides = [[100 * (v.mean - v.low) for _, v in held], [100 * (v.high - v.mean) for _, v in held]]
        axes.errorbar(means, rows, xerr=sides, fmt="os^D"[k % 4], color=color, label=metric, elinewidth=1.2)
    axes.set_yticks(range(len(found)), labels=[shortened(name) for name in found])
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.set_xlabel("percent")
    axes.set_title(title, loc="left")
    axes.grid(axis="x")
    figure.legend(loc="outside upper right", ncols=len(metrics))
    return figure


def _embedded(figure: Figure) -> str:
    """The figure as an address that holds it: as SVG, or as PNG where that would be too large."""
    drawn = to_svg(figure).encode()
    if len(drawn) <= LARGEST_SVG:
        return f"data:image/svg+xml;base64,{base64.b64encode(drawn).decode()}"
    drawn_as_points, written = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn_as_points, format="png", dpi=POINTS_PER_INCH, metadata={"Software": None})
    with Image.open(drawn_as_points) as image:
        image.convert("RGB").quantize(SHADES, dither=Image.Dither.NONE).save(written, format="png", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"
