"""Users' attributes as a network takes them: standardized numbers and categories, each with vectors of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.data.behavior import Attribute
from mcne.data.graph import offsets
from mcne.data.ids import Ids
from mcne.files import Arrays, check


@dataclass(frozen=True, eq=False)
class Column:
    """One attribute as it was in training: its categories, or the mean and the spread of its numbers."""

    name: str
    categories: Ids | None = None
    mean: float = 0.0
    spread: float = 1.0

    @classmethod
    def of(cls, name: str, attribute: Attribute) -> Column:
        """That of a dataset; numbers that are all the same, or all unknown, have no spread to divide by."""
        if attribute.categories is not None:
            return cls(name, attribute.categories)
        known = attribute.values[~np.isnan(attribute.values)]
        mean, spread = (float(known.mean()), float(known.std())) if len(known) else (0.0, 0.0)
        return cls(name, None, mean, spread or 1.0)

    @property
    def size(self) -> int:
        """Features: a category each, or the number itself; and what stands for unknown, the last."""
        return 2 if self.categories is None else len(self.categories) + 1

    def encode(self, values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Features of users and their amounts, both [users, 1], or of numbers [users, 2]."""
        if self.categories is not None:
            chosen = np.where(values < 0, self.size - 1, values).astype(np.int64)[:, None]
            return chosen, np.ones(chosen.shape, dtype=np.float32)
        unknown = np.isnan(values)
        standard = np.where(unknown, 0.0, (values - self.mean) / self.spread)
        return np.tile([0, 1], (len(values), 1)), np.stack([standard, unknown], axis=1).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Encoding:
    """All attributes of users as rows of one table of features, attribute after attribute."""

    columns: tuple[Column, ...]

    @classmethod
    def of(cls, attributes: Mapping[str, Attribute]) -> Encoding:
        """That of a dataset's attributes."""
        return cls(tuple(Column.of(name, attribute) for name, attribute in attributes.items()))

    @property
    def first(self) -> NDArray[np.int64]:
        """Where the features of each attribute begin, and where the last end."""
        return offsets(np.array([column.size for column in self.columns], dtype=np.int64)).astype(np.int64)

    @property
    def size(self) -> int:
        """Features of all attributes, F."""
        return int(self.first[-1])

    @property
    def unknown(self) -> NDArray[np.int64]:
        """The features that stand for an unknown value, one of each attribute."""
        return self.first[1:] - 1

    def encode(self, attributes: Mapping[str, Attribute], n_users: int) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Features of every user and their amounts, both [users, p]."""
        columns = [column.encode(attributes[column.name].values) for column in self.columns]
        indices = [index + first for (index, _), first in zip(columns, self.first, strict=False)]
        none = np.zeros((n_users, 0))
        index = np.concatenate([none.astype(np.int64), *indices], axis=1)
        return index, np.concatenate([none.astype(np.float32), *(amount for _, amount in columns)], axis=1)


@dataclass(frozen=True, eq=False)
class Profile:
    """What a network learned of attributes: a vector for each feature, of which a user's are added up."""

    encoding: Encoding
    weights: NDArray[np.float32]  # [F, d₀]
    center: NDArray[np.float32]  # [d₀] what those of the users in training add up to, on average

    def __post_init__(self) -> None:
        check(self, "weights", "vectors of attributes", dtype=np.float32, shape=(self.encoding.size, None))
        check(self, "center", "their mean", dtype=np.float32, shape=self.weights.shape[1:])

    @classmethod
    def of(cls, encoding: Encoding, weights: NDArray[np.float32], attributes: Mapping[str, Attribute]) -> Profile:
        """That of a network trained on users with these attributes."""
        n_users = len(next(iter(attributes.values())).values) if attributes else 0
        index, amount = encoding.encode(attributes, n_users)
        total = np.bincount(index.ravel(), amount.ravel(), minlength=encoding.size)
        return cls(encoding, weights, (total / max(1, n_users) @ weights).astype(np.float32))

    def vectors(self, attributes: Mapping[str, Attribute], n_users: int) -> NDArray[np.float32]:
        """What the attributes of these users add up to, [users, d₀]."""
        index, amount = self.encoding.encode(attributes, n_users)
        total = np.zeros((n_users, self.weights.shape[1]), dtype=np.float32)
        for features, amounts in zip(index.T, amount.T, strict=True):
            total += self.weights[features] * amounts[:, None]
        return total

    def meta(self) -> list[list[Any]]:
        """What the arrays do not say: names, and which of them have categories."""
        return [[column.name, column.categories is not None] for column in self.encoding.columns]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays to store; :meth:`from_arrays` reads them back."""
        columns = self.encoding.columns
        standard = np.array([[column.mean, column.spread] for column in columns]).reshape(-1, 2)
        arrays = {"profile.weights": self.weights, "profile.center": self.center, "profile.standard": standard}
        for k, column in enumerate(columns):
            if column.categories is not None:
                arrays |= column.categories.arrays(f"profile.{k}.categories")
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays, meta: list[list[Any]]) -> Profile:
        """Read what :meth:`arrays` and :meth:`meta` stored, without copying."""
        columns = tuple(
            Column(
                name,
                Ids.from_arrays(arrays, f"profile.{k}.categories") if has_categories else None,
                *arrays["profile.standard"][k].tolist(),
            )
            for k, (name, has_categories) in enumerate(meta)
        )
        return cls(Encoding(columns), arrays["profile.weights"], arrays["profile.center"])
