"""Fixtures for every test: the real datasets where there are any, and how PyTorch and the disk behave meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcne.cli.main import ENVIRONMENT

os.environ |= {**ENVIRONMENT, **os.environ}  # as the command line does, and before PyTorch reads it

if not Path("/dev/nvidiactl").exists():
    os.environ["TRITON_INTERPRET"] = "1"  # kernels for GPUs are interpreted without one; read when one is defined

import torch

from mcne.data.dataset import SocialDataset


@pytest.fixture(scope="session")
def raw_data() -> Path:
    """The directory of the real ``ciao/`` and ``epinions/`` files.

    Found through ``MCNE_DATA_DIR``. Where that is not set the tests that need it skip, unless
    ``MCNE_REQUIRE_DATA`` is set: then they fail.
    """
    directory = Path(os.environ.get("MCNE_DATA_DIR", "nowhere"))
    if (directory / "ciao" / "rating.mat").is_file() and (directory / "epinions" / "rating.mat").is_file():
        return directory
    if os.environ.get("MCNE_REQUIRE_DATA"):
        pytest.fail(f"MCNE_REQUIRE_DATA is set, but MCNE_DATA_DIR ({directory}) holds no ciao/ and epinions/ files")
    pytest.skip("needs the Ciao and Epinions files: set MCNE_DATA_DIR to their directory")


@pytest.fixture(scope="session")
def ciao(raw_data: Path) -> SocialDataset:
    from mcne.data.trust import CIAO, prepare

    return prepare(CIAO, raw_data / "ciao", extra_behaviors=["Food & Drink"], timestamps=True)


@pytest.fixture
def double_precision() -> Iterator[None]:
    """PyTorch computes with float64 where nothing else is asked for."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.fixture
def restored_threads() -> Iterator[None]:
    """However many threads PyTorch is told to use, afterwards they are as many as before."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def one_thread(restored_threads: None) -> None:
    """Sums over several threads may differ in the last bit."""
    torch.set_num_threads(1)


@pytest.fixture
def no_flushing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files outlive this process without being flushed to the disk, which takes most of the time of many tests."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
