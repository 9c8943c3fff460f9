"""Multiple conditional network embedding: one vector space, a binary mask per behavior.

Names are loaded when first used, so that ``import mcne`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcne.api import MCNE as MCNE
    from mcne.api import load as load
    from mcne.data.dataset import SocialDataset as SocialDataset
    from mcne.embeddings.artifact import ConditionalEmbeddings as ConditionalEmbeddings

__version__ = "0.1.0"

_HOMES = {"MCNE": "api", "ConditionalEmbeddings": "embeddings.artifact", "SocialDataset": "data.dataset", "load": "api"}

__all__ = ["MCNE", "ConditionalEmbeddings", "SocialDataset", "__version__", "load"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mcne' has no attribute {name!r}")
    return getattr(importlib.import_module(f"mcne.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
