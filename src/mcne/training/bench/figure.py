"""Figures: what is measured, against what, what it should reach, and what it reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mcne.errors import UsageError, unknown


class Taken(NamedTuple):
    """What a measurement found."""

    value: float
    detail: str  # the numbers behind it


class NotMeasuredError(Exception):
    """A figure cannot be taken here; the message says what is missing."""


@dataclass(frozen=True)
class Figure:
    """One measured figure and what it should reach."""

    name: str
    value: float | None  # None where it could not be measured
    unit: str
    at_most: float | None  # None where nothing is asked of it
    detail: str
    against: str = ""
    key: str = ""  # how it is asked for

    @property
    def is_missed(self) -> bool:
        """Measured, and above what it should be."""
        return self.value is not None and self.at_most is not None and self.value > self.at_most

    @property
    def verdict(self) -> str:
        """In a word."""
        if self.value is None:
            return "not run"
        if self.at_most is None:
            return "measured"
        return "MISSED" if self.is_missed else "reached"

    def line(self) -> str:
        """All of it in a line."""
        what = f"{self.verdict:8} {self.key:16} {self.name}{f' / {self.against}' if self.against else ''}"
        if self.value is None:
            return f"{what}: {self.detail}"
        asked = "" if self.at_most is None else f" (at most {self.at_most:.4g})"
        return f"{what}: {self.value:.3g} {self.unit}{asked}; {self.detail}"


@dataclass(frozen=True)
class Measurement:
    """A figure and how it is taken; ``take`` raises :class:`NotMeasuredError` where it cannot be."""

    key: str
    name: str
    against: str
    at_most: float | None
    take: Callable[[], Taken]
    unit: str = "×"

    def figure(self) -> Figure:
        """Take it."""
        empty = Figure(self.name, None, self.unit, self.at_most, "", self.against, self.key)
        try:
            value, detail = self.take()
        except NotMeasuredError as why:
            return replace(empty, detail=str(why))
        return replace(empty, value=value, detail=detail)


def choose(measurements: Sequence[Measurement], wanted: Sequence[str]) -> list[Measurement]:
    """Those asked for by key or by group (``step`` for all ``step.…``); all where nothing is asked for."""
    names = [{each.key, each.key.split(".")[0]} for each in measurements]
    there = dict.fromkeys([*(each.key.split(".")[0] for each in measurements), *(each.key for each in measurements)])
    for name in wanted:
        if name not in there:
            raise UsageError(unknown("figure", name, list(there)))
    return [each for each, own in zip(measurements, names, strict=True) if not wanted or own & set(wanted)]
