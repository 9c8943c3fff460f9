"""Controls of learned masks: MCNE whose masks all start alike, and MCNE whose masks stay as they were drawn.

The first tests the paper's remark that a fixed initial value does worse than U(−0.5, 0.5), the second what it is worth
that masks learn. In both, every other number starts where MCNE's starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch

from mcne.errors import UsageError
from mcne.models.contract import TrainingData
from mcne.models.mask import BinaryMask, Mask, RandomMask
from mcne.models.mcne import MCNE, MCNEConfig
from mcne.models.settings import Range
from mcne.randomness import Stream

MaskValue = Annotated[float, Range("a number from -1 to 1", lambda value: -1 <= value <= 1)]
Density = Annotated[float, Range("a number from 0 to 1", lambda value: 0 <= value <= 1)]


@dataclass(frozen=True)
class ConstantMasksConfig(MCNEConfig):
    """MCNE's settings, and the real value that every entry of every mask starts from.

    From 0 or more all masks start open, from less all start closed, and then nothing but masks can learn at first.
    """

    value: MaskValue = 0.5


class ConstantMasks(MCNE):
    """All real values behind the masks start at one value; then they learn as MCNE's do."""

    def __init__(self, data: TrainingData, config: ConstantMasksConfig, *, seed: int, device: torch.device) -> None:
        super().__init__(data, config, seed=seed, device=device)
        with torch.no_grad():
            for mask in self.network.masks:
                assert isinstance(mask, BinaryMask)
                mask.real.fill_(config.value)


@dataclass(frozen=True)
class RandomMasksConfig(MCNEConfig):
    """MCNE's settings, and how many entries are one: about half, as in MCNE at its start, or as many as it learned.

    That is one number for all levels, or a number for each, the first being that of the initial vectors.
    """

    density: tuple[Density, ...] | Density = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.density, tuple):
            return
        if len(self.density) == 1:
            object.__setattr__(self, "density", self.density[0])
        elif len(self.density) != len(self.widths):
            raise UsageError(
                f"setting density: {list(self.density)} has {len(self.density)} numbers and widths "
                f"{list(self.widths)} make {len(self.widths)} levels of masks; give one number for all levels or one "
                f"for each, as in {[0.5] * len(self.widths)}"
            )

    @property
    def densities(self) -> tuple[float, ...]:
        """That of each level, the first first."""
        return self.density if isinstance(self.density, tuple) else (self.density,) * len(self.widths)


class RandomMasks(MCNE):
    """Masks that never learn: at a density of ½ those that MCNE starts from."""

    config: RandomMasksConfig

    def masks(self, stream: Stream) -> Callable[[int, int], Mask]:
        """Drawn once, from the numbers that MCNE's are drawn from, level after level."""
        levels = iter(self.config.densities)
        return lambda rows, width: RandomMask(rows, width, stream=stream, density=next(levels))
