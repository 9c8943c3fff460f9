"""Bayesian personalized ranking per behavior (Eq. 7) and the regularization beside it (reading 8)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def bpr_loss(positive: Tensor, negative: Tensor) -> Tensor:
    """Eq. 7 without its regularization: the mean of ``−ln σ(s_p − s_n)`` over all triples, 0 of none.

    ``positive`` [b], ``negative`` [b, N].
    """
    return functional.softplus(negative - positive[:, None]).sum() / max(1, negative.numel())


def scored_l2(user: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """The mean over triples of ``‖u_i|c‖² + ‖z_p‖² + mean ‖z_n‖²``: decays exactly what was scored, and nothing else.

    ``user`` [b, d] (masked), ``positive`` [b, d], ``negative`` [b, N, d].
    """
    squares = user.square().sum(-1) + positive.square().sum(-1) + negative.square().sum(-1).mean(-1)
    return squares.sum() / max(1, len(squares))


def parameter_l2(parameters: list[Tensor]) -> Tensor:
    """Eq. 8's ``‖Θ‖²`` over every parameter."""
    return torch.stack([parameter.square().sum() for parameter in parameters]).sum()
