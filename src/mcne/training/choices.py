"""What a training was told: its settings, and where it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcne.errors import UsageError, unknown

if TYPE_CHECKING:
    import torch

    from mcne.models.settings import TrainingSettings

DEVICES = ("auto", "cpu", "cuda")
SCHEDULE = ("epochs", "patience", "evaluate_every")
"""Settings of a training that decide which epoch is its best; the others decide how it gets there."""


def choose_device(name: str) -> torch.device:
    """``cpu``, ``cuda``, or with ``auto`` the GPU where there is one.

    A GPU has its number: without one, every thread would take the GPU that is its own current one.
    """
    import torch

    if name not in DEVICES:
        raise UsageError(unknown("device", name, DEVICES))
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("device cuda: PyTorch sees no GPU here; use --device cpu, or install a CUDA build of PyTorch")
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    is_open = torch.cuda.is_initialized()  # type: ignore[no-untyped-call] # as PyTorch declares it
    return torch.device("cuda", torch.cuda.current_device() if is_open else 0)  # to ask would open it


def settings_of(method: str, given: Mapping[str, Any]) -> tuple[Any, TrainingSettings]:
    """What a method and its training were told, checked: the method's own config, and how to train."""
    from mcne.models.registry import entry
    from mcne.models.settings import TrainingSettings, parse

    config, settings = parse([entry(method).config, TrainingSettings], given)
    return config, settings


def resolved(method: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Everything in the settings that decides a result, defaults included: the method's config and the schedule."""
    from mcne.models.settings import to_json

    config, settings = settings_of(method, given)
    return to_json(config), schedule_of(settings)


def schedule_of(settings: TrainingSettings) -> dict[str, Any]:
    """What decides a result of how a method was trained; ``deterministic`` only where it was asked for."""
    asked = {"deterministic": True} if settings.deterministic else {}
    return {name: getattr(settings, name) for name in SCHEDULE} | asked
