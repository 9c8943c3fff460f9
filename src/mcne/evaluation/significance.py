"""Is one method better than another, or is it chance? A paired bootstrap over users.

Methods are compared on the same users and splits, and only the difference of a user's two scores counts, averaged over
splits, so that how hard a user is for both drops out.

**Users are resampled as a whole, with their records in every behavior** (a bootstrap of clusters). A method that suits
a user in one behavior may suit it in the others, so the means of the behaviors are not independent. Resampling within
each behavior would give intervals too narrow by a factor of up to the root of the number of behaviors.

The interval holds the middle 95 % of the resampled differences. The two-sided p is twice the share of them on the far
side of zero (zero included, and the observed difference counted among them so that p is never 0). Few users make both
too sure, one user certain: look at ``users`` below some 30. The same resamples serve all comparisons, and Holm's
correction bounds the chance of *any* false finding among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mcne.errors import UnknownError, UsageError
from mcne.evaluation.protocol import Evaluation
from mcne.randomness import Stream

RESAMPLES = 10_000
FEWEST_RESAMPLES = 100  # with so many, every behavior is in some of them
INTERVAL = (0.025, 0.975)
AT_ONCE = 1 << 20  # users drawn in one go: their counts take 8 MB
NOTHING = 1e-12  # smaller is what rounding makes of a difference of 0

Array = NDArray[np.float64]
Key = TypeVar("Key")


@dataclass(frozen=True, eq=False)
class BehaviorScores:
    """A score for each user of one behavior, and how much of the mean each user is."""

    users: NDArray[np.int32]  # [n] rows, increasing, one at least
    weights: Array  # [n] above 0, with sum 1
    scores: Array  # [n]


@dataclass(frozen=True, eq=False)
class UserScores:
    """One metric of one method, averaged over splits: what :func:`compare` takes."""

    subject: tuple[str, str, str]  # part, protocol and metric: only scores of one subject can be compared
    behaviors: Mapping[str, BehaviorScores]  # those with users

    def mean(self) -> float | None:
        """The mean over behaviors of their means over users and splits; None without users."""
        means = [float(each.weights @ each.scores) for each in self.behaviors.values()]
        return sum(means) / len(means) if means else None


@dataclass(frozen=True)
class Comparison:
    """By how much a method is better than its rival, and how sure that is."""

    difference: float  # of the means, above 0 where the method is better
    low: float  # the 95 % interval
    high: float
    p: float  # two-sided, of this comparison alone
    adjusted_p: float  # after Holm, over the family it was made in
    effect_size: float | None  # Cohen's d of the paired differences; None where these are all alike
    better: float  # share of users for whom the method is better
    worse: float  # … and worse; for the rest they are equal
    users: int  # different users behind it

    @property
    def is_bound(self) -> bool:
        """Whether p is only an upper bound: no resample was on the other side, and the observed one counts as two."""
        return round(self.p * (1 + RESAMPLES)) <= 2


@dataclass(frozen=True)
class Comparisons:
    """A method and one rival: on the mean over behaviors, and on each behavior alone."""

    overall: Comparison
    behaviors: Mapping[str, Comparison]


def averaged(evaluations: Sequence[Evaluation], metric: str) -> UserScores:
    """The mean of one metric over splits, for every user with scored items in one of them at least.

    In a split of n users, each is 1/n of the split's mean. With these weights a user's scores are averaged, and with
    their sum, over the number of splits, the user counts in the mean. So the mean over users is exactly the mean over
    splits that a table prints, although not every split scores every user.
    """
    subjects = {(each.part, each.protocol, metric) for each in evaluations}
    if len(subjects) != 1 or len({tuple(each.behaviors) for each in evaluations}) != 1:
        raise UsageError(
            "the evaluations differ in part, protocol or behaviors, or there are none",
            remedy="compare evaluations of the same part, protocol and behaviors",
        )
    scores = {}
    for behavior in evaluations[0].behaviors:
        results = [each.behaviors[behavior] for each in evaluations if len(each.behaviors[behavior].users)]
        if not results:
            continue
        if metric not in results[0].metrics:
            raise UnknownError.of("metric of users", metric, results[0].metrics)
        users, row = np.unique(np.concatenate([each.users for each in results]), return_inverse=True)
        weight = np.concatenate([np.full(len(each.users), 1 / len(each.users)) for each in results])
        score = np.concatenate([each.metrics[metric] for each in results])
        weights = np.bincount(row, weight, minlength=len(users))
        means = np.bincount(row, weight * score, minlength=len(users)) / weights
        scores[behavior] = BehaviorScores(users, weights / len(results), means)
    return UserScores(subjects.pop(), scores)


def compare(
    method: UserScores, rivals: Mapping[str, UserScores], *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Comparisons]:
    """The method against each of its rivals, scored on the same users.

    The effect size on one behavior is the mean of the paired differences over their standard deviation; on the mean
    over behaviors, it is divided by the root of their mean variance. Shares of users are means over behaviors, too.

    Holm's correction is made for two families: the comparisons on the mean over behaviors, one for each rival, and
    those on single behaviors, all rivals together. For another family, give its ``p`` to :func:`holm`. Where a
    behavior has so few users that a resample has none of them, that resample's mean does without the behavior.
    """
    if resamples < FEWEST_RESAMPLES:
        raise UsageError(
            f"{resamples} is too small",
            "resamples",
            f"use {FEWEST_RESAMPLES} or more, such as {RESAMPLES}",
            value=resamples,
        )
    if not method.behaviors:
        raise UsageError(
            "no user has a score, so there is nothing to compare", remedy="evaluate on a split with test interactions"
        )
    samples = {name: _differences(method, rival, name=name) for name, rival in rivals.items()}
    resampled = _resampled(samples, resamples=resamples, seed=seed)
    overall = {name: _comparison(samples[name], resampled[name]) for name in rivals}
    alone = {
        (name, behavior): _comparison(samples[name][k : k + 1], resampled[name][:, k : k + 1])
        for name in rivals
        for k, behavior in enumerate(method.behaviors)
    }
    overall, alone = _adjusted(overall), _adjusted(alone)
    return {
        name: Comparisons(overall[name], {behavior: alone[name, behavior] for behavior in method.behaviors})
        for name in rivals
    }


def holm(p: Sequence[float]) -> list[float]:
    """Adjusted p-values of a family of m, by Holm (1979), in the order given.

    The i-th smallest becomes the largest of (m − j + 1) · p_j over j ≤ i, at most 1.
    """
    ordered = np.argsort(p, kind="stable")
    steps = np.asarray(p, dtype=np.float64)[ordered] * np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[ordered] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted.tolist()


def _differences(method: UserScores, rival: UserScores, *, name: str) -> list[BehaviorScores]:
    """The paired differences of each behavior, after a check that they are pairs."""
    ours, theirs = method.behaviors, rival.behaviors
    if method.subject != rival.subject or list(ours) != list(theirs):
        raise UsageError(
            f"is evaluated on {rival.subject} of {list(theirs)}, not on {method.subject} of {list(ours)}",
            repr(name),
            "evaluate both on the same split and protocol",
        )
    differences = []
    for behavior, (one, other) in zip(ours, zip(ours.values(), theirs.values(), strict=True), strict=True):
        if not np.array_equal(one.users, other.users) or not np.allclose(one.weights, other.weights):
            raise UsageError(
                f"is evaluated on other users of {behavior!r}",
                repr(name),
                "evaluate both on the same splits",
                value=behavior,
            )
        difference = _without_rounding(one.scores - other.scores)
        differences.append(BehaviorScores(one.users, one.weights, difference))
    return differences


def _resampled(samples: Mapping[str, list[BehaviorScores]], *, resamples: int, seed: int) -> dict[str, Array]:
    """For each rival the differences of every behavior [resamples, C], NaN where a resample has none of its users."""
    if not samples:
        return {}
    behaviors = next(iter(samples.values()))
    users = np.unique(np.concatenate([each.users for each in behaviors]))
    rows = [np.searchsorted(users, each.users) for each in behaviors]
    parts = np.zeros((1 + len(samples), len(users), len(behaviors)))  # [weights and rivals, U, C]
    for k, each in enumerate(behaviors):
        parts[0, rows[k], k] = each.weights
        for one, sample in zip(parts[1:], samples.values(), strict=True):
            one[rows[k], k] = each.weights * sample[k].scores
    columns = np.ascontiguousarray(parts.transpose(1, 0, 2)).reshape(len(users), -1)
    stream = Stream(seed, "bootstrap")
    size = max(1, AT_ONCE // len(users))
    drawn = []
    for start in range(0, resamples, size):
        n = min(size, resamples - start)
        cell = stream.integers(len(users), (n, len(users))) + len(users) * np.arange(n)[:, None]
        times = np.bincount(cell.ravel(), minlength=cell.size).reshape(cell.shape)  # each user in each resample
        drawn.append(times.astype(np.float64) @ columns)
    sums = np.concatenate(drawn).reshape(resamples, 1 + len(samples), len(behaviors))
    weight = np.where(sums[:, 0] > 0, sums[:, 0], np.nan)
    return {name: _without_rounding(sums[:, i] / weight) for i, name in enumerate(samples, start=1)}


def _comparison(sample: Sequence[BehaviorScores], resampled: Array) -> Comparison:
    """One comparison, on the mean over the behaviors given; ``resampled`` is [resamples, behaviors]."""
    known = ~np.isnan(resampled)
    some = known.any(axis=1)
    means = np.where(known, resampled, 0.0)[some].sum(axis=1) / known[some].sum(axis=1)
    far = min(np.count_nonzero(means <= 0), np.count_nonzero(means >= 0))
    p = float(min(1.0, 2 * (1 + far) / (1 + len(means))))
    low, high = np.quantile(means, INTERVAL).tolist()
    difference = float(np.mean([each.weights @ each.scores for each in sample]))
    variances = []
    for each in sample:  # around the mean: the textbook's with n − 1 where weights are equal
        n = len(each.users)
        around = each.scores - each.weights @ each.scores
        variances.append(float(each.weights @ around**2) * n / max(n - 1, 1))
    deviation = float(np.sqrt(np.mean(variances)))
    return Comparison(
        difference,
        low,
        high,
        p,
        p,
        difference / deviation if deviation > NOTHING else None,
        float(np.mean([np.mean(each.scores > 0) for each in sample])),
        float(np.mean([np.mean(each.scores < 0) for each in sample])),
        len(np.unique(np.concatenate([each.users for each in sample]))),
    )


def _adjusted(family: Mapping[Key, Comparison]) -> dict[Key, Comparison]:
    """The same comparisons, with Holm's correction over all of them."""
    adjusted = holm([each.p for each in family.values()])
    return {key: replace(each, adjusted_p=p) for (key, each), p in zip(family.items(), adjusted, strict=True)}


def _without_rounding(differences: Array) -> Array:
    """0 where a difference is nothing but rounding: its sign would otherwise count for or against."""
    return np.where(np.abs(differences) < NOTHING, 0.0, differences)
