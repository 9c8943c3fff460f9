"""Messages along the edges of a step, and along all links of a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from mcne.kernels.backend import Backend, backend_for, in_blocks
from mcne.kernels.rows import Groups


@dataclass(frozen=True)
class TensorHop:
    """A layer's edges on the device: see :class:`mcne.sampling.neighbors.Hop`."""

    receiver: Tensor  # [n]
    sender: Tensor  # [n, S]
    has_neighbors: Tensor  # [n] whether the senders of a receiver mean anything
    by_sender: Groups | None = None  # only for kernels on a GPU: places of such senders, then of receivers
    is_of_all: bool = False  # whether the receivers are all of the level below, in its order

    @property
    def backend(self) -> Backend:
        """Which kernels it is laid out for."""
        if self.by_sender is not None:
            return "triton"
        return backend_for(self.sender.device, fits=False) if self.sender.numel() else "torch"


def aggregate(
    vectors: Tensor, masks: Tensor, project: Tensor, score: Tensor, combine: Tensor, hop: TensorHop
) -> Tensor:
    """Eq. 3–6 before the activation as one function of compiled kernels, for a hop that has any.

    ``vectors`` [m, d], ``masks`` [B, d], ``project`` [t, 2d], ``score`` [t], ``combine`` [o, 2d] → [n, o]. The same in
    operations of PyTorch is :class:`mcne.models.mcne.MessageLayer`.
    """
    received: Tensor
    if hop.backend == "triton":
        from mcne.kernels.triton.layers import MessageLayer as OnGPU

        received = OnGPU.apply(vectors, masks, project, score, combine, hop)  # type: ignore[no-untyped-call] # as PyTorch declares it
        return received
    from mcne.kernels.numba.edges import MessageLayer as OnCPU

    received = OnCPU.apply(vectors, masks, project, score, combine, hop)  # type: ignore[no-untyped-call] # as PyTorch declares it
    return received


def aggregate_all(
    vectors: Tensor, near: Tensor, here: Tensor, score: Tensor, masks: Tensor, links: Sequence[Tensor], messages: Tensor
) -> None:
    """Add to ``messages`` [n, d] what n receivers get from all their neighbors, by compiled kernels; without gradient.

    ``links`` are ordered by receiver: where those of one begin, [n + 1], their senders, [E], and their shares, [E].
    ``vectors`` [m, d], ``near`` [m, B, t] and ``here`` [n, B, t] are both halves of the attention, ``score`` [t],
    ``masks`` [B, d]. The CPU adds link by link: links in several calls give the bytes of all at once. A GPU takes
    several at a time. The same in operations of PyTorch is in :mod:`mcne.models.inference`.
    """
    tensors = (vectors, near, here, score, masks, *links)
    if backend_for(vectors.device) == "triton":
        from mcne.kernels.triton import edges as on_gpu

        on_gpu.aggregate_all(tensors, messages)
        return
    from mcne.kernels.numba import edges as on_cpu

    arrays = tuple(each.contiguous().numpy() for each in tensors)
    out = messages.numpy()
    in_blocks(len(here), lambda start, stop, _: on_cpu.aggregate_all(arrays, out, start, stop))


def receivers_of(vectors: Tensor, hop: TensorHop) -> Tensor:
    """The receivers of a hop among ``vectors`` [m, d], [n, d]; on a GPU, any for nobody."""
    if hop.by_sender is not None:
        from mcne.kernels.triton.layers import Receivers

        own: Tensor = Receivers.apply(vectors, hop.receiver, hop.by_sender, hop.sender.numel())  # type: ignore[no-untyped-call] # as PyTorch declares it
        return own
    return vectors.index_select(0, hop.receiver)


def mean_of_senders(vectors: Tensor, hop: TensorHop) -> Tensor:
    """The mean of S neighbors' vectors [m, d], [n, d]; any for receivers without neighbors."""
    if hop.by_sender is not None:
        from mcne.kernels.triton.layers import Mean

        mean: Tensor = Mean.apply(vectors, hop.sender, hop.has_neighbors, hop.by_sender)  # type: ignore[no-untyped-call] # as PyTorch declares it
        return mean
    if vectors.device.type == "cpu":
        return functional.embedding_bag(hop.sender, vectors, mode="mean")  # never gathers what it sums up
    return vectors.index_select(0, hop.sender.flatten()).view(*hop.sender.shape, vectors.shape[1]).mean(dim=1)


def shared_sum(vectors: Tensor, first: Tensor, sender: Tensor, share: Tensor) -> Tensor:
    """The sum of all neighbors' vectors by their shares, [n, d]: zeros of none."""
    return functional.embedding_bag(sender, vectors, first[:-1], mode="sum", per_sample_weights=share.to(vectors.dtype))


def masked_halves(project: Tensor, masks: Tensor) -> tuple[Tensor, Tensor]:
    """``W diag m_c`` of both halves of ``project`` [t, 2d] and every mask of ``masks`` [B, d]: twice [B · t, d].

    Since ``W (u ⊙ m_c) = (W diag m_c) u``, a single product with all vectors projects them under every mask.
    """
    if backend_for(project.device) == "triton":
        from mcne.kernels.triton.layers import MaskedHalves

        halves: tuple[Tensor, Tensor] = MaskedHalves.apply(project, masks)  # type: ignore[no-untyped-call] # as PyTorch declares it
        return halves
    first, second = ((masks[:, None, :] * half).flatten(0, 1) for half in project.chunk(2, dim=1))
    return first, second
