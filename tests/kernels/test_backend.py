"""Threads: every block once, also in a process that was forked. What slows training down is said once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from mcne.kernels import backend
from mcne.kernels.backend import BLOCKS, in_blocks, warn_once
from mcne.kernels.compilation import CompileClock
from mcne.models.neighborhoods import hops_of
from mcne.sampling.neighbors import Hop, Neighborhood


@pytest.fixture
def two_threads(restored_threads: None) -> None:
    torch.set_num_threads(2)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("rows", [0, 1, BLOCKS - 1, BLOCKS, 1000])
def test_every_row_is_done_once(rows: int) -> None:
    done = [0] * rows

    def work(start: int, stop: int, block: int) -> None:
        assert 0 <= block < BLOCKS
        for row in range(start, stop):
            done[row] += 1

    in_blocks(rows, work)
    assert done == [1] * rows


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("failing", [0, 1, BLOCKS - 1])
def test_what_fails_in_a_thread_is_told(failing: int) -> None:
    def work(start: int, stop: int, block: int) -> None:
        if block >= failing:
            raise ValueError(f"block {block}")

    with pytest.raises(ValueError, match="block"):
        in_blocks(100, work)


@pytest.mark.usefixtures("two_threads")
def test_after_a_failure_no_thread_goes_on() -> None:
    at_work = 0

    def work(start: int, stop: int, block: int) -> None:
        nonlocal at_work
        if not block:
            raise ValueError("the first")
        at_work += 1
        time.sleep(0.01)
        at_work -= 1

    with pytest.raises(ValueError, match="the first"):
        in_blocks(100, work)
    assert at_work == 0


@pytest.mark.usefixtures("two_threads")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_fork_has_threads_of_its_own() -> None:
    in_blocks(100, lambda start, stop, block: None)
    child = os.fork()
    if not child:
        in_blocks(100, lambda start, stop, block: None)  # would wait for threads that are not there
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


# what slows training down


@pytest.fixture
def nothing_warned(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(backend, "_warned", set())
    return monkeypatch


@pytest.mark.usefixtures("nothing_warned")
def test_threads_that_find_out_together_warn_once() -> None:
    with pytest.warns(UserWarning, match="slow, says") as caught, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: warn_once("disk", f"slow, says {number}"), range(100)))
    assert len(caught) == 1
    with pytest.warns(UserWarning, match="slow too"):
        warn_once("network", "slow too")


def hop(samples: int) -> Hop:
    return Hop(np.zeros(1, np.int64), np.zeros((1, samples), np.int64), np.ones(1, np.bool_))


def test_more_samples_than_kernels_hold_are_said_once(nothing_warned: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="Triton is made for Linux alone")
    nothing_warned.setattr(backend, "is_gpu", lambda _: True)
    around = Neighborhood(np.zeros(1, np.int64), (hop(64), hop(65), hop(200)))
    with pytest.warns(UserWarning, match="do not hold 65 sampled neighbors in rows of 256 numbers") as caught:
        hops = hops_of(around, torch.device("cpu"), widest=256)
    assert [each.by_sender is not None for each in hops] == [True, False, False]
    assert "at most 64 neighbors in such rows, or rows of 128 for as many" in str(caught[0].message)
    assert len(caught) == 1
    hops_of(around, torch.device("cpu"), widest=256)  # where a second warning would be an error


# what Triton compiles


@pytest.fixture
def compilation(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Triton's knobs, with a listener of somebody else."""
    triton = pytest.importorskip("triton", reason="Triton is made for Linux alone")
    heard: list[dict[str, Any]] = []
    knobs = SimpleNamespace(listener=lambda **told: heard.append(told), heard=heard, clock=CompileClock())
    monkeypatch.setattr(triton, "knobs", SimpleNamespace(compilation=knobs))
    monkeypatch.setattr(backend, "CLOCK", knobs.clock)
    backend._time_triton.cache_clear()
    yield knobs
    backend._time_triton.cache_clear()


def test_kernels_are_timed_when_they_are_compiled_and_not_when_they_are_found(compilation: Any) -> None:
    for _ in range(2):
        backend._time_triton()
    compilation.listener(src=None, times=SimpleNamespace(total=2_000_000), cache_hit=True)
    assert compilation.clock.since(0) == 0
    compilation.listener(src=None, times=SimpleNamespace(total=2_000_000), cache_hit=False)
    compilation.listener(something="else")  # as another version may tell
    assert compilation.clock.since(0) == pytest.approx(2)
    assert len(compilation.heard) == 3


def test_a_triton_that_tells_nothing_is_left_alone(compilation: Any) -> None:
    del compilation.listener
    backend._time_triton()
    assert not hasattr(compilation, "listener")


WITH_TRITON = """
import time
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from mcne.kernels.compilation import CLOCK
from mcne.kernels import backend
from mcne.kernels.triton import rows
backend._time_triton()
sizes = dict.fromkeys(("row_values", "width"), "constexpr")
signature = {"table": "*fp32", "rows": "*i64", "values": "*fp32"} | sizes
started = time.perf_counter()
for _ in range(2):
    source = ASTSource(rows._gather, signature, {(3,): 16, (4,): 16})
    triton.compile(source, target=GPUTarget("cuda", 90, 32))
    print(CLOCK.since(started))
print(time.perf_counter() - started)
"""


def test_triton_tells_of_what_it_compiles(tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="Triton is made for Linux alone")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", WITH_TRITON], env=environment, capture_output=True, text=True, check=True
    )
    compiled, reported, taken = map(float, done.stdout.split())
    assert 0 < compiled == reported < taken
