"""Small trained runs on two networks, one of which has names that try to be markup; read, never changed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.report.report_runs import EVIL, PLAN, SCRIPT, trained
from tests.small_training import small_network

from mcne.data.dataset import SocialDataset
from mcne.randomness import Stream
from mcne.studies.comparison import Comparison, Plan
from mcne.studies.comparison_tables import summarize, write


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``runs/`` beside ``network/``."""
    dataset = small_network(items_per_behavior=150)
    return trained(tmp_path_factory.mktemp("plain"), dataset)


@pytest.fixture(scope="session")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, of a dataset whose behaviors, users and items are called as in :data:`EVIL`."""
    stream = Stream(0, "evil")
    n = 900
    user, item = stream.integers(60, n).tolist(), stream.integers(130, n).tolist()
    interactions = pa.table(
        {
            "user_id": [f"{SCRIPT}{row:02}" for row in user],
            "item_id": [f"{EVIL[1]}{row}" for row in item],
            "behavior": [EVIL[k % 3] for k in range(n)],
        }
    )
    ends = [[f"{SCRIPT}{row:02}" for row in stream.integers(60, 200).tolist()] for _ in range(2)]
    links = pa.table({"source_id": ends[0], "target_id": ends[1]})
    return trained(
        tmp_path_factory.mktemp("evil"), SocialDataset.from_frames(interactions, links, name=f"{SCRIPT} & co")
    )


@pytest.fixture(scope="session")
def compared(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a finished comparison on the plain network."""
    path = tmp_path_factory.mktemp("compared")
    (path / "plan.toml").write_text(PLAN)
    comparison = Comparison.open(Plan.read(path / "plan.toml"), plain.parent / "network", path / "out")
    assert comparison.run(jobs=1, device="cpu", say=lambda _line: None) == {}
    write(summarize(comparison), comparison.out)
    return comparison.out
