"""Multiple conditional network embedding: one vector space, a binary mask per behavior.

Names are loaded when first used, so that ``import mcne`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcne.data.dataset import SocialDataset as SocialDataset

__version__ = "0.1.0"

_HOMES = {"SocialDataset": "mcne.data.dataset"}

__all__ = ["SocialDataset", "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mcne' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
