"""Where a training runs: on which device, whether it fits in memory, and where its tables are.

Tables that do not fit in memory go to files (:mod:`mcne.models.tables`); everything else must fit.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mcne.errors import UnknownError, UsageError
from mcne.models.memory import Estimate, available_memory
from mcne.text import human_bytes

if TYPE_CHECKING:
    import torch

WORKSPACES = 64 << 20
"""Of cuBLAS on a GPU, for steps that are captured and for everything else."""
DEVICES = ("auto", "cpu", "cuda")


def choose_device(name: str) -> torch.device:
    """``cpu``, ``cuda``, or with ``auto`` the GPU if there is one.

    The GPU is numbered: otherwise every thread would use its own current GPU.
    """
    import torch

    if name not in DEVICES:
        raise UnknownError.of("device", name, DEVICES)
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError(
            "PyTorch finds no GPU",
            "device cuda",
            "use --device cpu, or install a CUDA build of PyTorch",
            value=name,
            allowed=("auto", "cpu"),
        )
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    is_open = torch.cuda.is_initialized()  # type: ignore[no-untyped-call] # as PyTorch declares it
    return torch.device("cuda", torch.cuda.current_device() if is_open else 0)  # to ask would open it


def decide(method: str, needed: Estimate, device: torch.device, *, path: Path) -> tuple[str, int | None]:
    """Where a training fits, in one line, and the memory for tables if not all fit; refused if it cannot."""
    if device.type != "cpu":
        import torch

        free, _ = torch.cuda.mem_get_info(device)
        wanted = gpu_bytes(needed)
        if wanted > free:
            need = f"{human_bytes(wanted)} on the GPU"
            raise _refusal(method, needed, need, f"{human_bytes(free)} there")
        parts = f"{needed.parts()}, cuBLAS {human_bytes(WORKSPACES)}"
        return f"GPU memory: about {human_bytes(wanted)} of {human_bytes(free)} ({parts})", None
    available = available_memory()
    line = f"memory: about {human_bytes(needed.memory)} of {human_bytes(available)} ({needed.parts()})"
    if needed.memory <= available:
        return line, None
    least = min(needed.memory, needed.memory_beside_files)
    if least > available:
        even = ", even with its tables in files," if least < needed.memory else ""
        raise _refusal(method, needed, human_bytes(least) + even, human_bytes(available))
    left = available - needed.memory_beside_files
    size = human_bytes(needed.files - min(left, needed.tables))
    files = f"so tables are in files beside {path} as far as needed, about {size}: slower, with the same result"
    return f"{line}, {files}", left


def gpu_bytes(needed: Estimate) -> int:
    """The peak memory on a GPU, where no table is in files."""
    lasting = WORKSPACES + needed.data + needed.tables + needed.held + needed.best
    return lasting + max(needed.step, needed.levels + needed.scoring)


def _refusal(method: str, needed: Estimate, need: str, available: str) -> UsageError:
    *others, last = needed.grows_with
    return UsageError(
        f"{method} needs about {need} of memory, and {available} are available ({needed.parts()})",
        value=method,
        remedy=f"reduce {', '.join(others)} or {last}, train on fewer behaviors or users, or use a machine with more "
        "memory",
    )
