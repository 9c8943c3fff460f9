"""What tests of MCNE share: weights that matter, and what a GPU drew on the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from mcne.kernels.edges import TensorHop
from mcne.models.mcne import MCNE


def enlarge(method: MCNE, factor: float) -> None:
    """Make weights and vectors large enough for every part to matter."""
    with torch.no_grad():
        for layer in method.network.message_layers():
            for weight in layer.parameters():
                weight.mul_(factor)
    for table in method.tables.tables.values():
        table.mul_(factor)


def hops_on_host(hops: Sequence[TensorHop]) -> tuple[TensorHop, ...]:
    """The hops that a GPU has drawn, as the host draws them."""
    return tuple(
        replace(
            hop,
            receiver=hop.receiver.cpu(),
            sender=hop.sender.cpu(),
            has_neighbors=hop.has_neighbors.cpu(),
            by_sender=None,
        )
        for hop in hops
    )
