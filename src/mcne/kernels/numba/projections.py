"""The weights of the attention under every mask, compiled for the CPU: small work, in one pass and on one thread.

Legend: B behaviors, t attention width, d width of the vectors.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from mcne.kernels.compilation import compiled

Array = NDArray[Any]


@compiled
def halves(
    project: Array,  # [t, 2d]
    masks: Array,  # [B, d]
    both: Array,  # [2, B, t, d] out
) -> None:
    """See :func:`mcne.kernels.projections.masked_halves`."""
    n_behaviors, depth = masks.shape
    for h in range(2):
        for c in range(n_behaviors):
            mask = masks[c]
            for q in range(len(project)):
                row, found = project[q, h * depth : (h + 1) * depth], both[h, c, q]
                for k in range(depth):
                    found[k] = mask[k] * row[k]


@compiled
def of_halves(
    project: Array,
    masks: Array,
    of_both: Array,  # [2, B, t, d]
    of_project: Array,  # [t, 2d] added to
    of_masks: Array,  # [B, d] added to
) -> None:
    """The gradients of ``project`` and ``masks``, given that of both halves."""
    n_behaviors, depth = masks.shape
    for h in range(2):
        for q in range(len(project)):
            row, of_row = project[q, h * depth : (h + 1) * depth], of_project[q, h * depth : (h + 1) * depth]
            for c in range(n_behaviors):
                mask, of_mask, gradient = masks[c], of_masks[c], of_both[h, c, q]
                for k in range(depth):
                    of_row[k] += mask[k] * gradient[k]
                    of_mask[k] += row[k] * gradient[k]
