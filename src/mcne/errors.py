"""What a user can do wrong, and the exit code each mistake has on the command line.

A message says what was wrong, the value, what is allowed and the next step; it is printed without a traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import partial
from typing import Any, Self


class MCNEError(Exception):
    """A mistake or a circumstance that a person can act on.

    The message reads ``place: problem; remedy``. Programs read its parts as fields: ``place`` is where it happened (a
    file and line, a setting, an option), ``value`` what was given, ``allowed`` what is, ``remedy`` the next step. A
    field that does not apply is empty.
    """

    exit_code = 1

    def __init__(
        self,
        problem: str,
        *,
        place: object = "",
        value: object = None,
        allowed: Iterable[object] = (),
        remedy: str = "",
    ) -> None:
        self.place = str(place)
        self.value = value
        self.allowed = tuple(allowed)
        self.remedy = remedy
        message = f"{self.place}: {problem}" if self.place else problem
        super().__init__(f"{message}; {remedy}" if remedy else message)

    def __str__(self) -> str:
        return str(self.args[0])  # of a KeyError Python would show the quoted text


class UsageError(MCNEError, ValueError):
    """A wrong option, setting or argument."""

    exit_code = 2


class UnknownError(UsageError, KeyError):
    """A name that is not known: a method, setting, behavior, user or item."""

    @classmethod
    def of(cls, what: str, value: object, allowed: Iterable[object], *, place: object = "") -> Self:
        """The error that offers the nearest of the ``allowed`` names."""
        names = list(allowed)
        return cls(unknown(what, value, names), place=place, value=value, allowed=names)


class UnavailableError(UsageError, AttributeError):
    """What a model cannot give: it is not trained yet, or its method has no vectors."""


class UnknownArgumentError(UnknownError, TypeError):
    """A keyword argument that a class does not have."""


class DivergedError(MCNEError):
    """A training whose loss is no longer a number."""

    exit_code = 3


class DataError(MCNEError, ValueError):
    """Input data that cannot be used as it is."""

    exit_code = 4


class MissingError(DataError, FileNotFoundError):
    """A file or directory that does not exist."""


class ArtifactError(MCNEError):
    """A saved artifact that is corrupt, or written in another format."""

    exit_code = 5


class DiskError(MCNEError):
    """A disk that refused a write."""

    exit_code = 6


class CaptureError(MCNEError):
    """A step of a training that the GPU cannot record."""

    exit_code = 7


def unknown(what: str, value: object, allowed: Iterable[object]) -> str:
    """Say that ``value`` is not among ``allowed`` and offer the nearest: ``unknown color 'gren'; did you …``."""
    names = [str(name) for name in allowed]
    wanted = str(value).casefold()
    folded = {name.casefold(): name for name in names}
    # The name that it is short for (``lr``), the one most like it, or of two letters one that shares a letter.
    short_for = [name for name in folded if "_" in name and "".join(word[:1] for word in name.split("_")) == wanted]
    alike = difflib.get_close_matches(wanted, folded, n=1)
    short = [name for name in folded if len(name) == len(wanted) == 2 and set(name) & set(wanted)]
    near = [*short_for, *alike, *short]
    hint = f"; did you mean {folded[near[0]]!r}?" if near else ""
    listed = ", ".join(names[:30]) + (f", … {len(names) - 30} more" if len(names) > 30 else "")
    return f"unknown {what} {str(value)!r}{hint} ({listed})"


class Interrupted(MCNEError):  # noqa: N818 - nothing went wrong
    """A training stopped by a signal, with a checkpoint to go on from."""

    def __init__(self, message: str, *, signal_number: int) -> None:
        super().__init__(message)
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number

    def __reduce__(self) -> tuple[Any, ...]:
        """So that it can pass from one process to another, which makes it anew from positional arguments alone."""
        return partial(Interrupted, signal_number=self.signal_number), self.args
