"""Errors that a user can act on, and the exit code of each on the command line.

A message names the place, the value, what is allowed and the next step. It is printed without a traceback.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable
from functools import partial
from typing import Any, Self


class MCNEError(Exception):
    """An error that a person can act on.

    The message reads ``place: problem; remedy``. Programs can read its parts as fields: ``place`` is where it happened
    (a file and line, a setting, an option), ``value`` what was given, ``allowed`` what is allowed, ``remedy`` the next
    step. A field that does not apply is empty.
    """

    exit_code = 1

    def __init__(
        self,
        problem: str,
        place: object = "",
        remedy: str = "",
        *,
        value: object = None,
        allowed: Iterable[object] = (),
    ) -> None:
        self.problem = problem
        self.place = str(place)
        self.value = value
        self.allowed = tuple(allowed)
        self.remedy = remedy
        super().__init__(": ".join(filter(None, [self.place, problem])) + (f"; {remedy}" if remedy else ""))

    @classmethod
    def of_path(cls, problem: str, path: object, remedy: str) -> Self:
        """The error about a file or directory that was given: it is place and value."""
        return cls(problem, path, remedy, value=str(path))

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would show it in quotes

    def within(self, place: object) -> Self:
        """The same error, with what contains its place in front of it: ``plan.toml: setting epochs``."""
        inner = f"{place}: {self.place}" if self.place else place
        return type(self)(self.problem, place=inner, value=self.value, allowed=self.allowed, remedy=self.remedy)


class UsageError(MCNEError, ValueError):
    """A wrong option, setting or argument."""

    exit_code = 2

    @classmethod
    def of_method(cls, problem: str, method: str, remedy: str, *, allowed: Iterable[object] = ()) -> Self:
        """The error that a method, or what it has learned, lacks what was asked for."""
        return cls(f"{method!r} {problem}", remedy=remedy, value=method, allowed=allowed)


class UnknownError(UsageError, KeyError):
    """An unknown name: of a method, setting, behavior, user or item."""

    @classmethod
    def of(cls, what: str, value: object, allowed: Iterable[object], *, place: object = "", remedy: str = "") -> Self:
        """The error that offers the nearest of the ``allowed`` names; ``remedy`` is what else one can do."""
        names = list(allowed)
        step = ", ".join(filter(None, [suggestion(value, names), remedy]))
        return cls(f"unknown {what} {str(value)!r}", place=place, value=value, allowed=names, remedy=step)


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
    """A write that the disk refused."""

    exit_code = 6


class CaptureError(MCNEError):
    """A step of a training that the GPU cannot record."""

    exit_code = 7


MOST_LISTED = 30


def warn_deprecated(old: str, new: str, *, stacklevel: int = 3) -> None:
    """Tell the caller of the caller what to write instead of what the next release no longer has."""
    warnings.warn(f"{old} will be removed in the next release; {new}", DeprecationWarning, stacklevel=stacklevel)


def unknown(what: str, value: object, allowed: Iterable[object]) -> str:
    """What :class:`UnknownError` says; programs of the previous release use this."""
    warn_deprecated("mcne.errors.unknown", "use str(mcne.errors.UnknownError.of(…))")
    return str(UnknownError.of(what, value, allowed))


def suggestion(value: object, allowed: Iterable[object]) -> str:
    """The nearest of the ``allowed`` names, then all of them: ``did you mean 'green'? Choose one of green, red``."""
    names = [str(name) for name in allowed]
    near = nearest(value, names)
    more = f", … {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    choice = f"choose one of {', '.join(names[:MOST_LISTED])}{more}"
    return f"did you mean {near!r}? Otherwise, {choice}" if near else choice


def nearest(value: object, names: Iterable[str]) -> str | None:
    """The name that was probably meant, if any is near."""
    wanted = str(value).casefold()
    folded = {name.casefold(): name for name in names}
    # A name that it abbreviates (``lr``), the most similar one, or of two letters one that shares a letter.
    short_for = [name for name in folded if "_" in name and "".join(word[:1] for word in name.split("_")) == wanted]
    alike = difflib.get_close_matches(wanted, folded, n=1)
    short = [name for name in folded if len(name) == len(wanted) == 2 and set(name) & set(wanted)]
    return next((folded[name] for name in (*short_for, *alike, *short)), None)


class Interrupted(MCNEError):  # noqa: N818 - nothing went wrong
    """A training stopped by a signal, after it saved a checkpoint to continue from."""

    def __init__(self, problem: str, *, place: object = "", remedy: str = "", signal_number: int) -> None:
        super().__init__(problem, place=place, remedy=remedy)
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the keyword arguments too, for other processes."""
        make = partial(Interrupted, place=self.place, remedy=self.remedy, signal_number=self.signal_number)
        return make, (self.problem,)
