"""Plans of studies are TOML files; dataclasses declare what their tables may contain."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

from mcne.errors import UnknownError, UsageError
from mcne.models.settings import Count, Range, convert, read_toml

Item = TypeVar("Item")
Declared = TypeVar("Declared")


def is_distinct(values: Sequence[object]) -> bool:
    """Whether there are values, all of them different."""
    return len(set(values)) == len(values) > 0


Values = Annotated[Sequence[Item], Range("a list with one value at least", bool)]
Names = Annotated[Sequence[Item], Range("a list of one name at least, every name once,", is_distinct)]
Pair = Annotated[Sequence[float], Range("a list of two numbers", lambda pair: len(pair) == 2)]
"""Recall@5 and NDCG@5 in percent."""


@dataclass(frozen=True)
class MethodTable:
    """A method with its settings."""

    method: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RowTable(MethodTable):
    """A row of a study; of ``search``, every combination is a candidate."""

    search: Mapping[str, Values[Any]] = field(default_factory=dict)

    def grid(self, training: Mapping[str, Any], **more: Any) -> list[dict[str, Any]]:
        """The settings of all rows, its own and ``more``, in every combination with the searched ones."""
        combinations = itertools.product(*self.search.values())
        own = {**training, **self.settings, **more}
        return [own | dict(zip(self.search, values, strict=True)) for values in combinations]


@dataclass(frozen=True)
class PlanFile:
    """What every plan with a search may contain."""

    title: str
    command: str
    repetitions: Count = 10
    search: Count = 12  # candidates of a row at most
    reference: str = ""  # the row that others are tested against
    training: Mapping[str, Any] = field(default_factory=dict)  # settings of all rows
    expected: Mapping[str, Pair] = field(default_factory=dict)  # row -> what an earlier run found

    def check_rows(self, key: str, rows: Mapping[str, object], **names_by_key: Iterable[str]) -> None:
        """Refuse a plan without rows, and names of rows that it does not have."""
        if not rows:
            what = "methods" if key == "methods" else "rows"
            raise UsageError(f"no {what} in the plan", remedy=f"add a table such as [{key}.{self.reference}]")
        if self.reference not in rows:
            default = " (the default)" if self.reference == type(self).reference else ""
            raise UnknownError(
                f"the reference row {self.reference!r}{default} is not in the plan",
                remedy=f'add reference = "{next(iter(rows))}"',
                value=self.reference,
                allowed=rows,
            )
        for what, names in {"expected": self.expected, **names_by_key}.items():
            check_names(f"row of {what}", names, rows)

    def check_candidates(
        self, place: str, candidates: Sequence[Item], identity: Callable[[Item], object], what: str = "row"
    ) -> None:
        """Refuse too many candidates, a wrong method or setting, and the same candidate twice, before any training."""
        with located(place):
            if len(candidates) > self.search:
                raise UsageError(
                    f"{len(candidates)} candidates exceed the budget of {self.search} for every {what}",
                    value=len(candidates),
                    allowed=[self.search],
                    remedy=f"search fewer settings, or raise search for every {what}",
                )
            identities = [identity(candidate) for candidate in candidates]
        if any(each in identities[:at] for at, each in enumerate(identities)):
            raise UsageError("the same value is given twice", f"{place}.search", "name each value once")


def check_names(what: str, names: Iterable[str], allowed: Iterable[str], *, place: object = "") -> None:
    """Refuse the first name that is not allowed."""
    for name in names:
        if name not in allowed:
            raise UnknownError.of(what, name, allowed, place=place)


@contextmanager
def located(place: object) -> Iterator[None]:
    """Errors in the block say what contains their place."""
    try:
        yield
    except UsageError as error:
        raise error.within(place) from error


@contextmanager
def plan_of(path: Path, kind: type[Declared], command: str) -> Iterator[Declared]:
    """The plan in a file; errors of the block, which checks the rest, name the file.

    Keys that the file does not have come from the file beside it that it ``extends``, if any.
    """
    values = read_toml(path)
    with located(path):
        if "extends" in values:
            base = path.parent / convert("extends", values.pop("extends"), str)
            inherited = read_toml(base)
            if "extends" in inherited:
                raise UsageError(
                    f"{base.name} itself extends another plan", "extends", "extend that plan", value=base.name
                )
            values = inherited | values
        yield convert("", {"title": path.stem, "command": f"{command} {path}", **values}, kind)
