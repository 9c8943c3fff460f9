"""The ablation figure: its numbers are the comparison's, its labels readable, its bytes the same twice."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.errors import refused
from tests.plots.figure_parts import data_line_of, error_bars_of, x_of
from tests.plots.figure_texts import assert_legible
from tests.small_training import small_network
from tests.values import not_none

from mcne.errors import ArtifactError, DataError, UsageError
from mcne.evaluation import significance
from mcne.evaluation.metrics import HEADLINE
from mcne.plots import ablation
from mcne.plots.ablation import MEAN, Ablation, chance
from mcne.plots.style import THEMES, Theme, save, shortened, styled
from mcne.randomness import Stream
from mcne.studies.comparison import Comparison, Plan
from mcne.studies.comparison_tables import PROTOCOL_TITLES, summarize, write

NAMES = ("Hotels & Travel", "Books", "Online Stores & Services", *(f"Behavior {k}" for k in range(3, 12)))
ROWS = ("mcne-f", "mcne-a", "mcne")
PLAN = """
repetitions = 2
reference = "itemknn"
[methods.popularity]
[methods.userknn]
[methods.itemknn]
"""


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """Three methods without steps, on a network of few users."""
    path = tmp_path_factory.mktemp("compared")
    small_network().save(path / "data")
    (path / "plan.toml").write_text(PLAN)
    comparison = Comparison.open(Plan.read(path / "plan.toml"), path / "data", path / "small")
    assert comparison.run(jobs=1, device="cpu", say=lambda _: None) == {}
    write(summarize(comparison), comparison.out)
    return comparison


def written(path: Path, behaviors: int, *, users: int = 40) -> Path:
    """The files of a comparison in which mcne-f is a point below the others, for every user, more or less."""
    path.mkdir()
    parts, header = [], ["method"]
    for name in NAMES[:behaviors]:
        header += [f"{name} R@5", f"{name} N@5"]
        noise = Stream(0, "scores", name).normal((len(ROWS), users)) / 100
        for row, extra in zip(ROWS, noise, strict=True):
            scores = 0.3 + extra - 0.01 * (row == "mcne-f")
            columns = {"method": [row] * users, "behavior": [name] * users, "user": np.arange(users, dtype=np.int32)}
            columns |= {"weight": np.full(users, 1 / users)}
            parts.append(pa.table(columns | {"sampled recall@5": scores, "sampled ndcg@5": scores - 0.1}))
    pq.write_table(pa.concat_tables(parts), path / "users.parquet")
    header += ["mean R@5", "mean N@5"]
    rows = [[row, *(f"30.0 ± {0.1 * k:.1f}" for k in range(1, len(header)))] for row in ROWS]
    (path / "table.json").write_text(json.dumps([{"title": ablation.SAMPLED, "header": header, "rows": rows}]))
    return path


def test_numbers_and_chances_are_those_of_the_comparison(compared: Comparison) -> None:
    summary = summarize(compared)
    rows = ("userknn", "itemknn")
    variants = Ablation.read(compared.out, rows, reference="itemknn")
    assert (variants.name, variants.rivals) == ("small", 2)
    assert variants.places == (*compared.dataset.behavior_names, MEAN)
    for metric in HEADLINE:
        tests = summary.tests("sampled", metric)["userknn"]
        for place in variants.places:
            name = None if place == MEAN else place
            assert variants.cells[metric, "userknn", place].test == (
                tests.overall if name is None else tests.behaviors[name]
            )
            assert variants.cells[metric, "itemknn", place].test is None
            for row in (each for each in summary.rows if each.name in rows):
                spread = row.metric("sampled", name, metric)
                drawn = variants.cells[metric, row.name, place]
                assert spread is not None
                assert drawn.mean == pytest.approx(100 * spread["mean"])
                assert drawn.sd == pytest.approx(100 * not_none(spread["sd"]), abs=0.0501)  # the table has one digit
    assert PROTOCOL_TITLES["sampled"] == ablation.SAMPLED


@pytest.mark.parametrize("behaviors", [2, 3, 12])
def test_labels_never_overlap(behaviors: int, tmp_path: Path) -> None:
    variants = Ablation.read(written(tmp_path / "planted", behaviors), ROWS, reference="mcne")
    with styled("light"):
        figure = ablation.draw([variants] * (2 if behaviors == 3 else 1), "light")
        shown = assert_legible(figure, at_least=5 * behaviors)
    for name in (*NAMES[:behaviors], *ROWS, MEAN):
        assert shortened(name) in shown
    chances = [chance(each.test) for each in variants.cells.values() if each.test]
    assert len(chances) == 2 * 2 * (behaviors + 1)
    assert set(chances) <= set(shown)


def test_what_differs_is_marked_and_what_does_not_is_not(tmp_path: Path) -> None:
    variants = Ablation.read(written(tmp_path / "planted", 2), ROWS, reference="mcne")
    planted, same = (variants.cells["ndcg@5", row, MEAN].test for row in ("mcne-f", "mcne-a"))
    assert planted is not None
    assert same is not None
    assert planted.difference == pytest.approx(0.01, abs=0.004)
    assert chance(planted) == "< 0.0004 *"  # no resample was below zero; two rivals, so twice the least of all
    assert "*" not in chance(same)
    lines = list(ablation.lines([variants]))
    assert len(lines) == 12
    assert any(line.startswith("planted, Books Recall@5: mcne-f less mcne -") for line in lines)
    assert "over the 2 (planted) other methods" in ablation.caption([variants])
    with styled("light"):
        values, differences, *_ = ablation.draw([variants], "light").axes
    assert len(values.containers) == len(ROWS)
    difference = error_bars_of(differences)[0]
    middle = x_of(data_line_of(difference))[0]
    first = variants.cells["recall@5", "mcne-f", NAMES[0]].test
    assert first is not None
    assert middle == pytest.approx(-100 * first.difference)
    (bar,) = difference.lines[2]
    assert bar.get_segments()[0][:, 0] == pytest.approx([-100 * first.high, -100 * first.low])


def test_a_chance_is_never_said_to_be_zero() -> None:
    lowest = 2 / (1 + significance.RESAMPLES)
    test = significance.Comparison(0.01, 0.0, 0.02, lowest, 21 * lowest, None, 0.5, 0.4, 100)
    assert chance(test) == "< 0.0042 *"
    assert chance(significance.Comparison(0.01, 0.0, 0.02, 0.02, 0.42, None, 0.5, 0.4, 100)) == "0.42"


@pytest.mark.parametrize("theme", THEMES)
def test_the_same_comparison_has_the_same_bytes(theme: Theme, tmp_path: Path) -> None:
    place = written(tmp_path / "planted", 2)
    for name in ("a.svg", "b.svg"):
        with styled(theme):
            save(ablation.draw([Ablation.read(place, ROWS, reference="mcne")], theme), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_only_finished_rows_of_a_comparison_are_read(tmp_path: Path) -> None:
    with refused(DataError, about="comparison"):
        Ablation.read(tmp_path, ROWS, reference="mcne")
    place = written(tmp_path / "planted", 2)
    with pytest.raises(UsageError, match=r"unknown row 'mcne-g'; did you mean 'mcne-f'\?"):
        Ablation.read(place, ("mcne-g", "mcne"), reference="mcne")
    (place / "table.json").write_text("[]")
    with pytest.raises(ArtifactError, match=r"table.json: is missing or damaged .* --table"):
        Ablation.read(place, ROWS, reference="mcne")
    (place / "users.parquet").write_bytes(b"PAR1")
    with pytest.raises(ArtifactError, match=r"users.parquet: is damaged"):
        Ablation.read(place, ROWS, reference="mcne")


@pytest.mark.parametrize(
    ("rows", "reference", "message"),
    [
        (["mcne"], "mcne", "--rows mcne.*at least two"),
        (["mcne", "mcne"], "mcne", "--rows mcne.*at least two"),
        (["mcne-a", "mcne"], "mcne-f", "--reference: unknown row 'mcne-f'"),
    ],
)
def test_rows_that_cannot_be_drawn(rows: list[str], reference: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ablation.check_rows(rows, reference)
