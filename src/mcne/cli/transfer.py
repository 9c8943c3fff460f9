"""``mcne transfer | compare-transfer``: a new behavior for a trained run, by masks and items alone."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mcne.cli.compare import default_jobs
from mcne.cli.query import RunPath
from mcne.cli.train import Devices, outcome


class Controls(StrEnum):
    """What learns in place of masks and items together."""

    none = "none"
    masks_only = "masks-only"
    random_masks = "random-masks"
    open_masks = "open-masks"
    whole_vector = "whole-vector"


def transfer(
    run: RunPath,
    data: Annotated[Path, typer.Option("--data", help="A prepared dataset that has the new behavior.")],
    behavior: Annotated[str, typer.Option("--behavior", help="The new behavior's name there.")],
    out: Annotated[Path, typer.Option("--out", help="The new run's directory; nothing there is ever replaced.")],
    split: Annotated[str, typer.Option(help="A split of the dataset; random-N is made with seed N if missing.")] = (
        "random-0"
    ),
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="One setting: l2=0.01 (repeatable). Those of the model are else as in the run.", metavar="K=V"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seeds masks, items and steps; the split has its own.")] = 0,
    device: Annotated[Devices, typer.Option(help="auto takes the GPU where there is one.")] = Devices.auto,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint in --out, with the same settings.")
    ] = False,
    control: Annotated[
        Controls,
        typer.Option(
            help="For comparison: masks alone learn, after the items; or items alone, under random masks, without "
            "masks, or against the whole vectors of the run."
        ),
    ] = Controls.none,
) -> None:
    """Bring a new behavior to a trained MCNE: one mask row per level and the new items learn, and nothing else.

    Users are matched by their ids. The new run answers for old and new behaviors, for the old ones byte for byte as
    before; mcne evaluate measures the new one.
    """
    from rich.console import Console

    from mcne import api, training
    from mcne.cli.progress import shown
    from mcne.data.dataset import SocialDataset
    from mcne.data.split import split_of
    from mcne.extend import transfer as transfers
    from mcne.models.settings import read_pairs

    given = {"control": control.value, **read_pairs(setting or [])}
    base = api.load(run)
    config, settings = transfers.settings_of(base, given)
    transfers.trunk_of(base, config)
    chosen = training.choose_device(device.value)
    dataset = SocialDataset.load(data)
    dataset.behavior(behavior)
    parts = split_of(data, dataset, split)
    with shown(Console(), title=f"{behavior} to {base.method}", epochs=settings.epochs) as reporter:
        reporter.say(f"{behavior} of {dataset.name} to {base.method}, split {split}, seed {seed}, {chosen}")
        made = transfers.transfer(
            base,
            dataset,
            parts,
            out,
            behavior=behavior,
            given=given,
            seed=seed,
            device=chosen,
            resume=resume,
            split_name=split,
            reporter=reporter,
        )
    typer.echo(outcome(made))
    typer.echo(str(transfers.Counted.of(made)))
    typer.echo(f"saved {out} {made.fingerprint}")


def compare_transfer(
    plan: Annotated[Path, typer.Argument(help="A TOML file: the behavior, ways to bring it, rivals.", metavar="PLAN")],
    data: Annotated[Path, typer.Option("--data", help="A prepared dataset that has the new behavior and others.")],
    out: Annotated[Path, typer.Option("--out", help="The comparison's directory; what is done there stays done.")],
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Trainings side by side; by default the cores, or 8 on each GPU.")
    ] = None,
    device: Annotated[Devices, typer.Option(help="auto takes the GPU where there is one.")] = Devices.auto,
    table_only: Annotated[bool, typer.Option("--table", help="Train nothing: the table of what is done.")] = False,
) -> None:
    """Bring a behavior to models trained without it, beside controls and methods from scratch.

    Writes table.md, table.html and table.json. Interrupted anywhere, the same command goes on; what is finished is
    never trained again.
    """
    from mcne.errors import DataError
    from mcne.studies.transfer_plan import TransferPlan
    from mcne.studies.transfer_study import TransferStudy
    from mcne.studies.transfer_table import finished_rows, write
    from mcne.training import choose_device

    chosen = choose_device(device.value)
    study = TransferStudy.open(TransferPlan.read(plan), data, out)
    failed: dict[str, str] = {}
    if not table_only:
        failed = study.run(jobs=jobs or default_jobs(chosen), device=chosen.type, say=typer.echo)
    rows = finished_rows(study)
    if rows:
        for path in write(study, rows=rows):
            typer.echo(f"wrote {path}")
    if failed:
        raise DataError(
            f"{len(failed)} trainings failed, the first: {next(iter(failed.values()))}; the same command tries again"
        )
    if not rows:
        raise DataError(f"{out}: nothing is finished yet; run without --table")
