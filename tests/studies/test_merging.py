"""Finished cells are taken over from other machines; nothing that is under way here is touched."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.studies.small_plan import PLAN, opened, run

from mcne.data.split import random_split
from mcne.errors import ArtifactError, DataError
from mcne.files import locked
from mcne.studies.cell import is_done
from mcne.studies.execution import Comparison
from mcne.studies.kinds import Kind

DONE = ["search: 4 of 4 cells are done", "repetitions: 4 of 4 cells are done"]


@pytest.fixture
def empty(plan: Path, data: Path, tmp_path: Path) -> Comparison:
    return opened(plan, data, tmp_path / "out")


def test_cells_of_another_machine_are_taken_over(finished: Comparison, empty: Comparison) -> None:
    assert empty.merge(finished.out) == 8
    assert empty.merge(finished.out) == 0
    assert run(empty)[1] == DONE


def test_more_repetitions_there_are_no_other_data(finished: Comparison, plan: Path, data: Path, tmp_path: Path) -> None:
    plan.write_text(PLAN.replace("repetitions = 2", "repetitions = 1"))
    fewer = opened(plan, data, tmp_path / "out")
    assert fewer.merge(finished.out) == 8
    shutil.copytree(fewer.out, tmp_path / "fewer")
    plan.write_text(PLAN.replace("repetitions = 2", "repetitions = 3"))
    assert opened(plan, data, tmp_path / "more").merge(tmp_path / "fewer") == 8


def test_a_cell_that_is_trained_here_now_is_left(finished: Comparison, empty: Comparison) -> None:
    cell = empty.search_cells()[0]
    with locked(empty.directory(cell)):
        (empty.directory(cell) / "run").mkdir()
        assert empty.merge(finished.out) == 7
        assert (empty.directory(cell) / "run").is_dir()
        assert not is_done(empty.directory(cell))
    assert empty.merge(finished.out) == 1
    assert not (empty.directory(cell) / "run").exists()


def test_only_results_are_copied(finished: Comparison, empty: Comparison, tmp_path: Path) -> None:
    shutil.copytree(finished.out, tmp_path / "other")
    for directory in (tmp_path / "other" / "cells").iterdir():
        (directory / "run").mkdir()
        (directory / ".cell.json.partial").write_text("{")
    shutil.copytree(next((finished.out / "cells").iterdir()), tmp_path / "other" / "cells" / ".x.partial")
    (empty.out / "cells" / ".y.partial").mkdir()
    assert empty.merge(tmp_path / "other") == 8
    cells = list((empty.out / "cells").iterdir())
    assert len(cells) == 8
    assert {path.name for cell in cells for path in cell.iterdir()} == {"cell.json", "ranks.parquet"}


def test_two_at_once(finished: Comparison, empty: Comparison) -> None:
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(empty.merge, [finished.out] * 4))
    assert sum(taken) == 8
    assert run(empty)[1] == DONE


def test_what_is_no_comparison_is_refused(finished: Comparison, empty: Comparison, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no data\.json, so this is no comparison"):
        empty.merge(tmp_path / "nowhere")
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(finished.out / "data.json", other)
    with pytest.raises(DataError, match="no cells, so this is no comparison, or not all of it was copied"):
        empty.merge(other)
    (other / "cells").mkdir()
    (other / "data.json").write_text('{"dataset": ')
    with pytest.raises(ArtifactError, match=r"other/data\.json: damaged .*; restore it, or copy it again"):
        empty.merge(other)
    (other / "data.json").write_text(json.dumps({"dataset": "0" * 64}))
    with pytest.raises(ArtifactError, match=f"on other data .dataset there 0+, here {empty.dataset.fingerprint[:12]}"):
        empty.merge(other)


def test_only_a_comparison_is_taken_over(finished: Comparison, empty: Comparison, tmp_path: Path) -> None:
    other = Path(shutil.copytree(finished.out, tmp_path / "other"))
    prints = json.loads((other / "data.json").read_text())
    for kind in (Kind.sweep, Kind.timing, Kind.transfer):
        (other / "data.json").write_text(json.dumps(prints | {"kind": kind}))
        with pytest.raises(DataError, match=f"{other}: a {kind}, but cells are taken over from a comparison alone"):
            empty.merge(other)
    assert list((empty.out / "cells").iterdir()) == []
    del prints["kind"]  # as of an earlier version
    (other / "data.json").write_text(json.dumps(prints))
    assert empty.merge(other) == 8


def test_other_data_is_refused_with_both_hashes(finished: Comparison, plan: Path, data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(data, other)
    shutil.rmtree(other / "splits" / "random-1")
    random_split(finished.dataset, seed=7).save(other / "splits" / "random-1")
    now = random_split(finished.dataset, seed=7).fingerprint
    with pytest.raises(
        ArtifactError, match=f"random-1 there {finished.splits[1][:12]}, here {now[:12]}.*in another directory"
    ):
        opened(plan, other, finished.out)
    comparison = opened(plan, other, tmp_path / "out")
    with pytest.raises(ArtifactError, match="a comparison on other data"):
        comparison.merge(finished.out)
