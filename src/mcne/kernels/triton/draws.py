"""Negatives and neighbors drawn on a GPU, as :mod:`mcne.sampling` draws them on the host.

Chance is Philox with a key of the step and a counter of the draw: what a step draws depends on its key alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from mcne.kernels.triton.rows import block

AT_ONCE = 128
"""Draws of a program."""


@triton.jit
def _below(key, counter, high):
    """A whole number in [0, high), 0 where there is none; numbers differ in chance by high / 2³² at most."""
    bits = tl.randint(key, counter).to(tl.uint32, bitcast=True)
    return tl.umulhi(bits, high.to(tl.uint32)).to(tl.int64)


@triton.jit
def _triples(
    key,  # [1]
    rows,  # [T] training pairs, of all behaviors one after the other
    pair_user,  # [pairs]
    pair_item,  # [pairs] items of all catalogs, one after the other
    gaps,  # [pairs] unseen items of the catalog below each seen one
    seen,  # [C, users + 1] where the pairs of a user begin
    catalog,  # [C + 1] where the items of a behavior begin
    user,  # [T] out
    item,  # [T, 1 + N] out
    n_triples,
    per_behavior,
    n_users,
    n_n: tl.constexpr,
    depth: tl.constexpr,  # of the bisection
    block_i: tl.constexpr,
):
    i, s = tl.program_id(0) * block_i + tl.arange(0, block_i), tl.arange(0, block(n_n))
    is_here = i < n_triples
    pair = tl.load(rows + i, mask=is_here, other=0)
    who, liked = tl.load(pair_user + pair, mask=is_here, other=0), tl.load(pair_item + pair, mask=is_here, other=0)
    behavior = tl.where(is_here, i // per_behavior, 0).to(tl.int64)
    begin = tl.load(catalog + behavior)
    low = tl.load(seen + behavior * (n_users + 1) + who)
    high = tl.load(seen + behavior * (n_users + 1) + who + 1)
    unseen = tl.load(catalog + behavior + 1) - begin - (high - low)
    tl.store(user + i, who, mask=is_here)
    tl.store(item + i * (n_n + 1), liked, mask=is_here)
    draw = i[:, None] * n_n + s[None, :]  # [i, N]
    k = _below(tl.load(key), draw, tl.broadcast_to(unseen[:, None], draw.shape))
    first, last = tl.broadcast_to(low[:, None], draw.shape), tl.broadcast_to(high[:, None], draw.shape)
    for _ in range(depth):
        middle = (first + last) // 2
        is_open = first < last
        is_below = is_open & (tl.load(gaps + middle, mask=is_open, other=0) <= k)
        last = tl.where(is_open & (is_below == 0), middle, last)
        first = tl.where(is_below, middle + 1, first)
    drawn = tl.where((unseen > 0)[:, None], begin[:, None] + k + first - low[:, None], liked[:, None])
    is_drawn = is_here[:, None] & (s < n_n)[None, :]
    tl.store(item + i[:, None] * (n_n + 1) + 1 + s[None, :], drawn, mask=is_drawn)


@dataclass(frozen=True)
class Pairs:
    """The training pairs of all behaviors, one behavior after the other, sorted by user and then by item."""

    depth: int  # of a bisection of a user's pairs
    user: Tensor  # [pairs]
    item: Tensor  # [pairs] items of all catalogs, one after the other
    gaps: Tensor  # [pairs] unseen items of the catalog below each seen one
    seen: Tensor  # [C, users + 1] where the pairs of a user begin
    catalog: Tensor  # [C + 1] where the items of a behavior begin


def triples(key: Tensor, rows: Tensor, pairs: Pairs, *, negatives: int) -> tuple[Tensor, Tensor]:
    """The users [T] and items [T, 1 + N] of training pairs and untouched negatives: parts of one tensor, in a row."""
    both = rows.new_empty(len(rows) * (2 + negatives))
    user, item = both[: len(rows)], both[len(rows) :].view(len(rows), 1 + negatives)
    tall = max(1, AT_ONCE // block(negatives))
    _triples[(triton.cdiv(len(rows), tall),)](
        *(key, rows, pairs.user, pairs.item, pairs.gaps, pairs.seen, pairs.catalog, user, item),
        *(len(rows), len(rows) // len(pairs.seen), pairs.seen.shape[1] - 1, negatives, pairs.depth, tall),
    )
    return user, item


@triton.jit
def _neighbors(
    key,  # [1]
    users,  # [n] or nobody, below 0
    indptr,  # [users + 1]
    indices,  # [links]
    cumulative,  # [links + 1] of shares, where draws are weighted, or None
    keys,  # [n · S + n] out: neighbors, then the users themselves; n_users where nobody is
    has_neighbors,  # [n] out: whether a user has neighbors
    sender,  # [n, S] out, where rows are users: neighbors, anybody where nobody is; or None, as both below
    receiver,  # [n] out
    present,  # [users] out: all that send or receive; others are not written
    stream,
    base,  # what is added to keys
    n,
    n_users,
    n_s: tl.constexpr,
    depth: tl.constexpr,
    block_i: tl.constexpr,
):
    r, s = tl.program_id(0) * block_i + tl.arange(0, block_i), tl.arange(0, block(n_s))
    is_here = r < n
    who = tl.load(users + r, mask=is_here, other=-1)
    is_somebody = who >= 0
    start = tl.load(indptr + who, mask=is_somebody, other=0).to(tl.int64)
    stop = tl.load(indptr + who + 1, mask=is_somebody, other=0).to(tl.int64)
    has_any = stop > start
    tl.store(has_neighbors + r, has_any, mask=is_here)
    tl.store(keys + n * n_s + r, base + tl.where(is_somebody, who, n_users), mask=is_here)
    chance = tl.load(key) + stream
    draw = r[:, None] * n_s + s[None, :]  # [i, S]
    begin, end = tl.broadcast_to(start[:, None], draw.shape), tl.broadcast_to(stop[:, None], draw.shape)
    if cumulative is not None:
        floor = tl.load(cumulative + start)
        total = tl.load(cumulative + stop) - floor
        chances = tl.randint(chance, draw).to(tl.uint32, bitcast=True).to(tl.float64) * 2.3283064365386963e-10
        wanted = floor[:, None] + chances * total[:, None]  # of 2³² numbers in [0, 1)
        first, last = begin, end - 1  # the last link whose running sum is at most what is wanted
        for _ in range(depth):
            middle = (first + last + 1) // 2
            is_open = first < last
            is_above = is_open & (tl.load(cumulative + middle, mask=is_open, other=0.0) <= wanted)
            last = tl.where(is_open & (is_above == 0), middle - 1, last)
            first = tl.where(is_above, middle, first)
        at = first
    else:
        at = begin + _below(chance, draw, end - begin)
    is_drawn = is_here[:, None] & (s < n_s)[None, :]
    is_sent = has_any[:, None] & is_drawn
    drawn = tl.load(indices + at, mask=is_sent, other=0)
    tl.store(keys + draw, base + tl.where(is_sent, drawn, n_users), mask=is_drawn)
    if present is not None:
        tl.store(sender + draw, drawn.to(tl.int64), mask=is_drawn)
        tl.store(receiver + r, tl.where(is_somebody, who, 0), mask=is_here)
        tl.store(present + who, who, mask=is_somebody)
        tl.store(present + drawn, drawn.to(tl.int64), mask=is_sent)  # the same by whoever writes it


@dataclass(frozen=True)
class Network:
    """The links that neighbors are drawn from."""

    indptr: Tensor  # [users + 1]
    indices: Tensor  # [links]
    cumulative: Tensor | None  # [links + 1] of shares, where draws are weighted
    depth: int  # of a bisection of a user's links


def neighbors(
    key: Tensor,
    users: Tensor,
    network: Network,
    *,
    stream: int,
    count: int,
    base: int = 0,
    keys: Tensor | None = None,
    rows: tuple[Tensor, Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """The neighbors of ``users`` [n], and after them the users themselves, [n · count + n]; and who has any, [n].

    ``keys`` are where the first are written, each ``base`` more; nobody is written as the number of all users. Where
    everybody has a row, the user's number, ``rows`` are written too: the senders [n, count], their receivers [n], and
    in [users], which is -1 everywhere, the users that receive or send.
    """
    keys = users.new_empty(len(users) * (count + 1), dtype=torch.int32) if keys is None else keys
    has_neighbors = users.new_empty(len(users), dtype=torch.bool)
    tall = max(1, AT_ONCE // block(count))
    _neighbors[(triton.cdiv(len(users), tall),)](
        *(key, users, network.indptr, network.indices, network.cumulative, keys, has_neighbors, *(rows or [None] * 3)),
        *(stream, base, len(users), len(network.indptr) - 1, count, network.depth, tall),
    )
    return keys, has_neighbors
