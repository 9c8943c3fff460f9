"""Datasets for other programs: parquet, CSV and RecBole's atomic files.

Each format has three files: interactions, links (each once), and users with names and attributes, so that users without
any link or interaction are included; and a file of items and one of known pairs where there is something to tell of
them. Reading them back gives the same dataset where the reader is told what the files do not say: ids that are text
though they look like integers, links to oneself to keep, that links are directed, the order of the behaviors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mcne.data.behavior import Attribute, Behavior
from mcne.data.dataset import SocialDataset
from mcne.errors import DataError, UnknownError
from mcne.files import existing, is_taken, place, written_aside

FORMATS = ("parquet", "csv", "recbole")
ATOMIC = {"interactions": "inter", "links": "net", "users": "user", "items": "item", "known": "known.inter"}


def export(dataset: SocialDataset, directory: Path, *, file_format: str) -> list[Path]:
    """Write the dataset's files into a new directory and return them."""
    if file_format not in FORMATS:
        raise UnknownError.of("format", file_format, FORMATS)
    if is_taken(directory):
        raise existing(directory, "choose another --out")
    tables = {
        "interactions": interactions(dataset),
        "links": links(dataset),
        "users": users(dataset),
        "items": items(dataset),
        "known": known(dataset),
    }
    directory = place(directory)
    with written_aside(directory) as aside:
        files = [
            _write(table, aside, what, file_format, directory.name) for what, table in tables.items() if len(table)
        ]
    return [directory / file.name for file in files]


def interactions(dataset: SocialDataset) -> pa.Table:
    """``user_id, item_id, behavior[, timestamp, rating]``, behavior by behavior."""
    parts = []
    for behavior, part in zip(dataset.behaviors, _pairs(dataset, dataset.behaviors), strict=True):
        for column, values in (("timestamp", behavior.timestamp), ("rating", behavior.weight)):
            if values is not None:
                part = part.append_column(column, pa.array(values))
        parts.append(part)
    if len({tuple(part.column_names) for part in parts}) > 1:
        what = "timestamps" if len({behavior.timestamp is None for behavior in dataset.behaviors}) > 1 else "ratings"
        raise DataError(
            f"only some behaviors have {what}, which one table cannot hold",
            dataset.name,
            f"give all of them {what}, or none",
        )
    return pa.concat_tables(parts, promote_options="permissive")


def known(dataset: SocialDataset) -> pa.Table:
    """``user_id, item_id, behavior`` of the pairs that users know and that are no records."""
    knowing = [
        Behavior(behavior.name, behavior.items, behavior.known_user, behavior.known_item)
        for behavior in dataset.behaviors
        if behavior.known_user is not None and behavior.known_item is not None
    ]
    return pa.concat_tables(_pairs(dataset, knowing)) if knowing else pa.table({})


def _pairs(dataset: SocialDataset, behaviors: Sequence[Behavior]) -> list[pa.Table]:
    """The columns ``user_id, item_id, behavior`` of each behavior."""
    parts = []
    for behavior in behaviors:
        columns = {"user_id": dataset.users.arrow(behavior.user)}
        parts.append(pa.table(columns | _of_items(dataset, behavior, behavior.item)))
    return parts


def _of_items(dataset: SocialDataset, behavior: Behavior, rows: NDArray[Any]) -> dict[str, pa.Array]:
    """The columns ``item_id, behavior`` of items; the ids are integers if those of all behaviors are."""
    kind = pa.int64() if all(b.items.kind == "integer" for b in dataset.behaviors) else pa.large_string()
    return {
        "item_id": behavior.items.arrow(rows).cast(kind),
        "behavior": pa.array([behavior.name]).take(pa.array(np.zeros(len(rows), np.int8))),
    }


def items(dataset: SocialDataset) -> pa.Table:
    """``item_id, behavior[, name]`` and the attributes of items, behavior by behavior; no rows if there are none."""
    parts = []
    for behavior in dataset.behaviors:
        if behavior.names is not None or behavior.attributes:
            part = pa.table(_of_items(dataset, behavior, np.arange(behavior.n_items)))
            if behavior.names is not None:
                part = part.append_column("name", behavior.names.arrow())
            parts.append(_with_attributes(part, behavior.attributes))
    try:
        table = pa.concat_tables(parts, promote_options="default") if parts else pa.table({})
    except pa.ArrowTypeError as error:
        raise DataError(
            f"an attribute of items is a number in one behavior and text in another, which one table cannot hold "
            f"({error})",
            dataset.name,
            "give them two names",
        ) from error
    return table.select(_in_common_order([part.column_names for part in parts]))


def _in_common_order(lists: Sequence[Sequence[str]]) -> list[str]:
    """All names, each once, in an order that all lists share, where there is one, so that each part keeps its own."""
    left = [list(names) for names in lists if names]
    ordered = []
    while left:
        later = {name for names in left for name in names[1:]}
        name = next((names[0] for names in left if names[0] not in later), left[0][0])
        ordered.append(name)
        left = [rest for names in left if (rest := [each for each in names if each != name])]
    return ordered


def links(dataset: SocialDataset) -> pa.Table:
    """``source_id, target_id[, weight]``, each link once; of an undirected graph from the lower row to the higher."""
    source, target = dataset.graph.sources(), dataset.graph.indices
    once = (source <= target) | dataset.graph.is_directed
    ids = dataset.users
    table = pa.table({"source_id": ids.arrow(source[once]), "target_id": ids.arrow(target[once])})
    if dataset.graph.weights is not None:
        table = table.append_column("weight", pa.array(dataset.graph.weights[once]))
    return table


def users(dataset: SocialDataset) -> pa.Table:
    """``user_id[, name]`` and the attributes; unknown values are null."""
    table = pa.table({"user_id": dataset.users.arrow()})
    if dataset.user_names is not None:
        table = table.append_column("name", dataset.user_names.arrow())
    return _with_attributes(table, dataset.attributes)


def _with_attributes(table: pa.Table, attributes: Mapping[str, Attribute]) -> pa.Table:
    for name, attribute in attributes.items():
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
                what,
                "export to parquet or csv instead",
                value=column,
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
            what,
            "export to parquet or csv instead",
        ) from error
    return path
