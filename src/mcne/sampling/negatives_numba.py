"""The k-th item that a user has not touched, compiled for the CPU."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from mcne.kernels.compilation import compiled


@compiled
def seen_below(
    gaps: NDArray[Any],  # [pairs] unseen items below each seen one, never decreasing within a user
    low: NDArray[Any],  # [n] where a user's pairs begin
    high: NDArray[Any],  # [n] and end
    k: NDArray[Any],  # [n, count]
    found: NDArray[Any],  # [n, count] out: seen items below the k-th unseen one
) -> None:
    """Bisection in each user's own pairs, of all ``count`` side by side: no step of one waits for another."""
    for i in range(len(k)):
        found[i] = 0
        left = high[i] - low[i]
        while left > 0:
            half = (left + 1) // 2
            for s in range(k.shape[1]):
                is_below = gaps[low[i] + found[i, s] + half - 1] <= k[i, s]
                found[i, s] += half if is_below else 0  # chosen, not jumped to: it could not be foreseen
            left -= half
