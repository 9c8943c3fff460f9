"""By the kernels for GPUs every method learns what it learns without; where there is no GPU they are interpreted."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.contract.cases import CASES
from tests.contract.suite import Case, attributes
from torch import Tensor

from mcne.data.behavior import Behavior
from mcne.data.dataset import SocialDataset
from mcne.data.graph import undirected
from mcne.data.ids import Ids
from mcne.data.split import random_split
from mcne.kernels import backend
from mcne.models.contract import Capturable, TrainingData
from mcne.models.registry import entry
from mcne.models.settings import parse

pytest.importorskip("triton", reason="Triton is made for Linux alone")

CPU, GPU = torch.device("cpu"), torch.device("cuda" if torch.cuda.is_available() else "cpu")
FEW = {"batch_size": 10, "walk_batch": 3, "link_batch": 6}


def dataset() -> SocialDataset:
    random = np.random.default_rng(1)
    behaviors = []
    for name, n_items in (("Books", 9), ("Travel", 6)):
        user, item = (rows.astype(np.int32) for rows in np.nonzero(random.random((25, n_items)) < 0.4))
        behaviors.append(Behavior(name, Ids(np.arange(n_items)), user, item))
    graph = undirected(25, *random.integers(0, 22, (2, 30)).astype(np.int32))[0]
    return SocialDataset("toy", Ids(np.arange(25)), graph, tuple(behaviors), attributes(25))


def steps(case: Case, device: torch.device) -> dict[str, Tensor] | None:
    """The losses of three steps, and then the tables and their moments; none if a method has no tables, or draws its
    steps on the GPU. What is no table is seen in the losses: gradients of 0, as before a normalization, are noise
    that Adam makes large."""
    data = dataset()
    made = entry(case.method)
    few = {name: value for name, value in FEW.items() if name in made.config.__dataclass_fields__}
    (config,) = parse([made.config], {**case.settings, **few})
    method = made.make(TrainingData.of(data, random_split(data, seed=0)), config, seed=0, device=device)
    if getattr(method, "tables", None) is None or (isinstance(method, Capturable) and method.is_capturable):
        return None
    losses = []
    for step in range(3):
        loss = method.loss(method.prepare(0, step))
        method.update(loss)
        losses.append(loss.per_behavior.cpu())
    tables = {name: value.cpu() for name, value in (method.tables.tables | method.tables.memory()).items()}
    return {"losses": torch.stack(losses)} | tables


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_kernels_for_gpus_teach_the_same(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(backend, "is_gpu", lambda _: True)
        on_gpu = steps(case, GPU)
    if on_gpu is None:
        pytest.skip("it has no tables, or its steps are compared in test_mcne_on_gpu.py")
    on_cpu = steps(case, CPU)
    assert on_cpu is not None
    assert on_cpu.keys() == on_gpu.keys()
    for name, value in on_cpu.items():
        torch.testing.assert_close(on_gpu[name], value, rtol=1e-3, atol=5e-5, msg=name)
