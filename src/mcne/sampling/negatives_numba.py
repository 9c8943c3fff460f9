"""The k-th item that a user has not touched, compiled for the CPU."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from mcne.compilation import compiled


@compiled
def seen_below(
    gaps: NDArray[Any],  # [pairs] unseen items below each seen one, never decreasing within a user
    low: NDArray[Any],  # [n] where a user's pairs begin
    high: NDArray[Any],  # [n] and end
    k: NDArray[Any],  # [n, count]
    found: NDArray[Any],  # [n, count] out: seen items below the k-th unseen one
) -> None:
    """Bisection in each user's own pairs."""
    for i in range(len(k)):
        for s in range(k.shape[1]):
            first, last = low[i], high[i]
            while first < last:
                middle = (first + last) // 2
                if gaps[middle] <= k[i, s]:
                    first = middle + 1
                else:
                    last = middle
            found[i, s] = first - low[i]
