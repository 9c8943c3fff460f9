"""Compiled functions compute what they say, and the time that compiling takes counts once."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

from mcne.kernels import compilation
from mcne.kernels.compilation import CLOCK, CompileClock, compiled


class Told:
    """A clock that tells what it is set to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    made = Told()
    monkeypatch.setattr(compilation, "time", SimpleNamespace(perf_counter=made))
    return made


def at(told: Told, events: list[tuple[float, str]]) -> CompileClock:
    clock = CompileClock()
    for told.now, what in events:
        getattr(clock, what)()
    return clock


def test_what_is_compiled_one_after_the_other_adds_up(told: Told) -> None:
    clock = at(told, [(101, "start"), (103, "stop"), (110, "start"), (114, "stop")])
    assert clock.since(100) == 6


@pytest.mark.parametrize(
    "events",
    [
        [(101, "start"), (102, "start"), (103, "stop"), (106, "stop")],  # one within another, or in another thread
        [(101, "start"), (101, "start"), (106, "stop"), (106, "stop")],
    ],
)
def test_at_the_same_time_counts_once(told: Told, events: list[tuple[float, str]]) -> None:
    assert at(told, events).since(100) == 5


@pytest.mark.parametrize(("moment", "seconds"), [(90, 6), (102, 5), (103, 4), (112, 2), (114, 0), (120, 0)])
def test_only_what_comes_after_a_moment_counts(told: Told, moment: float, seconds: float) -> None:
    clock = at(told, [(101, "start"), (103, "stop"), (110, "start"), (114, "stop")])
    assert clock.since(moment) == seconds


def test_what_is_under_way_counts_as_far_as_it_has_come(told: Told) -> None:
    clock = at(told, [(101, "start")])
    told.now = 104
    assert (clock.since(100), clock.since(103)) == (3, 1)
    clock.stop()
    told.now = 110
    assert clock.since(100) == 3


def test_what_is_told_of_afterwards_counts_once_too(told: Told) -> None:
    """A kernel that took 8 s, in which something else was compiled for 2 s, and one that overlaps with it by 1 s."""
    clock = at(told, [(103, "start"), (105, "stop")])
    told.now = 109
    clock.add(8)
    told.now = 111
    clock.add(3)
    assert clock.since(100) == 10


def test_an_end_without_a_start_is_none(told: Told) -> None:
    clock = at(told, [(101, "stop"), (102, "start"), (104, "stop")])
    assert clock.since(100) == 2


# numba


def in_a_file(path: Path) -> Any:
    """A function that numba can keep: one that lies in a file."""
    path.write_text("def twice(value):\n    return 2 * value\n", encoding="utf-8")
    spec = importlib.util.spec_from_file_location("twice", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.twice


def test_a_function_is_timed_when_it_is_compiled_and_not_when_it_is_found(tmp_path: Path) -> None:
    function = in_a_file(tmp_path / "twice.py")
    started = time.perf_counter()
    assert compiled(function)(3) == 6
    once = CLOCK.since(started)
    assert 0 < once < time.perf_counter() - started
    assert compiled(function)(4) == 8  # as another process would
    assert CLOCK.since(started) == once
    assert compiled(function)(4.5) == 9  # of another type, so that it is compiled again
    assert CLOCK.since(started) > once


def test_a_function_that_cannot_be_compiled_ends_too() -> None:
    with pytest.raises(Exception, match="globals"):
        compiled(lambda: globals())()  # which numba does not know
    now = time.perf_counter()
    time.sleep(0.01)
    assert CLOCK.since(now) == 0


def test_nothing_that_compiles_is_imported_for_the_clock() -> None:
    code = "import sys, mcne.training.journal, mcne.cli.progress; print({'numba', 'triton'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def total(values: np.ndarray) -> float:
    subtotal = 0.0
    for value in values:
        subtotal += value
    return subtotal


def test_where_nothing_can_be_kept_it_is_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Dispatcher) -> None:
        raise RuntimeError("cannot cache function 'total': no locator available")

    monkeypatch.setattr(Dispatcher, "enable_caching", refuse)
    monkeypatch.setattr(CLOCK, "is_kept", True)
    assert compiled(total)(np.arange(5.0)) == 10
    assert not CLOCK.is_kept


def test_what_is_not_a_number_stays_none() -> None:
    assert np.isnan(compiled(total)(np.array([1.0, np.nan])))
