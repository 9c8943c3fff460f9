"""How messages were weighed: what is kept of a message-passing network to explain a link."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mcne.embeddings.arrays import checked
from mcne.embeddings.profile import Profile
from mcne.files import Arrays

MessageKind = Literal["neighbor", "literal"]


@dataclass(frozen=True, eq=False)
class Attention:
    """The attention parameters of one layer (Eq. 4): ``W_a`` for [sender, receiver], and ``h``."""

    project: NDArray[np.float32]  # [t, 2 d_k]
    score: NDArray[np.float32]  # [t]

    def __post_init__(self) -> None:
        shape = (len(self.score), None)
        for field, array in (
            ("project", checked(self.project, "attention projection", dtype=np.float32, shape=shape)),
            ("score", checked(self.score, "attention score", dtype=np.float32, shape=(None,))),
        ):
            object.__setattr__(self, field, array)


@dataclass(frozen=True, eq=False)
class Trunk:
    """The levels of a message-passing network of K layers, below the last.

    Mask rows are the behaviors that were learned together, in order, and "all other behaviors" last (B = C+1).
    ``attention`` is ``None`` where all of them weigh 1/B. The last level's vectors are the artifact's own.
    ``combine`` makes a level of what is heard and of the level below; without it, in artifacts of before it was kept,
    no other behavior and no other user can be brought in.
    """

    levels: tuple[NDArray[np.float32], ...]  # K × [users, d_k]
    masks: tuple[NDArray[np.bool_], ...]  # K+1 × [B, d_k]
    attention: tuple[Attention, ...] | None  # K
    message: MessageKind = "neighbor"
    weighted: bool = False  # whether a receiver hears its neighbors in proportion to the weights of the links
    combine: tuple[NDArray[np.float32], ...] | None = None  # K × [d_{k+1}, 2 d_k], W^{k+1} of Eq. 6 for [h_N, u]
    last_activation: bool = True  # whether the last layer ends in a ReLU too
    profile: Profile | None = None  # what users' attributes add to the vectors that they start from

    def __post_init__(self) -> None:
        layers = self.levels if self.attention is None else self.attention
        if len(self.masks) != self.n_layers + 1 or len(layers) != self.n_layers:
            raise ValueError("a trunk of K levels needs K+1 levels of masks, and attention at K layers or none")
        rows = len(self.masks[0])
        masks = (
            checked(m, f"masks of level {k}", dtype=np.bool_, shape=(rows, None)) for k, m in enumerate(self.masks)
        )
        object.__setattr__(self, "masks", tuple(masks))
        levels = (
            checked(level, f"vectors of level {k}", dtype=np.float32, shape=(None, self.masks[k].shape[1]))
            for k, level in enumerate(self.levels)
        )
        object.__setattr__(self, "levels", tuple(levels))
        if self.combine is not None:
            shapes = [(upper.shape[1], 2 * lower.shape[1]) for lower, upper in pairwise(self.masks)]
            combine = (
                checked(weights, f"weights of layer {k}", dtype=np.float32, shape=shape)
                for k, (weights, shape) in enumerate(zip(self.combine, shapes, strict=True))
            )
            object.__setattr__(self, "combine", tuple(combine))
        for k, attention in enumerate(self.attention or ()):
            if attention.project.shape[1] != 2 * self.masks[k].shape[1]:
                raise ValueError(f"attention of layer {k}: its projection must take two vectors of level {k}")

        if self.profile is not None and self.profile.weights.shape[1] != self.masks[0].shape[1]:
            raise ValueError("the vectors of attributes must be as wide as those that users start from")

    @property
    def n_layers(self) -> int:
        """Layers of message passing, K."""
        return len(self.levels)

    @property
    def n_behaviors(self) -> int:
        """Behaviors learned together, C: the mask rows but the last."""
        return len(self.masks[0]) - 1

    def weights(self, layer: int, sender: NDArray[Any], receiver: NDArray[Any]) -> NDArray[np.float64]:
        """Eq. 4–5: how the B behaviors are weighed in the messages from ``sender`` [n] to ``receiver`` [n], [n, B].

        ``softmax_c h^T ReLU(W_a [u_s ⊙ m_c, u_r ⊙ m_c])``; taken literally, ``u_s`` is the receiver's own vector and
        ``u_r`` its neighbor's (reading 1).
        """
        masks, vectors = self.masks[layer], self.levels[layer]
        if self.attention is None:
            return np.full((len(sender), len(masks)), 1 / len(masks))
        first, second = (receiver, sender) if self.message == "literal" else (sender, receiver)
        pair = [vectors[rows].astype(np.float64)[:, None, :] * masks for rows in (first, second)]  # 2 × [n, B, d]
        hidden = np.maximum(np.concatenate(pair, axis=2) @ self.attention[layer].project.T, 0)  # [n, B, t]
        return _softmax(hidden @ self.attention[layer].score)

    def meta(self) -> dict[str, Any]:
        """What the arrays do not say."""
        said = {
            "layers": self.n_layers,
            "attention": self.attention is not None,
            "message": self.message,
            "weighted": self.weighted,
            "last_activation": self.last_activation,
        }
        return said if self.profile is None else said | {"profile": self.profile.meta()}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays to store; :meth:`from_arrays` reads them back."""
        arrays: dict[str, NDArray[Any]] = {f"trunk.{k}.vectors": level for k, level in enumerate(self.levels)}
        arrays |= {f"trunk.{k}.masks": masks for k, masks in enumerate(self.masks)}
        for k, attention in enumerate(self.attention or ()):
            arrays |= {f"trunk.{k}.project": attention.project, f"trunk.{k}.score": attention.score}
        arrays |= {f"trunk.{k}.combine": weights for k, weights in enumerate(self.combine or ())}
        return arrays if self.profile is None else arrays | self.profile.arrays()

    @classmethod
    def from_arrays(cls, arrays: Arrays, meta: dict[str, Any]) -> Trunk:
        """Read what :meth:`arrays` and :meth:`meta` stored, without copying."""
        layers = range(meta["layers"])
        attention = None
        if meta["attention"]:
            attention = tuple(Attention(arrays[f"trunk.{k}.project"], arrays[f"trunk.{k}.score"]) for k in layers)
        return cls(
            tuple(arrays[f"trunk.{k}.vectors"] for k in layers),
            tuple(arrays[f"trunk.{k}.masks"] for k in range(len(layers) + 1)),
            attention,
            meta["message"],
            meta["weighted"],
            tuple(arrays[f"trunk.{k}.combine"] for k in layers) if "trunk.0.combine" in arrays else None,
            meta.get("last_activation", True),
            Profile.from_arrays(arrays, meta["profile"]) if "profile" in meta else None,
        )


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Over the last axis, shifted so that no exponential overflows."""
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    result: NDArray[np.float64] = raised / raised.sum(axis=-1, keepdims=True)
    return result
