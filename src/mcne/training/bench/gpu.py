"""A training step of MCNE on a GPU: its kernels launched one by one, and replayed as a CUDA graph."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from mcne.models.contract import TrainingData
from mcne.models.mcne import MCNE, MCNEConfig
from mcne.training.bench.figure import NotMeasuredError, Taken
from mcne.training.capture import CapturedSteps

STEPS = 60


def against_launches(data: TrainingData) -> Taken:
    """The same kernels launched by the host, one after the other."""
    model = MCNE(data, MCNEConfig(), seed=0, device=gpu())
    launched, replayed = launched_and_replayed(model)
    detail = f"{replayed:.2f} ms against {launched:.2f} ms on {torch.cuda.get_device_name()}"
    return Taken(replayed / launched, detail)


def gpu() -> torch.device:
    """The GPU, if there is one."""
    if not torch.cuda.is_available():
        raise NotMeasuredError("no GPU here that PyTorch can use")
    return torch.device("cuda")


def launched_and_replayed(model: MCNE) -> tuple[float, float]:
    """Milliseconds of a step in both ways, inputs at hand."""
    if not model.is_capturable:
        raise NotMeasuredError("steps are not drawn on the GPU here: is Triton missing?")
    batches = [model.prepare(0, step) for step in range(min(STEPS, model.n_steps))]
    launched = _milliseconds(lambda batch: model.update(model.loss(batch)), batches)
    return launched, _milliseconds(CapturedSteps(model), batches)


def _milliseconds(step: Callable[[Any], object], batches: list[Any]) -> float:
    """Of a step, the second time through all batches, when every shape is known."""
    start = 0.0
    for _ in range(2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for batch in batches:
            step(batch)
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start) / len(batches)
