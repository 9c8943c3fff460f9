"""PyG's side, run in its environment: ``python their_sage.py BATCHES.npz WIDTHS EDGES``.

Two ``SAGEConv`` layers (no masks, no attention) over the same neighborhoods, the same triples ranked by BPR, Adam.
Tried with dense and with sparse updates of the tables, the faster says its name and is measured. EDGES are ``lists``,
as PyG's loaders give them, or ``matrices``, sparse ones by which vectors are multiplied. A line read from standard
input is the number of a batch; the seconds of a step are written.
"""

# mypy: ignore-errors
from __future__ import annotations

import json
import sys
import time
from itertools import pairwise
from statistics import median

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch_geometric.nn import SAGEConv

L2, RATE, TRIALS = 0.001, 0.003, 4


class Stack(nn.Module):
    def __init__(self, widths: list[int], n_users: int, n_items: list[int], *, sparse: bool) -> None:
        super().__init__()
        self.users = nn.Embedding(n_users, widths[0], sparse=sparse)
        self.items = nn.ModuleList(nn.Embedding(n, widths[-1], sparse=sparse) for n in n_items)
        self.layers = nn.ModuleList(SAGEConv((a, a), b) for a, b in pairwise(widths))
        tables = [each.weight for each in (self.users, *self.items)]
        for table in tables:
            nn.init.normal_(table, std=0.01)
        weights = list(self.layers.parameters())
        if sparse:
            self.optimizers = [torch.optim.SparseAdam(tables, lr=RATE), torch.optim.Adam(weights, lr=RATE)]
        else:
            self.optimizers = [torch.optim.Adam([*tables, *weights], lr=RATE)]

    def step(self, batch: dict) -> None:
        vectors = self.users(batch["users"])
        for layer, (receiver, edges) in zip(self.layers, batch["hops"], strict=True):
            vectors = torch.relu(layer((vectors, vectors[receiver]), edges))
        losses = []
        for table, (user, items, positive, negative) in zip(self.items, batch["triples"], strict=True):
            scored = table(items)
            own, liked, others = vectors[user], scored[positive], scored[negative]
            below, above = torch.bmm(others, own[:, :, None])[:, :, 0], (own * liked).sum(-1, keepdim=True)
            squares = own.square().sum(-1) + liked.square().sum(-1) + others.square().sum(-1).mean(-1)
            losses.append(functional.softplus(below - above).mean() + L2 * squares.mean())
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        torch.stack(losses).mean().backward()
        for optimizer in self.optimizers:
            optimizer.step()


def read(saved: np.lib.npyio.NpzFile, number: int, *, as_matrix: bool) -> dict:
    def tensor(name: str) -> torch.Tensor:
        return torch.from_numpy(saved[f"{number}.{name}"])

    hops = []
    size = len(tensor("users"))
    for k in range(2):
        receiver, sender, heard = (tensor(f"{k}.{name}") for name in ("receiver", "sender", "has_neighbors"))
        to = torch.repeat_interleave(torch.arange(len(receiver)), sender.shape[1])[
            heard.repeat_interleave(sender.shape[1])
        ]
        edges = torch.stack([sender[heard].flatten(), to])
        if as_matrix:
            shape = (len(receiver), size)
            edges = torch.sparse_coo_tensor(edges.flip(0), torch.ones(edges.shape[1]), shape).to_sparse_csr()
        hops.append((receiver, edges))
        size = len(receiver)
    names = ("user", "items", "positive", "negative")
    triples = [tuple(tensor(f"triples.{k}.{name}") for name in names) for k in range(len(saved["n_items"]))]
    return {"users": tensor("users"), "hops": hops, "triples": triples}


def seconds(stack: Stack, batch: dict) -> float:
    start = time.perf_counter()
    stack.step(batch)
    return time.perf_counter() - start


def main() -> None:
    saved = np.load(sys.argv[1])
    widths = json.loads(sys.argv[2])
    as_matrix = sys.argv[3] == "matrices"
    batches = [read(saved, number, as_matrix=as_matrix) for number in range(int(saved["batches"]))]
    timed = {}
    for name in ("dense Adam", "sparse Adam"):
        stack = Stack(widths, int(saved["n_users"]), saved["n_items"].tolist(), sparse=name == "sparse Adam")
        times = [seconds(stack, batches[number % len(batches)]) for number in range(TRIALS)]
        timed[name] = median(times[1:]), stack
    name = min(timed, key=lambda each: timed[each][0])
    stack = timed[name][1]
    print(name, flush=True)
    for line in sys.stdin:
        print(seconds(stack, batches[int(line) % len(batches)]), flush=True)


main()
