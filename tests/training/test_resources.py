"""Where a training runs: a device that every thread understands alike, and the memory that is left to it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.errors import refused

from mcne.errors import UsageError
from mcne.training.resources import _left_in_groups, available_memory, choose_device

MIB = 1 << 20


@pytest.mark.parametrize(("is_open", "number"), [(False, 0), (True, 3)])
def test_a_gpu_has_its_number(is_open: bool, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: is_open)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)  # of this thread; others have their own
    assert choose_device("cuda") == choose_device("auto") == torch.device("cuda", number)
    assert choose_device("cpu") == torch.device("cpu")


def test_without_a_gpu_there_is_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == torch.device("cpu")
    with refused(UsageError, place="device cuda", value="cuda"):
        choose_device("cuda")


def write(group: Path, **files: str) -> None:
    group.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (group / name.replace("__", ".")).write_text(text)


def test_the_limits_of_all_groups_count(tmp_path: Path) -> None:
    root, own = tmp_path / "groups", tmp_path / "own"
    own.write_text("0::/outer/inner\n")
    assert _left_in_groups(7, root, own) == [7]
    stat = f"anon 5\ninactive_file {30 * MIB}\n"
    write(root / "outer", memory__max=f"{100 * MIB}\n", memory__current=f"{60 * MIB}\n", memory__stat=stat)
    write(root / "outer" / "inner", memory__max="max\n", memory__current=f"{60 * MIB}\n", memory__stat=stat)
    assert _left_in_groups(7, root, own) == [7, 70 * MIB]


def test_the_limits_of_older_kernels_count(tmp_path: Path) -> None:
    root, own = tmp_path / "groups", tmp_path / "own"
    own.write_text("5:cpu:/elsewhere\n4:memory:/job\n0::/\n")
    write(
        root / "memory" / "job",
        memory__limit_in_bytes=f"{50 * MIB}\n",
        memory__usage_in_bytes=f"{80 * MIB}\n",
        memory__stat=f"total_inactive_file {10 * MIB}\n",
    )
    assert _left_in_groups(7, root, own) == [7, 0]
    assert _left_in_groups(7, root, tmp_path / "missing") == [7]


def test_there_is_memory_here() -> None:
    assert available_memory() > 50 * MIB
