"""Preparing a CSV of 10,000,000 interactions and 20,000,000 links: peak memory of the whole command."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from mcne.randomness import Stream
from mcne_bench.figures import Taken

INTERACTIONS, LINKS = 10_000_000, 20_000_000
USERS, ITEMS = 2_000_000, 1_000_000
BATCH = 1_000_000
GIB = 1 << 30

CHILD = """
import sys
from benchmarks.peak_memory import peak_memory
from mcne.cli.main import main
sys.argv = ["mcne", *sys.argv[1:]]
try:
    main()
finally:
    print(peak_memory(), file=sys.stderr)
"""


def measure_csv() -> Taken:
    with tempfile.TemporaryDirectory() as directory:
        interactions, links = Path(directory) / "interactions.csv", Path(directory) / "links.csv"
        _write(interactions, INTERACTIONS, _interactions)
        _write(links, LINKS, _links)
        size = (interactions.stat().st_size + links.stat().st_size) / GIB
        command = ["data", "prepare", "files", "--interactions", str(interactions), "--links", str(links)]
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", CHILD, *command, "--out", f"{directory}/data"], capture_output=True, text=True
        )
        seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(done.stderr)
    peak = int(done.stderr.split()[-1]) / GIB
    detail = f"10,000,000 interactions and 20,000,000 links, text ids, {size:.2f} GiB of CSV, {seconds:.0f} s"
    return Taken(peak, detail)


def _write(path: Path, rows: int, make: object) -> None:
    with path.open("wb") as file:
        for batch in range(rows // BATCH):
            table = make(Stream(0, path.name, batch))  # type: ignore[operator]
            pa_csv.write_csv(table, file, pa_csv.WriteOptions(include_header=batch == 0))


def _interactions(stream: Stream) -> pa.Table:
    behaviors = pa.array(["Books", "Movies", "Travel"]).take(pa.array(stream.integers(3, BATCH)))
    columns = {"user_id": _ids("user", stream, USERS), "item_id": _ids("item", stream, ITEMS), "behavior": behaviors}
    return pa.table(columns | {"timestamp": pa.array(stream.integers(300_000_000, BATCH) + 1_000_000_000)})


def _links(stream: Stream) -> pa.Table:
    return pa.table({"source_id": _ids("user", stream, USERS), "target_id": _ids("user", stream, USERS)})


def _ids(prefix: str, stream: Stream, count: int) -> pa.Array:
    """Skewed ids, as real ones are: a few have many rows."""
    rows: NDArray[np.int64] = (stream.uniform(BATCH) ** 2 * count).astype(np.int64)
    return pc.binary_join_element_wise(pa.scalar(prefix), pa.array(rows).cast(pa.string()), "-")
