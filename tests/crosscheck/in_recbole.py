"""RecBole's side, run by ``shared.of_recbole`` in RecBole's environment: train one model, write its scores.

``python in_recbole.py DIRECTORY {"shape": [users, items], "settings": {"model": "BPR", …}}``. Rows of our dataset are
RecBole's tokens. Of the part files in ``DIRECTORY/data`` it learns from ``train`` and is measured on ``test``;
``valid`` must exist and is not used (``eval_step`` 0).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.data.interaction import Interaction
from recbole.utils import get_model, get_trainer, init_seed

directory = Path(sys.argv[1])
asked = json.loads(sys.argv[2])
settings = asked["settings"]
n_users, n_items = asked["shape"]
del sys.argv[1:]  # RecBole would read them as settings
torch.set_num_threads(1)
config = Config(
    model=settings["model"],
    dataset="data",
    config_dict={
        "data_path": str(directory),
        "benchmark_filename": ["train", "valid", "test"],
        "load_col": {"inter": ["user_id", "item_id"]},
        "eval_step": 0,
        "use_gpu": False,
        "show_progress": False,
        "state": "ERROR",
        "metrics": ["Recall", "NDCG"],
        "metric_decimal_place": 8,
        "topk": [10],
        "valid_metric": "NDCG@10",
        "checkpoint_dir": str(directory / "saved"),
    }
    | settings,
)
init_seed(config["seed"], config["reproducibility"])
dataset = create_dataset(config)
train, _, test = data_preparation(config, dataset)
model = get_model(config["model"])(config, train._dataset)
trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, model)
trainer.fit(train, None, saved=False, verbose=False, show_progress=False)
figures = trainer.evaluate(test, load_best_model=False)

ids = {field: dataset.field2token_id[field] for field in ("user_id", "item_id")}
scores = np.zeros((n_users, n_items), dtype=np.float32)
items = np.array([ids["item_id"][str(row)] for row in range(n_items)])
for row in range(n_users):
    user = torch.tensor([ids["user_id"][str(row)]])
    with torch.no_grad():
        try:
            every = model.full_sort_predict(Interaction({"user_id": user}))
        except NotImplementedError:  # models of features answer for pairs alone
            catalog = torch.arange(dataset.item_num)
            every = model.predict(Interaction({"user_id": user.expand(len(catalog)), "item_id": catalog}))
    scores[row] = every.numpy()[items]
np.save(directory / "scores.npy", scores)
(directory / "figures.json").write_text(json.dumps(dict(figures)))
