"""How steps of a network over neighborhoods are drawn: on the host, or on a GPU that can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from mcne.kernels.backend import on_gpu
from mcne.kernels.edges import TensorHop, hops_of
from mcne.layers.tensors import to_device
from mcne.methods.dot_ranking import DotRanking, Ranked
from mcne.sampling.neighbors import NeighborSampler

if TYPE_CHECKING:
    from mcne.kernels.draws import DeviceSampler


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
        module = on_gpu("draws", items.device)
        is_drawn_there = is_drawn_there and bool(samples) and bool(items.joined)
        if module is not None and is_drawn_there and module.fits(samples, widest):
            self.device_sampler = module.DeviceSampler(
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
