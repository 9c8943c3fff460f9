"""How long ``mcne --help`` takes beyond Python's own start."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from mcne_bench.figures import Contender, Taken, medians

ROUNDS = 15


def measure_start() -> Taken:
    commands = {"bare": ("-c", "pass"), "ours": ("-m", "mcne", "--help")}
    taken = medians({name: Contender(partial(_run, command)) for name, command in commands.items()}, rounds=ROUNDS)
    return Taken(
        taken["ours"] - taken["bare"], f"median of {ROUNDS}: {taken['ours']:.3f} s against {taken['bare']:.3f} s"
    )


def _run(arguments: tuple[str, ...], _: int) -> None:
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
