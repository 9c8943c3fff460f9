"""``python -m benchmarks.epochs --data ciao``: seconds of an epoch of every method, its validation aside.

At default settings, the second of two epochs, so that nothing is compiled in it. Methods without epochs are left out,
and those that can make nothing of the data.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from mcne.cli.main import ENVIRONMENT

os.environ |= {**ENVIRONMENT, **os.environ}  # as the command line does

from benchmarks.temporary_run import temporary_run
from mcne.data.dataset import SocialDataset
from mcne.data.split import random_split
from mcne.models.registry import METHODS, refusal
from mcne.training.run import TIMES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a prepared dataset")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    chosen = parser.parse_args()
    dataset = SocialDataset.load(chosen.data)
    split = random_split(dataset, seed=0)
    for method in METHODS:
        if refusal(method, dataset, is_alone=False):
            continue
        with temporary_run(method, dataset, split, settings={"epochs": 2, "patience": 2}, device=chosen.device) as run:
            times = [json.loads(line) for line in (run.path / TIMES).read_text().splitlines()]
        if len(times) > 1:
            print(f"{method:19} {times[-1]['seconds']:6.2f} s", flush=True)


main()
