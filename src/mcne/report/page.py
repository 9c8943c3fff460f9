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
from mcne.plots.style import THEMES, Theme, boxes_told, save, styled, to_svg
from mcne.text import Html, element, paragraph

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""No script at all, and nothing from elsewhere."""

STYLE = """
:root { color-scheme: light; --ink: #1a1a1a; --soft: #555; --paper: #fff; --panel: #f4f5f7; --line: #d5d8dd;
  --accent: #005a8f; --mark: #dcecf7; }
@media screen and (prefers-color-scheme: dark) { :root:not(:has(#theme-light:checked)) { color-scheme: dark;
  --ink: #e6e6e6; --soft: #a9adb5; --paper: #16181c; --panel: #202329; --line: #3a3e46; --accent: #7cc4f0;
  --mark: #1d3b50; } }
@media screen { :root:has(#theme-dark:checked) { color-scheme: dark; --ink: #e6e6e6; --soft: #a9adb5;
  --paper: #16181c; --panel: #202329; --line: #3a3e46; --accent: #7cc4f0; --mark: #1d3b50; } }
* { box-sizing: border-box; }
html { background: var(--paper); color: var(--ink); -webkit-text-size-adjust: 100%; }
body { font: 1rem/1.55 system-ui, sans-serif; margin: 0 auto; max-width: 72rem; padding: 1.25rem 1rem 4rem; }
header { display: flex; flex-wrap: wrap; gap: .75rem 2rem; align-items: center; justify-content: space-between; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.3rem; line-height: 1.25; margin: 3rem 0 .75rem; padding-top: .75rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.75rem 0 .5rem; overflow-wrap: anywhere; }
p, ul { max-width: 46rem; margin: .6rem 0; } li { margin: .25rem 0; } ul { padding-left: 1.25rem; }
a { color: var(--accent); } .soft, .interval { color: var(--soft); } .interval { font-size: .85em; }
code { font: .875em/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
fieldset { border: 1px solid var(--line); border-radius: .5rem; display: flex; gap: .9rem; margin: 0;
  padding: .3rem .75rem; font-size: .875rem; } legend { padding: 0 .3rem; color: var(--soft); }
label { display: inline-flex; gap: .3rem; align-items: center; }
input { margin: 0; accent-color: var(--accent); width: 1.05rem; height: 1.05rem; }
nav ul { display: flex; flex-wrap: wrap; gap: .35rem 1.1rem; list-style: none; padding: 0; max-width: none;
  margin: 1rem 0 0; font-size: .9375rem; } nav li { margin: 0; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .75rem; margin: 1rem 0; }
.facts div { background: var(--panel); border-radius: .5rem; padding: .6rem .8rem; }
.facts dt { color: var(--soft); font-size: .8125rem; }
.facts dd { margin: .1rem 0 0; font-size: 1.2rem; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.facts .interval { display: block; font-size: .8125rem; }
.wide { overflow-x: auto; margin: 1rem 0 1.5rem; max-width: 100%; }
.wide:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
table { border-collapse: separate; border-spacing: 0; font-size: .9375rem; line-height: 1.5rem;
  font-variant-numeric: tabular-nums; }
.pair { display: flex; flex-wrap: wrap; gap: 0 2rem; } .pair .wide { min-width: 0; }
caption { text-align: left; font-weight: 600; padding: 0 0 .35rem; }
caption span { display: block; position: sticky; left: 0; max-width: min(46rem, calc(100vw - 2rem)); }
th, td { padding: 4px .7rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top;
  white-space: nowrap; unicode-bidi: isolate; }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; white-space: normal; max-width: 13rem; }
details { margin: 1rem 0 1.5rem; } summary { cursor: pointer; font-weight: 600; overflow-wrap: anywhere; }
.text { text-align: left; } td.text { white-space: normal; min-width: 8rem; max-width: 34rem; overflow-wrap: anywhere; }
tbody th { font-weight: 500; white-space: normal; overflow-wrap: anywhere; min-width: 7rem; max-width: 16rem; }
.long, td.long { min-width: 11rem; } tbody th.long { min-width: 15rem; }
th:first-child { position: sticky; left: 0; background: var(--paper); padding-left: 0; }
td .interval { display: block; line-height: 1.25rem; } td.best { background: var(--mark); font-weight: 700; }
figure { margin: 1.25rem 0; } figcaption { color: var(--soft); font-size: .9375rem; max-width: 46rem; }
figure img { display: block; max-width: 100%; min-width: calc(.7 * var(--width)); height: auto; }
figure .wide { margin: 0 0 .5rem; } figure img.on-dark { display: none; }
@media screen and (prefers-color-scheme: dark) {
  :root:not(:has(#theme-light:checked)) figure img.on-light { display: none; }
  :root:not(:has(#theme-light:checked)) figure img.on-dark { display: block; } }
@media screen { :root:has(#theme-dark:checked) figure img.on-light { display: none; }
  :root:has(#theme-dark:checked) figure img.on-dark { display: block; } }
@media (max-width: 40rem) { tbody th { min-width: 5.5rem; } th:first-child { max-width: 9.75rem; }
  tbody th.long { min-width: 9.75rem; } h1 { font-size: 1.4rem; } }
.card { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr)); gap: 0 2.5rem; }
.card h3 { margin-top: 1rem; }
@media print { fieldset, nav { display: none; } figure img { min-width: 0; }
  body { max-width: none; padding: 0; font-size: 10pt; } .wide { overflow: visible; }
  table { font-size: 8pt; line-height: 1.4; } th, td { padding: .15rem .35rem; white-space: normal; }
  details::details-content { content-visibility: visible; }
  figure, tr, .facts { break-inside: avoid; } h2, h3, caption { break-after: avoid; } }
"""

LARGEST_SVG = 120_000
"""Bytes; a figure of thousands of marks is smaller, and faster to show, as an image of points."""
POINTS_PER_INCH = 144
SHADES = 256
"""Colors of such an image: few figures have more, and it takes a third of the bytes."""
FORMATS = ("png", "svg")
CHOICES = {"auto": "as the system", "light": "light", "dark": "dark"}


@dataclass(frozen=True)
class Drawing:
    """A figure that can be drawn in each theme; ``name`` is that of its file."""

    name: str
    title: str
    alt_text: str  # what it shows, in words
    draw: Callable[[Theme], Figure]


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading of its own; ``anchor`` is where links lead."""

    anchor: str
    title: str
    content: Html
    drawings: tuple[Drawing, ...] = ()
    lacks: str = ""  # why it is not what it should be

    @classmethod
    def lacking(cls, anchor: str, title: str, lacks: str) -> Section:
        """A section that can only say why it is empty."""
        return cls(anchor, title, paragraph(lacks), lacks=lacks)


@dataclass(frozen=True)
class Report:
    """A page before it is written."""

    title: str
    about: str
    sections: tuple[Section, ...]

    @property
    def drawings(self) -> list[Drawing]:
        """Every figure of the page, in order."""
        return [drawing for section in self.sections for drawing in section.drawings]

    def html(self) -> str:
        """The whole file."""
        return page(self.title, self.about, self.sections)


def page(title: str, about: str, sections: Sequence[Section]) -> str:
    """A page as one HTML file that needs no other."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("style", Html(STYLE)),
    )
    links = [element("li", element("a", section.title, href=f"#{section.anchor}")) for section in sections]
    body = element(
        "body",
        element("header", element("h1", title), _switch()),
        paragraph(about, class_="soft"),
        element("nav", element("ul", *links), aria_label="Sections"),
        element("main", *map(_section, sections)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def facts(pairs: Sequence[tuple[str, str]]) -> Html:
    """A few figures to see first, each under its name."""
    return element(
        "dl", *(element("div", element("dt", name), element("dd", value)) for name, value in pairs), class_="facts"
    )


def shown(drawing: Drawing, caption: str) -> Html:
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
    return element("figure", box, element("figcaption", " ".join([caption, boxes_told(letters)]).rstrip()))


def save_all(drawings: Sequence[Drawing], directory: Path) -> None:
    """Every figure as PNG and as SVG in a new directory, all or none, on white paper."""
    with files.written_aside(files.place(directory)) as aside:
        for drawing in drawings:
            for suffix in FORMATS:
                with styled("light"):
                    save(drawing.draw("light"), aside / f"{drawing.name}.{suffix}")


def _section(section: Section) -> Html:
    return element("section", element("h2", section.title, id=section.anchor), section.content)


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
    drawn_as_points, written = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn_as_points, format="png", dpi=POINTS_PER_INCH, metadata={"Software": None})
    with Image.open(drawn_as_points) as image:
        image.convert("RGB").quantize(SHADES, dither=Image.Dither.NONE).save(written, format="png", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"
