"""The messages of mistakes are those that were read and kept; see messages.md."""

from __future__ import annotations

from tests.mistakes.mistakes import COMMANDS, PYTHON
from tests.mistakes.record import PLACE, messages


def test_the_messages_are_those_that_were_read() -> None:
    assert messages() == PLACE.read_text(), "read them, then write them again: python -m tests.mistakes.record"


def test_there_are_many() -> None:
    assert len(COMMANDS) + len(PYTHON) >= 60
