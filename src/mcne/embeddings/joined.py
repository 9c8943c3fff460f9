"""Embeddings of one behavior each, side by side in one artifact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mcne.embeddings.artifact import ConditionalEmbeddings


def side_by_side(parts: Sequence[ConditionalEmbeddings], provenance: Mapping[str, Any]) -> ConditionalEmbeddings:
    """One artifact of the same users whose vectors are those of all parts, each part's behavior masked to its own.

    Scores and similarities on a behavior are those of its part; the whole vector is all of them together.
    """
    starts = np.cumsum([0, *(part.width for part in parts)])
    width, spaces = int(starts[-1]), []
    for part, start in zip(parts, starts.tolist(), strict=False):
        (space,) = part.spaces
        mask = np.zeros(width, dtype=bool)
        items = np.zeros((len(space.items), width), dtype=np.float32)
        mask[start : start + part.width] = space.mask
        items[:, start : start + part.width] = space.item_vectors
        spaces.append(replace(space, mask=mask, item_vectors=items, user_vectors=None))
    vectors = np.concatenate([part.matrix_and_mask(part.behavior_names[0])[0] for part in parts], axis=1)
    return ConditionalEmbeddings(parts[0].users, vectors, tuple(spaces), parts[0].graph, None, provenance)
