"""Errors by their class and fields; their wording stands in tests/mistakes/messages.md."""

from __future__ import annotations

import pytest

from mcne.errors import MCNEError


def refused(
    kind: type[MCNEError], *, place: str = "", value: object = None, about: str = ""
) -> pytest.RaisesExc[MCNEError]:
    """A block that raises this error with a remedy: its place ends so, its value is this, its problem mentions this."""

    def check(error: MCNEError) -> bool:
        assert error.place.endswith(place), error.place
        assert value is None or error.value == value, error.value
        assert about in error.problem, error.problem
        return bool(error.remedy)

    return pytest.raises(kind, check=check)
