"""A synthetic network, and a finished comparison on it that tests read and never change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.small_training import small_network
from tests.studies.small_plan import PLAN, opened, run

from mcne.studies.comparison import Comparison


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("network") / "data"
    small_network().save(path)
    return path


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


@pytest.fixture(scope="session")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    path = tmp_path_factory.mktemp("finished")
    (path / "plan.toml").write_text(PLAN)
    comparison = opened(path / "plan.toml", data, path / "out")
    assert run(comparison)[0] == {}
    return comparison


@pytest.fixture
def copied(finished: Comparison, plan: Path, data: Path, tmp_path: Path) -> Comparison:
    """The finished comparison in a directory of its own."""
    shutil.copytree(finished.out, tmp_path / "out")
    return opened(plan, data, tmp_path / "out")
