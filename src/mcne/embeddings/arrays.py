"""The check that every array of the artifact passes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.files import frozen


class NotFiniteError(ValueError):
    """An array with a value that is infinite or no number."""


def checked(array: NDArray[Any], what: str, *, dtype: type[np.generic], shape: tuple[int | None, ...]) -> NDArray[Any]:
    """A read-only view of an array of this type and shape (``None``: any length) whose values are finite."""
    fits = len(shape) == array.ndim and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
    if array.dtype != dtype or not fits:
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise ValueError(f"{what}: {np.dtype(dtype)} [{wanted}] expected, got {array.dtype} {list(array.shape)}")
    if array.size and not (np.isfinite(array.min()) and np.isfinite(array.max())):  # no array of flags is made
        raise NotFiniteError(f"{what}: not all values are finite")
    return frozen(array)
