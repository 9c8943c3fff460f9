"""docs/methods.md as the registry tells it; ``python -m tests.models.methods_page`` writes the page anew.

The text above the first marker is written by hand.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from pathlib import Path
from typing import Any

from mcne.models.registry import METHODS, Entry
from mcne.models.settings import to_json

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"
MARKER = "<!-- From here on the page is generated from the registry. -->"


def page() -> str:
    """The page with everything below the marker made from the registry."""
    head = PAGE.read_text().partition(MARKER)[0]
    return f"{head}{MARKER}\n\n{_table()}\n\n{_settings()}\n"


def _table() -> str:
    rows = ["| method | what it is | origin | needs | vectors | settings and defaults |", "|---|---|---|---|---|---|"]
    for name, method in METHODS.items():
        cells = (method.summary, method.origin, ", ".join(method.needs), _vectors(method), _defaults(name, method))
        rows.append(f"| `{name}` | {' | '.join(cells)} |".replace("|  ", "| "))
    return "\n".join(rows)


def _vectors(method: Entry) -> str:
    return {"vectors": "yes", "counts": "counts", "scores": ""}[method.gives]


def _defaults(name: str, method: Entry) -> str:
    """All settings with their defaults, or how they differ from those of an earlier method."""
    values = {key: _plain(key, value) for key, value in to_json(method.config()).items()}
    base = _base(name, method)
    if base is None:
        return ", ".join(f"`{key}` {value}" for key, value in values.items())
    inherited = {field.name for field in dataclasses.fields(METHODS[base].config)}
    added = ", ".join(f"`{key}` {value}" for key, value in values.items() if key not in inherited)
    return f"as `{base}`" + (f", and {added}" if added else "")


def _base(name: str, method: Entry) -> str | None:
    """The other method whose settings this method takes over or extends, if there is one."""
    others = [key for key, each in METHODS.items() if key != name and not each.settings]
    bases = [key for key in others if issubclass(method.config, METHODS[key].config)]
    return max(bases, key=lambda key: len(METHODS[key].config.__mro__), default=None)


def _plain(key: str, value: Any) -> str:
    if value is None:
        return "all" if key == "neighbors" else "auto"
    return f"{value:g}" if isinstance(value, float) else json.dumps(value).strip('"')


def _settings() -> str:
    """Where defaults come from: the docstring of every class of settings."""
    parts = ["## Where the defaults come from", ""]
    for name, method in METHODS.items():
        if not method.settings:
            text = re.sub(r"\s+", " ", inspect.getdoc(method.config) or "").replace("``", "`")
            parts.append(f"- `{name}`: {text}")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
