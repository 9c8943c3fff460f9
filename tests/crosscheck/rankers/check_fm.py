"""LibFM against myFM (Gibbs sampling) and L-BFGS, and its function against cornac's FM.

1. **The function.** Our learned weights are loaded into myFM's model, with the features of a pair as an explicit row
   (user id 1, each friend 1/degree, item id 1), and into cornac's, which knows user and item alone: 5,000 random pairs
   must get the same ``ŷ`` within 1e-5 of the largest. As a control, friends of value 1 must be told apart.
2. **As it is used**, on ml-100k. Ours and myFM's classifier get the same examples: the training records of a random
   80/20 split and 5 zeros drawn for each, the same ones in every epoch (ours draws new ones otherwise). Both are asked
   for the chance of each held-out record and of 5 zeros drawn for it. The area under the curve (AUC) must agree within
   0.01, the log loss within 0.02. One split is enough: between three, no AUC had a standard deviation above 0.004 and
   no log loss one above 0.001.
3. **The minimum**, on Ciao's first behavior, examples as above. Ours by Adam, all examples in one step until it hardly
   moves, and SciPy's L-BFGS on the definition (sums over explicit features, double precision, gradients by PyTorch)
   must reach the same loss within 0.003, AUC and log loss within 0.005: there is more than one minimum. As a control,
   the minimum with myFM's link, probit, must be told apart.
4. **The sampler cold**, on Ciao. myFM with an L2 like ours for its prior, instead of one that it samples, and every
   example given 16 times: the posterior to the power of 16, of which little is left but the maximum. AUC and log loss
   must be those of L-BFGS on the same loss, probit, within 0.01. As a control, with every example once they must not.
   So with the same prior ours and myFM differ in the link, and in that ours is one set of weights and myFM's a mean
   over many.
5. **The sampler as it is**, on Ciao, 300 samples from weights of N(0, 0.5²): no worse than ours as it is used by more
   than 0.01 of AUC and 0.02 of log loss. From myFM's default start, N(0, 0.1²), AUC after 200 samples must be that of
   popularity within 0.01: it has not arrived yet.

The last is why ours and myFM were apart on Ciao at first, AUC 0.6374 against 0.5953. myFM samples a precision for each
group of features and each factor by the weights that the group has then, and those by the precisions. Where thousands
of features are rare, both follow each other by one percent a sample: the median precision of items, 98 at the start,
was 30 after 200 samples and still falling. The first factor was found between 400 and 500 samples. After 1,500 the
median was 4, and the mean over the last 100 had an AUC of 0.7017 and a log loss of 0.4051, as from the wide start.
ml-100k has records enough to move it sooner.

Settings of ours are chosen on another split (seed 100). With new zeros in every epoch they have an AUC of 0.6751 on
Ciao. libFM itself, the C++ inside cornac, is not compared: with the pinned cornac 3.0.1 every training of ``FM`` ends
the process by ``std::bad_alloc``, on 300 ratings and with default settings too. What cornac's FM answers is computed in
Python from the weights it is given.

Last result, with myFM 0.4.0 and SciPy 1.17.1, 9 minutes: the function differs by 1.1e-7 at most, control 1.0. AUC and
log loss (of the first and the second) on ml-100k 0.9131 and 0.9212, 0.2649 and 0.2533. On Ciao, the minimum 0.6443 and
0.6478, 0.4349 and 0.4331 (loss 0.29316 and 0.29416; control 0.6336, 0.4568); the sampler cold 0.6350 and 0.6336, 0.4518
and 0.4568 (control 0.5825, 0.4982); ours as it is used and the sampler as it is 0.6374 and 0.7010, 0.4295 and 0.4033
(from the default start 0.5939, 0.4290; popularity 0.5907). Agreed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from scipy import sparse, special
from scipy.optimize import minimize
from scipy.stats import rankdata
from shared import CPU, Case, beauty, case, largest_difference, movies
from torch import Tensor

from mcne.data.split import TEST
from mcne.models.libfm import LibFM, LibFMConfig

SEED = 0
ZEROS = 5
FUNCTION = 1e-5
OBJECTIVE, MINIMUM, SAMPLED = 0.003, 0.005, 0.01  # of the loss that is descended; of AUC and log loss
AUC, LOG_LOSS = 0.01, 0.02
COLD = 16  # copies of all examples, which leave little of the posterior but its maximum
PROBIT_L2 = 0.05  # a probit's ŷ is some 1/1.7 of a logistic one's, and so are the squares of its vectors
SURE = 1e9  # records that a prior of myFM is worth, so that it learns none of its own


@dataclass(frozen=True)
class Examples:
    """Pairs, and which of them are records."""

    user: np.ndarray  # [n]
    item: np.ndarray  # [n]
    record: np.ndarray  # [n] bool


def compare() -> bool:
    print(f"  myFM {version('myfm')}, FM of cornac {version('cornac')}")
    agree = True
    for dataset in (movies(), beauty()):
        each = case(dataset, SEED)
        agree &= same_function(each)
        agree &= same_learning(each) if each.dataset.graph.n_directions == 0 else explained(each)
    return agree


def user_features(each: Case, *, whole_friends: bool = False) -> sparse.csr_matrix:
    """The features of each user as a row: the user, friends."""
    graph = each.dataset.graph
    share = np.ones(graph.n_directions) if whole_friends else np.repeat(1 / np.maximum(graph.degrees, 1), graph.degrees)
    friends = sparse.csr_matrix((share, graph.indices, graph.indptr), (graph.n_users, graph.n_users))
    return sparse.csr_matrix(sparse.hstack([sparse.identity(graph.n_users), friends]))


def item_features(each: Case, pairs: Examples) -> sparse.csr_matrix:
    n, n_items = len(pairs.item), each.dataset.behaviors[0].n_items
    return sparse.csr_matrix((np.ones(n), (np.arange(n), pairs.item)), (n, n_items))


def features(each: Case, pairs: Examples, *, whole_friends: bool = False) -> sparse.csr_matrix:
    """The features of each pair as a row: user, friends, item."""
    of_users = user_features(each, whole_friends=whole_friends)[pairs.user]
    return sparse.csr_matrix(sparse.hstack([of_users, item_features(each, pairs)]))


def our_answers(model: LibFM, pairs: Examples) -> np.ndarray:
    """ŷ of each pair, with what is the same for all items of a user."""
    tables = model.learned()
    sums = model.everyone(tables)
    alone = tables["constant"][0, 0] + sums.weights + sums.pairs.sum(-1)  # [users]
    item = torch.from_numpy(pairs.item.astype(np.int64))
    user = torch.from_numpy(pairs.user.astype(np.int64))
    products = (sums.vectors[user] * tables["items.0"][item]).sum(-1)
    return (alone[user] + products + tables["bias.0"][item, 0]).numpy()


def same_function(each: Case) -> bool:
    import myfm
    from cornac.models import FM

    model = LibFM(each.data, LibFMConfig(width=16), seed=0, device=CPU)
    random = np.random.default_rng(0)
    random_tables = {
        name: torch.from_numpy(random.normal(0, 0.3, table.shape)).float() for name, table in model.learned().items()
    }
    model.load(random_tables)
    n_users, n_items = each.dataset.n_users, each.dataset.behaviors[0].n_items
    pairs = Examples(random.integers(n_users, size=5000), random.integers(n_items, size=5000), np.ones(5000, bool))
    ours = our_answers(model, pairs)

    tables = {name: table.double().numpy() for name, table in random_tables.items()}
    sides = (tables["users"], tables["friends"], np.concatenate([tables["items.0"], tables["bias.0"]], axis=1))
    weights = np.concatenate(sides)  # [features, vector and weight]
    other = myfm.MyFMGibbsRegressor(rank=16).fit(features(each, pairs), np.zeros(5000), n_iter=6)
    machine = other.predictor_.samples[0]
    machine.w0, machine.w, machine.V = float(tables["constant"][0, 0]), weights[:, -1], weights[:, :-1]
    theirs, wrong = (machine.predict_score(features(each, pairs, whole_friends=whole), []) for whole in (False, True))
    difference, control = largest_difference(ours, theirs), largest_difference(ours, wrong)
    has_links = each.dataset.graph.n_directions > 0
    print(f"  {each.name}, the function, myFM: {difference:.1e}, tolerance {FUNCTION:g}", end="")
    print(f", control {control:.1e}" if has_links else ", no friends")
    agree = difference <= FUNCTION and (control > FUNCTION or not has_links)
    if not has_links:
        kept = np.concatenate([sides[0], sides[2]])
        given = {"w0": float(tables["constant"][0, 0]), "w": kept[:, -1].copy(), "v": kept[:, :-1].T.copy()}
        machine = FM(k2=16, trainable=False, init_params=given, verbose=False, seed=0).fit(training_set(each, pairs))
        theirs = np.array([machine.score(u)[i] for u, i in zip(pairs.user.tolist(), pairs.item.tolist(), strict=True)])
        difference = largest_difference(ours, theirs)
        print(f"  {each.name}, the function, cornac: {difference:.1e}, tolerance {FUNCTION:g}", flush=True)
        agree &= difference <= FUNCTION
    return agree


def training_set(each: Case, pairs: Examples) -> Any:
    """Records and zeros as ratings of cornac."""
    from cornac.data import Dataset

    shape = (each.dataset.n_users, each.dataset.behaviors[0].n_items)
    names = ({row: row for row in range(n)} for n in shape)
    columns = (pairs.user.astype(np.int64), pairs.item.astype(np.int64), pairs.record.astype(np.float64))
    return Dataset(*shape, *names, columns)


def drawn(model: LibFM) -> Examples:
    """The examples of our first epoch."""
    users, items, records = [], [], []
    for step in range(model.n_steps):
        batch = model.prepare(0, step)
        at = batch.triples[0]
        item = at.items[torch.cat([at.positive[:, None], at.negative], dim=1)].numpy()  # [b, 1+N]
        record = np.zeros(item.shape, dtype=bool)
        record[:, 0] = True
        users.append(np.repeat(batch.features.users[at.user].numpy(), item.shape[1]))
        items.append(item.ravel())
        records.append(record.ravel())
    return Examples(*(np.concatenate(column) for column in (users, items, records)))


def held_out(each: Case, seed: int) -> Examples:
    """The test records, and zeros drawn from what their users have in no part."""
    behavior = each.dataset.behaviors[0]
    has = np.zeros((each.dataset.n_users, behavior.n_items), dtype=bool)
    has[behavior.user, behavior.item] = True
    user, item = each.split.of(behavior, 0, TEST)
    again = np.repeat(user, ZEROS)
    random = np.random.default_rng(seed)
    zero = random.integers(behavior.n_items, size=len(again))
    while np.any(wrong := has[again, zero]):
        zero[wrong] = random.integers(behavior.n_items, size=np.count_nonzero(wrong))
    record = np.arange(len(user) + len(again)) < len(user)
    return Examples(np.concatenate([user, again]), np.concatenate([item, zero]), record)


def auc(record: np.ndarray, scores: np.ndarray) -> float:
    """The share of pairs of a record and a zero that are ordered rightly, equal ones half."""
    n = int(record.sum())
    return float((rankdata(scores)[record].sum() - n * (n + 1) / 2) / (n * (len(record) - n)))


def log_loss(record: np.ndarray, chances: np.ndarray) -> float:
    chances = np.clip(chances, 1e-7, 1 - 1e-7)
    return float(-np.where(record, np.log(chances), np.log1p(-chances)).mean())


SETTINGS = {  # by the split of seed 100: ours, epochs
    "ml-100k": (LibFMConfig(width=16, negatives=ZEROS, batch_size=1024, learning_rate=0.003, l2=0.003), 20),
    "ciao": (LibFMConfig(width=16, negatives=ZEROS, batch_size=1024, learning_rate=0.003, l2=0.03), 40),
}


def as_used(each: Case) -> tuple[np.ndarray, Examples, Examples]:
    """What our trained model answers, the examples it had, and what it was asked."""
    config, epochs = SETTINGS[each.name]
    model = LibFM(each.data, config, seed=SEED, device=CPU)
    examples = drawn(model)
    asked = held_out(each, SEED)
    for _ in range(epochs):
        for step in range(model.n_steps):
            model.update(model.loss(model.prepare(0, step)))
    return special.expit(our_answers(model, asked).astype(np.float64)), examples, asked


def sampled(
    each: Case,
    examples: Examples,
    asked: Examples,
    *,
    samples: int,
    kept: int,
    start: float,
    pair_l2: float | None = None,
    copies: int = 1,
) -> np.ndarray:
    """The chances by myFM, the mean over the last ``kept`` samples.

    It samples its own regularization, or has ours with ``pair_l2``: N(0, 1/λ) for all weights of a feature is ours when
    its value is divided by the root of how often the examples have it. All examples are given ``copies`` times.
    """
    import myfm

    times = np.asarray(features(each, examples).sum(axis=0)).ravel()
    values = np.ones(len(times)) if pair_l2 is None else 1 / np.sqrt(np.where(times > 0, times, np.inf))
    of_users, of_items = (sparse.diags(part) for part in np.split(values, [2 * each.dataset.n_users]))
    users = sparse.csr_matrix(user_features(each) @ of_users)

    def rows(pairs: Examples, again: int) -> tuple[sparse.csr_matrix, list[Any]]:
        items = sparse.csr_matrix(sparse.vstack([item_features(each, pairs) @ of_items] * again))
        return items, [myfm.RelationBlock(np.tile(pairs.user, again), users)]

    precision = 2 * (pair_l2 or 0) * copies
    prior = {"alpha_0": precision * SURE, "beta_0": SURE, "gamma_0": SURE, "reg_0": 1e-3} if pair_l2 else {}
    other = myfm.MyFMGibbsClassifier(rank=SETTINGS[each.name][0].width, random_seed=SEED, init_stdev=start, **prior)
    items, blocks = rows(examples, copies)
    groups = [items.shape[1], each.dataset.n_users, each.dataset.n_users]
    other.fit(
        items,
        np.tile(examples.record, copies),
        X_rel=blocks,
        n_iter=samples,
        n_kept_samples=kept,
        group_shapes=groups,
    )
    return np.asarray(other.predict_proba(*rows(asked, 1)))


def same_learning(each: Case) -> bool:
    """Ours as it is used and myFM's as it is."""
    ours, examples, asked = as_used(each)
    theirs = sampled(each, examples, asked, samples=200, kept=195, start=0.1)
    print(f"  {each.name}, popularity alone: AUC {auc(asked.record, popularity(each, asked)):.4f}")
    return near(f"{each.name}, ours and myFM", asked.record, ours, theirs, (AUC, LOG_LOSS))


def popularity(each: Case, asked: Examples) -> np.ndarray:
    counts = np.bincount(each.data.pairs[0][1], minlength=each.dataset.behaviors[0].n_items)
    return np.asarray(counts[asked.item])


def near(name: str, record: np.ndarray, ours: np.ndarray, theirs: np.ndarray, tolerance: tuple[float, float]) -> bool:
    """Print both AUCs and log losses, and whether they are as near as asked."""
    areas, losses = ([measure(record, chances) for chances in (ours, theirs)] for measure in (auc, log_loss))
    agree = abs(areas[0] - areas[1]) <= tolerance[0] and abs(losses[0] - losses[1]) <= tolerance[1]
    print(
        f"  {name}: AUC {areas[0]:.4f}, {areas[1]:.4f}; log loss {losses[0]:.4f}, {losses[1]:.4f}; "
        f"tolerance {tolerance[0]:g}, {tolerance[1]:g}: {'near' if agree else 'APART'}",
        flush=True,
    )
    return agree


class Machine:
    """The definition: sums over all features of a pair, in double precision, and its minimum by L-BFGS."""

    def __init__(self, each: Case, examples: Examples, width: int) -> None:
        rows = user_features(each)
        self._rows, self._squares = tensor_of(rows), tensor_of(rows.multiply(rows))
        self._examples = examples
        self._width = width
        self._n_of_users = rows.shape[1]
        self._sign = torch.from_numpy(np.where(examples.record, 1.0, -1.0))
        self._share = torch.from_numpy(np.asarray(features(each, examples).mean(axis=0)).ravel())

    def answers(self, weights: Tensor, pairs: Examples) -> Tensor:
        """ŷ by the weights of all: the constant, then a vector and a weight of each feature."""
        table = weights[1:].view(-1, self._width + 1)
        of_users, of_items = table[: self._n_of_users], table[self._n_of_users :]
        user, item = (torch.from_numpy(rows.astype(np.int64)) for rows in (pairs.user, pairs.item))
        sums = (self._rows @ of_users)[user] + of_items[item]  # [n, k+1] Σ x_f θ_f
        squares = (self._squares @ of_users.square())[user] + of_items[item].square()  # Σ x_f² θ_f²
        return weights[0] + sums[:, -1] + (sums.square() - squares)[:, :-1].sum(-1) / 2

    def minimum(self, start: np.ndarray, log_chance: Callable[[Tensor], Tensor], l2: float) -> tuple[np.ndarray, float]:
        """The weights of the least loss, and the loss. ``log_chance`` is of a record by ŷ, of none by −ŷ."""

        def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
            weights = torch.from_numpy(values).requires_grad_()
            fit = log_chance(self._sign * self.answers(weights, self._examples)).mean()
            total = l2 * (self._share @ weights[1:].view(-1, self._width + 1).square()).sum() - fit
            (gradient,) = torch.autograd.grad(total, [weights])
            return total.item(), gradient.numpy()

        solution = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 400, "maxcor": 20})
        return solution.x, float(solution.fun)


def tensor_of(matrix: sparse.csr_matrix) -> Tensor:
    matrix = sparse.csr_matrix(matrix)
    rows, columns = (torch.from_numpy(part.astype(np.int64)) for part in (matrix.indptr, matrix.indices))
    return torch.sparse_csr_tensor(rows, columns, torch.from_numpy(matrix.data), matrix.shape, dtype=torch.float64)


def weights_of(model: LibFM) -> np.ndarray:
    """All our weights in the order of ``Machine``."""
    tables = {name: table.double().numpy() for name, table in model.learned().items()}
    items = np.concatenate([tables["items.0"], tables["bias.0"]], axis=1)
    return np.concatenate([tables[name].ravel() for name in ("constant", "users", "friends")] + [items.ravel()])


def explained(each: Case) -> bool:
    """Each estimator against the minimum of its own loss, and then myFM's sampler as it is."""
    config, _ = SETTINGS[each.name]
    model = LibFM(each.data, replace(config, batch_size=len(each.data.pairs[0][0])), seed=SEED, device=CPU)
    examples = drawn(model)
    asked = held_out(each, SEED)
    machine = Machine(each, examples, config.width)
    start = weights_of(model)
    logistic, least_loss = machine.minimum(start, torch.nn.functional.logsigmoid, config.l2)
    probit, _ = machine.minimum(start, torch.special.log_ndtr, PROBIT_L2)
    logistic, probit = (machine.answers(torch.from_numpy(weights), asked).numpy() for weights in (logistic, probit))
    agree = same_minimum(each, model, asked, least_loss, special.expit(logistic), special.ndtr(probit))
    agree &= same_when_cold(each, examples, asked, special.ndtr(probit))
    return agree & as_it_is(each)


def same_minimum(
    each: Case, model: LibFM, asked: Examples, least_loss: float, logistic: np.ndarray, probit: np.ndarray
) -> bool:
    """Ours by Adam, all examples in one step, and the minima by L-BFGS."""
    batch = model.prepare(0, 0)
    for rate, steps in ((0.1, 250), (0.03, 50), (0.01, 50)):
        model.tables.learning_rate = rate
        for _ in range(steps):
            model.update(model.loss(batch))
    loss = model.loss(batch).total.item()
    print(f"  {each.name}, loss: ours {loss:.5f}, L-BFGS {least_loss:.5f}, tolerance {OBJECTIVE:g}")
    ours = special.expit(our_answers(model, asked).astype(np.float64))
    agree = near(f"{each.name}, ours and L-BFGS", asked.record, ours, logistic, (MINIMUM, MINIMUM))
    wrong = near(f"{each.name}, control: ours and L-BFGS, probit", asked.record, ours, probit, (MINIMUM, MINIMUM))
    return agree and not wrong and abs(loss - least_loss) <= OBJECTIVE


def same_when_cold(each: Case, examples: Examples, asked: Examples, probit: np.ndarray) -> bool:
    """myFM with a prior like our L2 and all examples many times, and the minimum by L-BFGS."""
    agreements = []
    for label, copies in (("myFM", COLD), ("control: myFM, examples once,", 1)):
        spread = (2 * PROBIT_L2 * copies) ** -0.5  # of the prior
        theirs = sampled(each, examples, asked, samples=60, kept=20, start=spread, pair_l2=PROBIT_L2, copies=copies)
        name = f"{each.name}, {label} and L-BFGS, probit"
        agreements.append(near(name, asked.record, theirs, probit, (SAMPLED, SAMPLED)))
    return agreements == [True, False]


def as_it_is(each: Case) -> bool:
    """Ours as it is used, and myFM's sampler from two starts: what it averages is no worse, once it has arrived."""
    ours, examples, asked = as_used(each)
    most = auc(asked.record, popularity(each, asked))
    early = sampled(each, examples, asked, samples=200, kept=195, start=0.1)
    late = sampled(each, examples, asked, samples=300, kept=200, start=0.5)
    for label, chances in (("ours", ours), ("myFM from 0.1", early), ("myFM from 0.5", late)):
        quality = f"AUC {auc(asked.record, chances):.4f}, log loss {log_loss(asked.record, chances):.4f}"
        print(f"  {each.name}, as it is, {label}: {quality}; AUC of popularity {most:.4f}", flush=True)
    arrived = auc(asked.record, late) >= auc(asked.record, ours) - AUC
    arrived &= log_loss(asked.record, late) <= log_loss(asked.record, ours) + LOG_LOSS
    has_not_moved = abs(auc(asked.record, early) - most) <= AUC
    return arrived and has_not_moved
