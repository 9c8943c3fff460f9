"""implicit's side, run in its environment: ``python their_implicit.py PAIRS.npz WIDTH THREADS``.

For each line read from standard input it is trained for some epochs, and a line ``updates seconds`` is written. Draws
whose negative the user has are skipped, and counted all the same.
"""

# mypy: ignore-errors
from __future__ import annotations

import sys
import time

import numpy as np
from implicit.cpu.bpr import BayesianPersonalizedRanking
from scipy.sparse import csr_matrix

EPOCHS = 10


def main() -> None:
    saved = np.load(sys.argv[1])
    width = int(sys.argv[2])
    threads = int(sys.argv[3])
    user, item = saved["user"], saved["item"]
    records = csr_matrix((np.ones(len(user), np.float32), (user, item)), shape=saved["shape"].tolist())
    model = BayesianPersonalizedRanking(
        factors=width, iterations=EPOCHS, learning_rate=0.03, regularization=0.01, num_threads=threads, random_state=0
    )
    model.fit(records, show_progress=False)  # what is made once is made now
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        model.fit(records, show_progress=False)
        print(EPOCHS * len(user), time.perf_counter() - start, flush=True)


main()
