"""What the vectors of users are sums of, in a method where they are: then every score is a sum over its reasons.

    u_i = e_i + γ_h Σ_{t ∈ records of i} y_t / √n_i + γ_f mean_{j ∈ friends of i} e_j + Σ_a w_a

It is all that is needed to compute a vector anew without training, as :mod:`mcne.embeddings.reasons` does when a record
or a friend is taken away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.data.behavior import Attribute
from mcne.embeddings.profile import Profile
from mcne.files import Arrays, check, freeze

Vectors = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Records:
    """A behavior's part of the history: ``y`` of every item, and which of the seen items were training records."""

    vectors: Vectors  # [items, d]
    counted: NDArray[np.bool_]  # [seen], as BehaviorSpace.seen_items

    def __post_init__(self) -> None:
        check(self, "vectors", "vectors of records", dtype=np.float32, shape=(None, None))
        freeze(self, "counted")


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts that are added up, and their weights; 0 where there is no such part."""

    own: Vectors  # [users, d] e
    records: tuple[Records, ...]  # of every behavior
    history: float  # γ_h
    friends: float  # γ_f
    profile: Profile | None = None  # of users with attributes
    features: tuple[NDArray[np.int64], Vectors] | None = None  # [users, p] of every user, and their amounts

    def __post_init__(self) -> None:
        check(self, "own", "own vectors", dtype=np.float32, shape=(None, None))

    @classmethod
    def of(
        cls,
        own: Vectors,
        records: tuple[Records, ...],
        *,
        history: float,
        friends: float,
        profile: Profile | None,
        attributes: Mapping[str, Attribute],
    ) -> Parts:
        """The parts of a trained method whose users have these ``attributes``, by name."""
        features = None if profile is None else profile.encoding.encode(attributes, len(own))
        return cls(own, records, history, friends, profile, features)

    def validate(self, sizes: Sequence[tuple[int, int]], n_users: int, width: int) -> None:
        """Raise ``ValueError`` unless the parts fit users, dimensions, and behaviors of so many seen and all items."""
        if self.own.shape != (n_users, width) or len(self.records) != len(sizes):
            raise ValueError(f"parts of {self.own.shape[0]} users and {len(self.records)} behaviors do not fit")
        for each, (n_seen, n_items) in zip(self.records, sizes, strict=True):
            if each.counted.shape != (n_seen,) or each.counted.dtype != np.bool_:
                raise ValueError("parts: every seen item either counts as a record or does not")
            if each.vectors.shape != (n_items, width if self.history else 0):
                raise ValueError("parts: every item needs a vector as a record")

    def meta(self) -> dict[str, Any]:
        """What the arrays do not say."""
        profile = None if self.profile is None else self.profile.meta()
        return {"history": self.history, "friends": self.friends, "profile": profile}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays to store; :meth:`from_arrays` reads them back."""
        arrays: dict[str, NDArray[Any]] = {"parts.own": self.own}
        for k, each in enumerate(self.records):
            arrays |= {f"parts.{k}.vectors": each.vectors, f"parts.{k}.counted": each.counted}
        if self.profile is not None and self.features is not None:
            index, amount = self.features
            arrays |= {"parts.features": index, "parts.amounts": amount}
            arrays |= self.profile.arrays()
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays, meta: dict[str, Any], n_behaviors: int) -> Parts:
        """Read what :meth:`arrays` and :meth:`meta` stored, without copying."""
        records = (Records(arrays[f"parts.{k}.vectors"], arrays[f"parts.{k}.counted"]) for k in range(n_behaviors))
        profile = features = None
        if meta["profile"] is not None:
            profile = Profile.from_arrays(arrays, meta["profile"])
            features = arrays["parts.features"], arrays["parts.amounts"]
        return cls(arrays["parts.own"], tuple(records), meta["history"], meta["friends"], profile, features)


def side_by_side_parts(members: Sequence[Parts]) -> Parts:
    """The parts of vectors that are those of all members side by side."""
    first = members[0]
    records = tuple(
        Records(np.concatenate([each.vectors for each in of_behavior], axis=1), of_behavior[0].counted)
        for of_behavior in zip(*(member.records for member in members), strict=True)
    )
    profile = first.profile
    if profile is not None:
        profiles = [member.profile for member in members if member.profile is not None]
        weights, center = (
            np.concatenate(arrays, axis=-1)
            for arrays in zip(*((each.weights, each.center) for each in profiles), strict=True)
        )
        profile = Profile(profile.encoding, weights, center)
    own = np.concatenate([member.own for member in members], axis=1)
    return replace(first, own=own, records=records, profile=profile)
