"""The message-passing network: masks at every level, a layer between every two (Eq. 1–6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from mcne.embeddings.trunk import MessageKind
from mcne.kernels.edges import TensorHop
from mcne.models.mask import BinaryMask, Mask
from mcne.models.message import GraphLinks, Links, MessageLayer
from mcne.randomness import Stream


class ConditionalNetwork(nn.Module):
    """From initial vectors to the last level, whose masked vectors are the conditional representations.

    Legend: B = C+1 mask rows, the last for "all other behaviors" (reading 3); K layers and K+1 mask levels (reading 2).
    ``masks`` makes the masks of a level, given B and its width; before the weights, so both may draw from one stream.
    """

    def __init__(
        self,
        rows: int,
        widths: Sequence[int],
        *,
        attention_width: int,
        attention: bool,
        masks: Callable[[int, int], Mask],
        message: MessageKind,
        last_activation: bool,
        stream: Stream,
    ) -> None:
        super().__init__()
        self.last_activation = last_activation
        self.masks = nn.ModuleList(masks(rows, width) for width in widths)
        self.layers = nn.ModuleList(
            MessageLayer(
                d_in, d_out, attention_width=attention_width, attention=attention, message=message, stream=stream
            )
            for d_in, d_out in pairwise(widths)
        )

    def forward(self, vectors: Tensor, hops: Sequence[TensorHop]) -> Tensor:
        """The last level of the users at the end of the hops, [n_K, d_K], from the initial ``vectors`` [n₀, d₀]."""
        for k, (layer, hop) in enumerate(zip(self.message_layers(), hops, strict=True)):
            masks = self._masks()[k]()
            received = layer(vectors, masks, hop)
            vectors = self._activate(received, k)
        return vectors

    @torch.no_grad()
    def infer(self, vectors: Tensor, links: Links | GraphLinks) -> list[Tensor]:
        """Every level of all users, each hearing all its neighbors: K+1 × [users, d_k]."""
        levels = [vectors]
        for k, layer in enumerate(self.message_layers()):
            received = layer.receive_all(levels[-1], self._masks()[k](), links)
            levels.append(received.relu_() if self._is_active(k) else received)
        return levels

    def clamp_masks(self) -> None:
        """Bring the real values behind the masks back into [−1, 1], after the step of an optimizer that does not."""
        for mask in self._masks():
            mask.clamp()

    def binary_masks(self) -> list[Tensor]:
        """The masks of every level, K+1 × [B, d_k]."""
        return [mask().detach() for mask in self._masks()]

    def bounded(self) -> list[nn.Parameter]:
        """The real values behind masks, which the optimizer keeps in [−1, 1]."""
        return [mask.real for mask in self.masks if isinstance(mask, BinaryMask)]

    def _masks(self) -> list[Mask]:
        return [mask for mask in self.masks if isinstance(mask, Mask)]

    def message_layers(self) -> list[MessageLayer]:
        """The layers, the first first."""
        return [layer for layer in self.layers if isinstance(layer, MessageLayer)]

    def _activate(self, received: Tensor, layer: int) -> Tensor:
        return torch.relu(received) if self._is_active(layer) else received

    def _is_active(self, layer: int) -> bool:
        """Whether a layer ends in an activation."""
        return self.last_activation or layer < len(self.layers) - 1
