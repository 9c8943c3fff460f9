"""Walks of the second order: how often a step from t over v leads to x, against pecanpy's walks and probabilities.

A network of 14 users with triangles, a hub and a dead end, with and without weights, and four pairs of p and q. The
probabilities of a step are what node2vec computes; pecanpy computes them in single precision, and both must agree
within 1e-6. Of 28,000 walks of 40 users each, ours and pecanpy's (with its tables and without), all steps are counted
for every t and v. Given t and v, steps are independent, so Pearson's statistic of the counts has a chi-square
distribution: its chance must be above 1e-4 for our counts against the probabilities, for theirs, and for the two tables
of counts against each other. As controls, our counts against the probabilities of p a tenth larger and of q a tenth
larger, and our walks of p a tenth larger against theirs, must have a chance below 1e-9.

Last result (pecanpy 2.0.9, node2vec 0.5.0): probabilities differ by 1.5e-7 at most; the chances of 1,064,000 steps each
are 0.12 to 0.91 for ours, 0.17 to 0.99 for theirs and 0.21 to 0.93 for both; of the controls 1.6e-21 at most. Agreed.
"""

from __future__ import annotations

import numpy as np
from networks import of_pecanpy
from scipy.stats import chi2

from mcne.data.graph import Graph, undirected
from mcne.randomness import Stream
from mcne.sampling.walks import Walker

AGREE, DIFFER = 1e-4, 1e-9
EQUAL = 1e-6
TIMES, LENGTH = 2000, 40
LINKS = (
    *((0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (4, 5), (3, 5), (5, 6), (6, 7), (7, 8), (6, 8), (8, 9), (9, 0)),
    *((0, 10), (10, 11), (11, 12), (0, 11), (0, 12), (0, 5), (0, 7), (12, 13)),
)
CASES = ((1.0, 1.0), (0.25, 4.0), (4.0, 0.25), (2.0, 0.5))


def network(*, weighted: bool) -> Graph:
    source, target = np.array(LINKS).T
    weights = np.random.default_rng(0).uniform(0.2, 3.0, len(LINKS)).astype(np.float32) if weighted else None
    return undirected(14, source, target, weights)[0]


def steps(walks: np.ndarray, n: int) -> np.ndarray:
    """How often every t, v, x follow each other, [n, n, n]."""
    counts = np.zeros((n, n, n))
    np.add.at(counts, (walks[:, :-2], walks[:, 1:-1], walks[:, 2:]), 1)
    return counts


def chance(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """Of a statistic as large as that of the counts, if the steps have these probabilities; 0 of impossible steps."""
    expected = counts.sum(-1, keepdims=True) * probabilities
    possible = expected > 0
    if counts[~possible].any():
        return 0.0
    statistic = ((counts - expected)[possible] ** 2 / expected[possible]).sum()
    return float(chi2.sf(statistic, possible.sum() - possible.any(-1).sum()))


def chance_of_two(one: np.ndarray, other: np.ndarray) -> float:
    """The same, if both counts are of steps with the same probabilities."""
    both = one + other
    statistic = 0.0
    seen = both > 0
    for counts in (one, other):
        share = counts.sum(-1, keepdims=True) / np.maximum(both.sum(-1, keepdims=True), 1)
        expected = (both * share)[seen]
        statistic += ((counts[seen] - expected) ** 2 / expected).sum()
    return float(chi2.sf(statistic, seen.sum() - seen.any(-1).sum()))


def compare() -> bool:
    agreed = [agree(weighted=weighted) for weighted in (False, True)]
    return all(agreed)


def agree(*, weighted: bool) -> bool:
    graph = network(weighted=weighted)
    kind = "PreComp" if weighted else "SparseOTF"
    walks = of_pecanpy(graph, "walks", kind=kind, cases=CASES, times=TIMES, length=LENGTH, seed=0)["walks"]
    asked = [case for p, q in CASES for case in ((p, q), (p * 1.1, q), (p, q * 1.1))]
    exact, single = of_pecanpy(graph, "probabilities", cases=asked)["probabilities"]
    apart = float(np.abs(exact - single).max())
    print(f"  {kind}: probabilities differ by {apart:.1e}, tolerance {EQUAL:g}", flush=True)
    right = apart <= EQUAL
    for at, (p, q) in enumerate(CASES):
        theirs = steps(walks[at], graph.n_users)
        probabilities, *wrong = exact[3 * at : 3 * at + 3]
        mine, more = (ours(graph, p=each, q=q, weighted=weighted) for each in (p, p * 1.1))
        chances = [chance(mine, probabilities), chance(theirs, probabilities), chance_of_two(mine, theirs)]
        controls = [*(chance(mine, each) for each in wrong), chance_of_two(more, theirs)]
        right &= (agrees := min(chances) > AGREE and max(controls) < DIFFER)
        print(
            f"  {'weighted' if weighted else 'plain':8} p {p:4g} q {q:4g}, {mine.sum():,.0f} steps: chance of ours "
            f"{chances[0]:.3f}, theirs {chances[1]:.3f}, both {chances[2]:.3f}, of the controls {max(controls):.1e} "
            f"at most: {'agree' if agrees else 'DIFFER'}",
            flush=True,
        )
    return right


def ours(graph: Graph, *, p: float, q: float, weighted: bool) -> np.ndarray:
    starts = np.tile(np.arange(graph.n_users), TIMES)
    walks = Walker(graph, p=p, q=q, weighted=weighted).walk(starts, LENGTH, stream=Stream(0, "walks"))
    return steps(walks, graph.n_users)
