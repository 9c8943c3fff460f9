"""Figures: the same bytes every time, never over another file, and letters that no font has are told."""

import warnings
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from tests.errors import refused

from mcne.errors import UsageError
from mcne.plots import SUFFIXES, style
from mcne.plots.style import (
    COLORS,
    MARKERS,
    PAPER,
    THEMES,
    Theme,
    canvas,
    colors,
    note_on_boxes,
    save,
    styled,
    to_svg,
)

RARE = "\u2322"
"""A sign that STIX has, which comes with matplotlib, and DejaVu Sans has not."""


def drawn(theme: Theme, title: str = "squares") -> Figure:
    figure = canvas(3, 2)
    axes = figure.subplots()
    axes.plot([0, 1, 2], [0, 1, 4], color=colors(theme, 1)[0])
    axes.set_title(title)
    return figure


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_figure_has_the_same_bytes(theme: Theme, suffix: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        with styled(theme):
            save(drawn(theme), tmp_path / f"{name}{suffix}")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == [f"a{suffix}", f"b{suffix}"]


def test_an_svg_element_for_a_page() -> None:
    with styled("dark"):
        text = to_svg(drawn("dark"))
    assert text.startswith("<svg")
    assert text.rstrip().endswith("</svg>")
    assert PAPER["dark"].lower() in text.lower()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("figure.jpeg", "figure.jpeg: '.jpeg' "),
        ("there.png", "there.png: already exists"),
        ("no/figure.png", "no/figure.png: its directory does not exist"),
    ],
)
def test_where_a_figure_cannot_go(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "there.png").write_bytes(b"before")
    with styled("light"), pytest.raises(UsageError, match=message):
        save(drawn("light"), tmp_path / name)
    assert (tmp_path / "there.png").read_bytes() == b"before"


def test_a_link_to_nowhere_is_a_taken_place(tmp_path: Path) -> None:
    (tmp_path / "link.png").symlink_to("nowhere")
    with styled("light"), refused(UsageError, place="link.png", about="replaced"):
        save(drawn("light"), tmp_path / "link.png")
    assert (tmp_path / "link.png").is_symlink()


def test_letters_that_no_font_has_are_told_and_other_warnings_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style, "FURTHER_FONTS", ())
    with styled("light") as letters:
        to_svg(drawn("light", f"a {RARE}{RARE}"))
        with pytest.warns(UserWarning, match="another"):
            warnings.warn("another", stacklevel=1)
    assert letters == {RARE}
    assert f"({RARE})" in note_on_boxes(letters)
    with styled("light") as none:
        to_svg(drawn("light"))
    assert note_on_boxes(none) == ""


def test_a_font_that_is_installed_has_the_letters_that_the_first_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    with styled("light"):
        before = to_svg(drawn("light"))
    monkeypatch.setattr(style, "FURTHER_FONTS", ("No such font", "STIXGeneral"))
    with styled("light") as letters:
        to_svg(drawn("light", RARE))
        assert to_svg(drawn("light")) == before
    assert letters == set()


def test_colors_differ_and_stand_out_from_the_paper() -> None:
    for theme in THEMES:
        assert len(set(COLORS[theme])) == len(COLORS[theme])
        assert min(contrast(color, PAPER[theme]) for color in COLORS[theme]) > 2.2
        assert len(set(colors(theme, 12))) == 12


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("vision", ["normal", "protanopia", "deuteranopia", "tritanopia"])
def test_color_blind_people_tell_twelve_behaviors_apart(vision: str, theme: Theme) -> None:
    seen = {color: lab(color, vision) for color in COLORS[theme]}
    near = {pair: np.linalg.norm(seen[pair[0]] - seen[pair[1]]) for pair in combinations(seen, 2)}
    assert min(near.values()) > 9, min(near, key=lambda pair: near[pair])


def test_colors_that_look_alike_are_told_as_such() -> None:
    """An orange and an olive that are one color without red cones, so that the distance above means something."""
    one, other = (lab(color, "protanopia") for color in ("#D55E00", "#8A6D00"))
    assert np.linalg.norm(one - other) < 3


def test_no_color_and_marker_come_together_twice() -> None:
    looks = list(zip(colors("light", 100), MARKERS * 8, strict=False))
    assert len(set(looks)) == len(looks) == 100


def test_an_unknown_theme() -> None:
    with refused(UsageError, value="sepia"), styled("sepia"):  # type: ignore[arg-type]
        pass


UNSEEN = {
    "normal": np.eye(3),
    "protanopia": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "deuteranopia": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "tritanopia": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}
"""What is left of red, green and blue light (Machado, Oliveira and Fernandes 2009, at full severity)."""
TO_XYZ = [[0.4339, 0.3762, 0.1899], [0.2127, 0.7152, 0.0722], [0.0178, 0.1095, 0.8728]]
"""Of linear sRGB, in shares of its white."""


def lab(color: str, vision: str) -> np.ndarray:
    """Where a color is seen in CIELAB, in which distances are as large as they look."""
    x, y, z = np.cbrt(np.array(TO_XYZ) @ np.clip(np.array(UNSEEN[vision]) @ linear(color), 0.009, 1))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one: str, other: str) -> float:
    """Of two colors by their relative luminance (WCAG 2.1)."""
    low, high = sorted(luminance(each) for each in (one, other))
    return (high + 0.05) / (low + 0.05)


def luminance(color: str) -> float:
    red, green, blue = linear(color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def linear(color: str) -> list[float]:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
