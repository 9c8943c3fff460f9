"""Errors by their class and fields; their wording stands in tests/mistakes/messages.md."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mcne.errors import MCNEError


@contextmanager
def refused(
    kind: type[MCNEError], *, place: str = "", value: object = None, about: str = ""
) -> Iterator[pytest.ExceptionInfo[MCNEError]]:
    """The block raises this error with a remedy: its place ends so, its value is this, its problem mentions this."""
    with pytest.raises(kind) as raised:
        yield raised
    error = raised.value
    assert error.place.endswith(place)
    assert value is None or error.value == value
    assert about in error.problem
    assert error.remedy
