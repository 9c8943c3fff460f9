"""``mcne sweep`` and its figures on the command line: from data to files, and what is a mistake."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.cli.in_process import Run
from tests.small_training import small_network

SMALL = ("--set", "widths=[8,8,8]", "--set", "neighbor_samples=[3,2]", "--set", "epochs=1", "--set", "batch_size=512")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("network") / "data"
    small_network().save(path)
    return path


def test_a_sweep_from_data_to_a_figure(run: Run, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ("--set", "final_width=4,8", "--repetitions", 1, "--device", "cpu")
    first = run("sweep", "mcne", "--data", data, "--out", out, *SMALL, *options)
    assert first.code == 0, first.err
    lines = first.out.splitlines()
    assert lines[0] == "repetitions: 0 of 2 cells are done"
    assert re.fullmatch(r"1/2 final_width=4, repetition 0: joint, validation NDCG@5 \d+\.\d\d, \d+ s", lines[1])
    assert lines[-2:] == [f"wrote {out / 'sweep.md'}", f"wrote {out / 'sweep.json'}"]
    again = run("sweep", "--data", data, "--out", out, *SMALL, *options, "--json")
    assert again.err.splitlines()[0] == "repetitions: 2 of 2 cells are done"
    assert json.loads(again.out) == json.loads((out / "sweep.json").read_text())
    (curve,) = json.loads(again.out)["curves"]
    assert [point["value"] for point in curve["points"]] == [4, 8]
    written = [json.loads(path.read_text())["spec"]["config"]["widths"] for path in out.glob("cells/*/cell.json")]
    assert sorted(written) == [[8, 8, 4], [8, 8, 8]]
    figure = run("plot", "sweep", out, "--out", tmp_path / "sweep.svg", "--theme", "dark")
    assert figure.out.splitlines()[-1] == f"saved {tmp_path / 'sweep.svg'}"
    assert "Points are single trainings" in figure.out
    assert (tmp_path / "sweep.svg").read_text().count("<svg") == 1
    twice = run("plot", "sweep", out, "--out", tmp_path / "sweep.svg")
    assert (twice.code, "ever replaced" in twice.err) == (2, True)
    assert json.loads(run("plot", "sweep", out, "--out", tmp_path / "other.svg", "--json").out) == json.loads(again.out)


@pytest.mark.parametrize(
    ("what", "options", "message"),
    [
        ("mcne", ("--set", "final_width=50,0"), "0 is out of range"),
        ("mcne", ("--set", "final_widht=50,60"), "did you mean 'final_width'?"),
        ("mcne", ("--set", "l2=0.1,0.1"), "is given twice"),
        ("mcne", ("--set", "l2=0.1"), "two or more values"),
        ("mncee", ("--set", "l2=0.1,0.2"), "unknown method 'mncee'"),
        ("nowhere.toml", (), "nowhere.toml: no such file"),
        ("mcne", ("--set", "l2=0.1,0.2", "--split", "own"), "unknown split 'own'"),
    ],
)
def test_mistakes_leave_nothing_behind(
    what: str, options: tuple[str, ...], message: str, run: Run, data: Path, tmp_path: Path
) -> None:
    left = run("sweep", what, "--data", data, "--out", tmp_path / "out", *options)
    assert left.code == 2
    assert message in left.err
    assert "Traceback" not in left.err
    assert not (tmp_path / "out").exists()


PLAN = """
repetitions = 1
reference = "popularity"
[methods."popularity, again"]
method = "popularity"
[methods.itemknn]
[methods.popularity]
"""


def test_variants_of_a_comparison_side_by_side(run: Run, data: Path, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    place = tmp_path / "compared"
    assert run("compare", tmp_path / "plan.toml", "--data", data, "--out", place, "--jobs", 1).code == 0
    rows = ("--rows", "popularity, again,itemknn,popularity")
    told = run("plot", "ablation", place, "--out", tmp_path / "a.png", *rows)
    assert told.code == 0, told.err
    assert "compared, mean over behaviors NDCG@5: popularity, again less popularity +0.00" in told.out
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    (variant,) = json.loads(run("plot", "ablation", place, "--out", tmp_path / "b.png", *rows, "--json").out)
    assert (variant["name"], variant["reference"], variant["rivals"]) == ("compared", "popularity", 2)
    assert {each["row"] for each in variant["found"]} == {"popularity, again", "itemknn", "popularity"}
    twice = run("plot", "ablation", place, place, "--out", tmp_path / "c.png", *rows)
    assert (twice.code, "is given twice" in twice.err) == (2, True)
    wrong = run("plot", "ablation", place, "--out", tmp_path / "c.png")
    assert wrong.code == 2
    assert "unknown row 'mcne-f'" in wrong.err
    assert not (tmp_path / "c.png").exists()
