"""A plan is written by hand: what each of its tables must hold, asked for and checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcne.errors import UsageError, unknown


@dataclass(frozen=True)
class Given:
    """A table of a TOML file; every wrong value is an error with its key and an example."""

    path: Path
    name: str  # in the file, as in methods.bpr; empty at the top
    values: Mapping[str, Any]

    def has_only(self, *allowed: str) -> None:
        """Refuse keys that mean nothing."""
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

    def count(self, key: str, default: int) -> int:
        """A whole number, 1 or more."""
        value = self.values.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.wrong(key, "a whole number of 1 or more is needed", f"{key} = {default}")
        return value

    def table(self, key: str, example: str) -> Given:
        """A table within, empty where there is none."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, "a table is needed", example)
        return Given(self.path, self._full(key), value)

    def tables(self, example: str) -> dict[str, Given]:
        """Everything in it, which must be tables."""
        return {key: self.table(key, example) for key in self.values}

    def choices(self, key: str, default: str, allowed: Collection[str]) -> tuple[str, ...]:
        """A list of names, one at least and none twice."""
        value = self.values.get(key, [default])
        if not isinstance(value, list) or not value:
            raise self.wrong(key, "a list with one name at least is needed", f'{key} = ["{default}"]')
        for name in value:
            if name not in allowed:
                place = f"{self.path}, {self.name}" if self.name else str(self.path)
                raise UsageError(f"{place}: {unknown(key.removesuffix('s'), name, allowed)}")
        if len(set(value)) < len(value):
            raise self.wrong(key, "every name once is needed", f'{key} = ["{default}"]')
        return tuple(value)

    def lists(self, example: str) -> dict[str, list[Any]]:
        """Everything in it, which must be lists with one value at least."""
        for key, value in self.values.items():
            if not isinstance(value, list) or not value:
                raise self.wrong(key, "a list with one value at least is needed", example)
        return dict(self.values)

    def pairs(self, example: str) -> dict[str, tuple[float, float]]:
        """Everything in it, which must be pairs of numbers."""
        for key, value in self.values.items():
            if not isinstance(value, list) or [type(each) in (int, float) for each in value] != [True, True]:
                raise self.wrong(key, "a list of two numbers is needed", example)
        return {key: (float(first), float(second)) for key, (first, second) in self.values.items()}

    def wrong(self, key: str, needed: str, example: str) -> UsageError:
        """What is wrong with a value, and how it could be."""
        return UsageError(f"{self.path}: {self._full(key)} is {self.values.get(key)!r}; {needed}, as in {example}")

    def _full(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key
