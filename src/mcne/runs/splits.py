"""The splits that are kept with a dataset, by name."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from mcne import storage
from mcne.data.dataset import SocialDataset
from mcne.data.split import DIRECTORY, Split, random_split, split_names
from mcne.errors import UsageError, unknown


def split_of(data: Path, dataset: SocialDataset, name: str) -> Split:
    """A split kept with a dataset; ``random-N`` is made with seed N where it is not there yet."""
    kept, names = data / DIRECTORY, split_names(data)
    kind, _, number = name.rpartition("-")
    if name not in names:
        if kind != "random" or not number.isdecimal():
            known = unknown("split", name, [*names, "random-N"])
            raise UsageError(f"{known}; make others with: mcne data split {data} --name NAME …")
        _make_split(dataset, int(number), data, name)
    return Split.load(kept / name, dataset)


def _make_split(dataset: SocialDataset, seed: int, data: Path, name: str) -> None:
    """Make a random split, unless another process that needs it too is faster."""
    made = random_split(dataset, seed=seed)
    while name not in split_names(data):
        with suppress(storage.BeingWrittenError, storage.AppearedError):
            made.save(data / DIRECTORY / name)
            return
        time.sleep(0.1)
