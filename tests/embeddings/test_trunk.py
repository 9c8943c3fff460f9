"""Attention in NumPy is that of the network (Eq. 4–5)."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mcne.embeddings import Attention, ConditionalEmbeddings, Trunk
from mcne.embeddings.trunk import MessageKind
from mcne.kernels.plain import edges


def random_trunk(seed: int, message: MessageKind, *, size: float = 1.0) -> Trunk:
    """Five users, three behaviors and the rest, widths 7 → 4 → 3, attention width 6."""
    random = np.random.default_rng(seed)

    def draw(*shape: int) -> np.ndarray:
        return (size * random.normal(size=shape)).astype(np.float32)

    widths = (7, 4, 3)
    return Trunk(
        tuple(draw(5, width) for width in widths[:2]),
        tuple(random.random((4, width)) < 0.5 for width in widths),
        tuple(Attention(draw(6, 2 * width), draw(6)) for width in widths[:2]),
        message,
    )


def test_weights_by_hand(tiny: ConditionalEmbeddings) -> None:
    trunk = tiny.trunk
    assert trunk is not None
    raised = np.exp([1.0, 2.0, 3.0])
    np.testing.assert_allclose(
        trunk.weights(0, np.array([0, 1]), np.array([1, 0])), [raised / raised.sum(), [1 / 3] * 3]
    )
    literal = Trunk(trunk.levels, trunk.masks, trunk.attention, "literal")
    np.testing.assert_allclose(literal.weights(0, np.array([1]), np.array([0])), [raised / raised.sum()])
    uniform = Trunk(trunk.levels, trunk.masks, None)
    assert uniform.weights(0, np.array([0, 1]), np.array([1, 0])).tolist() == [[1 / 3] * 3] * 2


@pytest.mark.parametrize("message", ["neighbor", "literal"])
@pytest.mark.parametrize("layer", [0, 1])
def test_weights_are_those_of_the_kernel(message: MessageKind, layer: int) -> None:
    trunk = random_trunk(layer, message)
    sender, receiver = (ends.ravel() for ends in np.mgrid[:5, :5])
    attention, masks = trunk.attention, torch.from_numpy(trunk.masks[layer].astype(np.float32))
    assert attention is not None
    conditional = torch.tensor(trunk.levels[layer])[:, None, :] * masks  # [users, B, d]
    halves = torch.tensor(attention[layer].project).chunk(2, dim=1)
    first, second = (conditional @ half.T for half in halves)  # [users, B, t]
    near, far = (receiver, sender) if message == "literal" else (sender, receiver)
    expected = edges.attention(first[near], second[far], torch.tensor(attention[layer].score))
    np.testing.assert_allclose(trunk.weights(layer, sender, receiver), expected.numpy(), rtol=1e-4, atol=1e-6)


def test_weights_are_those_of_a_loop() -> None:
    trunk = random_trunk(5, "neighbor")
    assert trunk.attention is not None
    project, score = trunk.attention[1].project.tolist(), trunk.attention[1].score.tolist()
    sent, heard = trunk.levels[1][3].tolist(), trunk.levels[1][2].tolist()
    raised = []
    for mask in trunk.masks[1].tolist():
        pair = [u if on else 0.0 for u, on in zip(sent + heard, mask + mask, strict=True)]
        hidden = [max(0.0, sum(w * u for w, u in zip(row, pair, strict=True))) for row in project]
        raised.append(math.exp(sum(h * x for h, x in zip(score, hidden, strict=True))))
    expected = [value / sum(raised) for value in raised]
    np.testing.assert_allclose(trunk.weights(1, np.array([3]), np.array([2]))[0], expected, rtol=1e-6)


def test_extreme_and_empty_input() -> None:
    weights = random_trunk(2, "neighbor", size=1e9).weights(0, np.arange(5), np.arange(5))
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert random_trunk(2, "neighbor").weights(0, np.zeros(0, int), np.zeros(0, int)).shape == (0, 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"masks": slice(0, 2)}, r"needs K\+1 levels of masks"),
        ({"attention": slice(0, 1)}, "attention at K layers or none"),
        ({"attention": slice(0, 0)}, "attention at K layers or none"),
        ({"attention": slice(None, None, -1)}, "attention of layer 0: its projection must take two vectors of level 0"),
        ({"levels": slice(None, None, -1)}, r"vectors of level 0: float32 \[any, 7\] expected, got float32 \[5, 4\]"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes: dict[str, slice], message: str) -> None:
    trunk = random_trunk(0, "neighbor")
    parts: dict[str, Any] = {"levels": trunk.levels, "masks": trunk.masks, "attention": trunk.attention}
    with pytest.raises(ValueError, match=message):
        Trunk(**parts | {name: parts[name][part] for name, part in changes.items()})


def test_masks_and_attention_are_checked() -> None:
    trunk = random_trunk(0, "neighbor")
    with pytest.raises(ValueError, match=r"masks of level 1: bool \[4, any\] expected, got bool \[3, 4\]"):
        Trunk(trunk.levels, (trunk.masks[0], trunk.masks[1][:3], trunk.masks[2]), None)
    with pytest.raises(ValueError, match=r"attention projection: float32 \[2, any\] expected, got float32 \[3, 4\]"):
        Attention(np.zeros((3, 4), np.float32), np.zeros(2, np.float32))
    with pytest.raises(ValueError, match="attention score: not all values are finite"):
        Attention(np.zeros((1, 4), np.float32), np.array([np.nan], np.float32))


def test_weights_that_make_a_level_must_fit_it() -> None:
    trunk = random_trunk(0, "neighbor")
    weights = tuple(np.ones((upper, 2 * lower), dtype=np.float32) for lower, upper in ((7, 4), (4, 3)))
    assert replace(trunk, combine=weights).combine is not None
    with pytest.raises(ValueError, match="weights of layer 1"):
        replace(trunk, combine=(weights[0], weights[0]))


def test_an_artifact_of_before_weights_were_kept_still_opens(tmp_path: Path, tiny: ConditionalEmbeddings) -> None:
    assert tiny.trunk is not None
    assert tiny.trunk.combine is None
    tiny.save(tmp_path / "old")
    kept = ConditionalEmbeddings.load(tmp_path / "old").trunk
    assert kept is not None
    assert kept.combine is None
    assert kept.last_activation
