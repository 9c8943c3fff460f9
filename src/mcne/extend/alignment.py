"""A behavior of another dataset on the users and the network of trained embeddings, matched by raw ids."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mcne.data.behavior import Behavior
from mcne.data.dataset import SocialDataset
from mcne.data.negatives import Negatives
from mcne.data.split import TRAIN, Split
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.errors import DataError, UsageError
from mcne.models.registry import METHODS

N_SHOWN = 5
"""Offenders that a message names."""
EXTENDABLE = ", ".join(name for name, each in METHODS.items() if each.takes_new_users)
"""The methods whose networks can get new behaviors and new users."""


def aligned(
    base: ConditionalEmbeddings, dataset: SocialDataset, split: Split, *, behavior: str
) -> tuple[SocialDataset, Split]:
    """The network of ``base`` with that behavior alone, and its part of the split.

    Nothing is dropped: a user with records whom ``base`` does not know is refused. Users and links of the dataset that
    have no records of the behavior have no part in this.
    """
    new = dataset.behavior(behavior)
    if behavior in base.behavior_names:
        raise UsageError(
            f"behavior {behavior!r} is there already ({', '.join(base.behavior_names)}); what was learned is never "
            "changed: give the new one another name, or train anew with all records"
        )
    rows = _rows(base, dataset, new)
    order = np.lexsort((new.item, rows[new.user]))
    times = None if new.timestamp is None else new.timestamp[order]
    moved = Behavior(behavior, new.items, rows[new.user][order], new.item[order], times)
    _refuse_known_records(base, moved)
    own = SocialDataset(dataset.name, base.users, base.graph, (moved,))
    one = split.only(dataset.behavior_names.index(behavior), own)
    parts = one.parts[0][order]
    if not np.any(parts == TRAIN):
        raise DataError(f"{behavior}: no interactions in the training part, so nothing can be learned there")
    negatives: dict[str, dict[str, tuple[Negatives, ...]]] = {part: {} for part in one.negatives}
    for part, kinds in one.negatives.items():
        for kind, (drawn,) in kinds.items():
            order_of_users = np.argsort(rows[drawn.users], kind="stable")
            negatives[part][kind] = (Negatives(rows[drawn.users][order_of_users], drawn.items[order_of_users]),)
    return own, replace(one, parts=(parts,), negatives=negatives)


def beside(dataset: SocialDataset, split: Split, added: SocialDataset, parts: Split) -> tuple[SocialDataset, Split]:
    """A dataset with another behavior of the same users after its own, and both their splits as one."""
    both = replace(dataset, behaviors=(*dataset.behaviors, *added.behaviors))
    negatives = {
        part: {kind: (*own, *parts.negatives[part][kind]) for kind, own in kinds.items()}
        for part, kinds in split.negatives.items()
    }
    notes = (*split.notes, *parts.notes)
    return both, Split((*split.parts, *parts.parts), negatives, both.fingerprint, split.settings, notes)


def shared_items(base: ConditionalEmbeddings, behavior: Behavior) -> list[str]:
    """What to know where a new behavior has item ids that others have too: every behavior has a catalog of its own."""
    shared = {space.name: np.count_nonzero(space.items.rows(behavior.items.arrow()) >= 0) for space in base.spaces}
    return [
        f"{count:,} of the {behavior.n_items:,} item ids of {behavior.name} are also items of {name}: they get vectors "
        "of their own"
        for name, count in shared.items()
        if count
    ]


def _rows(base: ConditionalEmbeddings, dataset: SocialDataset, behavior: Behavior) -> NDArray[np.int32]:
    """The row in ``base`` of every user of the dataset, −1 where it has none, which no user with records may be."""
    rows = base.users.rows(dataset.users.arrow()).astype(np.int32)
    active = np.unique(behavior.user)
    strange = active[rows[active] < 0]
    if not len(strange):
        return rows
    if len(strange) == len(active):
        first, last = dataset.users.take(active[[0, -1]])
        raise DataError(
            f"none of the {len(active):,} users of {behavior.name} is known ({dataset.users.kind} ids, from {first!r} "
            f"to {last!r}; known are {base.n_users:,} {base.users.kind} ids, from {base.users[0]!r} to "
            f"{base.users[-1]!r}); a behavior is brought to users that were trained: check that both are about the "
            "same people"
        )
    lost = int(np.count_nonzero(np.isin(behavior.user, strange)))
    first = ", ".join(repr(raw) for raw in dataset.users.take(strange[:N_SHOWN]))
    raise DataError(
        f"{len(strange):,} of the {len(active):,} users of {behavior.name}, with {lost:,} of its {len(behavior):,} "
        f"interactions, are not known, the first: {first}; a behavior is brought to users that were trained: leave "
        "these out of the data, or train anew with them"
    )


def _refuse_known_records(base: ConditionalEmbeddings, behavior: Behavior) -> None:
    """The very records of a known behavior under another name are a mistake; items alone may well be shared."""
    indptr = behavior.indptr(base.n_users)
    for space in base.spaces:
        is_same = space.items == behavior.items and np.array_equal(space.seen_items, behavior.item)
        if is_same and np.array_equal(space.seen_indptr, indptr):
            raise UsageError(
                f"behavior {behavior.name!r} has exactly the items and interactions of {space.name!r}, which is there "
                "already; nothing is to be learned of it"
            )


def without(dataset: SocialDataset, split: Split, *, behavior: str) -> tuple[SocialDataset, Split]:
    """A dataset before a behavior came: all others of it, and their part of the split."""
    dataset.behavior(behavior)
    kept = [k for k, name in enumerate(dataset.behavior_names) if name != behavior]
    if not kept:
        raise UsageError(f"{dataset.name} has no behavior beside {behavior!r}; there must be some to learn from before")
    before = replace(dataset, behaviors=tuple(dataset.behaviors[k] for k in kept))
    negatives = {
        part: {kind: tuple(each[k] for k in kept) for kind, each in kinds.items()}
        for part, kinds in split.negatives.items()
    }
    parts = tuple(split.parts[k] for k in kept)
    return before, Split(parts, negatives, before.fingerprint, split.settings, split.notes)
