"""How functions are compiled for the CPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import numba
from numba.core import event

from mcne.kernels.compile_clock import CLOCK

Function = TypeVar("Function", bound=Callable[..., Any])

REASSOCIATED = {"reassoc", "contract", "nsz", "arcp", "afn"}
"""Sums may be taken in another order, so that loops vectorize: in the same one every time, and never past a NaN."""


def compiled(function: Function) -> Function:
    """Compile a function on first use, to run without the interpreter's lock; kept for later processes if it can be.

    Division by zero gives infinity, as in NumPy: to test for it would keep loops from being vectorized.
    """
    compile_it = partial(numba.njit, nogil=True, error_model="numpy", fastmath=REASSOCIATED)
    made: Any
    try:
        made = compile_it(cache=True)(function)
    except RuntimeError:  # nowhere to write: neither beside the file nor in the user's cache
        CLOCK.is_kept = False
        made = compile_it()(function)
    return cast(Function, made)


class _Listener(event.Listener):
    """Hears of what is compiled indeed: functions that come from a cache are never announced."""

    def on_start(self, event: object) -> None:
        CLOCK.start()

    def on_end(self, event: object) -> None:
        CLOCK.stop()


event.register("numba:compile", _Listener())  # type: ignore[no-untyped-call] # as numba declares it
