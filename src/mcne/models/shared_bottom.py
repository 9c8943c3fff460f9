"""The rivals of a binary mask: MCNE whose behaviors share all dimensions, and MCNE with real gates.

Without ``shared-bottom`` nobody knows what masks are worth, and without ``soft-gate`` what their being binary is worth.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor

from mcne.data.dataset import SocialDataset
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.scorer import Scorer
from mcne.models.mask import Mask, OpenMask, SoftMask
from mcne.models.mcne import MCNE
from mcne.models.tables import to_numpy
from mcne.randomness import Stream


class SharedBottom(MCNE):
    """Every mask is one everywhere and all behaviors weigh the same: one vector per user, item tables per behavior.

    It equals MCNE-A wherever the masks of that are all one.
    """

    attention = False

    def masks(self, stream: Stream) -> Callable[[int, int], Mask]:
        """Nothing is masked."""
        return OpenMask

    def vitals(self) -> dict[str, float]:
        """Nothing beside the losses: there are no masks to watch."""
        return {}


class SoftGate(MCNE):
    """``σ(M_r)`` in place of the threshold ``1[M_r ≥ 0]``, with the same parameters and the same attention.

    Where the gates have come to 0 and 1 it equals MCNE with those masks.
    """

    def masks(self, stream: Stream) -> Callable[[int, int], Mask]:
        """Gates that start from the real values that MCNE's masks start from."""
        return partial(SoftMask, stream=stream)

    def vitals(self) -> dict[str, float]:
        """The mean of the gates at each level."""
        return {f"gate_mean_{k}": float(gate.mean()) for k, gate in enumerate(self.gates())}

    def scorer(self) -> Scorer:
        """The gates go to the items, ``⟨u ⊙ g, z⟩ = ⟨u, g ⊙ z⟩``, which need them only once."""
        gates, tables = self.gates()[-1], self.tables.tables
        gated = {f"items.{k}": tables[f"items.{k}"] * gates[k] for k in range(len(self.data.names))}
        return self.items.scorer(gated, self.levels()[-1])

    def embeddings(self, dataset: SocialDataset, provenance: Mapping[str, Any]) -> ConditionalEmbeddings:
        """The artifact: every behavior has all dimensions of a user matrix of its own, ``u ⊙ g``.

        So users are compared on a behavior under its gates, as items are scored. There is no trunk, whose masks are
        binary.
        """
        last = self.levels()[-1]
        made = self.items.embeddings(self.tables.tables, last, dataset=dataset, provenance=provenance)
        spaces = tuple(
            dataclasses.replace(space, user_vectors=to_numpy(last * gate))
            for space, gate in zip(made.spaces, self.gates()[-1], strict=False)
        )
        return dataclasses.replace(made, spaces=spaces)

    def gates(self) -> list[Tensor]:
        """The gates of every level, K+1 × [B, d_k]."""
        return [mask().detach() for mask in self.network.masks]
