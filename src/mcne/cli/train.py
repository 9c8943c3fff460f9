"""``mcne train | transfer | embed-users``: train a method, and extend a trained network by a behavior or by users."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

import mcne
from mcne.cli.options import METHODS_HELP, ConfigFile, DataOption, Device, RunPath, Settings, set_option
from mcne.models.registry import DEFAULT

Method = Annotated[str, Argument(help=METHODS_HELP, metavar="METHOD")]
SplitName = Annotated[str, Option(help="A split of the dataset; random-N is created with seed N if it does not exist.")]
Changes = Annotated[list[str] | None, set_option(help="One setting: l2=0.01 (repeatable). The rest come from the run.")]
Seed = Annotated[int, Option(min=0, help="Seed of the model; the split has its own.")]
Separate = Annotated[bool, Option("--separate", help="Train a model for each behavior instead of one for all.")]
Resume = Annotated[bool, Option("--resume", help="Continue an interrupted run in --out from its newest checkpoint.")]
SkipUnknown = Annotated[
    bool, Option("--skip-unknown", help="Skip and count rows about unknown users, items and behaviors.")
]
RunOut = Annotated[Path, Option("--out", help="The run's directory; existing files are never replaced.")]


def train(
    data: DataOption,
    out: RunOut,
    method: Method = DEFAULT,
    split: SplitName = "random-0",
    config: ConfigFile = None,
    setting: Settings = None,
    seed: Seed = 0,
    device: Device = "auto",
    separate: Separate = False,
    resume: Resume = False,
) -> None:
    """Train a method (mcne-plus unless another is named), keeping the epoch with the best validation metric.

    Ctrl-C and SIGTERM save a checkpoint. --resume continues from it; the result is the same as without an interruption.
    """
    from mcne import training
    from mcne.data.split import refuse_unknown_split, split_of
    from mcne.models.registry import refusal

    given = given_settings(method, config, setting or [])
    if resume:
        given = training.begun_with(out, method) | given
    else:
        _refuse_run(out)
    training.resolved(method, given)
    dataset = mcne.SocialDataset.load(data)
    if refused := refusal(method, dataset, is_alone=separate):
        raise refused
    refuse_unknown_split(data, split)

    from mcne.cli.progress import outcome, training_progress  # imports torch, so mistakes above are reported first
    from mcne.training.standing import standing

    _, settings = training.settings_of(method, given)
    chosen = training.choose_device(device)
    parts = split_of(data, dataset, split)
    places = {"dataset": str(data.absolute()), "split": split}
    mode: Literal["separate", "joint"] = "separate" if separate else "joint"
    asked = training.Training(
        method, dataset, parts, settings=given, seed=seed, device=chosen, places=places, mode=mode, reports_memory=True
    )
    with training_progress(method, settings.epochs) as reporter:
        reporter.say(f"{method} on {dataset.name}: {dataset.n_users:,} users, split {split}, seed {seed}, {chosen}")
        run = replace(asked, reporter=reporter).run(out, resume=resume)
    beside, advice = standing(run, dataset, parts)
    if advice:
        typer.echo(advice)
    typer.echo(outcome(run) + beside)
    typer.echo(f"saved {out} {run.fingerprint}")


def transfer(
    run: RunPath,
    data: Annotated[Path, Option(help="A prepared dataset that has the new behavior.")],
    behavior: Annotated[str, Option(help="The new behavior's name in that dataset.")],
    out: RunOut,
    split: SplitName = "random-0",
    setting: Changes = None,
    seed: Seed = 0,
    device: Device = "auto",
    resume: Resume = False,
    control: Annotated[
        Literal["none", "masks-only", "random-masks", "open-masks", "whole-vector"],
        Option(
            help="For comparison. masks-only: train the items, then only the masks. random-masks, open-masks, "
            "whole-vector: train only the items."
        ),
    ] = "none",
    skip_unknown: Annotated[
        bool, Option("--skip-unknown", help="Skip and count records of users whom the run does not have.")
    ] = False,
) -> None:
    """Add a new behavior to a trained MCNE: only one mask row per level and the new items are trained.

    Users are matched by id. The new run answers for all behaviors, and for the old ones exactly as
    before; mcne evaluate measures the new one.
    """
    from mcne import training
    from mcne.api.methods import load_embeddings
    from mcne.data.split import refuse_unknown_split, split_of
    from mcne.extend import checks
    from mcne.models.settings import read_pairs
    from mcne.training.run import TRANSFER

    given = {"control": control, **read_pairs(setting or [])}
    if not resume:
        _refuse_run(out)
    base = load_embeddings(run)
    config, settings = checks.settings_of(base, given)
    checks.trunk_of(base, config)
    dataset = mcne.SocialDataset.load(data)
    dataset.behavior(behavior)
    checks.refuse_known_behavior(base, behavior)
    refuse_unknown_split(data, split)

    from mcne.cli.progress import outcome, training_progress  # imports torch, so mistakes above are reported first
    from mcne.extend import transfer as transfers

    chosen = training.choose_device(device)
    parts = split_of(data, dataset, split)
    added = training.Training(
        TRANSFER, dataset, parts, settings=given, seed=seed, device=chosen, places={"split": split}, reports_memory=True
    )
    with training_progress(f"{behavior} to {base.method}", settings.epochs) as reporter:
        reporter.say(f"{behavior} of {dataset.name} to {base.method}, split {split}, seed {seed}, {chosen}")
        added = replace(added, reporter=reporter)
        extended = transfers.transfer(base, added, out, behavior=behavior, resume=resume, skip_unknown=skip_unknown)
    typer.echo(outcome(extended))
    typer.echo(str(transfers.ParameterCounts.of(extended)))
    typer.echo(f"saved {out} {extended.fingerprint}")


def embed_users(
    run: RunPath,
    out: Annotated[Path, Option(help="A new directory for the embeddings of existing and new users.")],
    links: Annotated[Path | None, Option(help="A table: source_id (new user), target_id (existing user).")] = None,
    history: Annotated[Path | None, Option(help="A table: user_id, item_id, behavior[, rating].")] = None,
    attributes: Annotated[
        Path | None, Option(help="A table: user_id, the attributes used in training[, name].")
    ] = None,
    names: Annotated[Path | None, Option(help="A table: user_id, name.")] = None,
    skip_unknown: SkipUnknown = False,
) -> None:
    """Embed users who were not in the training data, without training again.

    The result can be queried like a run. The vectors of existing users stay the same.
    """
    from mcne.api.methods import load_embeddings
    from mcne.extend.tables import NewUsers, text_of_skipped
    from mcne.text import counted

    known = load_embeddings(run)
    new = NewUsers.read(
        known, links=links, history=history, attributes=attributes, names=names, skip_unknown=skip_unknown
    )
    for note in new.notes:
        typer.echo(f"note: {note}", err=True)
    if new.skipped:
        typer.echo(text_of_skipped(new.skipped), err=True)

    from mcne.extend.new_users import embedded  # imports torch, so mistakes above are reported first

    embeddings = embedded(known, new)
    fingerprint = embeddings.save(out)
    typer.echo(f"added {counted(len(new), 'user')} to {known.n_users:,}")
    typer.echo(f"saved {out} {fingerprint}")


def _refuse_run(out: Path) -> None:
    """Refuse a directory that contains a run, or that another process is training in, before the imports."""
    from mcne.files import locked
    from mcne.training.run import refuse_run

    if out.exists():
        with locked(out):
            refuse_run(out)


def given_settings(method: str, config: Path | None, settings: list[str]) -> dict[str, Any]:
    """The settings of a method in a file, overridden by those of the command line, where the last one counts."""
    from mcne.models.registry import setting_names
    from mcne.models.settings import read_pairs, read_toml
    from mcne.studies.plans import check_names

    known = setting_names(method)
    from_file = read_toml(config) if config else {}
    from_options = read_pairs(settings)
    check_names("setting", from_file, known, place=config)
    check_names("setting", from_options, known, place="--set")
    return from_file | from_options
