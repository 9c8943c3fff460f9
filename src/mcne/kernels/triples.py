"""Triples ranked by inner products: BPR (Eq. 7), and the L2 beside it (reading 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from mcne.kernels.backend import backend_for
from mcne.kernels.rows import Groups


@dataclass(frozen=True)
class AllTriples:
    """The triples of all behaviors in a step, equally many of each and one behavior after the other, on a GPU."""

    items: Tensor  # [m] distinct items of all catalogs, one after the other
    user: Tensor  # [T] rows of the step's distinct users
    item: Tensor  # [T, 1 + N] rows of items, the positive first
    by_user: Groups  # the places of user
    by_item: Groups  # the places of item
    per_behavior: int
    weight: Tensor | None = None  # [T] of each triple in the loss


def bpr_loss(positive: Tensor, negative: Tensor, weight: Tensor | None = None) -> Tensor:
    """Eq. 7 without its regularization: the mean of ``−ln σ(s_p − s_n)`` over all triples, 0 of none.

    ``positive`` [b], ``negative`` [b, N]; with ``weight`` [b] the mean of as many times it.
    """
    losses = functional.softplus(negative - positive[:, None])
    losses = losses if weight is None else losses * weight[:, None]
    return losses.sum() / max(1, negative.numel())


def scored_l2(user: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """The mean over triples of ``‖u_i|c‖² + ‖z_p‖² + mean ‖z_n‖²``: decays exactly what was scored, and nothing else.

    ``user`` [b, d] (masked), ``positive`` [b, d], ``negative`` [b, N, d].
    """
    squares = squares_of(user, positive, negative)
    return squares.sum() / max(1, len(squares))


def squares_of(user: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """``‖u_i|c‖² + ‖z_p‖² + mean ‖z_n‖²`` of each triple, [b]."""
    return user.square().sum(-1) + positive.square().sum(-1) + negative.square().sum(-1).mean(-1)


def parameter_l2(parameters: Sequence[Tensor]) -> Tensor:
    """Eq. 8's ``‖Θ‖²`` over every parameter."""
    return torch.stack([parameter.square().sum() for parameter in parameters]).sum()


def rank(
    users: Tensor,
    items: Tensor,
    bias: Tensor | None,
    *,
    user: Tensor,
    positive: Tensor,
    negative: Tensor,
    weight: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The BPR loss of one behavior's triples and the L2 of what they score, bias included; 0 of none.

    ``users`` [n, d], ``items`` [m, d] and ``bias`` [m, 1] are what is scored, ``⟨u, z⟩ + b``; ``user`` [b],
    ``positive`` [b] and ``negative`` [b, N] are their rows. ``weight`` [b] of triples is one of the loss alone.
    """
    if negative.numel() and backend_for(users.device, fits=False) == "numba":
        from mcne.kernels.numba.triples import Rank

        no_bias = items.new_zeros(0, 1) if bias is None else bias
        both: Tensor = Rank.apply(users, items, no_bias, user, positive, negative, weight)  # type: ignore[no-untyped-call] # as PyTorch declares it
        return both[0], both[1]
    return plain_rank(users, items, bias, user=user, positive=positive, negative=negative, weight=weight)


def plain_rank(
    users: Tensor,
    items: Tensor,
    bias: Tensor | None,
    *,
    user: Tensor,
    positive: Tensor,
    negative: Tensor,
    weight: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The same in operations of PyTorch, on any device."""
    rows = negative.flatten()
    own, liked = users.index_select(0, user), items.index_select(0, positive)  # [b, d]
    others = items.index_select(0, rows).view(*negative.shape, items.shape[1])  # [b, N, d]
    above, below = (own * liked).sum(-1), torch.bmm(others, own[:, :, None])[:, :, 0]
    squares = squares_of(own, liked, others)
    if bias is not None:
        its, theirs = bias.index_select(0, positive)[:, 0], bias.index_select(0, rows)[:, 0].view_as(negative)
        above, below = above + its, below + theirs
        squares = squares + its.square() + theirs.square().mean(-1)
    return bpr_loss(above, below, weight), squares.sum() / max(1, len(squares))


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
