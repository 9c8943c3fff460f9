"""Adam for tables of which a step touches few rows, beside PyTorch's own for everything else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mcne.kernels.rows import adam_rows, take_rows

BETAS = (0.9, 0.999)
EPSILON = 1e-8


@dataclass(frozen=True)
class _Touched:
    table: str
    rows: Tensor  # [n] distinct
    values: Tensor  # [n, d] the leaf that collects the gradient


class RowAdam:
    """Adam whose step costs as much as the rows it touches (reading 17).

    :meth:`rows` hands out the rows of a table as a leaf of the step's computation; :meth:`step` updates those rows and
    their moments and leaves all others as they are. Bias correction counts all steps.

    Tables of one width may be ``joined``: under a name of their own they are one table, a part after the other.
    """

    def __init__(
        self, tables: Mapping[str, Tensor], *, learning_rate: float, joined: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        joined, sizes = joined or {}, {name: len(table) for name, table in tables.items()}
        self.whole = dict(tables)
        for name, parts in joined.items():
            self.whole[name] = torch.cat([self.whole.pop(part) for part in parts])
        self._first = {name: torch.zeros_like(table) for name, table in self.whole.items()}
        self._second = {name: torch.zeros_like(table) for name, table in self.whole.items()}
        self.tables, self.first, self.second = (
            _parts(whole, sizes, joined) for whole in (self.whole, self._first, self._second)
        )
        self.learning_rate = learning_rate
        device = next(iter(self.tables.values())).device
        self._steps = torch.zeros((), dtype=torch.int64, device=device)  # a tensor, so that a captured step can count
        self._touched: list[_Touched] = []

    @property
    def steps(self) -> int:
        """Steps done."""
        return int(self._steps)

    def rows(self, table: str, rows: Tensor) -> Tensor:
        """Distinct rows of a table, [n, d], to compute this step's loss with.

        On a GPU rows below 0 are nobody's: 0, and never updated.
        """
        values = take_rows(self.whole[table], rows).requires_grad_()
        self._touched.append(_Touched(table, rows, values))
        return values

    def touched(self) -> list[Tensor]:
        """The rows handed out since the last step."""
        return [touched.values for touched in self._touched]

    def forget(self) -> None:
        """Drop the rows handed out since the last step: a loss that nobody descended leaves no trace."""
        self._touched.clear()

    @torch.no_grad()
    def step(self) -> None:
        """Update the rows handed out since the last step by their gradients."""
        self._steps += 1
        for touched in self._touched:
            gradient = touched.values.grad
            if gradient is not None and len(gradient):
                name = touched.table
                adam_rows(
                    *(self.whole[name], self._first[name], self._second[name], touched.rows, gradient),
                    steps=self._steps,
                    learning_rate=self.learning_rate,
                    betas=BETAS,
                    epsilon=EPSILON,
                )
        self._touched.clear()

    def memory(self) -> dict[str, Tensor]:
        """Both moments of every table and the count of steps."""
        first = {f"first.{name}": value for name, value in self.first.items()}
        second = {f"second.{name}": value for name, value in self.second.items()}
        return first | second | {"row_steps": self._steps}

    def load_memory(self, memory: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`memory` gave."""
        for name in self.tables:
            self.first[name].copy_(memory[f"first.{name}"])
            self.second[name].copy_(memory[f"second.{name}"])
        self._steps.copy_(memory["row_steps"])

    def load_tables(self, tables: Mapping[str, Tensor]) -> None:
        """Replace the values of all tables."""
        for name, table in self.tables.items():
            table.copy_(tables[name])


def _parts(
    whole: Mapping[str, Tensor], sizes: Mapping[str, int], joined: Mapping[str, Sequence[str]]
) -> dict[str, Tensor]:
    """Every table under its own name: it, or its rows of the one that it is joined into."""
    found = dict(whole)
    for name, parts in joined.items():
        found |= zip(parts, torch.split(found.pop(name), [sizes[part] for part in parts]), strict=True)
    return {name: found[name] for name in sizes}


def adam_memory(adam: torch.optim.Adam) -> dict[str, Tensor]:
    """What PyTorch's Adam remembers, by the position of the parameter."""
    saved = adam.state_dict()["state"]
    return {f"adam.{at}.{name}": value for at, memory in saved.items() for name, value in memory.items()}


def load_adam(adam: torch.optim.Adam, memory: Mapping[str, Tensor]) -> None:
    """Take over what :func:`adam_memory` gave."""
    restored: dict[int, dict[str, Tensor]] = {}
    for name, value in memory.items():
        if name.startswith("adam."):
            _, at, key = name.split(".")
            restored.setdefault(int(at), {})[key] = value.clone()
    adam.load_state_dict(adam.state_dict() | {"state": restored})
