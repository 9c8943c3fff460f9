"""Triples ranked by inner products: BPR (Eq. 7) and the L2 of what is scored (reading 8), by the fastest backend."""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mcne.kernels.backend import compiled, side_by_side

PARTS = 2
"""Of the triples, each with gradients of its own for a thread to add to. Their number decides the order of sums."""


def rank(
    users: Tensor, items: Tensor, bias: Tensor | None, *, user: Tensor, positive: Tensor, negative: Tensor
) -> tuple[Tensor, Tensor]:
    """The mean of ``−ln σ(s_p − s_n)`` over all triples, and the mean over triples of
    ``‖u‖² + ‖z_p‖² + mean ‖z_n‖²``, bias included; 0 of none.

    ``users`` [n, d], ``items`` [m, d] and ``bias`` [m, 1] are what is scored, ``⟨u, z⟩ + b``; ``user`` [b],
    ``positive`` [b] and ``negative`` [b, N] are their rows.
    """
    if users.device.type == "cpu" and (module := compiled("triples_numba")) is not None:
        no_bias = items.new_zeros(0, 1) if bias is None else bias
        both: Tensor = _Compiled.apply(users, items, no_bias, user, positive, negative, module)  # type: ignore[no-untyped-call] # as PyTorch declares it
        return both[0], both[1]
    return plain(users, items, bias, user=user, positive=positive, negative=negative)


def plain(
    users: Tensor, items: Tensor, bias: Tensor | None, *, user: Tensor, positive: Tensor, negative: Tensor
) -> tuple[Tensor, Tensor]:
    """The same in operations of PyTorch, on any device."""
    rows = negative.flatten()
    own, liked = users.index_select(0, user), items.index_select(0, positive)  # [b, d]
    others = items.index_select(0, rows).view(*negative.shape, items.shape[1])  # [b, N, d]
    above, below = (own * liked).sum(-1), torch.bmm(others, own[:, :, None])[:, :, 0]
    squares = own.square().sum(-1) + liked.square().sum(-1) + others.square().sum(-1).mean(-1)  # [b]
    if bias is not None:
        its, theirs = bias.index_select(0, positive)[:, 0], bias.index_select(0, rows)[:, 0].view_as(negative)
        above, below = above + its, below + theirs
        squares = squares + its.square() + theirs.square().mean(-1)
    ranking = functional.softplus(below - above[:, None]).sum() / max(1, negative.numel())
    return ranking, squares.sum() / max(1, len(squares))


class _Compiled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        users: Tensor,
        items: Tensor,
        bias: Tensor,
        user: Tensor,
        positive: Tensor,
        negative: Tensor,
        module: ModuleType,
    ) -> Tensor:
        vectors = [each.detach().contiguous().numpy() for each in (users, items)]
        numbers = bias.detach().reshape(-1).numpy()  # [m], or none
        rows = [each.contiguous().numpy() for each in (user, positive, negative)]
        bounds = [len(user) * at // PARTS for at in range(PARTS + 1)]
        given = (*vectors, numbers)
        made = [
            [*map(np.zeros_like, given), *(np.zeros(len(each), each.dtype) for each in vectors)] for _ in range(PARTS)
        ]
        losses = [0.0] * PARTS

        def work(part: int) -> None:
            losses[part] = module.rank(*given, *rows, *made[part], bounds[part], bounds[part + 1])

        side_by_side([partial(work, part) for part in range(PARTS)])
        total, *others = made
        for other in others:
            for sum_, each in zip(total, other, strict=True):
                sum_ += each
        of_users, of_items, of_numbers, *shares = total
        ctx.module, ctx.tables = module, [*vectors, numbers[:, None]]
        ctx.of_tables, ctx.shares = [of_users, of_items, of_numbers[:, None]], [*shares, shares[1][: len(numbers)]]
        decay = sum(module.decay(table, share) for table, share in zip(ctx.tables, ctx.shares, strict=True))
        return torch.tensor([sum(losses) / max(1, negative.numel()), decay], dtype=users.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        ranking, decaying = gradients[0].numpy()
        for gradient, table, share in zip(ctx.of_tables, ctx.tables, ctx.shares, strict=True):
            ctx.module.combine(gradient, table, share, ranking, decaying)
        return *(torch.from_numpy(gradient) for gradient in ctx.of_tables), None, None, None, None
