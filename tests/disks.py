"""What is on a disk, and a disk that fills up."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path

from mcne import files

WRITE_ALL = files._write_all


def tree(path: Path) -> dict[str, bytes | None]:
    """Everything below ``path``: the bytes of files, None for directories."""
    return {str(p.relative_to(path)): p.read_bytes() if p.is_file() else None for p in sorted(path.rglob("*"))}


def full_at(number: int) -> Callable[[io.FileIO, bytes | memoryview], int]:
    """In place of ``files._write_all``: the disk is full in the middle of the write of this number, from 1 on."""
    written = 0

    def write_all(file: io.FileIO, chunk: bytes | memoryview) -> int:
        nonlocal written
        written += 1
        if written == number:
            file.write(bytes(chunk)[: len(chunk) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return WRITE_ALL(file, chunk)

    return write_all
