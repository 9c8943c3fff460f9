"""The distinct numbers of a step and where each is used, found on a GPU by putting them in order.

How many distinct ones there are is never known to the host: all sizes are those of the most that there can be, and
what is not used is filled up.

Legend: L keys below ``none``. Put in order they are ``ordered``, and ``order`` is where each of them comes from; those
of a row are from ``start`` to before ``stop``. What is ``other_…`` is of a second kind of keys, after the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from mcne.kernels.backend import block
from mcne.kernels.rows import Groups

AT_ONCE = 256
NOBODY = -1

FEW = 4096
"""Keys up to which each is compared with all others: sorting so few takes as long as sorting many."""

PLACED_AT_ONCE = 16
FEW_WARPS = 16

SIZES = ["length", "other_length", "most", "other_most", "none", "other_none"]
"""Of two kinds of keys. Triton takes a number that is 1 for a constant, in whose place no other could be taken."""


@dataclass(frozen=True)
class Distinct:
    """What :func:`mcne.sampling.neighbors.distinct` finds on the host, and the places of each number."""

    keys: Tensor  # [most] the distinct keys, increasing, then NOBODY
    rows: Tensor  # [L] the row of each key among these, 0 where there is no key
    groups: Groups  # of [most] rows


@triton.jit(do_not_specialize=SIZES)
def _place(keys, ordered, order, length, other_length, none, other_none, block_i: tl.constexpr, block: tl.constexpr):
    """Count the keys of its kind that come before each; ``order`` is counted from the first of each kind."""
    part = tl.program_id(0)
    n_first = tl.cdiv(length, block_i)
    if part >= n_first:
        part, keys, ordered, order = part - n_first, keys + length, ordered + length, order + length
        length, none = other_length, other_none
    i, j = part * block_i + tl.arange(0, block_i), tl.arange(0, block)
    key = tl.load(keys + i, mask=i < length, other=none)
    before = tl.zeros((block_i,), tl.int32)
    for some in range(0, length, block):
        other = tl.load(keys + some + j, mask=some + j < length, other=none)[None, :]
        is_earlier = (some + j)[None, :] < i[:, None]
        is_before = (other < key[:, None]) | ((other == key[:, None]) & is_earlier)
        before += tl.sum(is_before.to(tl.int32), axis=1)
    tl.store(ordered + before, key, mask=i < length)
    tl.store(order + before, i.to(tl.int64), mask=i < length)


@triton.jit(do_not_specialize=SIZES)
def _assign_few(
    ordered,
    order,
    distinct_keys,  # [most₀ + most₁] out
    rows,  # [L₀ + L₁] out
    start,  # [most₀ + most₁] out
    stop,  # [most₀ + most₁] out
    length,
    other_length,
    most,
    other_most,
    none,
    other_none,
    block: tl.constexpr,  # that holds all keys of a kind, and all rows
):
    """All that :class:`Distinct` says, a program for each kind."""
    if tl.program_id(0) == 1:
        ordered, order, rows = ordered + length, order + length, rows + length
        distinct_keys, start, stop = distinct_keys + most, start + most, stop + most
        length, most, none = other_length, other_most, other_none
    i = tl.arange(0, block)
    is_here = i < length
    key = tl.load(ordered + i, mask=is_here, other=none)
    before = tl.load(ordered + i - 1, mask=(i > 0) & is_here, other=-1)
    after = tl.load(ordered + i + 1, mask=i + 1 < length, other=none)
    is_key = key < none
    begins = (is_key & (key != before)).to(tl.int32)
    row = tl.where(is_key, tl.cumsum(begins, 0) - 1, 0)
    tl.store(rows + tl.load(order + i, mask=is_here, other=0), row.to(tl.int64), mask=is_here)
    tl.store(distinct_keys + row, key.to(tl.int64), mask=begins > 0)
    tl.store(start + row, i, mask=begins > 0)
    tl.store(stop + row, i + 1, mask=is_key & (key != after))
    is_left = (i >= tl.sum(begins, 0)) & (i < most)
    tl.store(distinct_keys + i, tl.full((block,), -1, tl.int64), mask=is_left)
    tl.store(start + i, tl.zeros((block,), tl.int32), mask=is_left)
    tl.store(stop + i, tl.zeros((block,), tl.int32), mask=is_left)


@triton.jit
def _begins(ordered, begins, length, none, block: tl.constexpr):
    """Whether a key is the first of its kind."""
    i = tl.program_id(0) * block + tl.arange(0, block)
    key = tl.load(ordered + i, mask=i < length, other=none)
    before = tl.load(ordered + i - 1, mask=(i > 0) & (i < length), other=-1)
    tl.store(begins + i, ((key != before) & (key < none)).to(tl.int32), mask=i < length)


@triton.jit
def _assign(ordered, order, counted, distinct_keys, rows, start, stop, length, none, block: tl.constexpr):
    """All that :class:`Distinct` says; ``counted`` [L] are the different keys up to each."""
    i = tl.program_id(0) * block + tl.arange(0, block)
    is_here = i < length
    key = tl.load(ordered + i, mask=is_here, other=none)
    before = tl.load(ordered + i - 1, mask=(i > 0) & is_here, other=-1)
    after = tl.load(ordered + i + 1, mask=i + 1 < length, other=none)
    is_key = key < none
    row = tl.where(is_key, tl.load(counted + i, mask=is_here, other=1) - 1, 0)
    tl.store(rows + tl.load(order + i, mask=is_here, other=0), row.to(tl.int64), mask=is_here)
    tl.store(distinct_keys + row, key.to(tl.int64), mask=is_key & (key != before))
    tl.store(start + row, i, mask=is_key & (key != before))
    tl.store(stop + row, i + 1, mask=is_key & (key != after))


@triton.jit
def _bound(ordered, order, places, start, stop, length, base, first, none, block: tl.constexpr):
    """Where the keys of each row begin and end, and the ``places`` [L] where each comes from.

    A key is its row plus ``base``; where it comes from is counted from ``first``.
    """
    i = tl.program_id(0) * block + tl.arange(0, block)
    is_here = i < length
    key = tl.load(ordered + i, mask=is_here, other=0).to(tl.int32) - base
    before = tl.load(ordered + i - 1, mask=(i > 0) & is_here, other=0).to(tl.int32) - base
    after = tl.load(ordered + i + 1, mask=i + 1 < length, other=0).to(tl.int32) - base
    is_key = is_here & (key < none)
    tl.store(start + key, first + i, mask=is_key & ((key != before) | (i == 0)))
    tl.store(stop + key, first + i + 1, mask=is_key & ((key != after) | (i + 1 == length)))
    tl.store(places + i, (tl.load(order + i, mask=is_here, other=0) - first).to(tl.int32), mask=is_here)


def distinct(keys: Tensor, *, most: int, none: int) -> Distinct:
    """The distinct ``keys`` [L] below ``none``, of which there are at most ``most``; ``none`` stands for no key."""
    if max(len(keys), most) <= FEW:
        return distinct_few(keys, (len(keys), 0), most=(most, 0), none=(none, 0))[0]
    ordered, order = torch.sort(keys, stable=True)
    begins = keys.new_empty(len(keys), dtype=torch.int32)
    rows = torch.empty_like(order)
    distinct_keys = torch.full((most,), NOBODY, dtype=torch.int64, device=keys.device)
    start, stop = torch.zeros(2, most, dtype=torch.int32, device=keys.device)
    grid = (triton.cdiv(len(keys), AT_ONCE),)
    _begins[grid](ordered, begins, len(keys), none, AT_ONCE)
    counted = torch.cumsum(begins, 0, dtype=torch.int32)
    _assign[grid](ordered, order, counted, distinct_keys, rows, start, stop, len(keys), none, AT_ONCE)
    return Distinct(distinct_keys, rows, Groups(order, start, stop))


def distinct_few(
    keys: Tensor, lengths: tuple[int, int], *, most: tuple[int, int], none: tuple[int, int]
) -> tuple[Distinct, Distinct]:
    """The same of two kinds of keys, the one after the other, up to ``FEW`` of each, in two launches."""
    ordered = torch.empty_like(keys)
    order, rows = keys.new_empty(2, len(keys), dtype=torch.int64)
    distinct_keys = keys.new_empty(sum(most), dtype=torch.int64)
    start, stop = keys.new_empty(2, sum(most), dtype=torch.int32)
    grid = (sum(triton.cdiv(length, PLACED_AT_ONCE) for length in lengths),)
    _place[grid](keys, ordered, order, *lengths, *none, PLACED_AT_ONCE, AT_ONCE)
    _assign_few[(2,)](
        *(ordered, order, distinct_keys, rows, start, stop, *lengths, *most, *none),
        block(max(*lengths, *most)),
        num_warps=FEW_WARPS,
    )
    parts = zip(*(torch.split(each, list(lengths)) for each in (order, rows)), strict=True)
    tables = zip(*(torch.split(each, list(most)) for each in (distinct_keys, start, stop)), strict=True)
    one, other = (Distinct(f, r, Groups(o, b, e)) for (o, r), (f, b, e) in zip(parts, tables, strict=True))
    return one, other


def groups_of_rows(keys: Tensor, lengths: Sequence[int], *, n_rows: int) -> list[Groups]:
    """The places of each row in several lists of keys, one after the other, by a single sort.

    A key is its row, or ``n_rows`` for none, and ``n_rows`` + 1 more for every list before its own.
    """
    ordered, order = torch.sort(keys, stable=True)
    places = torch.empty_like(order, dtype=torch.int32)
    bounds = keys.new_zeros(len(lengths), 2, n_rows, dtype=torch.int32)
    groups = []
    first = 0
    for at, length in enumerate(lengths):
        own, (start, stop) = slice(first, first + length), bounds[at]
        _bound[(triton.cdiv(length, AT_ONCE),)](
            *(ordered[own], order[own], places[own], start, stop, length, at * (n_rows + 1), first, n_rows, AT_ONCE)
        )
        groups.append(Groups(places, start, stop))
        first += length
    return groups
