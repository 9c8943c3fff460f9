"""Fingerprints of files and printed JSON, the command line that makes them, and how fingerprints are compared.

Everything is driven through the command line and read back as plain files, so nothing here knows a module of the
package but its entry point.

A fingerprint is a dictionary of plain data. Arrays of numbers and JSON documents have ``numbers``: how many, their sum,
the sum of their squares and their inner product with a fixed vector, all in double precision; whole numbers of
documents have their own, ``counts``. Beside them, ``form`` says what there is beside numbers: names, words, shapes.
``exact`` is a sha256 of the content, cut to 16 digits; it holds on machines of the kind that recorded it, the others on
any.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import platform
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

HERE = Path(__file__).parent
LIBRARIES = ("numpy", "torch", "numba", "scipy", "scikit-learn", "pyarrow", "openTSNE", "matplotlib")
VOLATILE = {"machine", "places", "device", "jobs", "threads", "torch", "seconds", "examples_per_second"}
"""Keys of JSON that tell of a clock, a place or a machine; so do those that end in ``_seconds``."""

RELATIVE, ABSOLUTE = 1e-5, 1e-7
"""How far numbers may be from the recorded ones on any machine."""
TRAINED, RANKED = 1e-2, 0.2
"""The same of arrays that were trained, and of documents that tell how these rank: a last bit that differs is amplified
by every step, and two items of nearly the same score change places."""
ON_THE_SAME_KIND = 1e-12
"""How far numbers of studies may be from the recorded ones, relatively, on a machine of the recorded kind."""

RENAMED = {"mcne-attributes": "mcne-plus"}
"""Methods by their names today, and what they were called when fingerprints were recorded."""

DIGEST = re.compile(r"(?<![0-9a-zA-Z])[0-9a-f]{12,64}(?![0-9a-zA-Z])")
PLACE = re.compile(r"(?<![\w<])/(?:[\w.+-]+/)+")
NUMBER = re.compile(r"[-−+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")

Print = dict[str, Any]
Loose = tuple[float, float] | None


# the command line


class CommandError(Exception):
    """A command that ended otherwise than expected."""


class _Stopping(io.StringIO):
    """A place to print to that asks this process to stop when it is told a word."""

    def __init__(self, word: str | None) -> None:
        super().__init__()
        self._word = word

    def write(self, text: str, /) -> int:
        written = super().write(text)
        if self._word is not None and self._word in text:
            self._word = None
            signal.raise_signal(signal.SIGTERM)
        return written


def mcne(*args: object, code: int = 0, stopped_at: str | None = None) -> str:
    """What a command prints on stdout; it runs in this process, with one thread and a clock that stands still.

    It is asked to stop once it has printed ``stopped_at``.
    """
    from mcne.cli.main import main

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    now = time.perf_counter()
    out, err = _Stopping(stopped_at), io.StringIO()
    left: str | int | None = None
    try:
        with (
            redirect_stdout(out),
            redirect_stderr(err),
            patch.object(sys, "argv", ["mcne", *map(str, args)]),
            patch.object(os, "cpu_count", lambda: 1),
            patch.object(os, "fsync", lambda _descriptor: None),
            patch.object(time, "perf_counter", lambda: now),
            patch.dict(os.environ, {"COLUMNS": "120"}),
        ):
            main()
    except SystemExit as error:
        left = error.code
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if (left or 0) != code:
        raise CommandError(f"mcne {' '.join(map(str, args))} ended with {left}:\n{out.getvalue()}\n{err.getvalue()}")
    return out.getvalue()


@contextmanager
def one_thread() -> Iterator[None]:
    """While it lasts, libraries compute on one thread."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


def options(settings: Mapping[str, Any]) -> list[str]:
    """Settings as options of a command."""
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in settings.items()}
    return [f"--set={name}={text}" for name, text in texts.items()]


# the machine


def machine_kind() -> dict[str, str]:
    """What last bits depend on: the kind of CPU, and versions of what computes."""
    info: dict[str, str] = {}
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        pairs = (line.partition(":") for line in cpuinfo.read_text().splitlines())
        for name, _, value in pairs:
            info.setdefault(name.strip(), value.strip())
    flags = sorted(flag for flag in info.get("flags", "").split() if flag.startswith(("avx", "fma", "amx")))
    cpu = " ".join(info.get(name, "") for name in ("vendor_id", "cpu family", "model")).strip()
    kind = {"system": platform.system(), "cpu": cpu or platform.machine(), "vectors": " ".join(flags)}
    return kind | {name: version(name) for name in LIBRARIES}


# fingerprints


def digest(data: bytes) -> str:
    """The first digits of a sha256."""
    return hashlib.sha256(data).hexdigest()[:16]


def of_numbers(values: NDArray[Any]) -> list[float]:
    """How many, their sum, the sum of squares, and the inner product with a fixed vector of numbers from -1 to 1."""
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    at = np.arange(1, len(flat) + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        mixed = at * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
    fixed = (mixed >> np.uint64(11)).astype(np.float64) / 2.0**52 - 1.0
    return [len(flat), math.fsum(flat), math.fsum(flat * flat), math.fsum(flat * fixed)]


def of_array(values: NDArray[Any]) -> Print:
    """An array's fingerprint."""
    values = np.ascontiguousarray(values)
    form = f"{values.dtype} {'x'.join(map(str, values.shape))}"
    prints: Print = {"form": form, "exact": digest(form.encode() + values.tobytes())}
    return prints | ({"numbers": of_numbers(values)} if values.dtype.kind in "fiub" else {})


def of_arrays(arrays: Mapping[str, NDArray[Any]]) -> Print:
    """Every array of floating-point numbers by itself; all others together, as these are the same on any machine.

    Except for masks, which are learned, and of bytes, as are letters.
    """
    whole, small = hashlib.sha256(), hashlib.sha256()
    prints: Print = {}
    for name in sorted(arrays):
        values = np.ascontiguousarray(arrays[name])
        about = f"{name} {values.dtype} {values.shape}".encode()
        if values.dtype.kind == "f":
            prints[name] = of_array(values)
        elif values.dtype.itemsize == 1:
            whole.update(about)
            small.update(about + values.tobytes())
        else:
            whole.update(about + values.tobytes())
    both = {"form": whole.hexdigest()[:16], "exact": small.hexdigest()[:16]}
    return prints | {"whole numbers and words": both}


def of_json(value: Any, *, floats_exact: bool) -> Print:
    """A document's fingerprint; the exact part leaves numbers with a fraction out unless told otherwise."""
    kept = without_volatile(value)
    numbers = list(_numbers(kept))
    exact = _map(kept, lambda number: number if floats_exact or isinstance(number, int) else "#", lambda text: text)
    form = _map(kept, lambda _number: "#", lambda text: DIGEST.sub("#", text))
    prints: Print = {"form": digest(_canonical(form)), "exact": digest(_canonical(exact))}
    for kind, name in ((int, "counts"), (float, "numbers")):
        values = [number for number in numbers if isinstance(number, kind)]
        prints |= {name: of_numbers(np.array(values, dtype=np.float64))} if values else {}
    return prints


def of_text(text: str) -> Print:
    """A text's fingerprint: its form are the words in it."""
    words = re.findall(r"[^\W\d_]+", NUMBER.sub("", DIGEST.sub("", re.sub(r"<[^>]*>", " ", text))))
    return {"form": digest(" ".join(words).encode()), "exact": digest(text.encode())}


def of_directory(path: Path, *, leave_out: Sequence[str] = ()) -> Print:
    """Every file in a directory by its name there, in which digests are counted through in place of being told."""
    files = sorted(file for file in path.rglob("*") if file.is_file() and file.name not in leave_out)
    names = [str(file.relative_to(path)) for file in files]
    prints: Print = {"files": {"form": digest(_canonical(sorted(DIGEST.sub("#", name) for name in names)))}}
    prints["files"]["exact"] = digest(_canonical(names))
    grouped: dict[Path, dict[str, NDArray[Any]]] = {}
    documents: dict[str, list[Any]] = {}
    for file, name in zip(files, names, strict=True):
        if file.suffix == ".npy":
            grouped.setdefault(file.parent, {})[file.stem] = np.load(file, allow_pickle=False)
        elif file.suffix == ".npz":
            with np.load(file, allow_pickle=False) as held:
                grouped[file] = {each: held[each] for each in held.files}
        elif file.suffix == ".json":
            documents.setdefault(DIGEST.sub("#", name), []).append(json.loads(file.read_text()))
        elif file.suffix == ".jsonl":
            lines = file.read_text().splitlines()
            documents.setdefault(DIGEST.sub("#", name), []).append([json.loads(line) for line in lines])
        elif file.suffix == ".parquet":
            prints |= {f"{name}: {column}": each for column, each in _of_table(pq.read_table(file)).items()}
        else:
            prints[name] = of_text(file.read_text(encoding="utf-8"))
    for name, values in documents.items():
        prints[name] = of_json(values if len(values) > 1 else values[0], floats_exact=False)
    for directory, arrays in grouped.items():
        prints |= {f"{directory.relative_to(path)}/{name}": each for name, each in of_arrays(arrays).items()}
    return {place: prints[place] for place in sorted(prints)}


def _of_table(table: pa.Table) -> Print:
    plain: dict[str, NDArray[Any]] = {}
    for name in table.column_names:
        values = table[name].to_pylist()
        is_text = any(isinstance(value, str) for value in values)
        plain[name] = np.array([str(value) for value in values] if is_text else values)
    words = {name: values for name, values in plain.items() if values.dtype.kind not in "fiub"}
    whole = [values.reshape(-1) for values in plain.values() if values.dtype.kind in "iub"]
    prints = {"words": of_arrays(words)["whole numbers and words"], "form": {"form": " ".join(table.column_names)}}
    prints |= {"whole numbers": of_array(np.concatenate(whole).astype(np.int64))} if whole else {}
    return prints | {name: of_array(values) for name, values in plain.items() if values.dtype.kind == "f"}


def without_volatile(value: Any) -> Any:
    """A document without what a clock, a machine or a place decides, nor the version of the package or a new name."""
    if isinstance(value, dict):
        return {
            PLACE.sub("", key): without_volatile(each)
            for key, each in value.items()
            if key not in VOLATILE
            and not key.endswith("_seconds")
            and not (key == "version" and isinstance(each, str))  # that of a format is a number
            and not (key == "sha256" and "kind" in value)  # of a manifest, with what is left out here
        }
    if isinstance(value, list):
        return [without_volatile(each) for each in value]
    return RENAMED.get(value, PLACE.sub("", value)) if isinstance(value, str) else value


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for key in sorted(value):
            yield from _numbers(value[key])
    elif isinstance(value, list):
        for each in value:
            yield from _numbers(each)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def _map(value: Any, number: Any, text: Any) -> Any:
    if isinstance(value, dict):
        return {text(key): _map(each, number, text) for key, each in value.items()}
    if isinstance(value, list):
        return [_map(each, number, text) for each in value]
    if isinstance(value, str):
        return text(value)
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


# comparing


def differences(
    actual: Print,
    kept: Print,
    *,
    same_kind: bool,
    near: float = RELATIVE,
    loose: Loose = (TRAINED, RANKED),
    at: str = "",
) -> list[str]:
    """Where a fingerprint differs from the one that was kept; numbers within ``near`` of theirs do not.

    On a machine of another kind bounds are ``loose``: of arrays, and of documents, of which whole numbers may be any.
    """
    messages = []
    for name in sorted({*actual, *kept}):
        place = f"{at}{name}"
        if name not in kept or name not in actual:
            messages.append(f"{place}: {'new' if name in actual else 'gone'}")
        elif isinstance(kept[name], dict):
            below = f"{place} > "
            messages += differences(actual[name], kept[name], same_kind=same_kind, near=near, loose=loose, at=below)
        elif name in ("numbers", "counts"):
            bound = near
            if loose is not None and not same_kind:
                bound = loose[0] if kept["form"].startswith("float") else loose[1] if name == "numbers" else math.inf
            messages += [f"{place}: {actual[name]}, kept {kept[name]}"] * (not is_near(actual[name], kept[name], bound))
        elif (name != "exact" or same_kind) and actual[name] != kept[name]:
            messages.append(f"{place}: {actual[name]}, kept {kept[name]}")
    return messages


def is_near(actual: Sequence[float], kept: Sequence[float], near: float) -> bool:
    """Whether there are as many and sums are near, as seen from the length of the vector: those of both signs cancel
    out."""
    if actual[0] != kept[0] or math.isinf(near):
        return actual[0] == kept[0]
    length, floor = math.sqrt(kept[2]), ABSOLUTE if near >= RELATIVE else 0.0
    pairs = zip(actual[1:], kept[1:], (length, 2 * kept[2], length), strict=True)
    return all(abs(one - other) <= near * scale + floor for one, other, scale in pairs)


def read_kept(name: str) -> dict[str, Any]:
    """What was recorded in a file here."""
    kept: dict[str, Any] = json.loads((HERE / name).read_text())
    return kept


def write_kept(name: str, prints: Mapping[str, Any]) -> None:
    """Record fingerprints, with the kind of machine, one line each."""
    parts = [f'"machine": {json.dumps(machine_kind())}']
    parts += [f"{json.dumps(each)}: {json.dumps(prints[each], separators=(',', ':'))}" for each in prints]
    (HERE / name).write_text("{\n" + ",\n".join(parts) + "\n}\n")
