"""The rivals' side, run in their environment: ``python their_node2vec.py NETWORK.npz SETTINGS``.

Each line read from standard input is a seed; a job is done with it, and a line ``seconds seconds`` is written, of
pecanpy's walks and of gensim's skip-gram. pecanpy compiles its walks anew for every network: that is not counted.
"""

# mypy: ignore-errors
from __future__ import annotations

import json
import sys
import time

from gensim.models import Word2Vec
from pecanpy.pecanpy import SparseOTF


def main() -> None:
    asked = json.loads(sys.argv[2])
    network = SparseOTF(p=asked["p"], q=asked["q"], workers=asked["threads"], random_state=0)
    network.read_npz(sys.argv[1], weighted=False, implicit_ids=True)
    forward, has_neighbors = network.get_move_forward(), network.get_has_nbrs()
    network.get_move_forward, network.get_has_nbrs = (lambda: forward), (lambda: has_neighbors)

    def job(seed: int) -> tuple[float, float]:
        network.random_state = seed
        start = time.perf_counter()
        walks = network.simulate_walks(asked["walks_per_node"], asked["walk_length"] - 1)  # pecanpy counts steps
        middle = time.perf_counter()
        Word2Vec(
            walks,
            vector_size=asked["width"],
            window=asked["window"],
            sg=1,
            negative=asked["negatives"],
            epochs=1,
            min_count=0,
            sample=0,  # by default frequent nodes are left out at times, and windows are shrunk at random:
            shrink_windows=False,  # fewer pairs
            workers=asked["threads"],
            seed=seed,
        )
        return middle - start, time.perf_counter() - middle

    job(0)
    print("ready", flush=True)
    for line in sys.stdin:
        print(*job(int(line)), flush=True)


main()
