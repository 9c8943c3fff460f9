"""Threads: every block once, also in a process that was forked."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
import torch

from mcne.kernels.backend import BLOCKS, in_blocks


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


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
