"""cornac's side, run in its environment: ``python their_bpr.py PAIRS.npz WIDTH THREADS``.

For each line read from standard input it is trained for some epochs, and a line ``updates seconds`` is written. cornac
skips a draw whose negative the user has; it is counted all the same.
"""

# mypy: ignore-errors
from __future__ import annotations

import sys
import time

import numpy as np
from cornac.data import Dataset
from cornac.models import BPR

EPOCHS = 10


def main() -> None:
    saved = np.load(sys.argv[1])
    width = int(sys.argv[2])
    threads = int(sys.argv[3])
    user, item = saved["user"].astype(np.int64), saved["item"].astype(np.int64)
    n_users, n_items = saved["shape"].tolist()
    names = ({row: row for row in range(n)} for n in (n_users, n_items))
    records = Dataset(n_users, n_items, *names, (user, item, np.ones(len(user))))
    model = BPR(k=width, max_iter=EPOCHS, learning_rate=0.03, lambda_reg=0.01, num_threads=threads)
    model.fit(records)  # what is made once is made now
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        model.fit(records)
        print(EPOCHS * len(user), time.perf_counter() - start, flush=True)


main()
