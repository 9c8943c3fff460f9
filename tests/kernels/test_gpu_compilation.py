"""The kernels for GPUs compile for one, which needs none; what they compute is tested interpreted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton is made for Linux alone")


@pytest.mark.slow
def test_every_kernel_compiles_for_an_h100() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    script = Path(__file__).with_name("compile_for_gpu.py")
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        *("forward", "backward_of_logits", "backward_by_receiver", "backward_by_sender", "backward_of_masks"),
        *("_aggregate_all", "_halves", "_of_halves", "_backward_to_receivers", "_mean", "_mean_backward"),
        *("_place", "_assign_few", "_begins", "_assign", "_bound", "_gather", "_adam", "_adam_all"),
        *("_score", "_total", "_of_triples", "_of_users", "_of_items", "_of_masks", "_triples", "_neighbors"),
    ]
