"""What version 0.1 wrote is read as it was then, and what it had begun goes on.

What is read has the numbers of then, to a relative 1e-5. On a machine of the kind that wrote the files all is the same,
and a run that goes on ends with the bytes of one that was never interrupted; on others what is trained now is as near
as in ``test_study_fingerprints.py``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fingerprints.fingerprinting import (
    ON_THE_SAME_KIND,
    RELATIVE,
    Print,
    differences,
    machine_kind,
    of_arrays,
    of_json,
    one_thread,
    read_kept,
)
from tests.fingerprints.old_files import FOLDER, KEPT, compare, copied, read_back, resume

RECORDED = read_kept(KEPT)
SAME_KIND = RECORDED.pop("machine") == machine_kind()
NEAR = ON_THE_SAME_KIND if SAME_KIND else RELATIVE


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return copied(tmp_path / "place")


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_everything_is_read_as_before(place: Path, tmp_path: Path) -> None:
    before = contents(place)
    with one_thread():
        prints = read_back(place, tmp_path / "out")
    assert differences(prints, RECORDED, same_kind=SAME_KIND, near=NEAR, loose=None) == []
    assert contents(place) == before


def trained(run: Path) -> Print:
    arrays = {file.stem: np.load(file, allow_pickle=False) for file in (run / "embeddings").glob("*.npy")}
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    documents = {"metrics": lines, "result": json.loads((run / "result.json").read_text())}
    return of_arrays(arrays) | {"documents": of_json(documents, floats_exact=True)}


def test_an_interrupted_run_goes_on(place: Path) -> None:
    assert not (place / "interrupted" / "result.json").exists()
    with one_thread():
        told = resume(place)
    assert "resumed after step" in told
    resumed, whole = place / "interrupted", FOLDER / "run"
    assert differences(trained(resumed), trained(whole), same_kind=SAME_KIND) == []
    if SAME_KIND:
        for name in ("metrics.jsonl", "result.json", *(f"embeddings/{n}" for n in contents(whole / "embeddings"))):
            assert (resumed / name).read_bytes() == (whole / name).read_bytes(), name


def test_a_finished_run_stays_finished(place: Path) -> None:
    before = contents(place / "run" / "embeddings")
    assert "finished already" in resume(place, "run").replace("\n", "")
    assert contents(place / "run" / "embeddings") == before


def cells(path: Path) -> set[str]:
    return {file.parent.name for file in path.glob("cells/*/cell.json")}


def results(path: Path) -> dict[str, Any]:
    return {file.parent.name: json.loads(file.read_text()) for file in path.glob("cells/*/cell.json")}


@pytest.mark.parametrize("name", ["finished", "unfinished"])
def test_a_comparison_goes_on(name: str, place: Path) -> None:
    whole = FOLDER / "finished"
    before = cells(place / name)
    assert (before == cells(whole)) == (name == "finished")
    kept = {cell: (place / name / "cells" / cell / "cell.json").read_bytes() for cell in before}
    with one_thread():
        compare(place, name)
    assert cells(place / name) == cells(whole)
    for cell, content in kept.items():
        assert (place / name / "cells" / cell / "cell.json").read_bytes() == content, "trained again"
    for ours, theirs in (
        (results(place / name), results(whole)),
        *((json.loads((each / "table.json").read_text()) for each in (place / name, whole)),),
    ):
        prints = (of_json(each, floats_exact=False) for each in (ours, theirs))
        assert differences(*prints, same_kind=SAME_KIND, near=NEAR) == []
    if SAME_KIND:
        told = (whole / "table.md").read_text().replace("52 links", "26 links")  # then each counted from both ends
        assert (place / name / "table.md").read_text() == told
