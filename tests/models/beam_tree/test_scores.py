"""What a class's score is: its own edge's, whose edges above only find it, or the sum of its path; noises together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import sylvan
from sylvan import BeamTreeClassifier, LabelTree
from sylvan.errors import ModelError, ParameterError
from sylvan.matching.class_beam import ClassWeights, all_scores, rank_classes

K = 12
y = np.random.default_rng(1).integers(K, size=240)
X = np.eye(K, dtype=np.float32)[y] + np.random.default_rng(0).normal(size=(240, K)).astype(np.float32) / 4
TREE = LabelTree.random(K, branching=3, max_leaf=3)
SCORES = pytest.mark.parametrize("scores", ["own", "path"])


def make(**params: Any) -> BeamTreeClassifier:
    given = {"tree": TREE, "n_candidates": 4, "learning_rate": 0.5, "n_jobs": 1, "epochs": 3}
    return BeamTreeClassifier(**{**given, **params})


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


def test_edges_above_a_class_decide_whether_it_is_found_and_not_its_score() -> None:
    tree = LabelTree.from_matrices([sp.csc_matrix([[1, 0], [1, 0], [0, 1], [0, 1]])])
    weights = np.zeros((6, 2), np.float32)
    weights[:2, 1], weights[2:, 1] = [1, 5], [9, 3, 4, 2]  # intercepts
    row = np.zeros((1, 1), np.float32)
    for rows in (row, sylvan.arrays.validate.features(sp.csr_matrix(row))):
        own = rank_classes(ClassWeights(tree, weights, scores="own"), rows, 4, beam=1)
        assert own.labels.tolist() == [[2, 3, -1, -1]] and own.scores[0, :2].tolist() == [4, 2]
        assert rank_classes(ClassWeights(tree, weights, scores="own"), rows, 1, beam=2).scores.tolist() == [[9]]
        assert rank_classes(ClassWeights(tree, weights), rows, 1, beam=2).scores.tolist() == [[10]]


@SCORES
@pytest.mark.parametrize("rows", [X, sp.csr_matrix(X * (X > 0.2))], ids=["dense", "sparse"])
def test_a_saved_model_scores_and_goes_on_as_it_did(scores: str, rows: Any, tmp_path: Path) -> None:
    model = make(scores=scores).fit(rows, y)
    model.save(tmp_path / "model")
    loaded = sylvan.load(tmp_path / "model")
    assert loaded.scores == loaded.weights_.scores == scores
    assert loaded.rank(rows, k=3).scores.tobytes() == model.rank(rows, k=3).scores.tobytes()
    for each in (model, loaded):
        each.partial_fit(rows, y)
    assert loaded.weights_.weights.tobytes() == model.weights_.weights.tobytes()
    assert loaded.weights_.scores == model.weights_.scores == scores


def test_another_optimizer_goes_on_with_the_same_scores() -> None:
    model = make(scores="own", optimizer="sgd").fit(X, y).set_params(optimizer="adagrad")
    assert model.partial_fit(X, y).weights_.scores == "own"


def test_scores_cannot_change_between_calls() -> None:
    model = make(scores="own").fit(X, y).set_params(scores="path")
    assert model.weights_.scores == "own", "it ranks by what it learned"
    with pytest.raises(ParameterError, match="can't go on with scores='path'"):
        model.partial_fit(X, y)
    other = make(scores="own", loss="hsm").fit(X, y)
    assert other.weights_.scores == "path", "a loss without candidates has no other"
    other.set_params(scores="path").partial_fit(X, y)


def test_scores_that_there_are_not() -> None:
    with pytest.raises(ParameterError, match="'scores' parameter of BeamTreeClassifier must be one of 'own', 'path'"):
        make(scores="leaf").fit(X, y)
    with pytest.raises(ParameterError, match="'scores' parameter of ClassWeights must be"):
        ClassWeights.zeros(TREE, 3, scores="leaf")
    state = make().fit(X, y).to_state()
    state.meta["trained_scores"] = "leaf"
    with pytest.raises(ModelError, match="trained_scores"):
        BeamTreeClassifier.from_state(state)


def test_with_all_classes_for_candidates_a_class_learns_as_in_a_softmax() -> None:
    tree = make(scores="own", n_candidates=K).fit(X, y).weights_
    flat = make(loss="softmax", tree="kmeans").fit(X, y).weights_
    np.testing.assert_allclose(all_scores(tree, X), all_scores(flat, X), rtol=1e-3, atol=1e-4)


def test_the_edges_above_learn_to_find_classes() -> None:
    """Untrained, a beam of one node would find one class in four; after training most rows' classes."""
    model = make(scores="own", epochs=10).fit(X, y)
    blind = ClassWeights(TREE, model.weights_.weights.copy(), scores="own")
    blind.weights[: blind.first_edges[-2]] = 0
    found = [(rank_classes(each, X, 1, beam=1).labels[:, 0] == y).mean() for each in (model.weights_, blind)]
    assert found[0] > 0.8 and found[1] < 0.5


def test_noises_together_and_apart_are_the_same_with_one_noise_only() -> None:
    def learned(**params: Any) -> bytes:
        return make(epochs=1, **params).fit(X, y).weights_.weights.tobytes()

    np.testing.assert_allclose(
        *(np.frombuffer(learned(n_noises=1, together=together), np.float32) for together in (True, False)), atol=1e-5
    )  # fmt: skip
    assert learned(n_noises=3, together=True) != learned(n_noises=3, together=False)


@SCORES
def test_an_explanation_adds_up_as_the_scores_do(scores: str) -> None:
    model = make(scores=scores).fit(X, y)
    path = model.explain(X[:1], 3, beam=K).trees[0].paths[0]
    own = [step.score for step in path.steps]
    assert path.score == pytest.approx(own[-1] if scores == "own" else sum(own), rel=1e-4)
    found = model.explain(X[:1], 3)
    assert ("last step's alone" in " ".join(found.notes)) == (scores == "own")
    lost = next(label for label in range(K) if label not in model.rank(X[:1], k=K, beam=1).labels)
    vote = model.explain(X[:1], lost, beam=1).trees[0]
    assert not vote.reached and vote.enough is not None
    assert lost in model.rank(X[:1], k=K, beam=vote.enough).labels
    assert lost not in model.rank(X[:1], k=K, beam=vote.enough - 1).labels
