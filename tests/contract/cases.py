"""Every method of the registry, with settings that make it small."""

from __future__ import annotations

from typing import Any

from tests.contract.suite import Case

BPR = {"width": 8, "batch_size": 256, "learning_rate": 0.03, "l2": 0.001}
FM = {"width": 8, "negatives": 2, "batch_size": 256, "learning_rate": 0.03, "l2": 0.0001}
MCNE = {
    "widths": [16, 12, 10],
    "neighbor_samples": [4, 3],
    "attention_width": 5,
    "batch_size": 256,
    "learning_rate": 0.03,
    "l2": 0.0001,
}
NODE2VEC = BPR | {"walks_per_node": 3, "walk_length": 9, "window": 2, "walk_batch": 64}
LINE = BPR | {"link_batch": 128}
GRAPHSAGE = {
    "widths": [16, 12, 10],
    "neighbor_samples": [4, 3],
    "walk_batch": 20,
    "network_negatives": 5,
    "batch_size": 256,
    "learning_rate": 0.03,
    "l2": 0.001,
}
PINSAGE = {"widths": [16, 12, 10], "neighbors": 4, "walks": 20, "batch_size": 256, "learning_rate": 0.01, "l2": 0.001}
LIGHTGCN = {"width": 8, "layers": 2, "batch_size": 256, "learning_rate": 0.03, "l2": 0.0001}

PLUS: dict[str, Any] = {
    "width": 8,
    "walk_length": 6,
    "window": 2,
    "walk_batch": 32,
    "negatives": 3,
    "batch_size": 256,
    "learning_rate": 0.03,
}
ALONE = {"masks": False, "history": 0, "friends": 0, "attributes": 0, "walks": 0}

CASES = {
    "mcne-plus": Case("mcne-plus", PLUS | {"l2": 0.001}),
    "mcne-plus that finds its L2": Case("mcne-plus", PLUS),
    "mcne-plus of own vectors alone": Case("mcne-plus", PLUS | {"l2": 0.001, **ALONE}),
    "popularity": Case("popularity", {}),
    "userknn": Case("userknn", {}),
    "userknn of few": Case("userknn", {"neighbors": 5, "idf": False, "trust_weight": 0.5, "popularity_weight": 0.0}),
    "itemknn": Case("itemknn", {}),
    "itemknn of few": Case("itemknn", {"neighbors": 5, "idf": False, "shrinkage": 0.0}),
    "ease": Case("ease", {}),
    "bpr": Case("bpr", BPR),
    "bpr without bias": Case("bpr", BPR | {"bias": False}),
    "libfm": Case("libfm", FM),
    "nfm": Case("nfm", FM | {"layers": [6]}),
    "nfm of two layers": Case("nfm", FM | {"layers": [6, 4], "batch_norm": True}, first_loss=None),
    "nfm without layers": Case("nfm", FM | {"layers": [], "dropout": 0.0, "batch_norm": True}, first_loss=None),
    "node2vec": Case("node2vec", NODE2VEC),
    "node2vec with p and q": Case("node2vec", NODE2VEC | {"p": 0.5, "q": 2.0, "weighted_neighbors": True}),
    "node2vec-b": Case("node2vec-b", NODE2VEC | {"beta": 0.5}),
    "line": Case("line", LINE),
    "line of the first order": Case("line", LINE | {"order": 1, "weighted_neighbors": True}),
    "line-b": Case("line-b", LINE | {"beta": 0.5}),
    "graphsage": Case("graphsage", GRAPHSAGE),
    "graphsage without bias": Case("graphsage", GRAPHSAGE | {"bias": False, "weighted_neighbors": True}),
    "pinsage": Case("pinsage", PINSAGE, first_loss=1.0),
    "pinsage with BPR": Case("pinsage", PINSAGE | {"loss": "bpr", "bias": True, "widths": [16, 10], "walk_length": 1}),
    "lightgcn": Case("lightgcn", LIGHTGCN),
    "lightgcn-trust": Case("lightgcn-trust", LIGHTGCN | {"negatives": 3, "bias": True}),
    "shared-bottom": Case("shared-bottom", MCNE),
    "soft-gate": Case("soft-gate", MCNE),
    "soft-gate literal": Case("soft-gate", MCNE | {"message": "literal", "l2_form": "parameters", "l2": 1e-6}),
    "mcne": Case("mcne", MCNE),
    "mcne literal": Case("mcne", MCNE | {"message": "literal"}),
    "mcne weighted": Case("mcne", MCNE | {"weighted_neighbors": True}),
    "mcne with L2 on parameters": Case("mcne", MCNE | {"l2_form": "parameters", "l2": 1e-6}),
    "mcne of one layer": Case("mcne", MCNE | {"widths": [16, 10], "neighbor_samples": [4], "last_activation": False}),
    "mcne-a": Case("mcne-a", MCNE),
    "mcne-f": Case("mcne-f", MCNE),
    "mcne-attributes": Case("mcne-attributes", MCNE),
    "mcne-attributes of attributes alone": Case("mcne-attributes", MCNE | {"initial": "attributes"}),
    "mcne-constant-masks": Case("mcne-constant-masks", MCNE),
    "mcne-random-masks": Case("mcne-random-masks", MCNE),
}

MCNES = {"mcne", "mcne-a", "mcne-f", "mcne-attributes", "mcne-constant-masks", "mcne-random-masks"}
NEEDS = {
    "links": {"node2vec", "node2vec-b", "line", "line-b", "graphsage", "lightgcn-trust", "shared-bottom", "soft-gate"}
    | MCNES,
    "behaviors": {"soft-gate", *MCNES},
    "attributes": {"mcne-attributes"},
}
"""Which methods are refused where the data lacks something."""

STEPLESS = {"popularity", "userknn", "itemknn", "ease"}
"""Methods that do not learn step by step."""

ONLY_SCORES = {"userknn", "itemknn", "ease", "nfm"}
"""Methods without an artifact."""
