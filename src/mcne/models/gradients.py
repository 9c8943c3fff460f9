"""Values that pass on only a part of the gradient."""

from __future__ import annotations

from torch import Tensor


def partly_detached(values: Tensor, share: float) -> Tensor:
    """The very same values, with ``share`` times the gradient."""
    fixed = values.detach()
    return fixed + share * (values - fixed) if share else fixed
