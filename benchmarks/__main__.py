"""``make bench``: run every benchmark, print a table, and keep the numbers as JSON."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from pathlib import Path

from mcne.cli.environment import VARIABLES

os.environ |= {**VARIABLES, **os.environ}  # as the command line does

from benchmarks.command_line import measure_start
from benchmarks.csv_memory import measure_csv
from benchmarks.figure import Figure
from benchmarks.prepare import measure_prepare
from benchmarks.rivals.bpr import measure_bpr
from benchmarks.rivals.node2vec import measure_node2vec
from benchmarks.step import measure_step

RESULTS = Path("bench-results")


def main() -> None:
    figures: list[Figure] = []
    for measure in (measure_start, measure_prepare, measure_csv, measure_step, measure_bpr, measure_node2vec):
        print(f"{measure.__module__} …", file=sys.stderr, flush=True)
        figures += measure()
    for figure in figures:
        print(figure.line())
    RESULTS.mkdir(exist_ok=True)
    machine = {"platform": platform.platform(), "python": platform.python_version(), "cores": os.cpu_count()}
    path = RESULTS / f"{time.strftime('%Y%m%dT%H%M%S')}.json"
    path.write_text(json.dumps({"machine": machine, "figures": [vars(figure) for figure in figures]}, indent=1))
    print(f"kept in {path}", file=sys.stderr)
    if any(figure.is_missed for figure in figures):
        sys.exit("a figure was missed")


main()
