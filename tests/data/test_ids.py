"""Raw ids to rows and back: every shortcut gives what a dictionary over the sorted distinct ids gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.errors import refused

from mcne.data.ids import CANONICAL_INTEGER, DENSE_RANGE, Ids, encode
from mcne.errors import UnknownError, UsageError

FEW = settings(max_examples=60, deadline=None)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
INTEGERS = st.integers(-(2**63), 2**63 - 1)


def slow_encode(*columns: list[Any]) -> tuple[list[Any], list[list[int]]]:
    distinct = sorted({raw for column in columns for raw in column})
    rows = {raw: row for row, raw in enumerate(distinct)}
    return distinct, [[rows[raw] for raw in column] for column in columns]


def check(given_columns: list[Any], values: list[list[Any]], kind: str) -> None:
    """``encode`` of the columns equals the dictionary's answer for their values."""
    ids, rows = encode(*given_columns)
    distinct, expected = slow_encode(*values)
    assert list(ids) == distinct
    assert [column.tolist() for column in rows] == expected
    assert all(column.dtype == np.int32 for column in rows)
    assert ids.kind == kind


# --- Ids ---


def test_integer_ids() -> None:
    ids = Ids(np.array([-4, 7, 1_000_000_000_000]))
    assert (ids.kind, len(ids)) == ("integer", 3)
    assert list(ids) == [-4, 7, 1_000_000_000_000]
    assert (ids[0], ids[-1], ids[1:]) == (-4, 1_000_000_000_000, [7, 1_000_000_000_000])
    assert all(type(raw) is int for raw in ids)
    assert ids.take(np.array([2, 0, 2])) == [1_000_000_000_000, -4, 1_000_000_000_000]
    assert ids.rows([7, 8, -4, 1_000_000_000_000]).tolist() == [1, -1, 0, 2]
    assert ids.rows(np.array([1_000_000_000_001])).tolist() == [-1]
    assert ids.row(7) == ids.row("7") == 1
    assert 7 in ids
    assert 8 not in ids


def test_text_ids() -> None:
    ids = Ids(["", "Zoë", "anna", "bob"])
    assert (ids.kind, len(ids)) == ("text", 4)
    assert list(ids) == ["", "Zoë", "anna", "bob"]
    assert (ids[1], ids[-1], ids[::2]) == ("Zoë", "bob", ["", "anna"])
    assert all(type(raw) is str for raw in ids)
    assert ids.take(np.array([3, 1, 3])) == ["bob", "Zoë", "bob"]
    assert ids.rows(["bob", "Bob", ""]).tolist() == [3, -1, 0]
    assert ids.rows(pa.chunked_array([["anna"], ["nobody"]])).tolist() == [2, -1]
    assert ids.row("Zoë") == 1
    assert Ids(["12", "7"]).row(7) == 1  # an integer finds the text that spells it


@pytest.mark.parametrize("row", [3, -4])
def test_a_row_that_is_not_there_is_an_index_error(row: int) -> None:
    for ids in (Ids(np.array([1, 2, 3])), Ids(["a", "b", "c"])):
        with pytest.raises(IndexError, match=f"row {row} of 3 ids"):
            ids[row]


@pytest.mark.parametrize(
    "values",
    [np.array([2, 1]), np.array([1, 1]), ["b", "a"], ["a", "a"], pa.array(["b", "a"], pa.large_string())],
    ids=["integers", "repeated integers", "text", "repeated text", "arrow"],
)
def test_unsorted_or_repeated_ids_are_refused(values: Any) -> None:
    with pytest.raises(ValueError, match="sorted and unique"):
        Ids(values)


def test_equality_needs_the_same_kind_and_the_same_ids() -> None:
    assert Ids(np.array([1, 2])) == Ids(np.array([1, 2], dtype=np.int8))
    assert Ids(["1", "2"]) == Ids(pa.array(["0", "1", "2"], pa.large_string())[1:])
    assert Ids(np.array([1, 2])) != Ids(["1", "2"])
    assert Ids(np.array([1, 2])) != Ids(np.array([1, 3]))
    assert Ids(["1", "2"]) != Ids(["1", "3"])
    assert Ids(["1"]) != ["1"]


def test_repr_shows_how_many_and_which() -> None:
    assert repr(Ids(np.arange(5000))) == "Ids(5,000 integer: 0, 1, 2, …)"
    assert repr(Ids(["a", "b"])) == "Ids(2 text: 'a', 'b')"


@pytest.mark.parametrize("ids", [Ids(np.zeros(0, np.int64)), Ids([])], ids=["integer", "text"])
def test_no_ids(ids: Ids) -> None:
    assert (len(ids), list(ids), ids[:], ids.take(np.zeros(0, np.int64))) == (0, [], [], [])
    assert ids.rows([3, 4]).tolist() == [-1, -1]
    assert Ids.from_arrays(ids.arrays("x"), "x") == ids
    with refused(UsageError, value=3):
        ids.row(3, what="user")


def test_the_nearest_ids_are_found_among_many() -> None:
    """Also far from the first ones: ids are looked for around the place that they would have."""
    text = Ids([f"user{number:06}" for number in range(100_000)])
    with pytest.raises(UnknownError) as unknown:
        text.row("user099999x", what="user")
    assert "user099999" in unknown.value.allowed
    integers = Ids(np.arange(100_000))
    with pytest.raises(UnknownError) as unknown:
        integers.row("99999x", what="user")
    assert "99999" in unknown.value.allowed


def test_an_unknown_id_names_the_nearest() -> None:
    with pytest.raises(UsageError) as text:
        Ids(["alice", "bob"]).row("alicia", what="user")
    assert str(text.value) == "unknown user 'alicia'; did you mean alice? The data has 2 users, from 'alice' to 'bob'"
    with pytest.raises(UsageError) as integer:
        Ids(np.array([1, 1234, 99999])).row("1235")
    assert str(integer.value) == "unknown id '1235'; did you mean 1234? The data has 3 ids, from 1 to 99999"
    with pytest.raises(UsageError, match=r"unknown id 'xyz'; the data has 3 ids, from 1 to 99999$"):
        Ids(np.array([1, 1234, 99999])).row("xyz")


@pytest.mark.parametrize("raw", ["007", "+7", " 7", "7.0", "", 2**70, "9" * 30])
def test_text_that_spells_no_known_integer_in_the_one_way_is_unknown(raw: int | str) -> None:
    with pytest.raises(UsageError, match="unknown id"):
        Ids(np.array([0, 7])).row(raw)


@settings(max_examples=300, deadline=None)
@given(
    st.integers(-(10**19), 10**19).map(str)
    | st.integers(-50, 50).map(lambda step: str(2**63 - 1 + step))
    | st.integers(-50, 50).map(lambda step: str(1 - 2**63 + step))
    | st.tuples(st.integers(0, 18), st.integers(-9, 9)).map(lambda at: str(2**63 - 1 + at[1] * 10 ** at[0]))
    | st.text("-+0129 .", max_size=4)
)
def test_text_is_an_integer_where_python_would_write_it_so_in_64_bits(text: str) -> None:
    is_match = pc.match_substring_regex(pa.array([text]), CANONICAL_INTEGER)[0].as_py()
    try:
        number = int(text)
    except ValueError:
        assert not is_match
    else:
        assert is_match == (str(number) == text and abs(number) < 2**63)


def test_integers_are_never_found_by_rounding() -> None:
    ids = Ids(np.array([2**60, 2**60 + 1, 2**60 + 2, 2**63 - 1]))
    for kind in (np.int64, np.uint64):
        assert ids.rows(np.array([2**60 + 1, 2**60 + 3, 2**63 - 1], dtype=kind)).tolist() == [1, -1, 3]
    assert ids.rows(np.array([2**63], dtype=np.uint64)).tolist() == [-1]
    assert Ids(np.array([-1, 5])).rows(np.array([2**64 - 1, 5], dtype=np.uint64)).tolist() == [-1, 1]
    assert ids.rows([7.0, 2.0**60]).tolist() == [-1, -1]


@FEW
@given(st.sets(TEXT), st.sets(TEXT))
def test_text_order_is_pythons(known: set[str], wanted: set[str]) -> None:
    ids = Ids(sorted(known))  # refused if Arrow and Python disagreed about the order
    assert list(ids) == sorted(known)
    rows = {raw: row for row, raw in enumerate(sorted(known))}
    assert ids.rows(sorted(wanted)).tolist() == [rows.get(raw, -1) for raw in sorted(wanted)]


@FEW
@given(st.sets(INTEGERS), st.sets(INTEGERS))
def test_integer_rows_equal_a_dictionary(known: set[int], wanted: set[int]) -> None:
    ids = Ids(np.array(sorted(known), dtype=np.int64))
    rows = {raw: row for row, raw in enumerate(sorted(known))}
    both = sorted(known | wanted)
    assert ids.rows(np.array(both, dtype=np.int64)).tolist() == [rows.get(raw, -1) for raw in both]


def test_characters_beyond_the_basic_plane_stand_in_pythons_order() -> None:
    # UTF-16 order, as in Java or JavaScript, would put the emoji before the last private-use character
    assert list(Ids(["\ue000", "\uffff", "😀"])) == ["\ue000", "\uffff", "😀"]


@FEW
@given(st.sets(TEXT, min_size=1), st.data())
def test_stored_text_reads_back_from_any_slice(known: set[str], data: st.DataObject) -> None:
    whole = pa.array(sorted(known), pa.large_string())
    start = data.draw(st.integers(0, len(whole)))
    stop = data.draw(st.integers(start, len(whole)))
    ids = Ids(whole[start:stop])
    arrays = ids.arrays("user")
    assert sorted(arrays) == ["user.offsets", "user.utf8"]
    assert arrays["user.offsets"][0] == 0
    assert bytes(arrays["user.utf8"]) == "".join(sorted(known)[start:stop]).encode()  # not a byte of its neighbors
    back = Ids.from_arrays(arrays, "user")
    assert back == ids
    assert list(back) == sorted(known)[start:stop]
    assert Ids.from_arrays(back.arrays("again"), "again") == ids


def test_nothing_is_copied_on_the_way_to_the_disk_and_back() -> None:
    for ids in (Ids(["a", "bc"]), Ids(np.array([3, 5]))):
        stored = ids.arrays("x")
        again = Ids.from_arrays(stored, "x").arrays("x")
        assert all(np.shares_memory(stored[name], again[name]) for name in stored)


def test_ids_cannot_be_changed_and_leave_the_callers_array_alone() -> None:
    raw = np.array([3, 5])
    ids = Ids(raw)
    with pytest.raises(ValueError, match="read-only"):
        ids.arrays("x")["x"][0] = 4
    assert raw.flags.writeable


def test_integers_are_stored_as_they_are() -> None:
    ids = Ids(np.array([3, 5]))
    arrays = ids.arrays("item")
    assert list(arrays) == ["item"]
    assert arrays["item"].dtype == np.int64
    assert Ids.from_arrays(arrays, "item") == ids


def test_subset_keeps_the_order() -> None:
    rows = np.array([0, 2])
    assert list(Ids(np.array([3, 5, 9])).subset(rows)) == [3, 9]
    assert list(Ids(["a", "b", "c"]).subset(rows)) == ["a", "c"]
    with pytest.raises(ValueError, match="sorted"):
        Ids(["a", "b", "c"]).subset(np.array([2, 0]))


def test_arrow_gives_the_ids_of_rows() -> None:
    assert Ids(np.array([3, 5])).arrow(np.array([1, 1, 0])).to_pylist() == [5, 5, 3]
    assert Ids(["a", "b"]).arrow(np.array([1, 1, 0])).to_pylist() == ["b", "b", "a"]
    assert Ids(["a", "b"]).arrow().to_pylist() == ["a", "b"]


# --- encode ---


@FEW
@given(st.lists(st.lists(st.integers(-300, 300)), min_size=1, max_size=4))
def test_dense_integers(columns: list[list[int]]) -> None:
    check([np.array(column, dtype=np.int64) for column in columns], columns, "integer")


@FEW
@given(st.lists(st.lists(INTEGERS, max_size=20), min_size=1, max_size=4))
def test_sparse_integers(columns: list[list[int]]) -> None:
    check([np.array(column, dtype=np.int64) for column in columns], columns, "integer")


@FEW
@given(st.data())
def test_integers_of_any_width(data: st.DataObject) -> None:
    """Columns of different widths and signs, as MATLAB files hold them, are numbered together."""
    columns, values = [], []
    for kind in data.draw(st.lists(st.sampled_from(["int8", "uint8", "int16", "uint16", "int32", "int64", "uint64"]))):
        low, high = max(np.iinfo(kind).min, -(2**40)), min(np.iinfo(kind).max, 2**40)
        values.append(data.draw(st.lists(st.integers(low, high), max_size=10)))
        columns.append(np.array(values[-1], dtype=kind))
    check(columns, values, "integer")


@pytest.mark.parametrize("gap", [DENSE_RANGE - 1, DENSE_RANGE, DENSE_RANGE + 1])
def test_both_sides_of_the_dense_limit(gap: int) -> None:
    values = [[5 + gap, 5, 6], [5]]
    check([np.array(column) for column in values], values, "integer")


@FEW
@given(st.lists(st.lists(TEXT), min_size=1, max_size=4))
def test_text(columns: list[list[str]]) -> None:
    check([pa.array(column, pa.string()) for column in columns], columns, "text")
    check([pa.array(column, pa.large_string()) for column in columns], columns, "text")


@FEW
@given(st.lists(st.lists(TEXT, max_size=5), max_size=4), st.lists(TEXT, max_size=5), st.booleans())
def test_chunked_text(chunks: list[list[str]], other: list[str], coded: bool) -> None:
    column = pa.chunked_array([pa.array(chunk, pa.string()) for chunk in chunks], pa.string())
    column = column.dictionary_encode() if coded else column  # each chunk may then have a dictionary of its own
    values = [[raw for chunk in chunks for raw in chunk], other]
    check([column, pa.array(other, pa.string())], values, "text")


@FEW
@given(st.sets(TEXT, min_size=1), st.data())
def test_dictionaries_with_values_that_no_row_has(known: set[str], data: st.DataObject) -> None:
    listed = data.draw(st.permutations(sorted(known)))
    codes = data.draw(st.lists(st.integers(0, len(listed) - 1)))
    column = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(listed, pa.string()))
    check([column], [[listed[code] for code in codes]], "text")


@FEW
@given(st.sets(st.integers(-(2**40), 2**40), min_size=1), st.lists(st.integers(-(2**40), 2**40)), st.data())
def test_coded_integers_beside_plain_ones(known: set[int], plain: list[int], data: st.DataObject) -> None:
    listed = data.draw(st.permutations(sorted(known)))
    codes = data.draw(st.lists(st.integers(0, len(listed) - 1)))
    column = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(listed, pa.int64()))
    check([column, np.array(plain, dtype=np.int64)], [[listed[code] for code in codes], plain], "integer")


def test_a_dictionary_that_lists_a_value_twice() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([2, 1, 0], pa.int32()), pa.array(["b", "a", "b"]))
    check([column], [["b", "a", "b"]], "text")


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_empty_integer_columns(kind: type[np.integer[Any]]) -> None:
    nothing: np.ndarray = np.zeros(0, dtype=kind)
    check([nothing], [[]], "integer")
    check([nothing, np.array([1000, 2000]), nothing], [[], [1000, 2000], []], "integer")
    check([nothing, np.array([-(2**62), 2**62])], [[], [-(2**62), 2**62]], "integer")


def test_empty_text_columns() -> None:
    nothing = pa.array([], pa.string())
    check([nothing, pa.chunked_array([], pa.string())], [[], []], "text")
    check([nothing, pa.array(["b", "a"])], [[], ["b", "a"]], "text")


def test_row_order_never_changes_the_numbers() -> None:
    column = np.array([9, -3, 9, 4])
    ids, (rows,) = encode(column)
    again, (reversed_rows,) = encode(column[::-1])
    assert ids == again
    assert rows.tolist() == reversed_rows.tolist()[::-1] == [2, 0, 2, 1]
