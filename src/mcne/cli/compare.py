"""``mcne compare``: methods on the same splits, with the same budget of search, in one table."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcne.cli.train import Devices

if TYPE_CHECKING:
    import torch

JOBS_ON_A_GPU = 8
"""Trainings that share a GPU: each alone leaves most of it idle."""


def default_jobs(device: torch.device) -> int:
    """Trainings side by side, where nobody says how many."""
    import torch

    return JOBS_ON_A_GPU * torch.cuda.device_count() if device.type == "cuda" else os.cpu_count() or 1


def compare(
    data: Annotated[Path, typer.Option("--data", help="A prepared dataset.")],
    out: Annotated[Path, typer.Option("--out", help="The comparison's directory; what is done there stays done.")],
    plan: Annotated[
        Path | None, typer.Argument(help="A TOML file: methods, what to search, repetitions.", metavar="PLAN")
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option("--methods", help="In place of PLAN: these with default settings.", metavar="NAME,NAME,…"),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Random splits of --methods, each with its seed; 3.")] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Train this row of the plan alone (repeatable).")
    ] = None,
    merge: Annotated[
        list[Path] | None, typer.Option("--merge", help="Take over the finished cells of another machine (repeatable).")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Trainings side by side; by default the cores, or 8 on each GPU.")
    ] = None,
    device: Annotated[Devices, typer.Option(help="auto takes the GPU where there is one.")] = Devices.auto,
    table_only: Annotated[bool, typer.Option("--table", help="Train nothing: the table of what is done.")] = False,
) -> None:
    """Train and evaluate every method of a plan, or named by --methods, and write table.md, table.html and table.json.

    Interrupted anywhere, the same command goes on; finished cells are never trained again.
    """
    from mcne.errors import DataError, UsageError
    from mcne.studies.execution import Comparison
    from mcne.studies.plan import Plan
    from mcne.studies.summary import summarize
    from mcne.studies.tables import write
    from mcne.training import choose_device

    if plan is None and methods is None:
        raise UsageError("neither a plan nor --methods; give one of them, as in --methods popularity,bpr,mcne")
    if plan is not None and (methods, seeds) != (None, None):
        raise UsageError(f"{plan}: a plan says its methods and repetitions itself; leave out --methods and --seeds")
    if plan is None and only:
        raise UsageError("--only limits a plan; name in --methods what is to be trained")
    if plan is None:
        read = Plan.of_methods((methods or "").split(","), repetitions=seeds or 3)
    else:
        read = Plan.read(plan, only=tuple(only or ()))
    chosen = choose_device(device.value)
    comparison = Comparison.open(read, data, out)
    for other in merge or []:
        typer.echo(f"{other}: {comparison.merge(other)} finished cells taken over")
    failed: dict[str, str] = {}
    if not table_only:
        for row in read.trained:
            typer.echo(f"{row}: {len(read.candidates[row])} of at most {read.search} configurations")
        failed = comparison.run(jobs=jobs or default_jobs(chosen), device=chosen.type, say=typer.echo)
    summary = summarize(comparison)
    if not summary.rows and not failed:
        raise DataError(f"{out}: no method is finished yet; run without --table")
    for path in write(summary, out) if summary.rows else []:
        typer.echo(f"wrote {path}")
    if failed:
        raise DataError(
            f"{len(failed)} cells failed, the first: {next(iter(failed.values()))}; see {out}/failed.json; the same "
            "command tries them again"
        )
