"""The paper's data, where the raw files are."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from mcne.data.dataset import SocialDataset
from mcne.data.trust import CIAO, prepare
from mcne_bench.figures import NotMeasuredError


def raw_files(name: str) -> Path:
    """The directory of a published dataset."""
    path = Path(os.environ.get("MCNE_DATA_DIR", "nowhere")) / name
    if not path.is_dir():
        raise NotMeasuredError("set MCNE_DATA_DIR to the directory of the raw files")
    return path


@cache
def ciao() -> SocialDataset:
    return prepare(CIAO, raw_files("ciao"))
