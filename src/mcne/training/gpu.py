"""GPU specifics: steps replayed as CUDA graphs, and deterministic sums on request.

Hundreds of small kernels take longer to launch one by one than to run, so a step on inputs of one shape is captured
once and then replayed with other numbers. Our own kernels always sum in the same order (decision 6); PyTorch's do
so only with its slower deterministic operations.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from mcne.errors import CaptureError, UsageError
from mcne.models.contract import Capturable, Learner, StepLoss

WARM_UP = 3
"""Steps that are run one by one at first, so that libraries have made what they make on first use."""

ONE_BY_ONE = "CUDA_LAUNCH_BLOCKING"
"""CUDA's own variable, by which each kernel is waited for: then none are captured either."""


def captured_steps(method: Learner, device: torch.device) -> CapturedSteps | None:
    """The captured steps of a method, if the method and the device support it and kernels need not run one by one."""
    is_captured = isinstance(method, Capturable) and method.is_capturable and device.type == "cuda"
    is_captured = is_captured and os.environ.get(ONE_BY_ONE, "") in ("", "0")
    return CapturedSteps(method) if is_captured else None


class CapturedSteps:
    """Forward, backward and the optimizer's step of a method; a shape is captured when it comes a second time."""

    def __init__(self, method: Learner) -> None:
        self._method = method
        self._seen: Counter[torch.Size] = Counter()
        self._captured: dict[torch.Size, tuple[torch.cuda.CUDAGraph, Tensor, StepLoss]] = {}  # with its inputs

    def __call__(self, inputs: Tensor) -> StepLoss:
        """Do a step; the loss is valid until the next one."""
        shape = inputs.shape
        self._seen[shape] += 1
        if shape not in self._captured:
            if self._seen.total() <= WARM_UP or self._seen[shape] == 1:
                return self._step(inputs)
            self._captured[shape] = self._capture(inputs)
        graph, own, loss = self._captured[shape]
        own.copy_(inputs)
        graph.replay()
        return loss

    def _step(self, inputs: Tensor) -> StepLoss:
        loss = self._method.loss(inputs)
        self._method.update(loss)
        return StepLoss(loss.total.detach(), loss.per_behavior, loss.examples)

    def _capture(self, inputs: Tensor) -> tuple[torch.cuda.CUDAGraph, Tensor, StepLoss]:
        """Record a step without running it; other threads may go on preparing inputs.

        A capture that fails ends the training: PyTorch then stays on the stream and in the memory of the capture, and
        steps after it would read what others have written.
        """
        graph = torch.cuda.CUDAGraph()
        own = inputs.clone()
        others = [other.pool() for other, _, _ in self._captured.values()]  # never replayed at the same time
        torch.cuda.synchronize()
        try:
            with torch.cuda.graph(graph, pool=others[0] if others else None, capture_error_mode="thread_local"):
                loss = self._step(own)
        except RuntimeError as error:
            cause = error.__context__ or error
            reason = next(iter(str(cause).splitlines()), type(cause).__name__)
            raise CaptureError(
                f"a step could not be captured as a CUDA graph ({reason}), and this process is no longer reliable",
                value=reason,
                remedy=f"run again with {ONE_BY_ONE}=1 in the environment, which launches kernels one by one and is "
                "slower (add --resume for a single training; a comparison continues by itself)",
            ) from error
        return graph, own, loss


@contextmanager
def one_order(device: torch.device, *, is_asked: bool) -> Iterator[None]:
    """In the block, PyTorch sums in the same order on a GPU if ``is_asked``, in all threads of the process."""
    if not is_asked or device.type == "cpu":
        yield
        return
    filling: Any = torch.utils.deterministic  # which has the property, and no declaration of it
    was_on = torch.are_deterministic_algorithms_enabled()
    only_warned = torch.is_deterministic_algorithms_warn_only_enabled()
    filled = filling.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    filling.fill_uninitialized_memory = False  # nothing is read before it is written
    try:
        yield
    except RuntimeError as error:
        operation, reason, _ = str(error).partition(" does not have a deterministic implementation")
        if not reason:
            raise
        raise UsageError(
            f"PyTorch {torch.__version__} has no deterministic {operation} on a GPU",
            "setting deterministic",
            "omit the setting, or use --device cpu",
            value=operation,
        ) from error
    finally:
        torch.use_deterministic_algorithms(was_on, warn_only=only_warned)
        filling.fill_uninitialized_memory = filled
