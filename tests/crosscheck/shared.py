"""What the checks share: the data, the same data as the other packages take it, and one way to measure scores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

HERE = Path(__file__).resolve()
IN_RECBOLE = HERE.with_name("in_recbole.py")
sys.path.insert(0, str(HERE.parents[2] / "src"))

import pyarrow as pa  # noqa: E402

from mcne.data.dataset import SocialDataset  # noqa: E402
from mcne.data.split import TEST, TRAIN, Split, random_split  # noqa: E402
from mcne.data.trust import CIAO, prepare  # noqa: E402
from mcne.embeddings.ranking import Scorer  # noqa: E402
from mcne.evaluation.protocol import evaluate  # noqa: E402
from mcne.models.contract import Learner, TrainingData  # noqa: E402

CPU = torch.device("cpu")
METRICS = ("recall@10", "ndcg@10")
torch.set_num_threads(1)

Figures = dict[str, float]  # metric -> mean over the users with test items, full ranking


@dataclass(frozen=True)
class Case:
    """One behavior of a dataset, 80 % of it to learn from and 20 % to test on, at random."""

    name: str
    dataset: SocialDataset
    split: Split

    @property
    def data(self) -> TrainingData:
        return TrainingData.of(self.dataset, self.split)

    def figures(self, scorer: Scorer) -> Figures:
        measured = evaluate(scorer, self.dataset, self.split, protocol="full", cutoffs=(10,))
        return {metric: measured.overall(metric) or 0.0 for metric in METRICS}


@dataclass(frozen=True)
class Scores:
    """Scores of all users for all items, as a scorer."""

    matrix: np.ndarray  # [users, items]

    def scores(self, behavior: int, users: np.ndarray, items: np.ndarray | None = None) -> np.ndarray:
        chosen = self.matrix[users]
        return chosen if items is None else np.take_along_axis(chosen, items, axis=1)


def movies() -> SocialDataset:
    """MovieLens 100k, every rating a record, no links."""
    rows = np.loadtxt(os.environ["CROSSCHECK_MOVIES"], skiprows=1, dtype=np.int64)
    table = pa.table({"user_id": rows[:, 0], "item_id": rows[:, 1]})
    return SocialDataset.from_frames(table, single_behavior="movies", name="ml-100k")


def beauty() -> SocialDataset:
    """One behavior of Ciao with the trust network; without its files nothing is said to agree."""
    raw = Path(os.environ.get("MCNE_DATA_DIR", "nowhere")) / "ciao"
    if not raw.is_dir():
        raise SystemExit("this check needs Ciao: set MCNE_DATA_DIR to the directory that has ciao/ as published")
    return prepare(CIAO, raw).only(0)


def case(dataset: SocialDataset, seed: int) -> Case:
    return Case(dataset.name, dataset, random_split(dataset, seed=seed, ratios=(80, 0, 20)))


def for_cornac(data: TrainingData, values: np.ndarray | None = None) -> Any:
    """A dataset of cornac with our rows as its indices, the whole catalog included; ``values`` instead of ones."""
    from cornac.data import Dataset

    ((user, item),), (n_items,) = data.pairs, data.n_items
    values = np.ones(len(user)) if values is None else values
    names = ({row: row for row in range(n)} for n in (data.n_users, n_items))
    return Dataset(data.n_users, n_items, *names, (user.astype(np.int64), item.astype(np.int64), values))


def of_cornac(model: Any, users: np.ndarray | None = None) -> np.ndarray:
    """What a fitted model of cornac answers for all items, user by user: [n, items]."""
    users = np.arange(model.num_users) if users is None else users
    return np.stack([np.asarray(model.score(int(user))).ravel() for user in users])


def of_recbole(case: Case, settings: dict[str, Any], script: Path = IN_RECBOLE) -> tuple[np.ndarray, Figures]:
    """The scores [users, items] of a model that RecBole trains on this split, and what it says they are worth."""
    with tempfile.TemporaryDirectory() as directory:
        behavior = case.dataset.behaviors[0]
        for part, name in ((TRAIN, "train"), (TEST, "test"), (TEST, "valid")):  # validation is never looked at
            rows = np.stack(case.split.of(behavior, 0, part), axis=1)
            path = Path(directory) / "data" / f"data.{name}.inter"
            path.parent.mkdir(exist_ok=True)
            np.savetxt(path, rows, fmt="%d", delimiter="\t", header="user_id:token\titem_id:token", comments="")
        shape = [case.dataset.n_users, behavior.n_items]
        asked = json.dumps({"shape": shape, "settings": settings})
        done = subprocess.run(
            [os.environ["CROSSCHECK_RECBOLE"], "-W", "ignore", script, directory, asked],
            check=False,
            capture_output=True,
            text=True,
            cwd=directory,  # RecBole leaves its logs where it is run
        )
        if done.returncode:
            raise RuntimeError(done.stderr)
        return np.load(Path(directory) / "scores.npy"), json.loads((Path(directory) / "figures.json").read_text())


def train(model: Learner, epochs: int) -> Scorer:
    for epoch in range(epochs):
        for step in range(model.n_steps):
            model.update(model.loss(model.prepare(epoch, step)))
    return model.scorer()


def largest_difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Relative to the largest of theirs; infinite where one is not a number, which no maximum would show."""
    difference = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    return difference if np.isfinite(difference) else np.inf


def within(label: str, ours: list[Figures], theirs: list[Figures], tolerance: float) -> bool:
    """Print both means over seeds, and whether they are as near as asked."""
    agree = True
    for metric in METRICS:
        mine, other = (np.array([figures[metric] for figures in each]) for each in (ours, theirs))
        gap = float((mine - other).mean())
        agree &= abs(gap) <= tolerance
        spread = (mine - other).std(ddof=1) if len(mine) > 1 else 0.0
        print(
            f"  {label:34} {metric:9} ours {mine.mean():.4f} ± {mine.std():.4f}, theirs {other.mean():.4f} ± "
            f"{other.std():.4f}, difference {gap:+.4f} (sd {spread:.4f}), tolerance {tolerance:g}: "
            f"{'agree' if abs(gap) <= tolerance else 'DIFFER'}",
            flush=True,
        )
    return agree
