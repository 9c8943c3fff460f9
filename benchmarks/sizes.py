"""Seconds and peak memory of generating synthetic networks: ``python -m benchmarks.sizes 1000000 10000000``."""

from __future__ import annotations

import subprocess
import sys

CHILD = """
import sys, time
from benchmarks.peak_memory import peak_memory
from mcne.data.synthetic import SyntheticConfig, generate
start = time.perf_counter()
dataset, _ = generate(SyntheticConfig(users=int(sys.argv[1])))
seconds = time.perf_counter() - start
peak = peak_memory() / 2**30
links, records = dataset.graph.n_links, sum(map(len, dataset.behaviors))
print(f"| {dataset.n_users:,} | {links:,} | {records:,} | {seconds:.0f} | {peak:.1f} GiB |")
"""


def main() -> None:
    print("| users | links | interactions | seconds | peak memory |\n|---|---|---|---|---|", flush=True)
    for users in sys.argv[1:] or ["1000000"]:
        subprocess.run([sys.executable, "-c", CHILD, users], check=True)


if __name__ == "__main__":
    main()
