"""Embeddings for other programs: parquet, npz and word2vec text. A new directory each.

* parquet: ``users.parquet`` (user_id[, name], vector); ``items-<behavior>.parquet`` (item_id[, name], vector[, bias]);
  ``masks.parquet`` (behavior, mask, and the files of its users and items). A behavior added by transfer has a
  ``users-<behavior>.parquet`` of its own.
* npz: ``embeddings.npz`` with ``user_ids``, ``user_vectors``, ``behaviors``, ``masks``, and for behavior number ``k``
  ``item_ids_k``, ``item_vectors_k``, ``item_bias_k`` where there is one, ``user_vectors_k`` for one added by transfer.
  Names of users and items, where there are any, are ``user_names`` and ``item_names_k``.
* word2vec text, as gensim's ``KeyedVectors.load_word2vec_format`` reads it: ``users.txt`` has the whole vectors,
  ``users-<behavior>.txt`` the masked ones and ``items-<behavior>.txt`` the items, whose bias this format cannot hold.

``score = Σ_d user_d · mask_d · item_d + bias``. In file names, whatever is not a letter, a digit, a dot or a dash
becomes an underscore, and names that would then be the same are numbered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mcne.data.ids import Ids, Names
from mcne.errors import DataError, UnknownError, UsageError
from mcne.files import existing, written_aside

if TYPE_CHECKING:
    from mcne.embeddings.artifact import ConditionalEmbeddings

NAME_LENGTH = 50


def export(embeddings: ConditionalEmbeddings, directory: Path, *, file_format: str) -> list[Path]:
    """Write the embeddings into a new directory and return its files."""
    if file_format not in WRITERS:
        raise UnknownError.of("format", file_format, WRITERS)
    if directory.exists():
        raise existing(directory, "choose another --out")
    directory = directory.absolute()
    with written_aside(directory) as aside:
        WRITERS[file_format](embeddings, aside)
    return sorted(directory.iterdir())


def file_names(behaviors: Sequence[str]) -> list[str]:
    """A name for each behavior that every file system takes, distinct even where case does not count."""
    names: list[str] = []
    taken: set[str] = set()
    for behavior in behaviors:
        plain = re.sub(r"[^\w.-]+", "_", behavior)[:NAME_LENGTH]
        numbered = (f"{plain}-{number}" for number in count(2))
        names.append(next(name for name in chain([plain], numbered) if name.casefold() not in taken))
        taken.add(names[-1].casefold())
    return names


def _write_parquet(embeddings: ConditionalEmbeddings, aside: Path) -> None:
    files: dict[str, list[str]] = {"users_file": [], "items_file": []}
    users = {"user_id": embeddings.users.arrow()} | _named("name", embeddings.user_names)
    _parquet(users | {"vector": _lists(embeddings.vectors)}, aside / "users.parquet")
    for name, space in zip(file_names(embeddings.behavior_names), embeddings.spaces, strict=True):
        files["items_file"].append(f"items-{name}.parquet")
        columns = {"item_id": space.items.arrow()} | _named("name", space.names)
        columns["vector"] = _lists(space.item_vectors)
        if space.item_bias is not None:
            columns["bias"] = pa.array(space.item_bias)
        _parquet(columns, aside / files["items_file"][-1])
        files["users_file"].append("users.parquet" if space.user_vectors is None else f"users-{name}.parquet")
        if space.user_vectors is not None:
            _parquet(users | {"vector": _lists(space.user_vectors)}, aside / files["users_file"][-1])
    masks = _lists(np.array([space.mask for space in embeddings.spaces]))
    _parquet({"behavior": pa.array(embeddings.behavior_names), "mask": masks} | files, aside / "masks.parquet")


def _write_npz(embeddings: ConditionalEmbeddings, aside: Path) -> None:
    arrays = {
        "user_ids": _id_array(embeddings.users),
        "user_vectors": embeddings.vectors,
        "behaviors": np.array(embeddings.behavior_names),
        "masks": np.array([space.mask for space in embeddings.spaces]),
        **_named("user_names", embeddings.user_names),
    }
    for k, space in enumerate(embeddings.spaces):
        arrays |= {f"item_ids_{k}": _id_array(space.items), f"item_vectors_{k}": space.item_vectors}
        arrays |= _named(f"item_names_{k}", space.names)
        if space.item_bias is not None:
            arrays[f"item_bias_{k}"] = space.item_bias
        if space.user_vectors is not None:
            arrays[f"user_vectors_{k}"] = space.user_vectors
    np.savez(aside / "embeddings.npz", **arrays)


def _write_word2vec(embeddings: ConditionalEmbeddings, aside: Path) -> None:
    if not embeddings.width:
        raise UsageError.of_method(
            "has no vectors, only item bias", embeddings.method, "export to parquet or npz instead"
        )
    _word2vec(embeddings.users, embeddings.vectors, aside / "users.txt")
    for name, space in zip(file_names(embeddings.behavior_names), embeddings.spaces, strict=True):
        _word2vec(embeddings.users, embeddings.user_vectors(space.name), aside / f"users-{name}.txt")
        _word2vec(space.items, space.item_vectors, aside / f"items-{name}.txt")


WRITERS = {"parquet": _write_parquet, "npz": _write_npz, "word2vec": _write_word2vec}


def _named(key: str, names: Names | None) -> dict[str, Any]:
    """A column of names, if there are any."""
    return {} if names is None else {key: np.array(names[:], np.str_)}


def _parquet(columns: dict[str, Any], path: Path) -> None:
    pq.write_table(pa.table(columns), path, compression="zstd")


def _lists(matrix: NDArray[Any]) -> pa.Array:
    """The rows of a matrix as an Arrow array of lists."""
    offsets = np.arange(len(matrix) + 1, dtype=np.int64) * matrix.shape[1]
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(matrix.reshape(-1)))


def _id_array(ids: Ids) -> NDArray[Any]:
    """Integers, or text of a fixed width, which NumPy reads without pickle."""
    if ids.kind == "text" and pc.any(pc.ends_with(ids.arrow(), "\0")).as_py():
        raise DataError(
            "an id ends with a NUL character, which NumPy text cannot store", remedy="export to parquet instead"
        )
    return np.array(ids[:], dtype=np.int64 if ids.kind == "integer" else np.str_)


def _word2vec(ids: Ids, vectors: NDArray[np.float32], path: Path) -> None:
    """``rows dimensions``, then a line ``id v1 v2 …`` per row; the shortest digits that give the number back."""
    names = ids.arrow().cast(pa.large_string())
    bad = names.filter(pc.match_substring_regex(names, r'^$|[\s\p{Z}"]'))
    if len(bad):
        raise DataError(
            f"the id {bad[0].as_py()!r} is empty or contains a space, a line break or a quote, which word2vec text "
            f"cannot store ({len(bad):,} such ids)",
            value=bad[0].as_py(),
            remedy="export to parquet or npz instead",
        )
    columns = {"id": names} | {str(d): pa.array(np.ascontiguousarray(vectors[:, d])) for d in range(vectors.shape[1])}
    options = pa_csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
    with path.open("wb") as file:
        file.write(f"{len(ids)} {vectors.shape[1]}\n".encode())
        pa_csv.write_csv(pa.table(columns), file, options)
