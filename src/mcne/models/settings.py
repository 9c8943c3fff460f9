"""Settings and plans as frozen dataclasses, read from TOML and from ``key=value``.

Unknown keys and wrong types are refused, and so are numbers out of the range that a field's type declares.
"""

from __future__ import annotations

import dataclasses
import tomllib
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from mcne.errors import UnknownError, UsageError

LARGEST = 1e36
"""Beyond any use, and still safe in single precision, which ends at 3.4e38."""


@dataclass(frozen=True)
class Range:
    """The allowed values of a setting; its type carries the range with ``Annotated``."""

    needed: str
    holds: Callable[[Any], bool]  # False for NaN: every comparison with it fails


Count = Annotated[int, Range("a whole number of 1 or more", lambda value: value >= 1)]
Whole = Annotated[int, Range("a whole number of 0 or more", lambda value: value >= 0)]
Amount = Annotated[float, Range("a number from 0 to 1e36", lambda value: 0 <= value <= LARGEST)]
Rate = Annotated[float, Range("a number above 0, up to 1e36", lambda value: 0 < value <= LARGEST)]
Share = Annotated[float, Range("a number of 0 or more and below 1", lambda value: 0 <= value < 1)]


@dataclass(frozen=True)
class TrainingSettings:
    """How long and how to train; nothing here changes what a step computes, except for rounding."""

    epochs: Count = 200
    patience: Count = 10  # evaluations without a better one
    evaluate_every: Count = 1  # epochs
    workers: Count = 1  # threads that prepare steps ahead
    checkpoint_seconds: Amount = 60.0
    keep_checkpoints: Count = 2
    tensorboard: bool = False
    members: Count = 1  # models that differ by their seeds, whose scores are averaged
    deterministic: bool = False  # the same bytes every time on a GPU, of methods that leave sums to PyTorch


EXAMPLES = {
    int: ("a whole number", "64"),
    float: ("a number", "0.005"),
    bool: ("true or false", "true"),
    str: ("text in quotes", '"text"'),
}
"""What messages call the values of a type, and one of them."""


def parse(kinds: Sequence[type[Any]], values: Mapping[str, Any]) -> list[Any]:
    """One instance of each dataclass from flat ``values``; each key belongs to the dataclass that has it."""
    hints = {kind: get_type_hints(kind, include_extras=True) for kind in kinds}
    known = [name for kind in kinds for name in hints[kind]]
    for name in values:
        if name not in known:
            raise UnknownError.of("setting", name, known)
    parsed = []
    for kind in kinds:
        own = {name: value for name, value in values.items() if name in hints[kind]}
        parsed.append(kind(**{name: convert(f"setting {name}", own[name], hints[kind][name]) for name in own}))
    return parsed


def read_toml(path: Path) -> dict[str, Any]:
    """The flat keys of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else getattr(error, "strerror", error)
        raise UsageError.of_path(str(reason), path, "give a TOML file") from error


def read_pairs(pairs: Sequence[str]) -> dict[str, Any]:
    """``key=value`` texts, their values written as in TOML; bare words are text."""
    values = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        name = name.strip()
        if not (name and sign):
            raise UsageError(
                "no value given",
                f"--set {pair}",
                "write NAME=VALUE, such as learning_rate=0.003",
                value=pair,
            )
        try:
            values[name] = tomllib.loads(f"value = {text}")["value"]
        except (ValueError, RecursionError):
            values[name] = text
    return values


def to_json(settings: Any) -> dict[str, Any]:
    """Plain data, as it is kept with a run."""
    plain = dataclasses.asdict(settings)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}


def plain(value: Any) -> Any:
    """NumPy's numbers and texts as Python's, arrays as tuples; everything else as it is."""
    import numpy as np  # help texts do without

    if isinstance(value, np.ndarray) and value.ndim:
        return tuple(value.tolist())
    if isinstance(value, np.ndarray | np.generic):
        return value.item()
    if isinstance(value, list | tuple) and any(isinstance(each, np.generic) for each in value):
        return tuple(map(plain, value))
    return value


def convert(what: str, value: Any, kind: Any) -> Any:
    """``value`` converted to a type such as :data:`Count`; errors name ``what`` it is and what is allowed."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        value = convert(what, value, arguments[0])
        for each in arguments[1:]:
            if isinstance(each, Range) and value is not None and not each.holds(value):
                raise UsageError(
                    f"{value} is out of range", what, f"use {each.needed}", value=value, allowed=[each.needed]
                )
        return value
    if origin is Literal:
        if value not in arguments:
            raise UnknownError.of("value", value, arguments, place=what)
        return value
    if origin in (Union, types.UnionType):
        return None if value is None else convert(what, value, next(a for a in arguments if a is not type(None)))
    if origin in (tuple, Sequence):  # of a tuple, a single value may be written without brackets
        if isinstance(value, str) or (origin is Sequence and not isinstance(value, list)):
            raise UsageError(f"{value!r} is not a list", what, "use a list such as [64, 32]", value=value)
        values = value if isinstance(value, list | tuple) else [value]
        return tuple(convert(what, each, arguments[0]) for each in values)
    if origin is Mapping or dataclasses.is_dataclass(kind):
        return _table(what, value, kind)
    if kind is Any:
        return value
    if kind is float and type(value) is int:
        return float(str(value))  # infinite where float(value) would be an OverflowError
    if type(value) is not kind:
        noun, example = EXAMPLES[kind]
        raise UsageError(f"{value!r} is not {noun}", what, f"use a value such as {example}", value=value)
    return value


def _table(what: str, value: Any, kind: Any) -> Any:
    """A TOML table as a dataclass or as a mapping of one type; a file as a whole has no name."""
    if not isinstance(value, Mapping):
        raise UsageError(f"{value!r} is not a table", what, f"write it as [{what}]", value=value)
    hints = get_type_hints(kind, include_extras=True) if dataclasses.is_dataclass(kind) else None
    converted = {}
    for name, each in value.items():
        if hints is not None and name not in hints:
            raise UnknownError.of(f"key of {what}" if what else "key", name, hints)
        hint = get_args(kind)[1] if hints is None else hints[name]
        converted[name] = convert(f"{what}.{name}" if what else name, each, hint)
    return converted if hints is None else kind(**converted)
