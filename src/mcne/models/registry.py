"""All methods by name; no other module lists them.

Commands, studies, reports, memory estimates and docs/methods.md use the entries below. A new method takes a file, an
entry here, and a case in tests/contract/cases.py.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, fields
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mcne.errors import UnknownError, UsageError
from mcne.models.settings import TrainingSettings

if TYPE_CHECKING:
    from mcne.data.dataset import SocialDataset
    from mcne.data.split import Split
    from mcne.models.memory import Estimate, TrainingSize
    from mcne.models.saved import Saved


@dataclass(frozen=True)
class Entry:
    """A method. Its class, settings and memory estimate are named and imported when asked for: PyTorch takes seconds.

    A method ``gives`` either vectors of users and items, whose inner products are its scores; or one count per item,
    which is an artifact without dimensions; or nothing but scores, which are evaluated and never served.
    """

    model: str  # a module of this package and the class in it
    summary: str  # one sentence for help, documentation and model cards
    origin: str = ""  # where it was published, or where its idea is from
    needs: tuple[Literal["links", "behaviors", "attributes"], ...] = ()  # without these it would be another method
    memory: str | None = None  # a function of mcne.models.memory; None for methods that do not learn step by step
    gives: Literal["vectors", "counts", "scores"] = "vectors"
    takes_new_users: bool = False  # whether users can join after training
    stored: str | None = None  # of a method that gives scores: a function of mcne.models.saved
    settings: str = ""  # where their class is not named like that of the model
    former_name: str = ""  # in version 0.1; another method may have it now
    former_mark: str = ""  # a setting by which what was stored under the former name is recognized

    @property
    def class_name(self) -> str:
        """The name of its class, here and in Python's ``mcne``."""
        return self.model.partition(".")[2]

    @property
    def is_network(self) -> bool:
        """Whether its vectors come from messages along links, which the artifact keeps."""
        return (self.memory or "").startswith("network")

    @property
    def make(self) -> Any:
        """The class, which is called with training data, settings, seed and device."""
        return _imported(self.model)

    @property
    def config(self) -> Any:
        """The class of its settings."""
        return _imported(self.config_name)

    @property
    def config_name(self) -> str:
        """Its module and name."""
        return self.settings or f"{self.model}Config"

    @property
    def estimate(self) -> Callable[[TrainingSize], Estimate] | None:
        """The function that estimates the memory of a training."""
        return None if self.memory is None else _imported(f"memory.{self.memory}")

    @property
    def saved(self) -> Callable[[Any, SocialDataset, Split], Saved] | None:
        """The function that tells what is saved to answer from."""
        return None if self.stored is None else _imported(f"saved.{self.stored}")


def _imported(name: str) -> Any:
    """An object of a module of this package, as in ``bpr.BPR``."""
    module, _, attribute = name.partition(".")
    return getattr(import_module(f"mcne.models.{module}"), attribute)


_taught_by_links = partial(Entry, needs=("links",), memory="factors_with_contexts")
_conditional = partial(Entry, needs=("links", "behaviors"), memory="network")
_without_attention = partial(_conditional, memory="network_without_attention", settings="mcne.MCNEConfig")

DEFAULT = "mcne-plus"
"""The method to train where none is named."""

METHODS = {
    "mcne-plus": Entry(
        "mcne_plus.MCNEPlus",
        "Users as sums of an own vector, their history in all behaviors and their friends; a binary mask per behavior; "
        "learned by ranking pairs and random walks.",
        "after Wang et al. 2019",
        memory="sums",
    ),
    "popularity": Entry(
        "popularity.Popularity",
        "Recommends the most popular items; the baseline for every method.",
        gives="counts",
    ),
    "userknn": Entry(
        "knn.UserKNN",
        "Items of similar users by the cosine over all behaviors, plus items of friends and popular items.",
        gives="scores",
        stored="user_neighbors",
    ),
    "itemknn": Entry(
        "knn.ItemKNN",
        "Items similar to those of the user by a shrunk cosine over all behaviors, plus popular items.",
        "Sarwar et al. 2001",
        gives="scores",
        stored="item_neighbors",
    ),
    "ease": Entry(
        "ease.EASE",
        "A linear auto-encoder over the items of all behaviors in closed form, plus popular items.",
        "Steck 2019",
        gives="scores",
        stored="ease",
    ),
    "bpr": Entry(
        "bpr.BPR",
        "Matrix factorization learned by ranking pairs, with one vector per user for all behaviors.",
        "Rendle et al. 2009",
        memory="factors",
    ),
    "libfm": Entry(
        "libfm.LibFM",
        "A factorization machine over user, friends and item, learned by logistic loss with sampled negatives.",
        "Rendle 2012",
        memory="factorization_machine",
    ),
    "nfm": Entry(
        "nfm.NFM",
        "The features of LibFM, pooled and sent through a neural network.",
        "He & Chua 2017",
        memory="factorization_machine",
        gives="scores",
        stored="factors_with_network",
    ),
    "node2vec": _taught_by_links(
        "node2vec.Node2vec",
        "User vectors by skip-gram on second-order random walks, with item vectors trained by BPR.",
        "Grover & Leskovec 2016",
    ),
    "node2vec-b": _taught_by_links(
        "node2vec.Node2vecB", "Node2vec with user vectors also trained by BPR.", "MCNE paper"
    ),
    "line": _taught_by_links(
        "line.LINE",
        "User vectors by the first- or second-order proximity of links, with item vectors trained by BPR.",
        "Tang et al. 2015",
    ),
    "line-b": _taught_by_links("line.LINEB", "LINE with user vectors also trained by BPR.", "MCNE paper"),
    "graphsage": _taught_by_links(
        "graphsage.GraphSage",
        "The mean over sampled neighbors, learned without supervision on short walks, with item vectors trained by "
        "BPR.",
        "Hamilton et al. 2017",
        memory="graphsage",
    ),
    "pinsage": Entry(
        "pinsage.PinSage",
        "Convolutions over the most visited neighbors in one graph of links and training records.",
        "Ying et al. 2018",
        memory="pinsage",
    ),
    "lightgcn": Entry(
        "lightgcn.LightGCN",
        "Vectors smoothed over the graph of users and the items of all behaviors.",
        "He et al. 2020",
        memory="lightgcn",
    ),
    "lightgcn-trust": Entry(
        "lightgcn.LightGCNTrust",
        "LightGCN whose graph also has the links between users.",
        needs=("links",),
        memory="lightgcn_with_links",
        settings="lightgcn.LightGCNConfig",
    ),
    "shared-bottom": _without_attention(
        "mcne_variants.SharedBottom",
        "A control for MCNE: all masks are ones and behaviors have equal weight, so they share one vector per user.",
        needs=("links",),
    ),
    "soft-gate": _conditional(
        "mcne_variants.SoftGate",
        "A control for MCNE: sigmoid gates in place of binary masks.",
        settings="mcne.MCNEConfig",
    ),
    "mcne": _conditional(
        "mcne.MCNE",
        "Multiple conditional network embedding: messages along the links, weighted by attention over behaviors, make "
        "one vector per user; a learned binary mask per behavior selects the dimensions relevant to it.",
        "Wang et al. 2019",
        takes_new_users=True,
    ),
    "mcne-a": _without_attention(
        "mcne_variants.MCNEA",
        "MCNE without attention: all behaviors have equal weight in the messages along the links.",
        "Wang et al. 2019",
        takes_new_users=True,
    ),
    "mcne-f": _without_attention(
        "mcne_variants.MCNEF",
        "MCNE without attention and with fixed masks: every behavior has a block of dimensions of its own.",
        "Wang et al. 2019",
        takes_new_users=True,
    ),
    "mcne-attributes": Entry(
        "mcne_attributes.MCNEAttributes",
        "MCNE whose users start from their attributes, added to a free vector or alone.",
        "MCNE paper, future work",
        ("links", "behaviors", "attributes"),
        memory="network_drawn_on_host",
        takes_new_users=True,
        former_name="mcne-plus",
        former_mark="initial",
    ),
    "mcne-constant-masks": _conditional(
        "mcne_variants.ConstantMasks",
        "A control for MCNE: all masks start from the same value and are then trained.",
        "Wang et al. 2019, a remark",
    ),
    "mcne-random-masks": _conditional(
        "mcne_variants.RandomMasks",
        "A control for MCNE: masks are random and fixed; everything else is trained.",
    ),
}


def entry(name: str) -> Entry:
    """The method of that name."""
    if name in METHODS:
        return METHODS[name]
    if new_name := _renamed(name):
        raise UsageError(f"{name} is now called {new_name}", value=name, allowed=[new_name], remedy="use that name")
    raise UnknownError.of("method", name, METHODS)


def refuse_former_settings(name: str, settings: Iterable[str]) -> None:
    """Refuse settings that only another method has, which had this name in version 0.1."""
    if not (owner := _renamed(name)):
        return
    own, former = (entry(each).config.__dataclass_fields__ for each in (name, owner))
    for setting in settings:
        if setting in former and setting not in own:
            raise UsageError(
                f"belongs to {owner}, which was called {name} in version 0.1",
                f"setting {setting}",
                "use that name",
                value=setting,
            )


def present_name(stored: str, settings: Container[str]) -> str:
    """The name of a method today, by the name and the settings that were stored."""
    owner = _renamed(stored)
    return owner if owner and METHODS[owner].former_mark in settings else stored


def first_name(method: str) -> str:
    """The first name that a method had, which identities of what it makes keep for good."""
    return METHODS[method].former_name or method if method in METHODS else method


def _renamed(former_name: str) -> str | None:
    """The method that had this name in version 0.1 and has another one now."""
    return next((name for name, each in METHODS.items() if each.former_name == former_name), None)


def setting_names(name: str) -> list[str]:
    """The settings of a method and of its training."""
    return [field.name for kind in settings_classes(name) for field in fields(kind)]


def settings_classes(name: str) -> list[type[Any]]:
    """The classes of the settings of a method and of its training, to check settings without importing torch."""
    module, _, class_name = entry(name).config_name.partition(".")
    return [_made(f"mcne.models.{module}", class_name), TrainingSettings]


@cache
def _made(module: str, name: str) -> Any:
    """What a module calls ``name``; of a module of this package, most of which import torch, only its lines are run."""
    package, _, file = module.rpartition(".")
    if package != __package__ or module == TrainingSettings.__module__:
        return getattr(import_module(module), name)
    path = Path(__file__).with_name(f"{file}.py")
    homes: dict[str, str] = {}
    own: dict[str, ast.stmt] = {}
    for line in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(line, ast.ImportFrom):
            homes |= dict.fromkeys((each.name for each in line.names), str(line.module))
        elif isinstance(line, ast.ClassDef | ast.FunctionDef):
            own[line.name] = line
        elif isinstance(line, ast.Assign):
            own |= {target.id: line for target in line.targets if isinstance(target, ast.Name)}
    if name not in own:
        return _made(homes[name], name)
    used = {node.id for node in ast.walk(own[name]) if isinstance(node, ast.Name)} & {*homes, *own} - {name}
    names = {"__name__": module} | {each: _made(module, each) for each in used}
    exec(compile(ast.Module([own[name]], []), path, "exec", dont_inherit=True), names)
    return names[name]


def class_names() -> dict[str, str]:
    """The methods by the names of their classes: ``{"BPR": "bpr", …}``."""
    return {each.class_name: method for method, each in METHODS.items()}


def refusal(name: str, dataset: SocialDataset, *, is_alone: bool) -> UsageError | None:
    """The error that a method cannot learn from a dataset, if so; ``is_alone`` if it gets one behavior at a time."""
    needs = entry(name).needs
    refused = partial(UsageError, value=name)
    if "links" in needs and not dataset.graph.n_links:
        problem = f"{name} learns from links, but dataset {dataset.name} has none"
        return refused(problem, remedy="add links, or train bpr, ease or userknn, which need none")
    if "behaviors" in needs and is_alone:
        problem = f"{name} learns all behaviors together, so it has no separate training"
        return refused(problem, remedy="omit --separate (separate=True)")
    if "behaviors" in needs and len(dataset.behaviors) < 2:
        only = ", ".join(dataset.behavior_names) or "none"
        problem = f"{name} needs two or more behaviors, but dataset {dataset.name} has fewer ({only})"
        return refused(problem, remedy="train a method that needs only one, such as bpr")
    if "attributes" in needs and not dataset.attributes:
        problem = f"{name} needs user attributes, but dataset {dataset.name} has none"
        return refused(problem, remedy="prepare it with a table of users (--users), or train mcne, which needs none")
    return None
