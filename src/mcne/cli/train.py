"""``mcne train``: any method on a prepared dataset, into a run directory."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from mcne.training import Run

METHODS_HELP = (
    "popularity, userknn, itemknn, ease, bpr, libfm, nfm, node2vec, node2vec-b, line, line-b, graphsage, pinsage, "
    "lightgcn, lightgcn-trust, shared-bottom, soft-gate, mcne, mcne-a, mcne-f, mcne-plus, "
    "mcne-constant-masks or mcne-random-masks."
)
"""The names of the registry, which this cannot import: it needs torch."""


class Devices(StrEnum):
    """Where to train."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


def train(
    method: Annotated[str, typer.Argument(help=METHODS_HELP, metavar="METHOD")],
    data: Annotated[Path, typer.Option("--data", help="A prepared dataset.")],
    out: Annotated[Path, typer.Option("--out", help="The run's directory; nothing there is ever replaced.")],
    split: Annotated[str, typer.Option(help="A split of the dataset; random-N is made with seed N if missing.")] = (
        "random-0"
    ),
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="One setting: learning_rate=0.01 (repeatable).", metavar="K=V")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seeds the model alone; the split has its own.")] = 0,
    device: Annotated[Devices, typer.Option(help="auto takes the GPU where there is one.")] = Devices.auto,
    separate: Annotated[
        bool, typer.Option("--separate", help="A model for each behavior instead of one for all.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint in --out, with the settings of before.")
    ] = False,
) -> None:
    """Train a method; the best epoch on the validation part is kept.

    Stopped by Ctrl-C or SIGTERM it saves a checkpoint; --resume then gives the bytes of a run that never stopped.
    """
    from rich.console import Console

    from mcne import training
    from mcne.cli.progress import shown
    from mcne.data.dataset import SocialDataset
    from mcne.data.split import split_of

    given = (training.begun_with(out, method) if resume else {}) | given_settings(config, setting or [])
    _, settings = training.settings_of(method, given)
    chosen = training.choose_device(device.value)
    dataset = SocialDataset.load(data)
    parts = split_of(data, dataset, split)
    with shown(Console(), title=method, epochs=settings.epochs) as reporter:
        reporter.say(f"{method} on {dataset.name}: {dataset.n_users:,} users, split {split}, seed {seed}, {chosen}")
        run = training.Training(
            method,
            dataset,
            parts,
            settings=given,
            seed=seed,
            device=chosen,
            places={"dataset": str(data.absolute()), "split": split},
            reporter=reporter,
            mode="separate" if separate else "joint",
            reports_memory=True,
        ).run(out, resume=resume)
    typer.echo(outcome(run))
    typer.echo(f"saved {out} {run.fingerprint}")


def outcome(run: Run) -> str:
    """How a training ended, in a line."""
    from mcne.evaluation.protocol import DECIDING_METRIC

    result = run.result
    metric, epochs = result[DECIDING_METRIC], result["epochs"]
    if run.spec.mode == "separate":
        return "a model for each behavior" + ("" if metric is None else f"; validation NDCG@5 {metric:.4f}")
    if not epochs:
        return "nothing to learn step by step" + ("" if metric is None else f"; validation NDCG@5 {metric:.4f}")
    if metric is None:
        return f"no interactions to validate on, so the last of {epochs} epochs is kept"
    return f"best of {epochs} epochs: {result['best_epoch']}, validation NDCG@5 {metric:.4f}"


def given_settings(config: Path | None, settings: list[str]) -> dict[str, Any]:
    """The settings of a file, overridden by those of the command line, of which the last counts."""
    from mcne.models.settings import read_pairs, read_toml

    return (read_toml(config) if config else {}) | read_pairs(settings)
