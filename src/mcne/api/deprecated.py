"""What programs written for the previous release use: it still works, warns, and is gone in the next release."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from mcne.errors import warn_deprecated

MOVED = {
    "mcne.api": {
        "DATASET": "mcne.api.model",
        "Initial": "mcne.api.methods",
        "MCNE": "mcne",
        "NEVER": "mcne.api.model",
        "load": "mcne",
    }
}
"""Of every module the names that were in it, with their modules of today."""


def moved(module: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module that finds what has moved from it."""
    homes = MOVED[module]

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warn_deprecated(f"{module}.{name}", f"use {homes[name]}.{name}")
        return getattr(importlib.import_module(homes[name]), name)

    return find


class DataclassFields:
    """The fields that ``mcne.MCNE`` had as a dataclass, for ``dataclasses.fields``, ``replace`` and ``asdict``."""

    def __init__(self, defaults: Callable[[Any], Mapping[str, Any]]) -> None:
        self._defaults = defaults

    def __get__(self, instance: object, owner: type) -> dict[str, dataclasses.Field[Any]]:
        if sys._getframe(1).f_code.co_name not in ("is_dataclass", "_is_dataclass_instance"):  # which printers ask
            now = "use get_params and set_params, or scikit-learn's clone"
            warn_deprecated(f"{owner.__name__} as a dataclass", now, stacklevel=4)
        fields = [(name, Any, dataclasses.field(default=value)) for name, value in self._defaults(owner).items()]
        made = dataclasses.make_dataclass(owner.__name__, fields, kw_only=True)
        return {field.name: field for field in dataclasses.fields(made)}
