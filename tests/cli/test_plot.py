"""``mcne plot masks | map | curves``: figures, numbers as JSON, drawing again, and mistakes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.in_process import Result, Run, command_line
from tests.small_training import small_network, train_small

import mcne
from mcne import training
from mcne.api.methods import load_embeddings

SMALL = {"widths": [8, 8, 8], "neighbor_samples": [3, 3], "attention_width": 4, "batch_size": 256}
SETTINGS: dict[str, dict[str, Any]] = {
    "mcne": SMALL | {"epochs": 3},
    "mcne-f": SMALL | {"epochs": 2},
    "bpr": {"width": 4, "epochs": 2},
    "popularity": {},
    "nfm": {"width": 4, "layers": [4], "epochs": 1},
}


@pytest.fixture
def plot(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """``mcne plot``, in this process."""
    with command_line(monkeypatch, capsys, "mcne", "plot") as command:
        yield command


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of five methods, and one that was never finished."""
    dataset = small_network()
    place = tmp_path_factory.mktemp("runs")
    for method, settings in SETTINGS.items():
        train_small(method, dataset, place / method, settings=settings)
    (place / "unfinished").mkdir()
    (place / "unfinished" / training.SPEC).write_bytes((place / "mcne" / training.SPEC).read_bytes())
    return place


def fails(result: Result, code: int, *says: str) -> None:
    """One line that says all of this, nothing on stdout, no traceback."""
    assert (result.code, result.out) == (code, ""), result
    assert len(result.err.splitlines()) == 1, result
    for part in says:
        assert part in result.err, result


def is_png(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG")


# masks


def test_masks_beside_fixed_ones(trained: Path, tmp_path: Path, plot: Run) -> None:
    out = tmp_path / "masks.png"
    result = plot("masks", trained / "mcne", "--beside", trained / "mcne-f", "--out", out)
    assert (result.code, result.err) == (0, "")
    assert is_png(out)
    assert result.out.startswith("level 0: 8 dimensions, 8 of them not zero for every user\n")
    assert re.search(r"entries turned over [\d,]+ times in 3 epochs", result.out)
    assert result.out.endswith(f"saved {out}\n")
    assert [each.name for each in tmp_path.iterdir()] == ["masks.png"]


def test_masks_as_json_are_those_of_the_run(trained: Path, tmp_path: Path, plot: Run) -> None:
    result = plot(
        "masks",
        trained / "mcne",
        "--beside",
        trained / "mcne-f",
        "--out",
        tmp_path / "m.svg",
        "--json",
        "--theme",
        "dark",
    )
    assert (result.code, result.err) == (0, "")
    printed = json.loads(result.out)
    embeddings = mcne.load(trained / "mcne")
    for space in embeddings.spaces:
        assert printed["levels"][-1]["masks"][space.name] == "".join("01"[int(one)] for one in space.mask)
    records = [json.loads(line) for line in (trained / "mcne" / "metrics.jsonl").read_text().splitlines()]
    assert [epoch["flips"] for epoch in printed["training"]] == [record["mask_flips"] for record in records]
    assert printed["best_epoch"] == json.loads((trained / "mcne" / "result.json").read_text())["best_epoch"]
    assert printed["beside"]["method"] == "mcne-f"
    assert [pair["shared"] for pair in printed["beside"]["levels"][-1]["overlaps"]] == [0, 0, 0]  # disjoint
    assert (tmp_path / "m.svg").read_text().startswith("<?xml")


def test_masks_of_saved_embeddings_have_no_training(trained: Path, tmp_path: Path, plot: Run) -> None:
    load_embeddings(trained / "mcne").save(tmp_path / "saved")
    result = plot("masks", tmp_path / "saved", "--out", tmp_path / "m.png", "--json")
    assert json.loads(result.out)["training"] == []


# map


@pytest.mark.parametrize("layout", [[], ["--aligned"]])
def test_a_map_is_kept_and_drawn_again(layout: list[str], trained: Path, tmp_path: Path, plot: Run) -> None:
    out, again = tmp_path / "map.png", tmp_path / "again.png"
    result = plot("map", trained / "mcne", "--users", "30", "--seed", "5", "--out", out, *layout)
    assert (result.code, result.err) == (0, "")
    assert "30 users, perplexity" in result.out
    assert "trustworthiness" in result.out
    assert f"saved {out} and {out.with_suffix('.json')}" in result.out.replace("\n", " ")
    kept = json.loads(out.with_suffix(".json").read_text())
    assert (kept["seed"], len(kept["user_ids"])) == (5, 30)
    shown = plot("map", out.with_suffix(".json"), "--out", again, "--json")
    assert again.read_bytes() == out.read_bytes()
    numbers = json.loads(shown.out)
    assert numbers == {name: kept[name] for name in numbers}
    dark = plot("map", out.with_suffix(".json"), "--out", tmp_path / "dark.png", "--theme", "dark")
    assert dark.code == 0
    assert (tmp_path / "dark.png").read_bytes() != out.read_bytes()
    assert {each.name for each in tmp_path.iterdir()} == {"map.png", "map.json", "again.png", "dark.png"}


def test_a_map_that_is_there_is_not_replaced(trained: Path, tmp_path: Path, plot: Run) -> None:
    (tmp_path / "map.json").write_text("mine")
    result = plot("map", trained / "mcne", "--users", "30", "--out", tmp_path / "map.png")
    fails(result, 2, "map.json: already exists", "give it in place of the run")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("map.json", "mine")]


def test_settings_of_a_map_that_is_computed_already(trained: Path, tmp_path: Path, plot: Run) -> None:
    (tmp_path / "map.json").write_text("{}")
    result = plot("map", tmp_path / "map.json", "--seed", "3", "--out", tmp_path / "new.png")
    fails(result, 2, "is a computed map", "omit these options")
    fails(plot("map", tmp_path / "map.json", "--out", tmp_path / "new.png"), 5, "not a map that this version can read")
    (tmp_path / "map.json").write_bytes(b"\xff\xfe\x00")
    fails(
        plot("map", tmp_path / "map.json", "--out", tmp_path / "new.png"),
        5,
        "not a map that this version can read (UnicodeDecodeError",
    )


@pytest.mark.parametrize("users", [501, 3])
def test_more_users_than_there_are(users: int, trained: Path, tmp_path: Path, plot: Run) -> None:
    result = plot("map", trained / "mcne", "--users", users, "--out", tmp_path / "map.png")
    fails(result, 2, f"users: {users} is out of range: the network has 500", "10 to 500")
    assert not list(tmp_path.iterdir())


# curves


def test_curves_of_one_and_of_several_runs(trained: Path, tmp_path: Path, plot: Run) -> None:
    result = plot("curves", trained / "bpr", "--out", tmp_path / "one.pdf")
    assert re.match(r"bpr: 2 epochs, best in epoch [12], validation NDCG@5 0\.\d{4}\nsaved ", result.out)
    assert (tmp_path / "one.pdf").read_bytes().startswith(b"%PDF")
    result = plot("curves", trained / "bpr", trained / "mcne", "--out", tmp_path / "two.png", "--json")
    bpr, ours = json.loads(result.out)["runs"]
    assert (bpr["name"], ours["name"]) == ("bpr", "mcne")
    records = [json.loads(line) for line in (trained / "mcne" / "metrics.jsonl").read_text().splitlines()]
    for behavior, points in ours["losses"].items():
        assert points == [[record["epoch"], record["loss"][behavior]] for record in records]
    assert ours["validation"] == [[record["epoch"], record["validation"]["mean"]["ndcg@5"]] for record in records]


def test_runs_of_one_name_are_told_apart_by_their_paths(trained: Path, tmp_path: Path, plot: Run) -> None:
    other = tmp_path / "bpr"
    shutil.copytree(trained / "bpr", other)
    result = plot("curves", trained / "bpr", other, "--out", tmp_path / "two.png", "--json")
    assert [run["name"] for run in json.loads(result.out)["runs"]] == [str(trained / "bpr"), str(other)]


def test_a_run_is_not_drawn_on_itself(trained: Path, tmp_path: Path, plot: Run) -> None:
    same = trained / "mcne" / ".." / "bpr"
    fails(plot("curves", trained / "bpr", same, "--out", tmp_path / "two.png"), 2, f"{same}: is given twice", "once")
    assert not list(tmp_path.iterdir())


def test_separate_runs_and_those_without_epochs(trained: Path, tmp_path: Path, plot: Run) -> None:
    fails(plot("curves", trained / "popularity", "--out", tmp_path / "c.png"), 2, "popularity", "has no curves")
    dataset = small_network()
    train_small("bpr", dataset, tmp_path / "apart", settings={"width": 4, "epochs": 1}, mode="separate")
    fails(
        plot("curves", tmp_path / "apart", "--out", tmp_path / "c.png"), 2, "one run per behavior", "apart/behaviors/0"
    )
    assert plot("curves", tmp_path / "apart" / "behaviors" / "0", "--out", tmp_path / "c.png").code == 0


# mistakes of all


@pytest.mark.parametrize("kind", ["masks", "map"])
@pytest.mark.parametrize(
    ("run", "code", "message"),
    [
        ("bpr", 2, "'bpr' "),
        ("popularity", 2, "'popularity' has no"),
        ("nfm", 2, "has no vectors"),
        ("unfinished", 4, "is not finished; continue it with"),
        ("nowhere", 4, "nowhere: no such directory"),
    ],
)
def test_runs_that_cannot_be_drawn(
    kind: str, run: str, code: int, message: str, trained: Path, tmp_path: Path, plot: Run
) -> None:
    fails(plot(kind, trained / run, "--out", tmp_path / "f.png"), code, message)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("run", ["unfinished", "nowhere"])
def test_runs_that_have_no_curves(run: str, trained: Path, tmp_path: Path, plot: Run) -> None:
    fails(plot("curves", trained / run, "--out", tmp_path / "f.png"), 4, run)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["masks", "map", "curves"])
@pytest.mark.parametrize(
    ("name", "message"),
    [("there.png", "never replaced"), ("f.gif", ".png, .svg or .pdf"), ("no/f.png", "its directory does not exist")],
)
def test_where_a_figure_cannot_go(kind: str, name: str, message: str, trained: Path, tmp_path: Path, plot: Run) -> None:
    (tmp_path / "there.png").write_text("mine")
    fails(plot(kind, trained / "mcne", "--out", tmp_path / name), 2, message)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("there.png", "mine")]


@pytest.mark.parametrize("kind", ["masks", "map", "curves"])
def test_an_unknown_theme(kind: str, trained: Path, tmp_path: Path, plot: Run) -> None:
    result = plot(kind, trained / "mcne", "--out", tmp_path / "f.png", "--theme", "sepia")
    assert (result.code, result.out) == (2, "")
    assert "sepia" in result.err
    assert "light" in result.err
    assert not list(tmp_path.iterdir())


def test_damaged_metrics(trained: Path, tmp_path: Path, plot: Run) -> None:
    for name in (training.SPEC, "result.json"):
        (tmp_path / name).write_bytes((trained / "bpr" / name).read_bytes())
    (tmp_path / "metrics.jsonl").write_text('{"epoch": 1, "lo')
    fails(plot("curves", tmp_path, "--out", tmp_path / "f.png"), 5, "metrics.jsonl: is damaged")
