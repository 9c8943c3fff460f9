"""How good recommendations for new users are: hold users out, train without them, embed them, and rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mcne import training
from mcne.data.dataset import SocialDataset
from mcne.data.split import DIRECTORY, TEST, TRAIN, Split, random_split, supplied_split
from mcne.embeddings.ranking import Scorer
from mcne.errors import ArtifactError, DataError, UsageError
from mcne.evaluation.protocol import evaluate
from mcne.files import read_json, write_json
from mcne.models.registry import METHODS, present_name, refusal, refuse_former_settings
from mcne.randomness import Stream
from mcne.studies import engine
from mcne.studies.engine import RECORDS, Kind, Result, Say, Task, spread_of

if TYPE_CHECKING:
    import torch

    from mcne.training.journal import Reporter

RESULT, SUMMARY = "result.json", "new-users.json"
NEEDED = ("users", "ways")
SPLIT = "held-out"
WAYS: Mapping[str, tuple[str, ...]] = {
    "friends": ("links",),
    "history": ("history",),
    "friends and history": ("links", "history"),
    "attributes": ("attributes",),
    "all three": ("links", "history", "attributes"),
}
"""What is known of users who were held out; the last two need a model that knows attributes."""

Mask = NDArray[np.bool_]
Parts = Sequence[NDArray[np.uint8]]  # of the interactions of every behavior
Reporting = Callable[[str], AbstractContextManager["Reporter"]]
"""Given a title, shows a training for as long as it takes."""


@dataclass(frozen=True)
class Trial:
    """A method, its settings, the share of users to hold out, and whether they are trained on as well, to compare."""

    method: str
    given: Mapping[str, Any]
    share: float = 0.1
    in_training: bool = False

    def __post_init__(self) -> None:
        refuse_former_settings(self.method, self.given)
        able = [name for name, each in METHODS.items() if each.takes_new_users]
        if self.method not in able:
            raise UsageError(
                f"{self.method!r} cannot embed new users",
                remedy=f"choose one of {', '.join(able)}",
                value=self.method,
                allowed=able,
            )
        if not 0 < self.share < 1:
            raise UsageError(
                f"{self.share:g} is out of range",
                "share",
                "use a number above 0 and below 1, such as 0.1",
                value=self.share,
            )

    def run(
        self, dataset: SocialDataset, out: Path, *, seeds: int, device: str, reporting: Reporting, say: Say
    ) -> dict[str, Any]:
        """Do every unfinished seed, then summarize all of them, also in ``out``."""
        if refused := refusal(self.method, dataset, is_alone=False):
            raise refused
        config, schedule = training.resolved(self.method, self.given)
        request = {"method": self.method, "config": config, "schedule": schedule, "share": self.share}
        request |= {"in_training": self.in_training, "dataset": dataset.fingerprint}
        with engine.claimed(out, Kind.new_users):
            path = out / RECORDS[Kind.new_users]
            before = dict(read_json(path, step="choose another --out") if path.is_file() else request)
            before["method"] = present_name(before.get("method", ""), before.get("config", ()))
            if before != request:
                different = ", ".join(name for name in request if before.get(name) != request[name])
                raise ArtifactError(
                    f"already contains a study with another {different}",
                    out,
                    "use the arguments that it was started with, or choose another --out",
                    value=different,
                )
            write_json(path, request)
        tasks = []
        for seed in range(seeds):
            work = partial(self._seed, dataset, seed, reporting)
            tasks.append(Task(out / f"seed-{seed}", work, f"seed {seed}", RESULT, keeps_run=True, needs=NEEDED))
        failed = engine.run_missing(tasks, "seeds", device=device, say=say, about=_about)
        if failed:
            raise next(iter(failed.values()))
        results = [task.result() for task in tasks]
        summary = {"request": request, "seeds": results, "mean": summarize(results)}
        engine.write_results(out, {}, SUMMARY, summary)
        return summary

    def _seed(
        self, dataset: SocialDataset, seed: int, reporting: Reporting, path: Path, device: torch.device, _jobs: int
    ) -> dict[str, Any]:
        """One seed: who is held out, how it was trained, and the figures of every way."""
        from mcne.extend.new_users import embed_users  # imports torch, which no check of a study needs

        held = hold_out(dataset, share=self.share, seed=seed)
        trained = self._train(held.kept, held.kept_split, path / "kept", seed, device, reporting)
        scorers: dict[str, Scorer] = {"popularity": _popularity(held)}
        if self.in_training:
            whole = self._train(held.whole, held.random, path / "whole", seed, device, reporting)
            scorers["in training"] = whole.embeddings
        tables = known_of(held)
        trunk = trained.embeddings.trunk
        for way, parts in WAYS.items():
            if "attributes" not in parts or (trunk is not None and trunk.profile is not None):
                scorers[way] = embed_users(trained.embeddings, **{part: tables[part] for part in parts})
        counts = {"held_out": held.held_out, "asked": len(held.asked), "kept": held.kept.n_users}
        ways = {way: evaluate(scorer, held.whole, held.split).summary() for way, scorer in scorers.items()}
        return {"seed": seed, "users": counts, "trained": dict(trained.result), "ways": ways}

    def _train(
        self, dataset: SocialDataset, split: Split, path: Path, seed: int, device: torch.device, reporting: Reporting
    ) -> training.Run:
        """A run that can be asked and evaluated like any other: its dataset and split are beside it."""
        dataset.save(path / "data")
        split.save(path / "data" / DIRECTORY / SPLIT)
        method, given = self.method, self.given
        places = {"dataset": "../data", "split": SPLIT}
        with reporting(f"{method}, seed {seed}, {path.name} users") as reporter:
            return training.Training(
                method, dataset, split, settings=given, seed=seed, device=device, places=places, reporter=reporter
            ).run(path / "run", resume=(path / "run").exists())


# users who are held out


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A dataset without some of its users, and with those of them who can be asked about.

    Items that no kept user has are dropped everywhere: nothing is known of them. Users without a kept friend, a
    training item or a test item among the remaining ones are held out too, but not evaluated.
    """

    kept: SocialDataset
    kept_split: Split  # random: what training sees
    whole: SocialDataset  # kept users and those asked about, over the same items
    split: Split  # of the whole; its test part is that of the users asked about
    random: Split  # of the whole; what training would have seen with them in it
    asked: NDArray[np.int64]  # [n] rows of the whole
    held_out: int


def hold_out(dataset: SocialDataset, *, share: float, seed: int) -> HeldOut:
    """Hold out a share of all users, by chance, of a random split with the same seed."""
    n_out = round(share * dataset.n_users)
    out = np.zeros(dataset.n_users, dtype=bool)
    out[Stream(seed, "held-out users").permutation(dataset.n_users)[:n_out]] = True
    parts = random_split(dataset, seed=seed).parts
    items = [np.bincount(b.item[~out[b.user]], minlength=b.n_items) > 0 for b in dataset.behaviors]
    friends = dataset.graph.sources()[~out[dataset.graph.indices]]  # of those who are kept
    asked = out & (np.bincount(friends, minlength=dataset.n_users) > 0)
    for wanted in (TRAIN, TEST):
        has_any = np.zeros(dataset.n_users, dtype=bool)
        for behavior, part, has in zip(dataset.behaviors, parts, items, strict=True):
            has_any[behavior.user[has[behavior.item] & (part == wanted)]] = True
        asked &= has_any
    if not asked.any():
        raise DataError(
            f"none of the {n_out:,} held-out users has a remaining friend, a training item and a test item",
            dataset.name,
            "hold out more users, or use a larger dataset",
            value=n_out,
        )
    kept, kept_parts = _restricted(dataset, parts, ~out, items)
    whole, whole_parts = _restricted(dataset, parts, ~out | asked, items)
    is_asked = asked[~out | asked]
    tested = [
        np.where((part == TEST) & ~is_asked[b.user], TRAIN, part).astype(np.uint8)
        for part, b in zip(whole_parts, whole.behaviors, strict=True)
    ]
    return HeldOut(
        kept,
        supplied_split(kept, kept_parts, seed=seed),
        whole,
        supplied_split(whole, tested, seed=seed),
        supplied_split(whole, whole_parts, seed=seed),
        np.flatnonzero(is_asked),
        n_out,
    )


def _restricted(
    dataset: SocialDataset, parts: Parts, users: Mask, items: Sequence[Mask]
) -> tuple[SocialDataset, Parts]:
    """The dataset of these users and items, and the parts of what is left of it."""
    behaviors = []
    left = []
    for behavior, part, has in zip(dataset.behaviors, parts, items, strict=True):
        mine = users[behavior.user] & has[behavior.item]
        if not mine.any():
            raise DataError(
                "holding out users leaves it without users",
                f"behavior {behavior.name!r}",
                "hold out fewer users",
                value=behavior.name,
            )
        behaviors.append(behavior.restrict(users, has, mine))
        left.append(part[mine])
    some = replace(
        dataset,
        users=dataset.users.subset(np.flatnonzero(users)),
        graph=dataset.graph.restrict(users),
        behaviors=tuple(behaviors),
        attributes={name: attribute.subset(users) for name, attribute in dataset.attributes.items()},
        user_names=None if dataset.user_names is None else dataset.user_names.subset(np.flatnonzero(users)),
        provenance={},
    )
    return some, left


def known_of(held: HeldOut) -> dict[str, pa.Table]:
    """Tables of the users asked about: their links to kept users, the training part of their history, attributes."""
    whole = held.whole
    is_asked = np.zeros(whole.n_users, dtype=bool)
    is_asked[held.asked] = True
    source, target = whole.graph.sources(), whole.graph.indices
    mine = is_asked[source] & ~is_asked[target]
    links = {"source_id": whole.users.arrow(source[mine]), "target_id": whole.users.arrow(target[mine])}
    if whole.graph.weights is not None:
        links["weight"] = pa.array(whole.graph.weights[mine])
    past = []
    for k, behavior in enumerate(whole.behaviors):
        user, item = held.split.of(behavior, k, TRAIN)
        own = is_asked[user]
        ids = {"user_id": whole.users.arrow(user[own]), "item_id": behavior.items.arrow(item[own]).cast(pa.string())}
        past.append(pa.table(ids | {"behavior": pa.array([behavior.name] * int(own.sum()), pa.string())}))
    facts: dict[str, Any] = {"user_id": whole.users.arrow(held.asked)}
    for name, attribute in whole.attributes.items():
        values = attribute.values[held.asked]
        facts[name] = pa.array(values)
        if attribute.categories is not None:
            facts[name] = attribute.categories.arrow().cast(pa.string()).take(pa.array(values, mask=values < 0))
    return {"links": pa.table(links), "history": pa.concat_tables(past), "attributes": pa.table(facts)}


def summarize(results: Sequence[Result]) -> dict[str, dict[str, Any]]:
    """Mean and standard deviation over seeds of every way and metric."""
    means = {way: [result["ways"][way]["mean"] for result in results] for way in results[0]["ways"]}
    return {way: {name: spread_of([one[name] for one in each]) for name in each[0]} for way, each in means.items()}


def _about(result: Result) -> str:
    both = result["ways"]["friends and history"]["mean"]["ndcg@5"]
    return f"{result['users']['asked']:,} users asked about, NDCG@5 {100 * both:.2f} from friends and history"


def _popularity(held: HeldOut) -> Scorer:
    """The popularity ranker of the kept users' training interactions."""
    import torch

    from mcne.models.contract import TrainingData
    from mcne.models.popularity import Popularity, PopularityConfig

    counted = TrainingData.of(held.kept, held.kept_split)
    everyone = TrainingData(held.whole.graph, counted.names, counted.n_items, counted.pairs)
    return Popularity(everyone, PopularityConfig(), seed=0, device=torch.device("cpu")).scorer()
