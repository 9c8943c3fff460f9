"""Every method by its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mcne.errors import UsageError, unknown
from mcne.methods.bpr import BPR, BPRConfig
from mcne.methods.mcne import MCNE, MCNEA, MCNEF, MCNEConfig
from mcne.methods.popularity import Popularity, PopularityConfig


@dataclass(frozen=True)
class Entry:
    """A method: how it is made, and what it can be told."""

    make: type[Any]
    config: type[Any]


METHODS = {
    "popularity": Entry(Popularity, PopularityConfig),
    "bpr": Entry(BPR, BPRConfig),
    "mcne": Entry(MCNE, MCNEConfig),
    "mcne-a": Entry(MCNEA, MCNEConfig),
    "mcne-f": Entry(MCNEF, MCNEConfig),
}


def entry(name: str) -> Entry:
    """The method of that name."""
    if name not in METHODS:
        raise UsageError(unknown("method", name, METHODS))
    return METHODS[name]
