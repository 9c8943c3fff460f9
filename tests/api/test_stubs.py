"""What type checkers read of the package is what the registry says."""

from __future__ import annotations

from tests.api.stubs import PLACE, stubs


def test_the_stubs_are_those_of_the_registry() -> None:
    assert PLACE.read_text() == stubs(), "write them again: python -m tests.api.stubs"
