"""MATLAB files: what SciPy reads is read the same; what is damaged, foreign or too large is refused."""

from __future__ import annotations

import random
import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from scipy.io import loadmat, savemat
from tests.errors import refused

from mcne.data import matfile
from mcne.data.matfile import read_matrix
from mcne.errors import DataError

TABLE = np.array([[1, 7, 3], [2, 8, 3], [40, 9, 1], [2, 2, 2]], dtype=np.float64)

# MATLAB's numbers: how a matrix is used (its class) and how its values are stored
CLASSES = {"f8": 6, "f4": 7, "i1": 8, "u1": 9, "i2": 10, "u2": 11, "i4": 12, "u4": 13, "i8": 14, "u8": 15}
STORED = {"i1": 1, "u1": 2, "i2": 3, "u2": 4, "i4": 5, "u4": 6, "f4": 7, "f8": 9, "i8": 12, "u8": 13}
MI_INT8, MI_INT32, MI_UINT32, MI_MATRIX, MI_COMPRESSED = 1, 5, 6, 14, 15


def header(order: str = "<", *, version: int = 0x0100) -> bytes:
    return b"MATLAB 5.0 MAT-file, made by hand".ljust(124) + struct.pack(order + "HH", version, 0x4D49)


def part(order: str, kind: int, data: bytes) -> bytes:
    """A sub-element: up to four bytes are packed into the tag, longer ones padded to eight."""
    if len(data) <= 4:
        return struct.pack(order + "I", len(data) << 16 | kind) + data.ljust(4, b"\0")
    return struct.pack(order + "II", kind, len(data)) + data + b"\0" * (-len(data) % 8)


def element(
    name: str,
    table: NDArray[Any],
    *,
    order: str = "<",
    stored: str = "",
    dims: tuple[int, ...] | None = None,
    kind: int | None = None,
) -> bytes:
    """A matrix by the book (MAT-File Format, "Level 5"), whatever its header is told to say."""
    stored = stored or table.dtype.str[1:]
    kind = CLASSES[table.dtype.str[1:]] if kind is None else kind
    shape = table.shape if dims is None else dims
    body = struct.pack(order + "II", MI_UINT32, 8) + struct.pack(order + "II", kind, 0)
    body += part(order, MI_INT32, struct.pack(f"{order}{len(shape)}i", *shape))
    body += part(order, MI_INT8, name.encode())
    body += part(order, STORED[stored], table.astype(order + stored).tobytes(order="F"))
    return struct.pack(order + "II", MI_MATRIX, len(body)) + body


def packed(data: bytes, *, order: str = "<") -> bytes:
    small = zlib.compress(data, 9)
    return struct.pack(order + "II", MI_COMPRESSED, len(small)) + small


def zeros(name: str, n: int) -> bytes:
    return element(name, np.zeros((n, 1), dtype=np.uint8))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rating.mat"


# reading


@pytest.mark.parametrize("study", ["ciao", "epinions"])
@pytest.mark.parametrize("file", ["rating", "rating_with_timestamp", "trustnetwork"])
def test_real_files_equal_scipys_reading(study: str, file: str, raw_data: Path) -> None:
    path = raw_data / study / f"{file}.mat"
    key = file.removesuffix("_with_timestamp")
    table, expected = read_matrix(path, key), loadmat(path)[key]
    assert table.dtype == expected.dtype
    assert np.array_equal(table, expected)
    assert len(table) > 100_000


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", CLASSES)
@pytest.mark.parametrize("name", ["x", "abcd", "abcde", "trustnetwork", "a" * 31])
def test_generated_files_equal_scipys_reading(name: str, dtype: str, compressed: bool, path: Path) -> None:
    table = TABLE.astype(dtype)
    savemat(path, {name: table}, do_compression=compressed)
    read = read_matrix(path, name)
    assert read.dtype == table.dtype
    assert np.array_equal(read, table)
    assert np.array_equal(read, loadmat(path)[name])


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", CLASSES)
@pytest.mark.parametrize("name", ["x", "abcd", "rating"])
def test_files_made_by_hand_in_both_byte_orders(
    name: str, dtype: str, compressed: bool, order: str, path: Path
) -> None:
    table = TABLE.astype(dtype)
    body = element(name, table, order=order)
    path.write_bytes(header(order) + (packed(body, order=order) if compressed else body))
    assert np.array_equal(loadmat(path)[name], table)  # the hand is right
    assert np.array_equal(read_matrix(path, name), table)


@pytest.mark.parametrize("order", "<>")
def test_doubles_stored_as_smaller_numbers_come_as_stored(order: str, path: Path) -> None:
    for stored in ("u1", "i1", "u2", "i4", "f4"):  # MATLAB stores doubles in the smallest type that holds them
        path.write_bytes(header(order) + element("rating", TABLE, order=order, stored=stored))
        read = read_matrix(path, "rating")
        assert read.dtype == np.dtype(stored) == loadmat(path)["rating"].dtype.newbyteorder("=")
        assert np.array_equal(read, TABLE)


@pytest.mark.parametrize("compressed", [False, True])
def test_each_of_several_variables(compressed: bool, path: Path) -> None:
    several: dict[str, np.ndarray] = {
        "x": TABLE,
        "rating": TABLE * 2,
        "trustnetwork": (TABLE * 3).astype(np.int32),
        "none": np.zeros((0, 3)),
    }
    savemat(path, several, do_compression=compressed)
    for name, table in several.items():
        assert np.array_equal(read_matrix(path, name), table)


def test_special_values_are_kept(path: Path) -> None:
    table = np.array([[np.nan, np.inf, -np.inf], [2.0**53 + 2, 5e-324, -0.0]])
    savemat(path, {"rating": table})
    assert read_matrix(path, "rating").tobytes() == loadmat(path)["rating"].tobytes()
    large = np.array([[2**64 - 1, 0]], dtype=np.uint64)
    savemat(path, {"rating": large})
    assert np.array_equal(read_matrix(path, "rating"), large)


OTHERS = {
    "text": "some words",
    "cell": np.array(["a", 1.0], dtype=object),
    "struct": {"a": 1.0, "b": "c"},
    "sparse": sparse.csc_array(TABLE),
}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", OTHERS)
def test_other_variables_are_refused_but_do_no_harm(kind: str, compressed: bool, path: Path) -> None:
    savemat(path, {"before": OTHERS[kind], "rating": TABLE, "after": OTHERS[kind]}, do_compression=compressed)
    assert np.array_equal(read_matrix(path, "rating"), TABLE)
    for name in ("before", "after"):
        with refused(DataError, place="rating.mat", value=name):
            read_matrix(path, name)


def test_opaque_objects_do_no_harm(path: Path) -> None:
    # a MATLAB table or string: class 17, whose header has neither dimensions nor, in that place, a name
    body = struct.pack("<II", MI_UINT32, 8) + struct.pack("<II", 17, 0) + part("<", MI_INT8, b"people") + b"\xff" * 64
    opaque = struct.pack("<II", MI_MATRIX, len(body)) + body
    path.write_bytes(header() + opaque + element("rating", TABLE))
    assert np.array_equal(read_matrix(path, "rating"), TABLE)
    with refused(DataError, place="rating.mat", value="people"):
        read_matrix(path, "people")


def test_complex_and_deeper_arrays_are_refused(path: Path) -> None:
    savemat(path, {"complex": TABLE + 1j, "deep": np.zeros((2, 3, 4))})
    with refused(DataError, place="rating.mat", value="complex"):
        read_matrix(path, "complex")
    with pytest.raises(DataError, match="'deep' has 3 dimensions"):
        read_matrix(path, "deep")


def test_logical_matrices_are_numbers(path: Path) -> None:
    savemat(path, {"rating": TABLE > 2})
    assert np.array_equal(read_matrix(path, "rating"), (TABLE > 2).astype(np.uint8))


def test_a_missing_variable_names_those_found(path: Path) -> None:
    savemat(path, {"ratings": TABLE, "trust": TABLE})
    with refused(DataError, place="rating.mat", value="rating"):
        read_matrix(path, "rating")
    path.write_bytes(header())
    with pytest.raises(DataError, match="it has none"):
        read_matrix(path, "rating")


# what is no MATLAB 5 file


def test_version_4_files(path: Path) -> None:
    savemat(path, {"rating": TABLE}, format="4")
    with refused(DataError, place="rating.mat", about="MATLAB"):
        read_matrix(path, "rating")


def test_version_7_3_files(path: Path) -> None:
    path.write_bytes(header(version=0x0200).ljust(512, b"\0") + b"\x89HDF\r\n\x1a\n" + bytes(1000))
    with refused(DataError, place="rating.mat", about="MATLAB"):
        read_matrix(path, "rating")


@pytest.mark.parametrize("size", [0, 1, 127, 128, 129, 1000, 5000])
def test_garbage(size: int, path: Path) -> None:
    chance = random.Random(size)
    for data in (chance.randbytes(size), b"user,item\n" * (size // 10), bytes(size)):
        path.write_bytes(data)
        with refused(DataError, place="rating.mat", about="MATLAB"):
            read_matrix(path, "rating")
    path.write_bytes(header() + b"\x0e\x00\x00\x00" + chance.randbytes(size))
    with pytest.raises(DataError, match=r"rating\.mat: "):
        read_matrix(path, "rating")


def test_missing_files_and_directories(tmp_path: Path) -> None:
    with refused(DataError, place="nowhere.mat", about="directory"):
        read_matrix(tmp_path / "nowhere.mat", "rating")
    with pytest.raises(DataError, match="Is a directory"):
        read_matrix(tmp_path, "rating")


# damage


@pytest.mark.parametrize(
    "dims",
    [(10_000, 10_000), (2**31 - 1, 2**31 - 1), (-4, 3), (4, -3), (-4, -3), (1 << 20,) * 20, ()],
    ids=lambda dims: "x".join(map(str, dims))[:30] or "none",
)
@pytest.mark.parametrize("compressed", [False, True])
def test_announced_sizes_that_the_data_cannot_fill(dims: tuple[int, ...], compressed: bool, path: Path) -> None:
    body = element("rating", TABLE, dims=dims)
    path.write_bytes(header() + (packed(body) if compressed else body))
    tracemalloc.start()
    with refused(DataError, place="rating.mat", value="rating"):
        read_matrix(path, "rating")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


@pytest.mark.parametrize("dims", [(5, 3), (3, 3), (0, 0), (96, 1), (12, 8)], ids=str)
def test_announced_sizes_that_the_data_do_not_match(dims: tuple[int, ...], path: Path) -> None:
    path.write_bytes(header() + element("rating", TABLE, dims=dims))
    expected = rf"rating\.mat: 'rating' claims {dims[0]}×{dims[1]} values of 8 bytes in 96 B;"
    with pytest.raises(DataError, match=expected):
        read_matrix(path, "rating")


@pytest.mark.parametrize("kind", [0, 8, 10, 11, 14, 15, 18, 255, 65535])
def test_values_of_an_unknown_type(kind: int, path: Path) -> None:
    good = element("rating", TABLE)
    at = len(good) - 96 - 8  # the tag of the values
    path.write_bytes(header() + good[:at] + struct.pack("<I", kind) + good[at + 4 :])
    with refused(DataError, place="rating.mat", about=f"values of unknown type {kind}"):
        read_matrix(path, "rating")


def file_of(tmp_path: Path, compressed: bool) -> bytes:
    savemat(tmp_path / "whole.mat", {"rating": TABLE}, do_compression=compressed)
    return (tmp_path / "whole.mat").read_bytes()


@pytest.mark.parametrize("compressed", [False, True])
def test_every_truncation_is_refused(compressed: bool, tmp_path: Path, path: Path) -> None:
    whole = file_of(tmp_path, compressed)
    assert 200 < len(whole) < 400
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with refused(DataError, place="rating.mat"):
            read_matrix(path, "rating")


@pytest.mark.parametrize("compressed", [False, True])
def test_truncations_of_a_real_file_are_refused(compressed: bool, raw_data: Path, tmp_path: Path, path: Path) -> None:
    whole = (raw_data / "ciao" / "trustnetwork.mat").read_bytes()
    if not compressed:
        savemat(
            tmp_path / "plain.mat", {"trustnetwork": loadmat(raw_data / "ciao" / "trustnetwork.mat")["trustnetwork"]}
        )
        whole = (tmp_path / "plain.mat").read_bytes()
    chance = random.Random(3)
    for _ in range(30):
        path.write_bytes(whole[: chance.randrange(len(whole))])
        with pytest.raises(DataError, match=r"rating\.mat: "):
            read_matrix(path, "trustnetwork")


@pytest.mark.parametrize("compressed", [False, True])
def test_flipped_bytes_give_a_table_or_a_refusal(compressed: bool, tmp_path: Path, path: Path) -> None:
    whole = file_of(tmp_path, compressed)
    chance = random.Random(4)
    refusals = []
    for at in [*range(116, len(whole)), *chance.choices(range(len(whole)), k=200)]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ chance.randrange(1, 256)]) + whole[at + 1 :])
        try:
            table = read_matrix(path, "rating")
        except DataError as error:
            refusals.append(str(error))
        else:
            assert table.shape == TABLE.shape
            assert table.dtype.kind in "iuf"
    assert len(refusals) > 50
    assert all(f"{path}: " in refusal for refusal in refusals)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300), matrix=st.booleans(), compressed=st.booleans())
def test_arbitrary_elements_are_refused(data: bytes, matrix: bool, compressed: bool, path: Path) -> None:
    body = struct.pack("<II", MI_MATRIX, len(data)) + data if matrix else data
    path.write_bytes(header() + (packed(body) if compressed else body))
    with pytest.raises(DataError, match=r"rating\.mat: "):
        read_matrix(path, "rating")


def test_damaged_compressed_data(path: Path) -> None:
    good = bytearray(header() + packed(element("rating", TABLE)))
    good[-1] ^= 1  # its checksum
    path.write_bytes(good)
    with refused(DataError, place="rating.mat", about="compressed"):
        read_matrix(path, "rating")
    short = zlib.compress(element("rating", TABLE))[:-6]
    path.write_bytes(header() + struct.pack("<II", MI_COMPRESSED, len(short)) + short)
    with pytest.raises(DataError, match=r"rating\.mat: .*ends too early; download it again"):
        read_matrix(path, "rating")


# bombs


def allowed(file: bytes) -> int:
    return (1 << 20) + 100 * len(file)


def largest_allowed() -> int:
    """The most rows of zeros, in steps of 8, whose element the limit lets pass."""
    low, high = 1 << 17, 1 << 18  # in steps of 8
    assert len(zeros("rating", 8 * low)) <= allowed(header() + packed(zeros("rating", 8 * low)))
    assert len(zeros("rating", 8 * high)) > allowed(header() + packed(zeros("rating", 8 * high)))
    while high - low > 1:
        middle = (low + high) // 2
        body = zeros("rating", 8 * middle)
        if len(body) <= allowed(header() + packed(body)):
            low = middle
        else:
            high = middle
    return 8 * low


def test_the_limit_is_where_it_says(path: Path) -> None:
    most = largest_allowed()
    path.write_bytes(header() + packed(zeros("rating", most)))
    assert read_matrix(path, "rating").shape == (most, 1)
    path.write_bytes(header() + packed(zeros("rating", most + 8)))
    with refused(DataError, place="rating.mat", about="expands"):
        read_matrix(path, "rating")


def bomb(size: int) -> bytes:
    """A matrix of ``size`` zeros, packed a thousand to one without ever holding them."""
    start = zeros("rating", 0)
    small = zlib.compressobj(9)
    data = small.compress(start)
    for _ in range(size >> 20):
        data += small.compress(bytes(1 << 20))
    data += small.flush()
    return struct.pack("<II", MI_COMPRESSED, len(data)) + data


def peak_of_refusal(path: Path) -> int:
    tracemalloc.start()
    try:
        with refused(DataError, place="rating.mat", about="expands"):
            read_matrix(path, "rating")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_bomb_does_not_fill_the_memory(path: Path) -> None:
    path.write_bytes(header() + bomb(128 << 20))
    assert path.stat().st_size < 140_000  # a thousand to one
    assert peak_of_refusal(path) < 40 << 20  # 14 MiB are allowed, and joined from pieces


def test_many_small_bombs_do_not_either(path: Path) -> None:
    small = packed(zeros("other", 1 << 20))
    path.write_bytes(header() + element("rating", TABLE) + small * 64)
    assert peak_of_refusal(path) < 24 << 20  # 64 MiB in all, 8 allowed


def test_plain_elements_do_not_open_the_limit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # spend the limit to the last byte and one more: what is left must not turn into "no limit"
    first = zeros("first", 5000)
    plain = element("plain", TABLE)
    for spent in (len(first), len(first) + len(plain) - 1, len(first) + len(plain)):
        monkeypatch.setattr(matfile, "MAX_EXPANDED", spent)
        path.write_bytes(header() + packed(first) + plain + bomb(32 << 20))
        assert peak_of_refusal(path) < 4 << 20


def test_nested_compression_is_not_followed(path: Path) -> None:
    path.write_bytes(header() + packed(packed(zeros("rating", 1 << 16))))
    with refused(DataError, place="rating.mat", value="rating"):
        read_matrix(path, "rating")


def test_files_too_large_are_not_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    savemat(path, {"rating": TABLE})
    monkeypatch.setattr(matfile, "MAX_FILE", path.stat().st_size)
    assert np.array_equal(read_matrix(path, "rating"), TABLE)
    monkeypatch.setattr(matfile, "MAX_FILE", path.stat().st_size - 1)
    with refused(DataError, place="rating.mat", about="28"):
        read_matrix(path, "rating")
