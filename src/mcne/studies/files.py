"""The small files of a comparison: whole or not there, and written by one process at a time."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mcne.errors import ArtifactError
from mcne.training.journal import overwrite


@contextmanager
def taking_turns(directory: Path) -> Iterator[None]:
    """Hold a directory for a moment; whoever else wants to waits, so files can be read, changed and written."""
    lock = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def read_json(path: Path, *, step: str) -> dict[str, Any]:
    """An object kept in a file; ``step`` is what to do where it is damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError(f"{type(found).__name__} where an object is expected")
    except ValueError as error:
        raise ArtifactError(f"{path}: damaged ({error}); {step}") from error
    return found


def write_json(path: Path, value: Any) -> None:
    """Keep plain data in a file."""
    overwrite(path, json.dumps(value, indent=1, allow_nan=False).encode() + b"\n")


def read_parquet(path: Path, *, step: str) -> pa.Table:
    """A table kept in a file."""
    try:
        return pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise ArtifactError(f"{path}: missing or damaged ({error}); {step}") from error


def write_parquet(path: Path, table: pa.Table) -> None:
    """Keep a table in a file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    overwrite(path, sink.getvalue().to_pybytes())
