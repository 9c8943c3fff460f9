"""RecBole's NFM, with ReLU for its sigmoid and our constant in its normalizations; run in RecBole's environment.

``python nfm_in_recbole.py DIRECTORY SETTINGS`` trains it as ``in_recbole.py`` does. ``python nfm_in_recbole.py FILE``
takes the weights and pairs of one step from an ``.npz`` file, and leaves there loss, gradients and scores.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from recbole.config import Config
from recbole.data.interaction import Interaction
from recbole.model.context_aware_recommender.nfm import NFM
from recbole.utils import FeatureType
from torch import nn

EPSILON = 1e-3
original = NFM.__init__


def adapted(self: Any, config: Any, dataset: Any) -> None:
    original(self, config, dataset)
    layers = self.mlp_layers.mlp_layers
    for k, layer in enumerate(layers):
        if isinstance(layer, nn.Sigmoid):
            layers[k] = nn.ReLU()
        if isinstance(layer, nn.BatchNorm1d):
            layer.eps = EPSILON
    self.bn.eps = EPSILON


class Rows:
    """As much of a dataset as the model asks for: two fields, numbered from 0."""

    field2type = dict.fromkeys(("user_id", "item_id"), FeatureType.TOKEN)

    def __init__(self, n_users: int, n_items: int) -> None:
        self._sizes = {"user_id": n_users, "item_id": n_items}

    def fields(self, source: Any) -> list[str]:
        return list(self._sizes)

    def num(self, field: str) -> int:
        return self._sizes[field]


def one_step(path: Path) -> None:
    given = {name: torch.from_numpy(value) for name, value in np.load(path).items()}
    NFM.__init__ = adapted if given.pop("adapt") else original
    user, item, label, shape, layers = (given.pop(name) for name in ("user", "item", "label", "shape", "layers"))
    width = given["bn.weight"].numel()
    settings = {"embedding_size": width, "mlp_hidden_size": layers.tolist(), "dropout_prob": 0.0, "use_gpu": False}
    model = NFM(Config(model="NFM", dataset="ml-100k", config_dict=settings), Rows(*shape.tolist()))
    model.load_state_dict(given, strict=True)
    pairs = Interaction({"user_id": user, "item_id": item, "label": label})
    model.train()
    loss = model.calculate_loss(pairs)
    loss.backward()
    model.eval()
    with torch.no_grad():
        scores = model.forward(pairs)
    left = {name: parameter.grad.numpy() for name, parameter in model.named_parameters()}
    np.savez(path, loss=loss.detach().numpy(), scores=scores.numpy(), **left)


if len(sys.argv) == 2:
    one_step(Path(sys.argv.pop()))  # RecBole would read it as a setting
else:
    NFM.__init__ = adapted
    runpy.run_path(str(Path(__file__).parents[1] / "in_recbole.py"))
