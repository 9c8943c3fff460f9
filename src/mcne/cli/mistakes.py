"""What Typer refuses, in the words of all other errors: the option, its value, what is allowed, the next step."""

from __future__ import annotations

import inspect
import re
import sys
from functools import partial
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from mcne.errors import UnknownError, UsageError, nearest
from mcne.models.registry import METHODS, setting_names

TyperError: type[Exception] = typer.BadParameter.__mro__[1]
"""What Typer raises where a command line is wrong."""
NUMBERS = {int: "a whole number", float: "a number"}


def reworded(error: Any) -> UsageError | None:
    """The error to report; None where Typer has printed the help instead."""
    message = error.format_message()
    help_of = f"see {error.ctx.command_path} --help" if error.ctx else "see mcne --help"
    if found := re.match("No such command '(.*?)'", message):
        return UnknownError.of("command", found[1], error.ctx.command.list_commands(error.ctx))
    if found := re.match(r"Got unexpected extra argument.*\((.*)\)", message):
        return UsageError("unexpected argument", found[1], help_of, value=found[1])
    if message.startswith("Missing"):
        return _missing(error, help_of)
    if isinstance(error, typer.BadParameter):
        return _invalid(error)
    option = getattr(error, "option_name", None)
    if option is None:
        return UsageError(message[:1].lower() + message[1:], remedy=help_of) if message else None
    if message.startswith("No such option"):
        return _unknown(option, error, help_of)
    if "does not take" in message:
        return UsageError("takes no value", option, f"write {option} alone")
    return UsageError("needs a value", option, f"write {option} VALUE")


def _missing(error: Any, help_of: str) -> UsageError:
    """An option or argument that was not given."""
    if error.param.param_type_name == "option":
        option = error.param.opts[0]
        return UsageError("missing", option, f"add {option} VALUE; {help_of}")
    return UsageError("missing", error.param.metavar or error.param.name.upper(), help_of)


def _unknown(option: str, error: Any, help_of: str) -> UsageError:
    """An option that the command does not have; perhaps a setting was meant."""
    allowed = [each for parameter in error.ctx.command.params for each in parameter.opts if each.startswith("-")]
    near = nearest(option, allowed)
    if "--set" in allowed:
        method = next((word for word in sys.argv if word in METHODS), "mcne")
        setting = nearest(option.strip("-").replace("-", "_"), setting_names(method))
        near = near if setting is None else f"--set {setting}={_value([option]) or '…'}"
    remedy = f"did you mean {near}? Otherwise, {help_of}" if near else help_of
    return UnknownError("unknown option", option, remedy, value=option, allowed=allowed)


def _invalid(error: Any) -> UsageError:
    """A value that its option does not take."""
    options = error.param.opts
    given = _value(options)
    hint = get_type_hints(inspect.unwrap(error.ctx.command.callback), include_extras=True)[error.param.name]
    kind, least, choices = _allowed(hint)
    if choices:
        return UnknownError.of("value", given, choices, place=options[0])
    needed = NUMBERS[kind] + (", such as 4" if least is None else f" of {least} or more")
    refused = partial(UsageError, place=options[0], remedy=f"use {needed}", value=given, allowed=[needed])
    try:
        kind(given)
    except ValueError:
        return refused(f"{given!r} is not {NUMBERS[kind]}")
    return refused(f"{given} is out of range")


def _allowed(hint: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    """The type of an option, the least number that it takes, and the words that it takes, if these are limited."""
    least = None
    while get_origin(hint) in (Annotated, Union, UnionType, list):
        if get_origin(hint) is Annotated:
            least = next((each.min for each in get_args(hint)[1:] if hasattr(each, "min")), None)
        hint = get_args(hint)[0]
    return hint, least, get_args(hint) if get_origin(hint) is Literal else ()


def _value(options: list[str]) -> str | None:
    """What was given for one of these options."""
    for at, word in reversed(list(enumerate(sys.argv))):
        name, _, value = word.partition("=")
        if name in options:
            return value or next(iter(sys.argv[at + 1 :]), None)
    return None
