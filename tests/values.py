"""What tests of every folder ask of the values they check."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def not_none(value: T | None) -> T:
    """The value, which must not be None."""
    assert value is not None
    return value
