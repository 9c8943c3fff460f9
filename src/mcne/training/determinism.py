"""The same bytes on a GPU whatever a method computes there, for those who ask for it.

What kernels of our own compute adds up in one order in any case (decision 6). What is left to PyTorch may add up in
any: then it has to be told to take the operations that do not, which are slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from mcne.errors import UsageError

NONE = " does not have a deterministic implementation"
"""How PyTorch begins to say of an operation that it adds up in any order alone."""


@contextmanager
def one_order(device: torch.device, *, is_asked: bool) -> Iterator[None]:
    """While it lasts, PyTorch adds up in one order on a GPU, if that is asked: in all threads of the process."""
    if not is_asked or device.type == "cpu":
        yield
        return
    filling: Any = torch.utils.deterministic  # which has the property, and no declaration of it
    was_on, only_warned = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    filled = filling.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    filling.fill_uninitialized_memory = False  # nothing is read before it is written
    try:
        yield
    except RuntimeError as error:
        operation, said, _ = str(error).partition(NONE)
        if not said:
            raise
        raise UsageError(
            f"setting deterministic: PyTorch {torch.__version__} has no {operation} that adds up in one order on a "
            "GPU; leave the setting out, or use --device cpu"
        ) from error
    finally:
        torch.use_deterministic_algorithms(was_on, warn_only=only_warned)
        filling.fill_uninitialized_memory = filled
