"""Every method of the command line gives what it gave when ``methods.json`` was recorded.

On a machine of the kind that recorded it (the same model of CPU and versions of libraries) the sha256 of every array
and document is the same, and sums are within a relative 1e-5. On others no sha256 is compared: networks and methods
that take no steps are within 1e-5, and as CPUs of another kind round differently, which every step amplifies, trained
arrays within 1e-2 and what follows from how they rank within 0.2, all as seen from the length of the vector that the
numbers make up. ``python -m tests.fingerprints.record`` records anew what is meant to change.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.fingerprints.fingerprinting import differences, machine_kind, mcne, one_thread, read_kept
from tests.fingerprints.method_prints import KEPT, cases, loose, make_network, print_of

RECORDED = read_kept(KEPT)
SAME_KIND = RECORDED["machine"] == machine_kind()


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("networks")
    prints = make_network(path)
    assert differences(prints, RECORDED["network"], same_kind=SAME_KIND, loose=None) == []
    return path / "data"


def test_every_method_is_covered() -> None:
    told = mcne("train", "--help").partition("Options")[0]
    listed = re.search(r"METHOD\s.*?(mcne-plus,.*?)\.", re.sub(r"[│\s]+", " ", told))
    assert listed is not None, told
    names = set(re.split(r", | or ", listed[1].strip()))
    assert names == {method for method, _, _ in cases().values()}
    assert {*RECORDED} - {"machine", "network"} <= {*cases()}


@pytest.mark.parametrize("case", [case for case in cases() if case in RECORDED])
def test_a_method_gives_what_it_gave(case: str, network: Path, tmp_path: Path) -> None:
    with one_thread():
        prints = print_of(case, network, tmp_path / "run")
    assert differences(prints, RECORDED[case], same_kind=SAME_KIND, loose=loose(case)) == []


def test_another_seed_is_noticed(network: Path, tmp_path: Path) -> None:
    with one_thread():
        prints = print_of("bpr", network, tmp_path / "run", seed=8)
    messages = differences(prints, RECORDED["bpr"], same_kind=False)
    assert any(line.startswith("embeddings/vectors > numbers") for line in messages), messages
