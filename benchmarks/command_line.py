"""How long ``mcne --help`` and usage errors take beyond Python's own start."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from mcne_bench.figures import Contender, Taken, medians

ROUNDS = 15
BARE = ("-c", "pass")
MISTAKES = {
    "command": "trian bpr --data mydata --out run",
    "option": "train bpr --data mydata --out run --epoch 5",
    "method": "train bprr --data mydata --out run",
    "method in a list": "compare --methods popularity,bprr --data mydata --out comparison",
    "setting": "train bpr --data mydata --out run --set lerning_rate=0.1",
    "dataset": "train bpr --data nowhere --out run",
    "run": "recommend nowhere --user 3 --behavior Books",
    "user": "recommend myrun --user 3x --behavior Books",
    "plan": "compare nowhere.toml --data mydata --out comparison",
}


def measure_start() -> Taken:
    commands = {"bare": BARE, "ours": ("-m", "mcne", "--help")}
    taken = medians(
        {name: Contender(partial(_run, command, None)) for name, command in commands.items()}, rounds=ROUNDS
    )
    return Taken(
        taken["ours"] - taken["bare"], f"median of {ROUNDS}: {taken['ours']:.3f} s against {taken['bare']:.3f} s"
    )


def measure_mistakes() -> Taken:
    import mcne

    commands = {"bare": BARE} | {name: ("-m", "mcne", *text.split()) for name, text in MISTAKES.items()}
    with tempfile.TemporaryDirectory() as directory:
        data = mcne.datasets.synthetic(users=500)
        data.save(Path(directory) / "mydata")
        mcne.Popularity().fit(data, out=Path(directory) / "myrun", progress=False)
        contenders = {name: Contender(partial(_run, each, directory)) for name, each in commands.items()}
        taken = medians(contenders, rounds=ROUNDS)
    bare = taken.pop("bare")
    slowest = max(taken, key=lambda name: taken[name])
    return Taken(taken[slowest] - bare, f"slowest of {len(taken)}: an unknown {slowest}, {taken[slowest]:.3f} s")


def _run(arguments: tuple[str, ...], directory: str | None, _: int) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, *arguments], check=False, capture_output=True, cwd=directory, env=environment
    )
    assert done.returncode in (0, 2, 4), done.stderr
