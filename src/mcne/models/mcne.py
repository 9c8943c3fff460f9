"""MCNE: multiple conditional network embedding, and its variants MCNE-A and MCNE-F."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import torch
from torch import Tensor

from mcne.data.dataset import SocialDataset
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.scorer import Scorer
from mcne.embeddings.trunk import Attention, MessageKind, Trunk
from mcne.errors import UsageError
from mcne.models.contract import StepLoss, TrainingData
from mcne.models.losses import parameter_l2
from mcne.models.mask import BinaryMask, FixedMask, Mask
from mcne.models.message import GraphLinks
from mcne.models.neighborhoods import Batch, Neighborhoods
from mcne.models.network import ConditionalNetwork
from mcne.models.optimizer import DenseAdam, RowAdam, adam_memory, load_adam
from mcne.models.ranking import DotRanking, step_loss
from mcne.models.settings import Amount, Count, Rate
from mcne.models.tables import INIT_STD, normal_table, to_numpy
from mcne.randomness import Stream


@dataclass(frozen=True)
class MCNEConfig:
    """Settings of the model: the paper's where it states them, and for the rest those of docs/paper-to-code.md.

    ``l2`` is not the paper's 1e-4, which is too weak in either form (reading 8).
    """

    widths: tuple[Count, ...] = (256, 128, 100)
    neighbor_samples: tuple[Count, ...] = (20, 20)
    attention_width: Count = 64
    message: MessageKind = "neighbor"
    last_activation: bool = True
    weighted_neighbors: bool = False
    negatives: Count = 5
    batch_size: Count = 128
    learning_rate: Rate = 0.003
    l2: Amount = 0.001
    l2_form: Literal["scored", "parameters"] = "scored"

    def __post_init__(self) -> None:
        if not self.neighbor_samples or len(self.widths) != len(self.neighbor_samples) + 1:
            raise UsageError(
                f"settings widths {list(self.widths)} and neighbor_samples {list(self.neighbor_samples)}: a width is "
                "needed for every sample (1 or more), and one more for the vectors that it starts from"
            )


class MCNE:
    """The paper's model behind the training contract."""

    attention = True

    def __init__(self, data: TrainingData, config: MCNEConfig, *, seed: int, device: torch.device) -> None:
        self.data, self.config, self.device = data, config, device
        self._seed = seed
        self.items = DotRanking(data, config, width=config.widths[-1], bias=False, seed=seed, device=device)
        stream = Stream(seed, "initialize", "network")
        self.network = ConditionalNetwork(
            len(data.names) + 1,
            config.widths,
            attention_width=config.attention_width,
            attention=self.attention,
            masks=self.masks(stream),
            message=config.message,
            last_activation=config.last_activation,
            stream=stream,
        ).to(device)
        tables = self.user_tables() | self.items.tables()
        self.neighborhoods = Neighborhoods(
            self.items,
            config.neighbor_samples,
            weighted=config.weighted_neighbors,
            widest=max(*config.widths, config.attention_width, len(data.names) + 1),
            is_drawn_there=self.is_drawn_on_gpu,
        )
        self.tables = RowAdam(
            tables,
            learning_rate=config.learning_rate,
            device=device,
            joined=self.items.joined,
        )
        self._adam = DenseAdam(
            self.network.parameters(), learning_rate=config.learning_rate, bounded=self.network.bounded()
        )

    def masks(self, stream: Stream) -> Callable[[int, int], Mask]:
        """How the masks of a level are made, from their number and width."""
        return partial(BinaryMask, stream=stream)

    def user_tables(self) -> dict[str, Tensor]:
        """The table of users: the vectors that they start from."""
        stream = Stream(self._seed, "initialize", "users")
        return {"users": normal_table(self.data.n_users, self.config.widths[0], std=INIT_STD, stream=stream)}

    def initial(self, users: Tensor) -> Tensor:
        """The vectors that distinct users start from, [n, d₀], which learn in this step."""
        return self._rows("users", users)

    def all_initial(self, *, for_good: bool = False) -> Tensor:
        """Those of all users; ``for_good`` they never change again."""
        return self.tables.given_away("users") if for_good else self.tables.tables["users"]

    @property
    def is_capturable(self) -> bool:
        """Where steps are drawn on the GPU."""
        return self.neighborhoods.is_capturable

    @property
    def is_drawn_on_gpu(self) -> bool:
        """Whether steps may be drawn there: not where all parameters learn in every step."""
        return self.config.l2_form == "scored"

    @property
    def n_steps(self) -> int:
        """Steps of an epoch: as long as the longest behavior takes (reading 10)."""
        return self.items.n_steps

    def prepare(self, epoch: int, step: int) -> Batch | Tensor:
        """Draw the triples of all behaviors and the neighborhood of their users, or say what to draw on the GPU."""
        return self.neighborhoods.prepare(epoch, step)

    def loss(self, batch: Batch | Tensor) -> StepLoss:
        """Eq. 7–8: BPR per behavior, averaged over behaviors, plus L2 (reading 8)."""
        self.tables.forget()
        batch = self.neighborhoods.drawn(batch)
        last = self.network(self.initial(batch.users), batch.hops)  # [n_K, d_K], before the last mask
        masks = self.network.masks[-1]()  # [C + 1, d_K], of which the last is no behavior's
        ranking, scored = self.items.loss(self._rows, batch.triples, last, masks)
        penalty = scored if self.config.l2_form == "scored" else parameter_l2(self._parameters())
        return step_loss(ranking, self.config.l2 * penalty, batch.triples)

    def update(self, loss: StepLoss) -> None:
        """Descend; the masks stay in their range, and it is counted how many entries turn over."""
        self._adam.zero_grad()
        torch.autograd.backward(loss.total)
        self._adam.step()
        self.tables.step()

    def vitals(self) -> dict[str, float]:
        """The density of the masks at each level, and how often an entry has turned over since the start."""
        density = {f"mask_density_{k}": float(mask.mean()) for k, mask in enumerate(self.network.binary_masks())}
        return density | {"mask_flips": float(self._adam.turned)}

    def scorer(self) -> Scorer:
        """Users by the last level under each behavior's mask, items by their tables."""
        return self.items.scorer(self.tables.tables, self.levels()[-1], self._masks()[-1][:-1])

    def embeddings(self, dataset: SocialDataset, provenance: Mapping[str, Any]) -> ConditionalEmbeddings:
        """The artifact, with the levels and the attention that explain a link."""
        _, *between, last = self.levels()
        attention = tuple(
            Attention(to_numpy(layer.project).copy(), to_numpy(layer.score).copy())
            for layer in self.network.message_layers()
            if layer.project is not None and layer.score is not None
        )
        trunk = Trunk(
            tuple(to_numpy(level) for level in (self.all_initial(for_good=True), *between)),
            tuple(self._masks()),
            attention or None,
            self.config.message,
            self.config.weighted_neighbors,
            tuple(to_numpy(layer.combine).copy() for layer in self.network.message_layers()),
            self.config.last_activation,
        )
        return self.items.embeddings(
            self.tables.tables,
            last,
            dataset=dataset,
            provenance=provenance,
            masks=trunk.masks[-1][:-1],
            trunk=trunk,
        )

    def levels(self) -> list[Tensor]:
        """Every level of all users, hearing all their neighbors (reading 11): K+1 × [users, d_k]."""
        return self.network.infer(self.all_initial(), self._links)

    @cached_property
    def _links(self) -> GraphLinks:
        return GraphLinks(self.data.graph, weighted=self.config.weighted_neighbors, device=self.device)

    def learned(self) -> dict[str, Tensor]:
        """The tables, the masks behind their thresholds, and the weights of the layers."""
        return dict(self.tables.tables) | {f"network.{k}": value for k, value in self.network.state_dict().items()}

    def memory(self) -> dict[str, Tensor]:
        """What both optimizers remember, and the count of flips."""
        return self.tables.memory() | adam_memory(self._adam) | {"flips": self._adam.turned}

    def load(self, learned: Mapping[str, Tensor]) -> None:
        """Take over tables, masks and weights."""
        self.tables.load_tables(learned)
        self.network.load_state_dict({name: learned[f"network.{name}"] for name in self.network.state_dict()})

    def load_memory(self, memory: Mapping[str, Tensor]) -> None:
        """Take over what both optimizers remembered."""
        self.tables.load_memory(memory)
        load_adam(self._adam, memory)
        self._adam.load_turned(memory["flips"])

    def _masks(self) -> list[Any]:
        """The binary masks of every level, K+1 × [B, d_k]."""
        return [to_numpy(mask).astype(bool) for mask in self.network.binary_masks()]

    def _rows(self, table: str, rows: Tensor) -> Tensor:
        """Rows of a table that learn in this step. Where L2 is on all parameters, all rows learn in every step."""
        if self.config.l2_form == "scored":
            return self.tables.rows(table, rows)
        return self.tables.rows(table, torch.arange(len(self.tables.whole[table]), device=self.device))[rows]

    def _parameters(self) -> list[Tensor]:
        return [*self.network.parameters(), *self.tables.touched()]


class MCNEA(MCNE):
    """MCNE-A: no attention, all behaviors weigh the same along every link (reading 13)."""

    attention = False


class MCNEF(MCNE):
    """MCNE-F: disjoint fixed masks instead of learned ones, and no attention (reading 14)."""

    attention = False

    def __init__(self, data: TrainingData, config: MCNEConfig, *, seed: int, device: torch.device) -> None:
        rows = len(data.names) + 1
        if min(config.widths) < rows:
            raise UsageError(
                f"setting widths: {list(config.widths)} with {rows - 1} behaviors leaves one without dimensions; "
                f"mcne-f needs {rows} or more at every level"
            )
        super().__init__(data, config, seed=seed, device=device)

    def masks(self, stream: Stream) -> Callable[[int, int], Mask]:
        """Blocks of dimensions, which need no chance."""
        return FixedMask
