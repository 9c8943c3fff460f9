"""``mcne doctor``: what this machine offers, and what to put in a report of a problem."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from mcne import __version__

CORE = ("numpy", "scipy", "pyarrow", "torch", "rich", "typer")
OPTIONAL = {
    "pandas": "frames of pandas as data",
    "polars": "frames of polars as data",
    "tensorboard": "--set tensorboard=true",
}
SIDE, REPEATS = 512, 8
DRIVER = Path("/proc/driver/nvidia")
"""What there is on Linux where NVIDIA's driver is loaded."""


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False) -> None:
    """Versions, cores, memory, GPU, optional packages, disk: what to include when you report a problem."""
    found = examine()
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table.grid(padding=(0, 2, 0, 0))
    shown.add_column(no_wrap=True, style="dim")
    for name, value in _lines(found):
        shown.add_row(name, Text(value))
    console = Console()
    console.print(shown)
    for problem in found["problems"]:
        console.print(Text(f"problem: {problem}"))


def examine() -> dict[str, Any]:
    """Everything that is looked at, as plain data."""
    found: dict[str, Any] = {
        "mcne": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "cores": _cores(),
        "memory": _memory(),
        "packages": {name: _version(name) for name in (*CORE, *OPTIONAL)},
        "driver": DRIVER.exists(),
        "torch": _torch(),
        "disk": {place: shutil.disk_usage(place).free for place in (str(Path.cwd()), tempfile.gettempdir())},
    }
    return found | {"problems": list(_problems(found))}


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory() -> dict[str, int | None]:
    """Bytes in all and still free for use, where the system says so."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        said = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith("kB")}
        return {"total": said["MemTotal"], "available": said["MemAvailable"]}
    except (OSError, KeyError, ValueError):
        return {"total": None, "available": None}


def _version(package: str) -> str | None:
    import importlib.metadata

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _torch() -> dict[str, Any]:
    """PyTorch's build, its GPU, how long it takes to import and how fast it multiplies."""
    started = time.perf_counter()
    try:
        import torch
    except (ImportError, OSError) as error:
        return {"error": str(error)}
    imported = time.perf_counter() - started
    gpus = [torch.cuda.get_device_name(at) for at in range(torch.cuda.device_count())]
    square = torch.ones(SIDE, SIDE)
    square @ square  # the first product also starts the threads
    started = time.perf_counter()
    for _ in range(REPEATS):
        square @ square
    speed = REPEATS * 2 * SIDE**3 / (time.perf_counter() - started)
    return {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "gpus": gpus,
        "threads": torch.get_num_threads(),
        "import_seconds": round(imported, 3),
        "gigaflops": round(speed / 1e9, 1),
    }


def _problems(found: Mapping[str, Any]) -> Iterator[str]:
    """What stands in the way of a training here."""
    for name in CORE:
        if found["packages"][name] is None:
            yield f"{name} is not installed: pip install {name}"
    torch = found["torch"]
    if "error" in torch:
        yield f"PyTorch cannot be imported: {torch['error']}"
    elif torch["cuda"] and found["driver"] and not torch["gpus"]:  # such a build is the usual one, also without a GPU
        yield "a CUDA build of PyTorch and a driver, but no GPU in sight: look at the driver with nvidia-smi"
    elif torch["threads"] > found["cores"]:
        yield f"PyTorch uses {torch['threads']} threads on {found['cores']} cores: set OMP_NUM_THREADS={found['cores']}"
    for place, free in found["disk"].items():
        if free < 1 << 30:
            yield f"less than 1 GiB free in {place}"


def _lines(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    packages, torch, memory = found["packages"], found["torch"], found["memory"]
    yield "mcne", f"{found['mcne']}, Python {found['python']} ({found['executable']})"
    yield "machine", found["platform"]
    if memory["total"] is not None:
        of = f"{_gib(memory['available'])} of {_gib(memory['total'])} memory available"
        yield "", f"{found['cores']} cores, {of}"
    else:
        yield "", f"{found['cores']} cores"
    if "error" not in torch:
        build = f"CUDA {torch['cuda']}" if torch["cuda"] else "CPU build"
        yield "torch", f"{torch['version']} ({build}), {', '.join(torch['gpus']) or 'no GPU'}"
        speed = f"{torch['threads']} threads: {torch['gigaflops']:g} GFLOP/s"
        yield "", f"{speed}, imported in {torch['import_seconds']:.1f} s"
    yield "packages", ", ".join(f"{name} {packages[name] or 'MISSING'}" for name in CORE if name != "torch")
    for name, use in OPTIONAL.items():
        yield "" if name != next(iter(OPTIONAL)) else "optional", f"{name} {packages[name] or f'not installed ({use})'}"
    yield "disk", "; ".join(f"{_gib(free)} free in {place}" for place, free in found["disk"].items())


def _gib(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB"
