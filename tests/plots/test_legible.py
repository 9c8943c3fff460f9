"""Figures of 2, 3 and 12 behaviors with long names: texts never lie on one another and never leave the figure."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from numpy.typing import NDArray
from PIL import Image
from tests.errors import refused
from tests.plots.figure_parts import bars_of, x_of, y_of
from tests.plots.figure_texts import LONG, assert_legible
from tests.values import not_none

from mcne.analysis.maps import ConditionalMap, Panel, Separation
from mcne.analysis.masks import MaskEpoch, MaskLevel, MaskNumbers, overlap
from mcne.errors import ArtifactError
from mcne.plots import maps
from mcne.plots.curves import Curves, draw_curves
from mcne.plots.maps import draw_map, spread_out
from mcne.plots.masks import draw_masks
from mcne.plots.style import INK, PAPER, Theme, save, shortened, styled
from mcne.report import page as report_page

COUNTS = pytest.mark.parametrize(("n", "theme"), [(2, "light"), (3, "dark"), (12, "light"), (12, "dark")])


# masks


def mask_numbers(n: int, *, epochs: int = 30) -> MaskNumbers:
    random = np.random.default_rng(n)
    names = (*LONG[:n], "other")
    levels = []
    for level, width in enumerate((64, 32, 100)):
        masks, used = random.random((n + 1, width)) < 0.5, random.random(width) < 0.7
        pairs = [(a, b) for a in range(n + 1) for b in range(a + 1, n + 1)]
        overlaps = tuple(overlap(masks[a], masks[b], names=(names[a], names[b])) for a, b in pairs)
        levels.append(
            MaskLevel(level, names, tuple(map(tuple, masks.tolist())), tuple(used.tolist()), overlaps, overlaps)
        )
    training = tuple(MaskEpoch(at, 100 * at, (0.5, 0.4 + at / 100, 0.6)) for at in range(1, epochs + 1))
    return MaskNumbers("mcne-constant-masks", tuple(levels), training, 17)


@COUNTS
def test_masks(n: int, theme: Theme) -> None:
    with styled(theme):
        figure = draw_masks(mask_numbers(n), theme=theme, beside=mask_numbers(n))
        assert_legible(figure, at_least=4 * n + 10)


def added_later(n: int, *, whole_vectors: bool = False) -> MaskNumbers:
    """The last two of the behaviors came later, and the very last may have no masks but open ones at the last level."""
    numbers = mask_numbers(n)
    levels = [
        replace(level, names=(*level.names[: n - 1], "other"), masks=(*level.masks[: n - 1], level.masks[-1]))
        if whole_vectors
        else level
        for level in numbers.levels[:-1]
    ]
    training = tuple(MaskEpoch(at, 10 * at, (1.0,) if whole_vectors else (0.5, 0.4, 0.6)) for at in (1, 2, 3))
    return replace(numbers, levels=(*levels, numbers.levels[-1]), added=LONG[n - 2 : n], training=training)


@COUNTS
@pytest.mark.parametrize("whole_vectors", [False, True])
def test_masks_of_behaviors_that_were_added(n: int, theme: Theme, whole_vectors: bool) -> None:
    with styled(theme):
        figure = draw_masks(added_later(n, whole_vectors=whole_vectors), theme=theme, beside=mask_numbers(n))
        shown = assert_legible(figure, at_least=4 * n + 10)
    assert f"The masks of {shortened(LONG[n - 1])} in training" in shown
    assert "Added later: level 0" in shown
    assert ("–" in shown) == whole_vectors
    assert any("on the behaviors learned first" in text for text in shown)


def test_every_level_of_an_added_behavior_is_drawn_and_so_is_its_training() -> None:
    numbers = added_later(3)
    with styled("light"):
        figure = draw_masks(numbers, theme="light")
    last, lower, _, training = figure.subfigs
    above = np.asarray(last.axes[0].images[0].get_array())
    for axes, level in zip(lower.axes, numbers.levels[:-1], strict=True):
        picture = np.asarray(axes.images[0].get_array())
        is_paper = np.all(np.isclose(picture, to_rgb(PAPER["light"])), axis=2)
        assert np.array_equal(~is_paper, np.array(level.masks[1:3]))
        for row in (0, 1):
            assert {tuple(color) for color in picture[row]} == {tuple(color) for color in above[1 + row]}
    turns, density = training.axes
    heights = [bar.get_height() for bar in bars_of(turns)]
    assert heights == pytest.approx([10 / (64 + 32 + 100)] * 3)
    labels_of_lines = [str(line.get_label()) for line in density.lines]
    assert [label for label in labels_of_lines if label.startswith("level")] == [
        "level 0",
        "level 1",
        "level 2",
    ]


def test_a_mask_at_the_last_level_alone_has_the_density_of_that_level() -> None:
    with styled("light"):
        figure = draw_masks(added_later(2, whole_vectors=True), theme="light")
    density = figure.subfigs[-1].axes[1].lines[0]
    assert (density.get_label(), y_of(density).tolist()) == ("level 2", [1.0] * 3)


def test_masks_with_nothing_beside_and_without_a_training() -> None:
    with styled("light"):
        assert_legible(draw_masks(mask_numbers(3, epochs=0), theme="light"), at_least=20)


def test_the_axes_of_a_training_say_what_their_ticks_are() -> None:
    """A tick of half a percent is not called 0 %, and shares never reach below nothing."""
    few = tuple(MaskEpoch(at, 0, (0.0, 0.0, 0.005 * at)) for at in (1, 2, 3))
    with styled("light"):
        figure = draw_masks(replace(mask_numbers(2), training=few), theme="light")
        figure.draw_without_rendering()
        turns, density = figure.subfigs[-1].axes
    assert turns.get_ylim()[0] == density.get_ylim()[0] == 0
    labels = [label.get_text() for label in density.get_yticklabels()]
    assert len(set(labels)) == len(labels)


def test_an_entry_has_its_behaviors_color_where_its_mask_is_one() -> None:
    numbers = mask_numbers(2)
    last = numbers.levels[-1]
    with styled("light"):
        figure = draw_masks(numbers, theme="light")
        picture = np.asarray(figure.subfigs[0].axes[0].images[0].get_array())
    assert picture.shape == (3, 100, 3)
    is_paper = np.all(np.isclose(picture, to_rgb(PAPER["light"])), axis=2)
    assert np.array_equal(~is_paper, np.array(last.masks))
    strong = np.all(np.isclose(picture[0], to_rgb("#0072B2")), axis=1)
    assert np.array_equal(strong, np.array(last.masks[0]) & np.array(last.used))


# maps


def together(n: int, *, at_one_place: bool) -> ConditionalMap:
    """Behaviors far apart, or all at the same place, where their names would lie on one another."""
    random = np.random.default_rng(n)
    places = random.normal(size=(n, 60, 2)) + (0 if at_one_place else random.normal(size=(n, 1, 2)) * 9)
    apart = Separation(0.123, 0.98)
    panels = tuple(Panel(name, LONG[:n], places, 0.9876, apart) for name in ("learned masks", "random masks"))
    users = tuple(range(60))
    return ConditionalMap("together", "mcne", "ab12", 0, 30.0, users, panels, apart, (apart,) * 3)


def aligned(n: int) -> ConditionalMap:
    random = np.random.default_rng(n)
    panels = tuple(
        Panel(name, (name,), random.normal(size=(1, 60, 2)), 0.98, None, None if not at else 0.43)
        for at, name in enumerate(("whole vector", *LONG[:n]))
    )
    return ConditionalMap("aligned", "mcne", "ab12", 0, 30.0, tuple(f"user-{'x' * at}" for at in range(60)), panels)


@COUNTS
@pytest.mark.parametrize("at_one_place", [False, True])
def test_a_map(n: int, theme: Theme, at_one_place: bool) -> None:
    with styled(theme):
        figure = draw_map(together(n, at_one_place=at_one_place), theme=theme)
        assert_legible(figure, at_least=2 * n + 5)
        for axes in figure.axes:
            inside = axes.get_window_extent()
            assert len(axes.texts) == n
            for text in axes.texts:
                box = not_none(text.get_bbox_patch()).get_window_extent()
                assert inside.x0 <= box.x0 < box.x1 <= inside.x1
                assert inside.y0 <= box.y0 < box.y1 <= inside.y1


def test_names_that_have_room_stay_at_the_center_of_their_points() -> None:
    centers = np.array([[0, 0], [0, 40], [40, 0]])
    places = np.random.default_rng(0).normal(size=(3, 60, 2)) * 12 + centers[:, None]
    panels = (Panel("learned masks", ("Beauty", "Books", "Travel"), places, 0.9, Separation(0.1, 0.2)),) * 2
    drawn_map = ConditionalMap("together", "mcne", "ab12", 0, 30.0, tuple(range(60)), panels)
    with styled("light"):
        figure = draw_map(drawn_map, theme="light")
    for axes in figure.axes:
        for text, center in zip(axes.texts, places.mean(axis=1), strict=True):
            np.testing.assert_allclose(text.get_position(), center, atol=1e-6)


def tight(places: NDArray[np.float64]) -> ConditionalMap:
    """Both panels with points at these places [behaviors, users, 2]."""
    panels = (Panel("learned masks", LONG[: len(places)], places, 0.9, Separation(0.1, 0.2)),) * 2
    return ConditionalMap("together", "mcne", "ab12", 0, 30.0, tuple(range(places.shape[1])), panels)


def hidden(axes: Axes, name: Text, places: NDArray[np.float64]) -> float:
    """The largest share of a behavior's points that a name lies on."""
    patch = name.get_bbox_patch()
    assert patch is not None
    box = patch.get_window_extent()
    shown = axes.transData.transform(places.reshape(-1, 2)).reshape(places.shape)
    return float(np.all((shown > box.min) & (shown < box.max), axis=2).mean(axis=1).max())


@COUNTS
def test_names_leave_the_points_of_tight_clusters_to_be_seen(n: int, theme: Theme) -> None:
    """Every cluster is smaller than its name; where a name was moved, a line leads to its points."""
    random = np.random.default_rng(n)
    corners = np.array([[40 * (at % 4), 30 * (at // 4)] for at in range(n)], dtype=float)
    places = random.normal(size=(n, 60, 2)) * 0.5 + corners[:, None]
    with styled(theme):
        figure = draw_map(tight(places), theme=theme)
        assert_legible(figure, at_least=2 * n + 5)
    for axes in figure.axes:
        assert len(axes.lines) == len(axes.texts) == n
        for text, line, center in zip(axes.texts, axes.lines, places.mean(axis=1), strict=True):
            assert hidden(axes, text, places) <= 0.2, text.get_text()
            np.testing.assert_allclose(np.asarray(line.get_xydata(), float), [center, text.get_position()], atol=1e-6)
            assert line.get_color() == not_none(text.get_bbox_patch()).get_edgecolor()


def test_points_are_seen_however_small_they_are() -> None:
    """As on a page, which has fewer pixels than a file for print, of as many users as ``mcne plot map`` shows."""
    corners = np.array([[40 * (at % 4), 30 * (at // 4)] for at in range(12)], dtype=float)
    places = np.random.default_rng(0).normal(size=(12, 1000, 2)) * 0.5 + corners[:, None]
    with styled("light"):
        figure = draw_map(tight(places), theme="light")
        for axes in figure.axes:
            for artist in (*axes.texts, *axes.lines):
                artist.remove()
        written = io.BytesIO()
        figure.savefig(written, format="png", dpi=report_page.POINTS_PER_INCH)
        picture = np.asarray(Image.open(written).convert("L"))[::-1]
    for axes in figure.axes:
        shares = figure.transFigure.inverted().transform(axes.transData.transform(places.mean(axis=1)))
        for x, y in (shares * picture.shape[::-1]).round().astype(int):
            assert picture[y - 8 : y + 9, x - 8 : x + 9].min() < 250, (x, y)


def test_where_every_place_hides_too_much_a_name_takes_the_one_that_hides_least(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(maps, "HIDDEN", -1.0)
    places = np.random.default_rng(0).normal(size=(2, 60, 2)) * 0.5 + np.array([[[0, 0]], [[40, 0]]])
    with styled("light"):
        figure = draw_map(tight(places), theme="light")
        figure.draw_without_rendering()
    for axes in figure.axes:
        assert [hidden(axes, text, places) for text in axes.texts] == [0, 0]


@COUNTS
def test_aligned_maps(n: int, theme: Theme) -> None:
    with styled(theme):
        assert_legible(draw_map(aligned(n), theme=theme), at_least=2 * n + 8)


def test_users_to_follow_are_far_from_one_another() -> None:
    corners = np.array([[0, 0], [0, 1], [1, 0], [1, 1.5]]) * 10.0
    crowd = np.random.default_rng(0).normal(size=(50, 2)) * 0.1 + 5
    assert set(spread_out(np.concatenate([crowd, corners]), 4)) == {50, 51, 52, 53}
    assert len(spread_out(corners, 9)) == 4


def test_a_map_drawn_again_from_its_data_has_the_same_bytes(tmp_path: Path) -> None:
    for kind, computed in (("a", together(3, at_one_place=True)), ("b", aligned(3))):
        (tmp_path / f"{kind}.json").write_text(json.dumps(computed.to_json()))
        back = ConditionalMap.read(tmp_path / f"{kind}.json")
        for name, each in (("first", computed), ("again", back)):
            with styled("dark"):
                save(draw_map(each, theme="dark"), tmp_path / f"{kind}-{name}.png")
        assert (tmp_path / f"{kind}-first.png").read_bytes() == (tmp_path / f"{kind}-again.png").read_bytes()


# curves


def curves(n: int, *, name: str = "run", epochs: int = 25, every: int = 1) -> Curves:
    records = [
        {"epoch": epoch, "loss": {b: 0.7 / (epoch + k) for k, b in enumerate(LONG[:n])}}
        | ({"validation": {"mean": {"ndcg@5": 0.2 + 0.01 * min(epoch, 9) / 9}}} if epoch % every == 0 else {})
        for epoch in range(1, epochs + 1)
    ]
    return Curves.of(name, records, best_epoch=9)


def drawn(*runs: Curves, theme: Theme = "light") -> Figure:
    with styled(theme):
        return draw_curves(runs, theme=theme)


@COUNTS
def test_curves_of_one_run(n: int, theme: Theme) -> None:
    with styled(theme):
        figure = draw_curves([curves(n, name="a run with a long name " * 4)], theme=theme)
        assert_legible(figure, at_least=n + 12)


@COUNTS
@pytest.mark.parametrize("runs", [2, 9])
def test_curves_of_several_runs(n: int, theme: Theme, runs: int) -> None:
    with styled(theme):
        many = [curves(n, name=f"{at} of many runs with long names, which are paths") for at in range(runs)]
        assert_legible(draw_curves(many, theme=theme), at_least=n + runs + 8)


@pytest.mark.parametrize("epochs", [1, 2, 200])
def test_curves_of_few_and_many_epochs(epochs: int) -> None:
    with styled("light"):
        figure = draw_curves([curves(3, epochs=epochs)], theme="light")
        shown = assert_legible(figure, at_least=8)
    ticks = [tick for axes in figure.axes for tick in axes.get_xticks()]
    assert all(float(tick).is_integer() for tick in ticks)
    assert not [text for text in shown if "e−" in text]  # no offset that a reader must add


def test_lines_are_what_was_recorded_and_the_best_epoch_is_ringed() -> None:
    run = curves(2, every=3)
    loss, metric = drawn(run).axes
    points = [list(zip(x_of(line), y_of(line), strict=True)) for line in loss.lines]
    assert points == [list(recorded) for recorded in run.losses.values()]
    assert y_of(loss.lines[1])[2] == 0.7 / 4
    assert x_of(metric.lines[0]).tolist() == [3, 6, 9, 12, 15, 18, 21, 24]
    ring = metric.lines[1]
    assert (x_of(ring).tolist(), y_of(ring).tolist()) == ([9], [pytest.approx(0.21)])
    assert ring.get_markeredgecolor() == INK["light"]


def test_a_run_that_never_validated_has_no_ring() -> None:
    run = curves(2, every=1000)
    assert run.best is None
    assert len(drawn(run).axes[1].lines) == 1
    assert len(drawn(run, curves(3, name="other")).axes) == 4


def test_what_is_no_number_is_left_out_of_curves() -> None:
    records = [
        {"epoch": 1, "loss": {"a": float("nan"), "b": 0.7}, "validation": {"mean": {"ndcg@5": 0.5}}},
        {"epoch": 2, "loss": {"b": float("inf")}, "validation": {"mean": {"ndcg@5": float("nan")}}},
        {"epoch": 3, "loss": {"a": 0.6, "b": 0.5}, "validation": {"mean": {}}},
    ]
    run = Curves.of("run", records, best_epoch=1)
    assert run.losses == {"a": ((3, 0.6),), "b": ((1, 0.7), (3, 0.5))}
    assert (run.validation, run.epochs) == (((1, 0.5),), [1, 3])
    json.dumps(asdict(run), allow_nan=False)


@pytest.mark.parametrize("record", [{"loss": {"a": 1.0}}, {"epoch": 1}, {"epoch": 1, "loss": 1.0}])
def test_damaged_records_are_named(record: dict[str, object]) -> None:
    with refused(ArtifactError, place="run", about="records"):
        Curves.of("run", [record], best_epoch=1)


# names


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Beauty", "Beauty"),
        ("x" * 22, "x" * 22),
        ("Household appliances, indoors", "Household appl…indoors"),
        ("a$b$", r"a\$b\$"),
        ("two\nlines\tand\x00 more ", "two lines and more"),
    ],
)
def test_long_names_keep_both_ends(name: str, shown: str) -> None:
    assert shortened(name) == shown
