"""How steps of a network over neighborhoods are drawn: on the host, or on a supported GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from mcne.errors import UsageError
from mcne.kernels.backend import MOST_NUMBERS, backend_for, block, fits_gpu, warn_once
from mcne.kernels.edges import TensorHop
from mcne.kernels.rows import Groups, group_places
from mcne.models.ranking import DotRanking, Ranked
from mcne.models.tables import to_device
from mcne.sampling.neighbors import Neighborhood, NeighborSampler

if TYPE_CHECKING:
    from mcne.models.device_sampler import DeviceSampler


def check_widths(widths: Sequence[int], samples: Sequence[int]) -> None:
    """Refuse settings that do not give every layer a sample of neighbors and a width below and above it."""
    if not samples or len(widths) != len(samples) + 1:
        raise UsageError(
            f"must have one number more than neighbor_samples, which needs at least one ({list(widths)} and "
            f"{list(samples)} given)",
            "setting widths",
            "for example, use widths=[64,64,32] with neighbor_samples=[20,20]",
            value=list(widths),
        )


@dataclass(frozen=True)
class Batch:
    """A step's inputs."""

    users: Tensor  # [n₀] users whose initial vectors are needed
    hops: tuple[TensorHop, ...]
    triples: Ranked  # of the last level's users


class NeighborhoodSteps:
    """The part of the training contract of methods whose steps are triples and the neighborhoods of their users.

    ``device_sampler`` draws them on a GPU. There is none where ``may_draw_on_gpu`` forbids it, where behaviors are
    ranked apart, where no neighbors are drawn, or where kernels cannot hold as many of them or the ``widest`` row.
    """

    items: DotRanking
    device_sampler: DeviceSampler | None = None

    def sample_neighborhoods(
        self, samples: Sequence[int], *, weighted: bool, widest: int, may_draw_on_gpu: bool = True
    ) -> None:
        """Decide how steps are drawn."""
        self._widest = widest
        can_draw = may_draw_on_gpu and bool(samples) and bool(self.items.joined) and fits_gpu(max(samples), widest)
        if can_draw and backend_for(self.items.device) == "triton":
            from mcne.models.device_sampler import DeviceSampler

            self.device_sampler = DeviceSampler(self.items, samples, weighted=weighted)
        else:
            self._neighbors = NeighborSampler(self.items.data.graph, samples, weighted=weighted)

    @property
    def is_capturable(self) -> bool:
        """Where steps are drawn on the GPU: a step is the same operations for all turns of one length."""
        return self.device_sampler is not None

    def prepare(self, epoch: int, step: int) -> Batch | Tensor:
        """Draw the triples of all behaviors and the neighborhood of their users, or say what to draw on the GPU."""
        device = self.items.device
        if self.device_sampler is not None:
            return to_device(self.device_sampler.turn(epoch, step), device)
        seeds, triples = self.items.draw_ranked(epoch, step)
        around = self._neighbors.sample(seeds, seed=self.items.seed, epoch=epoch, step=step)
        return Batch(to_device(around.users, device), hops_of(around, device, widest=self._widest), triples)

    def drawn(self, batch: Batch | Tensor) -> Batch:
        """What was prepared, drawn by now."""
        if isinstance(batch, Batch):
            return batch
        assert self.device_sampler is not None
        return Batch(*self.device_sampler.draw(batch))


def hops_of(around: Neighborhood, device: torch.device, *, widest: int) -> tuple[TensorHop, ...]:
    """The hops of a neighborhood drawn on the host; on a GPU they are grouped by sender, unless its kernels cannot hold
    as many edges or the ``widest`` row.
    """
    hops = list[TensorHop]()
    n_below = len(around.users)
    for hop in around.hops:
        samples = hop.sender.shape[1]
        arrays = [hop.receiver, hop.sender, hop.has_neighbors]
        if backend_for(device) == "triton" and fits_gpu(samples, widest):
            senders = np.where(hop.has_neighbors[:, None], hop.sender, n_below)
            order, start, stop = group_places(np.concatenate([senders.ravel(), hop.receiver]), n_below + 1)
            arrays += [order, start[:-1], stop[:-1]]  # the last is nobody
        elif backend_for(device) == "triton":
            warn_once(
                "samples",
                f"training on a GPU is slower, as its kernels do not hold {samples:,} sampled neighbors in rows of "
                f"{widest:,} numbers and plain operations take their place; they hold at most "
                f"{MOST_NUMBERS // block(widest):,} neighbors in such rows, or rows of "
                f"{MOST_NUMBERS // block(samples):,} for as many (settings neighbor_samples and widths)",
            )
        receiver, sender, known, *groups = (torch.from_numpy(each).to(device, non_blocking=True) for each in arrays)
        hops.append(TensorHop(receiver, sender, known, Groups(*groups) if groups else None))
        n_below = len(hop.receiver)
    return tuple(hops)
