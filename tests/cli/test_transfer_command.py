"""``mcne transfer`` and ``mcne compare-transfer``: what they print and leave behind, and every mistake."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.cli.in_process import Result, Run
from tests.small_training import train_small

from mcne.data.dataset import SocialDataset

pytestmark = pytest.mark.usefixtures("no_flushing")

MCNE = {"widths": [8, 6], "neighbor_samples": [3], "attention_width": 4, "batch_size": 64, "epochs": 1}


def network(behaviors: tuple[str, ...], *, first_user: int = 0) -> SocialDataset:
    columns: dict[str, list[object]] = {"user_id": [], "item_id": [], "behavior": []}
    for at, name in enumerate(("read", "watch", "play")):
        chance = np.random.default_rng(at)
        for user in range(first_user, first_user + 60):
            items = chance.choice(30, 6, replace=False).tolist()
            if name in behaviors:
                columns["user_id"] += [user] * 6
                columns["item_id"] += [f"{name}-{item}" for item in items]
                columns["behavior"] += [name] * 6
    pairs = np.random.default_rng(9).integers(0, 60, (150, 2)) + first_user
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    links = pa.table({"source_id": pairs[:, 0], "target_id": pairs[:, 1]})
    return SocialDataset.from_frames(pa.table(columns), links, name="small", behaviors=behaviors)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data with a behavior more than what was trained, and runs of mcne and bpr."""
    place = tmp_path_factory.mktemp("transfer")
    network(("read", "watch", "play")).save(place / "data")
    before = network(("read", "watch"))
    for method, settings in (("mcne", MCNE), ("bpr", {"width": 4, "epochs": 1})):
        train_small(method, before, place / method, settings=settings, dataset_path="gone")
    return place


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "here"))


@pytest.fixture
def bring(run: Run, place: Path) -> Run:
    """``mcne transfer`` of play to the trained mcne, into ``place/new``; later options win."""

    def command(*args: object, base: str = "mcne", data: str = "data", behavior: str = "play") -> Result:
        given = ("--data", place / data, "--behavior", behavior, "--out", place / "new", "--set", "epochs=2")
        return run("transfer", place / base, *given, "--device", "cpu", *args)

    return command


def test_the_new_run_is_like_any_other(bring: Run, run: Run, place: Path) -> None:
    result = bring()
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == "play of small to mcne, split random-0, seed 0, cpu"
    assert lines[1].startswith("memory: about ")
    assert any(line.startswith("epoch 1/2, play 0.") for line in lines[2:-3])
    assert lines[-3].startswith("best of 2 epochs: ")
    assert lines[-2].startswith("trained 194 parameters (14 mask, 180 item); ")
    assert lines[-1].startswith(f"saved {place / 'new'} ")
    measured = json.loads(run("evaluate", place / "new", "--json").out)
    assert list(measured["behaviors"]) == ["play"]
    shown = run("evaluate", place / "new")
    assert (shown.code, shown.err) == (0, "")
    assert "mcne-transfer on small, test part of random-0" in shown.out
    for behavior in ("read", "watch", "play"):
        recommended = json.loads(run("recommend", place / "new", "--user", 3, "--behavior", behavior, "--json").out)
        assert all(item["item_id"].startswith(behavior) for item in recommended["items"])
        assert len(recommended["items"]) == 10
        if behavior != "play":
            old = run("recommend", place / "mcne", "--user", 3, "--behavior", behavior, "--json").out
            assert json.loads(old) == recommended
    assert run("similar", place / "new", "--user", 3, "--behavior", "play").code == 0
    explained = run("explain", place / "new", "--user", 3, "--other", 4)
    assert explained.code == 0
    assert "play" in explained.out
    assert run("export", place / "new", "--format", "npz", "--out", place / "exported").code == 0


def test_saved_embeddings_will_do_and_so_will_a_run_of_this_kind(bring: Run, run: Run, place: Path) -> None:
    shutil.copytree(place / "mcne" / "embeddings", place / "vectors")
    assert bring(base="vectors").code == 0
    again = run("transfer", place / "new", "--data", place / "data", "--behavior", "play", "--out", place / "more")
    assert again.code == 2
    assert "behavior 'play' is already in the run (read, watch, play)" in again.err


def test_controls_and_resume(bring: Run) -> None:
    first = bring("--control", "masks-only")
    assert (first.code, first.err) == (0, "")
    assert "items first, against the whole vectors:" in first.out
    assert "then masks, with these items:" in first.out
    again = bring("--control", "masks-only", "--resume")
    assert again.code == 0
    assert "new: finished already" in again.out.replace("\n", "")
    other = bring("--control", "random-masks", "--resume")
    assert other.code == 5
    assert "contains another run (control there masks-only, here random-masks)" in other.err


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        ({"base": "bpr"}, 2, "cannot add a behavior to 'bpr'"),
        ({"base": "nothing"}, 4, "no such directory"),
        ({"behavior": "plya"}, 2, "unknown behavior 'plya'; did you mean 'play'?"),
        ({"behavior": "read"}, 2, "behavior 'read' is already"),
        ({"data": "nothing"}, 4, "no such directory"),
        ({"data": "strangers"}, 4, "play: none of its 60 users (integer ids, from 1000 to 1059"),
        ({"data": "half"}, 4, "30 of its 60 users, with 180 of its 360 interactions"),
    ],
)
def test_mistakes(given: dict[str, str], code: int, message: str, bring: Run, place: Path) -> None:
    network(("play",), first_user=1000).save(place / "strangers")
    network(("play",), first_user=30).save(place / "half")
    result = bring(**given)
    assert result.code == code
    assert message in result.err
    assert "Traceback" not in result.err
    assert not (place / "new").exists()


def test_more_mistakes(bring: Run, place: Path) -> None:
    for args, message in (
        (("--set", "widths=[3]"), "unknown setting 'widths'"),
        (("--set", "neighbor_samples=[3,3]"), "the trained network has 1 layers"),
        (("--split", "mine"), "unknown split 'mine'"),
        (("--set", "control=mask-only"), "setting control: unknown value 'mask-only'"),
        (("--set", "l2=-1"), "setting l2: -1.0 is out of range"),
    ):
        result = bring(*args)
        assert result.code == 2
        assert message in result.err
        assert not (place / "new").exists()
    (place / "mcne" / "result.json").unlink()
    unfinished = bring()
    assert unfinished.code == 4
    assert "mcne: is not finished; continue it with: mcne train mcne" in unfinished.err
    (place / "new").mkdir()
    (place / "new" / "mine").write_text("kept")
    shutil.copytree(place / "mcne" / "embeddings", place / "vectors")
    occupied = bring(base="vectors")
    assert occupied.code == 2
    assert "is not empty and is not a run" in occupied.err
    assert [path.name for path in (place / "new").iterdir()] == ["mine"]


PLAN = """
behavior = "play"
repetitions = 1
[training]
epochs = 1
[base]
settings = { widths = [8, 6], neighbor_samples = [3], attention_width = 4, batch_size = 64 }
[rows.transfer]
[rows.popularity]
method = "popularity"
"""


def test_a_comparison_of_ways(run: Run, place: Path) -> None:
    (place / "plan.toml").write_text(PLAN)
    command = ("compare-transfer", place / "plan.toml", "--data", place / "data", "--out", place / "study")
    early = run(*command, "--table")
    assert early.code == 4
    assert "nothing is finished yet; run without --table" in early.err
    result = run(*command, "--jobs", 1, "--device", "cpu")
    assert (result.code, result.err) == (0, "")
    assert f"wrote {place / 'study' / 'table.md'}" in result.out
    table = (place / "study" / "table.md").read_text()
    assert "| transfer | 194 | 14 |" in table
    assert run(*command, "--table").code == 0
    assert (place / "study" / "table.md").read_text() == table
    wrong = run("compare-transfer", place / "plan.toml", "--data", place / "mcne", "--out", place / "other")
    assert wrong.code == 4
    assert not (place / "other").exists()
