"""Tables in files are the tables in memory, and leave nothing behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.errors import refused

from mcne.errors import DiskError
from mcne.models import tables
from mcne.models.tables import Kept, copied, new_table, normal_table, read_in_order, room
from mcne.randomness import Stream


def test_a_table_in_a_file_is_the_one_in_memory(tmp_path: Path) -> None:
    plain = normal_table(50, 7, std=0.1, stream=Stream(1, "table"))
    with room(tmp_path, memory=0):
        filed = normal_table(50, 7, std=0.1, stream=Stream(1, "table"))
        zeros = new_table(3, 4, like=torch.empty(0, dtype=torch.float64), zero=True)
    assert torch.equal(plain, filed)
    assert torch.equal(zeros, torch.zeros(3, 4, dtype=torch.float64))
    for table in (plain, filed):
        table[[1, 40]] *= 2
    assert torch.equal(plain, filed)
    assert not list(tmp_path.iterdir())


def test_the_first_tables_are_in_memory_as_far_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filed: list[int] = []
    real = tables._file

    def noting(directory: Path, size: int) -> Any:
        filed.append(size)
        return real(directory, size)

    monkeypatch.setattr(tables, "_file", noting)
    with room(tmp_path, memory=1000):
        new_table(10, 20)  # 800 bytes
        new_table(10, 6)
        new_table(10, 1, lasts=False)
        new_table(10, 5)  # which are the last 200
        new_table(1, 1)
    assert filed == [240, 40, 4]
    with room(tmp_path, memory=None):
        new_table(10, 20, lasts=False)
    assert len(filed) == 3


def advised() -> list[str]:
    """What the system was told of the mapped files without a name: ``rr`` of random reads, ``sr`` of those in order."""
    flags = False
    advice = []
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0] and ":" not in line.split()[0]:
            flags = line.endswith("(deleted)")
        elif flags and line.startswith("VmFlags:"):
            advice += [flag for flag in line.split() if flag in ("rr", "sr")]
    return advice


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system does not tell what it was advised")
def test_tables_in_files_are_read_in_order_for_a_copy_alone(tmp_path: Path) -> None:
    before = advised()
    with room(tmp_path, memory=0):
        table = new_table(1000, 10)
        assert advised() == [*before, "rr"]
        with read_in_order():
            assert advised() == [*before, "sr"]
        assert advised() == [*before, "rr"]
        assert len(table) == 1000


@pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
def test_a_table_of_nothing_needs_no_file(shape: tuple[int, int], tmp_path: Path) -> None:
    with room(tmp_path, memory=0):
        assert new_table(*shape).shape == shape


@pytest.mark.parametrize("is_large", [False, True])
def test_what_is_kept_stays_as_it_was(is_large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LARGE", 16 if is_large else 1 << 40)
    monkeypatch.setattr(tables, "CHUNK", 24)
    given = {
        "table": torch.arange(20.0).view(5, 4),
        "turned": torch.arange(6.0).view(2, 3).T,
        "count": torch.tensor(2**40),
        "empty": torch.zeros(0, 3),
    }
    wanted = {name: value.tolist() for name, value in given.items()}
    with room(tmp_path, memory=None):
        kept = Kept(given)
        one = copied(given["table"])
    for value in given.values():
        value.zero_()
    for _ in range(2):
        tensors = kept.tensors()
        assert {name: value.tolist() for name, value in tensors.items()} == wanted
        assert (list(tensors), tensors["table"].dtype) == (list(given), torch.float32)
        if is_large:
            tensors["table"].zero_()  # of nobody else
    assert one.tolist() == wanted["table"]
    assert not list(tmp_path.iterdir())


def test_without_room_everything_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LARGE", 0)
    monkeypatch.setattr(tables, "_file", None)
    assert torch.equal(Kept({"t": torch.ones(3)}).tensors()["t"], torch.ones(3))
    assert new_table(2, 2).shape == (2, 2)


def test_a_full_disk_is_an_error_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with room(tmp_path, memory=0), refused(DiskError, about="device"):
        new_table(100, 10)
