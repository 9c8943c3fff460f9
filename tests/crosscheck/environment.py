"""Run checks in virtual environments of pinned packages that the project itself never depends on."""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

QUIET = ("--quiet", "--disable-pip-version-check")
RECBOLE = "recbole==1.2.1"
MOVIES = "recbole/dataset_example/ml-100k/ml-100k.inter"

Found = dict[str, str]  # what the checks look for in their environment: interpreters and files


def main(script: str, about: str | None, checks: tuple[str, ...], others: Callable[[Path], Found]) -> int:
    """The command line of a ``check.py``: run ``check_NAME.compare()`` for each name, in an environment of its own.

    ``others`` makes what the checks need beside the packages of ``requirements.txt``, in the directory that it gets.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *checks], metavar="|".join(checks))
    parser.add_argument("--environments", type=Path, help="where to make and keep the environments")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    names = chosen.names or list(checks)
    if chosen.here:
        return _compare(names)
    if chosen.environments:
        return _compare_apart(Path(script).resolve(), names, chosen.environments.resolve(), others)
    with tempfile.TemporaryDirectory() as directory:
        return _compare_apart(Path(script).resolve(), names, Path(directory), others)


def _compare(names: list[str]) -> int:
    agreed = {}
    for name in names:
        print(f"\n{name}", flush=True)
        start = time.perf_counter()
        agreed[name] = importlib.import_module(f"check_{name}").compare()
        print(f"  {name}: {'agree' if agreed[name] else 'DIFFER'} ({time.perf_counter() - start:.0f} s)", flush=True)
    return int(not all(agreed.values()))


def _compare_apart(script: Path, names: list[str], directory: Path, others: Callable[[Path], Found]) -> int:
    python = python_with(script.with_name("requirements.txt"), directory / "ours")
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = others(directory) | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
    return subprocess.run([python, script, "--here", *names], check=False, env=alone | environment).returncode


def python_with(requirements: Path, directory: Path) -> Path:
    """The interpreter of an environment in ``directory`` that has ``requirements``; made on first use."""
    python, done = directory / "bin" / "python", directory / "done"
    if not done.is_file() or done.read_text() != requirements.read_text():
        subprocess.run([sys.executable, "-m", "venv", "--clear", directory], check=True)
        subprocess.run([python, "-m", "pip", "install", *QUIET, "-r", requirements], check=True)
        done.write_text(requirements.read_text())
    return python


def recbole(directory: Path) -> Found:
    """RecBole's interpreter, and MovieLens 100k, which its package carries."""
    requirements = Path(__file__).with_name("requirements-recbole.txt")
    python = python_with(requirements, directory / "recbole")
    if not (directory / MOVIES).is_file():
        pip = [sys.executable, "-m", "pip", "download", *QUIET, "--no-deps", "--dest", str(directory), RECBOLE]
        subprocess.run(pip, check=True)
        with zipfile.ZipFile(next(directory.glob("recbole-*.whl"))) as wheel:
            wheel.extract(MOVIES, directory)
    return {"CROSSCHECK_RECBOLE": str(python), "CROSSCHECK_MOVIES": str(directory / MOVIES)}
