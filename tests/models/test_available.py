"""The memory that is left to this process, by the machine and by control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcne.models import available
from mcne.models.available import _left_in_groups, available_memory, free_memory

MIB = 1 << 20


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
    assert available_memory() > free_memory() > 50 * MIB


def test_the_least_that_any_group_has_left_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(available, "_left_in_groups", lambda machine: [machine, 3 * MIB, 5 * MIB])
    assert free_memory() == 3 * MIB
