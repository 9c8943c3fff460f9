"""Figures: the same bytes every time, and never over another file."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from mcne.errors import UsageError
from mcne.plots.style import COLORS, PAPER, SUFFIXES, THEMES, Theme, canvas, colors, save, styled, to_svg


def drawn(theme: Theme) -> Figure:
    figure = canvas(3, 2)
    axes = figure.subplots()
    axes.plot([0, 1, 2], [0, 1, 4], color=colors(theme, 1)[0])
    axes.set_title("squares")
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
    ("name", "said"),
    [("figure.jpeg", "a figure is written as"), ("there.png", "ever replaced"), ("no/figure.png", "is not there")],
)
def test_where_a_figure_cannot_go(name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "there.png").write_bytes(b"before")
    with styled("light"), pytest.raises(UsageError, match=said):
        save(drawn("light"), tmp_path / name)
    assert (tmp_path / "there.png").read_bytes() == b"before"


def test_colors_differ_and_stand_out_from_the_paper() -> None:
    for theme in THEMES:
        assert len(set(COLORS[theme])) == len(COLORS[theme])
        assert min(contrast(color, PAPER[theme]) for color in COLORS[theme]) > 2.2
        assert len(colors(theme, 12)) == 12


def test_an_unknown_theme() -> None:
    with pytest.raises(UsageError, match="choose light or dark"), styled("sepia"):  # type: ignore[arg-type]
        pass


def contrast(one: str, other: str) -> float:
    """Of two colors by their relative luminance (WCAG 2.1)."""
    low, high = sorted(luminance(each) for each in (one, other))
    return (high + 0.05) / (low + 0.05)


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
