"""The planted truth of a synthetic network: what every user and every item is like, and what follows from it.

It is an artifact of its own, never part of the dataset, so that no method can see it. A user has one level of
every factor, an item one level of both factors of its behavior: the family's, shared with one other behavior, and
the behavior's own. Written as one-hot vectors, side by side, levels are the *known dimensions* of the network: the
mask of a behavior covers the dimensions of its two factors, and the product of two masked users is the number
of factors on which they agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne import files

KIND = "mcne planted truth"
VERSION = 1

POOL_KINDS = ("both levels", "the family's level", "the behavior's own level", "the whole catalog")
"""Where a record can come from: the items that match the user in this respect."""


Numbers = int | NDArray[np.int64]


def pool_number(kind: Numbers, family: Numbers, own: Numbers, *, n_levels: int) -> NDArray[np.int64]:
    """The pool of this kind for these two levels; pools of one kind are numbered together, kind after kind."""
    square = n_levels * n_levels
    first = np.array([0, square, square + n_levels, square + 2 * n_levels])
    family_step, own_step = np.array([n_levels, 1, 0, 0]), np.array([1, 0, 1, 0])
    return np.asarray(first[kind] + family * family_step[kind] + own * own_step[kind])


def draw_rank(size: NDArray[np.int64], chance: NDArray[np.float64], *, head: int) -> NDArray[np.int64]:
    """Popularity ranks 0 … size−1 from uniform numbers: the law of :func:`rank_chances`, in constant time."""
    drawn = (head * (1 + size / head) ** chance).astype(np.int64) - head
    return np.minimum(drawn, size - 1)  # a chance next to 1 may round up to the end


def rank_chances(size: int, *, head: int) -> NDArray[np.float64]:
    """How often each popularity rank of a pool is drawn: P(r) = ln((h + r + 1) / (h + r)) / ln((h + size) / h).

    Zipf's law with Mandelbrot's flat head: about 1 / (h + r), where the plain law (h = 1) gives the first item
    of a small pool a sixth of everything.
    """
    edges = np.log(head + np.arange(size + 1, dtype=np.float64))
    return np.asarray(np.diff(edges) / (edges[-1] - edges[0]))


@dataclass(frozen=True, eq=False)
class Pools:
    """Items in overlapping pools, each pool from its most to its least popular item."""

    members: NDArray[np.int32]  # [4 × items] catalog rows, pool after pool
    start: NDArray[np.int64]  # [pools + 1]

    def of(self, pool: int) -> NDArray[np.int32]:
        """The items of one pool."""
        return self.members[self.start[pool] : self.start[pool + 1]]


@dataclass(frozen=True, eq=False)
class Catalog:
    """Every item of one behavior, touched by anyone or not: row ``r`` has the raw id ``r + 1``."""

    levels: NDArray[np.int8]  # [items, 2] of the family's factor, of the behavior's own
    ranking: NDArray[np.int32]  # [items] rows, the most popular first: one order for all pools
    n_levels: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", files.frozen(self.levels))
        object.__setattr__(self, "ranking", files.frozen(self.ranking))

    def __len__(self) -> int:
        return len(self.ranking)

    def pools(self) -> Pools:
        """The pools that records are drawn from, numbered by :func:`pool_number`."""
        family, own = self.levels[self.ranking].astype(np.int64).T
        members, sizes = [], np.zeros(self.n_levels**2 + 2 * self.n_levels + 1, dtype=np.int64)
        for kind in range(len(POOL_KINDS)):
            pool = pool_number(kind, family, own, n_levels=self.n_levels)
            members.append(self.ranking[np.argsort(pool, kind="stable")])
            sizes += np.bincount(pool, minlength=len(sizes))
        return Pools(np.concatenate(members), np.concatenate([[0], np.cumsum(sizes)]))


@dataclass(frozen=True, eq=False)
class Planted:
    """What was planted in a network: levels of users and items, and the law of the records."""

    behaviors: tuple[str, ...]
    factors: NDArray[np.int8]  # [behaviors, 2] the family's factor, the behavior's own
    levels: NDArray[np.int8]  # [users, factors]
    catalogs: tuple[Catalog, ...]  # one per behavior
    shares: tuple[float, ...]  # [4] how many of the records come from each kind of pool
    head: int  # of the law of popularity ranks
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "factors", files.frozen(self.factors))
        object.__setattr__(self, "levels", files.frozen(self.levels))

    @property
    def n_levels(self) -> int:
        """Levels of every factor."""
        return self.catalogs[0].n_levels

    @property
    def masks(self) -> NDArray[np.bool_]:
        """The dimensions that matter for each behavior, [behaviors, factors × levels]."""
        chosen = np.zeros((len(self.behaviors), self.levels.shape[1]), dtype=bool)
        np.put_along_axis(chosen, self.factors.astype(np.int64), True, axis=1)
        return np.repeat(chosen, self.n_levels, axis=1)

    def user_vectors(self, users: NDArray[Any] | None = None) -> NDArray[np.float32]:
        """The planted vectors (of these users), one-hot levels side by side, [n, factors × levels]."""
        levels = self.levels if users is None else self.levels[users]
        one_hot = levels[:, :, None] == np.arange(self.n_levels, dtype=np.int8)
        return np.asarray(one_hot.reshape(len(levels), -1), dtype=np.float32)

    def tastes(self, behavior: int) -> NDArray[np.int16]:
        """The pair of levels that decides in a behavior, as one number below levels², [users]."""
        family, own = self.factors[behavior]
        return self.levels[:, family].astype(np.int16) * np.int16(self.n_levels) + self.levels[:, own]

    def matches(self, users: NDArray[Any], behavior: int | None = None) -> NDArray[np.int8]:
        """The product of these users' vectors with everyone's, whole or under a behavior's mask, [n, users]."""
        factors = range(self.levels.shape[1]) if behavior is None else self.factors[behavior]
        found = np.zeros((len(users), len(self.levels)), dtype=np.int8)
        for factor in factors:
            found += self.levels[users, factor][:, None] == self.levels[:, factor]
        return found

    def neighbor_scores(
        self, users: NDArray[Any], train: Any, *, behavior: int | None, sharpness: float
    ) -> NDArray[np.float64]:
        """Score items by everyone's training records, weighted by exp(sharpness × matches), [n, items].

        ``train`` is sparse, [users, items]. Strangers count too, with weight 1, so popularity is part of it. With
        ``behavior`` None the similarity is that of whole vectors: all that one vector per user can tell.
        """
        weights = np.exp(sharpness * self.matches(users, behavior).astype(np.float64))
        return np.asarray(weights @ train)

    def probabilities(self, behavior: int, users: NDArray[Any]) -> NDArray[np.float64]:
        """The chance of every catalog item to be a user's next record, exactly, [n, catalog].

        No ranker that knows only the past can beat this one on average. Ask for some users at a time.
        """
        catalog = self.catalogs[behavior]
        pools = catalog.pools()
        distinct, row = np.unique(self.tastes(behavior)[users], return_inverse=True)
        chances = np.zeros((len(distinct), len(catalog)))
        for k, taste in enumerate(distinct):
            family, own = divmod(int(taste), self.n_levels)
            for kind, share in enumerate(self.shares):
                members = pools.of(int(pool_number(kind, family, own, n_levels=self.n_levels)))
                chances[k, members] += share * rank_chances(len(members), head=self.head)
        return chances[row]

    def save(self, path: str | Path) -> str:
        """Write the truth as a directory of its own and return its fingerprint."""
        meta = {"behaviors": list(self.behaviors), "levels": self.n_levels}
        meta |= {"shares": list(self.shares), "head": self.head}
        arrays: dict[str, NDArray[Any]] = {"factors": self.factors, "levels": self.levels}
        for k, catalog in enumerate(self.catalogs):
            arrays |= {f"items.{k}.levels": catalog.levels, f"items.{k}.ranking": catalog.ranking}
        provenance = dict(self.provenance)
        return files.write(Path(path), KIND, VERSION, meta=meta, provenance=provenance, arrays=arrays)

    @classmethod
    def load(cls, path: str | Path, *, verify: bool = True) -> Planted:
        """Open a saved truth, memory-mapped; ``verify`` checks every byte against its sha256."""
        saved = files.read(Path(path), KIND, VERSION, verify=verify)
        arrays, meta = saved.arrays, saved.meta
        catalogs = tuple(
            Catalog(arrays[f"items.{k}.levels"], arrays[f"items.{k}.ranking"], meta["levels"])
            for k in range(len(meta["behaviors"]))
        )
        return cls(
            behaviors=tuple(meta["behaviors"]),
            factors=arrays["factors"],
            levels=arrays["levels"],
            catalogs=catalogs,
            shares=tuple(meta["shares"]),
            head=meta["head"],
            provenance=saved.provenance,
        )
