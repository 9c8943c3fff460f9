"""``python -m benchmarks.epochs --data ciao``: seconds of an epoch of every method, its validation aside.

At default settings, the second of two epochs, so that nothing is compiled in it. Methods without epochs are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

from mcne.cli.environment import VARIABLES

os.environ |= {**VARIABLES, **os.environ}  # as the command line does

from mcne import runs
from mcne.data.dataset import SocialDataset
from mcne.data.split import random_split
from mcne.methods.registry import METHODS
from mcne.training.journal import TIMES, SilentReporter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a prepared dataset")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    chosen = parser.parse_args()
    dataset = SocialDataset.load(chosen.data)
    split, device = random_split(dataset, seed=0), runs.choose_device(chosen.device)
    for method in METHODS:
        with tempfile.TemporaryDirectory() as aside:
            run = Path(aside) / "run"
            given = {"epochs": 2, "patience": 2}
            runs.train(
                method,
                dataset,
                split,
                run,
                given=given,
                seed=0,
                device=device,
                resume=False,
                places={},
                reporter=SilentReporter(),
            )
            times = [json.loads(line) for line in (run / TIMES).read_text().splitlines()]
        if len(times) > 1:
            print(f"{method:15} {times[-1]['seconds']:6.2f} s", flush=True)


main()
