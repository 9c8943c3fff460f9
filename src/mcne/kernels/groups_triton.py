"""The distinct numbers of a step and where each is used, found on a GPU by putting them in order.

How many distinct ones there are is never known to the host: all sizes are those of the most that there can be, and
what is not used is filled up.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from mcne.kernels.groups import Groups

AT_ONCE = 256
NOBODY = -1

FEW = 4096
"""Keys up to which each is compared with all others: sorting so few takes as long as sorting many."""

PLACED_AT_ONCE = 16


@dataclass(frozen=True)
class Distinct:
    """What :func:`mcne.sampling.distinct.distinct` finds on the host, and the places of each number."""

    found: Tensor  # [most] the distinct keys, increasing, then NOBODY
    rows: Tensor  # [L] the row of each key among those found, 0 where there is no key
    groups: Groups  # of [most] rows


@triton.jit
def _place(
    keys,  # [L]
    ordered,  # [L] out: keys in order
    order,  # [L] out: where they come from
    length,
    none,
    block_i: tl.constexpr,
    block: tl.constexpr,
):
    """Count the keys that come before each."""
    i, j = tl.program_id(0) * block_i + tl.arange(0, block_i), tl.arange(0, block)
    key = tl.load(keys + i, mask=i < length, other=none)
    before = tl.zeros((block_i,), tl.int32)
    for some in range(0, length, block):
        other = tl.load(keys + some + j, mask=some + j < length, other=none)[None, :]
        is_earlier = (some + j)[None, :] < i[:, None]
        is_before = (other < key[:, None]) | ((other == key[:, None]) & is_earlier)
        before += tl.sum(is_before.to(tl.int32), axis=1)
    tl.store(ordered + before, key, mask=i < length)
    tl.store(order + before, i.to(tl.int64), mask=i < length)


@triton.jit
def _begins(ordered, begins, length, none, block: tl.constexpr):
    """Whether a key is the first of its kind."""
    i = tl.program_id(0) * block + tl.arange(0, block)
    key = tl.load(ordered + i, mask=i < length, other=none)
    before = tl.load(ordered + i - 1, mask=(i > 0) & (i < length), other=-1)
    tl.store(begins + i, ((key != before) & (key < none)).to(tl.int32), mask=i < length)


@triton.jit
def _assign(
    ordered,  # [L] keys in order
    order,  # [L] where they come from
    counted,  # [L] how many different ones there are up to each
    found,
    rows,
    start,
    stop,
    length,
    none,
    block: tl.constexpr,
):
    i = tl.program_id(0) * block + tl.arange(0, block)
    is_here = i < length
    key = tl.load(ordered + i, mask=is_here, other=none)
    before = tl.load(ordered + i - 1, mask=(i > 0) & is_here, other=-1)
    after = tl.load(ordered + i + 1, mask=i + 1 < length, other=none)
    is_key = key < none
    row = tl.where(is_key, tl.load(counted + i, mask=is_here, other=1) - 1, 0)
    tl.store(rows + tl.load(order + i, mask=is_here, other=0), row.to(tl.int64), mask=is_here)
    tl.store(found + row, key.to(tl.int64), mask=is_key & (key != before))
    tl.store(start + row, i, mask=is_key & (key != before))
    tl.store(stop + row, i + 1, mask=is_key & (key != after))


def distinct(keys: Tensor, *, most: int, none: int) -> Distinct:
    """The distinct ``keys`` [L] below ``none``, of which there are at most ``most``; ``none`` stands for no key."""
    ordered, order = _in_order(keys, none)
    begins, rows = keys.new_empty(len(keys), dtype=torch.int32), torch.empty_like(order)
    found = torch.full((most,), NOBODY, dtype=torch.int64, device=keys.device)
    start, stop = torch.zeros(2, most, dtype=torch.int32, device=keys.device)
    grid = (triton.cdiv(len(keys), AT_ONCE),)
    _begins[grid](ordered, begins, len(keys), none, AT_ONCE)
    counted = torch.cumsum(begins, 0, dtype=torch.int32)
    _assign[grid](ordered, order, counted, found, rows, start, stop, len(keys), none, AT_ONCE)
    return Distinct(found, rows, Groups(order, start, stop))


def _in_order(keys: Tensor, none: int) -> tuple[Tensor, Tensor]:
    """The ``keys`` [L] up to ``none`` in order, equal ones as they come, and where they come from."""
    if len(keys) > FEW:
        return torch.sort(keys, stable=True)
    ordered, order = torch.empty_like(keys), torch.empty_like(keys, dtype=torch.int64)
    _place[(triton.cdiv(len(keys), PLACED_AT_ONCE),)](keys, ordered, order, len(keys), none, PLACED_AT_ONCE, AT_ONCE)
    return ordered, order
