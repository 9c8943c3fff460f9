"""Answers as small tables: iterate over them, print them, look at them in a notebook, or take them as a data frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mcne.errors import UsageError
from mcne.files import freeze
from mcne.text import Table, with_name

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

T = TypeVar("T")
Kind = Literal["item", "user"]
ROWS_SHOWN = 50
"""Of a table in a notebook; data frames have all."""


class Frame:
    """Named columns of equal length."""

    def columns(self) -> Mapping[str, Any]:
        """The columns by name: lists or arrays."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        """The rows, as dictionaries unless a class says otherwise."""
        columns = self.columns()
        for row in zip(*columns.values(), strict=True):
            yield dict(zip(columns, row, strict=True))

    def to_arrow(self) -> pa.Table:
        """The columns as an Arrow table."""
        return pa.table(dict(self.columns()))

    def to_pandas(self) -> pd.DataFrame:
        """The columns as a pandas data frame."""
        try:
            import pandas as pd
        except ImportError as error:
            raise UsageError("to_pandas needs pandas", remedy="run pip install pandas, or use to_arrow") from error
        return pd.DataFrame(dict(self.columns()))

    def to_polars(self) -> pl.DataFrame:
        """The columns as a polars data frame."""
        try:
            import polars as pl
        except ImportError as error:
            raise UsageError("to_polars needs polars", remedy="run pip install polars, or use to_arrow") from error
        return pl.DataFrame(dict(self.columns()))

    def __str__(self) -> str:
        return "\n".join(self._table().lines())

    def _repr_html_(self) -> str:
        return str(self._table(most=ROWS_SHOWN).section())

    def _table(self, *, most: int | None = None) -> Table:
        columns = {name: list(values)[:most] for name, values in self.columns().items()}
        rows = [tuple(map(_cell, row)) for row in zip(*columns.values(), strict=True)]
        n_rows = len(next(iter(self.columns().values())))
        note = f"the first {most} of {n_rows:,} rows" if most is not None and n_rows > most else ""
        return Table("", tuple(columns), rows, note=note)


@dataclass(frozen=True, eq=False)
class Ranking(Frame):
    """The answer about one user or item: raw ids and their scores, best first, of equal scores the lower row first.

    Iterates over pairs ``(id, score)``.
    """

    ids: tuple[int | str, ...]
    scores: NDArray[np.float32]  # [ids]
    kind: Kind = "item"
    names: tuple[str, ...] | None = None  # for people, empty where there is none
    id_kind: str = "integer"  # or "text", also where there are none

    def __post_init__(self) -> None:
        freeze(self, "scores")

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[tuple[int | str, float]]:
        return zip(self.ids, self.scores.tolist(), strict=True)

    def columns(self) -> dict[str, Any]:
        """``rank`` from 1, ``item_id`` or ``user_id``, ``name`` where there are names, ``score``."""
        ids = _column(list(self.ids), self.id_kind)
        columns: dict[str, Any] = {"rank": np.arange(1, len(self) + 1), f"{self.kind}_id": ids}
        if self.names is not None:
            columns["name"] = _column(list(self.names), "text")
        return columns | {"score": self.scores}

    def labels(self) -> list[str]:
        """The ids as text, each with its name."""
        return list(map(with_name, self.ids, self.names or [""] * len(self)))


class Rankings(list[Ranking], Frame):
    """The answers about several users or items: a list of :class:`Ranking`, in the order of the question.

    ``like`` is an empty answer, by which the columns are the same if nobody was asked about.
    """

    def __init__(
        self,
        asked: Sequence[int | str],
        rankings: Sequence[Ranking],
        *,
        asked_kind: Kind,
        asked_names: Sequence[str] | None = None,
        asked_id_kind: str,
        like: Ranking,
    ) -> None:
        super().__init__(rankings)
        self.asked = tuple(asked)
        self.asked_names = None if asked_names is None else tuple(asked_names)
        self._asked_kind = asked_kind
        self._asked_id_kind = asked_id_kind
        self._like = like

    def items(self) -> Iterator[tuple[int | str, Ranking]]:
        """Who was asked about, with the answer."""
        return zip(self.asked, self, strict=True)

    def columns(self) -> dict[str, Any]:
        """The columns of every answer below each other, and before them who was asked about."""
        own = f"{self._asked_kind}_id"
        answered = f"{self._like.kind}_id"
        columns: dict[str, Any] = {own: _column(self._repeated(self.asked), self._asked_id_kind)}
        if self.asked_names is not None:
            columns[f"{self._asked_kind}_name"] = _column(self._repeated(self.asked_names), "text")
        ranks = [np.arange(1, len(ranking) + 1) for ranking in self]
        columns["rank"] = np.concatenate(ranks or [np.zeros(0, np.int64)])
        answered = f"similar_{answered}" if answered == own else answered
        columns[answered] = _column([raw for ranking in self for raw in ranking.ids], self._like.id_kind)
        if self._like.names is not None:
            columns["name"] = _column([name for ranking in self for name in ranking.names or ()], "text")
        return columns | {"score": np.concatenate([ranking.scores for ranking in self] or [np.zeros(0, np.float32)])}

    def _repeated(self, asked: Sequence[T]) -> list[T]:
        """What is known of each that was asked about, for every line of its answer."""
        return [value for value, ranking in zip(asked, self, strict=True) for _ in ranking.ids]


def _column(values: list[Any], kind: str) -> Any:
    """Integers or texts, which keep their type where there are none."""
    return values or np.zeros(0, np.int64 if kind == "integer" else np.str_)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
