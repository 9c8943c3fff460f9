"""NFM against RecBole's: one step number by number, and whole trainings; features are the ids of user and item.

RecBole's NFM is ours with batch normalization but for three places. Its layers have a sigmoid (hard-coded) where the
paper and ours have ReLU; its normalizations add 1e-5 to variances where ours add 1e-3, as the authors' program does;
and it does not drop out behind the last layer. Here it gets ReLU and 1e-3, and ours no dropout behind its layers; both
then compute ``w₀ + w_u + w_i + hᵀ ReLU(BN(W BN(v_u ⊙ v_i) + b))`` and descend the mean logistic loss of each positive
and its negatives. ml-100k has no links, so friends are no features in it.

1. **One step.** Random weights and running statistics, layers of 64 and 32, the 2,048 pairs of a step, nothing dropped
   out: the loss, its gradient by what learns, and after the step's statistics have moved the running ones, the scores
   of these pairs by our scorer. Single precision; within 1e-5 of the largest of theirs. Left out is what the next
   normalization takes away, whose gradient is 0 but for rounding: the biases of layers and the shift of the first
   normalization. As a control, RecBole's NFM as it is must be told apart.
2. **Whole trainings.** Three random 80/20 splits of ml-100k: 64 numbers, a layer of 64, dropout of 0.5 before it, 15
   epochs, 1,024 positives with one uniform negative each per batch, Adam at 0.003, no L2, from RecBole's initial
   distribution. RecBole's Adam moves all rows in every step and ours those of the step. Held-out Recall@10 and
   NDCG@10, full ranking: within 0.01. As a control, ours without dropout must be told apart. (Without dropout on both
   sides two seeds of RecBole's own are 0.03 of NDCG@10 apart, too much to compare anything.)

Last result, RecBole 1.2.1: one step 2.7e-6 apart at most, control 0.2 or more. Recall@10 ours 0.1738, theirs 0.1698,
without dropout 0.125; NDCG@10 ours 0.3232, theirs 0.3184, without dropout 0.209. Agreed.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from shared import CPU, Case, Figures, Scores, case, largest_difference, movies, of_recbole, train, within
from torch import Tensor, nn

from mcne.models.nfm import NFM, NFMConfig

SCRIPT = Path(__file__).resolve().with_name("nfm_in_recbole.py")
ONE_STEP = 1e-5
SEEDS = (0, 1, 2)
EPOCHS = 15
TOLERANCE = 0.01
OURS = NFMConfig(
    width=64,
    layers=(64,),
    batch_norm=True,
    dropout=0.5,
    layer_dropout=0.0,
    negatives=1,
    batch_size=1024,
    learning_rate=0.003,
    l2=0.0,
)
THEIRS: dict[str, Any] = {
    "model": "NFM",
    "embedding_size": 64,
    "mlp_hidden_size": [64],
    "dropout_prob": 0.5,
    "train_batch_size": 2048,  # pairs
    "train_neg_sample_args": {
        "distribution": "uniform",
        "sample_num": 1,
        "alpha": 1.0,
        "dynamic": False,
        "candidate_num": 0,
    },
    "eval_args": {"split": {"RS": [8, 1, 1]}, "group_by": "user", "order": "RO", "mode": "full"},
    "learning_rate": 0.003,
    "epochs": EPOCHS,
}


def compare() -> bool:
    dataset = movies()
    agree = one_step(case(dataset, 0))
    return agree & whole_trainings([case(dataset, seed) for seed in SEEDS])


def one_step(case: Case) -> bool:
    model = NFM(case.data, replace(OURS, layers=(64, 32), dropout=0.0), seed=0, device=CPU)
    randomize(model)
    given = {name: value.numpy() for name, value in renamed(model.learned()).items()}
    users, (triples,) = model.items.draw(0, 0)
    item = triples.items[torch.cat([triples.positive[:, None], triples.negative], dim=1)].numpy()  # [b, 1+N]
    user = np.broadcast_to(users[triples.user.numpy()][:, None], item.shape)
    label = np.zeros(item.shape, dtype=np.float32)
    label[:, 0] = 1
    pairs = {"user": user.ravel(), "item": item.ravel(), "label": label.ravel()}
    shape = {"shape": np.array([case.dataset.n_users, *case.data.n_items]), "layers": np.array(model.config.layers)}
    theirs, control = (in_recbole(given | pairs | shape | {"adapt": np.array(adapt)}) for adapt in (True, False))
    mine = of_ours(model, user.ravel(), item.ravel())
    print(f"  one step: largest difference, tolerance {ONE_STEP:g}, and of the control")
    agree = True
    for name, value in mine.items():
        difference, wrong = (largest_difference(value, each[name]) for each in (theirs, control))
        agree &= difference <= ONE_STEP < wrong
        print(f"  {name:58} {difference:.1e}   {wrong:.1e}", flush=True)
    return agree


def randomize(model: NFM) -> None:
    """Numbers of ordinary size for all that is learned; variances are positive."""
    random = torch.Generator().manual_seed(0)
    drawn = {name: torch.randn(value.shape, generator=random) / 2 for name, value in model.learned().items()}
    model.load({name: value.abs() + 0.5 if name.endswith("variance") else value for name, value in drawn.items()})


def renamed(learned: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our weights, or their gradients, by RecBole's names; users are its first tokens and items the others."""
    users = learned["users"]
    names = {
        "token_embedding_table.embedding.weight": torch.cat([users[:, :-1], learned["items.0"]]),
        "first_order_linear.token_embedding_table.embedding.weight": torch.cat([users[:, -1:], learned["bias.0"]]),
        "first_order_linear.bias": learned["constant"][0],
        "predict_layer.weight": learned["network.last"][None],
    }
    fields = {"scale": "weight", "shift": "bias", "mean": "running_mean", "variance": "running_var"}
    for name, value in learned.items():
        match name.split("."):
            case ["network", "norms", k, field]:
                layer = "bn" if k == "0" else f"mlp_layers.mlp_layers.{4 * int(k) - 2}"
                names[f"{layer}.{fields[field]}"] = value
                names |= {f"{layer}.num_batches_tracked": torch.tensor(0)} if field == "mean" else {}
            case ["network", "weights", k]:
                names[f"mlp_layers.mlp_layers.{4 * int(k) + 1}.weight"] = value
            case ["network", "biases", k]:
                names[f"mlp_layers.mlp_layers.{4 * int(k) + 1}.bias"] = value
    return names


def in_recbole(given: Mapping[str, Any]) -> dict[str, np.ndarray]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "arrays.npz"
        np.savez(path, **given)
        command: list[str | Path] = [os.environ["CROSSCHECK_RECBOLE"], "-W", "ignore", SCRIPT, path]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=directory)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return dict(np.load(path))


class Whole:
    """Tables behind the face of ``RowAdam`` that collect the gradient of all their rows."""

    def __init__(self, tables: dict[str, Tensor]) -> None:
        self.tables = {name: nn.Parameter(table) for name, table in tables.items()}

    def rows(self, table: str, rows: Tensor) -> Tensor:
        return self.tables[table].index_select(0, rows)

    def forget(self) -> None:
        pass


def of_ours(model: NFM, user: np.ndarray, item: np.ndarray) -> dict[str, np.ndarray]:
    whole = Whole(model.tables.tables)
    model.tables = whole
    loss = model.loss(model.prepare(0, 0)).total
    loss.backward()
    parameters = whole.tables | {f"network.{name}": value for name, value in model.network.named_parameters()}
    gradients = renamed({name: value.grad for name, value in parameters.items() if value.grad is not None})
    model.network.commit()
    compared = {name: value.numpy() for name, value in gradients.items() if not vanishes(name)}
    scores = model.scorer().scores(0, user, item[:, None])[:, 0]
    return {"loss": loss.detach().numpy(), "scores": scores} | compared


def vanishes(name: str) -> bool:
    """Whether it only shifts what is then normalized."""
    return name == "bn.bias" or name in [f"mlp_layers.mlp_layers.{at}.bias" for at in (1, 5)]


def whole_trainings(cases: list[Case]) -> bool:
    theirs: list[Figures] = []
    ours: list[Figures] = []
    for seed, each in zip(SEEDS, cases, strict=True):
        theirs.append(each.figures(Scores(of_recbole(each, THEIRS | {"seed": seed}, SCRIPT)[0])))
        ours.append(trained(each, OURS, seed))
    control = trained(cases[0], replace(OURS, dropout=0.0), SEEDS[0])
    agree = within("ml-100k, RecBole", ours, theirs, TOLERANCE)
    print("  as a control, one split without dropout:")
    return agree and not within("ml-100k, RecBole", [control], theirs[:1], TOLERANCE)


def trained(case: Case, config: NFMConfig, seed: int) -> Figures:
    """Ours, from vectors and weights as RecBole draws them: all features of all fields are one table to it."""
    model = NFM(case.data, config, seed=seed, device=CPU)
    n_users = case.data.n_users
    (n_items,) = case.data.n_items
    random = torch.Generator().manual_seed(seed)
    vectors, weights = (
        nn.init.xavier_normal_(torch.empty(n_users + n_items, width), generator=random) for width in (config.width, 1)
    )
    start = {
        "users": torch.cat([vectors[:n_users], weights[:n_users]], dim=1),
        "items.0": vectors[n_users:],
        "bias.0": weights[n_users:],
    }
    model.load(model.learned() | start)
    return case.figures(train(model, EPOCHS))
