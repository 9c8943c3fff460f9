"""The directory of a run, held by one training at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mcne.errors import UsageError

SOMETHING_ELSE = "holds something else than a run; choose another --out"


class HeldError(UsageError):
    """A directory that another process holds."""


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Make the run's directory and hold it: two trainings that write the same metrics would spoil both.

    Whatever is looked at in the block is still so when it is written. Directories that stay empty vanish again.
    """
    new = [place for place in (path, *path.parents) if not place.exists()]
    lock = _lock(path)
    try:
        yield
    finally:
        for place in new:
            with suppress(OSError):
                place.rmdir()
        os.close(lock)


def is_held(path: Path) -> bool:
    """Whether a process holds the directory now."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _lock(path: Path) -> int:
    """A descriptor of the directory that holds its lock."""
    while True:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise UsageError(f"{path}: {SOMETHING_ELSE}") from error
        lock = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise HeldError(f"{path}: another process is training there now; wait for it to end") from error
        if path.exists() and os.path.samestat(os.fstat(lock), path.stat()):
            return lock
        os.close(lock)  # its last holder removed it, empty as it was
