"""A directory is of one kind, which is kept with its data; finished cells are taken over from others."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.errors import refused
from tests.studies.small_plan import PLAN, opened, run

from mcne.data.split import random_split
from mcne.errors import ArtifactError, DataError, UsageError
from mcne.files import locked
from mcne.studies.comparison import Comparison
from mcne.studies.engine import Kind, begin, check_kind, is_done, kind_of, merge

DONE = ["search: 4 of 4 cells are done", "repetitions: 4 of 4 cells are done"]
PRINTS = {"dataset": "0" * 64, "random-0": "1" * 64}


def holding(path: Path, *names: str, prints: dict[str, str] | None = None) -> Path:
    """A directory with these files, and what was kept of its data."""
    path.mkdir()
    if prints is not None:
        (path / "data.json").write_text(json.dumps(prints))
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("{}")
    return path


def test_the_kind_is_kept_with_the_data(tmp_path: Path) -> None:
    for kind in Kind:
        out = tmp_path / kind.name
        begin(out, kind, PRINTS)
        assert json.loads((out / "data.json").read_text()) == {"kind": kind, **PRINTS}
        begin(out, kind, PRINTS | {"random-1": "2" * 64})
        assert kind_of(out) == kind
        for other in set(Kind) - {kind}:
            with refused(UsageError, place=kind.name, value=str(kind)):
                begin(out, other, PRINTS)
        with pytest.raises(ArtifactError, match="was started on other data"):
            begin(out, kind, {"dataset": "9" * 64})
        assert json.loads((out / "data.json").read_text()) == {"kind": kind, **PRINTS, "random-1": "2" * 64}


@pytest.mark.parametrize(
    ("prints", "names", "fitting"),
    [
        (PRINTS | {"kind": "transfer study"}, ("table.json", "sweep.json", "cells/bpr-r0-1/cell.json"), Kind.transfer),
        (None, ("study.json", "cells/line-r0-1/cell.json"), Kind.structure),
        (None, ("request.json", "seed-0/result.json"), Kind.new_users),
        (None, ("cells/bpr-r0-1/cell.json", "table.json"), "all"),  # data.json was damaged and removed
        (None, ("cells/bpr-r0-1/run/run.json",), "all"),
        (None, ("bases/mcne-r0-1/cell.json",), "all"),
        (PRINTS, ("table.json",), None),
        (None, ("table.md", "table.json", "sweep.md", "sweep.json", "cells/notes"), None),
        ({"points": "7"}, ("table.md",), None),
        (None, (), "all"),
    ],
)
def test_a_directory_is_for_studies_of_its_kind_alone(
    prints: dict[str, str] | None, names: tuple[str, ...], fitting: str | None, tmp_path: Path
) -> None:
    out = holding(tmp_path / "out", *names, prints=prints)
    assert kind_of(out) == (fitting if fitting in set(Kind) else None)
    for kind in Kind:
        if fitting in (kind, "all"):
            check_kind(out, kind)
        else:
            with pytest.raises(UsageError, match=r"; choose (an empty directory or )?another --out"):
                check_kind(out, kind)


def test_what_is_there_is_named(tmp_path: Path) -> None:
    out = holding(tmp_path / "out", *"gfedcba")
    message = "is not empty and is not a sweep (a, b, c, d, e, … 2 more); choose an empty directory or another --out"
    with pytest.raises(UsageError) as error:
        check_kind(out, Kind.sweep)
    assert str(error.value) == f"{out}: {message}"
    with refused(UsageError, place="a", about="directory"):
        check_kind(out / "a", Kind.sweep)
    check_kind(tmp_path / "nothing there", Kind.sweep)
    check_kind(holding(tmp_path / "torn", ".data.json.partial"), Kind.sweep)  # by a death at the very beginning


def test_several_begin_at_once(tmp_path: Path) -> None:
    """Whoever comes first, the others go on with it; of two kinds one is refused."""
    with ThreadPoolExecutor(8) as pool:
        for n in range(20):
            out = tmp_path / str(n)
            list(pool.map(lambda _, out=out: begin(out, Kind.sweep, PRINTS), range(8)))
            kinds = [pool.submit(begin, tmp_path / f"{n}-two", kind, PRINTS) for kind in (Kind.sweep, Kind.transfer)]
            assert sum(isinstance(each.exception(), UsageError) for each in kinds) == 1


def test_hidden_files_are_nobodys_work(tmp_path: Path) -> None:
    out = holding(tmp_path / "out", ".DS_Store", prints=None)
    begin(out, Kind.sweep, PRINTS)
    assert kind_of(out) == Kind.sweep


# cells of other machines


@pytest.fixture
def empty(plan: Path, data: Path, tmp_path: Path) -> Comparison:
    return opened(plan, data, tmp_path / "out")


def test_cells_of_another_machine_are_taken_over(finished: Comparison, empty: Comparison) -> None:
    assert merge(finished.out, empty.out) == 8
    assert merge(finished.out, empty.out) == 0
    assert run(empty)[1] == DONE


def test_more_repetitions_there_are_no_other_data(finished: Comparison, plan: Path, data: Path, tmp_path: Path) -> None:
    plan.write_text(PLAN.replace("repetitions = 2", "repetitions = 1"))
    fewer = opened(plan, data, tmp_path / "out")
    assert merge(finished.out, fewer.out) == 8
    shutil.copytree(fewer.out, tmp_path / "fewer")
    plan.write_text(PLAN.replace("repetitions = 2", "repetitions = 3"))
    assert merge(tmp_path / "fewer", opened(plan, data, tmp_path / "more").out) == 8


def test_a_cell_that_is_trained_here_now_is_left(finished: Comparison, empty: Comparison) -> None:
    cell = empty.search_cells()[0]
    with locked(empty.directory(cell)):
        (empty.directory(cell) / "run").mkdir()
        assert merge(finished.out, empty.out) == 7
        assert (empty.directory(cell) / "run").is_dir()
        assert not is_done(empty.directory(cell))
    assert merge(finished.out, empty.out) == 1
    assert not (empty.directory(cell) / "run").exists()


def test_only_results_are_copied(finished: Comparison, empty: Comparison, tmp_path: Path) -> None:
    shutil.copytree(finished.out, tmp_path / "other")
    for directory in (tmp_path / "other" / "cells").iterdir():
        (directory / "run").mkdir()
        (directory / ".cell.json.partial").write_text("{")
    assert merge(tmp_path / "other", empty.out) == 8
    cells = list((empty.out / "cells").iterdir())
    assert len(cells) == 8
    assert {path.name for cell in cells for path in cell.iterdir()} == {"cell.json", "ranks.parquet"}


def test_two_at_once(finished: Comparison, empty: Comparison) -> None:
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(merge, [finished.out] * 4, [empty.out] * 4))
    assert sum(taken) == 8
    assert run(empty)[1] == DONE


def test_what_is_no_comparison_is_refused(finished: Comparison, empty: Comparison, tmp_path: Path) -> None:
    with refused(DataError, place="nowhere"):
        merge(tmp_path / "nowhere", empty.out)
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(finished.out / "data.json", other)
    with pytest.raises(DataError, match=r"not a comparison: cells is missing"):
        merge(other, empty.out)
    (other / "cells").mkdir()
    (other / "data.json").write_text('{"dataset": ')
    with pytest.raises(ArtifactError, match=r"other/data\.json: is damaged .*; restore it, or copy it again"):
        merge(other, empty.out)
    (other / "data.json").write_text(json.dumps({"kind": "comparison", "dataset": "0" * 64}))
    with pytest.raises(ArtifactError, match=f"on other data .dataset there 0+, here {empty.dataset.fingerprint[:12]}"):
        merge(other, empty.out)


def test_only_a_comparison_is_taken_over(finished: Comparison, empty: Comparison, tmp_path: Path) -> None:
    other = Path(shutil.copytree(finished.out, tmp_path / "other"))
    prints = json.loads((other / "data.json").read_text())
    for kind in (Kind.sweep, Kind.timing, Kind.transfer):
        (other / "data.json").write_text(json.dumps(prints | {"kind": kind}))
        with refused(DataError, place="other", value=str(kind)):
            merge(other, empty.out)
    del prints["kind"]
    (other / "data.json").write_text(json.dumps(prints))
    with pytest.raises(DataError, match=f"{other}: is of an unknown kind, not a comparison"):
        merge(other, empty.out)
    assert list((empty.out / "cells").iterdir()) == []


def test_other_data_is_refused_with_both_hashes(finished: Comparison, plan: Path, data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(data, other)
    shutil.rmtree(other / "splits" / "random-1")
    random_split(finished.dataset, seed=7).save(other / "splits" / "random-1")
    with refused(ArtifactError, place="out", about="random"):
        opened(plan, other, finished.out)
    comparison = opened(plan, other, tmp_path / "out")
    with pytest.raises(ArtifactError, match="compares on other data"):
        merge(finished.out, comparison.out)
