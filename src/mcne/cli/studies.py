"""``mcne compare | sweep | structure | compare-transfer | compare-new-users``: resumable studies of many trainings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

import mcne
from mcne.cli.options import METHODS_HELP, AsJson, ConfigFile, DataOption, Device, Settings, existing_data, set_option
from mcne.cli.output import print_json, print_line, print_table
from mcne.errors import DataError, MCNEError, UsageError
from mcne.models.registry import entry, refusal
from mcne.text import counted

Methods = Annotated[str | None, Option(help="Instead of PLAN: methods with default settings.", metavar="NAME,NAME,…")]
PlanFile = Annotated[Path | None, Argument(help="A TOML file: methods, searches, repetitions.", metavar="PLAN")]
Seeds = Annotated[int | None, Option(min=1, help="With --methods: number of random splits and seeds; default: 3.")]
WaysFile = Annotated[Path, Argument(help="A TOML file: the behavior, ways to add it, and baselines.", metavar="PLAN")]
NewData = Annotated[
    Path, Option(help="A prepared dataset that has the new behavior and others.", callback=existing_data)
]
SettingsOfMethods = Annotated[
    list[str] | None,
    set_option(help="epochs=20 for every method that has it, mcne.epochs=20 for one (repeatable)."),
]
Jobs = Annotated[int | None, Option(min=1, help="Number of parallel trainings; default: one per core, or 8 per GPU.")]
TableOnly = Annotated[bool, Option("--table", help="Train nothing; write the tables of the finished trainings.")]
Out = Annotated[Path, Option(help="The study's directory; finished results in it are kept.")]

NEW_USER_METRICS = {"Recall@5": "recall@5", "NDCG@5": "ndcg@5", "Recall@20": "recall@20", "NDCG@20": "ndcg@20"}


def compare(
    data: DataOption,
    out: Out,
    plan: PlanFile = None,
    methods: Methods = None,
    seeds: Seeds = None,
    only: Annotated[list[str] | None, Option(help="Train only this row of the plan (repeatable).")] = None,
    merge: Annotated[
        list[Path] | None, Option(help="Copy finished trainings from another machine (repeatable).")
    ] = None,
    jobs: Jobs = None,
    device: Device = "auto",
    table_only: TableOnly = False,
) -> None:
    """Train and compare the methods of a plan or of --methods; writes table.md, table.html and table.json.

    To continue after an interruption, run the same command again; finished trainings are kept.
    """
    from mcne.studies import engine
    from mcne.studies.comparison import Comparison, Plan
    from mcne.studies.comparison_tables import summarize, write
    from mcne.training import choose_device

    if plan is not None:
        if (methods, seeds) != (None, None):
            raise UsageError("a plan names its own methods and repetitions", plan, "omit --methods and --seeds")
        chosen_plan = Plan.read(plan, only=tuple(only or ()))
    elif methods is None:
        raise UsageError("nothing to compare", remedy="give a plan or --methods, such as --methods popularity,bpr,mcne")
    elif only:
        raise UsageError(
            "selects rows of a plan, but no plan is given",
            "--only",
            "name the methods to train in --methods",
            value=only,
        )
    else:
        names = [name.strip() for name in methods.split(",") if name.strip()]
        chosen_plan = Plan.of_methods(names, repetitions=seeds or 3)
    mcne.SocialDataset.load(data, verify=False)  # refuses what is no dataset before torch is imported
    chosen = choose_device(device).type
    comparison = Comparison.open(chosen_plan, data, out)
    for other in merge or []:
        typer.echo(f"{other}: {engine.merge(other, out)} finished trainings taken over")
    failed: dict[str, str] = {}
    if not table_only:
        for row in chosen_plan.trained:
            typer.echo(f"{row}: {len(chosen_plan.candidates[row])} of at most {chosen_plan.search} configurations")
        failed = comparison.run(jobs=jobs or _default_jobs(chosen), device=chosen, say=typer.echo)
    summary = summarize(comparison)
    _finish(write(summary, out) if summary.rows else [], failed, out, log=f"; see {out}/failed.json")


def sweep(
    data: DataOption,
    out: Out,
    what: Annotated[
        str, Argument(help=f"{METHODS_HELP} Or a TOML file with method, settings and values.", metavar="METHOD")
    ] = "mcne",
    setting: Annotated[
        list[str] | None,
        set_option(
            help="A setting with its values: l2=0.01,0.02, neighbor_samples=[10,5],[20,20], final_width=50,100 (the "
            "last of widths), neighbor_sample=10,20 (of every layer). A single value is fixed. Repeatable: with "
            "several settings, one changes at a time.",
            metavar="NAME=V1,V2,…",
        ),
    ] = None,
    repetitions: Annotated[
        int | None, Option(min=1, help="Splits and seeds for every value; default: 3, or that of the file.")
    ] = None,
    split: Annotated[
        str | None, Option(help="random (default): repetition r uses random-r. Otherwise, r seeds only the model.")
    ] = None,
    jobs: Annotated[
        int,
        Option(
            min=1,
            help="Number of parallel trainings; if more than 1, epochs are timed afterwards in short separate runs.",
        ),
    ] = 1,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Train a method with several values of a setting on the same splits; writes sweep.md and sweep.json.

    To continue after an interruption, run the same command again; finished trainings are kept. Draw the
    result with mcne plot sweep.
    """
    if not what.endswith(".toml"):
        entry(what)  # refuses an unknown method before the imports below

    from mcne.studies.comparison import Comparison
    from mcne.studies.engine import Kind, check_kind
    from mcne.studies.sweep import TIMING, Sweep, check_place, collect, is_shared, titles_of, write
    from mcne.training import choose_device

    if what.endswith(".toml"):
        asked = Sweep.of_file(Path(what), setting or [], repetitions=repetitions, split=split)
    else:
        asked = Sweep.of_pairs(what, setting or [], repetitions=repetitions or 3, split=split or "random")
    chosen = choose_device(device).type
    check_kind(out, Kind.sweep)
    check_place(asked, out)
    comparison = Comparison.open(asked.plan(), data, out, kind=Kind.sweep)
    say = partial(typer.echo, err=as_json)
    failed = comparison.run(jobs=jobs, device=chosen, say=say, titles=titles_of(comparison))
    timed = None
    if is_shared(comparison):
        say("epochs of every value, one at a time")
        timed = Comparison.open(asked.timing().plan(), data, out / TIMING, kind=Kind.timing)
        failed |= timed.run(jobs=1, device=chosen, say=say, titles=titles_of(timed))
    results = collect(asked, comparison, timed)
    if as_json:
        print_json(results)
    _finish(write(results, out), failed, out, log=f"; see {out}/failed.json", err=as_json)


def structure(
    data: DataOption,
    out: Out,
    methods: Annotated[str, Option(help="Methods with user vectors, comma-separated.")] = "mcne,node2vec,line",
    repetitions: Annotated[int, Option(min=1, help="How many times to hold out links, each time different ones.")] = 3,
    share: Annotated[float, Option(help="The share of links to hold out.")] = 0.1,
    setting: SettingsOfMethods = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Hold out links, train on the rest, and measure how well user vectors predict the held-out links.

    Compares whole and conditional vectors with degrees and common friends; writes structure.md and structure.json.
    Each method uses its own settings (--set gives all the same) and keeps the epoch with the best validation metric.
    To continue after an interruption, run the same command again. Draw the result with mcne plot structure.
    """
    names = [name.strip() for name in methods.split(",") if name.strip()]
    for name in names:
        entry(name)  # refuses an unknown method before the imports below

    from mcne.studies.structure import StructureStudy, collect, lines, settings_by_method, write
    from mcne.training import choose_device

    settings = settings_by_method(names, setting or [])
    dataset = mcne.SocialDataset.load(data)
    study = StructureStudy(dataset, out, share, repetitions, settings)
    chosen = choose_device(device).type
    study.open()
    failed = study.run(device=chosen, say=partial(typer.echo, err=as_json))
    results = collect(dataset, out)
    paths = write(results, out)
    if as_json:
        print_json(results)
    else:
        print_line("links told from any two users, and from users with as many friends; percent", "bold")
        both = zip(lines(results, "uniform"), lines(results, "degree"), strict=True)
        heads = ["", "similarity", "AUC", "AP", "AUC\n(degrees)", "AP\n(degrees)"]
        print_table(heads, [[*uniform, *degree[2:]] for uniform, degree in both], left=("similarity",))
    diverged = [f"{name}: {reason}" for name, reason in results["lacking"].items() if "diverged" in reason]
    _finish(paths, {} if diverged else failed, out, err=as_json)
    if diverged:  # and would again
        raise DataError("; ".join([*diverged, *(f"{name}: {error}" for name, error in failed.items())]))


def compare_transfer(
    plan: WaysFile, data: NewData, out: Out, jobs: Jobs = None, device: Device = "auto", table_only: TableOnly = False
) -> None:
    """Add a behavior to models trained without it, and compare with controls and training from scratch.

    Writes table.md, table.html and table.json. To continue after an interruption, run the same command again;
    finished results are kept.
    """
    from mcne.studies.transfer import TransferPlan, TransferStudy, finished_rows, write
    from mcne.training import choose_device

    ways = TransferPlan.read(plan)
    chosen = choose_device(device).type
    study = TransferStudy.open(ways, data, out)
    failed = {} if table_only else study.run(jobs=jobs or _default_jobs(chosen), device=chosen, say=typer.echo)
    rows = finished_rows(study)
    _finish(write(study, rows=rows) if rows else [], failed, out)


def compare_new_users(
    data: DataOption,
    out: Out,
    method: Annotated[str, Option(help="A method that can embed new users, such as mcne.")] = "mcne",
    share: Annotated[float, Option(help="The share of users to hold out.")] = 0.1,
    seeds: Annotated[int, Option(min=1, help="How many times to hold out users.")] = 3,
    in_training: Annotated[bool, Option("--in-training", help="Also train with them, for comparison.")] = False,
    config: ConfigFile = None,
    setting: Settings = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Hold out users, train without them, then embed them from their friends, their history, and both.

    Ranks their test items against 100 random ones, with popularity as the baseline. To continue after an
    interruption, run the same command again; finished seeds are kept.
    """
    from mcne import training
    from mcne.cli.train import given_settings
    from mcne.studies.engine import percent
    from mcne.studies.new_users import Trial

    trial = Trial(method, given_settings(method, config, setting or []), share, in_training)
    _, schedule = training.resolved(method, trial.given)
    dataset = mcne.SocialDataset.load(data)
    if refused := refusal(method, dataset, is_alone=False):
        raise refused

    from mcne.cli.progress import training_progress  # imports torch, so mistakes above are reported first

    chosen = training.choose_device(device).type
    say = partial(typer.echo, err=True)
    reporting = partial(training_progress, epochs=schedule["epochs"], on_stderr=True)
    summary = trial.run(dataset, out, seeds=seeds, device=chosen, reporting=reporting, say=say)
    if as_json:
        print_json(summary)
        return
    results = summary["seeds"]
    asked = ", ".join(f"{result['users']['asked']:,} of {result['users']['held_out']:,}" for result in results)
    print_line(f"{method} on {dataset.name}: users held out of training, seeds: {len(results)}", "bold")
    print_line(f"asked about {asked}; ranked with 100 random items that the user lacks; in percent")
    rows = []
    for way, means in summary["mean"].items():
        spreads = [means[metric] for metric in NEW_USER_METRICS.values()]
        rows.append([way, *(percent(each, digits=2) for each in spreads)])
    print_table(["", *NEW_USER_METRICS], rows)


def _default_jobs(device: str) -> int:
    """Parallel trainings if --jobs is missing; a single one leaves most of a GPU idle."""
    import torch

    return 8 * torch.cuda.device_count() if device == "cuda" else os.cpu_count() or 1


def _finish(paths: list[Path], failed: Mapping[str, Any], out: Path, log: str = "", err: bool = False) -> None:
    """Say what a study wrote; refuse what failed, and a table of nothing."""
    for path in paths:
        typer.echo(f"wrote {path}", err=err)
    if failed:
        first = next(iter(failed.values()))
        kind = type(first) if isinstance(first, MCNEError) else DataError  # which decides the exit code
        raise kind(
            f"{counted(len(failed), 'training')} failed, the first: {first}{log}",
            place=out,
            remedy="run the same command again to retry them",
        )
    if not paths:
        raise DataError("nothing is finished yet", out, "run without --table")
