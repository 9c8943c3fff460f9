"""``mcne report``: what it writes and says, and mistakes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.cli.in_process import Run
from tests.small_training import saved, small_network, train_small

from mcne.report import page as report_page


@pytest.fixture
def run(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Figures in pages are not rendered, which takes longest."""
    monkeypatch.setattr(report_page, "to_svg", lambda _figure: "<svg/>")
    return run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of moments, ``root/bpr``, on ``root/network``."""
    root = tmp_path_factory.mktemp("trained")
    dataset = small_network(items_per_behavior=150)
    split = saved(dataset, root / "network")
    train_small(
        "bpr",
        dataset,
        root / "bpr",
        split=split,
        settings={"width": 4, "epochs": 1},
        dataset_path="../network",
    )
    return root


def test_a_page_and_its_figures_for_print(run: Run, trained: Path, tmp_path: Path) -> None:
    out, directory = tmp_path / "report.html", tmp_path / "figures"
    result = run("report", trained / "bpr", "--out", out, "--figures", directory)
    assert (result.code, result.err) == (0, ""), result
    figures_line, wrote = result.out.splitlines()
    assert figures_line == f"wrote 2 figures, each as PNG and SVG, in {directory}"
    assert wrote.startswith(f"wrote {out} (")
    assert sorted(path.name for path in directory.iterdir()) == [
        "curves.png",
        "curves.svg",
        "quality.png",
        "quality.svg",
    ]
    assert out.read_text().startswith("<!DOCTYPE html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figures", "report.html"]


@pytest.mark.parametrize(
    ("option", "place", "message"),
    [
        ("--out", "taken", "already exists, and existing files are never replaced; choose another --out"),
        ("--out", "nowhere/report.html", "its directory does not exist"),
        ("--figures", "taken", "already exists, and existing files are never replaced; choose another --figures"),
        ("--figures", "nowhere/figures", "its directory does not exist"),
    ],
)
def test_places_that_are_taken_or_nowhere(
    option: str, place: str, message: str, run: Run, trained: Path, tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("mine")
    options = {"--out": tmp_path / "report.html"} | {option: tmp_path / place}
    result = run("report", trained / "bpr", *(part for pair in options.items() for part in pair))
    assert result.code == 2
    assert result.err.startswith(f"error: {tmp_path / place}: ")
    assert message in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    assert (tmp_path / "taken").read_text() == "mine"


def test_what_appears_while_it_draws_is_kept(
    run: Run, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "report.html"

    def meanwhile(_figure: object) -> str:
        out.write_text("mine")
        return "<svg/>"

    monkeypatch.setattr(report_page, "to_svg", meanwhile)
    result = run("report", trained / "bpr", "--out", out)
    assert result.code == 2
    assert "never replaced" in result.err
    assert out.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def begun(path: Path, kind: str) -> None:
    """A directory as a study leaves it at first."""
    (path / "cells").mkdir(parents=True)
    (path / "data.json").write_text(json.dumps({"dataset": "0" * 64, "random-0": "1" * 64, "kind": kind}))


@pytest.mark.parametrize(
    ("make", "code", "message"),
    [
        (lambda path: None, 4, "no such directory"),
        (lambda path: path.mkdir(), 4, "neither a run (run.json) nor a comparison (table.json)"),
        (lambda path: path.write_text("text"), 4, "neither a run (run.json) nor a comparison (table.json)"),
        (partial(begun, kind="comparison"), 4, "is a comparison without tables"),
        (partial(begun, kind="transfer study"), 4, "a transfer study, not a run or a comparison; its table is "),
        (partial(begun, kind="sweep"), 4, "a sweep, not a run or a comparison; draw it with mcne plot sweep "),
        (partial(begun, kind="sweep's timing"), 4, "a sweep's timing, not a run or a comparison; mcne plot sweep "),
    ],
)
def test_what_is_neither_run_nor_comparison(
    make: Callable[[Path], object], code: int, message: str, run: Run, tmp_path: Path
) -> None:
    make(tmp_path / "it")
    result = run("report", tmp_path / "it", "--out", tmp_path / "report.html")
    assert result.code == code
    assert result.err.startswith(f"error: {tmp_path / 'it'}: ")
    assert message in result.err
    assert not (tmp_path / "report.html").exists()


def test_an_unfinished_run(run: Run, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "bpr", tmp_path / "bpr")
    (tmp_path / "bpr" / "result.json").unlink()
    result = run("report", tmp_path / "bpr", "--out", tmp_path / "report.html")
    assert result.code == 4
    assert "is not finished; continue it with: mcne train bpr" in result.err


def test_a_run_without_its_dataset(run: Run, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "bpr", tmp_path / "bpr")
    result = run("report", tmp_path / "bpr", "--out", tmp_path / "report.html")
    assert result.code == 0
    assert [line.partition(":")[0] for line in result.err.splitlines()] == ["Data", "Quality"]
    given = run("report", tmp_path / "bpr", "--out", tmp_path / "again.html", "--data", trained / "network")
    assert (given.code, given.err) == (0, "")
    nowhere = run("report", tmp_path / "bpr", "--out", tmp_path / "third.html", "--data", tmp_path / "nowhere")
    assert nowhere.code == 4
    assert "nowhere" in nowhere.err


def test_maps_and_sweeps_that_are_none(run: Run, trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    both = run("report", trained / "bpr", "--out", out, "--no-map", "--map", tmp_path / "map.json")
    assert (both.code, "--map and --no-map" in both.err) == (2, True)
    for text in (None, "{}"):
        if text is not None:
            (tmp_path / "map.json").write_text(text)
        wrong = run("report", trained / "bpr", "--out", out, "--map", tmp_path / "map.json")
        assert wrong.code == 5
        assert str(tmp_path / "map.json") in wrong.err
    sweep = run("report", trained / "bpr", "--out", out, "--sweep", tmp_path)
    assert sweep.code == 4
    assert "not a finished sweep" in sweep.err
    assert not out.exists()
