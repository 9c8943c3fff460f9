"""The message-passing network of an artifact: its parameters, and its equations (Eq. 3–6) in NumPy, without torch.

It explains a link by the attention along it, and runs again with parts of the messages left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mcne.data.graph import Graph, run_starts
from mcne.embeddings.profile import Profile
from mcne.files import Arrays, check, checked

LINKS_AT_ONCE = 1 << 13

MessageKind = Literal["neighbor", "literal"]
Vectors = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Attention:
    """The attention parameters of one layer (Eq. 4): ``W_a`` for [sender, receiver], and ``h``."""

    project: NDArray[np.float32]  # [t, 2 d_k]
    score: NDArray[np.float32]  # [t]

    def __post_init__(self) -> None:
        check(self, "project", "attention projection", dtype=np.float32, shape=(len(self.score), None))
        check(self, "score", "attention score", dtype=np.float32, shape=(None,))


@dataclass(frozen=True, eq=False)
class Trunk:
    """The levels of a message-passing network of K layers, below the last.

    Mask rows are the behaviors that were learned together, in order, and "all other behaviors" last (B = C+1).
    ``attention`` is ``None`` where all of them weigh 1/B. The last level's vectors are the artifact's own.
    """

    levels: tuple[NDArray[np.float32], ...]  # K × [users, d_k]
    masks: tuple[NDArray[np.bool_], ...]  # K+1 × [B, d_k]
    attention: tuple[Attention, ...] | None  # K
    combine: tuple[NDArray[np.float32], ...]  # K × [d_{k+1}, 2 d_k], W^{k+1} of Eq. 6 for [h_N, u]
    message: MessageKind = "neighbor"
    weighted: bool = False  # whether messages count in proportion to the weights of their links
    last_activation: bool = True  # whether the last layer ends in a ReLU too
    profile: Profile | None = None  # what users' attributes add to the vectors that they start from

    def __post_init__(self) -> None:
        layers = self.levels if self.attention is None else self.attention
        if len(self.masks) != self.n_layers + 1 or len(layers) != self.n_layers:
            raise ValueError("a trunk of K levels needs K+1 levels of masks, and attention at K layers or none")
        rows = len(self.masks[0])
        widths = [masks.shape[1] for masks in self.masks]
        self._check("masks", "masks of level", np.bool_, [(rows, None) for _ in self.masks])
        self._check("levels", "vectors of level", np.float32, [(None, width) for width in widths[:-1]])
        self._check("combine", "weights of layer", np.float32, [(up, 2 * low) for low, up in pairwise(widths)])
        for k, attention in enumerate(self.attention or ()):
            if attention.project.shape[1] != 2 * self.masks[k].shape[1]:
                raise ValueError(f"attention of layer {k}: its projection must take two vectors of level {k}")
        if self.profile is not None and self.profile.weights.shape[1] != self.masks[0].shape[1]:
            raise ValueError("the vectors of attributes must be as wide as those that users start from")

    def _check(
        self, field: str, what: str, dtype: type[np.generic], shapes: Sequence[tuple[int | None, int | None]]
    ) -> None:
        """Check the arrays of a field, which has one for each level or layer."""
        arrays = zip(getattr(self, field), shapes, strict=True)
        checks = (checked(array, f"{what} {k}", dtype=dtype, shape=shape) for k, (array, shape) in enumerate(arrays))
        object.__setattr__(self, field, tuple(checks))

    @property
    def n_layers(self) -> int:
        """Layers of message passing, K."""
        return len(self.levels)

    @property
    def n_behaviors(self) -> int:
        """Behaviors learned together, C: the mask rows but the last."""
        return len(self.masks[0]) - 1

    def weights(self, layer: int, sender: NDArray[Any], receiver: NDArray[Any]) -> NDArray[np.float64]:
        """Eq. 4–5: how the B behaviors are weighed in the messages from ``sender`` [n] to ``receiver`` [n], [n, B]."""
        vectors = self.levels[layer]
        sent = self.project(layer, vectors[sender].astype(np.float64), end="sender")
        received = self.project(layer, vectors[receiver].astype(np.float64), end="receiver")
        return softmax(self.scores(layer, sent, received))

    def project(self, layer: int, vectors: NDArray[Any], *, end: Literal["sender", "receiver"]) -> NDArray[Any]:
        """Eq. 4, one half of ``W_a [u_s ⊙ m_c, u_r ⊙ m_c]`` for ``vectors`` [n, d_k] at that end of a link: [n, B, t].

        Taken literally, ``u_s`` is the receiver's own vector and ``u_r`` its neighbor's (reading 1).
        """
        masks = self.masks[layer]
        is_first = (end == "sender") == (self.message == "neighbor")
        halves = np.split(self._attention(layer).project, 2, axis=1)  # 2 × [t, d_k]
        half = halves[0 if is_first else 1]
        return np.stack([vectors @ (half * mask).T for mask in masks], axis=1)

    def scores(self, layer: int, sent: NDArray[Any], received: NDArray[Any]) -> NDArray[Any]:
        """Eq. 4, ``h^T ReLU(W_a [u_s ⊙ m_c, u_r ⊙ m_c])`` from both halves [n, B, t]: [n, B]."""
        scores: NDArray[Any] = np.maximum(sent + received, 0) @ self._attention(layer).score
        return scores

    def _attention(self, layer: int) -> Attention:
        """The parameters of Eq. 4. Without attention there are no hidden units, so that every score is 0."""
        if self.attention is not None:
            return self.attention[layer]
        return Attention(np.zeros((0, 2 * self.masks[layer].shape[1]), np.float32), np.zeros(0, np.float32))

    def meta(self) -> dict[str, Any]:
        """What the arrays do not say."""
        meta: dict[str, Any] = {"layers": self.n_layers, "attention": self.attention is not None}
        meta |= {name: getattr(self, name) for name in ("message", "weighted", "last_activation")}
        return meta if self.profile is None else meta | {"profile": self.profile.meta()}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays to store; :meth:`from_arrays` reads them back."""
        fields: dict[str, Sequence[NDArray[Any]]]
        fields = {"vectors": self.levels, "masks": self.masks, "combine": self.combine}
        fields |= {name: [getattr(layer, name) for layer in self.attention or ()] for name in ("project", "score")}
        arrays = {f"trunk.{k}.{name}": array for name, levels in fields.items() for k, array in enumerate(levels)}
        return arrays if self.profile is None else arrays | self.profile.arrays()

    @classmethod
    def from_arrays(cls, arrays: Arrays, meta: dict[str, Any]) -> Trunk:
        """Read what :meth:`arrays` and :meth:`meta` stored, without copying."""

        def stored(name: str, n: int = meta["layers"]) -> tuple[NDArray[Any], ...]:
            return tuple(arrays[f"trunk.{k}.{name}"] for k in range(n))

        return cls(
            stored("vectors"),
            stored("masks", meta["layers"] + 1),
            tuple(map(Attention, stored("project"), stored("score"))) if meta["attention"] else None,
            stored("combine"),
            meta["message"],
            meta["weighted"],
            meta["last_activation"],
            Profile.from_arrays(arrays, meta["profile"]) if "profile" in meta else None,
        )


def softmax(scores: NDArray[Any]) -> NDArray[Any]:
    """Eq. 5, over the last axis, shifted so that no exponential overflows."""
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    result: NDArray[Any] = raised / raised.sum(axis=-1, keepdims=True)
    return result


@dataclass(frozen=True, eq=False)
class Without:
    """What every layer leaves out of its messages.

    A behavior of a message: the others are weighed as if it had never existed, by a softmax of their scores. Or whole
    messages: the remaining ones share what the receiver aggregates in the same proportions.
    """

    behavior: NDArray[np.integer[Any]] | None = None  # [K, links] a row of the masks, or −1 for none
    message: NDArray[np.bool_] | None = None  # [K, links]


def levels(trunk: Trunk, graph: Graph, *, without: Without | None = None) -> list[Vectors]:
    """Every level of all users, each aggregating all its neighbors: K+1 × [users, d_k] (Eq. 3–6).

    Along link ``e`` the user ``graph.sources()[e]`` receives a message from ``graph.indices[e]``. Every user is
    projected once and links come a few at a time, so memory beside the vectors hardly grows with the network.
    """
    result = [trunk.levels[0]]
    for layer, combine in enumerate(trunk.combine):
        below = result[-1]  # [users, d_k]
        aggregated = _aggregate(trunk, graph, layer, below, without or Without())  # Eq. 3 and 5: [users, d_k]
        received: Vectors = np.concatenate([aggregated, below], axis=1) @ combine.T  # Eq. 6: [users, d_{k+1}]
        if trunk.last_activation or layer < trunk.n_layers - 1:
            np.maximum(received, 0, out=received)
        result.append(received)
    return result


def link_weights(trunk: Trunk, graph: Graph, layer: int) -> Vectors:
    """How the B behaviors are weighed along every link, [links, B]: :meth:`Trunk.weights`, for all at once."""
    weights = np.empty((graph.n_directions, len(trunk.masks[layer])), dtype=np.float32)
    for part, of_part in _weighed(trunk, graph, layer, trunk.levels[layer]):
        weights[part] = of_part
    return weights


def message_lengths(trunk: Trunk, graph: Graph, layer: int) -> Vectors:
    """The length of what every link adds to what its receiver aggregates, its share included, [links]."""
    shares = graph.shares(weighted=trunk.weighted)
    masks = trunk.masks[layer].astype(np.float32)
    vectors = trunk.levels[layer]
    content = _content(trunk, graph)
    lengths = np.empty(graph.n_directions, dtype=np.float32)
    for part, weights in _weighed(trunk, graph, layer, vectors):
        lengths[part] = np.linalg.norm(vectors[content[part]] * (weights @ masks), axis=1) * shares[part]
    return lengths


def _aggregate(trunk: Trunk, graph: Graph, layer: int, vectors: Vectors, without: Without) -> Vectors:
    """The weighted sum of the messages that every user receives, [users, d_k]."""
    masks = trunk.masks[layer].astype(np.float32)  # [B, d_k]
    receiver = graph.sources()
    content = _content(trunk, graph)
    shares = graph.shares(weighted=trunk.weighted)
    if without.message is not None:  # the shares of the others sum to 1 again wherever one is left
        left = shares * ~without.message[layer]
        total_left = np.bincount(receiver, left, minlength=graph.n_users)[receiver]
        shares = np.divide(left, total_left, out=np.zeros_like(left), where=total_left > 0)
    behavior = None if without.behavior is None else without.behavior[layer]
    total = np.zeros_like(vectors, dtype=np.float32)
    for part, weights in _weighed(trunk, graph, layer, vectors, behavior):
        messages = vectors[content[part]] * (weights @ masks) * shares[part, None].astype(np.float32)  # [n, d_k]
        starts = np.flatnonzero(run_starts(receiver[part]))
        total[receiver[part][starts]] += np.add.reduceat(messages, starts)
    return total


def _content(trunk: Trunk, graph: Graph) -> NDArray[np.int32]:
    """Whose vector each message consists of: the neighbor's, or literally the receiver's own (reading 1)."""
    return graph.sources() if trunk.message == "literal" else graph.indices


def _weighed(
    trunk: Trunk, graph: Graph, layer: int, vectors: Vectors, behavior: NDArray[np.integer[Any]] | None = None
) -> Iterator[tuple[slice, Vectors]]:
    """Eq. 4–5 along some links at a time, with the ``vectors`` of the level, without a ``behavior`` [links] of each."""
    sender, receiver = graph.indices, graph.sources()
    sent = trunk.project(layer, vectors, end="sender")  # [users, B, t]
    received = trunk.project(layer, vectors, end="receiver")
    for start in range(0, graph.n_directions, LINKS_AT_ONCE):
        part = slice(start, start + LINKS_AT_ONCE)
        scores = trunk.scores(layer, sent[sender[part]], received[receiver[part]])  # [n, B]
        if behavior is not None:
            scores = np.where(np.arange(scores.shape[1]) == behavior[part, None], -np.inf, scores)
        yield part, softmax(scores).astype(np.float32)
