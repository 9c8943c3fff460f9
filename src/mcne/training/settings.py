"""Settings as frozen dataclasses, read from TOML and from ``key=value``; unknown keys and wrong types are refused."""

from __future__ import annotations

import dataclasses
import tomllib
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from mcne.errors import UsageError, unknown

Settings = TypeVar("Settings")


@dataclass(frozen=True)
class TrainingSettings:
    """How long and how carefully to train; nothing here changes what a step computes."""

    epochs: int = 200
    patience: int = 10  # evaluations without a better one
    evaluate_every: int = 1  # epochs
    workers: int = 1  # threads that prepare steps ahead
    checkpoint_seconds: float = 60.0
    keep_checkpoints: int = 2
    tensorboard: bool = False


def parse(kinds: Sequence[type[Any]], given: Mapping[str, Any]) -> list[Any]:
    """One instance of each dataclass from flat ``given`` values; each key belongs to the one that has it."""
    hints = {kind: get_type_hints(kind) for kind in kinds}
    known = [name for kind in kinds for name in hints[kind]]
    for name in given:
        if name not in known:
            raise UsageError(unknown("setting", name, known))
    made = []
    for kind in kinds:
        mine = {name: _convert(name, value, hints[kind][name]) for name, value in given.items() if name in hints[kind]}
        made.append(kind(**mine))
    return made


def read_toml(path: Path) -> dict[str, Any]:
    """The flat keys of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; a TOML file of settings is expected") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}; a TOML file of settings is expected") from error


def read_pairs(pairs: Sequence[str]) -> dict[str, Any]:
    """``key=value`` texts, their values written as in TOML; bare words are text."""
    given = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        name = name.strip()
        if not (name and sign):
            raise UsageError(f"--set {pair}: a setting like learning_rate=0.003 is needed")
        try:
            given[name] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            given[name] = text
    return given


def to_json(settings: Any) -> dict[str, Any]:
    """Plain data, as it is kept with a run."""
    plain = dataclasses.asdict(settings)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}


def _convert(name: str, value: Any, kind: Any) -> Any:
    """``value`` as the field's type, or an error that names what is allowed."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        if value not in arguments:
            raise UsageError(f"setting {name}: {unknown('value', value, arguments)}")
        return value
    if origin in (Union, types.UnionType):
        return None if value is None else _convert(name, value, next(a for a in arguments if a is not type(None)))
    if origin is tuple:
        values = value if isinstance(value, list | tuple) else [value]
        return tuple(_convert(name, each, arguments[0]) for each in values)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not kind:
        raise UsageError(f"setting {name}: {value!r} is {type(value).__name__}, {kind.__name__} is expected")
    return value
