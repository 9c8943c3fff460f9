"""``mcne compare``, ``compare-transfer`` and ``sweep`` where another study or something else is: all of it is kept."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.in_process import Result, Run
from tests.small_training import small_network

from mcne.report import page as report_page

pytestmark = pytest.mark.usefixtures("no_flushing")

COMPARED = """
repetitions = 1
reference = "popularity"
[methods.itemknn]
[methods.popularity]
"""
BROUGHT = """
behavior = "Movies"
reference = "popularity"
repetitions = 1
[training]
epochs = 1
[base]
settings = { widths = [8, 6], neighbor_samples = [3], attention_width = 4, batch_size = 512 }
[rows.popularity]
method = "popularity"
"""
SWEPT = ("--set", "width=2,4", "--set", "epochs=1", "--set", "batch_size=512", "--repetitions", 1)
KINDS = {"compare": "a comparison", "compare-transfer": "a transfer study", "sweep": "a sweep"}

Study = Callable[..., Result]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("network") / "data"
    small_network(behaviors=3, items_per_behavior=100).save(path)
    return path


@pytest.fixture
def study(run: Run, data: Path, tmp_path: Path) -> Study:
    """One of the commands in a directory; ``data`` may be another."""
    (tmp_path / "compare.toml").write_text(COMPARED)
    (tmp_path / "compare-transfer.toml").write_text(BROUGHT)

    def command(name: str, out: Path, *args: object, data: Path = data) -> Result:
        what = ("bpr", *SWEPT) if name == "sweep" else (tmp_path / f"{name}.toml",)
        return run(name, *what, "--data", data, "--out", out, "--jobs", 1, "--device", "cpu", *args)

    return command


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("finished")


@pytest.fixture
def finished(kept: Path, study: Study, tmp_path: Path) -> Callable[[str], Path]:
    """A copy of what a command has made, all of which lie beside each other; each is made once."""

    def place(name: str) -> Path:
        if not (kept / name).exists():
            made = study(name, kept / name)
            assert made.code == 0, made
        return Path(shutil.copytree(kept / name, tmp_path / "there" / name))

    return place


def contents(path: Path) -> dict[str, bytes | None]:
    return {str(each): each.read_bytes() if each.is_file() else None for each in sorted(path.rglob("*"))}


def refuses(result: Result, *says: str) -> None:
    """One line that says all of this, and nothing else."""
    assert (result.code, result.out) == (2, ""), result
    assert len(result.err.splitlines()) == 1, result
    for part in says:
        assert part in result.err, result


@pytest.mark.parametrize("older", list(KINDS))
def test_a_finished_study_is_not_made_another(
    older: str, finished: Callable[[str], Path], study: Study, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_page, "to_svg", lambda _figure: "<svg/>")  # which takes longest
    out = finished(older)
    before = contents(out)
    for wanted in KINDS:
        if wanted != older:
            message = f"{out}: already contains {KINDS[older]}, not {KINDS[wanted]}; choose another --out"
            refuses(study(wanted, out), message)
            refuses(study(wanted, out, "--json" if wanted == "sweep" else "--table"), message)
    assert contents(out) == before
    assert study(older, out).code == 0
    if older == "compare":
        assert run("report", out, "--out", tmp_path / "page.html").code == 0
        rows = ("--rows", "itemknn,popularity")
        assert run("plot", "ablation", out, "--out", tmp_path / "figure.png", *rows).code == 0


@pytest.mark.parametrize("older", list(KINDS))
def test_a_study_whose_data_json_was_removed_goes_on(older: str, finished: Callable[[str], Path], study: Study) -> None:
    """As a message about a damaged one says."""
    out = finished(older)
    before = (out / "data.json").read_bytes()
    (out / "data.json").unlink()
    again = study(older, out)
    assert again.code == 0, again
    assert not any(line.startswith("1/") for line in again.out.splitlines()), "trained again"
    assert (out / "data.json").read_bytes() == before


@pytest.mark.parametrize("wanted", list(KINDS))
@pytest.mark.parametrize("name", ["table.md", "table.json", "sweep.md", "sweep.json", "data.json", "cells"])
def test_what_is_no_study_is_left_alone(name: str, wanted: str, study: Study, data: Path, tmp_path: Path) -> None:
    fresh = Path(shutil.copytree(data, tmp_path / "data", ignore=shutil.ignore_patterns("splits")))
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("kept")
    (out / name).write_text('{"mine": true}')
    before = contents(tmp_path)
    message = f"{out}: is not empty and is not {KINDS[wanted]} ("
    refuses(study(wanted, out, data=fresh), message, name, "mine", "; choose an empty directory or another --out")
    refuses(study(wanted, out / "mine", data=fresh), f"mine: is a file, and {KINDS[wanted]} needs a directory; choose")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("wanted", list(KINDS))
def test_an_empty_directory_will_do(wanted: str, study: Study, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    begun = study(wanted, tmp_path / "out", *(() if wanted == "sweep" else ("--table",)))
    assert "finished yet; run without --table" in begun.err or begun.code == 0, begun
    assert f"a {json.loads((tmp_path / 'out' / 'data.json').read_text())['kind']}" == KINDS[wanted]


def test_the_timing_of_a_sweep_is_no_place_either(
    finished: Callable[[str], Path], study: Study, run: Run, tmp_path: Path
) -> None:
    out = finished("sweep")
    for path in out.glob("cells/*/cell.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"jobs": 2}))
    assert study("sweep", out).code == 0
    timing = out / "timing"
    for wanted, kind in KINDS.items():
        refuses(study(wanted, timing), f"{timing}: already contains a sweep's timing, not {kind}")
    told = run("report", timing, "--out", tmp_path / "page.html")
    assert told.code == 4
    assert f"{timing}: is a sweep's timing, not a run or a comparison; mcne plot sweep {out} draws it" in told.err
    (timing / "data.json").unlink()
    assert study("sweep", out).code == 0
    assert json.loads((timing / "data.json").read_text())["kind"] == "sweep's timing"


def test_cells_are_merged_from_a_comparison(finished: Callable[[str], Path], study: Study, tmp_path: Path) -> None:
    other, sweep = finished("compare"), finished("sweep")
    wrong = study("compare", tmp_path / "out", "--table", "--merge", sweep)
    assert wrong.code == 4
    assert f"{sweep}: is a sweep, not a comparison" in wrong.err
    assert "2 finished trainings taken over" in study("compare", tmp_path / "out", "--table", "--merge", other).out


def test_what_has_no_page_says_which_command_shows_it(
    finished: Callable[[str], Path], run: Run, data: Path, tmp_path: Path
) -> None:
    def told(path: Path) -> str:
        result = run("report", path, "--out", tmp_path / "page.html")
        assert result.code == 4
        assert not (tmp_path / "page.html").exists()
        return result.err

    sweep = finished("sweep")
    message = (
        f"error: {sweep}: is a sweep, not a run or a comparison; draw it with mcne plot sweep {sweep}, or show it on "
        f"the page of a run: mcne report RUN --sweep {sweep}\n"
    )
    assert told(sweep) == message
    for each in ("data.json", "cells"):
        path = sweep / each
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert told(sweep) == message, "results alone, as they are passed on"
    brought = finished("compare-transfer")
    assert f"{brought}: is a transfer study, not a run or a comparison; its table is {brought}/table.md" in told(
        brought
    )
    place = tmp_path / "structure"
    asked = ("structure", "--data", data, "--out", place, "--methods", "line", "--repetitions", 1)
    assert run(*asked, "--set", "epochs=1", "--set", "width=4").code == 0
    assert told(place) == (
        f"error: {place}: is a structure study, not a run or a comparison; draw it with mcne plot structure {place}\n"
    )
