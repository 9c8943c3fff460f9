"""Written by ``python -m tests.api.stubs`` from the registry of methods; not meant to be edited."""

from typing import Literal

from mcne import datasets as datasets
from mcne import errors as errors
from mcne.api.comparing import compare as compare
from mcne.api.methods import evaluate as evaluate
from mcne.api.methods import fit as fit
from mcne.api.methods import load as load
from mcne.api.methods import split as split
from mcne.api.model import Model
from mcne.data.dataset import SocialDataset as SocialDataset
from mcne.embeddings.artifact import ConditionalEmbeddings as ConditionalEmbeddings

__version__: str

class _Method(Model):
    seed: int
    device: str
    separate: bool
    epochs: int
    patience: int
    evaluate_every: int
    workers: int
    checkpoint_seconds: float
    keep_checkpoints: int
    tensorboard: bool
    members: int
    deterministic: bool

class _MCNE(_Method):
    initial: Literal["free", "attributes", "both"]

class MCNEPlus(_Method):
    width: int | None
    masks: bool
    history: float
    friends: float
    attributes: float
    walks: float
    walk_length: int
    window: int
    walk_batch: int | None
    walk_negatives: int
    negatives: int
    batch_size: int | None
    learning_rate: float
    l2: float | None
    history_l2: float
    weighted_records: bool
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        width: int | None = None,
        masks: bool = True,
        history: float = 0.5,
        friends: float = 0.5,
        attributes: float = 1.0,
        walks: float = 0.2,
        walk_length: int = 20,
        window: int = 10,
        walk_batch: int | None = None,
        walk_negatives: int = 5,
        negatives: int = 20,
        batch_size: int | None = None,
        learning_rate: float = 0.006,
        l2: float | None = None,
        history_l2: float = 0.1,
        weighted_records: bool = False,
    ) -> None: ...

class Popularity(_Method):
    weighted_records: bool
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        weighted_records: bool = False,
    ) -> None: ...

class UserKNN(_Method):
    neighbors: int | None
    idf: bool
    trust_weight: float
    popularity_weight: float
    weighted_records: bool
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        neighbors: int | None = None,
        idf: bool = True,
        trust_weight: float = 0.03,
        popularity_weight: float = 0.07,
        weighted_records: bool = False,
    ) -> None: ...

class ItemKNN(_Method):
    neighbors: int | None
    idf: bool
    shrinkage: float
    popularity_weight: float
    weighted_records: bool
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        neighbors: int | None = None,
        idf: bool = True,
        shrinkage: float = 10.0,
        popularity_weight: float = 0.05,
        weighted_records: bool = False,
    ) -> None: ...

class EASE(_Method):
    l2: float
    popularity_weight: float
    weighted_records: bool
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        l2: float = 100.0,
        popularity_weight: float = 0.01,
        weighted_records: bool = False,
    ) -> None: ...

class BPR(_Method):
    width: int
    bias: bool
    negatives: int
    batch_size: int
    learning_rate: float
    l2: float
    weighted_records: bool
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        width: int = 100,
        bias: bool = True,
        negatives: int = 5,
        batch_size: int = 1024,
        learning_rate: float = 0.003,
        l2: float = 0.05,
        weighted_records: bool = False,
    ) -> None: ...

class LibFM(_Method):
    width: int
    negatives: int
    batch_size: int
    learning_rate: float
    l2: float
    weighted_records: bool
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        width: int = 100,
        negatives: int = 10,
        batch_size: int = 1024,
        learning_rate: float = 0.003,
        l2: float = 0.02,
        weighted_records: bool = False,
    ) -> None: ...

class NFM(_Method):
    width: int
    layers: tuple[int, ...]
    batch_norm: bool
    dropout: float
    layer_dropout: float
    negatives: int
    batch_size: int
    learning_rate: float
    l2: float
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        width: int = 100,
        layers: tuple[int, ...] = (64,),
        batch_norm: bool = False,
        dropout: float = 0.5,
        layer_dropout: float = 0.2,
        negatives: int = 10,
        batch_size: int = 1024,
        learning_rate: float = 0.001,
        l2: float = 0.03,
    ) -> None: ...

class Node2vec(_Method):
    width: int
    bias: bool
    negatives: int
    batch_size: int
    learning_rate: float
    l2: float
    weighted_records: bool
    walks_per_node: int
    walk_length: int
    window: int
    p: float
    q: float
    network_negatives: int
    weighted_neighbors: bool
    walk_batch: int
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        width: int = 100,
        bias: bool = True,
        negatives: int = 5,
        batch_size: int = 1024,
        learning_rate: float = 0.003,
        l2: float = 0.05,
        weighted_records: bool = False,
        walks_per_node: int = 10,
        walk_length: int = 80,
        window: int = 10,
        p: float = 1.0,
        q: float = 1.0,
        network_negatives: int = 5,
        weighted_neighbors: bool = False,
        walk_batch: int = 256,
    ) -> None: ...

class Node2vecB(_Method):
    width: int
    bias: bool
    negatives: int
    batch_size: int
    learning_rate: float
    l2: float
    weighted_records: bool
    walks_per_node: int
    walk_length: int
    window: int
    p: float
    q: float
    network_negatives: int
    weighted_neighbors: bool
    walk_batch: int
    network_weight: float
    beta: float
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        width: int = 100,
        bias: bool = True,
        negatives: int = 5,
        batch_size: int = 1024,
        learning_rate: float = 0.003,
        l2: float = 0.05,
        weighted_records: bool = False,
        walks_per_node: int = 10,
        walk_length: int = 80,
        window: int = 10,
        p: float = 1.0,
        q: float = 1.0,
        network_negatives: int = 5,
        weighted_neighbors: bool = False,
        walk_batch: int = 256,
        network_weight: float = 0.1,
        beta: float = 1.0,
    ) -> None: ...

class LINE(_Method):
    width: int
    bias: bool
    negatives: int
    batch_size: int
    learning_rate: float
    l2: float
    weighted_records: bool
    order: Literal[1, 2]
    network_negatives: int
    weighted_neighbors: bool
    link_batch: int
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        width: int = 100,
        bias: bool = True,
        negatives: int = 5,
        batch_size: int = 1024,
        learning_rate: float = 0.003,
        l2: float = 0.05,
        weighted_records: bool = False,
        order: Literal[1, 2] = 2,
        network_negatives: int = 5,
        weighted_neighbors: bool = False,
        link_batch: int = 4096,
    ) -> None: ...

class LINEB(_Method):
    width: int
    bias: bool
    negatives: int
    batch_size: int
    learning_rate: float
    l2: float
    weighted_records: bool
    order: Literal[1, 2]
    network_negatives: int
    weighted_neighbors: bool
    link_batch: int
    network_weight: float
    beta: float
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        width: int = 100,
        bias: bool = True,
        negatives: int = 5,
        batch_size: int = 1024,
        learning_rate: float = 0.003,
        l2: float = 0.05,
        weighted_records: bool = False,
        order: Literal[1, 2] = 2,
        network_negatives: int = 5,
        weighted_neighbors: bool = False,
        link_batch: int = 4096,
        network_weight: float = 0.1,
        beta: float = 1.0,
    ) -> None: ...

class GraphSage(_Method):
    widths: tuple[int, ...]
    neighbor_samples: tuple[int, ...]
    weighted_neighbors: bool
    walks_per_node: int
    walk_length: int
    walk_batch: int
    network_negatives: int
    bias: bool
    negatives: int
    batch_size: int
    learning_rate: float
    l2: float
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        widths: tuple[int, ...] = (256, 128, 100),
        neighbor_samples: tuple[int, ...] = (20, 20),
        weighted_neighbors: bool = False,
        walks_per_node: int = 50,
        walk_length: int = 5,
        walk_batch: int = 128,
        network_negatives: int = 20,
        bias: bool = True,
        negatives: int = 5,
        batch_size: int = 1024,
        learning_rate: float = 0.003,
        l2: float = 1.0,
    ) -> None: ...

class PinSage(_Method):
    widths: tuple[int, ...]
    neighbors: int
    walks: int
    walk_length: int
    restart: float
    loss: Literal["margin", "bpr"]
    margin: float
    bias: bool
    negatives: int
    batch_size: int
    learning_rate: float
    l2: float
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        widths: tuple[int, ...] = (256, 128, 100),
        neighbors: int = 20,
        walks: int = 100,
        walk_length: int = 5,
        restart: float = 0.5,
        loss: Literal["margin", "bpr"] = "margin",
        margin: float = 1.0,
        bias: bool = False,
        negatives: int = 5,
        batch_size: int = 1024,
        learning_rate: float = 0.003,
        l2: float = 0.1,
    ) -> None: ...

class LightGCN(_Method):
    width: int
    layers: int
    bias: bool
    negatives: int
    batch_size: int
    learning_rate: float
    l2: float
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        width: int = 100,
        layers: int = 3,
        bias: bool = False,
        negatives: int = 1,
        batch_size: int = 2048,
        learning_rate: float = 0.001,
        l2: float = 0.0001,
    ) -> None: ...

class LightGCNTrust(_Method):
    width: int
    layers: int
    bias: bool
    negatives: int
    batch_size: int
    learning_rate: float
    l2: float
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        width: int = 100,
        layers: int = 3,
        bias: bool = False,
        negatives: int = 1,
        batch_size: int = 2048,
        learning_rate: float = 0.001,
        l2: float = 0.0001,
    ) -> None: ...

class SharedBottom(_Method):
    widths: tuple[int, ...]
    neighbor_samples: tuple[int, ...]
    attention_width: int
    message: Literal["neighbor", "literal"]
    last_activation: bool
    weighted_neighbors: bool
    negatives: int
    batch_size: int
    learning_rate: float
    l2: float
    l2_form: Literal["scored", "parameters"]
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        widths: tuple[int, ...] = (256, 128, 100),
        neighbor_samples: tuple[int, ...] = (20, 20),
        attention_width: int = 64,
        message: Literal["neighbor", "literal"] = "neighbor",
        last_activation: bool = True,
        weighted_neighbors: bool = False,
        negatives: int = 5,
        batch_size: int = 128,
        learning_rate: float = 0.003,
        l2: float = 0.001,
        l2_form: Literal["scored", "parameters"] = "scored",
    ) -> None: ...

class SoftGate(_Method):
    widths: tuple[int, ...]
    neighbor_samples: tuple[int, ...]
    attention_width: int
    message: Literal["neighbor", "literal"]
    last_activation: bool
    weighted_neighbors: bool
    negatives: int
    batch_size: int
    learning_rate: float
    l2: float
    l2_form: Literal["scored", "parameters"]
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        widths: tuple[int, ...] = (256, 128, 100),
        neighbor_samples: tuple[int, ...] = (20, 20),
        attention_width: int = 64,
        message: Literal["neighbor", "literal"] = "neighbor",
        last_activation: bool = True,
        weighted_neighbors: bool = False,
        negatives: int = 5,
        batch_size: int = 128,
        learning_rate: float = 0.003,
        l2: float = 0.001,
        l2_form: Literal["scored", "parameters"] = "scored",
    ) -> None: ...

class MCNE(_MCNE):
    widths: tuple[int, ...]
    neighbor_samples: tuple[int, ...]
    attention_width: int
    message: Literal["neighbor", "literal"]
    last_activation: bool
    weighted_neighbors: bool
    negatives: int
    batch_size: int
    learning_rate: float
    l2: float
    l2_form: Literal["scored", "parameters"]
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        widths: tuple[int, ...] = (256, 128, 100),
        neighbor_samples: tuple[int, ...] = (20, 20),
        attention_width: int = 64,
        message: Literal["neighbor", "literal"] = "neighbor",
        last_activation: bool = True,
        weighted_neighbors: bool = False,
        negatives: int = 5,
        batch_size: int = 128,
        learning_rate: float = 0.003,
        l2: float = 0.001,
        l2_form: Literal["scored", "parameters"] = "scored",
        initial: Literal["free", "attributes", "both"] = "free",
    ) -> None: ...

class MCNEA(_Method):
    widths: tuple[int, ...]
    neighbor_samples: tuple[int, ...]
    attention_width: int
    message: Literal["neighbor", "literal"]
    last_activation: bool
    weighted_neighbors: bool
    negatives: int
    batch_size: int
    learning_rate: float
    l2: float
    l2_form: Literal["scored", "parameters"]
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        widths: tuple[int, ...] = (256, 128, 100),
        neighbor_samples: tuple[int, ...] = (20, 20),
        attention_width: int = 64,
        message: Literal["neighbor", "literal"] = "neighbor",
        last_activation: bool = True,
        weighted_neighbors: bool = False,
        negatives: int = 5,
        batch_size: int = 128,
        learning_rate: float = 0.003,
        l2: float = 0.001,
        l2_form: Literal["scored", "parameters"] = "scored",
    ) -> None: ...

class MCNEF(_Method):
    widths: tuple[int, ...]
    neighbor_samples: tuple[int, ...]
    attention_width: int
    message: Literal["neighbor", "literal"]
    last_activation: bool
    weighted_neighbors: bool
    negatives: int
    batch_size: int
    learning_rate: float
    l2: float
    l2_form: Literal["scored", "parameters"]
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        widths: tuple[int, ...] = (256, 128, 100),
        neighbor_samples: tuple[int, ...] = (20, 20),
        attention_width: int = 64,
        message: Literal["neighbor", "literal"] = "neighbor",
        last_activation: bool = True,
        weighted_neighbors: bool = False,
        negatives: int = 5,
        batch_size: int = 128,
        learning_rate: float = 0.003,
        l2: float = 0.001,
        l2_form: Literal["scored", "parameters"] = "scored",
    ) -> None: ...

class MCNEAttributes(_Method):
    widths: tuple[int, ...]
    neighbor_samples: tuple[int, ...]
    attention_width: int
    message: Literal["neighbor", "literal"]
    last_activation: bool
    weighted_neighbors: bool
    negatives: int
    batch_size: int
    learning_rate: float
    l2: float
    l2_form: Literal["scored", "parameters"]
    initial: Literal["both", "attributes"]
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        widths: tuple[int, ...] = (256, 128, 100),
        neighbor_samples: tuple[int, ...] = (20, 20),
        attention_width: int = 64,
        message: Literal["neighbor", "literal"] = "neighbor",
        last_activation: bool = True,
        weighted_neighbors: bool = False,
        negatives: int = 5,
        batch_size: int = 128,
        learning_rate: float = 0.003,
        l2: float = 0.001,
        l2_form: Literal["scored", "parameters"] = "scored",
        initial: Literal["both", "attributes"] = "both",
    ) -> None: ...

class ConstantMasks(_Method):
    widths: tuple[int, ...]
    neighbor_samples: tuple[int, ...]
    attention_width: int
    message: Literal["neighbor", "literal"]
    last_activation: bool
    weighted_neighbors: bool
    negatives: int
    batch_size: int
    learning_rate: float
    l2: float
    l2_form: Literal["scored", "parameters"]
    value: float
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        widths: tuple[int, ...] = (256, 128, 100),
        neighbor_samples: tuple[int, ...] = (20, 20),
        attention_width: int = 64,
        message: Literal["neighbor", "literal"] = "neighbor",
        last_activation: bool = True,
        weighted_neighbors: bool = False,
        negatives: int = 5,
        batch_size: int = 128,
        learning_rate: float = 0.003,
        l2: float = 0.001,
        l2_form: Literal["scored", "parameters"] = "scored",
        value: float = 0.5,
    ) -> None: ...

class RandomMasks(_Method):
    widths: tuple[int, ...]
    neighbor_samples: tuple[int, ...]
    attention_width: int
    message: Literal["neighbor", "literal"]
    last_activation: bool
    weighted_neighbors: bool
    negatives: int
    batch_size: int
    learning_rate: float
    l2: float
    l2_form: Literal["scored", "parameters"]
    density: tuple[float, ...] | float
    def __init__(
        self,
        *,
        seed: int = 0,
        device: str = "auto",
        separate: bool = False,
        epochs: int = 200,
        patience: int = 10,
        evaluate_every: int = 1,
        workers: int = 1,
        checkpoint_seconds: float = 60.0,
        keep_checkpoints: int = 2,
        tensorboard: bool = False,
        members: int = 1,
        deterministic: bool = False,
        widths: tuple[int, ...] = (256, 128, 100),
        neighbor_samples: tuple[int, ...] = (20, 20),
        attention_width: int = 64,
        message: Literal["neighbor", "literal"] = "neighbor",
        last_activation: bool = True,
        weighted_neighbors: bool = False,
        negatives: int = 5,
        batch_size: int = 128,
        learning_rate: float = 0.003,
        l2: float = 0.001,
        l2_form: Literal["scored", "parameters"] = "scored",
        density: tuple[float, ...] | float = 0.5,
    ) -> None: ...
