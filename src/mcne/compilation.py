"""How functions are compiled for the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

REASSOCIATED = {"reassoc", "contract", "nsz", "arcp", "afn"}
"""Sums may be taken in another order, so that loops vectorize: in the same one every time, and never past a NaN."""


def compiled(function: Function) -> Function:
    """Compile a function on first use, to run without the interpreter's lock; kept for later processes if it can be."""
    made: Any
    try:
        made = numba.njit(nogil=True, fastmath=REASSOCIATED, cache=True)(function)
    except RuntimeError:  # nowhere to write: neither beside the file nor in the user's cache
        made = numba.njit(nogil=True, fastmath=REASSOCIATED)(function)
    return cast(Function, made)
