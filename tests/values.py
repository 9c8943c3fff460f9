"""What tests of every folder ask of the values they check."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def not_none(value: T | None) -> T:
    """The value, which must not be None."""
    assert value is not None
    return value


def instances_of(kind: type[T], values: Iterable[object]) -> list[T]:
    """The values, each of which must be of this kind."""
    instances = []
    for value in values:
        assert isinstance(value, kind)
        instances.append(value)
    return instances
