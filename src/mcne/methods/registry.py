"""Every method by its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mcne.errors import UsageError, unknown
from mcne.methods.bpr import BPR, BPRConfig
from mcne.methods.ease import EASE, EASEConfig
from mcne.methods.graphsage import GraphSage, GraphSageConfig
from mcne.methods.item_knn import ItemKNN, ItemKNNConfig
from mcne.methods.libfm import LibFM, LibFMConfig
from mcne.methods.lightgcn import LightGCN, LightGCNConfig, LightGCNTrust
from mcne.methods.line import LINE, LINEB, LINEBConfig, LINEConfig
from mcne.methods.mcne import MCNE, MCNEA, MCNEF, MCNEConfig
from mcne.methods.nfm import NFM, NFMConfig
from mcne.methods.node2vec import Node2vec, Node2vecB, Node2vecBConfig, Node2vecConfig
from mcne.methods.pinsage import PinSage, PinSageConfig
from mcne.methods.popularity import Popularity, PopularityConfig
from mcne.methods.shared_bottom import SharedBottom, SoftGate
from mcne.methods.user_knn import UserKNN, UserKNNConfig


@dataclass(frozen=True)
class Entry:
    """A method: how it is made, and what it can be told."""

    make: type[Any]
    config: type[Any]


METHODS = {
    "popularity": Entry(Popularity, PopularityConfig),
    "userknn": Entry(UserKNN, UserKNNConfig),
    "itemknn": Entry(ItemKNN, ItemKNNConfig),
    "ease": Entry(EASE, EASEConfig),
    "bpr": Entry(BPR, BPRConfig),
    "libfm": Entry(LibFM, LibFMConfig),
    "nfm": Entry(NFM, NFMConfig),
    "node2vec": Entry(Node2vec, Node2vecConfig),
    "node2vec-b": Entry(Node2vecB, Node2vecBConfig),
    "line": Entry(LINE, LINEConfig),
    "line-b": Entry(LINEB, LINEBConfig),
    "graphsage": Entry(GraphSage, GraphSageConfig),
    "pinsage": Entry(PinSage, PinSageConfig),
    "lightgcn": Entry(LightGCN, LightGCNConfig),
    "lightgcn-trust": Entry(LightGCNTrust, LightGCNConfig),
    "shared-bottom": Entry(SharedBottom, MCNEConfig),
    "soft-gate": Entry(SoftGate, MCNEConfig),
    "mcne": Entry(MCNE, MCNEConfig),
    "mcne-a": Entry(MCNEA, MCNEConfig),
    "mcne-f": Entry(MCNEF, MCNEConfig),
}


def entry(name: str) -> Entry:
    """The method of that name."""
    if name not in METHODS:
        raise UsageError(unknown("method", name, METHODS))
    return METHODS[name]
