"""What became of every row that was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Ledger:
    """One kind of row, accounted for: ``read = kept + merged + dropped``."""

    what: str
    read: int
    kept: int
    merged: Mapping[str, int] = field(default_factory=dict)  # reason -> rows
    dropped: Mapping[str, int] = field(default_factory=dict)  # reason -> rows

    def __post_init__(self) -> None:
        for reasons in ("merged", "dropped"):
            counted = {reason: int(count) for reason, count in getattr(self, reasons).items() if count}
            object.__setattr__(self, reasons, counted)
        if self.read != self.kept + sum(self.merged.values()) + sum(self.dropped.values()):
            raise ValueError(f"{self.what}: rows unaccounted for in {self}")

    def to_json(self) -> dict[str, Any]:
        """Plain data, as it is kept in a dataset's provenance."""
        return {
            "what": self.what,
            "read": int(self.read),
            "kept": int(self.kept),
            "merged": dict(self.merged),
            "dropped": dict(self.dropped),
        }


@dataclass(frozen=True)
class PreparationReport:
    """The ledgers of one preparation, and what else a person should know about it."""

    ledgers: tuple[Ledger, ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data, as it is kept in a dataset's provenance."""
        return {"ledgers": [ledger.to_json() for ledger in self.ledgers], "notes": list(self.notes)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PreparationReport:
        """Read what :meth:`to_json` wrote."""
        return cls(tuple(Ledger(**ledger) for ledger in data["ledgers"]), tuple(data["notes"]))

    def lines(self) -> list[str]:
        """The report as text, a line per ledger and note."""
        return [_line(ledger) for ledger in self.ledgers] + [f"note: {note}" for note in self.notes]


def _line(ledger: Ledger) -> str:
    parts = [f"{ledger.what}: {ledger.read:,} read, {ledger.kept:,} kept"]
    parts += [f"{count:,} merged ({reason})" for reason, count in ledger.merged.items()]
    parts += [f"{count:,} dropped ({reason})" for reason, count in ledger.dropped.items()]
    return ", ".join(parts)
