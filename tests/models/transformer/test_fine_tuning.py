"""The deep matcher: what layers begin with, whom they are trained on, what is learned, and going on after a stop."""

from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fine_tuned_books import QUICK, Set, bag, books, tuned
from kit.errors import raises
from kit.watching import calls_of, stopped

from sylvan import XRLinear, metrics
from sylvan.arrays import validate
from sylvan.errors import DataError
from sylvan.models.transformer.fine_tuning import FineTuned, FineTuning
from sylvan.models.transformer.layer_job import (
    LabelLayer,
    LayerCandidates,
    LayerData,
    LayerJob,
    dense_rows,
    dense_table,
    upper_tree,
)
from sylvan.models.transformer.presets import TransformerMatcher
from sylvan.neural import BagTextEncoder, Engine, embed


def precision(encoder: BagTextEncoder, k: int = 1, given: Set | None = None) -> float:
    """P@k of linear rankers on the embeddings alone."""
    given = books() if given is None else given
    model = XRLinear(tree=given.tree, n_jobs=1).fit(embed(encoder, given.texts, normalize=True), given.Y.to_scipy())
    top = model.rank(embed(encoder, given.test_texts, normalize=True), k)
    return float(metrics.precision(given.test_Y, top, [k])[k])


# What a layer begins with, and whom it is trained on.


@pytest.mark.parametrize(
    ("layer", "weighted", "costs", "normalize"),
    [(0, False, "none", True), (1, False, "none", False), (2, False, "none", True), (0, True, "none", False),
     (2, True, "none", True), (0, False, "count", True), (1, True, "count", True), (2, False, "l1", False)],
)  # fmt: skip
def test_tables_begin_with_what_the_linear_solver_gives(
    layer: int, weighted: bool, costs: str, normalize: bool
) -> None:
    given, encoder = books(), bag()
    embeddings = embed(encoder, given.texts, normalize=normalize)
    still = replace(
        QUICK, row_learning_rate=1e-30, label_learning_rate=1e-30, learning_rate=0.0, max_steps=1,
        bootstrap_relevance=costs, normalize=normalize,
    )  # fmt: skip
    drawn = np.random.default_rng(0).choice([0.25, 1.0, 4.0], len(given.texts)).astype(np.float32)
    weight = drawn if weighted else None
    found = tuned(encoder, [layer], matcher=still, row_weight=weight).layers[0]
    tree = upper_tree(given.tree, layer)
    Y = given.Y.to_scipy()
    if layer < 2:
        positives = np.zeros((len(given.texts), tree.n_labels))
        for row, label in np.argwhere(Y.toarray() > 0):
            leaf = int(np.flatnonzero(given.tree.leaf_labels == label)[0])
            positives[row, given.tree.path(leaf)[layer]] += 1
        Y = np.minimum(positives, 1) if costs == "none" else positives
    as_it_is: dict[str, Any] = {
        "negative_cost": 1.0, "man_threshold": 0.0, "tolerance": 0.1, "max_iterations": 10, "scaling": "none",
    }  # fmt: skip
    as_it_is |= {"combine": "l3_hinge", "threshold": 0.0, "weight_dtype": "float32", "n_jobs": 1}
    words, relevance = ["tfn"] * layer + ["tfn+man"], None if costs == "none" else costs
    linear = XRLinear(tree=tree, negatives=words, beam=3, relevance=relevance, **as_it_is)
    linear.fit(embeddings, Y, sample_weight=weight)
    table, bias = dense_table(linear.layers_[layer])
    np.testing.assert_array_equal(found.table, table)
    np.testing.assert_array_equal(found.bias, bias)
    assert table.any()


def test_without_bootstrapping_tables_begin_with_zeros() -> None:
    still = replace(
        QUICK, row_learning_rate=1e-30, label_learning_rate=1e-30, learning_rate=0.0, max_steps=1, bootstrap=False
    )
    for found in tuned(bag(), [0, 1], matcher=still).layers:
        assert not found.table[found.table > 1e-20].any() and np.allclose(found.bias, -1)


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_batches_hold_what_the_teacher_and_the_beam_open_with_their_costs(
    layer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch against slow counts: candidates below positives and below the beam, and the factor of each one."""
    given = books()
    batches, beams = calls_of(monkeypatch, LayerJob, "_batch"), calls_of(monkeypatch, FineTuning, "search")
    tuned(bag(), [layer], matcher=replace(QUICK, max_steps=3, negative_cost=0.3, refresh=None))
    assert len(beams) == (layer > 0) and len(batches) == 3
    leaf_of, tree = np.argsort(given.tree.leaf_labels), given.tree
    only_by_beam = several = 0
    for (_, rows), _, batch in batches:
        nodes, weights = batch["candidate_nodes"].numpy(), batch["candidate_weights"].numpy()
        for row, found, positive in zip(rows, weights, batch["candidate_positive"].numpy(), strict=True):
            labels = given.Y.indices[given.Y.indptr[row] : given.Y.indptr[row + 1]]
            paths = [tree.path(int(leaf_of[label])) for label in labels]
            counts = Counter(path[layer] for path in paths)
            looked = set(beams[0].result[row].tolist()) - {-1} if layer else {0}
            opened = looked | {path[layer - 1] for path in paths} if layer else looked
            below = [c for p in opened for c in range(*tree.child_offsets[layer][[p, p + 1]].tolist())]
            expected = {c: counts[c] / len(paths) if c in counts else 0.3 for c in below}
            assert {int(nodes[at]): found[at] for at in np.flatnonzero(found)} == pytest.approx(expected, rel=1e-6)
            assert set(nodes[positive].tolist()) == set(counts), "every positive is a candidate"
            only_by_beam += bool(layer and looked - {path[layer - 1] for path in paths})
            several += len(counts) < len(paths)
    assert layer == 0 or only_by_beam
    assert layer == 2 or several


# What is learned.


@cache
def learned() -> tuple[BagTextEncoder, FineTuned]:
    encoder = bag()
    return encoder, tuned(encoder, [0, 1, 2], books(2000, 400), replace(QUICK, epochs=4, holdout=100))


def test_the_loss_falls_in_every_layer() -> None:
    for record in learned()[1].history():
        losses = [entry["loss"] for entry in record["history"]["epochs"]]
        assert losses[0] is None and losses[-1] < 0.8 * losses[1]  # there is none before the first step


def test_the_trained_matcher_beats_the_untrained() -> None:
    given = books(2000, 400)
    assert precision(learned()[0], given=given) > precision(bag(), given=given) + 0.1


def test_training_makes_the_matcher_find_more_by_itself() -> None:
    untrained = tuned(bag(), [2], books(2000, 400), replace(QUICK, max_steps=1)).history()[0]["coverage"]
    assert learned()[1].history()[2]["coverage"] > untrained + 0.2


@pytest.mark.parametrize("normalize", [True, False])
def test_scores_are_of_vectors_of_length_1_or_as_they_are(normalize: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In training and in measuring; those as they are have different lengths."""
    calls = calls_of(monkeypatch, LabelLayer, "forward")
    tuned(bag(), [0], matcher=replace(QUICK, max_steps=4, holdout=20, normalize=normalize))
    for training in (True, False):
        embeddings = [call.args[1].detach() for call in calls if call.args[1].requires_grad == training]
        assert np.allclose(torch.cat(embeddings).norm(dim=1), 1, atol=1e-4) == normalize


def test_rows_of_no_weight_teach_nothing() -> None:
    given = books()
    weight = np.ones(len(given.texts), np.float32)
    weight[::2] = 0
    first = tuned(bag(), [0, 1], matcher=replace(QUICK, max_steps=20), row_weight=weight)
    wrong = given.Y._replace(indices=given.Y.indices.copy())
    for row in range(0, len(given.texts), 2):
        if wrong.indptr[row + 1] - wrong.indptr[row] == 1:
            wrong.indices[wrong.indptr[row]] = (wrong.indices[wrong.indptr[row]] + 1) % wrong.shape[1]
    encoder = bag()
    rows = encoder.tokenize(given.texts)
    training = FineTuning(encoder, rows, wrong, given.tree, [0, 1], replace(QUICK, max_steps=20), row_weight=weight)
    second = training.run()
    for a, b in zip(first.layers, second.layers, strict=True):
        np.testing.assert_array_equal(a.table, b.table)


def test_candidates_are_refreshed_within_a_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = calls_of(monkeypatch, FineTuning, "_look")
    tuned(bag(), [2], matcher=replace(QUICK, max_steps=25, refresh=10))
    assert len(looked) == 2 and not np.array_equal(*(call.result for call in looked))


# Going on after a stop.


@cache
def uninterrupted() -> tuple[Set, TransformerMatcher, BagTextEncoder, FineTuned]:
    """40 steps a layer, two epochs of 20."""
    small = Set(450, 10)
    settings = replace(QUICK, epochs=2, refresh=15, holdout=20, beam=2, batch_size=16)
    encoder = bag(dropout=0.2)
    found = tuned(encoder, range(small.tree.depth), small, settings)
    assert [record["history"]["epochs"][-1]["step"] for record in found.history()] == [40] * 3
    return small, settings, encoder, found


@pytest.mark.parametrize("stop", [25, 41, 115])
def test_going_on_gives_the_same_bits(tmp_path: Path, stop: int) -> None:
    """Stopped within layers, within epochs, and between layers."""
    small, settings, whole, expected = uninterrupted()
    with stopped(LayerJob, "step", stop):
        tuned(bag(dropout=0.2), range(small.tree.depth), small, settings, checkpoint=tmp_path / "work")
    encoder = bag(dropout=0.2)
    found = tuned(encoder, range(small.tree.depth), small, settings, checkpoint=tmp_path / "work")
    assert len(found.layers) == len(expected.layers)
    for a, b in zip(found.layers, expected.layers, strict=True):
        np.testing.assert_array_equal(a.table, b.table)
        np.testing.assert_array_equal(a.bias, b.bias)
        losses = [[entry["loss"] for entry in layer.record["history"]["epochs"]] for layer in (a, b)]
        assert losses[0] == losses[1] and a.record["coverage"] == b.record["coverage"]
    for name, value in whole.state_dict().items():
        assert torch.equal(encoder.state_dict()[name], value), name


def test_the_scale_of_losses_goes_on_from_layer_to_layer(tmp_path: Path) -> None:
    """What float16 needs on a GPU, on the CPU: which steps it leaves out depends on the scale that it has come to."""

    def scaled() -> Engine:
        engine = Engine(device="cpu")
        engine._scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=7)
        return engine

    settings, engine = replace(QUICK, max_steps=10), scaled()
    tuned(bag(), [0, 1], matcher=settings, engine=engine)
    with stopped(LayerJob, "step", lambda job, batch, step: job.layer.n_nodes > 10):
        tuned(bag(), [0, 1], matcher=settings, engine=scaled(), checkpoint=tmp_path)
    again = scaled()
    tuned(bag(), [0, 1], matcher=settings, engine=again, checkpoint=tmp_path)
    found, wanted = again.state()["scaler"], engine.state()["scaler"]
    assert (found["scale"], found["_growth_tracker"]) == (wanted["scale"], wanted["_growth_tracker"]) == (4096.0, 6)


# Optimisers, and what is refused.


def test_neither_biases_nor_norms_decay() -> None:
    given = books()
    encoder = bag(hidden=16)

    everyone = np.arange(len(given.texts))
    candidates = LayerCandidates(
        given.tree.child_offsets[0], validate.features(np.ones((len(everyone), 6), np.float32))
    )
    rows = encoder.tokenize(given.texts)
    job = LayerJob(encoder, LabelLayer(6, 32), LayerData(rows, everyone, everyone[:0], candidates), QUICK, 10)
    decays = {p: group["weight_decay"] for group in job.optimizers[0].param_groups for p in group["params"]}
    for name, parameter in encoder.named_parameters():
        if parameter in decays:
            assert (decays[parameter] > 0) == (parameter.dim() > 1), name
    assert set(decays.values()) == {0.0, 0.01}
    trained = [p for optimizer in job.optimizers for group in optimizer.param_groups for p in group["params"]]
    assert {id(p) for p in trained} == {id(p) for p in job.module.parameters()} and len(trained) == len(set(trained))


def test_rates_rise_and_fall_to_nothing() -> None:
    rates = []
    original = LayerJob.step

    def watched(self: LayerJob, batch: Any, step: int) -> Any:
        rates.append(self.optimizers[-1].param_groups[0]["lr"])
        return original(self, batch, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LayerJob, "step", watched)
        tuned(bag(), [0], matcher=replace(QUICK, max_steps=40, warmup=0.25))
    assert np.argmax(rates) in (9, 10) and max(rates) == pytest.approx(0.15, rel=0.1)
    assert (np.diff(rates[:10]) > 0).all() and (np.diff(rates[10:]) < 0).all() and rates[-1] < 0.01


def test_precision_and_accumulation_of_an_engine() -> None:
    """Two batches of 8 make a step of 16; in half precision about the same is learned."""
    settings = replace(QUICK, batch_size=8, epochs=2)
    given, engine = books(2000, 400), Engine(device="cpu", precision="bf16", accumulate=2)
    found, n_rows = tuned(bag(), [0], given, settings, engine=engine), len(given.texts)
    assert found.history()[0]["history"]["epochs"][-1]["step"] == 2 * -(-n_rows // 16)
    whole = tuned(bag(), [0], given, replace(settings, batch_size=16))
    losses = [m.history()[0]["history"]["epochs"][-1]["loss"] for m in (found, whole)]
    assert losses[0] == pytest.approx(losses[1], rel=0.1)


def test_data_without_any_label() -> None:
    given, encoder = books(), bag()
    rows = encoder.tokenize(given.texts)
    nobody = given.Y._replace(indptr=np.zeros_like(given.Y.indptr), indices=given.Y.indices[:0], data=given.Y.data[:0])
    with raises(DataError, "label"):
        FineTuning(encoder, rows, nobody, given.tree, [0], QUICK).run()


def test_dense_rows_share_the_values() -> None:
    embeddings = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    found = dense_rows(embeddings)
    np.testing.assert_array_equal(found.to_scipy().toarray(), embeddings)
    assert np.shares_memory(found.data, embeddings)
