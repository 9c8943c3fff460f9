"""The memory that this process may still take: of the machine, and of every control group that it is in."""

from __future__ import annotations

import os
from pathlib import Path


def available_memory() -> int:
    """What this process has and may still take."""
    return free_memory() + kernel_sizes("/proc/self/status").get("RssAnon", 0)


def free_memory() -> int:
    """What this process may still take; all memory of the machine where the system does not say."""
    machine = kernel_sizes("/proc/meminfo").get("MemAvailable")
    if machine is None:  # no Linux
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(_left_in_groups(machine))


def kernel_sizes(path: str) -> dict[str, int]:
    """The sizes in one of the kernel's tables, such as ``/proc/meminfo``, in bytes; none where it has no such table."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    pairs = (line.split(":", 1) for line in lines if line.endswith(" kB"))
    return {name: int(size.split()[0]) << 10 for name, size in pairs}


def _left_in_groups(most: int, root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> list[int]:
    """What is left to every control group of this process that has a limit; caches count as free."""
    left = [most]
    for line in own.read_text(encoding="utf-8").splitlines() if own.exists() else []:
        _, controllers, place = line.split(":", 2)
        if controllers == "":
            base, names = root, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            base = root / "memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = base / place.lstrip("/")
        for where in (group, *group.parents):
            if where.is_relative_to(base):
                left += _left_in(where, *names)
    return left


def _left_in(group: Path, limit: str, used: str, cache: str) -> list[int]:
    """What one group has left, if it has a limit: files of the limit and the use, and how statistics call caches."""
    try:
        most = (group / limit).read_text().strip()
        taken = int((group / used).read_text())
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return []
    return [max(0, int(most) - taken + int(stat.get(cache, 0)))] if most.isdecimal() else []
