"""``make bench``: take figures, all or those asked for, print them, and keep them as JSON."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from mcne.cli.main import ENVIRONMENT

os.environ |= {**ENVIRONMENT, **os.environ}  # as the command line does

from benchmarks import curves, history
from benchmarks.registry import MEASUREMENTS
from mcne.errors import UsageError
from mcne_bench.figures import Figure, Measurement, choose, machine


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("figures", nargs="*", help="names or groups, as --list prints them; all without")
    parser.add_argument("--list", action="store_true", help="measure nothing: what there is to measure")
    parser.add_argument("--history", action="store_true", help="measure nothing: every figure over past runs")
    parser.add_argument("--curves", action="store_true", help="cost against users, batch, neighbors and behaviors")
    asked = parser.parse_args()
    try:
        chosen = choose(MEASUREMENTS, asked.figures)
    except UsageError as error:
        sys.exit(f"error: {error}")
    if asked.list:
        for each in chosen:
            target = "" if each.at_most is None else f"at most {each.at_most:.4g} {each.unit}"
            print(f"{each.key:16} {each.name}{f', against {each.against}' if each.against else ''}; {target}")
    elif asked.history:
        print(*history.lines(), sep="\n")
    elif asked.curves:
        print(*(f"kept in {path}" for path in curves.draw(history.RESULTS)), sep="\n")
    else:
        _measure(chosen)


def _measure(chosen: Sequence[Measurement]) -> None:
    on = machine()
    figures: list[Figure] = []
    try:
        for each in chosen:
            print(f"{each.key} …", file=sys.stderr, flush=True)
            figures.append(each.figure())
            print(history.line(figures[-1]), flush=True)
    finally:  # what was measured is kept, whatever ends the run
        print(f"kept in {history.keep(figures, on)}", file=sys.stderr)
    if any(figure.is_missed for figure in figures):
        sys.exit("a figure was missed")


main()
