"""The same bytes on a GPU whatever a method computes there, for those who ask for it.

MCNE's own kernels add up in one order in any case (decision 6). What other methods leave to PyTorch may add up in any:
then PyTorch has to be told to take the operations that do not, which are slower.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from mcne.errors import UsageError

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
FIXED = (":4096:8", ":16:8")
"""Of the workspaces of cuBLAS those with which its products are the same every time."""


@contextmanager
def one_order(device: torch.device, *, is_asked: bool) -> Iterator[None]:
    """While it lasts, PyTorch adds up in one order on a GPU, if that is asked; on a CPU everything does anyway."""
    if not is_asked or device.type == "cpu":
        yield
        return
    _fix_products()
    other: Any = torch.utils.deterministic  # which has the property, and no declaration of it
    before = torch.are_deterministic_algorithms_enabled(), other.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    other.fill_uninitialized_memory = False  # nothing is read before it is written
    try:
        yield
    except RuntimeError as error:
        if "deterministic" not in str(error):
            raise
        operation = str(error).split(" does not", 1)[0]
        raise UsageError(
            f"setting deterministic: PyTorch {torch.__version__} has no {operation} that adds up in one order on a "
            "GPU; leave the setting out, or use --device cpu"
        ) from error
    finally:
        torch.use_deterministic_algorithms(before[0])
        other.fill_uninitialized_memory = before[1]


def _fix_products() -> None:
    """cuBLAS looks at its workspace once, when a GPU is opened."""
    if os.environ.get(WORKSPACE) in FIXED:
        return
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call] # as PyTorch declares it
        raise UsageError(
            f"setting deterministic: the GPU was in use before, with {WORKSPACE} "
            f"{os.environ.get(WORKSPACE) or 'not set'}; set it to {FIXED[0]} before Python starts"
        )
    os.environ[WORKSPACE] = FIXED[0]
