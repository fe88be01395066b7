"""BeamTreeClassifier in parts, the optimiser and rate chosen, coverage, and what a class's score is."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.errors import raises

import sylvan
from sylvan import BeamTreeClassifier, LabelTree
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.matching.class_beam import ClassWeights, all_scores
from sylvan.models.beam_tree import training

y = np.random.default_rng(1).integers(12, size=240)
X = np.eye(12, dtype=np.float32)[y] + np.random.default_rng(0).normal(size=(240, 12)).astype(np.float32) / 4
SPARSE = sp.hstack([sp.csr_matrix(X * (X > 0.2)), sp.csr_matrix((240, 60))]).tocsr()
TREE = LabelTree.random(12, branching=3, max_leaf=3)
FORMS = pytest.mark.parametrize("rows", [X, SPARSE], ids=["dense", "sparse"])
SCORES = pytest.mark.parametrize("scores", ["own", "path"])
OPTIMIZERS = pytest.mark.parametrize("optimizer", ["averaged_sgd", "sgd", "adagrad"])


def make(**params: Any) -> BeamTreeClassifier:
    given = {"tree": TREE, "n_candidates": 4, "learning_rate": 0.5, "n_jobs": 1}
    return BeamTreeClassifier(**{**given, **params})


def state(model: BeamTreeClassifier) -> dict[str, bytes]:
    """All that a saved model holds, but for the means of the passes, which are one a call."""
    return {name: array.tobytes() for name, array in model.to_state().arrays.items() if name != "history"}


@pytest.mark.parametrize(("rows", "weighted"), [(X, False), (SPARSE, True)], ids=["dense", "sparse, weighted"])
@OPTIMIZERS
@pytest.mark.parametrize("loss", ["cane", "softmax", "nce", "hsm"])
def test_parts_of_the_rows_are_one_pass(loss: str, optimizer: str, rows: Any, weighted: bool) -> None:
    weight = np.random.default_rng(2).choice([0.0, 0.5, 1.0], 240) if weighted else None
    if weight is not None:
        weight[30] = 0.5  # a call needs a row of some weight
    params = {"loss": loss, "optimizer": optimizer, "l2": 1e-3}
    whole = make(**params).partial_fit(rows, y, classes=range(12), sample_weight=weight)
    parts = make(**params)
    for first, last in ((0, 30), (30, 31), (31, 130), (130, 240)):
        own = None if weight is None else weight[first:last]
        parts.partial_fit(rows[first:last], y[first:last], classes=range(12), sample_weight=own)
    assert state(parts) == state(whole) and parts.n_rows_ == 240 and parts.history_.shape == (4, 2)
    assert parts.label_counts_.tolist() == np.bincount(y, minlength=12).tolist()


@FORMS
@OPTIMIZERS
@SCORES
def test_a_saved_model_scores_and_goes_on_as_if_it_had_not_been_saved(
    scores: str, optimizer: str, rows: Any, tmp_path: Path
) -> None:
    params = {"scores": scores, "optimizer": optimizer}
    whole = make(**params).partial_fit(rows, y, classes=range(12))
    model = make(**params).partial_fit(rows[:100], y[:100], classes=range(12))
    model.save(tmp_path / "model")
    for mmap in (True, False):
        loaded = sylvan.load(tmp_path / "model", mmap=mmap)
        assert loaded.scores == loaded.weights_.scores == scores
        assert loaded.rank(rows, k=3).scores.tobytes() == model.rank(rows, k=3).scores.tobytes()
        assert state(loaded.partial_fit(rows[100:], y[100:])) == state(whole)


def test_rows_are_shown_in_their_order() -> None:
    once = make().partial_fit(X, y, classes=range(12))
    turned = make().partial_fit(X[::-1], y[::-1], classes=range(12))
    assert state(once) != state(turned)


def test_another_optimiser_begins_without_state() -> None:
    model = make(optimizer="averaged_sgd").partial_fit(X, y, classes=range(12))
    averages = model.weights_.weights.copy()
    other = copy.deepcopy(model).set_params(optimizer="adagrad").partial_fit(X, y)
    assert other.optimizer_ == "adagrad"
    fresh = make(optimizer="sgd", learning_rate=1e-12).partial_fit(X, y, classes=range(12))
    fresh.weights_.weights[...] = averages
    fresh.set_params(optimizer="adagrad", learning_rate=0.5)
    fresh.fitted_ = replace(fresh.fitted_, n_shown=240)  # of the draws
    assert state(fresh.partial_fit(X, y)) == state(other)
    back = copy.deepcopy(other).set_params(optimizer="averaged_sgd").partial_fit(X[:1], y[:1])
    assert np.array_equal(back.weights_.weights, back.to_state().arrays["last_weights"]), "of one step"


# ---------------------------------------- what is chosen


def test_the_optimiser_is_chosen_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = training._tried

    def judged(**given: Any) -> Any:
        return tried(**given) * (given["training"].optimizer == better)

    monkeypatch.setattr(training, "_tried", judged)
    for better in ("averaged_sgd", "adagrad"):
        model = make(learning_rate="auto", optimizer="auto").fit(X, y)
        assert model.optimizer == "auto" and model.optimizer_ == better
        again = make(optimizer=better, learning_rate=model.learning_rate_, epochs=len(model.history_)).fit(X, y)
        assert state(again) == state(model)
        assert model.partial_fit(X, y).optimizer_ == better
    assert make().fit(X, y).optimizer_ == "averaged_sgd"


def test_training_ends_after_the_pass_that_was_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "_FEWEST_JUDGED", 24)  # a tenth of the rows
    courses = {  # a pass counts with those beside it
        (0.3, 0.5, 0.4, 0.4): 3, (0.3, 0.5, 0.4, 0.6): 4, (0.5, 0.5, 0.5, 0.5): 4, (0.9, 0.1, 0.1, 0.1): 1,
        (0.1, 0.4, 0.3, 0.2): 3, (0.4, 0.5, 0.45, 0.2): 2,
    }  # fmt: skip
    for course, passes in courses.items():

        def mark(trials: Any, trainer: Any, course: tuple[float, ...] = course) -> list[float]:
            at = round(trainer.n_averaged / len(trials.rows)) - 1
            return [course[at], course[at]]

        monkeypatch.setattr(training, "_mark", mark)
        model = make(learning_rate="auto", optimizer="averaged_sgd", epochs=4).fit(X, y)
        assert len(model.history_) == passes
    few = make(learning_rate="auto", optimizer="averaged_sgd", epochs=4).fit(X[:239], y[:239])
    assert len(few.history_) == 4, "too few rows judge"


def test_weights_of_rows_do_not_change_the_size_of_steps() -> None:
    plain = make(learning_rate="auto").fit(X, y)
    heavy = make(learning_rate="auto").fit(X, y, sample_weight=np.full(240, 1e3))
    assert heavy.optimizer_ == plain.optimizer_
    if plain.optimizer_ == "averaged_sgd":
        assert heavy.learning_rate_ == pytest.approx(plain.learning_rate_ / 1e3)
    assert heavy.predict(X).tolist() == plain.predict(X).tolist()


# ---------------------------------------- coverage


@FORMS
@SCORES
def test_coverage_is_the_share_of_rows_whose_class_is_a_candidate(rows: Any, scores: str) -> None:
    model = make(epochs=1, scores=scores).fit(rows, y)
    matrix = model.weights_.weights.astype(np.float64)
    dense = rows.toarray() if sp.issparse(rows) else rows
    features = np.c_[dense, np.ones(240)]
    first = np.cumsum([0, *TREE.layer_sizes])
    for width in (1, 2, 4, 7, 12, 99):
        covered = 0
        for row, label in zip(features, y, strict=True):
            edges, beam = matrix @ row, [(0, 0.0)]
            for layer, offsets in enumerate(TREE.child_offsets):
                reached = [
                    (child, above * (scores == "path") + edges[first[layer] + child])
                    for node, above in beam for child in range(offsets[node], offsets[node + 1])
                ]  # fmt: skip
                beam = sorted(reached, key=lambda pair: -pair[1])[:width]
            covered += label in [TREE.leaf_labels[leaf] for leaf, _ in beam]
        assert model.coverage(rows, y, n_candidates=width) == pytest.approx(covered / 240)
    assert model.coverage(rows, y) == model.coverage(rows, y, n_candidates=4) > model.coverage(rows, y, 1)
    assert model.coverage(rows, y, 12) == 1


def test_coverage_asks_for_what_it_needs() -> None:
    names = [f"class {label}" for label in y]
    model = make().fit(X, names)
    assert model.coverage(X, names, 12) == 1
    assert model.coverage(X[:2], ["class 1", "elsewhere"], 12) == 0.5, "a class that isn't known is no candidate"
    assert np.isnan(model.coverage(X[:0], []))
    with raises(DataError, "X", 240, 3):
        model.coverage(X, names[:3])
    with raises(ParameterError, "n_candidates", 0):
        model.coverage(X, names, 0)
    with raises(ParameterError, "loss='hsm'"):
        make(loss="hsm").fit(X, y).coverage(X, y)


# ---------------------------------------- what a class's score is

K = 12


@SCORES
def test_a_class_scores_what_is_asked_for(scores: str) -> None:
    model = make(scores=scores).fit(X, y)
    edges = np.c_[X, np.ones(240)] @ model.weights_.weights.T
    starts = model.weights_.first_edges
    leaf_of = np.argsort(TREE.leaf_labels)
    paths = [[first + node for first, node in zip(starts, TREE.path(leaf), strict=False)] for leaf in leaf_of]
    own = np.stack([edges[:, path[-1] if scores == "own" else path].reshape(240, -1).sum(axis=1) for path in paths], 1)
    np.testing.assert_allclose(all_scores(model.weights_, X), own, rtol=1e-4, atol=1e-4)
    top = model.rank(X, k=K, beam=K)
    shares = own - np.log(np.exp(own).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(top.scores, np.take_along_axis(shares, top.labels, 1), rtol=1e-3, atol=1e-4)
    exact = model.predict_proba(X, k=K, exact=True)
    np.testing.assert_allclose(exact, np.exp(shares), rtol=1e-3, atol=1e-5)


def test_another_optimizer_goes_on_with_the_same_scores() -> None:
    model = make(scores="own", optimizer="sgd").fit(X, y).set_params(optimizer="adagrad")
    assert model.partial_fit(X, y).weights_.scores == "own"


def test_scores_cannot_change_between_calls() -> None:
    model = make(scores="own").fit(X, y).set_params(scores="path")
    assert model.weights_.scores == "own", "it ranks by what it learned"
    with raises(ParameterError, "scores='path'"):
        model.partial_fit(X, y)
    other = make(scores="own", loss="hsm").fit(X, y)
    assert other.weights_.scores == "path", "a loss without candidates has no other"
    other.set_params(scores="path").partial_fit(X, y)


def test_scores_that_there_are_not() -> None:
    with raises(ParameterError, "scores", "BeamTreeClassifier", "own", "path"):
        make(scores="leaf").fit(X, y)
    with raises(ParameterError, "scores", "ClassWeights"):
        ClassWeights.zeros(TREE, 3, scores="leaf")
    state = make().fit(X, y).to_state()
    state.meta["trained_scores"] = "leaf"
    with raises(ModelError, "trained_scores"):
        BeamTreeClassifier.from_state(state)


@SCORES
def test_an_explanation_adds_up_as_the_scores_do(scores: str) -> None:
    model = make(scores=scores).fit(X, y)
    path = model.explain(X[:1], 3, beam=K).trees[0].paths[0]
    own = [step.score for step in path.steps]
    assert path.score == pytest.approx(own[-1] if scores == "own" else sum(own), rel=1e-4)
    found = model.explain(X[:1], 3)
    assert ("last step's alone" in " ".join(found.notes)) == (scores == "own")
