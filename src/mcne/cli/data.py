"""``mcne data``: prepare, make, split, describe and export datasets.

Everything heavy is imported inside the commands, so that ``mcne --help`` starts at once.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

import mcne
from mcne.cli.options import AsJson
from mcne.cli.output import print_description, print_json
from mcne.errors import UsageError

app = typer.Typer(help="Prepare, make, split, describe and export datasets.", no_args_is_help=True)
prepare = typer.Typer(help="Make a dataset from raw files.", no_args_is_help=True)
app.add_typer(prepare, name="prepare")

Data = Annotated[Path, Argument(help="A prepared dataset.", metavar="DATA")]
Raw = Annotated[Path, Option(help="Directory of rating.mat and trustnetwork.mat.")]
Out = Annotated[Path, Option(help="A new directory; existing files are never replaced.")]
Behaviors = Annotated[str | None, Option(help="Names or numbers, comma-separated; quote names with commas.")]
Extra = Annotated[str, Option(help="Additional behaviors; they do not affect which users are kept.")]
Format = Annotated[Literal["parquet", "csv", "recbole"], Option("--format", help="What to write.")]
Timestamps = Annotated[bool, Option("--timestamps", help="Read rating_with_timestamp.mat, for temporal splits.")]
Unverified = Annotated[bool, Option("--unverified", help="Read the files even if their sha256 is unknown.")]
PositiveFrom = Annotated[
    float | None,
    Option(
        help="Count rows with at least this rating as interactions; keep lower-rated pairs as known, never recommended."
    ),
]
Aligned = Annotated[bool, Option("--aligned", help="Correct the ids of trustnetwork.mat that are one too low.")]


@prepare.command("ciao")
def prepare_ciao(
    raw: Raw,
    out: Out,
    behaviors: Behaviors = None,
    extra_behaviors: Extra = "",
    timestamps: Timestamps = False,
    unverified: Unverified = False,
    positive_from: PositiveFrom = None,
) -> None:
    """Prepare Ciao as in the paper: Beauty, Books and Travel unless --behaviors names others."""
    flags = {"timestamps": timestamps, "unverified": unverified, "positive_from": positive_from}
    _prepare("ciao", raw, out, behaviors, extra_behaviors, **flags)


@prepare.command("epinions")
def prepare_epinions(
    raw: Raw,
    out: Out,
    behaviors: Behaviors = None,
    extra_behaviors: Extra = "",
    timestamps: Timestamps = False,
    unverified: Unverified = False,
    aligned: Aligned = False,
    positive_from: PositiveFrom = None,
) -> None:
    """Prepare Epinions as in the paper: Games, Electronics, Hotels & Travel unless --behaviors names others."""
    flags = {"timestamps": timestamps, "unverified": unverified, "aligned": aligned, "positive_from": positive_from}
    _prepare("epinions", raw, out, behaviors, extra_behaviors, **flags)


@prepare.command("files")
def prepare_files(
    interactions: Annotated[
        Path, Option(help="user_id, item_id, behavior[, timestamp, rating]: csv, parquet, .inter.")
    ],
    out: Out,
    links: Annotated[Path | None, Option(help="source_id, target_id[, weight]: csv, parquet, .net.")] = None,
    users: Annotated[Path | None, Option(help="user_id[, name] and attributes: csv, parquet, .user.")] = None,
    items: Annotated[Path | None, Option(help="item_id[, behavior, name] and attributes: csv, parquet, .item.")] = None,
    known: Annotated[
        Path | None, Option(help="user_id, item_id, behavior of pairs that users know but that are not interactions.")
    ] = None,
    positive_from: PositiveFrom = None,
    column: Annotated[list[str] | None, Option(help="Map a column: user_id=NAME (repeatable).")] = None,
    sep: Annotated[str | None, Option(help="Separator of text files; default: found in the first line.")] = None,
    behaviors: Behaviors = None,
    extra_behaviors: Extra = "",
    single_behavior: Annotated[str | None, Option(help="Name of the only behavior, without a behavior column.")] = None,
    min_links: Annotated[int, Option(min=0, help="Drop users with fewer links.")] = 0,
    min_records: Annotated[int, Option(min=0, help="Drop users with fewer interactions in total.")] = 0,
    drop_isolated: Annotated[
        bool, Option("--drop-isolated", help="After filtering, drop users without links.")
    ] = False,
    keep_self_links: Annotated[bool, Option("--keep-self-links", help="Keep links to oneself.")] = False,
    directed: Annotated[
        bool, Option("--directed", help="Keep the direction of links: a source follows its target.")
    ] = False,
    strict: Annotated[bool, Option("--strict", help="Refuse links to oneself or to unknown users.")] = False,
    id_type: Annotated[Literal["auto", "integer", "text"], Option(help="How ids of text files are read.")] = "auto",
    name: Annotated[str | None, Option(help="The dataset's name; default: the name of the directory.")] = None,
) -> None:
    """Prepare your own tables: CSV, TSV, .dat, .txt, parquet or RecBole's atomic files."""
    from mcne.data.assemble import UserFilter

    dataset = mcne.SocialDataset.from_frames(
        interactions,
        links,
        users=users,
        items=items,
        known=known,
        name=name or out.absolute().name,
        columns=_mapping(column or []),
        behaviors=_names(behaviors) or None,
        extra_behaviors=_names(extra_behaviors),
        single_behavior=single_behavior,
        user_filter=UserFilter(min_links, min_records, drop_isolated),
        self_links="keep" if keep_self_links else "drop",
        directed=directed,
        strict=strict,
        id_type=id_type,
        positive_from=positive_from,
        sep=None if sep is None else sep.replace("\\t", "\t"),
    )
    _save(dataset, out)


@app.command("synthetic")
def synthetic(
    out: Out,
    users: Annotated[int, Option(help="From 500 to 10,000,000.")] = 2000,
    behaviors: Annotated[int, Option(help="From 1 to 16; behaviors 2k and 2k+1 share a family of tastes.")] = 4,
    seed: Annotated[int, Option(min=0, help="The same seed gives the same bytes.")] = 0,
    items_per_behavior: Annotated[int | None, Option(help="Default: half the users, at least 300.")] = None,
    links_per_user: Annotated[float, Option(help="Links per user, each counted once; 0 for none.")] = 10.0,
    records_per_user: Annotated[float, Option(help="Interactions per user in each of the user's behaviors.")] = 7.0,
    attributes: Annotated[int, Option(help="Number of user attributes that reflect tastes, from 0 to 100.")] = 0,
) -> None:
    """Make a social network with planted tastes, which are saved in OUT/planted."""
    from mcne.data.synthetic import SyntheticConfig, generate

    config = SyntheticConfig(
        users=users,
        behaviors=behaviors,
        seed=seed,
        items_per_behavior=items_per_behavior,
        links_per_user=links_per_user,
        records_per_user=records_per_user,
        attributes=attributes,
    )
    dataset, planted = generate(config)
    _save(dataset, out)
    planted.save(out / "planted")


@app.command("split")
def split(
    data: Data,
    name: Annotated[str | None, Option(help="Saved as DATA/splits/NAME; default: the kind and the seed.")] = None,
    seed: Annotated[int, Option(min=0, help="Seed of the parts and the negatives.")] = 0,
    ratios: Annotated[str | None, Option(help="Training, validation, test; default: 70,10,20.")] = None,
    temporal: Annotated[bool, Option("--temporal", help="Train on the earliest records, test on the latest.")] = False,
    last: Annotated[
        bool, Option("--last", help="Test on each user's last record, validate on the one before.")
    ] = False,
    source: Annotated[Path | None, Option("--from", help="Your own train, validation and test files.")] = None,
) -> None:
    """Split a dataset into training, validation and test parts, and sample the negatives to rank against."""
    from mcne.data import split as splits

    asked = {"--from": source, "--last": last, "--temporal": temporal, "--ratios": ratios is not None}
    given = [option for option, is_given in asked.items() if is_given]
    if len(given) > 1 and given != ["--temporal", "--ratios"]:
        raise UsageError(f"cannot be combined with {given[1]}", given[0], "omit one of them")
    kind = "supplied" if source else "last" if last else "temporal" if temporal else "random"
    name = name if name is not None else f"{kind}-{seed}"
    if not name or Path(name).name != name or name.startswith("."):
        raise UsageError(
            f"{name!r} is not a plain name", "--name", "use a name without a slash or a leading dot", value=name
        )
    dataset = mcne.SocialDataset.load(data)
    if source:
        cut = splits.supplied_split(dataset, splits.read_parts(dataset, source), seed=seed)
    elif last:
        cut = splits.last_split(dataset, seed=seed)
    else:
        make = splits.temporal_split if temporal else splits.random_split
        try:
            shares = [float(part) for part in ("70,10,20" if ratios is None else ratios).split(",")]
        except ValueError as error:
            raise UsageError(
                "need three numbers", f"--ratios {ratios}", "use three numbers, such as 70,10,20", value=ratios
            ) from error
        cut = make(dataset, seed=seed, ratios=shares)
    fingerprint = cut.save(data / splits.DIRECTORY / name)
    for k, behavior in enumerate(dataset.behaviors):
        sizes = ", ".join(f"{int((cut.parts[k] == p).sum()):,} {part}" for p, part in enumerate(splits.PARTS))
        typer.echo(f"{behavior.name}: {sizes}")
    for note in cut.notes:
        typer.echo(f"note: {note}")
    typer.echo(f"split {name} {fingerprint}")


@app.command("describe")
def describe(data: Data, as_json: AsJson = False) -> None:
    """Show counts, distributions, users shared between behaviors, similarity of friends, and cold users and items."""
    from mcne.data import describe as descriptions
    from mcne.data.split import DIRECTORY, Split, split_names

    dataset = mcne.SocialDataset.load(data)
    splits = {}
    for name in split_names(data):  # one at a time: a split maps many files
        splits[name] = descriptions.describe_split(dataset, Split.load(data / DIRECTORY / name, dataset))
    description = descriptions.describe(dataset) | {"splits": splits}
    if as_json:
        print_json(description)
    else:
        print_description(description)


@app.command("export")
def export(data: Data, out: Out, file_format: Format = "parquet") -> None:
    """Write a dataset as parquet, CSV or RecBole files."""
    from mcne.data.exchange import export as write

    for file in write(mcne.SocialDataset.load(data), out, file_format=file_format):
        typer.echo(str(file))


def _prepare(study_name: str, raw: Path, out: Path, behaviors: str | None, extra: str, **flags: Any) -> None:
    from mcne.data import trust

    study = {"ciao": trust.CIAO, "epinions": trust.EPINIONS}[study_name]
    _save(trust.prepare(study, raw, behaviors=_names(behaviors), extra_behaviors=_names(extra), **flags), out)


def _names(text: str | None) -> list[str]:
    """Comma-separated names; one that holds a comma stands in quotes."""
    listed = next(csv.reader([text or ""], skipinitialspace=True), [])
    return [name.strip() for name in listed if name.strip()]


def _mapping(columns: list[str]) -> dict[str, str]:
    pairs = [column.partition("=") for column in columns]
    for standard, sign, own in pairs:
        if not (standard and sign and own):
            raise UsageError(
                "is not a mapping",
                f"--column {standard}{sign}{own}",
                "write STANDARD=NAME, such as user_id=NAME",
                value=standard + sign + own,
            )
    names = [standard for standard, _, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError("is given more than once", f"--column {twice}=…", "map it to one column", value=twice)
    return {standard: own for standard, _, own in pairs}


def _save(dataset: mcne.SocialDataset, out: Path) -> None:
    fingerprint = dataset.save(out)
    if dataset.report is not None:
        typer.echo("\n".join(dataset.report.lines()))
    typer.echo(repr(dataset))
    typer.echo(f"saved {out} {fingerprint}")
