"""Steps on a GPU as CUDA graphs: hundreds of small kernels take longer to launch one by one than to run.

What a step does to batches of one shape is captured once and then replayed with other numbers. It is the same
computation; only who launches it differs.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mcne.training.contract import Learner, StepLoss

WARM_UP = 3
"""Steps that are run one by one at first, so that libraries have made what they make on first use."""

MOST_GRAPHS = 32
"""Each takes the memory of a step. Shapes beyond these are run one by one."""

Shapes = tuple[torch.Size, ...]


@dataclass(frozen=True)
class _Graph:
    graph: torch.cuda.CUDAGraph
    inputs: list[Tensor]
    loss: StepLoss


class CapturedSteps:
    """Forward, backward and the optimizer's step of a method; a shape is captured when it comes a second time."""

    def __init__(self, method: Learner) -> None:
        self._method = method
        self._seen: Counter[Shapes] = Counter()
        self._graphs: dict[Shapes, _Graph] = {}

    def __call__(self, batch: Any) -> StepLoss:
        """Do a step; the loss is valid until the next one."""
        inputs = tensors(batch)
        shapes = tuple(each.shape for each in inputs)
        self._seen[shapes] += 1
        if shapes not in self._graphs and self._is_worth_it(shapes):
            self._graphs[shapes] = self._capture(batch)
        if shapes not in self._graphs:
            return self._step(batch)
        captured = self._graphs[shapes]
        torch._foreach_copy_(captured.inputs, inputs)
        captured.graph.replay()
        return captured.loss

    def _is_worth_it(self, shapes: Shapes) -> bool:
        is_warm = self._seen.total() > WARM_UP
        return is_warm and self._seen[shapes] > 1 and len(self._graphs) < MOST_GRAPHS

    def _step(self, batch: Any) -> StepLoss:
        loss = self._method.loss(batch)
        self._method.update(loss)
        return StepLoss(loss.total.detach(), loss.per_behavior, loss.examples)

    def _capture(self, batch: Any) -> _Graph:
        """Record a step without running it; other threads may go on preparing batches."""
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            loss = self._step(batch)
        return _Graph(graph, tensors(batch), loss)


def tensors(batch: Any) -> list[Tensor]:
    """The tensors of a batch, which is a dataclass of tensors, of tuples and of others like it."""
    if isinstance(batch, Tensor):
        return [batch]
    held = batch if isinstance(batch, tuple) else [getattr(batch, field.name) for field in dataclasses.fields(batch)]
    return [tensor for each in held for tensor in tensors(each)]
