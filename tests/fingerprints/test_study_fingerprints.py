"""Studies, figures and pages give what they gave when ``studies.json`` was recorded.

On a machine of the kind that recorded it (the same model of CPU and versions of libraries) arrays, words, whole numbers
and texts are exactly the same, and numbers of JSON within a relative 1e-12. On others, as CPUs of another kind round
differently, which every step amplifies, arrays are within 1e-2 and numbers of JSON within 0.2, as seen from the length
of the vector that they make up; whole numbers there are only counted, and of texts the words are compared.
``python -m tests.fingerprints.record`` records anew what is meant to change.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fingerprints.fingerprinting import (
    ON_THE_SAME_KIND,
    RELATIVE,
    differences,
    machine_kind,
    one_thread,
    read_kept,
)
from tests.fingerprints.study_prints import KEPT, STUDIES, make_ground

RECORDED = read_kept(KEPT)
SAME_KIND = RECORDED["machine"] == machine_kind()


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with one_thread():
        return make_ground(tmp_path_factory.mktemp("studies") / "ground")


def test_every_study_is_recorded() -> None:
    assert {*RECORDED} - {"machine"} == {*STUDIES}


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_gives_what_it_gave(name: str, ground: Path, tmp_path: Path) -> None:
    with one_thread():
        prints = STUDIES[name](ground, tmp_path / "out")
    near = ON_THE_SAME_KIND if SAME_KIND else RELATIVE
    assert differences(prints, RECORDED[name], same_kind=SAME_KIND, near=near) == []
