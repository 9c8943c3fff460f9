"""Plans of studies are TOML files: what their tables may contain, read and checked."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mcne.errors import UsageError, unknown
from mcne.models.settings import read_toml

PAIR = "bpr = [30.1, 26.8]"

Candidate = TypeVar("Candidate")


@dataclass(frozen=True)
class PlanTable:
    """A table of a TOML file; every wrong value is an error with its key and an example."""

    path: Path
    name: str  # in the file, as in methods.bpr; empty at the top
    values: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path, *keys: str) -> PlanTable:
        """The whole file; what it leaves out is taken from the file beside it that it ``extends``, if any."""
        plan = cls(path, "", read_toml(path))
        plan.has_only("extends", *keys)
        if "extends" not in plan.values:
            return plan
        base = path.parent / plan.text("extends", "other.toml")
        inherited = cls(base, "", read_toml(base))
        if "extends" in inherited.values:
            raise UsageError(f"{path}: {base.name} itself extends another plan; name that one")
        inherited.has_only(*keys)
        return cls(path, "", {**inherited.values, **plan.values})

    def has_only(self, *allowed: str) -> None:
        """Refuse unknown keys."""
        for key in self.values:
            if key not in allowed:
                what = f"key of {self.name}" if self.name else "key"
                raise UsageError(f"{self.path}: {unknown(what, key, allowed)}")

    def text(self, key: str, default: str) -> str:
        """A text."""
        value = self.values.get(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, "a text is needed", f'{key} = "{default}"')
        return value

    def choice(self, key: str, default: str, allowed: Collection[str], what: str) -> str:
        """One of several names."""
        value = self.text(key, default)
        if value not in allowed:
            raise UsageError(f"{self.place}: {unknown(what, value, allowed)}")
        return value

    def count(self, key: str, default: int) -> int:
        """A whole number, 1 or more."""
        value = self.values.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.wrong(key, "a whole number of 1 or more is needed", f"{key} = {default}")
        return value

    def table(self, key: str, example: str) -> PlanTable:
        """A table within this one, empty if it is missing."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, "a table is needed", example)
        return PlanTable(self.path, self._full(key), value)

    def tables(self, example: str) -> dict[str, PlanTable]:
        """All values of this table, which must be tables."""
        return {key: self.table(key, example) for key in self.values}

    def rows(self, key: str, example: str) -> dict[str, PlanTable]:
        """A table for every row of the study, of which there must be one at least."""
        rows = self.table(key, example).tables(example)
        if not rows:
            raise UsageError(f"{self.path}: no {key}; add a table such as {example}")
        return rows

    def reference(self, default: str, rows: Mapping[str, object]) -> str:
        """The row that others are tested against."""
        name = self.text("reference", default)
        if name not in rows:
            example = f'reference = "{next(iter(rows))}"'
            raise UsageError(f"{self.path}, reference: {unknown('row', name, rows)}; name one, as in {example}")
        return name

    def check_rows(self, what: str, names: Iterable[str], rows: Mapping[str, object]) -> None:
        """Refuse names that are no rows."""
        for name in names:
            if name not in rows:
                raise UsageError(f"{self.path}: {unknown(what, name, rows)}")

    def figures(self, key: str, rows: Mapping[str, object], example: str = PAIR) -> dict[str, tuple[float, float]]:
        """A table with a pair of numbers for rows."""
        pairs = self.table(key, f"[{key}]").pairs(example)
        self.check_rows(f"row of {key}", pairs, rows)
        return pairs

    def choices(self, key: str, default: str, allowed: Collection[str]) -> tuple[str, ...]:
        """A list of names, one at least and none twice."""
        value = self.values.get(key, [default])
        if not isinstance(value, list) or not value:
            raise self.wrong(key, "a list with one name at least is needed", f'{key} = ["{default}"]')
        for name in value:
            if name not in allowed:
                raise UsageError(f"{self.place}: {unknown(key.removesuffix('s'), name, allowed)}")
        if len(set(value)) < len(value):
            raise self.wrong(key, "every name once is needed", f'{key} = ["{default}"]')
        return tuple(value)

    def lists(self, example: str) -> dict[str, list[Any]]:
        """All values of this table, which must be lists with one value at least."""
        for key, value in self.values.items():
            if not isinstance(value, list) or not value:
                raise self.wrong(key, "a list with one value at least is needed", example)
        return dict(self.values)

    def pairs(self, example: str) -> dict[str, tuple[float, float]]:
        """All values of this table, which must be pairs of numbers."""
        for key, value in self.values.items():
            if not isinstance(value, list) or [type(each) in (int, float) for each in value] != [True, True]:
                raise self.wrong(key, "a list of two numbers is needed", example)
        return {key: (float(first), float(second)) for key, (first, second) in self.values.items()}

    def grid(self, training: Mapping[str, Any], **more: Any) -> list[dict[str, Any]]:
        """Every combination of the searched settings, with those of all rows, the table's own and ``more``."""
        settings = self.table("settings", "settings = { width = 64 }").values
        searched = self.table("search", f"[{self.name}.search] with l2 = [0.02, 0.1]").lists("l2 = [0.02, 0.1]")
        combinations = itertools.product(*searched.values())
        return [{**training, **settings, **more, **dict(zip(searched, values, strict=True))} for values in combinations]

    def checked(
        self,
        candidates: Sequence[Candidate],
        identity: Callable[[Candidate], object],
        *,
        most: int = 1,
        what: str = "row",
    ) -> tuple[Candidate, ...]:
        """Refuse too many candidates, a wrong method or setting, and the same candidate twice, before any training."""
        if len(candidates) > most:
            raise UsageError(
                f"{self.place}: {len(candidates)} candidates, but every {what} has a budget of {most}; search fewer "
                f"settings, or raise search for all {what}s"
            )
        seen: list[object] = []
        for candidate in candidates:
            try:
                identified = identity(candidate)
            except UsageError as error:
                raise UsageError(f"{self.place}: {error}") from error
            if identified in seen:
                raise UsageError(f"{self.place}.search: a value is there twice; every one is trained once")
            seen.append(identified)
        return tuple(candidates)

    @property
    def place(self) -> str:
        """The file, and the table in it, as messages name them."""
        return f"{self.path}, {self.name}" if self.name else str(self.path)

    def wrong(self, key: str, needed: str, example: str) -> UsageError:
        """What is wrong with a value, and what a right one looks like."""
        return UsageError(f"{self.path}: {self._full(key)} is {self.values.get(key)!r}; {needed}, as in {example}")

    def _full(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key
