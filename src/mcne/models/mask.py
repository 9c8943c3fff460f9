"""Masks that select the dimensions of each behavior (Eq. 1–2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mcne.randomness import Stream


class _Threshold(torch.autograd.Function):
    """``1[real ≥ 0]`` forward; backward the gradient of the binary value goes to the real one unchanged."""

    @staticmethod
    def forward(ctx: object, real: Tensor) -> Tensor:
        return torch.ge(real, 0, out=torch.empty_like(real))

    @staticmethod
    def backward(ctx: object, *gradients: Tensor) -> Tensor:
        return gradients[0]


class BinaryMask(nn.Module):
    """Learnable binary masks ``m_c``, a row per behavior: real values behind a threshold (Eq. 1).

    Drawn from U(−0.5, 0.5). In every step :class:`mcne.models.optimizer.DenseAdam` keeps the real values in [−1, 1],
    beyond which they could no longer turn back.
    """

    def __init__(self, rows: int, width: int, *, stream: Stream) -> None:
        super().__init__()
        drawn = torch.from_numpy(stream.uniform((rows, width)) - 0.5)
        self.real = nn.Parameter(drawn.to(torch.get_default_dtype()))

    def forward(self) -> Tensor:
        """The binary masks, [rows, width]."""
        binary: Tensor = _Threshold.apply(self.real)  # type: ignore[no-untyped-call] # as PyTorch declares it
        return binary

    @torch.no_grad()
    def clamp(self) -> None:
        """Bring the real values back into [−1, 1]."""
        self.real.clamp_(-1.0, 1.0)


class FixedMask(nn.Module):
    """Disjoint blocks of dimensions, one per behavior (MCNE-F, reading 14)."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.binary: Tensor
        self.register_buffer("binary", disjoint_blocks(rows, width))

    def forward(self) -> Tensor:
        """The binary masks, [rows, width]."""
        return self.binary

    def clamp(self) -> None:
        """Fixed masks have nothing to clamp."""


class RandomMask(nn.Module):
    """Masks that never learn, ``density`` of them one; of ½ those that :class:`BinaryMask` starts from."""

    def __init__(self, rows: int, width: int, *, stream: Stream, density: float = 0.5) -> None:
        super().__init__()
        self.binary: Tensor
        drawn = torch.from_numpy(stream.uniform((rows, width)) >= 1 - density)
        self.register_buffer("binary", drawn.to(torch.get_default_dtype()))

    def forward(self) -> Tensor:
        """The binary masks, [rows, width]."""
        return self.binary

    def clamp(self) -> None:
        """Masks that never learn have nothing to clamp."""


class OpenMask(nn.Module):
    """Every entry one: all behaviors have all dimensions, as if there were no masks."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.binary: Tensor
        self.register_buffer("binary", torch.ones(rows, width), persistent=False)  # nothing to keep of it

    def forward(self) -> Tensor:
        """The binary masks, [rows, width]."""
        return self.binary

    def clamp(self) -> None:
        """Open masks have nothing to clamp."""


class SoftMask(nn.Module):
    """Learnable gates ``σ(M_r)``, a row per behavior: :class:`BinaryMask` with a sigmoid in place of its threshold."""

    def __init__(self, rows: int, width: int, *, stream: Stream) -> None:
        super().__init__()
        drawn = torch.from_numpy(stream.uniform((rows, width)) - 0.5)
        self.real = nn.Parameter(drawn.to(torch.get_default_dtype()))

    def forward(self) -> Tensor:
        """The gates, [rows, width]."""
        return torch.sigmoid(self.real)

    def clamp(self) -> None:
        """A sigmoid turns back by its own gradient: nothing to clamp."""


Mask = BinaryMask | FixedMask | RandomMask | OpenMask | SoftMask


def disjoint_blocks(rows: int, width: int) -> Tensor:
    """Row ``c`` is one on the columns from ⌊c·d/B⌋ to ⌊(c+1)·d/B⌋."""
    blocks = torch.zeros(rows, width)
    for row in range(rows):
        blocks[row, row * width // rows : (row + 1) * width // rows] = 1.0
    return blocks
