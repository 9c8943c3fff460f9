"""Which kernels compute a step, and how threads divide the rows of CPU kernels."""

from __future__ import annotations

import functools
import importlib
import os
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import chain, pairwise
from threading import Lock
from typing import Any, Literal

import numpy as np
import torch

from mcne.kernels.compilation import CLOCK

Backend = Literal["torch", "numba", "triton"]
"""Operations of PyTorch on any device, functions compiled for the CPU, or kernels for NVIDIA GPUs."""

BLOCKS = 16
"""Of rows, for threads to take. Their number decides the order of sums, so it does not depend on the machine."""

LITTLE = 1 << 17
"""Numbers that one thread is done with before another has woken up."""

MOST_NUMBERS = 1 << 14
"""Of a receiver's edges or a triple's items on a GPU: more do not fit the registers of a program."""

ON_CPU: Backend = "numba"
"""Tests and benchmarks put ``"torch"`` here, for the plain operations that compiled functions are compared with."""

_warned: set[str] = set()
_warning = Lock()


def backend_for(device: torch.device, *, fits: bool = True) -> Backend:
    """The fastest backend for a device; ``fits`` says whether Triton's kernels can hold what they would compute.

    They compute in single precision only.
    """
    if fits and is_gpu(device) and torch.get_default_dtype() == torch.float32 and _has_triton(device.type):
        return "triton"
    return ON_CPU if device.type == "cpu" else "torch"


def fits_gpu(rows: int, width: int) -> bool:
    """Whether a program on a GPU can hold so many ``rows`` of ``width`` numbers each."""
    return block(rows) * block(width) <= MOST_NUMBERS


def block(size: int) -> int:
    """The power of two that holds ``size``."""
    return 1 << max(0, size - 1).bit_length()


def is_gpu(device: torch.device) -> bool:
    """Whether kernels for NVIDIA GPUs can run on a device."""
    return device.type == "cuda"


@functools.cache
def _has_triton(device: str) -> bool:
    """Whether Triton works, which needs a C compiler, headers and the driver. If not, warn once."""
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # as ever; without a choice it warns that this will change
    try:
        _time_triton()
        rows = importlib.import_module("mcne.kernels.triton.rows")
        rows.gather(torch.zeros(1, 1, device=device), torch.zeros(1, dtype=torch.int64, device=device))
    except Exception as error:  # of any kind: they come from Triton, the compiler and the driver
        warnings.warn(f"training on a GPU is several times slower, as Triton does not work here: {error}", stacklevel=3)
        return False
    return True


@functools.cache
def _time_triton() -> None:
    """Make Triton report compilations to the clock, in versions that can; an earlier listener stays in place."""
    compilation = getattr(getattr(importlib.import_module("triton"), "knobs", None), "compilation", None)
    if compilation is None or not hasattr(compilation, "listener"):
        return
    earlier = compilation.listener

    def listen(**event: Any) -> None:
        if event.get("cache_hit") is False:
            CLOCK.add(getattr(event.get("times"), "total", 0) / 1e6)
        if earlier is not None:
            earlier(**event)

    compilation.listener = listen


def warn_once(subject: str, message: str) -> None:
    """Warn once per process about something that makes training slower."""
    with _warning:
        is_new = subject not in _warned
        _warned.add(subject)
    if is_new:
        warnings.warn(message, stacklevel=3)


def in_blocks(rows: int, work: Callable[[int, int, int], None], *, numbers: int = LITTLE) -> None:
    """Do all rows, ``work(start, stop, block)`` at a time, on as many threads as PyTorch has.

    With few ``numbers`` a single block does them: waking another thread would take longer.
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


def _work_off(blocks: Iterable[tuple[int, int, int]], work: Callable[[int, int, int], None]) -> None:
    for block in blocks:
        work(*block)


@functools.lru_cache(maxsize=1)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="kernel")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a fork has the pool, but none of its threads
