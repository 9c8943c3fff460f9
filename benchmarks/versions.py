"""``python -m benchmarks.versions --other ../before/src``: how long this version takes against another one.

Both run the same commands in processes of their own, taking turns round by round. A ratio is the median over rounds of
this version's seconds by the other's, with a 95 % interval by resampling rounds. Inner modules may differ between the
versions, so that only the command line and the files it writes are used.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parents[1] / "src"
RESAMPLES = 2000

CHILD = """
import contextlib, io, json, shutil, sys, time
from pathlib import Path
from mcne.cli.main import main

def mcne(*arguments):
    sys.argv = ["mcne", *arguments]
    started = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as told:
        try:
            main()
        except SystemExit as error:
            if error.code:
                sys.exit(told.getvalue())
    return time.perf_counter() - started

def train(method, data, out, device, epochs):
    settings = (f"--set=epochs={epochs}", f"--set=patience={epochs}", f"--set=evaluate_every={epochs}")
    mcne("train", method, "--data", data, "--out", out, "--device", device, *settings)
    lines = (Path(out) / "times.jsonl").read_text().splitlines()
    return sorted(json.loads(line)["seconds"] for line in lines[1:])[(len(lines) - 1) // 2]

"""


@dataclass(frozen=True)
class Figure:
    """What is timed: code after :data:`CHILD` that prints seconds; ``{work}`` is a directory that vanishes."""

    name: str
    code: str


def figures(chosen: argparse.Namespace) -> list[Figure]:
    data = chosen.data
    raw = chosen.epinions
    device = "cuda" if chosen.gpu else "cpu"
    epochs = 30 if chosen.gpu else 3
    train = 'print(train("{method}", "{data}", "{{work}}/run", "{device}", {epochs}))'
    listed = [
        Figure(f"epoch of {method}, {device}", train.format(method=method, data=data, device=device, epochs=epochs))
        for method in chosen.methods
    ]
    if not chosen.gpu:
        rank = (
            'train("bpr", "{data}", "{{work}}/run", "cpu", 2); '
            'ask = ("evaluate", "{{work}}/run", "--protocol", "full", "--json"); '
            "mcne(*ask); print(sorted(mcne(*ask) for _ in range(3))[1])"
        )
        listed.append(Figure("full ranking", rank.format(data=data)))
        prepare = 'print(mcne("data", "prepare", "epinions", "--raw", "{raw}", "--out", "{{work}}/data"))'
        listed.append(Figure("preparing Epinions", prepare.format(raw=raw)))
    return listed


def seconds(figure: Figure, source: Path) -> float:
    """Those that one version takes."""
    with tempfile.TemporaryDirectory() as work:
        code = CHILD + figure.code.replace("{work}", work)
        environment = {**os.environ, "PYTHONPATH": str(source)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
        )
    if done.returncode:
        sys.exit(f"{figure.name} with {source}:\n{done.stdout}{done.stderr}")
    return float(done.stdout.split()[-1])


def take(figure: Figure, sources: Mapping[str, Path], rounds: int) -> dict[str, list[float]]:
    """The seconds of every round, after one that compiles; who begins changes from round to round."""
    taken: dict[str, list[float]] = {name: [] for name in sources}
    for at in range(rounds + 1):
        names = sorted(sources, reverse=bool(at % 2))
        for name in names:
            value = seconds(figure, sources[name])
            if at:
                taken[name].append(value)
    return taken


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Of the median, by resampling rounds."""
    random = np.random.default_rng(0)
    drawn = random.choice(np.array(ratios), (RESAMPLES, len(ratios)))
    low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
    return float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--other", type=Path, required=True, help="the src directory of the other version")
    parser.add_argument("--data", type=Path, required=True, help="a prepared dataset, such as Ciao")
    parser.add_argument("--epinions", type=Path, help="the directory of Epinions' raw files")
    parser.add_argument("--methods", nargs="+", default=["mcne", "bpr"])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--gpu", action="store_true", help="epochs on a GPU, with captured steps, and nothing else")
    parser.add_argument("--out", type=Path, help="where to keep the seconds of every round as JSON")
    chosen = parser.parse_args()
    kept = {}
    for figure in figures(chosen):
        taken = take(figure, {"this": HERE, "other": chosen.other.resolve()}, chosen.rounds)
        ratios = [this / other for this, other in zip(taken["this"], taken["other"], strict=True)]
        low, high = interval(ratios)
        medians = {name: float(np.median(each)) for name, each in taken.items()}
        print(
            f"{figure.name:24} {np.median(ratios):.3f} ({low:.3f} to {high:.3f}), "
            f"{medians['this']:.3f} s against {medians['other']:.3f} s, {chosen.rounds} rounds",
            flush=True,
        )
        kept[figure.name] = {"seconds": taken, "ratio": float(np.median(ratios)), "interval": [low, high]}
    if chosen.out is not None:
        chosen.out.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
