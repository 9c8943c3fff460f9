"""Figures of attention and of structure: nothing overlaps or is clipped, and what is drawn is what was found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from tests.analysis.trunks import NAMES, random_embeddings, random_graph
from tests.errors import refused
from tests.plots.figure_parts import bars_of
from tests.plots.figure_texts import LONG, assert_legible

from mcne.analysis.attention import of_link, of_network, of_user
from mcne.analysis.faithfulness import faithfulness
from mcne.data.graph import directed
from mcne.embeddings import ConditionalEmbeddings
from mcne.errors import ArtifactError, DataError
from mcne.plots.attention import draw_attention
from mcne.plots.structure import draw_structure, read
from mcne.plots.style import PAPER, THEMES, Theme, colors, styled, to_svg


def embeddings(behaviors: int, **given: Any) -> ConditionalEmbeddings:
    return random_embeddings(0, graph=random_graph(0, 60, 110), behaviors=behaviors, **given)


def found_of(kind: str, behaviors: int) -> dict[str, Any]:
    made = embeddings(behaviors)
    user, other = made.users[1], made.users[int(made.graph.neighbors(1)[-1])]
    if kind == "network":
        check = faithfulness(made, seed=0, draws=3)
        return of_network(made, seed=0) | {"faithfulness": check}
    return of_link(made, user, other) if kind == "link" else of_user(made, user)


def texts(figure: Figure) -> str:
    """All that is written, by panel."""
    lines = [text.get_text() for axes in figure.axes for text in (*axes.texts, axes.title, *axes.get_yticklabels())]
    return "\n".join(lines)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("behaviors", [2, 3, 12])
@pytest.mark.parametrize("kind", ["link", "user", "network"])
def test_no_label_overlaps_or_is_clipped(kind: str, behaviors: int, theme: Theme) -> None:
    numbers = found_of(kind, behaviors)
    with styled(theme):
        assert_legible(draw_attention(numbers, theme=theme), at_least=10)
        long = {"behaviors": [*LONG[:behaviors], "other"]}
        assert_legible(draw_attention(numbers | long, theme=theme), at_least=10)


@pytest.mark.parametrize("kind", ["link", "user"])
def test_ids_and_names_have_room(kind: str) -> None:
    """The canvas is as wide as they need."""
    numbers = found_of(kind, 3)
    name = "Maria Hernandez-Gutierrez"
    for part in (numbers, *numbers.get("messages", ()), *numbers.get("unusual", ())):
        part |= {f"{end}_name": name for end in ("user", "sender", "receiver") if f"{end}_id" in part}
    with styled("light"):
        figure = draw_attention(numbers, theme="light")
        assert_legible(figure, at_least=10)
    shown = texts(figure) if kind == "user" else "\n".join(text.get_text() for text in figure.legends[0].get_texts())
    assert f"({name})" in shown


def test_axes_have_ticks_that_are_what_they_say() -> None:
    """No two ticks are called alike, however narrow the weights or the ratios are."""
    numbers = found_of("network", 3)
    for layer in numbers["layers"]:
        for each in layer["spread"]:
            each["quantiles"] = [0.25] * 5
    for width in (1.05, 1.5, 4.0, 30.0, 900.0):
        for each in numbers["faithfulness"]["findings"]:
            each |= {"ratio": {"value": width, "low": width / 1.01, "high": width}}
            each |= {"least_ratio": {"value": 1 / 1.04, "low": 0.95, "high": 1.0}}
        with styled("light"):
            figure = draw_attention(numbers, theme="light")
            assert_legible(figure, at_least=10)
        for axes in figure.axes:
            if axes.get_xlabel().startswith("weight") or axes.get_xscale() == "log":
                low, high = axes.get_xlim()
                labels = [t.label1.get_text() for t in axes.xaxis.get_major_ticks() if low <= t.get_loc() <= high]
                assert len(set(labels)) == len(labels) >= 2, labels


def test_a_name_of_two_lines_is_written_in_one() -> None:
    numbers = found_of("network", 3) | {"behaviors": ["two\nlines", "b", "c", "other"]}
    with styled("light"):
        labels = [label.get_text() for label in draw_attention(numbers, theme="light").axes[0].get_yticklabels()]
    assert labels == ["two lines", "b", "c", "other"]


def test_the_same_numbers_give_the_same_bytes_also_once_kept() -> None:
    numbers = found_of("network", 3)
    with styled("light"):
        one = to_svg(draw_attention(numbers, theme="light"))
        other = to_svg(draw_attention(json.loads(json.dumps(numbers)), theme="light"))
    assert one == other


def test_tables_show_the_weights() -> None:
    numbers = found_of("user", 3)
    with styled("light"):
        figure = draw_attention(numbers, theme="light")
    for layer, axes in enumerate(figure.axes):
        shown = [text.get_text() for text in axes.texts]
        rows = [
            numbers["hears"][layer],
            numbers["sends"][layer],
            *(link["weights"][layer] for link in numbers["unusual"]),
        ]
        assert shown == [f"{100 * weight:.1f}" for row in rows for weight in row]


def test_bars_are_the_weights_of_both_messages() -> None:
    numbers = found_of("link", 3)
    with styled("light"):
        figure = draw_attention(numbers, theme="light")
    for layer, axes in enumerate(figure.axes):
        widths = [bar.get_width() for bar in bars_of(axes)]
        expected = [weight for message in numbers["messages"] for weight in message["attention"][layer]]
        np.testing.assert_allclose(widths, expected)


def shades(numbers: dict[str, Any]) -> tuple[list[np.ndarray], str]:
    """The colors of the cells of each layer's communities [rows, B, 3], and what is said of them."""
    with styled("light"):
        part = draw_attention(numbers, theme="light").subfigs[1]
    return [np.asarray(axes.images[0].get_array()) for axes in part.axes], part.get_supxlabel()


def test_colors_tell_how_far_a_community_is_from_the_links_between() -> None:
    numbers = found_of("network", 3)
    between = [0.25, 0.25, 0.25, 0.25]
    numbers["between"], numbers["communities"] = [between, between], numbers["communities"][:2]
    for each, by in zip(numbers["communities"], (0.2, 0.1), strict=True):
        each["weights"] = [[0.25 + by, 0.25 - by, 0.25, 0.25], between]
    (first, second), text = shades(numbers)
    assert "blue: more than on links between communities, orange: less; full at 20.0 points" in text
    paper, blue, orange = (np.array(to_rgb(color)) for color in (PAPER["light"], *colors("light", 2)))
    np.testing.assert_allclose(first[0, :3], [blue, orange, paper], atol=0.01)
    np.testing.assert_allclose(first[1, :2], [(paper + blue) / 2, (paper + orange) / 2], atol=0.01)
    np.testing.assert_allclose(second, np.broadcast_to(paper, second.shape), atol=0.01)


def test_what_is_practically_even_has_no_color() -> None:
    """Weights that differ by a hundredth of a point, be that ten standard deviations."""
    numbers = found_of("network", 3)
    numbers["between"] = [[0.25] * 4] * 2
    for each in numbers["communities"]:
        each["weights"], each["effect"] = [[0.2501, 0.2499, 0.25, 0.25]] * 2, [[10.0, -10.0, 0.0, 0.0]] * 2
    layers, text = shades(numbers)
    assert "full at 2.0 points" in text
    for picture in layers:
        np.testing.assert_allclose(picture, 1.0, atol=0.02)


def test_networks_with_less_to_show() -> None:
    even = embeddings(3, attention=False)
    numbers = of_network(even, seed=0) | {"faithfulness": faithfulness(even, seed=0, draws=2)}
    with styled("light"):
        shown = texts(draw_attention(numbers, theme="light"))
        assert "entropy 1.000 of 1" in shown
        assert "links left out" in shown
        assert "behaviors left out" not in shown
        assert "nothing changes" not in shown
        for each in numbers["faithfulness"]["findings"]:
            if each["measure"] == "top items":
                each |= {key: {"value": None, "low": None, "high": None} for key in ("ratio", "least_ratio")}
        silent = draw_attention(numbers, theme="light")
        assert [text.get_text() for text in silent.axes[-1].texts] == ["nothing changes\nby chance"]
        assert_legible(silent, at_least=8)
        alone = draw_attention(numbers | {"between": [], "faithfulness": None}, theme="light")
        assert len(alone.axes) == 2
        assert_legible(alone, at_least=8)


# structure


def structure(behaviors: int, methods: int = 3, sd: float | None = 0.02) -> dict[str, Any]:
    def row(method: str, behavior: str | None, similarity: str | None) -> dict[str, Any]:
        auc = {kind: {"auc": {"mean": 0.7, "sd": sd}} for kind in ("uniform", "degree")}
        return {"method": method, "behavior": behavior, "similarity": similarity} | auc

    rows = [row("degree product", None, None), row("Adamic–Adar", None, None)]
    for method in ("mcne", "mcne-constant-masks", "node2vec")[:methods]:
        for behavior in (None, *NAMES[:behaviors]) if method.startswith("mcne") else (None,):
            rows += [row(method, behavior, similarity) for similarity in ("inner product", "cosine")]
    study: dict[str, Any] = {"dataset": {"name": "ciao"}, "links": 500, "held_out_links": [214, 214], "lacking": {}}
    return study | {"repetitions": 2, "rows": rows}


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("behaviors", [2, 3, 12])
def test_no_label_of_a_structure_figure_overlaps(behaviors: int, theme: Theme) -> None:
    with styled(theme):
        figure = draw_structure(structure(behaviors), theme=theme)
        assert_legible(figure, at_least=10)
    assert "43% of the links" in figure.get_suptitle(), "what was held out, however much was asked for"
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels[:4] == ["degree product", "Adamic–Adar", "mcne", "mcne, Books"]
    assert len(labels) == 2 + 2 * (behaviors + 1) + 1


def test_a_structure_figure_of_one_repetition() -> None:
    with styled("light"):
        assert_legible(draw_structure(structure(2, sd=None) | {"repetitions": 1}, theme="light"), at_least=10)


def test_a_structure_figure_says_if_repetitions_are_not_finished() -> None:
    with styled("light"):
        whole = draw_structure(structure(2), theme="light")
        part = draw_structure(structure(2) | {"lacking": {"mcne": "1 not finished"}}, theme="light")
    assert whole.get_suptitle().endswith("standard deviation of 2")
    assert part.get_suptitle().endswith("standard deviation of at most 2")


def test_reading_what_is_not_there_or_damaged(tmp_path: Path) -> None:
    with refused(DataError, about="structure"):
        read(tmp_path)
    for text in ("{", "[]", '{"rows": [{}]}', '{"rows": []}'):
        (tmp_path / "structure.json").write_text(text)
        with pytest.raises(ArtifactError, match=r"damaged.*the same mcne structure writes it again"):
            read(tmp_path)


@pytest.mark.parametrize("user", [0, 3])
def test_a_directed_network_is_drawn(user: int) -> None:
    """User 0 has a follower and user 3 has none."""
    graph, _ = directed(4, np.array([0, 0, 1, 3]), np.array([1, 2, 0, 1]))
    made = random_embeddings(0, graph=graph)
    with styled("light"):
        assert_legible(draw_attention(of_link(made, made.users[0], made.users[2]), theme="light"), at_least=5)
        figure = draw_attention(of_user(made, made.users[user]), theme="light")
        assert_legible(figure, at_least=5)
    assert ("sends, mean of 1" in texts(figure)) == (user == 0)
    assert f"hears, mean of {2 if user == 0 else 1}" in texts(figure)
