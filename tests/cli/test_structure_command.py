"""``mcne structure``, ``mcne plot structure`` and ``mcne plot attention``: what they write and print, and mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.in_process import Result, Run
from tests.small_training import small_network, train_small

from mcne import training

SMALL = {"widths": [8, 8, 8], "neighbor_samples": [3, 3], "attention_width": 4, "batch_size": 512, "epochs": 1}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset and a run each of mcne and bpr on it."""
    path = tmp_path_factory.mktemp("place")
    dataset = small_network()
    dataset.save(path / "data")
    for method, settings in (("mcne", SMALL), ("bpr", {"epochs": 1, "width": 8})):
        train_small(method, dataset, path / method, settings=settings)
    return path


def fails(result: Result, code: int, *says: str) -> None:
    """One line that says all of this, and no traceback."""
    assert result.code == code, result
    last = result.err.strip().splitlines()[-1]
    assert "Traceback" not in result.err
    for part in says:
        assert part in last, result


# structure


def test_a_study_is_written_printed_and_drawn(run: Run, place: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = ("structure", "--data", place / "data", "--out", out, "--methods", "bpr, line", "--repetitions", 1)
    command = (*asked, "--set", "epochs=1", "--set", "width=8")
    shown = run(*command)
    assert (shown.code, shown.err) == (0, ""), shown
    assert "bpr, repetition 0: AUC " in shown.out
    assert "Adamic–Adar" in shown.out
    assert "structure.md" in shown.out
    again = run(*command, "--json")
    printed = json.loads(again.out)
    assert printed == json.loads((out / "structure.json").read_text())
    assert "wrote" in again.err
    drawn = run("plot", "structure", out, "--out", tmp_path / "figure.png", "--json")
    assert (drawn.code, json.loads(drawn.out)) == (0, printed)
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    fails(run("plot", "structure", out, "--out", tmp_path / "figure.png"), 2, "already exists")
    fails(run("plot", "structure", place, "--out", tmp_path / "other.png"), 4, "structure.json is missing")
    assert not (place / "data" / "splits").exists(), "the dataset is only read"


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        (("--methods", "linee"), 2, "unknown method 'linee'; did you mean 'line'?"),
        (("--methods", "nfm"), 2, "nfm has no user vectors"),
        (("--methods", ""), 2, "--methods: no methods"),
        (("--methods", "line", "--share", "1.5"), 2, "share: 1.5 is out of range"),
        (("--methods", "line", "--set", "wdth=3"), 2, "unknown setting 'wdth'; did you mean 'width'?"),
        (("--methods", "line", "--set", "width=0"), 2, "width: 0 is out of range"),
        (("--methods", "line", "--set", "width"), 2, "--set "),
    ],
)
def test_mistakes(given: tuple[str, ...], code: int, message: str, run: Run, place: Path, tmp_path: Path) -> None:
    fails(run("structure", "--data", place / "data", "--out", tmp_path / "out", *given), code, message)
    assert not (tmp_path / "out").exists()


def test_a_place_of_something_else(run: Run, place: Path) -> None:
    before = sorted(place.rglob("*"))
    result = run("structure", "--data", place / "data", "--out", place / "mcne", "--methods", "line")
    fails(result, 2, "is not empty and is not a structure study", "choose an empty directory or another --out")
    assert sorted(place.rglob("*")) == before


# attention


def test_the_network_is_drawn_kept_and_drawn_again(run: Run, place: Path, tmp_path: Path) -> None:
    shown = run("plot", "attention", place / "mcne", "--out", tmp_path / "one.svg", "--draws", 2)
    assert shown.code == 0, shown
    assert "entropy" in shown.out
    assert "communities (modularity" in shown.out
    assert "behaviors, against swapped" in shown.out
    kept = json.loads((tmp_path / "one.json").read_text())
    assert (kept["of"], kept["seed"], kept["faithfulness"]["draws"]) == ("network", 0, 2)
    again = run("plot", "attention", tmp_path / "one.json", "--out", tmp_path / "two.svg", "--json")
    assert (again.code, json.loads(again.out)) == (0, kept)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert not (tmp_path / "two.json").exists()
    fails(run("plot", "attention", place / "mcne", "--out", tmp_path / "one.png"), 2, "one.json", "ever replaced")


def test_a_user_and_a_link(run: Run, place: Path, tmp_path: Path) -> None:
    neighbor = training.Run.open(place / "mcne").embeddings.graph.neighbors(0)[0] + 1  # ids begin at 1
    shown = run("plot", "attention", place / "mcne", "--user", 1, "--out", tmp_path / "user.png")
    assert shown.code == 0, shown
    assert "hears, mean" in shown.out
    link = ("plot", "attention", place / "mcne", "--user", 1, "--other", neighbor)
    shown = run(*link, "--theme", "dark", "--out", tmp_path / "link.png", "--json")
    printed = json.loads(shown.out)
    assert (printed["of"], [each["receiver_id"] for each in printed["messages"]]) == ("link", [1, neighbor])
    explained = json.loads(run("explain", place / "mcne", "--user", 1, "--other", neighbor, "--json").out)
    assert printed["messages"] == explained["messages"]
    assert {path.name for path in tmp_path.iterdir()} == {"user.png", "user.json", "link.png", "link.json"}


@pytest.mark.parametrize(
    ("method", "given", "code", "message"),
    [
        ("bpr", (), 2, "'bpr' has no attention over behaviors"),
        ("mcne", ("--other", "2"), 2, "needs --user"),
        ("mcne", ("--user", "9999"), 2, "unknown user"),
        ("mcne", ("--user", "1", "--other", "1"), 2, "given twice"),
        ("mcne", ("--user", "1", "--draws", "3"), 2, "are for the network"),
        ("nothing", (), 4, "nothing"),
    ],
)
def test_mistakes_about_attention(
    method: str, given: tuple[str, ...], code: int, message: str, run: Run, place: Path, tmp_path: Path
) -> None:
    fails(run("plot", "attention", place / method, "--out", tmp_path / "figure.png", *given), code, message)
    assert list(tmp_path.iterdir()) == []


def test_mistakes_about_kept_numbers(run: Run, tmp_path: Path) -> None:
    (tmp_path / "kept.json").write_text('{"of": "masks"}')
    asked = ("plot", "attention", tmp_path / "kept.json", "--out", tmp_path / "figure.png")
    fails(run(*asked), 5, "kept.json: no attention of a link, a user or a network", "give a run")
    fails(run(*asked, "--user", "1"), 2, "need a run")
    (tmp_path / "kept.json").write_text('{"of": "link", "even": 0.5, "behaviors": ["a", "other"]}')
    fails(run(*asked), 5, "kept.json: damaged (no messages)", "give a run")


def test_help_and_attention_need_no_torch(place: Path, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom mcne.cli.main import main\n"
        "for command in ([*'structure --help'.split()], [*'plot attention --help'.split()], sys.argv[1:]):\n"
        "    sys.argv = ['mcne', *command]\n"
        "    try:\n        main()\n    except SystemExit as left:\n        assert not left.code\n"
        "    assert not {'torch', 'numba'} & set(sys.modules)\n"
    )
    asked = ["plot", "attention", str(place / "mcne"), "--user", "1", "--out", str(tmp_path / "figure.png")]
    subprocess.run([sys.executable, "-c", code, *asked], check=True, capture_output=True)
