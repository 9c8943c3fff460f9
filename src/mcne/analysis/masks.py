"""Mask statistics: density, overlap against chance, and how often entries flipped during training.

Chance is two masks drawn independently, each uniformly among those with as many ones: how many dimensions they share
is hypergeometric, so expectation and p-value are exact. A ReLU may leave a dimension zero for every user: its mask
entries have no effect and are never learned, so overlap is also given for the dimensions in use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.explanation import other_name
from mcne.errors import UsageError
from mcne.evaluation.significance import holm


@dataclass(frozen=True)
class Overlap:
    """The overlap of two masks, and of random masks with as many ones."""

    first: str
    second: str
    shared: int
    chance: float  # shared by random masks, on average
    jaccard: float
    chance_jaccard: float
    p: float  # two-sided
    holm_p: float  # corrected for all pairs of a run


@dataclass(frozen=True)
class MaskLevel:
    """The masks of one level, and every pair of them."""

    level: int
    names: tuple[str, ...]
    masks: tuple[tuple[bool, ...], ...]  # a row per name
    used: tuple[bool, ...]  # dimensions that are not zero for every user, in the network that was trained first
    overlaps: tuple[Overlap, ...]
    overlaps_in_use: tuple[Overlap, ...]  # over the used dimensions alone

    @property
    def width(self) -> int:
        """Dimensions, d_k."""
        return len(self.masks[0])

    @property
    def density(self) -> dict[str, float]:
        """The share of ones in each mask."""
        return {name: sum(mask) / len(mask) for name, mask in zip(self.names, self.masks, strict=True)}

    @property
    def density_in_use(self) -> dict[str, float | None]:
        """The share of ones among the used dimensions; unknown where there are none."""
        used = np.array(self.used)
        rows = (np.array(mask)[used] for mask in self.masks)
        return {name: float(row.mean()) if len(row) else None for name, row in zip(self.names, rows, strict=True)}

    def to_json(self) -> dict[str, Any]:
        """Plain data; a mask is a text of 0 and 1."""
        masks = {name: "".join("01"[one] for one in row) for name, row in zip(self.names, self.masks, strict=True)}
        return {
            "level": self.level,
            "width": self.width,
            "used": sum(self.used),
            "density": self.density,
            "density_in_use": self.density_in_use,
            "overlaps": [asdict(overlap) for overlap in self.overlaps],
            "overlaps_in_use": [asdict(overlap) for overlap in self.overlaps_in_use],
            "masks": masks,
            "mask_of_use": "".join("01"[one] for one in self.used),
        }


@dataclass(frozen=True)
class MaskEpoch:
    """The masks after an epoch: how often entries have flipped since the start, and the density of each level."""

    epoch: int
    flips: int
    density: tuple[float, ...]


@dataclass(frozen=True)
class MaskNumbers:
    """The masks of a run."""

    method: str
    levels: tuple[MaskLevel, ...]
    training: tuple[MaskEpoch, ...]
    best_epoch: int | None  # whose masks these are
    added: tuple[str, ...] = ()  # behaviors that came later; the training is that of the last of them alone

    @property
    def entries(self) -> int:
        """Of all masks at all levels that were trained: what a flip is one of."""
        if self.added:
            return sum(level.width for level in self.levels if self.added[-1] in level.names)
        return sum(len(level.names) * level.width for level in self.levels)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "method": self.method,
            "added": list(self.added),
            "entries": self.entries,
            "best_epoch": self.best_epoch,
            "levels": [level.to_json() for level in self.levels],
            "training": [asdict(epoch) for epoch in self.training],
        }


def mask_numbers(
    embeddings: ConditionalEmbeddings, records: Sequence[Mapping[str, Any]] = (), *, best_epoch: int | None = None
) -> MaskNumbers:
    """The masks of trained vectors, and their history from the ``records`` of the training.

    Behaviors that were added later have a mask at every level too, unless they took the last vectors as they were.
    Below the last level it is in the provenance. The records of such a training cover only the new masks.
    """
    if not embeddings.has_masks:
        raise UsageError.of_method("has no masks", embeddings.method, "plot a run of mcne-plus, mcne, mcne-a or mcne-f")
    names = embeddings.behavior_names
    if embeddings.trunk is None:  # a single level, without a row of other behaviors
        only = (tuple(names), np.array([space.mask for space in embeddings.spaces]))
        return _numbers(embeddings, [only], [embeddings.vectors], records, best_epoch, ())
    *lower, last = embeddings.trunk.masks
    first = names[: embeddings.trunk.n_behaviors]
    added = tuple(names[embeddings.trunk.n_behaviors :])
    other = other_name(names)  # the row of reading 3
    provenance = embeddings.provenance.get("added", {})
    texts = {name: provenance[name]["masks"] for name in added if name in provenance}  # by level, the last at the end
    named = []  # of every level the names and their masks
    for k, masks in enumerate(lower):
        at = k - len(lower) - 1  # from the end
        later = {name: np.array(list(text[at])) == "1" for name, text in texts.items() if len(text) >= -at}
        named.append(((*first, *later, other), np.array([*masks[:-1], *later.values(), masks[-1]])))
    named.append(((*names, other), np.array([*(space.mask for space in embeddings.spaces), last[-1]])))
    vectors = (*embeddings.trunk.levels, embeddings.vectors)
    return _numbers(embeddings, named, vectors, records, best_epoch, added)


def _numbers(
    embeddings: ConditionalEmbeddings,
    named: Sequence[tuple[tuple[str, ...], NDArray[np.bool_]]],
    vectors: Sequence[NDArray[np.float32]],
    records: Sequence[Mapping[str, Any]],
    best_epoch: int | None,
    added: tuple[str, ...],
) -> MaskNumbers:
    """Of every level the names and their masks, and the vectors of users."""
    used = [np.any(each != 0, axis=0) for each in vectors]
    overlaps = _overlaps(named)
    overlaps_in_use = _overlaps([(own, masks[:, some]) for (own, masks), some in zip(named, used, strict=True)])
    levels = [
        MaskLevel(k, own, tuple(map(tuple, masks.tolist())), tuple(used[k].tolist()), overlaps[k], overlaps_in_use[k])
        for k, (own, masks) in enumerate(named)
    ]
    return MaskNumbers(embeddings.method, tuple(levels), mask_epochs(records), best_epoch, added)


def mask_epochs(records: Sequence[Mapping[str, Any]]) -> tuple[MaskEpoch, ...]:
    """The history of the masks in the records of a training."""
    return tuple(
        MaskEpoch(
            int(record["epoch"]),
            int(record["mask_flips"]),
            tuple(float(value) for name, value in record.items() if name.startswith("mask_density_")),
        )
        for record in records
        if "mask_flips" in record
    )


def overlap(first: NDArray[np.bool_], second: NDArray[np.bool_], *, names: tuple[str, str] = ("", "")) -> Overlap:
    """What two masks share; of random masks one may be held fixed, so it is a draw without replacement."""
    from scipy.stats import hypergeom  # takes longer to import than a run without masks takes to refuse

    ones, others, shared = (int(np.count_nonzero(mask)) for mask in (first, second, first & second))
    chance = hypergeom(len(first), ones, others)
    possible = np.arange(max(0, ones + others - len(first)), min(ones, others) + 1)
    p = float(min(1.0, 2 * min(chance.cdf(shared), chance.sf(shared - 1))))
    return Overlap(
        *names,
        shared=shared,
        chance=ones * others / len(first),
        jaccard=float(_jaccard(np.array(shared), ones + others)),
        chance_jaccard=float(chance.pmf(possible) @ _jaccard(possible, ones + others)),
        p=p,
        holm_p=p,
    )


def _overlaps(levels: Sequence[tuple[tuple[str, ...], NDArray[np.bool_]]]) -> list[tuple[Overlap, ...]]:
    """Every pair of the masks of each level; Holm's correction is over the pairs of all levels."""
    pairs = []
    for names, masks in levels:
        rows = combinations(range(len(names)), 2) if masks.size else ()
        pairs.append([overlap(masks[a], masks[b], names=(names[a], names[b])) for a, b in rows])
    corrected = iter(holm([pair.p for level in pairs for pair in level]))
    return [tuple(replace(pair, holm_p=next(corrected)) for pair in level) for level in pairs]


def _jaccard(shared: NDArray[Any], ones: int) -> NDArray[np.float64]:
    """Shared of all that either has; two empty masks are the same."""
    either = np.asarray(ones - shared, dtype=np.float64)
    shares: NDArray[np.float64] = np.divide(shared, either, out=np.ones_like(either), where=either > 0)
    return shares
