"""What every run found, kept as JSON beside each other."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mcne_bench.figures import Figure

RESULTS = Path("bench-results")
SHOWN = 8
"""Runs in a line, the newest."""


def keep(figures: Sequence[Figure], machine: dict[str, Any], directory: Path = RESULTS) -> Path:
    """Write a run; where one of the same second is there, beside it."""
    directory.mkdir(exist_ok=True)
    stamp = time.strftime("%Y%m%dT%H%M%S")
    kept = {"machine": machine | {"commit": _commit()}, "figures": [asdict(figure) for figure in figures]}
    for name in (stamp, *(f"{stamp}-{again}" for again in range(1, 100))):
        path = directory / f"{name}.json"
        try:
            with path.open("x", encoding="utf-8") as file:
                json.dump(kept, file, indent=1, ensure_ascii=False)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(f"{directory}: a hundred runs in one second")


def lines(directory: Path = RESULTS) -> list[str]:
    """A line for each figure over past runs, oldest first: its values, and what it should reach."""
    series: dict[str, list[tuple[float, str]]] = {}
    asked: dict[str, str] = {}
    for path in sorted(directory.glob("*T*.json")):
        for figure in json.loads(path.read_text(encoding="utf-8"))["figures"]:
            name = figure.get("key") or figure["name"]
            if figure["value"] is not None:
                series.setdefault(name, []).append((figure["value"], figure["unit"]))
                asked[name] = "" if figure["at_most"] is None else f"  (at most {figure['at_most']:.4g})"
    width = max(map(len, series), default=0)
    return [
        f"{name:{width}}  {' → '.join(f'{value:.3g}' for value, _ in values[-SHOWN:])} {values[-1][1]}{asked[name]}"
        for name, values in series.items()
    ]


def line(figure: Figure) -> str:
    """A figure, what it is measured against and what it should reach, in a line."""
    what = f"{figure.verdict:8} {figure.key:16} {figure.name}{f' / {figure.against}' if figure.against else ''}"
    if figure.value is None:
        return f"{what}: {figure.detail}"
    asked = "" if figure.at_most is None else f" (at most {figure.at_most:.4g})"
    return f"{what}: {figure.value:.3g} {figure.unit}{asked}; {figure.detail}"


def _commit() -> str | None:
    """The commit that was measured, with a mark where files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
