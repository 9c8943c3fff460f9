"""EASE against cornac's: the same matrix and λ, so the same scores.

Ours inverts a matrix of users by users where users are fewer (ml-100k and Ciao) and of items by items where items are
(ml-100k with the roles exchanged); cornac's always the latter. Our popularity term is off, and so is cornac's ``posB``,
which drops negative weights. Scores of 300 users for all items must agree within 1e-4 of the largest score. As a
control, 1.01 λ must be told apart.

Last result, with cornac 3.0.1: largest difference 3.6e-6, control 1.6e-3 or more. Agreed.
"""

from __future__ import annotations

import math
from importlib.metadata import version

import numpy as np
from shared import CPU, beauty, case, for_cornac, largest_difference, movies, of_cornac

from mcne.data.graph import Graph
from mcne.models.contract import TrainingData
from mcne.models.ease import EASE, EASEConfig

TOLERANCE = 1e-4
USERS = 300


def compare() -> bool:
    from cornac.models import EASE as Theirs  # noqa: N811

    worst, least = 0.0, math.inf
    print(f"  cornac {version('cornac')}: largest difference of a score, of the largest, and of the control")
    films, ciao = movies(), beauty()
    cases = [("ml-100k", case(films, seed=0).data, (10.0, 100.0, 500.0))]
    cases.append(("ml-100k, roles exchanged", exchanged(cases[0][1]), (10.0, 100.0, 500.0)))
    cases.append(("Ciao", case(ciao, seed=0).data, (100.0,)))
    for name, data, lambdas in cases:
        users = np.random.default_rng(0).permutation(data.n_users)[:USERS]
        for l2 in lambdas:
            theirs = of_cornac(Theirs(lamb=l2, posB=False, verbose=False).fit(for_cornac(data)), users)
            ours, control = (
                EASE(data, EASEConfig(l2=used, popularity_weight=0.0), seed=0, device=CPU).scorer().scores(0, users)
                for used in (l2, 1.01 * l2)
            )
            difference, wrong = largest_difference(ours, theirs), largest_difference(control, theirs)
            worst, least = max(worst, difference), min(least, wrong)
            form = "items by items" if data.n_items[0] <= data.n_users else "users by users"
            print(f"  {name}, λ {l2:g}, ours {form}: {difference:.1e}   {wrong:.1e}", flush=True)
    print(f"  largest {worst:.1e}, tolerance {TOLERANCE:g}, control {least:.1e} or more")
    return worst <= TOLERANCE < least


def exchanged(data: TrainingData) -> TrainingData:
    """Items as users, users as items."""
    ((user, item),), (n_items,) = data.pairs, data.n_items
    order = np.lexsort((user, item))
    nobody = Graph(np.zeros(n_items + 1, np.int64), np.zeros(0, np.int32))
    return TrainingData(nobody, data.names, (data.n_users,), ((item[order], user[order]),))
