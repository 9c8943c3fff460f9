"""What readers leave: the columns of tables, before ids become rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mcne.data.behavior import Attribute
from mcne.data.ids import IdColumn
from mcne.errors import DataError, UsageError
from mcne.text import counted

Locate = Callable[[int, str], str]
"""Names the place of a row and column in its source: ``links.csv, line 7, column 'target_id'``."""


def refuse_rows(rows: NDArray[Any], locate: Locate, column: str, problem: str, advice: str) -> None:
    """Refuse the bad ``rows`` of a source, if there are any: name the place of the first and count them."""
    if len(rows):
        raise DataError(f"{problem} ({counted(len(rows), 'row')})", locate(int(rows[0]), column), advice)


def take(column: IdColumn, rows: NDArray[Any]) -> IdColumn:
    """Some rows of an id column."""
    return column[rows] if isinstance(column, np.ndarray) else column.take(rows)


@dataclass(frozen=True)
class RawInteractions:
    """Rows of (user, item, behavior[, time, rating]) as read; ``behavior`` holds keys of ``names``."""

    user: IdColumn
    item: IdColumn
    behavior: NDArray[Any]  # [rows] small non-negative numbers
    names: Mapping[int, str]
    timestamp: NDArray[Any] | None
    rating: NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.behavior)

    def of(self, behaviors: Sequence[int]) -> RawInteractions:
        """The rows of these behaviors alone."""
        wanted = np.zeros(int(max(self.names)) + 1, dtype=bool)
        wanted[list(behaviors)] = True
        rows = np.flatnonzero(wanted[self.behavior])
        return self if len(rows) == len(self) else self.at(rows)

    def at(self, rows: NDArray[Any]) -> RawInteractions:
        """Some of the rows."""
        times = None if self.timestamp is None else self.timestamp[rows]
        rating = None if self.rating is None else self.rating[rows]
        return RawInteractions(
            take(self.user, rows), take(self.item, rows), self.behavior[rows], self.names, times, rating
        )


@dataclass(frozen=True)
class RawLinks:
    """Rows of (source, target[, weight]) as read."""

    source: IdColumn
    target: IdColumn
    weight: NDArray[np.float32] | None
    locate: Locate


@dataclass(frozen=True)
class RawUsers:
    """Rows of (user, attributes…[, name]) as read; an attribute is float64, or int32 rows of its categories."""

    user: IdColumn
    attributes: Mapping[str, Attribute]
    locate: Locate
    names: pa.LargeStringArray | None = None


@dataclass(frozen=True)
class RawItems:
    """Rows of (item, attributes…[, behavior, name]) as read; without behaviors, about all that have the item."""

    item: pa.DictionaryArray  # of text, whatever the ids of the interactions are
    behavior: NDArray[Any] | None  # [rows] keys of ``labels``
    labels: Mapping[int, str]
    attributes: Mapping[str, Attribute]
    locate: Locate
    names: pa.LargeStringArray | None = None

    def __len__(self) -> int:
        return len(self.item)

    def about(self, behavior: str) -> NDArray[np.bool_]:
        """Which rows are about this behavior."""
        if self.behavior is None:
            return np.ones(len(self), dtype=bool)
        codes = [code for code, label in self.labels.items() if label == behavior]
        return np.isin(self.behavior, codes)


@dataclass(frozen=True)
class Raw:
    """What a reader leaves: the columns of its tables, and which of their behaviors were chosen."""

    interactions: RawInteractions
    links: RawLinks
    users: RawUsers | None = None
    behaviors: Sequence[int] = ()  # keys of the interactions' names, in the order of the dataset
    extra_behaviors: Sequence[int] = ()  # additional ones; they do not affect which users are kept
    provenance: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()  # what a person should know of how the tables were read
    items: RawItems | None = None
    known: RawInteractions | None = None  # pairs that are no records; ids are text
    positive_from: float | None = None  # from this rating on a row is a record; below it the pair is known

    def __post_init__(self) -> None:
        if self.positive_from is not None and not 0 < np.float32(self.positive_from) < np.inf:
            problem = f"{self.positive_from:g} is not above 0, as ratings of records must be"
            raise UsageError(problem, "positive_from", "give one, such as 4", value=self.positive_from)
