"""``mcne doctor | bench``: what this machine offers, and how fast training and ranking are on it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
import time
import timeit
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer import Argument, Option

from mcne import __version__
from mcne.cli.options import AsJson
from mcne.cli.output import labeled, print_json, print_line
from mcne.text import NO_VALUE, human_bytes

Figures = Annotated[
    list[str] | None,
    Argument(help="Run only these names of --list: step, step.plain, ranking. Default: all.", metavar="FIGURE"),
]
OnlyList = Annotated[bool, Option("--list", help="List the benchmarks and exit.")]

CORE = ("numpy", "scipy", "pyarrow", "torch", "rich", "typer")
OPTIONAL = {
    "pandas": "frames of pandas as data",
    "polars": "frames of polars as data",
    "tensorboard": "--set tensorboard=true",
}
SIDE = 512
REPEATS = 8
DRIVER = Path("/proc/driver/nvidia")
"""What there is on Linux where NVIDIA's driver is loaded."""


def doctor(as_json: AsJson = False) -> None:
    """Show versions, cores, memory, GPU, optional packages and disk space, to include in a bug report."""
    facts: dict[str, Any] = {
        "mcne": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory": _memory(),
        "packages": {name: _version(name) for name in (*CORE, *OPTIONAL)},
        "driver": DRIVER.exists(),
        "torch": _torch(),
        "disk": {place: shutil.disk_usage(place).free for place in (str(Path.cwd()), tempfile.gettempdir())},
    }
    facts["problems"] = list(_problems(facts))
    if as_json:
        print_json(facts)
        return
    Console().print(labeled(_lines(facts)))
    for problem in facts["problems"]:
        print_line(f"problem: {problem}")


def bench(figures: Figures = None, only_list: OnlyList = False, as_json: AsJson = False) -> None:
    """Benchmark MCNE's training step and ranking against slower implementations or lower bounds.

    Uses a synthetic network of Ciao's size and takes two minutes. Other work on the machine affects the figures.
    """
    from mcne_bench import FOR_USERS, chosen

    chosen(FOR_USERS, figures or [])

    from mcne_bench.figures import choose, for_users, machine  # imports torch, so mistakes above are reported first

    benchmarks = choose(for_users(), figures or [])
    if only_list:
        for each in benchmarks:
            typer.echo(f"{each.key:16} {each.name}, against {each.against}")
        return
    about = machine()
    measured = []
    for each in benchmarks:
        typer.echo(f"{each.key} …", err=True)
        measured.append(each.figure())
    if as_json:
        print_json({"machine": about, "figures": [asdict(figure) for figure in measured]})
        return
    gpu = about["gpu"] or "none"
    typer.echo(f"{about['processor']}, {about['threads']} threads, load {about['load'][0]}, GPU: {gpu}")
    for figure in measured:
        ratio = NO_VALUE if figure.value is None else f"{figure.value:.3g} {figure.unit}"
        asked = "" if figure.at_most is None else f"at most {figure.at_most:g}"
        typer.echo(f"{figure.key:16} {ratio:>9}  {asked:13} {figure.verdict:9} against {figure.against}")
        typer.echo(f"{'':16} {figure.detail}")


def _memory() -> dict[str, int | None]:
    """Bytes in all and still free for use, where the system says so."""
    try:
        from mcne.models.memory import kernel_sizes
    except ImportError:  # a package is missing, which is among the problems
        return {"total": None, "available": None}
    sizes = kernel_sizes("/proc/meminfo")
    return {"total": sizes.get("MemTotal"), "available": sizes.get("MemAvailable")}


def _version(package: str) -> str | None:
    return next((each.version for each in importlib.metadata.distributions(name=package)), None)


def _torch() -> dict[str, Any]:
    """PyTorch's build, its GPU, how long it takes to import and how fast it multiplies."""
    started = time.perf_counter()
    try:
        import torch
    except (ImportError, OSError) as error:
        return {"error": str(error)}
    imported = time.perf_counter() - started
    square = torch.ones(SIDE, SIDE)
    square @ square  # the first product also starts the threads
    speed = REPEATS * 2 * SIDE**3 / timeit.timeit(lambda: square @ square, number=REPEATS)
    return {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "gpus": [torch.cuda.get_device_name(at) for at in range(torch.cuda.device_count())],
        "threads": torch.get_num_threads(),
        "import_seconds": round(imported, 3),
        "gigaflops": round(speed / 1e9, 1),
    }


def _problems(facts: Mapping[str, Any]) -> Iterator[str]:
    """What stands in the way of a training here."""
    for name in CORE:
        if facts["packages"][name] is None:
            yield f"{name} is not installed: pip install {name}"
    torch = facts["torch"]
    if "error" in torch:
        yield f"PyTorch cannot be imported: {torch['error']}"
    elif torch["cuda"] and facts["driver"] and not torch["gpus"]:  # such a build is the usual one, also without a GPU
        yield "a CUDA build of PyTorch and a driver, but no GPU in sight: look at the driver with nvidia-smi"
    elif torch["threads"] > facts["cores"]:
        yield f"PyTorch uses {torch['threads']} threads on {facts['cores']} cores: set OMP_NUM_THREADS={facts['cores']}"
    for place, free in facts["disk"].items():
        if free < 1 << 30:
            yield f"less than 1 GiB free in {place}"


def _lines(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    packages = facts["packages"]
    torch = facts["torch"]
    memory = facts["memory"]
    yield "mcne", f"{facts['mcne']}, Python {facts['python']} ({facts['executable']})"
    yield "machine", facts["platform"]
    cores = f"{facts['cores']} cores"
    if memory["total"]:
        cores += f", {human_bytes(memory['available'])} of {human_bytes(memory['total'])} memory available"
    yield "", cores
    if "error" not in torch:
        build = f"CUDA {torch['cuda']}" if torch["cuda"] else "CPU build"
        yield "torch", f"{torch['version']} ({build}), {', '.join(torch['gpus']) or 'no GPU'}"
        speed = f"{torch['threads']} threads: {torch['gigaflops']:g} GFLOP/s"
        yield "", f"{speed}, imported in {torch['import_seconds']:.1f} s"
    yield "packages", ", ".join(f"{name} {packages[name] or 'MISSING'}" for name in CORE if name != "torch")
    for name, use in OPTIONAL.items():
        yield "" if name != next(iter(OPTIONAL)) else "optional", f"{name} {packages[name] or f'not installed ({use})'}"
    yield "disk", "; ".join(f"{human_bytes(free)} free in {place}" for place, free in facts["disk"].items())
