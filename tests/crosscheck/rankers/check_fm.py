"""LibFM against myFM (Gibbs sampling), and its function against cornac's FM.

1. **The function.** Our learned weights are loaded into myFM's model, with the features of a pair as an explicit row
   (user id 1, each friend 1/degree, item id 1), and into cornac's, which knows user and item alone: 5,000 random pairs
   must get the same ``ŷ`` within 1e-5 of the largest. As a control, friends of value 1 must be told apart.
2. **The learning.** Ours and myFM's classifier get the same examples: the training records of a random 80/20 split and
   5 zeros drawn for each, the same ones in every epoch (ours draws new ones otherwise). Both are asked for the chance
   of each held-out record and of 5 zeros drawn for it. The area under the curve (AUC) must agree within 0.01, the log
   loss within 0.02. One split is enough: between three, no AUC had a standard deviation above 0.004 and no log loss one
   above 0.001.

They differ by design: myFM's link is probit, it samples its own regularization and averages its answers over samples;
ours is logistic, one set of weights by Adam, with an L2 and a number of epochs chosen on another split (seed 100).

libFM itself, the C++ inside cornac, is not compared: with the pinned cornac 3.0.1 every training of ``FM`` ends the
process by ``std::bad_alloc``, on 300 ratings and with default settings too. What cornac's FM answers is computed in
Python from the weights it is given.

Last result, with myFM 0.4.0: the function differs by 1.1e-7 at most, control 1.0. The learning agrees on ml-100k (AUC
0.9131 against 0.9205, log loss 0.2649 against 0.2543) and differs on Ciao: the log loss agrees (0.4295 against 0.4289),
the AUC does not (0.6374 against 0.5953, popularity 0.5907). So the check fails. With an L2 of 0.01 and 20 epochs, which
do worse on the split of seed 100, it was the other way round over three splits: AUC 0.5983 in both, log loss 0.4554
against 0.4284. Why myFM stays so near to popularity there is not known yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from scipy import sparse, special
from scipy.stats import rankdata
from shared import CPU, Case, beauty, case, largest_difference, movies

from mcne.data.split import TEST
from mcne.methods.libfm import LibFM, LibFMConfig

SEED = 0
ZEROS = 5
FUNCTION, AUC, LOG_LOSS = 1e-5, 0.01, 0.02
SAMPLES = 200


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
        if dataset is not None:
            agree &= same_function(case(dataset, SEED))
            agree &= same_learning(case(dataset, SEED))
    return agree


def features(each: Case, pairs: Examples, *, whole_friends: bool = False) -> sparse.csr_matrix:
    """The features of each pair as a row: user, friends, item."""
    graph, n = each.dataset.graph, len(pairs.user)
    share = np.ones(graph.n_links) if whole_friends else np.repeat(1 / np.maximum(graph.degrees, 1), graph.degrees)
    friends = sparse.csr_matrix((share, graph.indices, graph.indptr), (graph.n_users, graph.n_users))
    user, item = (
        sparse.csr_matrix((np.ones(n), (np.arange(n), rows)), (n, size))
        for rows, size in ((pairs.user, graph.n_users), (pairs.item, each.dataset.behaviors[0].n_items))
    )
    return sparse.csr_matrix(sparse.hstack([user, friends[pairs.user], item]))


def our_answers(model: LibFM, pairs: Examples) -> np.ndarray:
    """ŷ of each pair, with what is the same for all items of a user."""
    tables = model.learned()
    sums = model.users.everyone(tables)
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
    has_links = each.dataset.graph.n_links > 0
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
    again, random = np.repeat(user, ZEROS), np.random.default_rng(seed)
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


def same_learning(each: Case) -> bool:
    import myfm

    config, epochs = SETTINGS[each.name]
    model = LibFM(each.data, config, seed=SEED, device=CPU)
    examples, asked = drawn(model), held_out(each, SEED)
    for _ in range(epochs):
        for step in range(model.n_steps):
            model.update(model.loss(model.prepare(0, step)))
    ours = special.expit(our_answers(model, asked).astype(np.float64))

    shapes = [each.dataset.n_users, each.dataset.n_users, each.dataset.behaviors[0].n_items]
    other = myfm.MyFMGibbsClassifier(rank=config.width, random_seed=SEED)
    other.fit(features(each, examples), examples.record, n_iter=SAMPLES, group_shapes=shapes)
    theirs = other.predict_proba(features(each, asked))
    counts = np.bincount(each.data.pairs[0][1], minlength=shapes[2])[asked.item]
    return judged(each.name, asked.record, ours, theirs, counts)


def judged(name: str, record: np.ndarray, ours: np.ndarray, theirs: np.ndarray, popularity: np.ndarray) -> bool:
    areas, losses = ([measure(record, chances) for chances in (ours, theirs)] for measure in (auc, log_loss))
    agree = abs(areas[0] - areas[1]) <= AUC and abs(losses[0] - losses[1]) <= LOG_LOSS
    print(
        f"  {name}, the learning: AUC ours {areas[0]:.4f}, myFM {areas[1]:.4f}, popularity "
        f"{auc(record, popularity):.4f}; log loss ours {losses[0]:.4f}, myFM {losses[1]:.4f}: "
        f"{'agree' if agree else 'DIFFER'}",
        flush=True,
    )
    return agree
