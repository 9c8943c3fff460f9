"""Files: artifacts, atomic writes, locks, JSON and Parquet.

An artifact is a directory of ``.npy`` files, which memory-map, and a ``manifest.json`` that carries the sha256 of every
file and of itself. It is written aside, flushed to the disk and renamed into place, so a reader never sees half of one;
the next write clears what a killed process left aside. Nothing in it can run code. An existing artifact is never
replaced. Its ``fingerprint`` identifies kind, format version, metadata and arrays, but not the provenance.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mcne.errors import ArtifactError, DataError, DiskError, MCNEError, MissingError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST = "manifest.json"
CHUNK = 1 << 22
MADE_BY = {
    "mcne dataset": (
        "a dataset",
        "prepare a dataset with: mcne data prepare files --interactions {source} --out {target}",
    ),
    "mcne split": ("a split", "make a split with: mcne data split DATA --name NAME"),
    "mcne embeddings": (
        "a run or saved embeddings",
        "train a run with: mcne train METHOD --data DATA --out {target}",
    ),
}
"""What messages call these kinds of artifacts, and the commands that make them."""

Arrays = Mapping[str, NDArray[Any]]
Json = dict[str, Any]


class BeingWrittenError(DataError):
    """An artifact that another process is writing now."""


class NotFiniteError(ValueError):
    """An array with a value that is infinite or no number."""


class AppearedError(UsageError):
    """Another process wrote to the same path first."""


class HeldError(UsageError):
    """A directory that another process holds."""


@dataclass(frozen=True)
class Artifact:
    """A saved artifact: its metadata, its provenance, and its arrays, memory-mapped."""

    meta: Json
    provenance: Json
    arrays: Arrays
    fingerprint: str


def fingerprint(kind: str, version: int, meta: Json, arrays: Arrays) -> str:
    """The identity of an artifact with this content, saved or not."""
    files = {}
    for name, array in arrays.items():
        digest = hashlib.sha256()
        for chunk in _chunks(array):
            digest.update(chunk)
        files[f"{name}.npy"] = digest.hexdigest()
    return _digest({"kind": kind, "version": version, "meta": meta, "files": files})


def write(path: Path, kind: str, version: int, *, meta: Json, provenance: Json, arrays: Arrays) -> str:
    """Save an artifact and return its fingerprint; an existing one must have the same content, and is kept."""
    path = place(path)
    with disk_errors(path, needed=0):
        has_content = is_taken(path)
    if has_content:
        return _keep_existing(path, kind, version, fingerprint(kind, version, meta, arrays))
    with written_aside(path, needed=sum(array.nbytes for array in arrays.values())) as aside:
        files = {f"{name}.npy": _write_file(aside / f"{name}.npy", _chunks(arrays[name])) for name in sorted(arrays)}
        manifest: Json = {"kind": kind, "version": version, "meta": meta}
        print_ = _digest(manifest | {"files": {name: entry["sha256"] for name, entry in files.items()}})
        manifest |= {"fingerprint": print_, "provenance": provenance, "files": files}
        manifest["sha256"] = _digest(manifest)
        _write_file(aside / MANIFEST, [_rendered(manifest)])
    return print_


def place(path: Path) -> Path:
    """The resolved path to write to, which must not contain the current directory."""
    if path.is_symlink() and not path.exists():
        raise UsageError.of_path("is a broken link", path, "choose another path")
    real = path.resolve()
    if Path.cwd().is_relative_to(real):
        raise UsageError.of_path("is the current directory", path, "name a new directory in it")
    return real


def read(path: Path, kind: str, version: int, *, verify: bool = True) -> Artifact:
    """Open an artifact; with ``verify`` every byte is checked against its sha256 first."""
    manifest = read_manifest(path, kind)
    if manifest["version"] != version:
        newer = "a newer" if manifest["version"] > version else "an older"
        raise ArtifactError(
            f"was written by {newer} mcne: {kind} format {manifest['version']}, and this one reads format {version}",
            path,
            "make it again, or use the mcne that wrote it",
            value=manifest["version"],
            allowed=[version],
        )
    redo = "restore it or make the artifact again"
    for name, entry in manifest["files"].items():
        file = path / name
        if not file.is_file():
            raise ArtifactError("is missing", file, redo)
        size = file.stat().st_size
        if size != entry["bytes"]:
            raise ArtifactError(
                f"has {size:,} bytes, and its manifest says {entry['bytes']:,}",
                file,
                redo,
                value=size,
                allowed=[entry["bytes"]],
            )
        if verify and sha256_of_file(file) != entry["sha256"]:
            raise ArtifactError("its sha256 does not match its manifest", file, redo)
    arrays = {
        name.removesuffix(".npy"): np.load(path / name, mmap_mode="r", allow_pickle=False).view(np.ndarray)
        for name in manifest["files"]
    }
    return Artifact(manifest["meta"], manifest["provenance"], arrays, manifest["fingerprint"])


def read_manifest(path: Path, kind: str) -> Json:
    """The verified manifest of an artifact of this kind."""
    if not (path / MANIFEST).is_file():
        raise missing(path, kind)
    data = (path / MANIFEST).read_bytes()
    try:
        manifest = json.loads(data)
        as_written = _rendered(manifest) == data  # the sha256 is of the values: it would not notice another layout
        recorded = manifest.pop("sha256")
        computed = _digest(manifest)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ArtifactError(
            f"is damaged ({error})", path / MANIFEST, f"restore the {kind}, or make it again"
        ) from error
    if computed != recorded or not as_written:
        raise ArtifactError(
            "its sha256 does not match its content", path / MANIFEST, f"restore the {kind}, or make it again"
        )
    if manifest["kind"] != kind:
        other, _ = _made_by(path, manifest["kind"])
        what, remedy = _made_by(path, kind)
        raise ArtifactError(f"is {other}, not {what}", path, remedy, value=manifest["kind"], allowed=[kind])
    return dict(manifest)


def missing(path: Path, kind: str) -> MissingError:
    """The error that ``path`` is no artifact of this kind."""
    return absent(path, MANIFEST, *_made_by(path, kind))


def _made_by(path: Path, kind: str) -> tuple[str, str]:
    """What messages call a kind of artifact, and how to make one."""
    what, remedy = MADE_BY.get(kind, (kind, "make it again"))
    source = path if path.is_file() else "FILE"
    return what, remedy.format(source=source, target="DIR" if path.exists() else path)


def absent(path: Path, name: str, what: str, remedy: str) -> MissingError:
    """The error that ``path`` is not such a directory, which would contain a file of this name."""
    problem = f"not {what}: {name} is missing (incomplete copy?)"
    if not path.exists():
        problem = "no such directory"
    elif path.is_file():
        problem = f"is a file, not {what}"
    return MissingError.of_path(problem, path, remedy)


def existing(path: Path, remedy: str) -> UsageError:
    """The error that something is there already."""
    return UsageError.of_path("already exists, and existing files are never replaced", path, remedy)


def is_taken(path: Path) -> bool:
    """Whether a file or a directory with anything in it is there."""
    return path.exists() and any(path.iterdir() if path.is_dir() else [path])


def sha256_of_file(path: Path) -> str:
    """The sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(value: Json) -> str:
    """The sha256 of plain data, whatever the order of its keys."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _rendered(manifest: Json) -> bytes:
    return json.dumps(manifest, indent=1, sort_keys=True).encode() + b"\n"


def _keep_existing(path: Path, kind: str, version: int, wanted: str) -> str:
    if not path.is_dir():
        raise UsageError.of_path("is a file", path, "choose another path")
    if not (path / MANIFEST).is_file():
        raise UsageError.of_path(
            "is not empty, and existing files are never replaced", path, "choose another path, or an empty directory"
        )
    existing = read_manifest(path, kind)["fingerprint"]
    if existing != wanted:
        raise UsageError.of_path(
            f"already contains another {kind} ({existing[:12]}; this one is {wanted[:12]}), which is never replaced",
            path,
            "choose another path, or remove it",
        )
    read(path, kind, version)  # what is kept must be sound
    return wanted


@contextmanager
def written_aside(path: Path, *, needed: int = 0) -> Iterator[Path]:
    """A locked, empty directory beside ``path``, renamed to ``path`` if the block succeeds and removed otherwise.

    Parent directories are created and removed with it. An ``OSError`` in the block becomes a ``DiskError``.
    """
    aside = aside_of(path)
    with disk_errors(path, needed=needed), ExitStack() as undo:
        undo.callback(_remove_empty, _missing(path.parent))
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock = _lock(aside, wait=False)
        except BlockingIOError as error:
            raise BeingWrittenError(
                "another process is writing there", place=aside, remedy="wait until it ends"
            ) from error
        undo.callback(os.close, lock)
        undo.callback(shutil.rmtree, aside, ignore_errors=True)
        for left in aside.iterdir():  # by a process that died
            left.unlink()
        if shutil.disk_usage(path.parent).free < needed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        yield aside
        os.fsync(lock)
        _put(aside, path)
        undo.pop_all()
        os.close(lock)


def _put(aside: Path, path: Path) -> None:
    """Rename ``aside`` to ``path``, over nothing but an empty directory."""
    try:
        aside.rename(path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        raise AppearedError(
            "appeared while this was written, and existing files are never replaced",
            place=path,
            value=str(path),
            remedy="choose another path",
        ) from error
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _chunks(array: NDArray[Any]) -> Iterator[bytes | memoryview]:
    """The bytes of ``array`` as a ``.npy`` file, in pieces."""
    header = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(array.dtype)
    np.lib.format.write_array_header_1_0(header, {"descr": descr, "fortran_order": False, "shape": array.shape})
    yield header.getvalue()
    flat = np.ascontiguousarray(array).reshape(-1)
    step = max(1, CHUNK // max(1, array.itemsize))
    for start in range(0, len(flat), step):
        yield flat[start : start + step].view(np.uint8).data


def _write_file(path: Path, chunks: Iterable[bytes | memoryview]) -> Json:
    """Write a file through to the disk; its sha256 and its size, as a manifest has them."""
    digest = hashlib.sha256()
    size = 0
    with path.open("wb", buffering=0) as file:
        for chunk in chunks:
            digest.update(chunk)
            size += _write_all(file, chunk)
        os.fsync(file.fileno())
    return {"sha256": digest.hexdigest(), "bytes": size}


def _write_all(file: io.FileIO, chunk: bytes | memoryview) -> int:
    view = memoryview(chunk)
    while view:
        view = view[file.write(view) :]
    return len(chunk)


# single files


@contextmanager
def disk_errors(path: Path, *, needed: int | None = None) -> Iterator[None]:
    """Turn an ``OSError`` into a ``DiskError`` that says how to continue.

    A run continues with ``--resume``; what is written aside, with ``needed`` bytes, leaves no partial files.
    """
    try:
        yield
    except MCNEError:  # a MissingError is an OSError, too
        raise
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = error.strerror or str(error)
        if needed is None:
            step = "free some disk space" if is_full else "check the path and its permissions"
            raise DiskError(reason, path, f"{step}, then run again with --resume") from error
        if is_full:
            free = shutil.disk_usage(next(p for p in path.parents if p.exists())).free
            missing = f", {needed - free:,} missing" if needed > free else ""
            reason += f" ({f'{needed:,} bytes needed, ' if needed else ''}{free:,} free{missing})"
        step = "free some disk space, or choose another path" if is_full else "choose another path"
        raise DiskError(f"{reason}; no partial files were left behind", path, step) from error


def overwrite(path: Path, data: bytes) -> None:
    """Write ``data`` to a file, atomically."""
    with disk_errors(path), _whole(path, data) as aside:
        aside.replace(path)


def write_new(path: Path, data: bytes, *, option: str = "--out") -> None:
    """Write a new file; one that has appeared since the caller checked is not replaced."""
    with _whole(path, data) as aside:
        check_new(path, option=option)
        aside.replace(path)


def check_new(path: Path, *, option: str = "--out") -> None:
    """Refuse a path that exists already, or whose directory does not exist."""
    if path.exists() or path.is_symlink():
        raise existing(path, f"choose another {option}")
    if not path.parent.is_dir():
        raise UsageError.of_path("its directory does not exist", path, f"create {path.parent} first")


def aside_of(path: Path) -> Path:
    """The temporary path of something that is renamed when complete; a killed process may leave it behind."""
    return path.with_name(f".{path.name}.partial")


@contextmanager
def _whole(path: Path, data: bytes) -> Iterator[Path]:
    """A file beside ``path`` with this content, flushed to the disk; it is removed if the block fails."""
    aside = aside_of(path)
    try:
        _write_file(aside, [data])
        yield aside
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def read_json(path: Path, *, step: str) -> Json:
    """The JSON object in a file; ``step`` is the remedy if it is damaged."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(value, dict):
            raise ValueError(f"it holds a {type(value).__name__}, not an object")
    except ValueError as error:
        raise ArtifactError(f"is damaged ({error})", path, step) from error
    return value


def checked_json(path: Path, check: Callable[[Any], object], *, step: str) -> Any:
    """The JSON in a file; ``check`` looks up what the caller needs, ``step`` is the remedy if it fails."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        check(value)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArtifactError(f"is missing or damaged ({error!r})", path, step) from error
    return value


def write_json(path: Path, value: Any, *, sort_keys: bool = False) -> None:
    """Write plain data to a file as JSON, atomically."""
    overwrite(path, json.dumps(value, indent=1, sort_keys=sort_keys, allow_nan=False).encode() + b"\n")


def read_parquet(path: Path, *, step: str) -> pa.Table:
    """The table in a file; ``step`` is the remedy if it is damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise ArtifactError(f"is missing or damaged ({error})", path, step) from error


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write a table to a file as Parquet, atomically."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    overwrite(path, sink.getvalue().to_pybytes())


# locks


@contextmanager
def locked(directory: Path, *, wait: bool = False) -> Iterator[None]:
    """Lock a directory against other writers; it is created if missing, and removed if it stays empty.

    If another process holds the lock, wait for it or raise a :class:`HeldError`.
    """
    missing = _missing(directory)
    try:
        lock = _lock(directory, wait=wait)
    except BlockingIOError as error:
        raise HeldError(
            "another process is training there", place=directory, remedy="wait until it ends, or choose another --out"
        ) from error
    except FileExistsError as error:
        raise UsageError.of_path("is a file", directory, "choose another --out") from error
    try:
        yield
    finally:
        _remove_empty(missing)
        os.close(lock)


def is_held(directory: Path) -> bool:
    """Whether a process holds the directory now."""
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _lock(directory: Path, *, wait: bool) -> int:
    """A file descriptor that holds the directory's lock; ``BlockingIOError`` if another process holds it."""
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(directory, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(lock)
            raise
        if directory.exists() and os.path.samestat(os.fstat(lock), directory.stat()):
            return lock
        os.close(lock)  # its last holder removed or renamed it


def _missing(directory: Path) -> list[Path]:
    """The directory and those of its parents that do not exist, deepest first."""
    return [parent for parent in (directory, *directory.parents) if not parent.exists()]


def _remove_empty(directories: list[Path]) -> None:
    for directory in directories:
        with suppress(OSError):
            directory.rmdir()


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view of ``array``; the caller's own array stays as it is."""
    view = array.view()
    view.flags.writeable = False
    return view


def freeze(owner: object, *fields: str) -> None:
    """Make these arrays of a frozen dataclass read-only; a field may be None."""
    for field in fields:
        if getattr(owner, field) is not None:
            object.__setattr__(owner, field, frozen(getattr(owner, field)))


def is_finite(array: NDArray[Any]) -> bool:
    """Whether all values are finite, without an array of flags."""
    return not array.size or bool(np.isfinite(array.min()) and np.isfinite(array.max()))


def checked(array: NDArray[Any], what: str, *, dtype: type[np.generic], shape: tuple[int | None, ...]) -> NDArray[Any]:
    """A read-only view of an array of this type and shape (``None``: any length) whose values are finite."""
    fits = len(shape) == array.ndim and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
    if array.dtype != dtype or not fits:
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise ValueError(f"{what}: {np.dtype(dtype)} [{wanted}] expected, got {array.dtype} {list(array.shape)}")
    if not is_finite(array):
        raise NotFiniteError(f"{what}: not all values are finite")
    return frozen(array)


def check(owner: object, field: str, what: str, *, dtype: type[np.generic], shape: tuple[int | None, ...]) -> None:
    """Apply :func:`checked` to an array of a frozen dataclass; the field may be None."""
    if getattr(owner, field) is not None:
        object.__setattr__(owner, field, checked(getattr(owner, field), what, dtype=dtype, shape=shape))
