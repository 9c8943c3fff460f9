"""Options and arguments of commands in several files. Each is defined once, as a type for Typer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from mcne.models.registry import METHODS

METHODS_HELP = f"{', '.join(list(METHODS)[:-1])} or {list(METHODS)[-1]}."
METHODS_EPILOG = "\n\n".join(["Methods:", *(f"{name}: {method.summary}" for name, method in METHODS.items())])

set_option = partial(Option, "--set", metavar="K=V")
"""Settings as pairs; the help says which."""


def unwrapped(command: Callable[..., None] | None) -> str:
    """The docstring of a command with a line for each paragraph: Typer would keep most line breaks."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


def existing_run(path: Path) -> Path:
    """Refuse a run that does not exist, before a command imports what it needs."""
    from mcne.files import missing

    if not path.exists():
        raise missing(path, "mcne embeddings")
    return path


def existing_data(path: Path) -> Path:
    """Refuse a dataset that does not exist, before a command imports what it needs."""
    from mcne.files import missing

    if not path.exists():
        raise missing(path, "mcne dataset")
    return path


RunPath = Annotated[
    Path, Argument(help="A finished run, or saved embeddings.", metavar="RUN", is_eager=True, callback=existing_run)
]
DataOption = Annotated[Path, Option("--data", help="A prepared dataset.", callback=existing_data)]
ConfigFile = Annotated[Path | None, Option("--config", help="A TOML file of settings.")]
Settings = Annotated[list[str] | None, set_option(help="One setting: learning_rate=0.01 (repeatable).")]
Device = Annotated[Literal["auto", "cpu", "cuda"], Option("--device", help="auto uses the GPU if there is one.")]
AsJson = Annotated[bool, Option("--json", help="Print the result as JSON.")]
