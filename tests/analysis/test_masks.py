"""Overlap against chance: by hand, by all masks there are, and by what is planted."""

from __future__ import annotations

import json
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.errors import refused

from mcne.analysis.masks import mask_epochs, mask_numbers, overlap
from mcne.data.graph import undirected
from mcne.data.ids import Ids
from mcne.embeddings.artifact import BehaviorSpace, ConditionalEmbeddings
from mcne.embeddings.explanation import OTHER
from mcne.embeddings.trunk import Trunk
from mcne.errors import UsageError

MASKS = st.integers(1, 8).flatmap(
    lambda width: st.tuples(*[st.lists(st.booleans(), min_size=width, max_size=width)] * 2)
)


def mask(text: str) -> NDArray[np.bool_]:
    return np.array([one == "1" for one in text])


def embeddings(
    masks: list[list[str]], *, users: NDArray[Any] | None = None, added: dict[str, list[str]] | None = None
) -> ConditionalEmbeddings:
    """Three users with these masks, a list per level and a text per row, the last of which is of no behavior.

    Of behaviors that were ``added`` later a text per level, as the provenance tells them.
    """
    levels = [np.array([mask(row) for row in level]) for level in masks]
    vectors = np.ones((3, levels[-1].shape[1])) if users is None else users
    nobody = np.zeros(0, dtype=np.int32)

    def space(name: str, own: NDArray[np.bool_], user_vectors: NDArray[np.float32] | None = None) -> BehaviorSpace:
        items = np.zeros((1, len(own)), np.float32)
        seen = np.zeros(4, np.int64)
        return BehaviorSpace(name, own, Ids(np.array([7])), items, seen, nobody, None, user_vectors)

    spaces = [space(f"behavior {k}", row) for k, row in enumerate(levels[-1][:-1])]
    extra = np.ones((3, levels[-1].shape[1]), np.float32)
    spaces += [space(name, mask(texts[-1]), extra) for name, texts in (added or {}).items()]
    told = {"added": {name: {"control": "none", "masks": texts} for name, texts in added.items()}} if added else {}
    below = tuple(np.ones((3, level.shape[1]), np.float32) for level in levels[:-1])
    combine = tuple(np.ones((up.shape[1], 2 * low.shape[1]), np.float32) for low, up in pairwise(levels))
    trunk = Trunk(below, tuple(levels), None, combine)
    return ConditionalEmbeddings(
        Ids(np.arange(3)),
        vectors.astype(np.float32),
        tuple(spaces),
        undirected(3, nobody, nobody)[0],
        trunk,
        {"method": "mcne", **told},
    )


def test_an_overlap_by_hand() -> None:
    """Of 5 dimensions two masks have 2 each; random ones share 0, 1 or 2 with chances 3/10, 6/10 and 1/10."""
    pair = overlap(mask("11000"), mask("11000"))
    assert (pair.shared, pair.chance, pair.jaccard) == (2, 0.8, 1.0)
    assert pair.chance_jaccard == pytest.approx(0.6 / 3 + 0.1)
    assert pair.p == pytest.approx(2 * 0.1)
    assert overlap(mask("11000"), mask("00110")).p == pytest.approx(2 * 0.3)
    assert overlap(mask("11000"), mask("01100")).p == 1.0  # both tails hold more than half


@given(MASKS)
def test_chance_is_what_all_masks_of_that_size_give(both: tuple[list[bool], list[bool]]) -> None:
    """Every mask with as many ones as the second is as likely."""
    first, second = (np.array(each) for each in both)
    every = []
    for ones in combinations(range(len(second)), int(second.sum())):
        drawn = np.isin(np.arange(len(second)), ones)
        either = np.count_nonzero(first | drawn)
        every.append((np.count_nonzero(first & drawn), np.count_nonzero(first & drawn) / either if either else 1.0))
    shared, jaccard = np.array(every).T
    pair = overlap(first, second)
    assert pair.chance == pytest.approx(shared.mean())
    assert pair.chance_jaccard == pytest.approx(jaccard.mean())
    tail = min(np.mean(shared <= pair.shared), np.mean(shared >= pair.shared))
    assert pair.p == pytest.approx(min(1.0, 2 * tail))


def test_random_masks_are_rarely_beyond_chance_and_planted_ones_are() -> None:
    random = np.random.default_rng(0)
    drawn = [overlap(*(random.random((2, 60)) < 0.5)).p for _ in range(400)]
    assert np.mean(np.array(drawn) < 0.05) <= 0.06
    one = random.random(60) < 0.5
    assert overlap(one, one ^ (random.random(60) < 0.1)).p < 1e-4
    assert overlap(one, ~one).p < 1e-4


def test_numbers_of_every_level() -> None:
    numbers = mask_numbers(embeddings([["1100", "0110", "0011"], ["11111", "10000", "00001"]]))
    assert [level.names for level in numbers.levels] == [("behavior 0", "behavior 1", OTHER)] * 2
    assert [level.width for level in numbers.levels] == [4, 5]
    assert numbers.entries == 3 * 4 + 3 * 5
    assert numbers.levels[1].density == {"behavior 0": 1.0, "behavior 1": 0.2, OTHER: 0.2}
    shared = {(pair.first, pair.second): pair.shared for pair in numbers.levels[0].overlaps}
    assert shared == {("behavior 0", "behavior 1"): 1, ("behavior 0", OTHER): 0, ("behavior 1", OTHER): 1}
    assert numbers.to_json()["levels"][0]["masks"] == {"behavior 0": "1100", "behavior 1": "0110", OTHER: "0011"}
    assert numbers.training == ()
    assert numbers.best_epoch is None
    assert json.loads(json.dumps(numbers.to_json(), allow_nan=False)) == numbers.to_json()


def test_holm_corrects_over_the_pairs_of_all_levels() -> None:
    """Nine pairs in three levels: the smallest p is taken nine times."""
    same = ["1" * 10 + "0" * 10] * 3
    other = ["10" * 10, "1100" * 5, "0" * 19 + "1"]
    numbers = mask_numbers(embeddings([other, same, other]))
    pairs = [pair for level in numbers.levels for pair in level.overlaps]
    least = min(pair.p for pair in pairs)
    assert least < 1e-4
    assert [pair.holm_p for pair in numbers.levels[1].overlaps] == pytest.approx([9 * least] * 3)
    assert all(pair.holm_p >= pair.p for pair in pairs)


def test_dimensions_that_are_zero_for_every_user_are_left_out() -> None:
    """The masks agree where nothing is, and differ where something is."""
    users = np.array([[1, 0, 0, 0, 2], [0, 0, 3, 0, 1], [0, 0, 0, 0, 1]])
    last = mask_numbers(embeddings([["1"] * 3, ["11010", "01111", "00000"]], users=users)).levels[-1]
    assert last.used == (True, False, True, False, True)
    assert (last.overlaps[0].shared, last.overlaps_in_use[0].shared) == (2, 0)
    assert last.overlaps_in_use[0].chance == pytest.approx(1 * 2 / 3)
    assert last.density_in_use == {"behavior 0": 1 / 3, "behavior 1": 2 / 3, OTHER: 0.0}


def test_vectors_that_are_all_zero_leave_nothing_to_compare() -> None:
    last = mask_numbers(embeddings([["1"] * 3, ["110", "011", "001"]], users=np.zeros((3, 3)))).levels[-1]
    assert last.overlaps_in_use == ()
    assert set(last.density_in_use.values()) == {None}
    json.dumps(last.to_json(), allow_nan=False)


LATER = [["10", "01", "11"], ["1100", "0011", "0101"], ["100", "010", "111"]]


def test_a_behavior_that_was_added_has_a_mask_at_every_level() -> None:
    added = {"Sports": ["01", "0110", "011"], "Games": ["11", "1010", "101"]}
    numbers = mask_numbers(embeddings(LATER, added=added))
    assert numbers.added == ("Sports", "Games")
    for k, level in enumerate(numbers.levels):
        assert level.names == ("behavior 0", "behavior 1", "Sports", "Games", OTHER)
        rows = [*LATER[k][:2], added["Sports"][k], added["Games"][k], LATER[k][2]]
        assert list(level.to_json()["masks"].values()) == rows
        assert len(level.overlaps) == 10
    assert numbers.levels[1].density["Games"] == 0.5
    shared = {(pair.first, pair.second): pair.shared for pair in numbers.levels[0].overlaps}
    assert shared["Sports", "Games"] == 1
    assert shared["behavior 0", "Sports"] == 0
    assert numbers.to_json()["added"] == ["Sports", "Games"]


def test_a_behavior_on_whole_vectors_has_a_mask_at_the_last_level_alone() -> None:
    numbers = mask_numbers(embeddings(LATER, added={"Sports": ["111"], "Games": ["11", "1010", "101"]}))
    assert [level.names[2:-1] for level in numbers.levels] == [("Games",), ("Games",), ("Sports", "Games")]
    assert numbers.levels[1].to_json()["masks"]["Games"] == "1010"


@pytest.mark.parametrize(
    ("texts", "entries"), [({"Sports": ["01", "0110", "011"]}, 2 + 4 + 3), ({"Sports": ["111"]}, 3), (None, 3 * 9)]
)
def test_the_training_is_of_the_behavior_that_came_last(texts: dict[str, list[str]] | None, entries: int) -> None:
    """Its records tell of its own masks: a flip is one of their entries."""
    added = {"Before": ["10", "1001", "110"], **texts} if texts else None
    records = [{"epoch": 1, "loss": {}, "mask_flips": 3.0, "mask_density_0": 0.5}]
    numbers = mask_numbers(embeddings(LATER, added=added), records, best_epoch=1)
    assert [(each.epoch, each.flips, each.density) for each in numbers.training] == [(1, 3, (0.5,))]
    assert (numbers.best_epoch, numbers.entries) == (1, entries)


def test_what_records_tell_of_masks() -> None:
    records = [
        {"epoch": 1, "loss": {}, "mask_flips": 3.0, "mask_density_0": 0.5, "mask_density_1": 0.25},
        {"epoch": 2, "loss": {}, "mask_flips": 9.0, "mask_density_0": 0.4, "mask_density_1": 0.5},
    ]
    first, second = mask_epochs(records)
    assert (first.epoch, first.flips, first.density) == (1, 3, (0.5, 0.25))
    assert (second.epoch, second.flips, second.density) == (2, 9, (0.4, 0.5))
    assert mask_epochs([{"epoch": 1, "loss": {}}]) == ()


def test_a_method_without_masks_is_refused() -> None:
    made = embeddings([["1"] * 3, ["11", "11", "11"]])
    plain = ConditionalEmbeddings(made.users, made.vectors, made.spaces, made.graph, None, {"method": "bpr"})
    with refused(UsageError, value="bpr"):
        mask_numbers(plain)
