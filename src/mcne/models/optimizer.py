"""Adam for tables with few updated rows per step, and PyTorch's Adam for everything else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mcne.kernels.backend import backend_for, is_gpu
from mcne.kernels.rows import BETAS, EPSILON, take_rows, update_rows
from mcne.models.tables import new_table


class RowAdam:
    """Adam whose step costs as much as the rows it touches (reading 17).

    :meth:`rows` gives the rows of a table as a leaf of the step's computation; :meth:`step` updates those rows and
    their moments and leaves all others unchanged. Bias correction counts all steps.

    Tables of one width may be ``joined``: under a name of their own they are one table, a part after the other.
    """

    def __init__(
        self,
        tables: Mapping[str, Tensor],
        *,
        learning_rate: float,
        joined: Mapping[str, Sequence[str]] | None = None,
        device: torch.device | None = None,
    ) -> None:
        joined = joined or {}
        sizes = {name: len(table) for name, table in tables.items()}
        self.whole = {name: table if device is None else table.to(device) for name, table in tables.items()}
        for name, parts in joined.items():
            self.whole[name] = torch.cat([self.whole.pop(part) for part in parts])
        self._first, self._second = (
            {name: new_table(*table.shape, like=table, zero=True) for name, table in self.whole.items()}
            for _ in ("first", "second")
        )
        self.tables, self.first, self.second = (
            _parts(whole, sizes, joined) for whole in (self.whole, self._first, self._second)
        )
        self.learning_rate = learning_rate
        device = next(iter(self.tables.values())).device
        self.steps = torch.zeros((), dtype=torch.int64, device=device)  # a tensor, so that a captured step can count
        self._touched: list[tuple[str, Tensor, Tensor]] = []  # tables, distinct rows [n], leaves with gradients [n, d]
        self._given_away: set[str] = set()

    def rows(self, table: str, rows: Tensor) -> Tensor:
        """Distinct rows of a table, [n, d], for this step's loss; on a GPU rows below 0 are 0 and never updated."""
        values = take_rows(self.whole[table], rows).requires_grad_()
        self._touched.append((table, rows, values))
        return values

    def given_away(self, table: str) -> Tensor:
        """A table on the host that never changes again: later updates go to a copy.

        At the end of a training, when nothing comes, it costs no memory; elsewhere the caller takes a copy anyway.
        """
        if self.whole[table].device.type == "cpu":
            self._given_away.add(table)
        return self.whole[table]

    def touched(self) -> list[Tensor]:
        """The rows used since the last step."""
        return [values for _, _, values in self._touched]

    def forget(self) -> None:
        """Drop the rows used since the last step: a loss without an update has no effect."""
        self._touched.clear()

    @torch.no_grad()
    def step(self) -> None:
        """Update the rows used since the last step by their gradients."""
        self.steps += 1
        for name, rows, values in self._touched:
            if values.grad is not None and len(values):
                self._take_back(name)
                update_rows(
                    *(self.whole[name], self._first[name], self._second[name], rows, values.grad),
                    steps=self.steps,
                    learning_rate=self.learning_rate,
                )
        self._touched.clear()

    def memory(self) -> dict[str, Tensor]:
        """Both moments of every table and the count of steps."""
        first = {f"first.{name}": value for name, value in self.first.items()}
        second = {f"second.{name}": value for name, value in self.second.items()}
        return first | second | {"row_steps": self.steps}

    def load_memory(self, memory: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`memory` gave."""
        for name in self.tables:
            self.first[name].copy_(memory[f"first.{name}"])
            self.second[name].copy_(memory[f"second.{name}"])
        self.steps.copy_(memory["row_steps"])

    def load_tables(self, tables: Mapping[str, Tensor]) -> None:
        """Replace the values of all tables."""
        for name in self.tables:
            self._take_back(name)
            self.tables[name].copy_(tables[name])

    def _take_back(self, table: str) -> None:
        """Continue with a copy of a table that was given away."""
        if table in self._given_away:
            self._given_away.remove(table)
            own = self.whole[table]
            copy = new_table(*own.shape, like=own).copy_(own)
            self.whole[table] = self.tables[table] = copy


def _parts(
    whole: Mapping[str, Tensor], sizes: Mapping[str, int], joined: Mapping[str, Sequence[str]]
) -> dict[str, Tensor]:
    """Every table under its own name: it, or its rows of the one that it is joined into."""
    tables = dict(whole)
    for name, parts in joined.items():
        tables |= zip(parts, torch.split(tables.pop(name), [sizes[part] for part in parts]), strict=True)
    return {name: tables[name] for name in sizes}


class DenseAdam(torch.optim.Adam):
    """PyTorch's Adam for parameters that all learn in every step. Those that are ``bounded`` are kept in [−1, 1], and
    it is counted how often one of their values turns from one side of 0 to the other; they may learn more slowly, by a
    ``bounded_share`` of the learning rate.

    On a GPU its step is a single launch: PyTorch's gives each parameter few programs, and takes longer.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        learning_rate: float,
        bounded: Iterable[nn.Parameter] | None = None,
        bounded_share: float = 1.0,
    ) -> None:
        own = list(parameters)
        self.counts_turns = bounded is not None
        self._bounded = list(bounded or ())
        device = own[0].device
        is_on_host = device.type == "cpu"
        chosen = {id(parameter) for parameter in self._bounded}
        groups: list[Any] = own
        if bounded_share != 1 and self._bounded:
            free = [each for each in own if id(each) not in chosen]
            groups = [{"params": self._bounded, "lr": bounded_share * learning_rate}]
            groups += [{"params": free}] if free else []
        super().__init__(
            groups, lr=learning_rate, betas=BETAS, eps=EPSILON, capturable=is_gpu(device), fused=is_on_host or None
        )
        self.learning_rate, self.bounded_share = learning_rate, bounded_share
        self._bounded_first = [*self._bounded, *(each for each in own if id(each) not in chosen)]
        pieces = 1
        if backend_for(device) == "triton":
            from mcne.kernels.triton.rows import pieces_of

            pieces = pieces_of(max(each.numel() for each in own))
        self._turned = torch.zeros(len(self._bounded), pieces, dtype=torch.int64, device=device)

    @property
    def turned(self) -> Tensor:
        """How often a bounded value changed its sign, []."""
        return self._turned.sum()

    def load_turned(self, count: Tensor) -> None:
        """Take over a count."""
        self._turned.zero_()
        self._turned[:1, :1] = count  # of all, in the place of one

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override] # a closure is never used
        """Update all parameters by their gradients."""
        learning = [(parameter, parameter.grad) for parameter in self._bounded_first if parameter.grad is not None]
        if not learning or backend_for(self._turned.device) != "triton":
            was_above = [parameter >= 0 for parameter in self._bounded]
            super().step()
            for parameter, before, turned in zip(self._bounded, was_above, self._turned, strict=True):
                parameter.clamp_(-1.0, 1.0)
                turned[0] += ((parameter >= 0) != before).sum()
            return
        from mcne.kernels.triton.rows import adam_all

        memories = [self._memory(parameter) for parameter, _ in learning]
        torch._foreach_add_([memory["step"] for memory in memories], 1)
        updated = [
            (parameter.detach(), memory["exp_avg"], memory["exp_avg_sq"], gradient.contiguous(), memory["step"])
            for (parameter, gradient), memory in zip(learning, memories, strict=True)
        ]
        n_bounded = sum(parameter.grad is not None for parameter in self._bounded)
        at_once = [updated] if self.bounded_share == 1 else [updated[:n_bounded], updated[n_bounded:]]
        for group, share in zip(at_once, (self.bounded_share, 1.0), strict=False):
            if group:
                turned = self._turned[: n_bounded if group is at_once[0] else 0]
                adam_all(group, turned=turned, learning_rate=share * self.learning_rate)

    def _memory(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        """What PyTorch's keeps of a parameter, from its first step on."""
        memory: dict[str, Tensor] = self.state[parameter]
        if not memory:
            memory["step"] = torch.zeros((), device=parameter.device)
            memory["exp_avg"], memory["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        return memory


def adam_memory(adam: torch.optim.Adam) -> dict[str, Tensor]:
    """What Adam remembers, by the position of the parameter, and how often bounded values turned."""
    saved = adam.state_dict()["state"]
    turned = {"flips": adam.turned} if isinstance(adam, DenseAdam) and adam.counts_turns else {}
    return {f"adam.{at}.{name}": value for at, memory in saved.items() for name, value in memory.items()} | turned


def load_adam(adam: torch.optim.Adam, memory: Mapping[str, Tensor]) -> None:
    """Take over what :func:`adam_memory` gave."""
    restored: dict[int, dict[str, Tensor]] = {}
    for name, value in memory.items():
        if name.startswith("adam."):
            _, at, key = name.split(".")
            restored.setdefault(int(at), {})[key] = value.clone()
    adam.load_state_dict(adam.state_dict() | {"state": restored})
    if isinstance(adam, DenseAdam) and adam.counts_turns:
        adam.load_turned(memory["flips"])
