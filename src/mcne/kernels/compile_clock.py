"""How long this process has been compiling: functions for the CPU and kernels for a GPU, on their first use."""

from __future__ import annotations

from threading import Lock
from time import perf_counter


class CompileClock:
    """The time in which anything was being compiled; however many threads are at it, a second counts once."""

    def __init__(self) -> None:
        self.is_kept = True  # whether later processes find what was compiled
        self._lock = Lock()
        self._under_way, self._began = 0, 0.0
        self._spans: list[tuple[float, float]] = []

    def start(self) -> None:
        """Something is being compiled from now on."""
        with self._lock:
            if not self._under_way:
                self._began = perf_counter()
            self._under_way += 1

    def stop(self) -> None:
        """It is compiled, or has failed; nothing if its start was not heard."""
        with self._lock:
            if self._under_way == 1:
                self._spans.append((self._began, perf_counter()))
            self._under_way = max(0, self._under_way - 1)

    def add(self, seconds: float) -> None:
        """Something that took as long is compiled by now."""
        now = perf_counter()
        with self._lock:
            self._spans.append((now - seconds, now))

    def since(self, moment: float) -> float:
        """Seconds of compiling after a moment of :func:`time.perf_counter`, with what is under way."""
        with self._lock:
            spans = self._spans + ([(self._began, perf_counter())] if self._under_way else [])
        seconds, counted_to = 0.0, moment
        for start, stop in sorted(spans):
            if stop > counted_to:
                seconds += stop - max(start, counted_to)
                counted_to = stop
        return seconds


CLOCK = CompileClock()
"""The one of this process, which whatever compiles is to tell."""
