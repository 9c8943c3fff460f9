"""``mcne demo``: from data to answers in two minutes, on a network with known tastes."""

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
from mcne.errors import Interrupted
from mcne.text import percent, with_name

if TYPE_CHECKING:
    from mcne.data.dataset import SocialDataset
    from mcne.data.split import Split
    from mcne.data.synthetic import Planted
    from mcne.training import Run

USERS = 2000
SEED = 0
SPLIT = f"random-{SEED}"

SMALL = {"widths": [64, 64], "attention_width": 16, "neighbor_samples": [5], "last_activation": False}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "popularity": {},
    "bpr": {"epochs": 100, "l2": 0.02},
    "mcne": {"epochs": 100, **SMALL, "batch_size": 512, "learning_rate": 0.02, "l2": 0.03},
}
"""The methods that are compared, and their settings: the whole must take less than two minutes on two cores."""

SHOWN = 5


def demo(out: Annotated[Path, typer.Option("--out", help="A new directory.")] = Path("demo")) -> None:
    """Make a synthetic social network, train and compare three methods on it, and query MCNE."""
    from mcne.data.split import DIRECTORY, random_split
    from mcne.data.synthetic import SyntheticConfig, generate
    from mcne.evaluation.metrics import HEADLINE
    from mcne.evaluation.protocol import evaluate
    from mcne.files import existing

    if out.exists():
        raise existing(out, "choose another --out, or remove it")
    network = out / "network"
    _heading(f"A social network of {USERS:,} users with planted tastes, in {network}")
    dataset, planted = generate(SyntheticConfig(users=USERS, seed=SEED))
    dataset.save(network)
    planted.save(network / "planted")
    split = random_split(dataset, seed=SEED)
    split.save(network / DIRECTORY / SPLIT)
    typer.echo(f"{dataset.graph.n_links:,} links; 70 % of the records train, 10 % validate, 20 % test")
    rows = [[b.name, f"{b.n_items:,}", f"{len(b):,}", f"{len(set(b.user.tolist())):,}"] for b in dataset.behaviors]
    print_table(["", "items", "records", "users"], rows)
    try:
        runs = {method: _train(method, dataset, split, out) for method in SETTINGS}
    except Interrupted as error:  # which advises --resume
        name = signal.Signals(error.signal_number).name
        problem = f"stopped by {name}; the demo cannot be resumed"
        remedy = f"remove {out}, then start again"
        raise Interrupted(problem, remedy=remedy, signal_number=error.signal_number) from error
    _heading("On the test part: each user's items ranked with 100 random others, in percent")
    evaluations = {method: evaluate(run.embeddings, dataset, split) for method, run in runs.items()}
    for metric, title in HEADLINE.items():
        rows = []
        for method, evaluation in evaluations.items():
            means = [evaluation.mean(name, metric) for name in dataset.behavior_names]
            rows.append([method, *(percent(mean or 0) for mean in [*means, evaluation.overall(metric)])])
        print_table([title, *dataset.behavior_names, "mean"], rows)
    _ask(runs["mcne"], dataset, planted, out)


def _train(method: str, dataset: SocialDataset, split: Split, out: Path) -> Run:
    from mcne import training
    from mcne.cli.progress import outcome, training_progress
    from mcne.kernels.compilation import CLOCK

    settings = SETTINGS[method]
    _heading(f"Training {method}")
    if settings:
        print_line(", ".join(f"{name} {value}" for name, value in settings.items()))
    started = time.perf_counter()
    device = training.choose_device("auto")
    places = {"dataset": "../../network", "split": SPLIT}
    with training_progress(method, int(settings.get("epochs", 0)), only_live=True) as reporter:
        run = training.Training(
            method, dataset, split, settings=settings, seed=SEED, device=device, places=places, reporter=reporter
        ).run(out / "runs" / method)
    seconds = time.perf_counter() - started
    compiling = CLOCK.since(started)
    typer.echo(f"{outcome(run)}; {seconds:.1f} s")
    if compiling:
        typer.echo(f"{compiling:.1f} s of that compiled kernels, once; later runs find them")
    return run


def _ask(run: Run, dataset: SocialDataset, planted: Planted, out: Path) -> None:
    """Answers about the user with the most records, a page of everything, and how to ask for other answers."""
    import numpy as np

    from mcne.cli.query import show_explanation
    from mcne.data.ids import name_of
    from mcne.report.writing import report_of, write_page

    embeddings = run.embeddings
    records = np.concatenate([behavior.user for behavior in dataset.behaviors])
    row = int(np.bincount(records, minlength=dataset.n_users).argmax())
    user = embeddings.users[row]
    friends = embeddings.graph.neighbors(row)
    closest = friends[(embeddings.vectors[friends] @ embeddings.vectors[row]).argmax()]
    friend = embeddings.users[int(closest)]
    label = with_name(user, name_of(embeddings.user_names, row))
    behaviors = (dataset.behavior_names[0], dataset.behavior_names[2])
    _heading(f"1. Who is similar to user {label} — on what? (* shares the planted taste)")
    columns = []
    for behavior in behaviors:
        tastes = planted.tastes(embeddings.behavior_names.index(behavior))
        ranking = embeddings.similar_users(user, behavior, k=SHOWN)
        marks = ["*" if tastes[embeddings.users.row(other)] == tastes[row] else " " for other in ranking.ids]
        columns.append([f"{other} {mark}" for other, mark in zip(ranking.labels(), marks, strict=True)])
    heads = [f"on {behavior}" for behavior in behaviors]
    print_table(heads, zip(*columns, strict=True), left=heads)
    _heading(f"2. What suits user {label}?")
    for behavior in behaviors:
        items = ", ".join(embeddings.recommend(user, behavior, k=SHOWN).labels())
        typer.echo(f"{behavior}: items {items}")
    explanation = embeddings.explain(user, friend)
    _heading(f"3. Why are users {' and '.join(explanation.users)} connected?")
    show_explanation(explanation)
    page = out / "report.html"
    write_page(report_of(run.path), page)
    _heading("4. All of it on one page")
    typer.echo(f"open it in a browser: {page}")
    _heading("Next")
    for command in (
        ["similar", run.path, "--user", user, "--behavior", behaviors[0]],
        ["recommend", run.path, "--user", user, "--behavior", behaviors[1], "-k", 20],
        ["explain", run.path, "--user", user, "--other", friend, "--json"],
        ["evaluate", run.path, "--protocol", "full"],
        ["export", run.path, "--format", "word2vec", "--out", out / "vectors"],
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
    print_line(f"\n{title}", "bold")
