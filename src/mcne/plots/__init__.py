"""Figures drawn from saved results, and the files that they are written to, which are checked without matplotlib."""

from __future__ import annotations

from pathlib import Path

from mcne.errors import UsageError
from mcne.files import check_new

SUFFIXES = (".png", ".svg", ".pdf")


def check_place(path: Path) -> None:
    """Refuse a file that no figure can be written to; before a long computation."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"{path.suffix!r} is not a figure format",
            path,
            "use .png, .svg or .pdf",
            value=path.suffix,
            allowed=SUFFIXES,
        )
    check_new(path)
