"""What compiled kernels share: whether they are there, and how threads divide their rows."""

from __future__ import annotations

import functools
import importlib
import os
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import chain, pairwise
from threading import Lock
from types import ModuleType
from typing import Any

import numpy as np
import torch

from mcne.kernels.compile_clock import CLOCK

BLOCKS = 16
"""Of rows, for threads to take. Their number decides the order of sums, so it does not depend on the machine."""

LITTLE = 1 << 17
"""Numbers that one thread is done with before another has woken up."""

Block = tuple[int, int, int]
"""Its first row, the one after its last, and its number."""

_warned: set[str] = set()
_warning = Lock()


@functools.cache
def compiled(module: str) -> ModuleType | None:
    """A module beside this one that needs numba; without that, nothing, and one warning for all of them."""
    try:
        return importlib.import_module(f"mcne.kernels.{module}")
    except ImportError as error:
        warn_once("numba", f"training on the CPU is several times slower without numba ({error})")
        return None


def warn_once(subject: str, said: str) -> None:
    """Warn of what makes training slower: once in a process, whichever module or thread comes upon it first."""
    with _warning:
        is_new = subject not in _warned
        _warned.add(subject)
    if is_new:
        warnings.warn(said, stacklevel=3)


def on_gpu(module: str, device: torch.device) -> ModuleType | None:
    """A module beside this one that needs Triton, if the device is a GPU and numbers are of single precision; without
    Triton, one warning and nothing."""
    is_there = is_gpu(device) and torch.get_default_dtype() == torch.float32 and _can_compile(device.type)
    return importlib.import_module(f"mcne.kernels.{module}") if is_there else None


def is_gpu(device: torch.device) -> bool:
    """Whether kernels for NVIDIA GPUs can run on a device."""
    return device.type == "cuda"


@functools.cache
def _can_compile(device: str) -> bool:
    """Whether Triton is there and all that it needs, which is more than Python: a C compiler, headers, the driver."""
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # as ever; without a choice it warns that this will change
    try:
        _time_kernels()
        rows = importlib.import_module("mcne.kernels.triton.rows")
        rows.gather(torch.zeros(1, 1, device=device), torch.zeros(1, dtype=torch.int64, device=device))
    except Exception as error:  # of any kind: they come from Triton, the compiler and the driver
        warnings.warn(f"training on a GPU is several times slower, as Triton does not work here: {error}", stacklevel=3)
        return False
    return True


@functools.cache
def _time_kernels() -> None:
    """Have the clock told of the kernels that Triton compiles, by versions that tell; a listener that is there already
    hears of them as before."""
    compilation = getattr(getattr(importlib.import_module("triton"), "knobs", None), "compilation", None)
    if compilation is None or not hasattr(compilation, "listener"):
        return
    earlier = compilation.listener

    def listen(**told: Any) -> None:
        if told.get("cache_hit") is False:
            CLOCK.add(getattr(told.get("times"), "total", 0) / 1e6)
        if earlier is not None:
            earlier(**told)

    compilation.listener = listen


def in_blocks(rows: int, work: Callable[[int, int, int], None], *, numbers: int = LITTLE) -> None:
    """Do all rows, ``work(start, stop, block)`` at a time, on as many threads as PyTorch has.

    A single block does them if they are of fewer ``numbers`` than it takes to wake another thread.
    """
    if numbers < LITTLE:
        work(0, rows, 0)
        return
    bounds = np.linspace(0, rows, BLOCKS + 1).astype(np.int64).tolist()
    blocks = [(start, stop, at) for at, (start, stop) in enumerate(pairwise(bounds)) if start < stop]
    left = iter(blocks[1:])  # which threads share: to hand out each block on its own takes as long as a small one
    threads = torch.get_num_threads()
    others = [_pool(threads).submit(_work_off, left, work) for _ in range(min(threads, len(blocks)) - 1)]
    try:
        _work_off(chain(blocks[:1], left), work)
    finally:
        wait(others)  # also after a failure: what they write to must not end before them
    for other in others:
        other.result()


def _work_off(blocks: Iterable[Block], work: Callable[[int, int, int], None]) -> None:
    for block in blocks:
        work(*block)


@functools.lru_cache(maxsize=1)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="kernel")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a fork has the pool, but none of its threads
