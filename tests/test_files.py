"""Files are complete and verified, or not there: round trips, damage, crashes, races, locks and full disks."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import mmap
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.errors import refused

from mcne import files
from mcne.errors import ArtifactError, DataError, DiskError, UsageError

KIND, VERSION = "test artifact", 3
META = {"name": "Café", "seed": 1234567, "ratios": [70.0, 1e-9]}
PROVENANCE = {"notes": ["made here"]}
ARRAYS: dict[str, NDArray[Any]] = {
    "users": np.arange(100, dtype=np.int64) * 3,
    "graph.weights": np.linspace(0, 1, 33, dtype=np.float32),
    "none": np.zeros((0, 4), dtype=np.int32),
}


def save(path: Path, arrays: Mapping[str, NDArray[Any]] = ARRAYS, *, seed: int = 1234567) -> str:
    return files.write(
        path, KIND, VERSION, meta=META | {"seed": seed}, provenance=dict(PROVENANCE), arrays=dict(arrays)
    )


def load(path: Path, *, verify: bool = True) -> files.Artifact:
    return files.read(path, KIND, VERSION, verify=verify)


def tree(path: Path) -> dict[str, bytes | None]:
    """Everything below ``path``: the bytes of files, None for directories."""
    return {str(p.relative_to(path)): p.read_bytes() if p.is_file() else None for p in sorted(path.rglob("*"))}


def as_npy(array: NDArray[Any]) -> bytes:
    """The bytes that NumPy itself would save."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


DTYPES = [
    "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16",
    ">i4", ">f8", "M8[s]", "m8[ms]", "U3", "S4", "i4,f8",
]  # fmt: skip


@pytest.mark.parametrize("shape", [(7,), (0,), (2, 3), (3, 0, 2), (1, 1, 1), ()], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_round_trip(dtype: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    raw = random.Random(0).randbytes(int(np.prod(shape)) * np.dtype(dtype).itemsize)
    array = np.frombuffer(raw, dtype=np.uint8).copy()
    array = (
        (array % 2 if dtype in ("?", "U3") else array).view(dtype).reshape(shape)
        if array.size
        else np.zeros(shape, dtype)
    )
    save(tmp_path / "a", {"x": array})
    back = load(tmp_path / "a").arrays["x"]
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert back.tobytes() == array.tobytes()
    assert (tmp_path / "a" / "x.npy").read_bytes() == as_npy(array)


def test_metadata_and_provenance_come_back(tmp_path: Path) -> None:
    save(tmp_path / "a")
    back = load(tmp_path / "a")
    assert (back.meta, back.provenance) == (META, PROVENANCE)
    assert sorted(back.arrays) == sorted(ARRAYS)


def test_arrays_are_memory_mapped_and_read_only(tmp_path: Path) -> None:
    save(tmp_path / "a")
    users = load(tmp_path / "a").arrays["users"]
    base: Any = users
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base, mmap.mmap)
    assert type(users) is np.ndarray
    with pytest.raises(ValueError, match="read-only"):
        users[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        users.flags.writeable = True


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24, dtype=np.int16)[::3],
        np.arange(24, dtype=np.int16)[::-1],
        np.asfortranarray(np.arange(24, dtype=np.int64).reshape(4, 6)),
        np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(2, 0, 1),
        np.broadcast_to(np.int32(7), (5, 3)),
        files.frozen(np.arange(5)),
    ],
    ids=["strided", "reversed", "fortran", "transposed", "broadcast", "frozen"],
)
def test_any_memory_layout_is_stored_in_rows(array: NDArray[Any], tmp_path: Path) -> None:
    before = array.copy()
    assert save(tmp_path / "a", {"x": array}) == save(tmp_path / "b", {"x": np.ascontiguousarray(array)})
    assert np.array_equal(load(tmp_path / "a").arrays["x"], before)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 32, 33])
def test_pieces_join_without_a_seam(n: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(n, dtype=np.int32)
    whole = files.fingerprint(KIND, VERSION, META, {"x": array})
    monkeypatch.setattr(files, "CHUNK", 64)  # 16 values
    assert save(tmp_path / "a", {"x": array}) == whole
    assert (tmp_path / "a" / "x.npy").read_bytes() == as_npy(array)


def test_short_writes_are_continued() -> None:
    class Stingy(io.BytesIO):
        def write(self, data: Any) -> int:
            return super().write(bytes(data[:3]))

    file = Stingy()
    assert files._write_all(file, b"0123456789") == 10  # type: ignore[arg-type]
    assert file.getvalue() == b"0123456789"


def test_objects_cannot_be_stored(tmp_path: Path) -> None:
    with pytest.raises((TypeError, ValueError)):
        save(tmp_path / "a", {"fine": np.arange(3), "x": np.array([{}, []], dtype=object)})
    assert tree(tmp_path) == {}


def test_same_content_has_the_same_bytes(tmp_path: Path) -> None:
    save(tmp_path / "a")
    save(tmp_path / "b", dict(reversed(ARRAYS.items())))
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_fingerprint_is_known_before_saving(tmp_path: Path) -> None:
    unsaved = files.fingerprint(KIND, VERSION, META, ARRAYS)
    assert save(tmp_path / "a") == unsaved == load(tmp_path / "a").fingerprint
    assert json.loads((tmp_path / "a" / "manifest.json").read_bytes())["fingerprint"] == unsaved


def test_fingerprint_is_the_hash_of_kind_version_metadata_and_files() -> None:
    hashes = {f"{name}.npy": hashlib.sha256(as_npy(array)).hexdigest() for name, array in ARRAYS.items()}
    content = {"files": hashes, "kind": KIND, "meta": META, "version": VERSION}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    assert files.fingerprint(KIND, VERSION, META, ARRAYS) == hashlib.sha256(text.encode()).hexdigest()


def test_fingerprint_changes_with_everything_but_the_provenance(tmp_path: Path) -> None:
    users = ARRAYS["users"]
    changed = users.copy()
    changed[50] += 1
    others = [
        files.fingerprint("other", VERSION, META, ARRAYS),
        files.fingerprint(KIND, VERSION + 1, META, ARRAYS),
        files.fingerprint(KIND, VERSION, META | {"seed": 1}, ARRAYS),
        files.fingerprint(KIND, VERSION, META, ARRAYS | {"more": users}),
        files.fingerprint(KIND, VERSION, META, ARRAYS | {"users": changed}),
        files.fingerprint(KIND, VERSION, META, ARRAYS | {"users": users.astype(np.uint64)}),
        files.fingerprint(KIND, VERSION, META, ARRAYS | {"users": users.reshape(10, 10)}),
        files.fingerprint(KIND, VERSION, META, {"user" if k == "users" else k: a for k, a in ARRAYS.items()}),
    ]
    assert len({files.fingerprint(KIND, VERSION, META, ARRAYS), *others}) == 9
    made = [
        files.write(tmp_path / name, KIND, VERSION, meta=META, provenance={"by": name}, arrays=ARRAYS) for name in "ab"
    ]
    assert made[0] == made[1]
    assert load(tmp_path / "b").provenance == {"by": "b"}


def test_manifest_holds_the_hash_of_every_file_and_its_own(tmp_path: Path) -> None:
    save(tmp_path / "a")
    manifest = json.loads((tmp_path / "a" / "manifest.json").read_bytes())
    assert sorted(manifest["files"]) == ["graph.weights.npy", "none.npy", "users.npy"]
    for name, entry in manifest["files"].items():
        data = (tmp_path / "a" / name).read_bytes()
        assert entry == {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    recorded = manifest.pop("sha256")
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    assert recorded == hashlib.sha256(text.encode()).hexdigest()


# damage


def test_every_flipped_byte_is_found(tmp_path: Path) -> None:
    save(tmp_path / "a")
    held = sorted((tmp_path / "a").iterdir())
    chance = random.Random(1)
    hit = Counter[str]()
    for _ in range(200):
        file = chance.choice(held)
        whole = file.read_bytes()
        at = chance.randrange(len(whole))
        file.write_bytes(whole[:at] + bytes([whole[at] ^ chance.randrange(1, 256)]) + whole[at + 1 :])
        with pytest.raises(ArtifactError, match=file.name):
            load(tmp_path / "a")
        file.write_bytes(whole)
        hit[file.name] += 1
    assert sorted(hit) == ["graph.weights.npy", "manifest.json", "none.npy", "users.npy"]
    assert min(hit.values()) > 30
    assert load(tmp_path / "a").fingerprint == files.fingerprint(KIND, VERSION, META, ARRAYS)


def test_no_byte_of_the_manifest_can_change(tmp_path: Path) -> None:
    save(tmp_path / "a", {"x": np.arange(3)})
    file = tmp_path / "a" / "manifest.json"
    whole = file.read_bytes()
    for at in range(len(whole)):
        for flip in (0x20, 0x01):  # the first turns \u00e9 into \u00E9, which means the same
            file.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
            with pytest.raises(ArtifactError, match=r"manifest\.json"):
                files.read_manifest(tmp_path / "a", KIND)


def test_every_truncation_is_found(tmp_path: Path) -> None:
    save(tmp_path / "a")
    held = sorted((tmp_path / "a").iterdir())
    chance = random.Random(2)
    for _ in range(50):
        file = chance.choice(held)
        whole = file.read_bytes()
        file.write_bytes(whole[: chance.randrange(len(whole))])
        for verify in (True, False):
            with pytest.raises(ArtifactError, match=rf"{file.name}.*(restore|make it again)"):
                load(tmp_path / "a", verify=verify)
        file.write_bytes(whole)


def test_added_bytes_are_found(tmp_path: Path) -> None:
    save(tmp_path / "a")
    for file in (tmp_path / "a").iterdir():
        whole = file.read_bytes()
        file.write_bytes(whole + b" ")
        with pytest.raises(ArtifactError, match=file.name):
            load(tmp_path / "a")
        file.write_bytes(whole)


def test_unverified_reading_still_looks_at_sizes_and_the_manifest(tmp_path: Path) -> None:
    save(tmp_path / "a")
    file = tmp_path / "a" / "users.npy"
    file.write_bytes(file.read_bytes()[:-1] + b"\xff")
    assert load(tmp_path / "a", verify=False).arrays["users"][-1] != 297
    with refused(ArtifactError, place="users.npy", about="match"):
        load(tmp_path / "a")


def test_missing_files(tmp_path: Path) -> None:
    save(tmp_path / "a")
    (tmp_path / "a" / "users.npy").unlink()
    with refused(ArtifactError, place="users.npy", about="missing"):
        load(tmp_path / "a")
    (tmp_path / "a" / "manifest.json").unlink()
    with pytest.raises(DataError, match=r"a: not test artifact: manifest\.json is missing"):
        load(tmp_path / "a")
    with pytest.raises(DataError, match="nowhere: no such directory; "):
        load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"[]",
        b"null",
        b"7",
        b'"sha256"',
        b"{}",
        b'{"sha256": 1e999}',
        b'{"sha256": "x", "version": NaN}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"sha256": ["' + b"x" * 64 + b'"]}',
    ],
    ids=range(11),
)
def test_a_manifest_that_is_none(manifest: bytes, tmp_path: Path) -> None:
    save(tmp_path / "a")
    (tmp_path / "a" / "manifest.json").write_bytes(manifest)
    with pytest.raises(ArtifactError, match=r"manifest\.json: .*make it again"):
        load(tmp_path / "a")


def test_the_manifest_guards_what_the_fingerprint_does_not(tmp_path: Path) -> None:
    save(tmp_path / "a")
    file = tmp_path / "a" / "manifest.json"
    changed = json.loads(file.read_bytes())
    changed["provenance"]["notes"] = ["made elsewhere"]
    file.write_text(json.dumps(changed, indent=1, sort_keys=True) + "\n")
    with refused(ArtifactError, place="manifest.json", about="match"):
        load(tmp_path / "a")


def test_other_formats_and_kinds(tmp_path: Path) -> None:
    save(tmp_path / "a")
    with refused(ArtifactError, place="a", value=3):
        files.read(tmp_path / "a", KIND, 2)
    with pytest.raises(ArtifactError, match="an older mcne: test artifact format 3"):
        files.read(tmp_path / "a", KIND, 4)
    with pytest.raises(ArtifactError, match="a: is test artifact, not a split"):
        files.read(tmp_path / "a", "mcne split", VERSION)


# what is already there


def test_the_same_content_is_left_as_it_is(tmp_path: Path) -> None:
    made = save(tmp_path / "a")
    (tmp_path / "a" / "splits").mkdir()
    before, times = tree(tmp_path), {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    assert save(tmp_path / "a") == made
    assert tree(tmp_path) == before
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == times


def test_other_content_is_never_replaced(tmp_path: Path) -> None:
    save(tmp_path / "a")
    before = tree(tmp_path)
    with refused(UsageError, place="a", about="artifact"):
        save(tmp_path / "a", seed=2)
    assert tree(tmp_path) == before


def test_the_same_content_damaged_is_not_taken_for_it(tmp_path: Path) -> None:
    save(tmp_path / "a")
    file = tmp_path / "a" / "users.npy"
    file.write_bytes(file.read_bytes()[:-1] + b"\xff")
    before = tree(tmp_path)
    with refused(ArtifactError, place="users.npy", about="match"):
        save(tmp_path / "a")
    assert tree(tmp_path) == before


def test_files_and_other_directories_are_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    before = tree(tmp_path)
    for name, message in (
        ("file", "is a file; choose another"),
        ("full", "is not empty.* choose another"),
        ("link", "choose another"),
    ):
        with pytest.raises(UsageError, match=f"{name}: .*{message}"):
            save(tmp_path / name)
        assert tree(tmp_path) == before
    with pytest.raises(DiskError, match=r"file/deeper: .*; choose another path"):
        save(tmp_path / "file" / "deeper")
    assert tree(tmp_path) == before


def test_an_empty_directory_is_filled_and_parents_are_made(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert save(tmp_path / "empty") == save(tmp_path / "new" / "er" / "a")
    assert tree(tmp_path / "empty") == tree(tmp_path / "new" / "er" / "a")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "new"]


def test_a_link_to_an_empty_directory_is_followed(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert np.array_equal(load(tmp_path / "empty").arrays["users"], ARRAYS["users"])


def test_the_current_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with refused(UsageError, place=".", value="."):
        save(Path())
    assert list(tmp_path.iterdir()) == [tmp_path / "here"]


def test_a_relative_path_is_that_of_the_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(Path("a"))
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert np.array_equal(load(Path("a")).arrays["users"], ARRAYS["users"])


def test_a_name_too_long_for_the_disk(tmp_path: Path) -> None:
    for length in (250, 300):  # the first leaves no room for the name it is written under
        with refused(
            DiskError,
            about="File",
        ):
            save(tmp_path / "deep" / ("x" * length))
        assert tree(tmp_path) == {}


# disks that refuse


def test_a_full_disk_is_noticed_before_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "earlier")
    before = tree(tmp_path)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=932 - 132))
    expected = (
        r"a: No space left on device \(932 bytes needed, 800 free, 132 missing\); no partial files were left behind"
    )
    with pytest.raises(DiskError, match=expected):  # 100 × 8 + 33 × 4 bytes
        save(tmp_path / "deep" / "er" / "a")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("number", range(1, 8))
def test_a_disk_that_fills_up_meanwhile(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "earlier")
    before = tree(tmp_path)
    written = 0
    write_all = files._write_all

    def full(file: io.FileIO, chunk: bytes | memoryview) -> int:
        nonlocal written
        written += 1
        if written == number:
            file.write(bytes(chunk)[: len(chunk) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_all(file, chunk)

    monkeypatch.setattr(files, "_write_all", full)
    if number == 7:  # two pieces of two arrays, one of the empty array, and the manifest: six writes
        save(tmp_path / "deep" / "a")
        return
    with refused(DiskError, place="a", about="device"):
        save(tmp_path / "deep" / "a")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(143), MemoryError(), ValueError("a bug")], ids=repr)
def test_whatever_interrupts_a_write_leaves_nothing(error: BaseException, tmp_path: Path) -> None:
    save(tmp_path / "earlier")
    before = tree(tmp_path)

    def interrupted() -> None:
        with files.written_aside(tmp_path / "deep" / "er" / "a") as aside:
            (aside / "half").write_bytes(b"x")
            raise error

    with pytest.raises(type(error)):
        interrupted()
    assert tree(tmp_path) == before


# crashes and races

WRITER = """
import os, signal, sys, time
from pathlib import Path
import numpy as np
from mcne import files
from mcne.errors import MCNEError

path, value, deadly, pause, start = Path(sys.argv[1]), *map(int, sys.argv[2:4]), float(sys.argv[4]), Path(sys.argv[5])

def counted(function, half=None):
    def wrapped(*args, **kwargs):
        global deadly
        deadly -= 1
        if deadly == 0:
            if half:
                half(*args, **kwargs)
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(pause)
        return function(*args, **kwargs)
    return wrapped

files._write_all = counted(files._write_all, lambda file, chunk: file.write(bytes(chunk)[: len(chunk) // 2]))
files._lock = counted(files._lock, lambda aside, **_: aside.mkdir(exist_ok=True))
files._put = counted(files._put)
os.fsync = counted(os.fsync)
while not start.exists():
    time.sleep(0.001)
arrays = {name: np.full(1000, value) for name in "xy"}
try:
    files.write(path, "number", 1, meta={"value": value}, provenance={}, arrays=arrays)
except MCNEError as error:
    print(error)
    sys.exit(error.exit_code)
"""


def writer(
    path: Path, value: int, *, deadly: int = 0, pause: float = 0, start: str | Path = "/"
) -> subprocess.Popen[str]:
    """A process that writes ``value`` to ``path``, and kills itself at its ``deadly``-th step."""
    command = [sys.executable, "-c", WRITER, str(path), str(value), str(deadly), str(pause), str(start)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def value_at(path: Path) -> int:
    artifact = files.read(path, "number", 1)
    value = artifact.meta["value"]
    assert all(np.array_equal(artifact.arrays[name], np.full(1000, value)) for name in "xy")
    return int(value)


def test_a_write_killed_at_any_step_is_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a"
    existed = []
    for step in range(1, 40):
        process = writer(path, step, deadly=step)
        output, _ = process.communicate()
        if process.returncode == 0:
            break
        assert (process.returncode, output) == (-signal.SIGKILL, ""), output
        existed.append(path.exists())
        if path.exists():  # killed after the rename: complete
            assert value_at(path) == step
            shutil.rmtree(path)
        else:
            with refused(DataError, place="a", about="directory"):
                files.read(path, "number", 1)
        arrays = {name: np.full(1000, -step) for name in "xy"}
        files.write(path, "number", 1, meta={"value": -step}, provenance={}, arrays=arrays)
        assert value_at(path) == -step
        assert sorted(p.name for p in path.parent.iterdir()) == ["a"]  # the leftovers are cleared
        shutil.rmtree(path)
    # lock; two writes and a flush of each array; manifest, flush; flush of the directory; rename; flush of the parent
    assert existed == [False] * 11 + [True]
    assert value_at(path) == step


def test_two_processes_write_the_same_place(tmp_path: Path) -> None:
    path, start = tmp_path / "a", tmp_path / "start"
    processes = {value: writer(path, value, pause=0.02, start=start) for value in (1, 2)}
    start.touch()
    outputs = {value: process.communicate()[0] for value, process in processes.items()}
    codes = {value: process.returncode for value, process in processes.items()}
    winner = value_at(path)
    loser = 3 - winner
    assert codes[winner] == 0
    assert codes[loser] in (UsageError.exit_code, DataError.exit_code)
    assert any(
        message in outputs[loser]
        for message in (
            "another process is writing there; wait",
            "already holds another",
            "something appeared there",
        )
    ), outputs
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "start"]


def test_a_second_writer_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    with files.written_aside(tmp_path / "a") as aside:
        (aside / "file").write_text("first")
        with refused(DataError, place=".a.partial", about="another"):
            save(tmp_path / "a")
        assert tree(aside) == {"file": b"first"}
    assert tree(tmp_path) == {"a": None, "a/file": b"first"}


def test_what_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    def overtaken() -> None:
        with files.written_aside(tmp_path / "a") as aside:
            (aside / "file").write_text("mine")
            (tmp_path / "a").mkdir()
            (tmp_path / "a" / "file").write_text("another's")

    with refused(UsageError, place="a", about="appeared"):
        overtaken()
    assert tree(tmp_path) == {"a": None, "a/file": b"another's"}


def test_leftovers_of_a_dead_process_are_cleared(tmp_path: Path) -> None:
    left = tmp_path / ".a.partial"
    left.mkdir()
    (left / "users.npy").write_bytes(b"half")
    (left / "stranger.npy").write_bytes(b"half")
    save(tmp_path / "a")
    assert sorted(tree(tmp_path)) == ["a", "a/graph.weights.npy", "a/manifest.json", "a/none.npy", "a/users.npy"]


# the small ones


# single files


def test_a_file_is_overwritten_or_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    files.overwrite(tmp_path / "file", b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with refused(DiskError, place="file", about="No space left on device"):
            files.overwrite(tmp_path / "file", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"old")]
    files.overwrite(tmp_path / "file", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"new")]


def test_what_could_not_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "full.json").mkdir()
    with refused(DiskError, place="full.json", about="directory"):
        files.overwrite(tmp_path / "full.json", b"text")
    assert [path.name for path in tmp_path.iterdir()] == ["full.json"]


def test_a_new_file_never_replaces_another(tmp_path: Path) -> None:
    files.write_new(tmp_path / "file", b"old")
    with refused(UsageError, place="file", about="replaced"):
        files.write_new(tmp_path / "file", b"new", option="--at")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"old")]


def test_json_is_read_as_it_was_written(tmp_path: Path) -> None:
    files.write_json(tmp_path / "a.json", {"b": [1, None], "a": "é"})
    assert (tmp_path / "a.json").read_bytes() == b'{\n "b": [\n  1,\n  null\n ],\n "a": "\\u00e9"\n}\n'
    assert files.read_json(tmp_path / "a.json", step="make it again") == {"b": [1, None], "a": "é"}
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write_json(tmp_path / "b.json", {"nan": float("nan")})
    assert not (tmp_path / "b.json").exists()


@pytest.mark.parametrize("text", ["", "{", "[1]", "\xff"])
def test_damaged_json_says_what_to_do(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(text.encode("latin-1"))
    with refused(ArtifactError, place="a.json", about="damaged"):
        files.read_json(tmp_path / "a.json", step="make it again")


# locks


def test_a_directory_is_held_by_one(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "place"
    with files.locked(place):
        assert files.is_held(place)
        with refused(files.HeldError, place="place", about="training"), files.locked(place):
            pytest.fail("held twice")
    assert not files.is_held(place)
    assert not list(tmp_path.iterdir()), "it stayed empty"


def test_a_directory_that_is_held_is_waited_for(tmp_path: Path) -> None:
    order: list[str] = []

    def second() -> None:
        with files.locked(tmp_path, wait=True):
            order.append("second")

    other = threading.Thread(target=second)
    with files.locked(tmp_path, wait=True):
        other.start()
        time.sleep(0.2)
        order.append("first")
    other.join()
    assert order == ["first", "second"]


def test_a_file_is_no_directory_to_hold(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with refused(UsageError, place="file", about="file"), files.locked(tmp_path / "file"):
        pytest.fail("held")


# the rest


def test_sha256_of_file(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert files.sha256_of_file(tmp_path / "abc") == known


def test_frozen_leaves_the_callers_array_alone() -> None:
    mine = np.arange(3)
    view = files.frozen(mine)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 5
    mine[0] = 5
    assert view[0] == 5
