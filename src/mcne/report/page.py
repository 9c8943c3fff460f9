"""The page: one HTML file that needs no other, light and dark, on paper and on a phone."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

from mcne import files
from mcne.plots.style import THEMES, Theme, note_on_boxes, save, styled, to_svg
from mcne.text import Html, Table, element, paragraph, side_by_side

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""No script at all, and nothing from elsewhere."""
STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
LARGEST_SVG = 120_000  # bytes; a figure of thousands of marks is smaller, and faster to show, as an image of points
POINTS_PER_INCH = 144
SHADES = 256  # colors of such an image: few figures have more, and it takes a third of the bytes
FORMATS = ("png", "svg")
CHOICES = {"auto": "as the system", "light": "light", "dark": "dark"}


@dataclass(frozen=True)
class Drawing:
    """A figure that can be drawn in each theme; ``name`` is that of its file."""

    name: str
    title: str
    alt_text: str  # what it shows, in words
    caption: str
    draw: Callable[[Theme], Figure]


Part = str | Table | tuple[Table, ...] | Drawing
"""Plain text is a paragraph, and tables in a tuple stand side by side."""


@dataclass(frozen=True)
class Section:
    """A section with a heading of its own; ``anchor`` is where links lead."""

    anchor: str
    title: str
    parts: Sequence[Part] = ()  # without any it shows what it lacks
    lacks: str = ""  # why it is not what it should be


@dataclass(frozen=True)
class Report:
    """A page before it is written."""

    title: str
    subject: str  # the run or the comparison that it is of
    sections: Sequence[Section]

    @property
    def drawings(self) -> list[Drawing]:
        """Every figure of the page, in order."""
        return [part for section in self.sections for part in section.parts if isinstance(part, Drawing)]

    def html(self) -> str:
        """The whole page as one HTML file that needs no other."""
        head = element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=POLICY),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="referrer", content="no-referrer"),
            element("title", self.title),
            element("style", Html(f"\n{STYLE}")),
        )
        links = [element("li", element("a", each.title, href=f"#{each.anchor}")) for each in self.sections]
        sections = [
            element("section", element("h2", each.title, id=each.anchor), *map(_shown, each.parts or [each.lacks]))
            for each in self.sections
        ]
        about = f"A report of {self.subject}. The page is one file: it needs no network and no script."
        body = element(
            "body",
            element("header", element("h1", self.title), _switch()),
            paragraph(about, class_="soft"),
            element("nav", element("ul", *links), aria_label="Sections"),
            element("main", *sections),
        )
        return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def facts(pairs: Sequence[tuple[str, str]]) -> Html:
    """A few figures to see first, each under its name."""
    return element(
        "dl", *(element("div", element("dt", name), element("dd", value)) for name, value in pairs), class_="facts"
    )


def shown(drawing: Drawing) -> Html:
    """The figure in the page, in both themes, of which the style sheet shows one."""
    images = []
    for theme in THEMES:
        with styled(theme) as letters:
            figure = drawing.draw(theme)
            width, height = (round(96 * inches) for inches in figure.get_size_inches())
            source = _embedded(figure)
        size = {"width": str(width), "height": str(height), "style": f"--width: {width}px"}
        images.append(element("img", class_=f"on-{theme}", src=source, alt=drawing.alt_text, **size))
    box = element("div", *images, class_="wide", role="group", tabindex="0", aria_label=f"Figure: {drawing.title}")
    return element("figure", box, element("figcaption", " ".join([drawing.caption, note_on_boxes(letters)]).rstrip()))


def save_all(drawings: Sequence[Drawing], directory: Path) -> None:
    """Every figure as PNG and as SVG in a new directory, all or none, on white paper."""
    with files.written_aside(files.place(directory)) as aside:
        for drawing in drawings:
            for suffix in FORMATS:
                with styled("light"):
                    save(drawing.draw("light"), aside / f"{drawing.name}.{suffix}")


def _shown(part: Part) -> Html:
    if isinstance(part, Drawing):
        return shown(part)
    if isinstance(part, Table):
        return part.captioned()
    if isinstance(part, tuple):
        return side_by_side(table.captioned() for table in part)
    return part if isinstance(part, Html) else paragraph(part)


def _switch() -> Html:
    """Light, dark, or as the system is; the style sheet looks which one is checked, so no script is needed."""
    choices = []
    for value, text in CHOICES.items():
        checked = {"checked": ""} if value == "auto" else {}
        radio = element("input", type="radio", name="theme", id=f"theme-{value}", value=value, **checked)
        choices.append(element("label", radio, text))
    return element("fieldset", element("legend", "Colors"), *choices)


def _embedded(figure: Figure) -> str:
    """The figure as an address that holds it: as SVG, or as PNG where that would be too large."""
    drawn = to_svg(figure).encode()
    if len(drawn) <= LARGEST_SVG:
        return f"data:image/svg+xml;base64,{base64.b64encode(drawn).decode()}"
    drawn_as_points = io.BytesIO()
    written = io.BytesIO()
    figure.savefig(drawn_as_points, format="png", dpi=POINTS_PER_INCH, metadata={"Software": None})
    with Image.open(drawn_as_points) as image:
        image.convert("RGB").quantize(SHADES, dither=Image.Dither.NONE).save(written, format="png", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"
