"""faiss's side, run in its environment: ``python their_faiss.py VECTORS.npz BEST THREADS``.

For each line read from standard input the best items of all users of all behaviors are searched for, exactly, and the
seconds are written. The index is made before.
"""

# mypy: ignore-errors
from __future__ import annotations

import sys
import time

import faiss
import numpy as np


def main() -> None:
    saved = np.load(sys.argv[1])
    best = int(sys.argv[2])
    faiss.omp_set_num_threads(int(sys.argv[3]))
    tasks = []
    for k in range(len(saved.files) // 2):
        users, items = (np.ascontiguousarray(saved[f"{side}.{k}"]) for side in ("users", "items"))
        index = faiss.IndexFlatIP(items.shape[1])
        index.add(items)
        tasks.append((index, users))
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        for index, users in tasks:
            index.search(users, best)
        print(time.perf_counter() - start, flush=True)


main()
