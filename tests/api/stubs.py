"""``src/mcne/__init__.pyi``, from the registry: the classes of all methods with their settings, for type checkers.

``python -m tests.api.stubs`` writes it.
"""

from __future__ import annotations

import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from mcne.models.registry import METHODS
from mcne.models.settings import TrainingSettings

PLACE = Path(__file__).parents[2] / "src" / "mcne" / "__init__.pyi"
HEAD = '''"""Written by ``python -m tests.api.stubs`` from the registry of methods; not meant to be edited."""

from typing import Literal

from mcne import datasets as datasets
from mcne import errors as errors
from mcne.api.comparing import compare as compare
from mcne.api.methods import evaluate as evaluate
from mcne.api.methods import fit as fit
from mcne.api.methods import load as load
from mcne.api.methods import split as split
from mcne.api.model import Model
from mcne.data.dataset import SocialDataset as SocialDataset
from mcne.embeddings.artifact import ConditionalEmbeddings as ConditionalEmbeddings

__version__: str
'''
GENERAL = {"seed": ("int", 0), "device": ("str", "auto"), "separate": ("bool", False)}
INITIAL = {"initial": ('Literal["free", "attributes", "both"]', "free")}  # not a setting of the method mcne


def stubs() -> str:
    """The whole file."""
    shared = GENERAL | _settings(TrainingSettings)
    base = ["class _Method(Model):", *_attributes(shared), "", "class _MCNE(_Method):", *_attributes(INITIAL), ""]
    return "\n".join([HEAD, *base, *(_class(name, shared) for name in METHODS)])


def _class(method: str, shared: dict[str, tuple[str, Any]]) -> str:
    known = METHODS[method]
    own = _settings(known.config)
    base, more = ("_MCNE", INITIAL) if method == "mcne" else ("_Method", {})
    lines = [
        f"class {known.class_name}({base}):",
        *_attributes(own),
        "    def __init__(",
        "        self,",
        "        *,",
    ]
    lines += [f"        {name}: {hint} = {_default(value)}," for name, (hint, value) in (shared | own | more).items()]
    return "\n".join([*lines, "    ) -> None: ...", ""])


def _attributes(settings: dict[str, tuple[str, Any]]) -> list[str]:
    return [f"    {name}: {hint}" for name, (hint, _) in settings.items()]


def _settings(kind: type) -> dict[str, tuple[str, Any]]:
    """Every setting of a dataclass: its type as it is written, and its default."""
    defaults = vars(kind())
    return {name: (written(hint), defaults[name]) for name, hint in _hints(kind).items()}


def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def written(hint: Any) -> str:
    """A type as it is written in a stub, without the range of numbers that it allows."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return written(arguments[0])
    if origin is Literal:
        return f"Literal[{', '.join(map(_default, arguments))}]"
    if origin is tuple:
        return f"tuple[{written(arguments[0])}, ...]"
    if origin in (Union, types.UnionType):
        return " | ".join(map(written, arguments))
    return "None" if hint is type(None) else str(hint.__name__)


def _default(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


if __name__ == "__main__":
    PLACE.write_text(stubs())
