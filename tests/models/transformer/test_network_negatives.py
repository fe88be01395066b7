"""Matcher-aware negatives by the fine-tuned network's own beam, beside a slow reference and under noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fine_tuned_books import QUICK, Set, bag, tuned

from sylvan import XTransformer
from sylvan.errors import ParameterError
from sylvan.models.transformer import fine_tuning
from sylvan.models.transformer.fine_tuning import TunedLayer
from sylvan.models.transformer.layer_job import LayerJob
from sylvan.models.transformer.presets import TransformerMatcher
from sylvan.neural import embed

NETWORK = replace(QUICK, negatives_from="network", max_steps=20)
SMALL = Set(450, 10)


@dataclass
class Begun:
    """A layer as its training begins: the encoder's vectors, and the nodes below which candidates are."""

    embeddings: np.ndarray
    parents: list[set[int]]


def training(monkeypatch: pytest.MonkeyPatch, matcher: TransformerMatcher, noise: float = 0.0) -> list[Begun]:
    """Train all layers; the vectors of each are replaced by noise once it is trained, where ``noise`` isn't 0."""
    begun: list[Begun] = []
    make, train_layer = LayerJob.__init__, fine_tuning.FineTuning.train_layer

    def watched(self: LayerJob, encoder: Any, layer: Any, data: Any, *given: Any, **more: Any) -> None:
        batch_of_each = [data.candidates.take(np.array([row]))[0] for row in range(len(SMALL.texts))]
        below = np.repeat(np.arange(len(data.candidates.child_offsets) - 1), np.diff(data.candidates.child_offsets))
        embeddings = embed(encoder, SMALL.texts, normalize=True)
        begun.append(Begun(embeddings, [set(below[nodes].tolist()) for nodes in batch_of_each]))
        make(self, encoder, layer, data, *given, **more)

    def noisy(self: Any, before: Sequence[TunedLayer], folder: str | None) -> TunedLayer:
        found = train_layer(self, before, folder)
        random = np.random.default_rng(found.layer)
        table = random.standard_normal(found.table.shape).astype(np.float32) if noise else found.table
        return replace(found, table=table)

    with monkeypatch.context() as patch:
        patch.setattr(LayerJob, "__init__", watched)
        patch.setattr(fine_tuning.FineTuning, "train_layer", noisy)
        tuned(bag(), range(SMALL.tree.depth), SMALL, matcher)
    return begun


def slow_beam(vectors: np.ndarray, layers: Sequence[TunedLayer], width: int) -> list[int]:
    """The best nodes of the last layer for one row, by the product of exp(-max(0, 1 - score)^3) along each path."""
    found = {0: 1.0}
    for layer in layers:
        offsets, below = SMALL.tree.child_offsets[layer.layer], {}
        for parent, value in found.items():
            for node in range(int(offsets[parent]), int(offsets[parent + 1])):
                score = float(layer.table[node].astype(np.float64) @ vectors.astype(np.float64) + layer.bias[node])
                below[node] = value * float(np.exp(-(max(0.0, 1 - score) ** 3)))
        found = dict(sorted(below.items(), key=lambda item: (-item[1], item[0]))[:width])
    return sorted(found)


def test_candidates_are_those_of_the_networks_own_beam(monkeypatch: pytest.MonkeyPatch) -> None:
    assert SMALL.tree.depth == 3
    layers: list[TunedLayer] = []
    train_layer = fine_tuning.FineTuning.train_layer
    monkeypatch.setattr(
        fine_tuning.FineTuning, "train_layer",
        lambda self, before, folder: layers.append(train_layer(self, before, folder)) or layers[-1],
    )  # fmt: skip
    begun = training(monkeypatch, NETWORK)
    leaf_of, searched = np.argsort(SMALL.tree.leaf_labels), 0
    for t in (1, 2):
        for row, found in enumerate(begun[t].parents):
            labels = SMALL.Y.indices[SMALL.Y.indptr[row] : SMALL.Y.indptr[row + 1]]
            positive = {int(SMALL.tree.path(int(leaf_of[label]))[t - 1]) for label in labels}
            looked = set(slow_beam(begun[t].embeddings[row], layers[:t], NETWORK.beam))
            assert found == positive | looked, (t, row)
            searched += len(looked - positive)
    assert searched > len(SMALL.texts)


def test_noise_in_the_layers_above_changes_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be the same if rankers solved anew were asked, which know nothing of what these layers learned."""
    for way, changed in (("network", True), ("rankers", False)):
        matcher = replace(NETWORK, negatives_from=way, beam=1)
        as_learned, by_noise = training(monkeypatch, matcher), training(monkeypatch, matcher, noise=1.0)
        for t in (1, 2):
            different = sum(a != b for a, b in zip(as_learned[t].parents, by_noise[t].parents, strict=True))
            assert (different > (0, 84)[t - 1]) if changed else not different, (way, t, different)
        np.testing.assert_array_equal(as_learned[1].embeddings, by_noise[1].embeddings)  # the encoder is the same


def test_layers_that_are_not_trained_have_rankers_in_either_case(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [tuned(bag(), [2], SMALL, replace(NETWORK, negatives_from=way)) for way in ("network", "rankers")]
    np.testing.assert_array_equal(found[0].layers[0].table, found[1].layers[0].table)


def test_within_a_layer_the_network_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    search = fine_tuning.FineTuning.search
    monkeypatch.setattr(
        fine_tuning.FineTuning, "search",
        lambda self, embeddings, layers: looked.append(layers) or search(self, embeddings, layers),
    )  # fmt: skip
    found = tuned(bag(), [0, 1], SMALL, replace(NETWORK, refresh=8))
    assert len(looked) == 3  # at the layer's beginning, and twice within its 20 steps
    for (above,) in looked:
        np.testing.assert_array_equal(above.intercepts, found.layers[0].bias)


def test_going_on_after_a_stop_finds_the_same_candidates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(Exception):
        pass

    expected = tuned(bag(), range(3), SMALL, replace(NETWORK, refresh=6))
    original = LayerJob.step

    def failing(self: LayerJob, batch: Any, step: int) -> Any:
        if self.layer.n_nodes == SMALL.tree.layer_sizes[2] and step == 9:
            raise Stopped
        return original(self, batch, step)

    with monkeypatch.context() as patch:
        patch.setattr(LayerJob, "step", failing)
        with pytest.raises(Stopped):
            tuned(bag(), range(3), SMALL, replace(NETWORK, refresh=6), checkpoint=tmp_path)
    found = tuned(bag(), range(3), SMALL, replace(NETWORK, refresh=6), checkpoint=tmp_path)
    for a, b in zip(found.layers, expected.layers, strict=True):
        np.testing.assert_array_equal(a.table, b.table)


def test_what_has_no_use_in_an_x_transformer() -> None:
    other = "network" if TransformerMatcher().negatives_from == "rankers" else "rankers"
    with pytest.raises(ParameterError, match="'negatives_from' parameter of TransformerMatcher must be"):
        XTransformer("bag", matcher=TransformerMatcher(negatives_from=other)).check_params()
