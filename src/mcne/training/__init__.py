"""Runs: one trained method in a directory, from its settings to its embeddings.

``run.json`` says what is trained on what, ``metrics.jsonl`` how it went, ``checkpoints/`` where it stands,
``embeddings/`` the result (``learned/`` if it has no vectors), and ``result.json`` that it is finished. Reading
a run needs no torch, so ``Training``, which does, is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcne.training.resources import choose_device as choose_device
from mcne.training.run import SPEC as SPEC
from mcne.training.run import Mode as Mode
from mcne.training.run import Run as Run
from mcne.training.run import RunSpec as RunSpec
from mcne.training.run import begun_with as begun_with
from mcne.training.run import resolved as resolved
from mcne.training.run import settings_of as settings_of

if TYPE_CHECKING:
    from mcne.training.trainer import Training as Training


def __getattr__(name: str) -> Any:
    if name != "Training":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mcne.training.trainer import Training

    return Training
