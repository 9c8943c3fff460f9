"""Triples ranked by inner products: BPR (Eq. 7) and the L2 of what is scored (reading 8), by the fastest backend."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mcne.kernels.backend import BLOCKS, compiled, in_blocks
from mcne.kernels.groups import Groups


@dataclass(frozen=True)
class AllTriples:
    """The triples of all behaviors in a step, equally many of each and one behavior after the other, on a GPU."""

    items: Tensor  # [m] distinct items of all catalogs, one after the other
    user: Tensor  # [T] rows of the step's distinct users
    item: Tensor  # [T, 1 + N] rows of items, the positive first
    by_user: Groups  # the places of user
    by_item: Groups  # the places of item
    per_behavior: int


def rank_all(
    users: Tensor, masks: Tensor | None, items: Tensor, bias: Tensor | None, triples: AllTriples
) -> tuple[Tensor, Tensor]:
    """What :func:`rank` gives of every behavior, the first for each, [C], and the second's mean, []; by kernels for
    GPUs, in single precision.

    ``users`` [n, d] are unmasked, ``masks`` [C or more, d] those of the behaviors, ``items`` [m, d], ``bias`` [m, 1].
    """
    from mcne.kernels.triton.triples import Rank

    ranking, decay = Rank.apply(users, masks, items, bias, triples)  # type: ignore[no-untyped-call] # as PyTorch declares it
    return ranking, decay


def rank(
    users: Tensor, items: Tensor, bias: Tensor | None, *, user: Tensor, positive: Tensor, negative: Tensor
) -> tuple[Tensor, Tensor]:
    """The mean of ``−ln σ(s_p − s_n)`` over all triples, and the mean over triples of
    ``‖u‖² + ‖z_p‖² + mean ‖z_n‖²``, bias included; 0 of none.

    ``users`` [n, d], ``items`` [m, d] and ``bias`` [m, 1] are what is scored, ``⟨u, z⟩ + b``; ``user`` [b],
    ``positive`` [b] and ``negative`` [b, N] are their rows.
    """
    if users.device.type == "cpu" and negative.numel() and (module := compiled("numba.triples")) is not None:
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
        tables = [each.detach().contiguous().numpy() for each in (users, items)]
        numbers, kind = bias.detach().reshape(-1).numpy(), tables[0].dtype  # [m], or none
        first, order = module.grouped(user.contiguous().numpy(), len(users))  # by user, as the kernels want them
        item = torch.cat([positive[:, None], negative], dim=1).index_select(0, torch.from_numpy(order)).numpy()
        first_of_item, scores = module.grouped(item, len(items))
        owner = np.repeat(np.arange(len(users)), item.shape[1] * np.diff(first))[scores]
        of_tables, of_numbers = [np.empty_like(table) for table in tables], np.empty_like(numbers)
        steps, losses = np.empty(item.shape, kind), np.zeros(BLOCKS)

        def by_user(start: int, stop: int, block: int) -> None:
            losses[block] = module.by_user(*tables, numbers, item, first, steps, of_tables[0], start, stop)

        by_score = (tables[0], steps.reshape(-1), first_of_item, scores, owner, of_tables[1], of_numbers)
        numbers_read = item.size * users.shape[1]
        in_blocks(len(users), by_user, numbers=numbers_read)
        in_blocks(len(items), lambda start, stop, _: module.by_item(*by_score, start, stop), numbers=numbers_read)
        liked, drawn = np.bincount(item[:, 0], minlength=len(items)), np.diff(first_of_item)
        user_share = (np.diff(first) / len(item)).astype(kind)
        share = ((liked + (drawn - liked) / negative.shape[1]) / len(item)).astype(kind)
        ctx.module, ctx.tables = module, [*tables, numbers[:, None]]
        ctx.of_tables, ctx.shares = [*of_tables, of_numbers[:, None]], [user_share, share, share[: len(numbers)]]
        decay = sum(module.decay(table, each) for table, each in zip(ctx.tables, ctx.shares, strict=True))
        return torch.tensor([losses.sum() / negative.numel(), decay], dtype=users.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        ranking, decaying = gradients[0].numpy()
        found = [np.empty_like(table) for table in ctx.tables]  # of their own: a gradient may be asked for twice
        for each in zip(found, ctx.of_tables, ctx.tables, ctx.shares, strict=True):
            ctx.module.combine(*each, ranking, decaying)
        return *(torch.from_numpy(each) for each in found), None, None, None, None
