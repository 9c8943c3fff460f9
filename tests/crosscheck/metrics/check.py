"""Our metrics against ranx and ir-measures (trec_eval), on random rankings without ties.

Run with ``python3 tests/crosscheck/metrics/check.py``. It makes a virtual environment in a temporary directory,
installs ``requirements.txt`` there (700 MB, some minutes), compares and removes it again: neither package is ever a
dependency of the project. In an environment that has them, ``python check.py --here`` compares at once.

Recall, NDCG, MRR and hit rate at 5, 10 and 20 of every user must agree within 1e-9 (all compute in double precision).
Lists hold 1 to 120 candidates and 1 to 40 relevant ones, so that some lists and some sets of relevant items are shorter
than the cutoffs and some longer. ir-measures could answer through ranx: it is held to trec_eval and, for MRR, to the
MS MARCO script, so that the references are three. As a control, rankings in which every relevant item stands one place
lower must be told apart on every metric. Exit status 0: everything agrees and the control does not.

Last result, with Python 3.11.7 and the versions of ``requirements.txt`` (ranx 0.3.21, ir-measures 0.4.3): 3,000 users,
largest difference 4.4e-16 (NDCG@20; Recall, MRR and hit rate are equal to the bit), control 0.33 or more. Agreed.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve()
SOURCE = HERE.parents[3] / "src"
TOLERANCE = 1e-9
USERS = 3000
CUTOFFS = (5, 10, 20)

Lists = list[tuple[list[int], set[int]]]  # per user the candidates, best first, and the relevant ones
Values = dict[tuple[str, int], list[float]]  # metric and cutoff -> one value per user


def random_lists() -> Lists:
    """Candidates are numbered at random, so that no order of names helps."""
    import numpy as np

    random = np.random.default_rng(0)
    lists = []
    for _ in range(USERS):
        ranked = random.choice(10_000, random.integers(1, 121), replace=False)
        relevant = random.choice(ranked, min(len(ranked), int(random.integers(1, 41))), replace=False)
        lists.append((ranked.tolist(), set(relevant.tolist())))
    return lists


def ours(lists: Lists, *, lower: int = 0) -> Values:
    """Our metrics, each user's items in random order, and all of them ``lower`` places down."""
    import numpy as np

    sys.path.insert(0, str(SOURCE))
    from mcne.evaluation.metrics import METRICS

    random = np.random.default_rng(1)
    places = [
        random.permutation([place for place, item in enumerate(ranked) if item in relevant])
        for ranked, relevant in lists
    ]
    ranks = np.concatenate(places) + lower
    offsets = np.cumsum([0, *map(len, places)])
    names = ("recall", "ndcg", "mrr", "hit_rate")
    return {(name, k): METRICS[name](ranks, offsets, cutoff=k).tolist() for name in names for k in CUTOFFS}


def written(lists: Lists) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """The same lists as both packages take them: judgments, and scores that fall with the place."""
    judged = {f"u{u}": {f"i{item}": 1 for item in relevant} for u, (_, relevant) in enumerate(lists)}
    scored = {
        f"u{u}": {f"i{item}": float(len(ranked) - place) for place, item in enumerate(ranked)}
        for u, (ranked, _) in enumerate(lists)
    }
    return judged, scored


def of_ranx(lists: Lists) -> Values:
    from ranx import Qrels, Run, evaluate

    judged, scored = written(lists)
    run = Run(scored)
    evaluate(Qrels(judged), run, [f"{name}@{k}" for name in ("recall", "ndcg", "mrr", "hit_rate") for k in CUTOFFS])
    return {
        (name, k): [float(run.scores[f"{name}@{k}"][user]) for user in judged]
        for name in ("recall", "ndcg", "mrr", "hit_rate")
        for k in CUTOFFS
    }


def of_ir_measures(lists: Lists) -> Values:
    import ir_measures

    judged, scored = written(lists)
    names = {"recall": "R", "ndcg": "nDCG", "mrr": "RR", "hit_rate": "Success"}
    measures = {ir_measures.parse_measure(f"{names[name]}@{k}"): (name, k) for name in names for k in CUTOFFS}
    scores: dict[tuple[str, int], dict[str, float]] = {key: {} for key in measures.values()}
    reciprocal = [measure for measure, (name, _) in measures.items() if name == "mrr"]
    others = [measure for measure in measures if measure not in reciprocal]
    for provider, asked in ((ir_measures.pytrec_eval, others), (ir_measures.msmarco, reciprocal)):
        for value in provider.iter_calc(asked, judged, scored):
            scores[measures[value.measure]][value.query_id] = value.value
    return {key: [by_user[user] for user in judged] for key, by_user in scores.items()}


def largest_difference(some: list[float], others: list[float]) -> float:
    """Infinite where one is not a number, which no maximum would show."""
    differences = [abs(a - b) for a, b in zip(some, others, strict=True)]
    return max(differences) if all(map(math.isfinite, differences)) else math.inf


def compare() -> int:
    lists = random_lists()
    expected, control = ours(lists), ours(lists, lower=1)
    worst, least = 0.0, math.inf
    for package, theirs in (("ranx", of_ranx), ("ir-measures", of_ir_measures)):
        actual = theirs(lists)
        assert actual.keys() == expected.keys()
        print(f"{package} {version(package)}, {len(lists):,} users: largest difference of a user, and of the control")
        for key, values in expected.items():
            difference, wrong = (largest_difference(each, actual[key]) for each in (values, control[key]))
            worst, least = max(worst, difference), min(least, wrong)
            label = f"{key[0]}@{key[1]}"
            mean = sum(values) / len(values)
            print(f"  {label:12} {difference:.1e}   {wrong:.1e}   mean {mean:.6f}")
    agree = worst <= TOLERANCE < least
    print(
        f"largest {worst:.1e}, tolerance {TOLERANCE:g}, control {least:.1e} or more: {'agree' if agree else 'DIFFER'}"
    )
    return int(not agree)


def compare_in_an_environment_of_its_own() -> int:
    with tempfile.TemporaryDirectory() as directory:
        python = Path(directory) / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", directory], check=True)
        quiet = ("--quiet", "--disable-pip-version-check")
        subprocess.run([python, "-m", "pip", "install", *quiet, "-r", HERE.with_name("requirements.txt")], check=True)
        alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run([python, HERE, "--here"], check=False, env=alone).returncode


if __name__ == "__main__":
    sys.exit(compare() if "--here" in sys.argv[1:] else compare_in_an_environment_of_its_own())
