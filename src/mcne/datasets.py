"""Where datasets come from: your own tables, a synthetic network, the paper's Ciao and Epinions, or a saved one.

>>> import mcne
>>> data = mcne.datasets.synthetic(users=500)
>>> data.n_users, data.behavior_names
(500, ['Books', 'Movies', 'Travel', 'Food'])
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_type_hints

from mcne.data.dataset import SocialDataset
from mcne.errors import UnknownArgumentError
from mcne.models.settings import convert, plain

__all__ = ["ciao", "epinions", "from_frames", "load", "synthetic"]

from_frames = SocialDataset.from_frames
load = SocialDataset.load


def synthetic(users: int = 2000, *, seed: int = 0, **settings: Any) -> SocialDataset:
    """A synthetic social network with planted tastes: see docs/synthetic.md.

    ``settings`` are those of ``mcne data synthetic``: ``behaviors``, ``items_per_behavior``, ``links_per_user``,
    ``records_per_user``, ``homophily``, ``attributes``, ``levels``.
    """
    from mcne.data.synthetic import SyntheticConfig, generate

    kinds = get_type_hints(SyntheticConfig)
    for name in settings:
        if name not in kinds:
            raise UnknownArgumentError.of("setting of a synthetic network", name, kinds)
    given = {"users": users, "seed": seed, **settings}
    return generate(SyntheticConfig(**{name: convert(name, plain(given[name]), kinds[name]) for name in given}))[0]


def ciao(
    directory: str | Path,
    *,
    behaviors: Sequence[str] | None = None,
    extra_behaviors: Sequence[str] = (),
    timestamps: bool = False,
    positive_from: float | None = None,
) -> SocialDataset:
    """Ciao as the paper prepared it, from a directory with ``rating.mat`` and ``trustnetwork.mat``.

    With ``positive_from``, only ratings from there on are records, weighted by them; the others are known pairs.
    """
    from mcne.data.trust import CIAO, prepare

    return prepare(
        CIAO,
        Path(directory),
        behaviors=behaviors,
        extra_behaviors=extra_behaviors,
        timestamps=timestamps,
        positive_from=positive_from,
    )


def epinions(
    directory: str | Path,
    *,
    aligned: bool = False,
    behaviors: Sequence[str] | None = None,
    extra_behaviors: Sequence[str] = (),
    timestamps: bool = False,
    positive_from: float | None = None,
) -> SocialDataset:
    """Epinions as the paper prepared it; ``aligned`` corrects the ids of the network, which the paper took as they are.

    The directory holds ``rating.mat`` and ``trustnetwork.mat``. ``positive_from`` as for :func:`ciao`.
    """
    from mcne.data.trust import EPINIONS, prepare

    return prepare(
        EPINIONS,
        Path(directory),
        behaviors=behaviors,
        extra_behaviors=extra_behaviors,
        timestamps=timestamps,
        aligned=aligned,
        positive_from=positive_from,
    )
