"""Add a new behavior to trained embeddings; the result is a finished run of old and new behaviors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mcne.data.behavior import Behavior
from mcne.data.dataset import SocialDataset
from mcne.data.negatives import Negatives
from mcne.data.split import DIRECTORY, TRAIN, Split, supplied_split
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.trunk import Trunk
from mcne.errors import DataError, UsageError
from mcne.extend.checks import TransferConfig, refuse_known_behavior, settings_of, trunk_of
from mcne.extend.learner import Transfer
from mcne.extend.tables import SKIPPING
from mcne.models.contract import Method, TrainingData
from mcne.models.memory import Estimate, TrainingSize, estimate_transfer
from mcne.models.settings import TrainingSettings
from mcne.text import counted
from mcne.training.run import SPEC, TRANSFER, Run, RunSpec
from mcne.training.trainer import Training

DATASET, FIRST = "data", "items"
"""Where a run keeps the new behavior's data and split, and the run that its items are from."""
N_SHOWN = 5
"""Offenders that a message names."""


@dataclass(frozen=True)
class ParameterCounts:
    """How many parameters a transfer trained, and how many it kept."""

    masks: int
    items: int
    frozen: int

    @classmethod
    def of(cls, run: Run) -> ParameterCounts:
        """Of a finished run, with the items that came before its masks."""
        embeddings = run.embeddings
        trunk = embeddings.trunk
        assert trunk is not None
        is_learned = run.spec.config["control"] in ("none", "masks-only")
        masks = sum(level.shape[1] for level in trunk.masks) if is_learned else 0
        *old, new = embeddings.spaces
        learned = {name: array for name, array in trunk.arrays().items() if not name.endswith(".vectors")}
        # Levels above the first are derived.
        arrays = [trunk.levels[0], *learned.values(), *(space.item_vectors for space in old)]
        return cls(masks, new.item_vectors.size, sum(array.size for array in arrays))

    def __str__(self) -> str:
        return (
            f"trained {self.masks + self.items:,} parameters ({self.masks:,} mask, {self.items:,} item); "
            f"{self.frozen:,} existing parameters unchanged"
        )


def transfer(
    base: ConditionalEmbeddings,
    training: Training,
    path: Path,
    *,
    behavior: str,
    resume: bool = False,
    skip_unknown: bool = False,
) -> Run:
    """Train the masks and items of a behavior of the training's dataset, whatever else that holds, and nothing else.

    The run has everything that ``base`` serves, byte for byte, and the new behavior beside it; its own data is the
    behavior's alone, so that it is evaluated on that. With ``skip_unknown`` records of users whom ``base`` does not
    know are skipped instead of refused; the provenance of that data and of the result counts them by reason.
    """
    config, _ = settings_of(base, training.settings)
    trunk = trunk_of(base, config)
    own, parts = aligned(base, training.dataset, training.split, behavior=behavior, skip_unknown=skip_unknown)
    options = {field.name: getattr(training, field.name) for field in fields(training)}
    options |= {"method": TRANSFER, "dataset": own, "split": parts, "places": {**training.places, "dataset": DATASET}}
    skipped = own.provenance.get("skipped")
    for line in [*([_text_of_skipped(skipped)] if skipped else []), *shared_items(base, own.behaviors[0])]:
        training.reporter.say(line)
    return _Transferring(**options, base=base, trunk=trunk).run(path, resume=resume)


def _text_of_skipped(skipped: Mapping[str, int]) -> str:
    """What was left out of the data, in words."""
    only_theirs = skipped.get("items that only they have", 0)
    items = f" and the {counted(only_theirs, 'item')} only they have" if only_theirs else ""
    return (
        f"skipped {counted(skipped['records'], 'record')} of {counted(skipped['unknown users'], 'unknown user')}{items}"
    )


@dataclass(frozen=True)
class _Transferring(Training):
    """The training of a new behavior on the network of trained embeddings."""

    base: ConditionalEmbeddings
    trunk: Trunk

    @cached_property
    def parsed(self) -> tuple[TransferConfig, TrainingSettings]:
        """The settings, checked: those of the transfer, and how to train."""
        return settings_of(self.base, self.settings)

    @property
    def spec(self) -> RunSpec:
        """Everything that decides the result; the base counts by its content."""
        spec = super().spec
        also = {"behavior": self.dataset.behavior_names[0], "base": self.base.fingerprint}
        return replace(spec, config={**spec.config, **also})

    def check(self) -> None:
        """Nothing to check: inputs were aligned with the base."""

    def estimate(self) -> Estimate:
        """The memory that it needs; whole vectors are a network without layers."""
        config, settings = self.parsed
        is_whole = config.control == "whole-vector"
        size = TrainingSize(config, settings, self.dataset, self.split, is_on_gpu=self.device.type != "cpu")
        widths = (self.base.width,) if is_whole else tuple(level.shape[1] for level in self.trunk.masks)
        samples = () if is_whole else config.neighbor_samples
        return estimate_transfer(size, widths, samples, weighted=self.trunk.weighted)

    def make(self, data: TrainingData, path: Path) -> Method:
        """The learner; items that come before its masks are trained first, in a run within the run."""
        self.start(path)
        self.dataset.save(path / DATASET)
        self.split.save(path / DATASET / DIRECTORY / self.places["split"])
        config, _ = self.parsed
        items = None
        if config.control == "masks-only":
            self.reporter.say("items first, against the whole vectors:")
            first = replace(self, settings={**self.settings, "control": "whole-vector"})
            before = first.run(path / FIRST, resume=(path / FIRST / SPEC).is_file())
            items = np.asarray(before.embeddings.spaces[-1].item_vectors)
            self.reporter.say("then masks, with these items:")
        return Transfer(self.base, self.trunk, data, config, items=items, seed=self.seed, device=self.device)


# a behavior of another dataset on the users and the network of trained embeddings, matched by raw ids


def aligned(
    base: ConditionalEmbeddings, dataset: SocialDataset, split: Split, *, behavior: str, skip_unknown: bool = False
) -> tuple[SocialDataset, Split]:
    """The network of ``base`` with that behavior alone, and its part of the split.

    Users with records whom ``base`` does not know are refused, or skipped and counted in the provenance. Links of the
    dataset do not count.
    """
    new = dataset.behavior(behavior)
    refuse_known_behavior(base, behavior)
    skipped: dict[str, int] = {}
    if skip_unknown:
        dataset, split, skipped = _of_known_users(base, dataset, split, behavior=behavior)
        new = dataset.behavior(behavior)
    rows = _rows(base, dataset, new)
    moved, order = new.moved(rows)
    _refuse_known_records(base, moved)
    provenance = {"skipped": skipped} if skipped else {}
    own = SocialDataset(
        dataset.name, base.users, base.graph, (moved,), provenance=provenance, user_names=base.user_names
    )
    one = split.only(dataset.behavior_names.index(behavior), own)
    parts = one.parts[0][order]
    if not np.any(parts == TRAIN):
        raise DataError(
            "no interactions in the training part, so there is nothing to learn from",
            behavior,
            "use another split",
            value=behavior,
        )
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


def _of_known_users(
    base: ConditionalEmbeddings, dataset: SocialDataset, split: Split, *, behavior: str
) -> tuple[SocialDataset, Split, dict[str, int]]:
    """A behavior's records of users in ``base``, their part of the split, and what was skipped, if anything.

    Items that nobody has then are gone, so the items that test items are ranked against are drawn again.
    """
    new = dataset.behavior(behavior)
    k = dataset.behavior_names.index(behavior)
    is_known = base.users.rows(dataset.users.arrow()) >= 0
    mine = is_known[new.user]
    if mine.all() or not mine.any():
        return dataset, split, {}
    has_users = np.bincount(new.item[mine], minlength=new.n_items) > 0
    some = SocialDataset(
        dataset.name,
        dataset.users.subset(np.flatnonzero(is_known)),
        dataset.graph.restrict(is_known),
        (new.restrict(is_known, has_users, mine),),
    )
    parts = supplied_split(some, [split.parts[k][mine]], seed=split.settings["seed"])
    skipped = {
        "records": int(np.count_nonzero(~mine)),
        "unknown users": len(np.unique(new.user[~mine])),
        "items that only they have": int(np.count_nonzero(~has_users)),
    }
    return some, replace(parts, settings=split.settings), {what: count for what, count in skipped.items() if count}


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
            f"none of its {len(active):,} users ({dataset.users.kind} ids, from {first!r} to {last!r}) is among the "
            f"{base.n_users:,} of the run ({base.users.kind} ids, from {base.users[0]!r} to {base.users[-1]!r})",
            behavior.name,
            "check that both use the same ids for the same people",
            value=behavior.name,
        )
    lost = int(np.count_nonzero(np.isin(behavior.user, strange)))
    named = ", ".join(repr(raw) for raw in dataset.users.take(strange[:N_SHOWN]))
    raise DataError(
        f"{len(strange):,} of its {len(active):,} users, with {lost:,} of its {len(behavior):,} interactions, are not "
        f"in the run: {named}",
        behavior.name,
        f"remove them from the data, skip them {SKIPPING}, or train again with them",
        value=dataset.users.take(strange),
    )


def _refuse_known_records(base: ConditionalEmbeddings, behavior: Behavior) -> None:
    """Refuse a copy of a known behavior under another name; the same items with other interactions are fine."""
    indptr, items, _ = behavior.seen(base.n_users)
    for space in base.spaces:
        is_same = space.items == behavior.items and np.array_equal(space.seen_items, items)
        if is_same and np.array_equal(space.seen_indptr, indptr):
            raise UsageError(
                f"has exactly the items and interactions of {space.name!r}, which is already in the run",
                f"behavior {behavior.name!r}",
                "choose a behavior that the run does not have",
                value=behavior.name,
            )


def without(dataset: SocialDataset, split: Split, *, behavior: str) -> tuple[SocialDataset, Split]:
    """A dataset without one behavior, and the split of the others."""
    dataset.behavior(behavior)
    kept = [k for k, name in enumerate(dataset.behavior_names) if name != behavior]
    if not kept:
        raise UsageError(
            f"{dataset.name} has no behavior besides {behavior!r} to learn from first",
            value=behavior,
            remedy="use a dataset with two or more behaviors",
        )
    before = replace(dataset, behaviors=tuple(dataset.behaviors[k] for k in kept))
    negatives = {
        part: {kind: tuple(each[k] for k in kept) for kind, each in kinds.items()}
        for part, kinds in split.negatives.items()
    }
    parts = tuple(split.parts[k] for k in kept)
    return before, Split(parts, negatives, before.fingerprint, split.settings, split.notes)
