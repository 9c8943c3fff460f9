"""How functions are compiled for the CPU, and how long this process has been compiling anything."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache, partial
from threading import Lock
from typing import Any

Function = Callable[..., Any]

REASSOCIATED = {"reassoc", "contract", "nsz", "arcp", "afn"}
"""Sums may be taken in another order, so that loops vectorize: in the same one every time, and never past a NaN."""


class CompileClock:
    """The time during which anything was being compiled; parallel compilations count once."""

    def __init__(self) -> None:
        self.is_kept = True  # whether later processes can load what was compiled
        self._lock = Lock()
        self._under_way: list[float] = []  # since when
        self._spans: list[tuple[float, float]] = []

    def start(self) -> None:
        """A compilation starts."""
        with self._lock:
            self._under_way.append(time.perf_counter())

    def stop(self) -> None:
        """A compilation ends or fails; ignored if its start was missed."""
        with self._lock:
            if self._under_way:
                self._spans.append((self._under_way.pop(), time.perf_counter()))

    def add(self, seconds: float) -> None:
        """A compilation of this length has just ended."""
        now = time.perf_counter()
        with self._lock:
            self._spans.append((now - seconds, now))

    def since(self, moment: float) -> float:
        """Seconds of compiling after a moment of :func:`time.perf_counter`, including what is under way."""
        with self._lock:
            spans = self._spans + [(start, time.perf_counter()) for start in self._under_way]
        seconds = 0.0
        counted_to = moment
        for start, stop in sorted(spans):
            if stop > counted_to:
                seconds += stop - max(start, counted_to)
                counted_to = stop
        return seconds


CLOCK = CompileClock()
"""The clock of this process; whatever compiles reports to it."""


def compiled(function: Function) -> Function:
    """Compile a function on first use, to run without the interpreter's lock; kept for later processes if possible.

    Division by zero gives infinity, as in NumPy: a test for it would keep loops from being vectorized.
    """
    import numba

    _time_numba()
    compile_it = partial(numba.njit, nogil=True, error_model="numpy", fastmath=REASSOCIATED)
    try:
        result: Function = compile_it(cache=True)(function)
    except RuntimeError:  # nowhere to write: neither beside the file nor in the user's cache
        CLOCK.is_kept = False
        result = compile_it()(function)
    return result


@cache
def _time_numba() -> None:
    """Make numba report compilations to the clock; it does not report functions from its cache."""
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, event: object) -> None:
            CLOCK.start()

        def on_end(self, event: object) -> None:
            CLOCK.stop()

    event.register("numba:compile", Listener())  # type: ignore[no-untyped-call] # as numba declares it
