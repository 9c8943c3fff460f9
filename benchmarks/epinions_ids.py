"""``python -m benchmarks.epinions_ids --raw RAW``: which reading of Epinions' trust ids makes friends most alike.

The evidence of docs/data.md: items of all categories, all links, ids of trustnetwork.mat read in several ways.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.data.behavior import Behavior, likeness
from mcne.data.graph import undirected
from mcne.data.ids import Ids
from mcne.data.matfile import read_matrix
from mcne.data.trust import EPINIONS

SPARE = 8  # ids that are read too low or too high are nobody's
ALL = 10**9
Reading = Callable[[NDArray[Any]], NDArray[Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--raw", type=Path, required=True, help="a directory of rating.mat and trustnetwork.mat")
    raw = parser.parse_args().raw
    user, item = read_matrix(raw / "rating.mat", "rating")[:, :2].astype(np.int64).T
    trust = read_matrix(raw / "trustnetwork.mat", "trustnetwork").astype(np.int64)
    items, item = np.unique(item, return_inverse=True)
    records = np.unique(np.stack([user + SPARE, item]), axis=1).astype(np.int32)
    rated = Behavior("all categories", Ids(items), *records)
    n_users = int(max(user.max(), trust.max())) + 2 * SPARE
    last = EPINIONS.listed_twice
    assert last is not None

    def alike(read: Reading, links: NDArray[Any]) -> str:
        measured = likeness(undirected(n_users, *(read(links).T + SPARE))[0], rated, most_links=ALL)
        return f"{measured.ratio:.2f} ± {measured.ratio_error:.2f}"

    def by(low: int, high: int) -> Reading:
        return lambda ids: ids + np.where(ids > last, high, low)

    for low, high in [(0, high) for high in range(-3, 5)] + [(low, 1) for low in (-3, -2, -1, 1, 2, 3)]:
        print(f"ids to {last} {low:+}, above {high:+}: {alike(by(low, high), trust)}", flush=True)
    for name, chosen in (("to", trust.max(axis=1) <= last), ("above", trust.min(axis=1) > last)):
        as_is, higher = (alike(by(k, k), trust[chosen]) for k in (0, 1))
        print(f"{np.count_nonzero(chosen):,} links between ids {name} {last}: as they are {as_is}, one higher {higher}")
    active = np.log1p(np.bincount(rated.user, minlength=n_users))
    for name, read in (("as they are", by(0, 0)), ("aligned", by(0, 1))):
        trusted = np.log1p(np.bincount(read(trust[:, 1]) + SPARE, minlength=n_users))
        print(f"{name}: correlation of times trusted and records {np.corrcoef(trusted, active)[0, 1]:.2f}")


main()
