"""How well new users are served: hold users out, train without them, embed them from what is told, and rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mcne import training
from mcne.data.dataset import SocialDataset
from mcne.data.split import DIRECTORY, TRAIN, Split
from mcne.embeddings.scorer import Scorer
from mcne.errors import ArtifactError, Interrupted, UsageError, unknown
from mcne.evaluation.protocol import evaluate
from mcne.extend.held_out import HeldOut, hold_out
from mcne.extend.new_users import embed_users
from mcne.files import locked, read_json, write_json
from mcne.models.registry import METHODS, refusal

if TYPE_CHECKING:
    import torch

    from mcne.training.reporting import Reporter

REQUEST, RESULT, SUMMARY = "request.json", "result.json", "new-users.json"
SPLIT = "held-out"
IN_TRAINING = "in training"
WAYS: Mapping[str, tuple[str, ...]] = {
    "friends": ("links",),
    "history": ("history",),
    "friends and history": ("links", "history"),
    "attributes": ("attributes",),
    "all three": ("links", "history", "attributes"),
}
"""What is told of users who were held out; the last two of models that know attributes."""

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
        said = {"method": self.method, "config": config, "schedule": schedule, "share": self.share}
        return said | {"in_training": self.in_training, "dataset": dataset.fingerprint}

    def run(
        self, dataset: SocialDataset, out: Path, *, seeds: int, device: torch.device, reporting: Reporting
    ) -> dict[str, Any]:
        """Every seed that is not done yet, then the summary of all, which is kept in ``out`` too."""
        refused = refusal(self.method, dataset, is_alone=False)
        if refused:
            raise UsageError(refused)
        request = self.request(dataset)
        with locked(out):
            _claim(out, request)
            try:
                found = [self._seed(dataset, out / f"seed-{n}", n, device, reporting) for n in range(seeds)]
            except Interrupted as error:
                said = "stopped by a signal; what is done is kept, and the same command goes on"
                raise Interrupted(said, signal_number=error.signal_number) from error
            summary = {"request": request, "seeds": found, "mean": summarize(found)}
            write_json(out / SUMMARY, summary)
        return summary

    def _seed(
        self, dataset: SocialDataset, path: Path, seed: int, device: torch.device, reporting: Reporting
    ) -> dict[str, Any]:
        """One seed: what is held out, how it was trained, and every way's figures."""
        if (path / RESULT).is_file():
            return read_json(path / RESULT, step="train again")
        held = hold_out(dataset, share=self.share, seed=seed)
        trained = self._train(held.kept, held.kept_split, path / "kept", seed, device, reporting)
        scorers: dict[str, Scorer] = {"popularity": _popularity(held)}
        if self.in_training:
            scorers[IN_TRAINING] = self._train(
                held.whole, held.random, path / "whole", seed, device, reporting
            ).embeddings
        told, trunk = told_of(held), trained.embeddings.trunk
        for way, parts in WAYS.items():
            if "attributes" not in parts or (trunk is not None and trunk.profile is not None):
                scorers[way] = embed_users(trained.embeddings, **{part: told[part] for part in parts})
        counts = {"held_out": held.held_out, "asked": len(held.asked), "kept": held.kept.n_users}
        ways = {way: evaluate(scorer, held.whole, held.split).summary() for way, scorer in scorers.items()}
        result = {"seed": seed, "users": counts, "trained": dict(trained.result), "ways": ways}
        write_json(path / RESULT, result)
        return result

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


def told_of(held: HeldOut) -> dict[str, pa.Table]:
    """Tables of the users asked about: their links to kept users, the training part of their history, attributes."""
    whole, is_asked = held.whole, np.zeros(held.whole.n_users, dtype=bool)
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


def summarize(results: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of every way and metric the mean over seeds, and their standard deviation if there are several."""
    found: dict[str, dict[str, Any]] = {}
    for way in results[0]["ways"]:
        found[way] = {}
        for metric in results[0]["ways"][way]["mean"]:
            values = [result["ways"][way]["mean"][metric] for result in results]
            found[way][metric] = {"mean": mean(values), "sd": stdev(values) if len(values) > 1 else None}
    return found


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


def _claim(out: Path, request: Mapping[str, Any]) -> None:
    """See that a directory is new, or of the same request; more seeds may join those that are there."""
    if (out / REQUEST).is_file():
        there = read_json(out / REQUEST, step="train again")
        if there != request:
            different = ", ".join(name for name in request if there.get(name) != request[name])
            raise ArtifactError(
                f"{out}: holds another trial (other {different}); repeat what it was started with, or choose another "
                "--out"
            )
        return
    if any(out.iterdir()):
        raise UsageError(f"{out}: holds something else than held-out users; choose another --out")
    write_json(out / REQUEST, request)
