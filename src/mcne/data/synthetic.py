"""A synthetic social network with planted tastes: a test bed where what can be learned is known.

Two behaviors of a family share a factor and each behavior has one of its own; users and items have a level of each
factor. Records prefer items that match the user, friendships users who match in one behavior; both are heavy-tailed.
Attributes, if asked for, tell of a user's levels. ``docs/synthetic.md`` says more. Behaviors are generated one by one
and users in chunks, so that 10,000,000 users fit a small machine; streams by purpose leave no trace of the chunks.

The planted truth is an artifact of its own, never part of the dataset, so that no method can see it. Written as one-hot
vectors, side by side, levels are the *known dimensions* of the network: the mask of a behavior covers the dimensions of
its two factors, and the product of two masked users is the number of factors on which they agree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne import files
from mcne.data.behavior import Attribute, Behavior
from mcne.data.dataset import SocialDataset
from mcne.data.graph import Graph, offsets, run_starts, undirected
from mcne.data.ids import Ids
from mcne.errors import UsageError
from mcne.files import freeze
from mcne.randomness import Stream

KIND = "mcne planted truth"
VERSION = 1

POOL_KINDS = ("both levels", "the family's level", "the behavior's own level", "the whole catalog")
"""Where a record can come from: the items that match the user in this respect."""
BEHAVIOR_NAMES = (
    "Books", "Movies", "Travel", "Food", "Music", "Games", "Beauty", "Sports",
    "Cars", "Garden", "Fashion", "Software", "Pets", "Phones", "Art", "Health",
)  # fmt: skip

POOL_SHARES = (0.6, 0.2, 0.1, 0.1)  # of the records, from each kind of pool
POPULARITY_HEAD = 8  # flat, so that the top item has about 3 % of 2,000 users (2 % in Ciao)
COLD_EVERYWHERE = 0.08  # users without any record: known by their friends alone
COLD_IN_BEHAVIOR = 0.15  # of the others, those without records in a given behavior
SPREAD = 100  # the most active users have about this many times the links or records of the least active
NOISE_EVERY = 4  # every fourth attribute tells nothing of tastes
FIRST_SECOND = 1_262_304_000  # 2010-01-01
PERIOD = 3 * 365 * 86_400
USERS_AT_ONCE = 1 << 18
STUBS_AT_ONCE = 1 << 22

Numbers = int | NDArray[np.int64]
Pools = tuple[NDArray[np.int32], NDArray[np.int64]]
"""Catalog rows [4 × items], pool after pool as :func:`pool_number` counts them, and where each starts [pools + 1]."""


@dataclass(frozen=True)
class SyntheticConfig:
    """The size and the strength of what is planted; the defaults are those of the documented test bed."""

    users: int = 2000
    behaviors: int = 4
    seed: int = 0
    levels: int = 6  # of every factor
    items_per_behavior: int | None = None  # None: half the users, at least 300
    links_per_user: float = 10.0  # each has two ends, so users have twice as many friends
    records_per_user: float = 7.0  # of a user who is active in the behavior, repeats included
    homophily: float = 0.9  # share of links between users of one taste
    attributes: int = 0  # numbers known of every user, one of four noise alone

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("users", self.users, 500, 10_000_000),
            ("behaviors", self.behaviors, 1, len(BEHAVIOR_NAMES)),
            ("levels", self.levels, 2, 16),
            ("items_per_behavior", self.n_items, self.levels**2, 100_000_000),
            ("links_per_user", self.links_per_user, 0, 100),
            ("records_per_user", self.records_per_user, 0.5, 100),
            ("homophily", self.homophily, 0, 1),
            ("attributes", self.attributes, 0, 100),
        ):
            if not low <= value <= high:
                raise UsageError(
                    f"{value:,} is out of range", name, f"use {low:,} to {high:,}", value=value, allowed=(low, high)
                )

    @property
    def n_items(self) -> int:
        """Items in the catalog of each behavior."""
        return max(300, self.users // 2) if self.items_per_behavior is None else self.items_per_behavior

    def to_json(self) -> dict[str, Any]:
        """Plain data, as it is kept in a dataset's provenance; without attributes, their number is left out."""
        settings = asdict(self) | {"items_per_behavior": self.n_items}
        if not self.attributes:
            del settings["attributes"]
        return settings


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

    Zipf's law with Mandelbrot's flat head h; the plain law, h = 1, gives the first of few items a sixth of everything.
    """
    edges = np.log(head + np.arange(size + 1, dtype=np.float64))
    return np.asarray(np.diff(edges) / (edges[-1] - edges[0]))


@dataclass(frozen=True, eq=False)
class Catalog:
    """Every item of one behavior, touched by anyone or not: row ``r`` has the raw id ``r + 1``."""

    levels: NDArray[np.int8]  # [items, 2] of the family's factor, of the behavior's own
    ranking: NDArray[np.int32]  # [items] rows, the most popular first: one order for all pools
    n_levels: int

    def __post_init__(self) -> None:
        freeze(self, "levels", "ranking")

    def __len__(self) -> int:
        return len(self.ranking)

    def pools(self) -> Pools:
        """The pools that records are drawn from, each from its most to its least popular item."""
        family, own = self.levels[self.ranking].astype(np.int64).T
        members = []
        sizes = np.zeros(self.n_levels**2 + 2 * self.n_levels + 1, dtype=np.int64)
        for kind in range(len(POOL_KINDS)):
            pool = pool_number(kind, family, own, n_levels=self.n_levels)
            members.append(self.ranking[np.argsort(pool, kind="stable")])
            sizes += np.bincount(pool, minlength=len(sizes))
        return np.concatenate(members), np.concatenate([[0], np.cumsum(sizes)])


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
        freeze(self, "factors", "levels")

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

    def probabilities(self, behavior: int, users: NDArray[Any]) -> NDArray[np.float64]:
        """The chance of every catalog item to be a user's next record, exactly, [n, catalog].

        No ranker that knows only the past can beat this one on average. Ask for some users at a time.
        """
        catalog = self.catalogs[behavior]
        items, start = catalog.pools()
        distinct, row = np.unique(self.tastes(behavior)[users], return_inverse=True)
        chances = np.zeros((len(distinct), len(catalog)))
        for k, taste in enumerate(distinct):
            family, own = divmod(int(taste), self.n_levels)
            for kind, share in enumerate(self.shares):
                pool = int(pool_number(kind, family, own, n_levels=self.n_levels))
                members = items[start[pool] : start[pool + 1]]
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
        names, shares = (tuple(meta[field]) for field in ("behaviors", "shares"))
        catalogs = tuple(
            Catalog(arrays[f"items.{k}.levels"], arrays[f"items.{k}.ranking"], meta["levels"])
            for k in range(len(names))
        )
        return cls(names, arrays["factors"], arrays["levels"], catalogs, shares, meta["head"], saved.provenance)


def generate(config: SyntheticConfig) -> tuple[SocialDataset, Planted]:
    """The network of this configuration and what was planted in it; the same seed gives the same bytes."""
    planted = _plant(config)
    graph = _befriend(config, [planted.tastes(k) for k in range(config.behaviors)])
    awake = Stream(config.seed, "synthetic", "awake").uniform(config.users) >= COLD_EVERYWHERE
    behaviors = tuple(_behavior(config, planted, k, awake) for k in range(config.behaviors))
    users = Ids(np.arange(1, config.users + 1))
    attributes = {f"trait_{n + 1}": _attribute(config, planted, n) for n in range(config.attributes)}
    return SocialDataset("synthetic", users, graph, behaviors, attributes, planted.provenance), planted


def heavy_tailed(stream: Stream, size: int, *, mean: float) -> NDArray[np.int32]:
    """Whole numbers of this mean whose density falls as 1/x² over a range of 1 to ``SPREAD``.

    The distribution's inverse is a division and its mean a closed form; rounding up or down by chance keeps the mean.
    """
    low = mean * (1 - 1 / SPREAD) / math.log(SPREAD)
    exact = low / (1 - stream.uniform(size) * (1 - 1 / SPREAD))
    return np.floor(exact + stream.uniform(size)).astype(np.int32)


def _plant(config: SyntheticConfig) -> Planted:
    """Levels of users and items. A behavior's draws bear its own number: adding behaviors changes no earlier one."""
    families = -(-config.behaviors // 2)
    factors = [(k // 2, families + k) for k in range(config.behaviors)]
    purposes = [("family", k) for k in range(families)] + [("own", k) for k in range(config.behaviors)]
    levels = np.empty((config.users, len(purposes)), dtype=np.int8)
    for factor, purpose in enumerate(purposes):
        stream = Stream(config.seed, "synthetic", "levels", *purpose)
        levels[:, factor] = stream.integers(config.levels, config.users)
    return Planted(
        behaviors=BEHAVIOR_NAMES[: config.behaviors],
        factors=np.array(factors, dtype=np.int8),
        levels=levels,
        catalogs=tuple(_catalog(config, k) for k in range(config.behaviors)),
        shares=POOL_SHARES,
        head=POPULARITY_HEAD,
        provenance={"synthetic": config.to_json()},
    )


def _catalog(config: SyntheticConfig, k: int) -> Catalog:
    """Items of every pair of levels in equal number, in random order, with a random order of popularity."""
    pair = Stream(config.seed, "synthetic", "items", k).permutation(config.n_items) % config.levels**2
    ranking = Stream(config.seed, "synthetic", "ranking", k).permutation(config.n_items)
    levels = np.stack(np.divmod(pair, config.levels), axis=1)
    return Catalog(levels.astype(np.int8), ranking.astype(np.int32), config.levels)


def _befriend(config: SyntheticConfig, tastes: Sequence[NDArray[np.int16]]) -> Graph:
    """Every user's stubs, each tied to a user of the same taste in one behavior, or to anyone.

    At both ends users are met in proportion to their stubs, so degrees are heavy-tailed at any size, with the
    same law. A tie that exists already is merged, and a stub without anyone to meet is left out.
    """
    stubs = heavy_tailed(Stream(config.seed, "synthetic", "stubs"), config.users, mean=config.links_per_user)
    source = np.repeat(np.arange(config.users, dtype=np.int32), stubs)
    circle = np.empty(len(source), dtype=np.int8)  # where a stub looks for its other end: a behavior, or anywhere
    chances = Stream(config.seed, "synthetic", "circles")
    bounds = config.homophily * np.arange(1, config.behaviors + 1) / config.behaviors
    for start in range(0, len(source), STUBS_AT_ONCE):
        part = circle[start : start + STUBS_AT_ONCE]
        part[:] = np.searchsorted(bounds, chances.uniform(len(part)), side="right")
    target = source.copy()
    anyone = np.zeros(config.users, dtype=np.int16)
    for k, taste in enumerate([*tastes, anyone]):  # tied to a stub of another user of the same taste, uniformly
        stream = Stream(config.seed, "synthetic", "ties", k)
        order = np.argsort(taste, kind="stable")
        owner = np.repeat(order.astype(np.int32), stubs[order])  # [stubs] taste by taste, so a user's are together
        first = np.empty(config.users, dtype=np.int64)
        first[order] = np.cumsum(stubs[order], dtype=np.int64) - stubs[order]
        total = np.bincount(taste, weights=stubs).astype(np.int64)
        taste_start = offsets(total)
        for chunk in range(0, len(source), STUBS_AT_ONCE):
            mine = chunk + np.flatnonzero(circle[chunk : chunk + STUBS_AT_ONCE] == k)
            user = source[mine]
            others = total[taste[user]] - stubs[user]
            at = taste_start[taste[user]] + stream.integers(others, len(mine))
            at += np.where((at >= first[user]) & (others > 0), stubs[user], 0)  # over one's own; alone: oneself
            target[mine] = owner[at]
        del order, owner, first  # which are large, as is the circle
    del circle
    met = source != target
    if not met.all():
        source, target = source[met], target[met]
    return undirected(config.users, source, target)[0]


def _behavior(config: SyntheticConfig, planted: Planted, k: int, awake: NDArray[np.bool_]) -> Behavior:
    """The distinct records of one behavior; items that nobody touched stay in the planted catalog alone."""
    purposes = ("active", "records", "pools", "ranks", "times")
    chances, activity, kinds, ranks, moments = (Stream(config.seed, "synthetic", what, k) for what in purposes)
    active = awake & (chances.uniform(config.users) >= COLD_IN_BEHAVIOR)
    counts = heavy_tailed(activity, config.users, mean=config.records_per_user) * active
    pools = planted.catalogs[k].pools()
    tastes = planted.tastes(k)
    records = []
    for start in range(0, config.users, USERS_AT_ONCE):
        part = counts[start : start + USERS_AT_ONCE]
        user = np.repeat(np.arange(start, start + len(part)), part)
        item = _draw_items(pools, tastes[user], config.levels, kinds=kinds, ranks=ranks)
        keys = np.sort(user * config.n_items + item)
        distinct = np.divmod(keys[run_starts(keys)], config.n_items)
        records.append(np.stack(distinct).astype(np.int32))  # by user and then by item
    user, item = np.concatenate(records, axis=1)
    del records
    touched = np.bincount(item, minlength=config.n_items) > 0
    rows = np.cumsum(touched, dtype=np.int32) - np.int32(1)
    times = moments.integers(PERIOD, len(user))
    times += FIRST_SECOND
    return Behavior(planted.behaviors[k], Ids(np.flatnonzero(touched) + 1), user, rows[item], times)


def _draw_items(
    pools: Pools, taste: NDArray[np.int16], n_levels: int, *, kinds: Stream, ranks: Stream
) -> NDArray[np.int32]:
    """One catalog row per record: a pool that suits the user's taste, then a popularity rank in it."""
    bounds = np.cumsum(POOL_SHARES)[:-1]
    kind = np.searchsorted(bounds, kinds.uniform(len(taste)), side="right")
    family, own = np.divmod(taste.astype(np.int64), n_levels)
    pool = pool_number(kind, family, own, n_levels=n_levels)
    items, start = pools
    rank = draw_rank(start[pool + 1] - start[pool], ranks.uniform(len(taste)), head=POPULARITY_HEAD)
    return np.asarray(items[start[pool] + rank])


def _attribute(config: SyntheticConfig, planted: Planted, n: int) -> Attribute:
    """A standard normal number for each level of one factor, each in turn, plus as much noise; or noise alone."""
    values = Stream(config.seed, "synthetic", "attribute noise", n).normal(config.users)
    noise_before, place = divmod(n, NOISE_EVERY)
    if place < NOISE_EVERY - 1:
        numbers = Stream(config.seed, "synthetic", "attribute levels", n).normal(config.levels)
        values += numbers[planted.levels[:, (n - noise_before) % planted.levels.shape[1]]]
    return Attribute(np.round(values, 3))  # the last bits of a normal number are the processor's
