"""Small plots side by side as SVG, on logarithmic axes: what is flat does not grow, a diagonal grows in proportion."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 330, 250
LEFT, RIGHT, TOP, BOTTOM, INSET = 58, 24, 34, 52, 18
COLUMNS = 2
STYLE = (
    "text{font:12px sans-serif;fill:#333}.title{font-weight:bold}.value{font-size:10px;fill:#1f5f99}"
    ".axis{stroke:#999}.grid{stroke:#e4e4e4}.line{fill:none;stroke:#1f77b4;stroke-width:2}.point{fill:#1f77b4}"
    "@media(prefers-color-scheme:dark){text{fill:#ccc}.value{fill:#8fc3ef}.grid{stroke:#444}}"
)


@dataclass(frozen=True)
class Panel:
    """One curve: ``values`` against ``sizes``, all above 0."""

    name: str  # of the sizes
    unit: str  # of the values
    sizes: tuple[int, ...]
    values: tuple[float, ...]


def panels(drawn: Sequence[Panel]) -> str:
    """An SVG document."""
    columns = min(COLUMNS, len(drawn))
    width, height = WIDTH * columns, HEIGHT * -(-len(drawn) // columns)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<style>{STYLE}</style>",
    ]
    for at, panel in enumerate(drawn):
        row, column = divmod(at, columns)
        parts.append(f'<g transform="translate({column * WIDTH} {row * HEIGHT})">')
        parts += _panel(panel)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>\n"])


def _panel(panel: Panel) -> Iterator[str]:
    """A decade is as long on both axes, so that a cost in proportion to its size is a diagonal."""
    low = 10 ** math.floor(math.log10(min(panel.values)))
    decades = max(
        math.log10(panel.sizes[-1] / panel.sizes[0]), math.ceil(math.log10(max(panel.values) / low) - 1e-9), 1
    )
    across, up = (WIDTH - LEFT - INSET - RIGHT) / decades, (HEIGHT - TOP - BOTTOM) / decades
    floor, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    yield f'<text class="title" x="{LEFT}" y="18">{escape(panel.unit)}</text>'
    for k in range(math.floor(decades) + 1):
        y = floor - k * up
        yield f'<line class="{"grid" if k else "axis"}" x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{low * 10**k:,g}</text>'
    places = [
        (LEFT + INSET + across * math.log10(size / panel.sizes[0]), floor - up * math.log10(value / low))
        for size, value in zip(panel.sizes, panel.values, strict=True)
    ]
    yield f'<polyline class="line" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in places)}"/>'
    for (x, y), size, value in zip(places, panel.sizes, panel.values, strict=True):
        yield f'<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
        yield f'<text class="value" x="{x:.1f}" y="{y - 8:.1f}" text-anchor="middle">{_rounded(value)}</text>'
        yield f'<text x="{x:.1f}" y="{floor + 16}" text-anchor="middle">{_short(size)}</text>'
    yield f'<text x="{(LEFT + right) / 2:.1f}" y="{floor + 36}" text-anchor="middle">{escape(panel.name)}</text>'


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _short(size: int) -> str:
    for factor, letter in ((1_000_000, "M"), (1_000, "k")):
        if size >= factor:
            return f"{size / factor:g}{letter}"
    return str(size)
