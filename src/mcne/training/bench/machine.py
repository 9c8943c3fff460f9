"""On what figures were taken."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

import torch

from mcne import __version__

LIBRARIES = ("numba", "numpy", "scipy", "torch", "triton")


def machine() -> dict[str, Any]:
    """Processor, cores, load, GPU and versions, as plain data."""
    return {
        "mcne": __version__,
        "platform": platform.platform(),
        "python": platform.python_version(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "libraries": {name: version for name in LIBRARIES if (version := _version(name)) is not None},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
