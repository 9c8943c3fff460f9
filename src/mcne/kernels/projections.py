"""The weights of the attention under every mask, by the fastest backend."""

from __future__ import annotations

from torch import Tensor

from mcne.kernels.backend import on_gpu


def masked_halves(project: Tensor, masks: Tensor) -> tuple[Tensor, Tensor]:
    """``W diag m_c`` of both halves of ``project`` [t, 2d] and every mask of ``masks`` [B, d]: twice [B · t, d].

    Since ``W (u ⊙ m_c) = (W diag m_c) u``, a single product with all vectors projects them under every mask.
    """
    if (there := on_gpu("triton.projections", project.device)) is not None:
        found: tuple[Tensor, Tensor] = there.MaskedHalves.apply(project, masks)
        return found
    first, second = ((masks[:, None, :] * half).flatten(0, 1) for half in project.chunk(2, dim=1))
    return first, second
