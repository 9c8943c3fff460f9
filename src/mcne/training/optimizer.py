"""Adam for tables of which a step touches few rows, beside PyTorch's own for everything else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from mcne.kernels.rows import adam_rows

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

    With ``spare_row`` every table has one row more, the one after its last, to fill up a step's rows with. It is 0,
    and stays so where no loss depends on it.
    """

    def __init__(self, tables: Mapping[str, Tensor], *, learning_rate: float, spare_row: bool = False) -> None:
        self._whole = {name: _with_spare_row(table) if spare_row else table for name, table in tables.items()}
        self.tables = {n: self._whole[n][: len(table)] if spare_row else table for n, table in tables.items()}
        self.first = {name: torch.zeros_like(table) for name, table in self._whole.items()}
        self.second = {name: torch.zeros_like(table) for name, table in self._whole.items()}
        self.learning_rate = learning_rate
        device = next(iter(self.tables.values())).device
        self._steps = torch.zeros((), dtype=torch.int64, device=device)  # a tensor, so that a captured step can count
        self._touched: list[_Touched] = []

    @property
    def steps(self) -> int:
        """Steps done."""
        return int(self._steps)

    def rows(self, table: str, rows: Tensor) -> Tensor:
        """Distinct rows of a table, [n, d], to compute this step's loss with."""
        values = self._whole[table].index_select(0, rows).requires_grad_()
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
        steps = self._steps.double() if self._steps.is_cuda else self.steps
        scale, rate = (1 - BETAS[1] ** steps) ** 0.5, self.learning_rate / (1 - BETAS[0] ** steps)
        for touched in self._touched:
            gradient = touched.values.grad
            if gradient is not None and len(gradient):
                name = touched.table
                tables = (self._whole[name], self.first[name], self.second[name])
                adam_rows(*tables, touched.rows, gradient, betas=BETAS, scale=scale, rate=rate, epsilon=EPSILON)
        self._touched.clear()

    def memory(self) -> dict[str, Tensor]:
        """Both moments of every table and the count of steps."""
        sizes = {name: len(table) for name, table in self.tables.items()}
        first = {f"first.{name}": value[: sizes[name]] for name, value in self.first.items()}
        second = {f"second.{name}": value[: sizes[name]] for name, value in self.second.items()}
        return first | second | {"row_steps": self._steps}

    def load_memory(self, memory: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`memory` gave."""
        for name, table in self.tables.items():
            self.first[name][: len(table)].copy_(memory[f"first.{name}"])
            self.second[name][: len(table)].copy_(memory[f"second.{name}"])
        self._steps.copy_(memory["row_steps"])

    def load_tables(self, tables: Mapping[str, Tensor]) -> None:
        """Replace the values of all tables."""
        for name, table in self.tables.items():
            table.copy_(tables[name])


def _with_spare_row(table: Tensor) -> Tensor:
    return torch.cat([table, table.new_zeros(1, *table.shape[1:])])


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
