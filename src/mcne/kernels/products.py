"""Products and sums over many rows whose bytes do not depend on the number of threads, on the CPU in single precision.

MKL gives each thread a part of the longer side of a product. Where too little is left for each, threads take parts of
the sums behind its numbers instead, and the last bits depend on how many. Here such a product gets fewer threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

LEAST = 16
"""Rows or columns of a product for each thread: below 12 columns or 4 rows, MKL has been seen to divide sums."""

FEW = 4
"""Fewer rows or columns go to one thread: there MKL has been seen to add up by what is left for each."""


def product(left: Tensor, right: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``left @ right`` [n, d], without a gradient."""
    with _threads_for(len(left), right.shape[1]):
        return torch.mm(left, right, out=out)


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """``total += left @ right`` [n, d], without a gradient."""
    with _threads_for(*total.shape):
        torch.addmm(total, left, right, out=total)


def products(left: Tensor, right: Tensor) -> Tensor:
    """``left @ right`` [g, n, d] on any device, without a gradient: MKL leaves each of several to one thread."""
    if len(left) == 1 and left.device.type == "cpu":
        return product(left[0], right[0])[None]
    return torch.bmm(left, right)


def sum_rows(rows: Tensor) -> Tensor:
    """``rows.sum(dim=0)``, without a gradient: by one thread, as of few columns PyTorch adds up in another order."""
    with _at_most(1):
        return rows.sum(dim=0)


def weighed(rows: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """``rows @ weights.T + bias`` on any device: of ``rows`` [n, d], ``weights`` [o, d] and ``bias`` [o], [n, o]."""
    if rows.device.type != "cpu":
        return functional.linear(rows, weights, bias)
    product_of_rows: Tensor = _Weighed.apply(rows, weights, bias)  # type: ignore[no-untyped-call] # as PyTorch declares it
    return product_of_rows


def gated(rows: Tensor, gate: Tensor) -> Tensor:
    """``rows * gate`` on any device: of ``rows`` [n, d] and a ``gate`` [d], [n, d]."""
    if rows.device.type != "cpu":
        return rows * gate
    masked: Tensor = _Gated.apply(rows, gate)  # type: ignore[no-untyped-call] # as PyTorch declares it
    return masked


class _Weighed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(rows, weights)
        if bias is None:
            return product(rows, weights.T)
        with _threads_for(len(rows), len(weights)):
            return torch.addmm(bias, rows, weights.T)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (rows, weights), (of_rows, of_weights, of_bias) = ctx.saved_tensors, ctx.needs_input_grad
        return (
            product(gradients[0], weights) if of_rows else None,
            product(gradients[0].T, rows) if of_weights else None,
            sum_rows(gradients[0]) if of_bias else None,
        )


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, gate: Tensor) -> Tensor:
        ctx.save_for_backward(rows, gate)
        return rows * gate

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None]:
        (rows, gate), (of_rows, of_gate) = ctx.saved_tensors, ctx.needs_input_grad
        return gradients[0] * gate if of_rows else None, sum_rows(gradients[0] * rows) if of_gate else None


def _threads_for(rows: int, columns: int) -> AbstractContextManager[None]:
    return _at_most(max(1, max(rows, columns) // LEAST) if min(rows, columns) >= FEW else 1)


@contextmanager
def _at_most(enough: int) -> Iterator[None]:
    """In the block, PyTorch uses at most this many threads, here and in threads that first use it then."""
    threads = torch.get_num_threads()
    if enough >= threads:
        yield
        return
    torch.set_num_threads(enough)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
