"""What compiled kernels share: whether they are there, and how threads divide their rows."""

from __future__ import annotations

import functools
import importlib
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import ModuleType

import numpy as np
import torch

BLOCKS = 32
"""Of rows, for threads to take. Their number decides the order of sums, so it does not depend on the machine."""


@functools.cache
def compiled(module: str) -> ModuleType | None:
    """A module beside this one that needs numba; without that, one warning and nothing."""
    try:
        return importlib.import_module(f"mcne.kernels.{module}")
    except ImportError as error:
        warnings.warn(f"training on the CPU is several times slower without numba ({error})", stacklevel=2)
        return None


def in_blocks(rows: int, work: Callable[[int, int, int], None]) -> None:
    """Do all rows, ``work(start, stop, block)`` at a time, on as many threads as PyTorch has."""
    bounds = np.linspace(0, rows, BLOCKS + 1).astype(np.int64).tolist()
    blocks = [(start, stop, at) for at, (start, stop) in enumerate(pairwise(bounds)) if start < stop]
    if torch.get_num_threads() == 1:
        for block in blocks:
            work(*block)
    else:
        for done in [_pool(torch.get_num_threads()).submit(work, *block) for block in blocks]:
            done.result()


@functools.lru_cache(maxsize=1)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="kernel")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a fork has the pool, but none of its threads
