"""``mcne demo``: from nothing to answers in two minutes, on a network whose tastes are known."""

from __future__ import annotations

import shlex
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcne.cli.output import print_line, print_table
from mcne.errors import Interrupted, UsageError

if TYPE_CHECKING:
    from mcne.data.dataset import SocialDataset
    from mcne.data.split import Split
    from mcne.data.synthetic import Planted
    from mcne.embeddings.artifact import ConditionalEmbeddings
    from mcne.training import Run

USERS, SEED, SPLIT = 2000, 0, "random-0"

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "popularity": {},
    "bpr": {"epochs": 100, "l2": 0.02},
    "mcne": {
        "epochs": 100,
        "widths": [64, 64],
        "attention_width": 16,
        "neighbor_samples": [5],
        "last_activation": False,
        "batch_size": 512,
        "learning_rate": 0.02,
        "l2": 0.03,
    },
}
"""The methods that are compared, and their settings: the whole must take less than two minutes on two cores."""

SHOWN = 5


def demo(out: Annotated[Path, typer.Option("--out", help="A new directory.")] = Path("demo")) -> None:
    """Make a synthetic social network, train three methods on it, compare them, and ask MCNE."""
    import numpy as np

    from mcne.report.writing import report_of, write_page

    if out.exists():
        raise UsageError(f"{out}: already exists; nothing is ever replaced: choose another --out, or remove it")
    dataset, planted, split = _network(out / "network")
    try:
        runs = {method: _train(method, dataset, split, out) for method in SETTINGS}
    except Interrupted as error:  # which advises --resume
        name = signal.Signals(error.signal_number).name
        raise Interrupted(
            f"stopped by {name}; the demo cannot be resumed: remove {out}, then start again",
            signal_number=error.signal_number,
        ) from error
    _compare(runs, dataset, split)
    embeddings = runs["mcne"].embeddings
    records = np.concatenate([behavior.user for behavior in dataset.behaviors])
    row = int(np.bincount(records, minlength=dataset.n_users).argmax())  # of the user with the most records
    friends = embeddings.graph.neighbors(row)
    closest = friends[(embeddings.vectors[friends] @ embeddings.vectors[row]).argmax()]
    friend = embeddings.users[int(closest)]
    behaviors = dataset.behavior_names[0], dataset.behavior_names[2]
    _ask(embeddings, planted, row, friend, behaviors)
    page = out / "report.html"
    write_page(report_of(runs["mcne"].path), page)
    _heading("4. All of it on one page")
    typer.echo(f"open it in a browser: {page}")
    _advise(out, dataset.users[row], friend, behaviors)


def _network(path: Path) -> tuple[SocialDataset, Planted, Split]:
    from mcne.data.split import DIRECTORY, random_split
    from mcne.data.synthetic import SyntheticConfig, generate

    _heading(f"A social network of {USERS:,} users with planted tastes, in {path}")
    dataset, planted = generate(SyntheticConfig(users=USERS, seed=SEED))
    dataset.save(path)
    planted.save(path / "planted")
    split = random_split(dataset, seed=SEED)
    split.save(path / DIRECTORY / SPLIT)
    typer.echo(f"{dataset.graph.n_links // 2:,} links; 70 % of the records train, 10 % validate, 20 % test")
    active = {behavior.name: len(set(behavior.user.tolist())) for behavior in dataset.behaviors}
    rows = [[b.name, f"{b.n_items:,}", f"{len(b):,}", f"{active[b.name]:,}"] for b in dataset.behaviors]
    print_table(["", "items", "records", "users"], rows)
    return dataset, planted, split


def _train(method: str, dataset: SocialDataset, split: Split, out: Path) -> Run:
    from mcne import training
    from mcne.cli.progress import outcome, training_progress
    from mcne.kernels.compilation import CLOCK

    settings = SETTINGS[method]
    _heading(f"Training {method}")
    if settings:
        print_line(", ".join(f"{name} {value}" for name, value in settings.items()))
    started = time.perf_counter()
    with training_progress(method, int(settings.get("epochs", 0)), only_live=True) as reporter:
        run = training.Training(
            method,
            dataset,
            split,
            settings=settings,
            seed=SEED,
            device=training.choose_device("auto"),
            places={"dataset": "../../network", "split": SPLIT},
            reporter=reporter,
        ).run(out / "runs" / method)
    seconds = time.perf_counter() - started
    compiling = CLOCK.since(started)
    typer.echo(f"{outcome(run)}; {seconds:.1f} s")
    if compiling:
        typer.echo(f"{compiling:.1f} s of that compiled kernels, once; later runs find them")
    return run


def _compare(runs: Mapping[str, Run], dataset: SocialDataset, split: Split) -> None:
    """Recall@5 and NDCG@5 of every method on the test part, in percent."""
    from mcne.evaluation.protocol import evaluate

    _heading("On the test part: each user's items ranked with 100 random others, in percent")
    evaluations = {method: evaluate(run.embeddings, dataset, split) for method, run in runs.items()}
    for title, metric in (("Recall@5", "recall@5"), ("NDCG@5", "ndcg@5")):
        rows = []
        for method, evaluation in evaluations.items():
            means = [evaluation.mean(name, metric) for name in dataset.behavior_names]
            rows.append([method, *(f"{100 * (mean or 0):.1f}" for mean in [*means, evaluation.overall(metric)])])
        print_table([title, *dataset.behavior_names, "mean"], rows)


def _ask(
    embeddings: ConditionalEmbeddings, planted: Planted, row: int, friend: int | str, behaviors: tuple[str, str]
) -> None:
    """Three answers about the user in this row."""
    from mcne.cli.query import show_explanation

    user = embeddings.users[row]
    _heading(f"1. Who is similar to user {user} — on what? (* shares the planted taste)")
    columns = []
    for behavior in behaviors:
        tastes = planted.tastes(embeddings.behavior_names.index(behavior))
        ids = embeddings.similar_users(user, behavior, k=SHOWN).ids
        marks = ["*" if tastes[embeddings.users.row(other)] == tastes[row] else " " for other in ids]
        columns.append([f"{other} {mark}" for other, mark in zip(ids, marks, strict=True)])
    heads = [f"on {behavior}" for behavior in behaviors]
    print_table(heads, zip(*columns, strict=True), left=heads)
    _heading(f"2. What suits user {user}?")
    for behavior in behaviors:
        items = ", ".join(str(item) for item, _ in embeddings.recommend(user, behavior, k=SHOWN))
        typer.echo(f"{behavior}: items {items}")
    _heading(f"3. Why are users {user} and {friend} connected?")
    show_explanation(embeddings.explain(user, friend))


def _advise(out: Path, user: int | str, friend: int | str, behaviors: tuple[str, str]) -> None:
    """How to ask for other answers."""
    run = out / "runs" / "mcne"
    first, second = behaviors
    _heading("Next")
    for command in (
        ["similar", run, "--user", user, "--behavior", first],
        ["recommend", run, "--user", user, "--behavior", second, "-k", 20],
        ["explain", run, "--user", user, "--other", friend, "--json"],
        ["evaluate", run, "--protocol", "full"],
        ["export", run, "--format", "word2vec", "--out", out / "vectors"],
        ["data", "prepare", "files", "--interactions", "FILE", "--links", "FILE", "--out", "mydata"],
        ["train", "mcne", "--data", "mydata", "--out", "myrun"],
    ):
        typer.echo(f"  {shlex.join([*_program(), *map(str, command)])}")


def _program() -> list[str]:
    """How this program can be called: by its name where that is found, otherwise by its path."""
    if shutil.which("mcne"):
        return ["mcne"]
    path = Path(sys.argv[0])
    if path.name == "__main__.py":
        return ["python", "-m", "mcne"]
    return [str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)]


def _heading(title: str) -> None:
    typer.echo()
    print_line(title, "bold")
