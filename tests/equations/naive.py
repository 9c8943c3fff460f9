"""The whole model as the paper prints it, with the numbered readings of docs/paper-to-code.md, and nothing saved.

Loops over users, links and behaviors; every conditional vector is formed; nothing is shared between two paths. Every
function is one equation. The fast model is compared with this one, in value and in gradient.

Legend: ``u`` [d] the vector of a user, ``B`` = C+1 mask rows (the last stands for all other behaviors), ``i`` who
receives, ``j`` a neighbor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Literal

import torch
from torch import Tensor

from mcne.kernels.edges import TensorHop
from mcne.models.mcne import BinaryMask, ConditionalNetwork

Hearing = tuple[int, list[int]]  # who receives, and the neighbors it hears, as rows of the level below
Triple = tuple[int, int, int]  # i, p and n: a user, an item that it has touched, one that it has not


# --- Eq. 1–2: masks ---


def binary_mask(real: Tensor) -> Tensor:
    """Eq. 1, ``1[M_r ≥ 0]``; the gradient of the binary value is that of the real one (real − real is 0, exactly)."""
    return real - real.detach() + torch.tensor([[1.0 if x >= 0 else 0.0 for x in row] for row in real.tolist()])


def fixed_mask(rows: int, width: int) -> Tensor:
    """Reading 14: dimension ``j`` belongs to the behavior ``c`` with ⌊c·d/B⌋ ≤ j < ⌊(c+1)·d/B⌋."""
    mask = torch.zeros(rows, width)
    for c in range(rows):
        for j in range(width):
            if floor(Fraction(c * width, rows)) <= j < floor(Fraction((c + 1) * width, rows)):
                mask[c, j] = 1.0
    return mask


def conditional(u: Tensor, mask: Tensor) -> Tensor:
    """Eq. 2: ``u_i|c``, from the vector and one row of the mask."""
    return u * mask


# --- Eq. 3–5: sending ---


def message(weights: Sequence[Tensor], conditionals: Sequence[Tensor]) -> Tensor:
    """Eq. 3: ``Σ_c a_c u_|c``."""
    total = torch.zeros_like(conditionals[0])
    for a, u in zip(weights, conditionals, strict=True):
        total = total + a * u
    return total


def attention_score(first: Tensor, second: Tensor, *, project: Tensor, score: Tensor) -> Tensor:
    """Eq. 4: ``h^T ReLU(W_a [first, second])`` with ``W_a`` = ``project``, ``h`` = ``score``."""
    hidden = project @ torch.cat([first, second])
    return score @ torch.where(hidden > 0, hidden, torch.zeros_like(hidden))


def normalize(scores: Sequence[Tensor]) -> list[Tensor]:
    """Eq. 5: softmax."""
    total = torch.stack([torch.exp(score) for score in scores]).sum()
    return [torch.exp(score) / total for score in scores]


# --- Eq. 6: receiving ---


def average(messages: Sequence[Tensor], width: int) -> Tensor:
    """Eq. 6, AGGR: the mean, and nothing from nobody."""
    total = torch.zeros(width)
    for heard in messages:
        total = total + heard
    return total / max(1, len(messages))


def combine(heard: Tensor, own: Tensor, *, weight: Tensor, activation: bool) -> Tensor:
    """Eq. 6: ``ACT(W [h_N, u])`` with ``W`` = ``weight``."""
    x = weight @ torch.cat([heard, own])
    return torch.where(x > 0, x, torch.zeros_like(x)) if activation else x


# --- Eq. 7–8: loss ---


def ranking_loss(users: Sequence[Tensor], items: Tensor, triples: Sequence[Triple]) -> Tensor:
    """Eq. 7 without L2, ``−ln σ(u z_p − u z_n)``, averaged over triples (reading 8); ``users`` are conditional."""
    losses = [-torch.log(torch.sigmoid(users[i] @ items[p] - users[i] @ items[n])) for i, p, n in triples]
    return torch.stack(losses).sum() / len(triples)


def scored_l2(users: Sequence[Tensor], items: Tensor, triples: Sequence[Triple]) -> Tensor:
    """Reading 8, ``scored``: the squares of what a triple scores, averaged exactly like the loss."""
    squares = [squared(users[i]) + squared(items[p]) + squared(items[n]) for i, p, n in triples]
    return torch.stack(squares).sum() / len(triples)


def multi_task_loss(losses: Sequence[Tensor], penalty: Tensor, *, l2: float) -> Tensor:
    """Eq. 8: the mean over behaviors, plus ``λ‖Θ‖²``."""
    return torch.stack(list(losses)).sum() / len(losses) + l2 * penalty


def squared(parameter: Tensor) -> Tensor:
    """‖θ‖²."""
    return torch.stack([x * x for x in parameter.flatten()]).sum()


# --- the model ---


@dataclass(frozen=True)
class Layer:
    """The weights of one layer; without attention all behaviors weigh the same (readings 13, 14)."""

    combine: Tensor  # W, [d_out, 2 d_in]
    project: Tensor | None  # W_a, [t, 2 d_in]
    score: Tensor | None  # h, [t]


@dataclass(frozen=True)
class Model:
    """Masks of K+1 levels, K layers (reading 2)."""

    masks: tuple[Tensor, ...]  # K+1 × [B, d_k], binary
    layers: tuple[Layer, ...]  # K
    message: Literal["neighbor", "literal"] = "neighbor"
    last_activation: bool = True

    def attention(self, k: int, j: Tensor, i: Tensor) -> list[Tensor]:
        """Eq. 4–5 on the link over which ``i`` hears ``j``; the sender comes first (reading 1)."""
        mask = self.masks[k]
        layer = self.layers[k]
        if layer.project is None or layer.score is None:
            return [torch.tensor(1.0 / len(mask))] * len(mask)
        sender, receiver = (i, j) if self.message == "literal" else (j, i)
        pairs = [(conditional(sender, m), conditional(receiver, m)) for m in mask]
        return normalize([attention_score(*pair, project=layer.project, score=layer.score) for pair in pairs])

    def send(self, k: int, j: Tensor, i: Tensor) -> Tensor:
        """Eq. 3: what ``i`` hears from ``j``; taken literally, itself."""
        sender = i if self.message == "literal" else j
        return message(self.attention(k, j, i), [conditional(sender, m) for m in self.masks[k]])

    def receive(self, k: int, below: Sequence[Tensor], hearing: Hearing) -> Tensor:
        """Eq. 6: the vector of one user on the level above."""
        i, neighbors = hearing
        heard = average([self.send(k, below[j], below[i]) for j in neighbors], len(below[i]))
        is_last = k == len(self.layers) - 1
        return combine(heard, below[i], weight=self.layers[k].combine, activation=self.last_activation or not is_last)

    def levels(self, initial: Sequence[Tensor], hops: Sequence[Sequence[Hearing]]) -> list[list[Tensor]]:
        """Every level, from the initial vectors; ``hops[k]`` says who hears whom on the way to level k+1."""
        levels = [list(initial)]
        for k, hop in enumerate(hops):
            levels.append([self.receive(k, levels[-1], hearing) for hearing in hop])
        return levels


def model_of(network: ConditionalNetwork) -> Model:
    """The naive model on the very parameters of a network; fixed masks are made anew, from their definition."""
    masks = tuple(
        binary_mask(mask.real) if isinstance(mask, BinaryMask) else fixed_mask(*mask().shape) for mask in network.masks
    )
    layers = tuple(Layer(layer.combine, layer.project, layer.score) for layer in network.message_layers())
    return Model(masks, layers, network.message_layers()[0].message, network.last_activation)


def hearings(hop: TensorHop) -> list[Hearing]:
    """Who hears whom in a sampled hop."""
    rows = zip(hop.receiver.tolist(), hop.sender.tolist(), hop.has_neighbors.tolist(), strict=True)
    return [(i, neighbors if heard else []) for i, neighbors, heard in rows]


def everyone(neighbors: Sequence[Sequence[int]]) -> list[Hearing]:
    """Every user hears all its neighbors (reading 11)."""
    return [(i, list(heard)) for i, heard in enumerate(neighbors)]
