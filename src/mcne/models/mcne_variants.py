"""Variants of MCNE that show the value of attention, of learned masks, of masks at all, and of binary ones.

Everything that a variant does not change starts from the same numbers as in MCNE.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from mcne.data.dataset import SocialDataset
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.ranking import Scorer
from mcne.errors import UsageError
from mcne.models.contract import TrainingData
from mcne.models.mcne import MCNE, BinaryMask, Mask, MCNEConfig
from mcne.models.settings import Range
from mcne.models.tables import to_numpy
from mcne.randomness import Stream

MaskValue = Annotated[float, Range("a number from -1 to 1", lambda value: -1 <= value <= 1)]
Density = Annotated[float, Range("a number from 0 to 1", lambda value: 0 <= value <= 1)]


class FrozenMask(nn.Module):
    """Fixed masks, ``binary`` [B, d]; without ``is_stored`` they are not part of a checkpoint."""

    def __init__(self, binary: Tensor, *, is_stored: bool = True) -> None:
        super().__init__()
        self.binary: Tensor
        self.register_buffer("binary", binary, persistent=is_stored)

    def forward(self) -> Tensor:
        """The binary masks, [B, d]."""
        return self.binary


def disjoint_mask(rows: int, width: int) -> FrozenMask:
    """Disjoint blocks of dimensions: row ``c`` is one on the columns from ⌊c·d/B⌋ to ⌊(c+1)·d/B⌋ (reading 14)."""
    binary = torch.zeros(rows, width)
    for row in range(rows):
        binary[row, row * width // rows : (row + 1) * width // rows] = 1.0
    return FrozenMask(binary)


def open_mask(rows: int, width: int) -> FrozenMask:
    """Every entry one: all behaviors have all dimensions, as if there were no masks."""
    return FrozenMask(torch.ones(rows, width), is_stored=False)


def random_mask(rows: int, width: int, *, stream: Stream, density: float = 0.5) -> FrozenMask:
    """``density`` of the entries one; of ½ those that :class:`BinaryMask` starts from."""
    drawn = torch.from_numpy(stream.uniform((rows, width)) >= 1 - density)
    return FrozenMask(drawn.to(torch.get_default_dtype()))


class SoftMask(BinaryMask):
    """Learnable gates ``σ(M_c)``: a sigmoid in place of the threshold, and no bounds."""

    def forward(self) -> Tensor:
        """The gates, [B, d]."""
        return torch.sigmoid(self.real)


class MCNEA(MCNE):
    """MCNE-A: no attention, all behaviors weigh the same along every link (reading 13)."""

    attention = False


class MCNEF(MCNE):
    """MCNE-F: disjoint fixed masks instead of learned ones, and no attention (reading 14)."""

    attention = False

    def masks(self, stream: Stream) -> Callable[[int, int], Mask]:
        """Blocks of dimensions, which need no chance."""
        widths = list(self.config.widths)
        rows = len(self.data.names) + 1
        if min(widths) < rows:
            raise UsageError(
                f"{widths} leaves one of {rows - 1} behaviors without dimensions",
                "setting widths",
                f"use widths of {rows} or more for mcne-f",
                value=widths,
            )
        return disjoint_mask


@dataclass(frozen=True)
class ConstantMasksConfig(MCNEConfig):
    """MCNE's settings, and the real value that every entry of every mask starts from.

    From 0 or more all masks start open; below 0 all start closed, and at first only the masks can learn.
    """

    value: MaskValue = 0.5


class ConstantMasks(MCNE):
    """Learned masks whose real values all start at one value, which the paper found worse than U(−0.5, 0.5)."""

    def __init__(self, data: TrainingData, config: ConstantMasksConfig, *, seed: int, device: torch.device) -> None:
        super().__init__(data, config, seed=seed, device=device)
        with torch.no_grad():
            for real in self.network.bounded():
                real.fill_(config.value)


@dataclass(frozen=True)
class RandomMasksConfig(MCNEConfig):
    """MCNE's settings, and how many entries are one: about half, as in MCNE at its start, or as many as it learned.

    That is one number for all levels, or a number for each, the first being that of the initial vectors.
    """

    density: tuple[Density, ...] | Density = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.density, tuple) and len(self.density) == 1:
            object.__setattr__(self, "density", self.density[0])
        elif isinstance(self.density, tuple) and len(self.density) != len(self.widths):
            raise UsageError(
                f"{list(self.density)} has {len(self.density)} numbers, and the widths {list(self.widths)} make "
                f"{len(self.widths)} levels of masks",
                "setting density",
                f"give one number for all levels, or one for each level, such as {[0.5] * len(self.widths)}",
                value=list(self.density),
            )


class RandomMasks(MCNE):
    """Fixed random masks, at a density of ½ those that MCNE starts from: they show the value of learning masks."""

    config: RandomMasksConfig

    def masks(self, stream: Stream) -> Callable[[int, int], Mask]:
        """Drawn once, from the numbers that MCNE's are drawn from, level after level."""
        density = self.config.density
        levels = iter(density) if isinstance(density, tuple) else repeat(density)
        return lambda rows, width: random_mask(rows, width, stream=stream, density=next(levels))


class SharedBottom(MCNE):
    """One vector per user, and item tables per behavior: MCNE-A with masks that are one everywhere."""

    attention = False

    def masks(self, stream: Stream) -> Callable[[int, int], Mask]:
        """Nothing is masked."""
        return open_mask

    def vitals(self) -> dict[str, float]:
        """Nothing besides the losses: there are no masks to record."""
        return {}


class SoftGate(MCNE):
    """``σ(M_c)`` in place of the threshold ``1[M_c ≥ 0]``: where all gates are 0 or 1, it is MCNE with those masks."""

    def masks(self, stream: Stream) -> Callable[[int, int], Mask]:
        """Gates that start from the real values that MCNE's masks start from."""
        return partial(SoftMask, stream=stream)

    def vitals(self) -> dict[str, float]:
        """The mean of the gates at each level."""
        return {f"gate_mean_{k}": float(gate.mean()) for k, gate in enumerate(self.network.binary_masks())}

    def scorer(self) -> Scorer:
        """The gates go to the items, ``⟨u ⊙ g, z⟩ = ⟨u, g ⊙ z⟩``, which need them only once."""
        tables = self.tables.tables
        gates = self.network.binary_masks()[-1]
        gated = {f"items.{k}": tables[f"items.{k}"] * gates[k] for k in range(len(self.data.names))}
        return self.items.scorer(gated, self.levels()[-1])

    def embeddings(self, dataset: SocialDataset, provenance: Mapping[str, Any]) -> ConditionalEmbeddings:
        """The artifact: every behavior has all dimensions of a user matrix of its own, ``u ⊙ g``, by which its users
        are compared as its items are scored. There is no trunk, whose masks are binary.
        """
        last = self.levels()[-1]
        artifact = self.items.embeddings(self.tables.tables, last, dataset=dataset, provenance=provenance)
        spaces = tuple(
            dataclasses.replace(space, user_vectors=to_numpy(last * gate))
            for space, gate in zip(artifact.spaces, self.network.binary_masks()[-1], strict=False)
        )
        return dataclasses.replace(artifact, spaces=spaces)
