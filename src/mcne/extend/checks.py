"""What a trained network must have to be extended, and the settings of a transfer; all of it without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.trunk import Trunk
from mcne.errors import UsageError
from mcne.models.registry import METHODS
from mcne.models.settings import Amount, Count, Rate, TrainingSettings, parse

EXTENDABLE = tuple(name for name, each in METHODS.items() if each.takes_new_users)
"""The methods whose networks can get new behaviors and new users."""

Control = Literal["none", "masks-only", "random-masks", "open-masks", "whole-vector"]
"""What learns: masks and items; masks, with items that were learned against the whole vector; items, under random
masks, under masks that are one everywhere, or against the whole vectors that the trained network has given."""


@dataclass(frozen=True)
class TransferConfig:
    """Settings; they default to those of the trained network where it has them, and otherwise to MCNE's."""

    neighbor_samples: tuple[Count, ...] = (20, 20)
    negatives: Count = 5
    batch_size: Count = 128
    learning_rate: Rate = 0.003
    l2: Amount = 0.001
    control: Control = "none"


def settings_of(base: ConditionalEmbeddings, given: Mapping[str, Any]) -> tuple[TransferConfig, TrainingSettings]:
    """The settings of a transfer, checked; the rest come from the training of ``base``, where they are known."""
    names = [field.name for field in fields(TransferConfig) if field.name != "control"]
    before = base.provenance.get("spec", {}).get("config", {})
    kept = {name: before[name] for name in names if name in before}
    if before.get("l2_form", "scored") != "scored":  # another number then
        kept.pop("l2", None)
    config, settings = parse([TransferConfig, TrainingSettings], {**kept, **given})
    if settings.members > 1:
        raise UsageError(
            "a new behavior has one set of masks", "setting members", "leave it at 1", value=settings.members
        )
    return config, settings


def trunk_of(base: ConditionalEmbeddings, config: TransferConfig) -> Trunk:
    """The network to add a behavior to; embeddings without one are refused."""
    if base.trunk is None:
        raise UsageError(
            f"cannot add a behavior to {base.method!r}; transfer needs one of {', '.join(EXTENDABLE)}",
            value=base.method,
            allowed=EXTENDABLE,
            remedy=f"train one of these, or train {base.method} again with all behaviors",
        )
    if len(config.neighbor_samples) != base.trunk.n_layers:
        raise UsageError(
            f"{list(config.neighbor_samples)} has {len(config.neighbor_samples)} numbers, and the trained network has "
            f"{base.trunk.n_layers} layers",
            "setting neighbor_samples",
            f"give {base.trunk.n_layers} numbers",
            value=list(config.neighbor_samples),
        )
    return base.trunk


def refuse_known_behavior(base: ConditionalEmbeddings, behavior: str) -> None:
    """Refuse to add a behavior that the network has."""
    if behavior in base.behavior_names:
        raise UsageError(
            f"behavior {behavior!r} is already in the run ({', '.join(base.behavior_names)}), and transfer does not "
            "change trained parameters",
            value=behavior,
            remedy="give the new behavior another name, or train again with all interactions",
        )


def network_of(embeddings: ConditionalEmbeddings) -> Trunk:
    """The network that new users can join; embeddings without one are refused."""
    trunk = embeddings.trunk
    if trunk is None:
        raise UsageError.of_method(
            "cannot embed new users", embeddings.method, f"train one of {', '.join(EXTENDABLE)}", allowed=EXTENDABLE
        )
    if added := [space.name for space in embeddings.spaces[trunk.n_behaviors :]]:
        raise UsageError(
            "was added after the training, for the users known then",
            ", ".join(added),
            "embed the new users with the network from before, then add the behavior to the result",
            value=added,
        )
    return trunk
