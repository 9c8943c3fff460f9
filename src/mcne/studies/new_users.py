"""How well new users are served: hold users out, train without them, embed them from what is known, and rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mcne import training
from mcne.data.dataset import SocialDataset
from mcne.data.split import DIRECTORY, TRAIN, Split
from mcne.embeddings.scorer import Scorer
from mcne.errors import ArtifactError, UsageError, unknown
from mcne.evaluation.protocol import evaluate
from mcne.extend.new_users import embed_users
from mcne.files import read_json, write_json
from mcne.models.registry import METHODS, refusal
from mcne.studies import engine
from mcne.studies.engine import RECORDS, Kind, Resources, Result, Say, Spread, Task
from mcne.studies.held_out import HeldOut, hold_out

if TYPE_CHECKING:
    import torch

    from mcne.training.reporting import Reporter

REQUEST = RECORDS[Kind.new_users]
RESULT, SUMMARY = "result.json", "new-users.json"
SPLIT = "held-out"
IN_TRAINING = "in training"
WAYS: Mapping[str, tuple[str, ...]] = {
    "friends": ("links",),
    "history": ("history",),
    "friends and history": ("links", "history"),
    "attributes": ("attributes",),
    "all three": ("links", "history", "attributes"),
}
"""What is known of users who were held out; the last two need a model that knows attributes."""

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
        able = [name for name, each in METHODS.items() if each.takes_new_users]
        if self.method not in able:
            raise UsageError(unknown("method that takes new users", self.method, able))
        if not 0 < self.share < 1:
            raise UsageError(f"share {self.share:g} is out of range; choose a number above 0 and below 1, such as 0.1")

    def request(self, dataset: SocialDataset) -> dict[str, Any]:
        """Everything that decides a seed's result."""
        config, schedule = training.resolved(self.method, self.given)
        request = {"method": self.method, "config": config, "schedule": schedule, "share": self.share}
        return request | {"in_training": self.in_training, "dataset": dataset.fingerprint}

    def run(
        self, dataset: SocialDataset, out: Path, *, seeds: int, device: str, reporting: Reporting, say: Say
    ) -> dict[str, Any]:
        """Do every seed that is not done, then summarize all of them, in ``out`` too."""
        refused = refusal(self.method, dataset, is_alone=False)
        if refused:
            raise UsageError(refused)
        request = self.request(dataset)
        engine.claim(out, Kind.new_users, REQUEST, partial(_joined, request))
        tasks = [
            Task(out / f"seed-{n}", partial(self._seed, dataset, n, reporting), f"seed {n}", RESULT, keeps_run=True)
            for n in range(seeds)
        ]
        failed = engine.run_missing(tasks, "seeds", Resources(device), say=say, about=_about)
        if failed:
            raise next(iter(failed.values()))
        results = [_result(task) for task in tasks]
        summary = {"request": request, "seeds": results, "mean": summarize(results)}
        write_json(out / SUMMARY, summary)
        return summary

    def _seed(
        self, dataset: SocialDataset, seed: int, reporting: Reporting, path: Path, device: torch.device, _jobs: int
    ) -> dict[str, Any]:
        """One seed: who is held out, how it was trained, and the figures of every way."""
        held = hold_out(dataset, share=self.share, seed=seed)
        trained = self._train(held.kept, held.kept_split, path / "kept", seed, device, reporting)
        scorers: dict[str, Scorer] = {"popularity": _popularity(held)}
        if self.in_training:
            whole = self._train(held.whole, held.random, path / "whole", seed, device, reporting)
            scorers[IN_TRAINING] = whole.embeddings
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
        with reporting(f"{self.method}, seed {seed}, {path.name} users") as reporter:
            return training.Training(
                self.method,
                dataset,
                split,
                settings=self.given,
                seed=seed,
                device=device,
                places={"dataset": "../data", "split": SPLIT},
                reporter=reporter,
            ).run(path / "run", resume=(path / "run").exists())


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
        facts[name] = pa.array(values) if attribute.categories is None else _labels(attribute.categories, values)
    return {"links": pa.table(links), "history": pa.concat_tables(past), "attributes": pa.table(facts)}


def summarize(results: Sequence[Result]) -> dict[str, dict[str, Any]]:
    """Mean and standard deviation over seeds of every way and metric."""
    means: dict[str, dict[str, Any]] = {}
    for way, first in results[0]["ways"].items():
        means[way] = {}
        for metric in first["mean"]:
            spread = Spread.of([result["ways"][way]["mean"][metric] for result in results])
            assert spread is not None
            means[way][metric] = asdict(spread)
    return means


def _result(task: Task) -> dict[str, Any]:
    return engine.read_result(task.directory, RESULT, needs=("users", "ways"))


def _about(task: Task) -> str:
    result = _result(task)
    both = result["ways"]["friends and history"]["mean"]["ndcg@5"]
    return f"{result['users']['asked']:,} users asked about, NDCG@5 {100 * both:.2f} from friends and history"


def _popularity(held: HeldOut) -> Scorer:
    """The popularity ranker as the kept users' training records have it."""
    import torch

    from mcne.models.contract import TrainingData
    from mcne.models.popularity import Popularity, PopularityConfig

    counted = TrainingData.of(held.kept, held.kept_split)
    everyone = TrainingData(held.whole.graph, counted.names, counted.n_items, counted.pairs)
    return Popularity(everyone, PopularityConfig(), seed=0, device=torch.device("cpu")).scorer()


def _labels(categories: Any, rows: Any) -> pa.Array:
    return categories.arrow().cast(pa.string()).take(pa.array(rows, mask=rows < 0))


def _joined(request: dict[str, Any], path: Path) -> dict[str, Any]:
    """The same request as before, if there was one; more seeds may join those that are done."""
    before = read_json(path, step="choose another --out") if path.is_file() else request
    if before != request:
        different = ", ".join(name for name in request if before.get(name) != request[name])
        raise ArtifactError(
            f"{path.parent}: contains another trial (other {different}); repeat what it was started with, or choose "
            "another --out"
        )
    return request
