"""Datasets for other programs: parquet, CSV and RecBole's atomic files.

Each format has three files: interactions, links (each once), and users with their attributes, so that users without
any link or interaction are included. Reading them back gives the same dataset where the reader is told what the files
do not say: ids that are text though they look like integers, links to oneself to keep, the order of the behaviors.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from mcne.data.dataset import SocialDataset
from mcne.errors import DataError, UnknownError, UsageError
from mcne.files import place, written_aside

FORMATS = ("parquet", "csv", "recbole")
ATOMIC = {"interactions": "inter", "links": "net", "users": "user"}


def export(dataset: SocialDataset, directory: Path, *, file_format: str) -> list[Path]:
    """Write the dataset's files into a new directory and return them."""
    if file_format not in FORMATS:
        raise UnknownError.of("format", file_format, FORMATS)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(
            "already exists, and existing files are never replaced",
            place=directory,
            value=str(directory),
            remedy="choose another --out",
        )
    tables = {"interactions": interactions(dataset), "links": links(dataset), "users": users(dataset)}
    directory = place(directory)
    with written_aside(directory) as aside:
        files = [
            _write(table, aside, what, file_format, directory.name) for what, table in tables.items() if len(table)
        ]
    return [directory / file.name for file in files]


def interactions(dataset: SocialDataset) -> pa.Table:
    """``user_id, item_id, behavior[, timestamp]``, behavior by behavior."""
    if len({behavior.timestamp is None for behavior in dataset.behaviors}) > 1:
        raise DataError(
            "only some behaviors have timestamps, which one table cannot store",
            place=dataset.name,
            remedy="give all of them timestamps, or none",
        )
    kind = pa.int64() if all(b.items.kind == "integer" for b in dataset.behaviors) else pa.large_string()
    parts = []
    for behavior in dataset.behaviors:
        columns = {
            "user_id": dataset.users.arrow(behavior.user),
            "item_id": behavior.items.arrow(behavior.item).cast(kind),
            "behavior": pa.array([behavior.name]).take(pa.array(np.zeros(len(behavior), np.int8))),
        }
        if behavior.timestamp is not None:
            columns["timestamp"] = pa.array(behavior.timestamp)
        parts.append(pa.table(columns))
    return pa.concat_tables(parts, promote_options="permissive")


def links(dataset: SocialDataset) -> pa.Table:
    """``source_id, target_id[, weight]``, each link once, from the lower row to the higher."""
    source, target = dataset.graph.sources(), dataset.graph.indices
    once = source <= target
    ids = dataset.users
    table = pa.table({"source_id": ids.arrow(source[once]), "target_id": ids.arrow(target[once])})
    if dataset.graph.weights is not None:
        table = table.append_column("weight", pa.array(dataset.graph.weights[once]))
    return table


def users(dataset: SocialDataset) -> pa.Table:
    """``user_id`` and the attributes; unknown values are null."""
    table = pa.table({"user_id": dataset.users.arrow()})
    for name, attribute in dataset.attributes.items():
        if attribute.categories is None:
            column = pa.array(attribute.values, from_pandas=True)
        else:
            missing = attribute.values < 0
            column = attribute.categories.arrow().take(pa.array(attribute.values, mask=missing))
        table = table.append_column(name, column)
    return table


def _write(table: pa.Table, directory: Path, what: str, file_format: str, name: str) -> Path:
    if file_format != "recbole":
        path = directory / f"{what}.{file_format}"
        if file_format == "parquet":
            pq.write_table(table, path, compression="zstd")
        else:
            pa_csv.write_csv(table, path)
        return path
    path = directory / f"{name}.{ATOMIC[what]}"  # RecBole looks for files that are named as their directory
    for column in table.column_names:
        if any(mark in column for mark in '\t\n\r":'):
            raise DataError(
                f"the column name {column!r} contains a tab, a quote, a line break or a colon, which RecBole files "
                "cannot store",
                place=what,
                value=column,
                remedy="export to parquet or csv instead",
            )
    numbers = {field.name for field in table.schema if pa.types.is_primitive(field.type)}
    tokens = {name for name in table.column_names if name.endswith("_id") or name not in numbers - {"behavior"}}
    header = "\t".join(f"{name}:{'token' if name in tokens else 'float'}" for name in table.column_names)
    options = pa_csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    try:
        with path.open("wb") as file:
            file.write(header.encode() + b"\n")
            pa_csv.write_csv(table, file, options)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"an id or name contains a tab, a quote or a line break, which RecBole files cannot store ({error})",
            place=what,
            remedy="export to parquet or csv instead",
        ) from error
    return path
