"""How steps of a network over neighborhoods are drawn: on the host, or on a GPU that can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from mcne.kernels.backend import on_gpu, warn_once
from mcne.kernels.edges import TensorHop
from mcne.kernels.groups import Groups, places
from mcne.models.ranking import DotRanking, Ranked
from mcne.models.tables import to_device
from mcne.sampling.neighbors import Hop, Neighborhood, NeighborSampler

if TYPE_CHECKING:
    from mcne.models.device_sampler import DeviceSampler


@dataclass(frozen=True)
class Batch:
    """A step's inputs."""

    users: Tensor  # [n₀] users whose initial vectors are needed
    hops: tuple[TensorHop, ...]
    triples: Ranked  # of the last level's users


class Neighborhoods:
    """The triples of all behaviors and the neighborhood of their users, step by step.

    ``device_sampler`` draws them on a GPU. There is none where ``is_drawn_there`` forbids it, where behaviors are
    ranked apart, where no neighbors are drawn, or where a kernel takes neither as many of them nor the ``widest`` row.
    """

    def __init__(
        self,
        items: DotRanking,
        samples: Sequence[int],
        *,
        weighted: bool,
        widest: int,
        is_drawn_there: bool = True,
    ) -> None:
        self._items, self._widest = items, widest
        self.device_sampler: DeviceSampler | None = None
        is_on_gpu = on_gpu("triton.draws", items.device) is not None
        is_drawn_there = is_drawn_there and bool(samples) and bool(items.joined)
        if is_on_gpu and is_drawn_there and _fits(samples, widest):
            from mcne.models.device_sampler import DeviceSampler

            self.device_sampler = DeviceSampler(
                *(items.data.graph, items.data.pairs),
                n_items=items.data.n_items,
                neighbor_samples=samples,
                weighted=weighted,
                negatives=items.negatives,
                batch_size=items.batch_size,
                seed=items.seed,
                device=items.device,
            )
        else:
            self._neighbors = NeighborSampler(items.data.graph, samples, weighted=weighted)

    @property
    def is_capturable(self) -> bool:
        """Where steps are drawn on the GPU, a step is the same operations for all turns of one length."""
        return self.device_sampler is not None

    def prepare(self, epoch: int, step: int) -> Batch | Tensor:
        """Draw a step, or say what to draw on the GPU."""
        device = self._items.device
        if self.device_sampler is not None:
            return to_device(self.device_sampler.turn(epoch, step), device)
        seeds, triples = self._items.draw_ranked(epoch, step)
        around = self._neighbors.sample(seeds, seed=self._items.seed, epoch=epoch, step=step)
        return Batch(to_device(around.users, device), hops_of(around, device, widest=self._widest), triples)

    def drawn(self, batch: Batch | Tensor) -> Batch:
        """What was prepared, drawn by now."""
        if isinstance(batch, Batch):
            return batch
        assert self.device_sampler is not None
        return Batch(*self.device_sampler.draw(batch))


def _fits(samples: Sequence[int], widest: int) -> bool:
    """Whether kernels for GPUs hold as many samples in rows as wide."""
    from mcne.kernels.triton.edges import fits

    return fits(samples, widest)


def hops_of(around: Neighborhood, device: torch.device, *, widest: int) -> tuple[TensorHop, ...]:
    """The hops of a neighborhood that was drawn on the host; on a GPU grouped by sender, if a kernel takes as many
    edges and the ``widest`` row."""
    there, hops, below = on_gpu("triton.edges", device), list[TensorHop](), len(around.users)
    for hop in around.hops:
        is_grouped = there is not None and there.fits(hop.sender.shape[1:], widest)
        if there is not None and not is_grouped:
            _warn_of_plain_operations(there, hop.sender.shape[1], widest)
        hops.append(hop_of(hop, device, by_sender_of=below if is_grouped else None))
        below = len(hop.receiver)
    return tuple(hops)


def _warn_of_plain_operations(kernels: ModuleType, samples: int, widest: int) -> None:
    at_width, with_samples = (kernels.MOST_NUMBERS // kernels.block(each) for each in (widest, samples))
    warn_once(
        "samples",
        f"training on a GPU is slower, as its kernels do not hold {samples:,} sampled neighbors in rows of {widest:,} "
        f"numbers and plain operations take their place; they hold at most {at_width:,} neighbors in such rows, or "
        f"rows of {with_samples:,} for as many (settings neighbor_samples and widths)",
    )


def hop_of(hop: Hop, device: torch.device, *, by_sender_of: int | None = None) -> TensorHop:
    """A hop that was drawn on the host, grouped by sender if told of how many users the level below is."""
    arrays = [hop.receiver, hop.sender, hop.heard]
    if by_sender_of is not None:
        heard_of = np.where(hop.heard[:, None], hop.sender, by_sender_of)
        order, start, stop = places(np.concatenate([heard_of.ravel(), hop.receiver]), by_sender_of + 1)
        arrays += [order, start[:-1], stop[:-1]]  # the last is nobody
    receiver, sender, heard, *groups = (torch.from_numpy(each).to(device, non_blocking=True) for each in arrays)
    return TensorHop(receiver, sender, heard, Groups(*groups) if groups else None)
