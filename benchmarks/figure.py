"""One measured figure and what it should reach."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    name: str
    value: float | None  # None where it could not be measured
    unit: str
    at_most: float
    detail: str

    @property
    def is_missed(self) -> bool:
        return self.value is not None and self.value > self.at_most

    def line(self) -> str:
        if self.value is None:
            return f"not run  {self.name}: {self.detail}"
        verdict = "MISSED" if self.is_missed else "reached"
        return f"{verdict:8} {self.name}: {self.value:.3g} {self.unit} (at most {self.at_most:g}); {self.detail}"
