"""``python -m benchmarks.bfloat16_edges``: passes over the edges of a step of Ciao's size, rows stored in two ways.

Vectors and projections are gathered by edge, in 4 or in 2 bytes a number; sums are of single precision in both.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from mcne.kernels.rows import Groups, group_places
from mcne.kernels.triton.layers import Edges

SAMPLES, ROWS, ATTENTION = 20, 4, 64
LAYERS = {"first": (4321, 1860, 256), "second": (4321, 384, 128)}
"""Users below, those of them who hear, and the width of what they hear."""

ROUNDS = 200


def main() -> None:
    for name, (below, hearing, width) in LAYERS.items():
        draws = np.random.default_rng(0)
        device = torch.device("cuda")
        sender = draws.integers(below, size=(hearing, SAMPLES))
        order, start, stop = group_places(sender, below)
        groups = Groups(*(torch.from_numpy(each).to(device) for each in (order, start, stop)))
        numbers = [torch.randn(*shape, device=device) for shape in _shapes(below, hearing, width)]
        whole = _passes(numbers, torch.from_numpy(sender).to(device), groups)
        half = _passes([each.bfloat16() for each in numbers], torch.from_numpy(sender).to(device), groups)
        for kind in whole:
            both = [_microseconds(passes[kind]) for passes in (whole, half)]
            print(f"{name:7} {kind:12} float32 {both[0]:6.1f} µs, bfloat16 {both[1]:6.1f} µs ({both[1] / both[0]:.2f})")


def _shapes(below: int, hearing: int, width: int) -> list[tuple[int, ...]]:
    """Of vectors, near, here and the gradient of messages."""
    return [(below, width), (below, ROWS * ATTENTION), (hearing, ROWS * ATTENTION), (hearing, width)]


def _passes(numbers: list[Tensor], sender: Tensor, groups: Groups) -> dict[str, Callable[[], object]]:
    vectors, near, here, gradient = numbers
    device = vectors.device
    masks = (torch.rand(ROWS, vectors.shape[1], device=device) > 0.5).float()
    heard = torch.ones(len(here), dtype=torch.bool, device=device)
    edges = Edges(vectors, near, here, torch.randn(ATTENTION, device=device), masks, sender, heard)
    messages, of_near, of_here = torch.empty_like(gradient), torch.empty_like(near), torch.empty_like(here)
    weights, _ = edges.send(messages)
    of_logits, _ = edges.by_receiver(gradient, weights, of_here)
    return {
        "forward": lambda: edges.send(messages),
        "by receiver": lambda: edges.by_receiver(gradient, weights, of_here),
        "by sender": lambda: edges.by_sender(gradient, gradient, groups, weights, of_logits, of_near),
    }


def _microseconds(work: Callable[[], object]) -> float:
    """Of one time, replayed as a CUDA graph of many."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(ROUNDS):
            work()
    _seconds(graph)  # then everything is in place
    return 1e6 * _seconds(graph) / ROUNDS


def _seconds(graph: torch.cuda.CUDAGraph) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    graph.replay()
    torch.cuda.synchronize()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
