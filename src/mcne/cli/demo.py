"""``mcne demo``: from nothing to answers in two minutes, on a network whose tastes are known."""

from __future__ import annotations

import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcne.errors import Interrupted, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from mcne.data.dataset import SocialDataset
    from mcne.data.planted import Planted
    from mcne.data.split import Split
    from mcne.embeddings.artifact import ConditionalEmbeddings
    from mcne.training import Run
    from mcne.training.reporting import Reporter

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
    from rich.console import Console

    if out.exists():
        raise UsageError(f"{out}: already exists; nothing is ever replaced: choose another --out, or remove it")
    console = Console(highlight=False)
    dataset, planted, split = _network(console, out / "network")
    try:
        runs = {method: _train(console, method, dataset, split, out) for method in SETTINGS}
    except Interrupted as error:  # which advises --resume
        number = error.exit_code - 128
        raise Interrupted(
            f"stopped by {signal.Signals(number).name}; the demo cannot be resumed: remove {out}, then start again",
            signal_number=number,
        ) from error
    _compare(console, runs, dataset, split)
    _ask(console, runs["mcne"].embeddings, dataset, planted)
    _report(console, runs["mcne"], out / "report.html")
    _advise(console, runs["mcne"].embeddings, dataset, out)


def _network(console: Console, path: Path) -> tuple[SocialDataset, Planted, Split]:
    from mcne.cli.query import table
    from mcne.data.split import DIRECTORY, random_split
    from mcne.data.synthetic import SyntheticConfig, generate

    _head(console, f"A social network of {USERS:,} users with planted tastes, in {path}")
    dataset, planted = generate(SyntheticConfig(users=USERS, seed=SEED))
    dataset.save(path)
    planted.save(path / "planted")
    split = random_split(dataset, seed=SEED)
    split.save(path / DIRECTORY / SPLIT)
    _say(console, f"{dataset.graph.n_links // 2:,} links; 70 % of the records train, 10 % validate, 20 % test")
    active = {behavior.name: len(set(behavior.user.tolist())) for behavior in dataset.behaviors}
    rows = [[b.name, f"{b.n_items:,}", f"{len(b):,}", f"{active[b.name]:,}"] for b in dataset.behaviors]
    console.print(table(["", "items", "records", "users"], rows))
    return dataset, planted, split


def _train(console: Console, method: str, dataset: SocialDataset, split: Split, out: Path) -> Run:
    from mcne import training
    from mcne.cli.train import outcome
    from mcne.kernels.compile_clock import CLOCK

    given = SETTINGS[method]
    _head(console, f"Training {method}")
    if given:
        console.print(", ".join(f"{name} {value}" for name, value in given.items()), markup=False)
    started = time.perf_counter()
    with _reporter(console, method, dataset, epochs=int(given.get("epochs", 0))) as reporter:
        run = training.Training(
            method,
            dataset,
            split,
            settings=given,
            seed=SEED,
            device=training.choose_device("auto"),
            places={"dataset": "../../network", "split": SPLIT},
            reporter=reporter,
        ).run(out / "runs" / method)
    seconds, compiling = time.perf_counter() - started, CLOCK.since(started)
    once = f", {compiling:.1f} of them to compile, once" if compiling else ""
    _say(console, f"{outcome(run)}; {seconds:.1f} s{once}")
    return run


@contextmanager
def _reporter(console: Console, method: str, dataset: SocialDataset, *, epochs: int) -> Iterator[Reporter]:
    """Live on a terminal, silent elsewhere: the outcome is enough."""
    from mcne.cli.progress import shown
    from mcne.training.reporting import SilentReporter

    if not console.is_terminal:
        yield SilentReporter()
        return
    with shown(console, title=method, epochs=epochs) as reporter:
        yield reporter


def _compare(console: Console, runs: Mapping[str, Run], dataset: SocialDataset, split: Split) -> None:
    """Recall@5 and NDCG@5 of every method on the test part, in percent."""
    from mcne.cli.query import table
    from mcne.evaluation.protocol import evaluate

    _head(console, "On the test part: each user's items ranked with 100 random others, in percent")
    found = {method: evaluate(run.embeddings, dataset, split) for method, run in runs.items()}
    for title, metric in (("Recall@5", "recall@5"), ("NDCG@5", "ndcg@5")):
        rows = []
        for method, evaluation in found.items():
            means = [evaluation.mean(name, metric) for name in dataset.behavior_names]
            rows.append([method, *(f"{100 * (mean or 0):.1f}" for mean in [*means, evaluation.overall(metric)])])
        console.print(table([title, *dataset.behavior_names, "mean"], rows))


def _ask(console: Console, embeddings: ConditionalEmbeddings, dataset: SocialDataset, planted: Planted) -> None:
    """Three answers about the user with the most records."""
    from mcne.cli.query import show_explanation, table

    row = _busiest(dataset)
    user, first, second = dataset.users[row], dataset.behavior_names[0], dataset.behavior_names[2]
    _head(console, f"1. Who is similar to user {user} — on what? (* shares the planted taste)")
    columns = [_similar(embeddings, planted, row, behavior) for behavior in (first, second)]
    console.print(table([f"on {first}", f"on {second}"], zip(*columns, strict=True), left=[f"on {second}"]))

    _head(console, f"2. What suits user {user}?")
    for behavior in (first, second):
        items = ", ".join(str(item) for item, _ in embeddings.recommend(user, behavior, k=SHOWN))
        _say(console, f"{behavior}: items {items}")

    friend = _closest_friend(embeddings, row)
    _head(console, f"3. Why are users {user} and {friend} connected?")
    show_explanation(console, embeddings.explain(user, friend))


def _report(console: Console, run: Run, path: Path) -> None:
    """Everything about the run on one page."""
    from mcne.report.writing import report_of, write_page

    write_page(report_of(run.path), path)
    _head(console, "4. All of it on one page")
    _say(console, f"open it in a browser: {path}")


def _advise(console: Console, embeddings: ConditionalEmbeddings, dataset: SocialDataset, out: Path) -> None:
    """How to ask for other answers."""
    row = _busiest(dataset)
    user, first, second = dataset.users[row], dataset.behavior_names[0], dataset.behavior_names[2]
    friend, run = _closest_friend(embeddings, row), out / "runs" / "mcne"
    _head(console, "Next")
    for command in (
        ["similar", run, "--user", user, "--behavior", first],
        ["recommend", run, "--user", user, "--behavior", second, "-k", 20],
        ["explain", run, "--user", user, "--other", friend, "--json"],
        ["evaluate", run, "--protocol", "full"],
        ["export", run, "--format", "word2vec", "--out", out / "vectors"],
        ["data", "prepare", "files", "--interactions", "FILE", "--links", "FILE", "--out", "mydata"],
        ["train", "mcne", "--data", "mydata", "--out", "myrun"],
    ):
        _say(console, f"  {shlex.join([*_program(), *map(str, command)])}")


def _similar(embeddings: ConditionalEmbeddings, planted: Planted, row: int, behavior: str) -> list[str]:
    tastes = planted.tastes(embeddings.behavior_names.index(behavior))
    found = embeddings.similar_users(embeddings.users[row], behavior, k=SHOWN)
    marks = ["*" if tastes[embeddings.users.row(other)] == tastes[row] else " " for other in found.ids]
    return [f"{other} {mark}" for other, mark in zip(found.ids, marks, strict=True)]


def _busiest(dataset: SocialDataset) -> int:
    """The user with the most records."""
    import numpy as np

    return int(np.argmax(sum(np.bincount(behavior.user, minlength=dataset.n_users) for behavior in dataset.behaviors)))


def _closest_friend(embeddings: ConditionalEmbeddings, row: int) -> int | str:
    """Of the users linked to this one, the one most similar in the whole vector."""
    friends = embeddings.graph.neighbors(row)
    return embeddings.users[int(friends[(embeddings.vectors[friends] @ embeddings.vectors[row]).argmax()])]


def _program() -> list[str]:
    """How this program can be called: by its name where that is found, otherwise by its path."""
    if shutil.which("mcne"):
        return ["mcne"]
    path = Path(sys.argv[0])
    if path.name == "__main__.py":
        return ["python", "-m", "mcne"]
    return [str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)]


def _head(console: Console, title: str) -> None:
    from rich.text import Text

    console.print()
    console.print(Text(title, style="bold"))


def _say(console: Console, line: str) -> None:
    from rich.text import Text

    console.print(Text(line), soft_wrap=True)
