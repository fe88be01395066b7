"""The deep matcher's layers measured on a holdout, and negatives by the fine-tuned network's own beam."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fine_tuned_books import QUICK, Set, bag, books, tuned
from kit.errors import raises
from kit.watching import calls_of, stopped

from sylvan import XTransformer
from sylvan.arrays import validate
from sylvan.arrays.validate import Csr
from sylvan.errors import ModelError, ParameterError
from sylvan.models.transformer import fine_tuning
from sylvan.models.transformer.fine_tuning import TunedLayer
from sylvan.models.transformer.layer_job import LabelLayer, LayerCandidates, LayerData, LayerJob
from sylvan.models.transformer.presets import TransformerMatcher
from sylvan.neural import Engine, embed, load_tree


def test_the_best_model_on_the_holdout_is_taken() -> None:
    wild = replace(QUICK, row_learning_rate=30.0, label_learning_rate=30.0, epochs=2, holdout=100, evaluations=8)
    record = tuned(bag(), [1], matcher=wild).history()[0]
    entries = record["history"]["epochs"]
    assert len(entries) == 9 and all(0 <= entry["P@5"] <= 1 for entry in entries)
    assert record["history"]["best"]["P@5"] == max(entry["P@5"] for entry in entries)
    still = replace(wild, row_learning_rate=1e-30, label_learning_rate=1e-30, learning_rate=0.0, patience=2)
    stopped = tuned(bag(), [1], matcher=still).history()[0]["history"]
    assert stopped["stopped"] == "patience" and len(stopped["epochs"]) == 3 and stopped["best"] == stopped["epochs"][2]


def test_a_layer_of_few_nodes_keeps_what_it_learned() -> None:
    """P@5 of six nodes is the same for nearly every ranking of them: it would set the layer back to its beginning."""
    given, encoder = books(), bag()
    assert given.tree.layer_sizes[0] < 10 <= given.tree.layer_sizes[1]
    history = tuned(encoder, [0], matcher=replace(QUICK, epochs=2, holdout=100)).history()[0]["history"]
    assert history["metric"] == "P@1" and history["best"]["P@1"] > history["epochs"][0]["P@1"] + 0.05
    assert not torch.equal(encoder.bag.features, bag().load().bag.features)


@pytest.mark.parametrize(("sizes", "beam", "metric"), [
    ([9], 20, "P@1"), ([10], 20, "P@5"), ([4, 4, 4], 2, "P@1"), ([4, 4, 4], 3, "P@5"),
    ([2, 8, 3, 1], 2, "P@5"), ([1], 1, "P@1"),
])  # fmt: skip
def test_as_many_places_are_measured_as_candidates_can_tell_apart(sizes: list[int], beam: int, metric: str) -> None:
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    n_nodes, nobody = int(offsets[-1]), np.zeros(0, np.int64)
    candidates = LayerCandidates(offsets, validate.features(np.ones((1, n_nodes), np.float32)))
    encoder = bag()
    data = LayerData(encoder.tokenize(["one"]), nobody, nobody, candidates)
    job = LayerJob(encoder, LabelLayer(n_nodes, encoder.dim_out), data, replace(QUICK, beam=beam), 1)
    assert job.metric == metric and set(job.evaluate("validation")) == {metric}


def test_a_layer_that_only_gets_worse_keeps_its_beginning() -> None:
    ruin = replace(QUICK, row_learning_rate=300.0, label_learning_rate=300.0, max_steps=3, holdout=100, evaluations=3)
    encoder, still = bag(), bag()
    found = tuned(encoder, [1], matcher=ruin)
    history = found.history()[0]["history"]
    assert history["best"]["step"] == 0 and [entry["step"] for entry in history["epochs"]] == [0, 1, 2, 3]
    quiet = replace(ruin, row_learning_rate=1e-30, label_learning_rate=1e-30, learning_rate=0.0)
    np.testing.assert_array_equal(found.layers[0].table, tuned(still, [1], matcher=quiet).layers[0].table)
    assert torch.equal(encoder.bag.features, still.bag.features)


@pytest.mark.parametrize("n_holdout", [0, 100])
@pytest.mark.parametrize("what", ["loss", "weights"])
def test_a_training_that_diverges_says_where_and_what_to_lower(
    what: str, n_holdout: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At step 7 of the second layer, of which 6 are good."""
    step = LayerJob.step

    def spoilt(self: LayerJob, rows: Any, at: int) -> Any:
        loss = step(self, rows, at)
        if self.layer.n_nodes > 10 and at == 6:
            if what == "loss":
                return loss * float("inf")
            self.layer.table.register_hook(lambda grad: grad * float("nan"))
        return loss

    monkeypatch.setattr(LayerJob, "step", spoilt)
    settings = replace(QUICK, max_steps=12, evaluations=12, holdout=n_holdout)
    rates = ("learning_rate", 0.0001, "label_learning_rate", 0.15, "row_learning_rate", 0.3)
    with raises(ParameterError, "layer 2", 3, 1, "step 7", rates, "precision='no'", "bf16"):
        tuned(bag(), [0, 1], matcher=settings, engine=Engine("cpu", "bf16"), checkpoint=tmp_path)
    assert not (tmp_path / "training1" / "checkpoint").exists(), "there was no good one to make"
    if n_holdout:
        best = load_tree(tmp_path / "training1" / "best", kind="neural-model")
        assert best and all(bool(torch.isfinite(tensor).all()) for tensor in best.values())


def test_only_an_encoder_with_tables_reads_of_their_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, step = bag(), LayerJob.step
    encoder.load().bag.features.requires_grad_(False)
    monkeypatch.setattr(LayerJob, "step", lambda self, rows, at: step(self, rows, at) * float("nan"))
    monkeypatch.setattr(type(encoder), "tables", lambda self: [])
    words = ("learning_rate", "0.0001", "label_learning_rate", "0.15")
    with raises(ParameterError, words):
        tuned(encoder, [0], matcher=replace(QUICK, max_steps=3))


def test_a_model_that_is_no_number_measures_nothing() -> None:
    """Its scores would still have places, and some rows' positives would stand in them."""
    encoder, one = bag(), np.ones(2, np.float32)
    costs = Csr(np.arange(3), np.array([0, 3], np.int32), one, (2, 4))
    data = LayerData(
        encoder.tokenize(["red", "car"]), np.zeros(0, np.int64), np.arange(2), LayerCandidates(np.array([0, 4]), costs)
    )
    layer = LabelLayer(4, encoder.dim_out)
    job = LayerJob(encoder, layer, data, QUICK, 1)
    assert job.evaluate("validation")["P@1"] in (0.0, 0.5)
    with torch.no_grad():
        layer.table[3] = float("nan")
    assert np.isnan(job.evaluate("validation")["P@1"])


def test_an_encoder_whose_vectors_are_no_numbers() -> None:
    encoder = bag().load()
    with torch.no_grad():
        encoder.bag.features[:] = float("nan")
    with raises(ModelError, "row 0"):
        tuned(encoder, [0])


def test_rows_of_the_holdout_count_only_what_their_beam_reaches() -> None:
    """The rows' candidates make one table, in which a row has places for those of others."""
    encoder = bag()
    rows = encoder.tokenize(["red apple", "blue car"])
    one = np.ones(2, np.float32)
    costs = Csr(np.arange(3), np.array([0, 3], np.int32), one, (2, 4))  # leaves 0 and 3, in clusters 0 and 1
    parents = Csr(np.arange(3), np.array([0, 1], np.int32), one, (2, 2))
    offsets, nobody = np.array([0, 2, 4]), np.zeros(0, np.int64)
    layer = LabelLayer(4, encoder.dim_out)
    layer.begin_with(np.zeros((4, encoder.dim_out), np.float32), np.array([-1, -2, -2, -1], np.float32))
    found = []
    for beam in ([[1], [0]], [[0], [1]]):
        candidates = LayerCandidates(offsets, costs, parents, np.array(beam, np.int32), 1.0)
        data = LayerData(rows, nobody, np.arange(2), candidates)
        found.append(LayerJob(encoder, layer, data, QUICK, 1).evaluate("validation")["P@1"])
    assert found == [0.0, 1.0]


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
    trained = calls_of(monkeypatch, fine_tuning.FineTuning, "train_layer")
    begun = training(monkeypatch, NETWORK)
    layers = [call.result for call in trained]
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
    looked = calls_of(monkeypatch, fine_tuning.FineTuning, "search")
    found = tuned(bag(), [0, 1], SMALL, replace(NETWORK, refresh=8))
    assert len(looked) == 3  # at the layer's beginning, and twice within its 20 steps
    for (_, _, (above,)), *_ in looked:
        np.testing.assert_array_equal(above.intercepts, found.layers[0].bias)


def test_going_on_after_a_stop_finds_the_same_candidates(tmp_path: Path) -> None:
    expected, last = tuned(bag(), range(3), SMALL, replace(NETWORK, refresh=6)), SMALL.tree.layer_sizes[2]
    with stopped(LayerJob, "step", lambda job, batch, step: job.layer.n_nodes == last and step == 9):
        tuned(bag(), range(3), SMALL, replace(NETWORK, refresh=6), checkpoint=tmp_path)
    found = tuned(bag(), range(3), SMALL, replace(NETWORK, refresh=6), checkpoint=tmp_path)
    for a, b in zip(found.layers, expected.layers, strict=True):
        np.testing.assert_array_equal(a.table, b.table)


def test_what_has_no_use_in_an_x_transformer() -> None:
    other = "network" if TransformerMatcher().negatives_from == "rankers" else "rankers"
    with raises(ParameterError, "negatives_from", "TransformerMatcher"):
        XTransformer("bag", matcher=TransformerMatcher(negatives_from=other)).check_params()
