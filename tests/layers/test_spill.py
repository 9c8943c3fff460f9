"""Tables in files are the tables in memory, and leave nothing behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import torch

from mcne.errors import DiskError
from mcne.layers import spill
from mcne.layers.spill import Kept, copied, new_table, room
from mcne.layers.tensors import normal_table
from mcne.randomness import Stream


def test_a_table_in_a_file_is_the_one_in_memory(tmp_path: Path) -> None:
    plain = normal_table(50, 7, std=0.1, stream=Stream(1, "table"))
    with room(tmp_path, tables=True):
        filed = normal_table(50, 7, std=0.1, stream=Stream(1, "table"))
        zeros = new_table(3, 4, dtype=torch.float64, zero=True)
    assert torch.equal(plain, filed)
    assert torch.equal(zeros, torch.zeros(3, 4, dtype=torch.float64))
    for table in (plain, filed):
        table[[1, 40]] *= 2
    assert torch.equal(plain, filed)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
def test_a_table_of_nothing_needs_no_file(shape: tuple[int, int], tmp_path: Path) -> None:
    with room(tmp_path, tables=True):
        assert new_table(*shape).shape == shape


@pytest.mark.parametrize("is_large", [False, True])
def test_what_is_kept_stays_as_it_was(is_large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "LARGE", 16 if is_large else 1 << 40)
    monkeypatch.setattr(spill, "CHUNK", 24)
    given = {
        "table": torch.arange(20.0).view(5, 4),
        "turned": torch.arange(6.0).view(2, 3).T,
        "count": torch.tensor(2**40),
        "empty": torch.zeros(0, 3),
    }
    wanted = {name: value.tolist() for name, value in given.items()}
    with room(tmp_path, tables=False):
        kept, one = Kept(given), copied(given["table"])
    for value in given.values():
        value.zero_()
    for _ in range(2):
        found = kept.tensors()
        assert {name: value.tolist() for name, value in found.items()} == wanted
        assert (list(found), found["table"].dtype) == (list(given), torch.float32)
        if is_large:
            found["table"].zero_()  # of nobody else
    assert one.tolist() == wanted["table"]
    assert not list(tmp_path.iterdir())


def test_without_room_everything_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "LARGE", 0)
    monkeypatch.setattr(spill, "_file", None)
    assert torch.equal(Kept({"t": torch.ones(3)}).tensors()["t"], torch.ones(3))
    assert new_table(2, 2).shape == (2, 2)


def test_a_full_disk_is_an_error_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with room(tmp_path, tables=True), pytest.raises(DiskError, match=r"No space left on device \(4,000 bytes"):
        new_table(100, 10)
