"""Errors: their message, their fields, the nearest names, and what passes between processes."""

from __future__ import annotations

import pickle
import signal

import pytest

from mcne.errors import (
    DataError,
    Interrupted,
    MissingError,
    UnknownArgumentError,
    UnknownError,
    UsageError,
    suggestion,
    unknown,
)


def test_a_message_is_place_problem_and_remedy() -> None:
    error = UsageError("0 is out of range", place="setting epochs", value=0, allowed=[1, 2], remedy="use 1 or more")
    assert str(error) == "setting epochs: 0 is out of range; use 1 or more"
    assert (error.place, error.problem, error.value) == ("setting epochs", "0 is out of range", 0)
    assert (error.allowed, error.remedy) == ((1, 2), "use 1 or more")
    assert str(DataError("no links")) == "no links"


def test_the_outer_place_comes_first() -> None:
    inner = UnknownError.of("setting", "lr", ["learning_rate"], place="methods.bpr")
    outer = inner.within("plan.toml")
    assert type(outer) is UnknownError
    assert outer.place == "plan.toml: methods.bpr"
    assert (outer.value, outer.allowed, outer.remedy) == (inner.value, inner.allowed, inner.remedy)
    assert UsageError("no rows").within("plan.toml").place == "plan.toml"


@pytest.mark.parametrize(
    ("value", "near"),
    [("lerning_rate", "learning_rate"), ("lr", "learning_rate"), ("L2", "l2"), ("k2", "l2"), ("EPOCHS", "epochs")],
)
def test_the_nearest_name_comes_first(value: str, near: str) -> None:
    names = ["epochs", "learning_rate", "l2"]
    assert suggestion(value, names).startswith(f"did you mean {near!r}? ")
    assert suggestion(value, names).endswith("epochs, learning_rate, l2")


def test_all_names_where_none_is_near() -> None:
    assert suggestion("zzzz", ["mcne", "bpr"]) == "choose one of mcne, bpr"
    assert suggestion("zzzz", range(33)).endswith("28, 29, … 3 more")


def test_the_remedy_of_an_unknown_name() -> None:
    error = UnknownError.of("split", "rnadom", ["random"], place="mydata", remedy="or make one")
    assert (error.place, error.value, error.allowed) == ("mydata", "rnadom", ("random",))
    assert error.remedy.endswith("random, or make one")


def test_built_in_kinds() -> None:
    assert issubclass(UnknownArgumentError, (TypeError, KeyError, ValueError))
    assert issubclass(MissingError, FileNotFoundError)
    assert str(UnknownError("unknown user 3")) == "unknown user 3"  # KeyError would quote it


@pytest.mark.parametrize(
    "error",
    [
        UnknownError.of("method", "bprr", ["bpr"], place="--methods"),
        MissingError("no such file", place="here", value="here", remedy="make it"),
        Interrupted("stopped", place="run", remedy="--resume continues it", signal_number=signal.SIGTERM),
    ],
)
def test_another_process_gets_all_fields(error: UsageError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_the_function_of_before() -> None:
    with pytest.warns(
        DeprecationWarning, match=r"mcne.errors.unknown will be removed .* use .*UnknownError.of"
    ) as warned:
        text = unknown("color", "gren", ["green", "red"])
    assert warned[0].filename == __file__
    assert text.startswith("unknown color 'gren'; did you mean 'green'?")
