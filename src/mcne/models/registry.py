"""Every method by its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from mcne.data.dataset import SocialDataset
from mcne.errors import UsageError, unknown
from mcne.models.bpr import BPR, BPRConfig
from mcne.models.ease import EASE, EASEConfig
from mcne.models.graphsage import GraphSage, GraphSageConfig
from mcne.models.item_knn import ItemKNN, ItemKNNConfig
from mcne.models.libfm import LibFM, LibFMConfig
from mcne.models.lightgcn import LightGCN, LightGCNConfig, LightGCNTrust
from mcne.models.line import LINE, LINEB, LINEBConfig, LINEConfig
from mcne.models.mask_controls import ConstantMasks, ConstantMasksConfig, RandomMasks, RandomMasksConfig
from mcne.models.mcne import MCNE, MCNEA, MCNEF, MCNEConfig
from mcne.models.mcne_plus import MCNEPlus, MCNEPlusConfig
from mcne.models.nfm import NFM, NFMConfig
from mcne.models.node2vec import Node2vec, Node2vecB, Node2vecBConfig, Node2vecConfig
from mcne.models.pinsage import PinSage, PinSageConfig
from mcne.models.popularity import Popularity, PopularityConfig
from mcne.models.shared_bottom import SharedBottom, SoftGate
from mcne.models.user_knn import UserKNN, UserKNNConfig

Need = Literal["links", "behaviors", "attributes"]


@dataclass(frozen=True)
class Entry:
    """A method: how it is made, what it can be told, and without what it would be another method."""

    make: type[Any]
    config: type[Any]
    needs: tuple[Need, ...] = ()


METHODS = {
    "popularity": Entry(Popularity, PopularityConfig),
    "userknn": Entry(UserKNN, UserKNNConfig),
    "itemknn": Entry(ItemKNN, ItemKNNConfig),
    "ease": Entry(EASE, EASEConfig),
    "bpr": Entry(BPR, BPRConfig),
    "libfm": Entry(LibFM, LibFMConfig),
    "nfm": Entry(NFM, NFMConfig),
    "node2vec": Entry(Node2vec, Node2vecConfig, ("links",)),
    "node2vec-b": Entry(Node2vecB, Node2vecBConfig, ("links",)),
    "line": Entry(LINE, LINEConfig, ("links",)),
    "line-b": Entry(LINEB, LINEBConfig, ("links",)),
    "graphsage": Entry(GraphSage, GraphSageConfig, ("links",)),
    "pinsage": Entry(PinSage, PinSageConfig),
    "lightgcn": Entry(LightGCN, LightGCNConfig),
    "lightgcn-trust": Entry(LightGCNTrust, LightGCNConfig, ("links",)),
    "shared-bottom": Entry(SharedBottom, MCNEConfig, ("links",)),
    "soft-gate": Entry(SoftGate, MCNEConfig, ("links", "behaviors")),
    "mcne": Entry(MCNE, MCNEConfig, ("links", "behaviors")),
    "mcne-a": Entry(MCNEA, MCNEConfig, ("links", "behaviors")),
    "mcne-f": Entry(MCNEF, MCNEConfig, ("links", "behaviors")),
    "mcne-plus": Entry(MCNEPlus, MCNEPlusConfig, ("links", "behaviors", "attributes")),
    "mcne-constant-masks": Entry(ConstantMasks, ConstantMasksConfig, ("links", "behaviors")),
    "mcne-random-masks": Entry(RandomMasks, RandomMasksConfig, ("links", "behaviors")),
}


def entry(name: str) -> Entry:
    """The method of that name."""
    if name not in METHODS:
        raise UsageError(unknown("method", name, METHODS))
    return METHODS[name]


def refusal(name: str, dataset: SocialDataset, *, is_alone: bool) -> str | None:
    """Why a method can make nothing of a dataset, if so; ``is_alone`` tells that it gets one behavior at a time."""
    needs = entry(name).needs
    if "links" in needs and not dataset.graph.n_links:
        return f"{name} learns from links, and {dataset.name} has none; bpr, ease and userknn need none"
    if "behaviors" in needs and is_alone:
        return f"{name} tells behaviors apart, so it is trained on all of them together; leave out separate training"
    if "behaviors" in needs and len(dataset.behaviors) < 2:
        only = ", ".join(dataset.behavior_names) or "none"
        return f"{name} tells behaviors apart, and {dataset.name} has fewer than two ({only}); bpr does with one"
    if "attributes" in needs and not dataset.attributes:
        return (
            f"{name} starts from users' attributes, and {dataset.name} has none; prepare it with a table of users, or "
            "train mcne, which needs none"
        )
    return None
