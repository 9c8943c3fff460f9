"""MCNE: multiple conditional network embedding. The model from Eq. 1 to Eq. 8, then its training.

Legend: C behaviors; B = C+1 mask rows, the last for "all other behaviors" (reading 3); K layers and K+1 levels of
masks (reading 2); d_k the width of level k, t that of the attention; n receivers, S neighbors each, m users below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn

from mcne.data.dataset import SocialDataset
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.ranking import Scorer
from mcne.embeddings.trunk import MessageKind
from mcne.kernels.edges import TensorHop, aggregate, masked_halves, mean_of_senders, receivers_of
from mcne.kernels.products import gated, weighed
from mcne.kernels.triples import parameter_l2
from mcne.models.contract import StepLoss, TrainingData
from mcne.models.inference import graph_links, infer, trunk_of
from mcne.models.neighborhoods import Batch, NeighborhoodSteps, check_widths
from mcne.models.optimizer import DenseAdam
from mcne.models.ranking import VectorLearner, step_loss
from mcne.models.settings import Amount, Count, Rate
from mcne.models.tables import normal_parameter, take, to_numpy
from mcne.randomness import Stream


@dataclass(frozen=True)
class MCNEConfig:
    """Settings of the model: the paper's where it states them, and for the rest those of docs/paper-to-code.md.

    ``l2`` is not the paper's 1e-4, which is too weak in either form (reading 8).
    """

    widths: tuple[Count, ...] = (256, 128, 100)
    neighbor_samples: tuple[Count, ...] = (20, 20)
    attention_width: Count = 64
    message: MessageKind = "neighbor"
    last_activation: bool = True
    weighted_neighbors: bool = False
    negatives: Count = 5
    batch_size: Count = 128
    learning_rate: Rate = 0.003
    l2: Amount = 0.001
    l2_form: Literal["scored", "parameters"] = "scored"

    def __post_init__(self) -> None:
        check_widths(self.widths, self.neighbor_samples)


# --- Eq. 1–2: masks ---


class _Threshold(torch.autograd.Function):
    """``1[real ≥ 0]`` forward; backward the gradient of the binary value goes to the real one unchanged."""

    @staticmethod
    def forward(ctx: object, real: Tensor) -> Tensor:
        return torch.ge(real, 0, out=torch.empty_like(real))

    @staticmethod
    def backward(ctx: object, *gradients: Tensor) -> Tensor:
        return gradients[0]


Mask = nn.Module
"""The masks ``m_c`` of a level, a row per behavior, [B, d_k]; Eq. 2: conditional vectors are ``u|c = u ⊙ m_c``."""


class BinaryMask(nn.Module):
    """Learnable masks: real values behind a threshold, ``m_c = 1[M_c ≥ 0]`` (Eq. 1).

    Drawn from U(−0.5, 0.5). The optimizer keeps them in [−1, 1]; further out they could hardly flip back.
    """

    def __init__(self, rows: int, width: int, *, stream: Stream) -> None:
        super().__init__()
        drawn = torch.from_numpy(stream.uniform((rows, width)) - 0.5)
        self.real = nn.Parameter(drawn.to(torch.get_default_dtype()))

    def forward(self) -> Tensor:
        """The binary masks, [B, d_k]."""
        binary: Tensor = _Threshold.apply(self.real)  # type: ignore[no-untyped-call] # as PyTorch declares it
        return binary


# --- Eq. 3–5: messages with attention ---


def attention(sender: Tensor, receiver: Tensor, score: Tensor) -> Tensor:
    """Eq. 4–5: ``a_c = softmax_c h^T ReLU(W_a [u_s|c, u_r|c])``, how the behaviors are weighed along links.

    ``sender`` [..., B, t] and ``receiver`` [..., B, t] are the two halves of ``W_a [u_s|c, u_r|c]``, which broadcast
    against each other, ``score`` [t] is ``h``. Returns [..., B], summing to 1 over the behaviors.
    """
    return torch.softmax(torch.relu(sender + receiver) @ score, dim=-1)


def mean_message(weights: Tensor, sent: Tensor, masks: Tensor) -> Tensor:
    """Eq. 3 and the mean of Eq. 6: the mean over S neighbors of ``Σ_c a_c (u ⊙ m_c)``.

    Conditional vectors are never formed, since ``Σ_c a_c (u ⊙ m_c) = Σ_c m_c ⊙ (a_c u)``. ``weights`` [n, S, B],
    ``sent`` [n, S, d] (the unmasked vectors of the senders), ``masks`` [B, d] → [n, d].
    """
    per_behavior = torch.bmm(weights.transpose(1, 2), sent) / sent.shape[1]  # [n, B, d]
    return (per_behavior * masks).sum(dim=1)


class MessageLayer(nn.Module):
    """Eq. 3–6: vectors of width ``d_in`` to vectors of width ``d_out``, before the activation.

    Without an ``attention_width`` all behaviors weigh 1/B (readings 13, 14). The message is what the *neighbor* sends
    (reading 1); ``message="literal"`` takes the paper's indices as printed: a user receives its own vector, weighed by
    its neighbors.
    """

    weigh = staticmethod(attention)

    def __init__(self, d_in: int, d_out: int, *, attention_width: int, message: MessageKind, stream: Stream) -> None:
        super().__init__()
        self.message, self.is_literal = message, message == "literal"
        self.combine = normal_parameter((d_out, 2 * d_in), stream)  # W^{k+1}, for [h_N, u]
        self.project: nn.Parameter | None = None
        self.score: nn.Parameter | None = None
        if attention_width:
            self.project = normal_parameter((attention_width, 2 * d_in), stream)  # W_a^k, for [sender, receiver]
            self.score = normal_parameter((attention_width,), stream)  # h^k

    def forward(self, vectors: Tensor, masks: Tensor, hop: TensorHop) -> Tensor:
        """``vectors`` [m, d_in], ``masks`` [B, d_in], a hop to n receivers with S neighbors each → [n, d_out]."""
        if self.project is not None and self.score is not None and not self.is_literal and hop.backend != "torch":
            return aggregate(vectors, masks, self.project, self.score, self.combine, hop)  # as below, in one function
        own = receivers_of(vectors, hop)  # [n, d_in]
        messages = self.messages(vectors, own, masks, hop)
        return self.receive(messages * hop.has_neighbors[:, None], own)

    def messages(self, vectors: Tensor, own: Tensor, masks: Tensor, hop: TensorHop) -> Tensor:
        """Eq. 3–5 and the mean of Eq. 6: what the receivers get, [n, d_in]; anything where they have no neighbors."""
        if self.score is None:
            return gated(own if self.is_literal else mean_of_senders(vectors, hop), masks.mean(dim=0))
        of_sender, of_receiver = self.projections(masks)
        near, here = self.project_all(vectors, of_sender), self.project_all(own, of_receiver)
        weights = attention(take(near, hop.sender), here[:, None], self.score)  # [n, S, B]
        if self.is_literal:
            return own * weighed(weights.mean(dim=1), masks.T)
        return mean_message(weights, take(vectors, hop.sender), masks)

    def projections(self, masks: Tensor) -> tuple[Tensor, Tensor]:
        """The halves of ``W_a`` for neighbors and receivers (literally, these send) under every mask, [B · t, d_in]."""
        assert self.project is not None
        first, second = masked_halves(self.project, masks)
        return (second, first) if self.is_literal else (first, second)

    def project_all(self, users: Tensor, weights: Tensor) -> Tensor:
        """A half of ``W_a [u_s|c, u_r|c]``, each user once per behavior: [users, B, t]."""
        assert self.score is not None
        return weighed(users, weights).view(len(users), len(weights) // len(self.score), len(self.score))

    def receive(self, messages: Tensor, own: Tensor) -> Tensor:
        """Eq. 6 before its activation: ``W [h_N, u]``, [n, d_out], from the mean of messages and one's own vector."""
        return weighed(torch.cat([messages, own], dim=1), self.combine)


# --- the network ---


class ConditionalNetwork(nn.Module):
    """Eq. 1–6 for K layers: from initial vectors to the last level, whose masked vectors are the conditional ones.

    ``masks`` makes the masks of a level, given B and its width; before the weights, so both may draw from one stream.
    """

    def __init__(
        self,
        rows: int,
        widths: Sequence[int],
        *,
        attention_width: int = 0,
        masks: Callable[[int, int], Mask],
        message: MessageKind,
        last_activation: bool,
        stream: Stream,
    ) -> None:
        super().__init__()
        self.last_activation = last_activation
        self.masks = nn.ModuleList(masks(rows, width) for width in widths)
        self.layers = nn.ModuleList(
            MessageLayer(*pair, attention_width=attention_width, message=message, stream=stream)
            for pair in pairwise(widths)
        )

    def forward(self, vectors: Tensor, hops: Sequence[TensorHop]) -> Tensor:
        """The last level of the users at the end of the hops, [n_K, d_K], from the initial ``vectors`` [n₀, d₀]."""
        for k, (layer, hop) in enumerate(zip(self.layers, hops, strict=True)):
            received = layer(vectors, self.masks[k](), hop)  # [n_{k+1}, d_{k+1}]
            vectors = torch.relu(received) if self.is_active(k) else received  # ACT of Eq. 6
        return vectors

    def binary_masks(self) -> list[Tensor]:
        """The masks of every level, K+1 × [B, d_k]."""
        return [mask().detach() for mask in self.masks]

    def bounded(self) -> list[nn.Parameter]:
        """The real values behind binary masks, which the optimizer keeps in [−1, 1]."""
        return [mask.real for mask in self.masks if type(mask) is BinaryMask]

    def message_layers(self) -> list[MessageLayer]:
        """The layers, the first first."""
        return [layer for layer in self.layers if isinstance(layer, MessageLayer)]

    def is_active(self, layer: int) -> bool:
        """Whether a layer ends in an activation."""
        return self.last_activation or layer < len(self.layers) - 1


# --- Eq. 7–8: loss, and the training ---


class MCNE(NeighborhoodSteps, VectorLearner):
    """The paper's model behind the training contract."""

    attention = True
    may_draw_on_gpu = True
    config: MCNEConfig
    network: ConditionalNetwork
    adam: DenseAdam

    def __init__(self, data: TrainingData, config: MCNEConfig, *, seed: int, device: torch.device) -> None:
        super().__init__(data, config, widths=config.widths, bias=False, seed=seed, device=device)
        stream = Stream(seed, "initialize", "network")
        self.network = ConditionalNetwork(
            len(data.names) + 1,
            config.widths,
            attention_width=config.attention_width if self.attention else 0,
            masks=self.masks(stream),
            message=config.message,
            last_activation=config.last_activation,
            stream=stream,
        ).to(device)
        self.sample_neighborhoods(
            config.neighbor_samples,
            weighted=config.weighted_neighbors,
            widest=max(*config.widths, config.attention_width, len(data.names) + 1),
            may_draw_on_gpu=self.may_draw_on_gpu and config.l2_form == "scored",  # else all learns in every step
        )
        self._links = graph_links(data.graph, weighted=config.weighted_neighbors, device=device)
        rate = config.learning_rate
        self.adam = DenseAdam(self.network.parameters(), learning_rate=rate, bounded=self.network.bounded())

    def masks(self, stream: Stream) -> Callable[[int, int], Mask]:
        """How the masks of a level are made, from their number and width."""
        return partial(BinaryMask, stream=stream)

    def initial(self, users: Tensor) -> Tensor:
        """The vectors that distinct users start from, [n, d₀], which learn in this step."""
        return self._rows("users", users)

    def all_initial(self, *, for_good: bool = False) -> Tensor:
        """Those of all users; ``for_good`` they never change again."""
        return self.tables.given_away("users") if for_good else self.tables.tables["users"]

    def loss(self, batch: Batch | Tensor) -> StepLoss:
        """Eq. 8: the mean over behaviors of Eq. 7, ``−ln σ(⟨u_i|c, z_p⟩ − ⟨u_i|c, z_n⟩)``, plus L2 (reading 8)."""
        self.tables.forget()
        batch = self.drawn(batch)
        last = self.network(self.initial(batch.users), batch.hops)  # [n_K, d_K], before the last mask
        masks = self.network.masks[-1]()  # [C + 1, d_K], of which the last is no behavior's
        ranking, penalty = self.items.loss(self._rows, batch.triples, last, masks)  # Eq. 7 of each behavior, [C]
        if self.config.l2_form == "parameters":
            penalty = parameter_l2([*self.network.parameters(), *self.tables.touched()])
        return step_loss(ranking, self.config.l2 * penalty, batch.triples)

    def vitals(self) -> dict[str, float]:
        """The density of the masks at each level, and how often an entry has turned over since the start."""
        density = {f"mask_density_{k}": float(mask.mean()) for k, mask in enumerate(self.network.binary_masks())}
        return density | {"mask_flips": float(self.adam.turned)}

    def levels(self) -> list[Tensor]:
        """Every level of all users, receiving from all their neighbors (reading 11): K+1 × [users, d_k]."""
        return infer(self.network, self.all_initial(), self._links)

    def scorer(self) -> Scorer:
        """Users by the last level under each behavior's mask, items by their tables."""
        masks = to_numpy(self.network.binary_masks()[-1]).astype(bool)
        return self.items.scorer(self.tables.tables, self.levels()[-1], masks[:-1])

    def embeddings(self, dataset: SocialDataset, provenance: Mapping[str, Any]) -> ConditionalEmbeddings:
        """The artifact, with the levels and the attention that explain a link."""
        _, *between, last = self.levels()
        levels = [self.all_initial(for_good=True), *between]
        trunk = trunk_of(self.network, levels, weighted=self.config.weighted_neighbors)
        return self.items.embeddings(self.tables.tables, last, dataset=dataset, provenance=provenance, trunk=trunk)

    def _rows(self, table: str, rows: Tensor) -> Tensor:
        """Rows of a table that learn in this step. Where L2 is on all parameters, all rows learn in every step."""
        if self.config.l2_form == "scored":
            return self.tables.rows(table, rows)
        return self.tables.rows(table, torch.arange(len(self.tables.whole[table]), device=self.device))[rows]
