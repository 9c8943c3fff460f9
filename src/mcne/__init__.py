"""Multiple conditional network embedding: one vector space, a binary mask per behavior.

A class for every method (``mcne.MCNE``, ``mcne.BPR``, …), :mod:`mcne.datasets`, :mod:`mcne.errors`, and the functions
below. Names are loaded on first use, which keeps ``import mcne`` fast.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "ConditionalEmbeddings": "mcne.embeddings.artifact",
    "SocialDataset": "mcne.data.dataset",
    "compare": "mcne.api.comparing",
    "evaluate": "mcne.api.methods",
    "fit": "mcne.api.methods",
    "load": "mcne.api.methods",
    "split": "mcne.api.methods",
}

_MODULES = ("datasets", "errors")


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name == "__all__":
        return __dir__()
    if name in _MODULES:
        return importlib.import_module(f"mcne.{name}")
    if name[:1].isupper() and name in (names := _method_classes()):
        methods = importlib.import_module("mcne.api.methods")
        return methods.documented(methods.model_class(names[name]))
    raise AttributeError(f"module 'mcne' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_HOMES, *_method_classes(), *_MODULES, "__version__"])


def _method_classes() -> dict[str, str]:
    names: dict[str, str] = importlib.import_module("mcne.models.registry").class_names()
    return names
