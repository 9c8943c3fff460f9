"""``mcne compare --methods``: a comparison without a plan's file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.in_process import Run
from tests.small_training import small_network


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("network") / "data"
    small_network(items_per_behavior=100).save(path)
    return path


def test_methods_by_name_are_a_comparison_and_go_on(run: Run, data: Path, tmp_path: Path) -> None:
    asked = (
        "--data",
        data,
        "--methods",
        "itemknn,popularity",
        "--out",
        tmp_path / "out",
        "--device",
        "cpu",
        "--jobs",
        1,
    )
    first = run("compare", *asked, "--seeds", 1)
    assert first.code == 0, first.err
    assert "repetitions: 0 of 2 cells are done" in first.out
    more = run("compare", *asked, "--seeds", 2)
    assert "repetitions: 2 of 4 cells are done" in more.out
    tables = {table["title"]: table for table in json.loads((tmp_path / "out" / "table.json").read_text())}
    (tested,) = (table for title, table in tables.items() if "itemknn against the others" in title)
    assert {row[0] for row in tested["rows"]} == {"popularity"}
    specs = [json.loads(path.read_text())["spec"] for path in (tmp_path / "out" / "cells").glob("*/cell.json")]
    assert sorted((spec["method"], spec["seed"], spec["mode"]) for spec in specs) == [
        (method, seed, "joint") for method in ("itemknn", "popularity") for seed in (0, 1)
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "nothing to compare; give a plan or --methods"),
        (("--methods", "popularity,itemnn"), "unknown method 'itemnn'; did you mean 'itemknn'?"),
        (("--methods", "bpr,bpr"), "named twice"),
        (("plan.toml", "--methods", "bpr"), "omit --methods and --seeds"),
        (("plan.toml", "--seeds", 2), "omit --methods and --seeds"),
        (("--methods", "bpr", "--only", "bpr"), "--only: "),
    ],
)
def test_mistakes_leave_nothing_behind(
    options: tuple[object, ...], message: str, run: Run, data: Path, tmp_path: Path
) -> None:
    left = run("compare", *options, "--data", data, "--out", tmp_path / "out")
    assert left.code == 2
    assert message in left.err
    assert "Traceback" not in left.err
    assert not (tmp_path / "out").exists()
