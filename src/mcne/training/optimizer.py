"""Adam for tables of which a step touches few rows, beside PyTorch's own for everything else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

BETAS = (0.9, 0.999)
EPSILON = 1e-8
NUMBERS_AT_ONCE = 1 << 18
"""On a CPU rows are updated a piece at a time, so that what is between two operations stays in cache."""


@dataclass(frozen=True)
class _Touched:
    table: str
    rows: Tensor  # [n] distinct
    values: Tensor  # [n, d] the leaf that collects the gradient


class RowAdam:
    """Adam whose step costs as much as the rows it touches (reading 17).

    :meth:`rows` hands out the rows of a table as a leaf of the step's computation; :meth:`step` updates those rows and
    their moments and leaves all others as they are. Bias correction counts all steps.
    """

    def __init__(self, tables: Mapping[str, Tensor], *, learning_rate: float) -> None:
        self.tables = dict(tables)
        self.first = {name: torch.zeros_like(table) for name, table in self.tables.items()}
        self.second = {name: torch.zeros_like(table) for name, table in self.tables.items()}
        self.learning_rate = learning_rate
        self.steps = 0
        self._touched: list[_Touched] = []

    def rows(self, table: str, rows: Tensor) -> Tensor:
        """Distinct rows of a table, [n, d], to compute this step's loss with."""
        values = self.tables[table].index_select(0, rows).requires_grad_()
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
        self.steps += 1
        for touched in self._touched:
            gradient = touched.values.grad
            if gradient is not None and len(gradient):
                size = max(1, NUMBERS_AT_ONCE // gradient.shape[1]) if gradient.device.type == "cpu" else len(gradient)
                for rows, values in zip(torch.split(touched.rows, size), torch.split(gradient, size), strict=True):
                    self._update(touched.table, rows, values)
        self._touched.clear()

    def _update(self, name: str, rows: Tensor, gradient: Tensor) -> None:
        first = self.first[name].index_select(0, rows).lerp_(gradient, 1 - BETAS[0])
        second = self.second[name].index_select(0, rows).mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        self.first[name].index_copy_(0, rows, first)
        self.second[name].index_copy_(0, rows, second)
        scale = (1 - BETAS[1] ** self.steps) ** 0.5
        change = first.div_(second.sqrt_().div_(scale).add_(EPSILON))
        self.tables[name].index_add_(0, rows, change, alpha=-self.learning_rate / (1 - BETAS[0] ** self.steps))

    def memory(self) -> dict[str, Tensor]:
        """Both moments of every table and the count of steps."""
        first = {f"first.{name}": value for name, value in self.first.items()}
        second = {f"second.{name}": value for name, value in self.second.items()}
        return first | second | {"row_steps": torch.tensor(self.steps)}

    def load_memory(self, memory: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`memory` gave."""
        for name in self.tables:
            self.first[name].copy_(memory[f"first.{name}"])
            self.second[name].copy_(memory[f"second.{name}"])
        self.steps = int(memory["row_steps"])

    def load_tables(self, tables: Mapping[str, Tensor]) -> None:
        """Replace the values of all tables."""
        for name, table in self.tables.items():
            table.copy_(tables[name])


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
