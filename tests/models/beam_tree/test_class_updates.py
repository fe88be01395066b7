"""Classes that come to a trained BeamTreeClassifier: the tree grows, known weights stay, and new rows are learned."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.bits import bits
from kit.errors import raises

import sylvan
from sylvan import BeamTreeClassifier, LabelTree, TextModel
from sylvan.errors import DataError, NotFittedError, ParameterError, UnsupportedError
from sylvan.indexing.tree import check_class_tree
from sylvan.matching.class_beam import ClassWeights, all_scores
from sylvan.models.beam_tree.updates import GrowingClassTree

N = 12
WOODS = ["elm", "fir", "ash", "oak", "yew", "box", "bay", "fig", "nut", "pine", "teak", "larch"]
ROWS, ids_of_rows = np.eye(N, dtype=np.float32).repeat(10, axis=0), np.arange(N).repeat(10)


def make(**params: Any) -> BeamTreeClassifier:
    own: dict[str, Any] = {"branching": 3, "n_candidates": 4, "n_noises": 2, "epochs": 5, "learning_rate": 0.3}
    return BeamTreeClassifier(**{**own, "n_jobs": 1, **params})


def trained(n: int = 6, **params: Any) -> BeamTreeClassifier:
    return make(**params).fit(ROWS[ids_of_rows < n], ids_of_rows[ids_of_rows < n])


# ---------------------------------------- the tree


@pytest.mark.parametrize("branching", [2, 3, 5])
def test_a_growing_tree_keeps_its_limits_and_the_scores_of_paths(branching: int) -> None:
    random = np.random.default_rng(branching)
    tree = LabelTree.random(4, branching=branching, max_leaf=branching)
    weights = ClassWeights(tree, random.random((sum(tree.layer_sizes), 5), np.float32))
    X = random.random((7, 4), np.float32)
    growing = GrowingClassTree(tree, branching)
    for label in range(4, 60):
        growing.add(beside=int(random.integers(label)))
        grown = growing.tree()
        check_class_tree(grown, label + 1, owner="Test")
        assert all(set(np.diff(offsets)) <= set(range(1, branching + 1)) for offsets in grown.child_offsets)
        assert len(growing.edges_before()) == sum(grown.layer_sizes)
    larger = weights.regrown(growing.tree(), growing.edges_before(), 4)
    np.testing.assert_allclose(all_scores(larger, X)[:, :4], all_scores(weights, X), rtol=1e-5)


def test_a_class_stands_next_to_the_one_that_it_is_like() -> None:
    growing = GrowingClassTree(LabelTree.flat(4), branching=3)
    for beside in (1, 4, 3):
        growing.add(beside)
    assert growing.tree().leaf_labels.tolist() == [0, 1, 4, 5, 2, 3, 6]
    assert GrowingClassTree(LabelTree.flat(4), 0).tree() == LabelTree.flat(4)
    model = trained()
    near = ROWS[ids_of_rows == 2] + ROWS[ids_of_rows == 7]
    leaves = model.update(near, np.full(10, 6)).tree_.leaf_labels.tolist()
    assert leaves.index(6) == leaves.index(2) + 1


# ---------------------------------------- what is learned

WAYS: list[dict[str, Any]] = [
    {}, {"optimizer": "adagrad"}, {"optimizer": "sgd", "scores": "path"}, {"loss": "softmax"}, {"loss": "hsm"},
    {"loss": "nce", "noise": "unigram"}, {"tree": LabelTree.random(6, branching=3, max_leaf=3)}, {"tree": "frequency"},
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(f"{k}={v}"[:24] for k, v in way.items()) or "defaults")
@pytest.mark.parametrize("sparse", [False, True])
def test_classes_that_come_one_at_a_time(way: dict[str, Any], sparse: bool, tmp_path: Path) -> None:
    model = trained(**way)
    for label in range(6, N):
        seen = ids_of_rows <= label
        X = sp.csr_matrix(ROWS) if sparse else ROWS
        model.update(X[np.flatnonzero(seen)], ids_of_rows[seen], epochs=5)
        assert model.n_labels_ == label + 1 == len(model.classes_) == len(model.label_counts_)
        if label == 8:
            model.save(tmp_path / "m")
            loaded = sylvan.load(tmp_path / "m")
            assert bits(loaded) == bits(model)
            model = loaded
    assert (model.rank(np.eye(N), k=1).labels[:, 0] == np.arange(N)).mean() > 0.9
    assert model.n_rows_ == 60 + sum(10 * (label + 1) for label in range(6, N)) and len(model.history_) == 5 + 6 * 5
    assert model.label_counts_.tolist() == [10 + 60] * 6 + [60, 50, 40, 30, 20, 10]
    model.partial_fit(ROWS, ids_of_rows)  # goes on
    assert (model.rank(np.eye(N), k=1).labels[:, 0] == np.arange(N)).mean() > 0.9


def test_what_an_update_learns_is_what_the_passes_would() -> None:
    seen = ids_of_rows < 6
    model = trained(optimizer="adagrad")
    one = copy.deepcopy(model).update(ROWS[seen], ids_of_rows[seen], epochs=1)
    order = np.random.default_rng([0, 2, model.fitted_.n_shown]).permutation(60)
    other = copy.deepcopy(model).partial_fit(ROWS[seen][order], ids_of_rows[seen][order])
    np.testing.assert_allclose(one.weights_.weights, other.weights_.weights, atol=1e-6)


@pytest.mark.parametrize("optimizer", ["averaged_sgd", "adagrad", "sgd"])
def test_an_update_begins_at_what_classes_are_ranked_by(optimizer: str) -> None:
    model = trained(optimizer=optimizer).set_params(learning_rate=1e-12)
    old, before = copy.copy(model), bits(model)
    seen = ids_of_rows < 6
    model.update(ROWS[seen], ids_of_rows[seen])
    np.testing.assert_allclose(model.weights_.weights, old.weights_.weights, atol=1e-6)
    model.set_params(learning_rate=0.3).update(ROWS[seen], ids_of_rows[seen])
    assert bits(old) == before, "weights are changed in a copy"


def test_names_numbers_and_matrices() -> None:
    words = np.array(WOODS)
    model = make().fit(ROWS[ids_of_rows < 6], words[ids_of_rows[ids_of_rows < 6]]).update(ROWS, words[ids_of_rows])
    assert model.classes_.tolist() == [*sorted(WOODS[:6]), *sorted(WOODS[6:])]
    assert model.predict(np.eye(N)).tolist() == WOODS and model.score(ROWS, words[ids_of_rows]) == 1
    numbers = np.array([-5, 40, 7, 3, -9, 0, 12, 8, 2, -50, 6, 99])
    model = make().fit(ROWS[ids_of_rows < 6], numbers[ids_of_rows[ids_of_rows < 6]]).update(ROWS, numbers[ids_of_rows])
    assert model.classes_.tolist() == [*sorted(numbers[:6]), *sorted(numbers[6:])]
    again = pickle.loads(pickle.dumps(model)).partial_fit(ROWS, numbers[ids_of_rows])
    assert again.predict(np.eye(N)).tolist() == numbers.tolist()
    matrix = sp.csr_matrix((np.ones(120), ids_of_rows, np.arange(121)))
    assert trained().update(ROWS, matrix).predict(np.eye(N)).tolist() == list(range(N))


def test_a_given_tree_grows_in_the_model_alone() -> None:
    tree = LabelTree.random(6, branching=3, max_leaf=3)
    old = trained(tree=tree)
    model = copy.copy(old).update(ROWS, ids_of_rows)
    assert old.tree is tree and model.tree == model.tree_ != tree


def test_new_words_of_texts(tmp_path: Path) -> None:
    tagger = TextModel(model=make()).fit(["a whale at sea", "bread and cakes"] * 5, [["Whaling"], ["Baking"]] * 5)
    tagger.update(["engines of steam", "a whale", "bread"] * 5, [["Railways"], ["Whaling"], ["Baking"]] * 5)
    tagger.save(tmp_path / "m")
    for each in (tagger, sylvan.load(tmp_path / "m")):
        assert each.rank(["steam engines", "bread"], k=1).names == [["Railways"], ["Baking"]]


# ---------------------------------------- errors

NEW: dict[str, Any] = {"X": ROWS, "Y": ids_of_rows}
WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "nothing": ({}, DataError, ("X", "Y", "together")),
    "no classes": ({"X": ROWS}, DataError, ("X", "Y", "together")),
    "forget": ({**NEW, "forget": [1]}, UnsupportedError, "forget"),
    "merge": ({"merge": {1: [2]}}, UnsupportedError, "merge"),
    "epochs": ({**NEW, "epochs": 0}, ParameterError, ("epochs", 0)),
    "other features": ({"X": ROWS[:, :5], "Y": ids_of_rows}, DataError, (5, "(120, 5)")),
    "fewer columns": ({**NEW, "n_features": 3}, ParameterError, ("n_features", 3)),
    "other lengths": ({"X": ROWS[:5], "Y": ids_of_rows}, DataError, "(5, 12)"),
    "names beside ids": ({"X": ROWS[:1], "Y": ["elm"]}, DataError, ("elm", "row 0")),
    "several classes": ({"X": ROWS[:1], "Y": [[1, 7]]}, DataError, "row 0"),
}  # fmt: skip


@pytest.mark.parametrize(("given", "kind", "words"), WRONG.values(), ids=WRONG)
def test_errors_change_nothing(given: dict[str, Any], kind: type[Exception], words: object) -> None:
    model = trained()
    before = bits(model)
    with raises(kind, words):
        model.update(**given)
    assert bits(model) == before


def test_weights_that_leave_their_bounds_change_nothing() -> None:
    model = trained(l2=1.0).set_params(l2=1e12, learning_rate=1e10)
    before = bits(model)
    with raises(DataError, "bounds"):
        model.update(ROWS, ids_of_rows)
    assert bits(model) == before
    with raises(ParameterError, "partial_fit", "balanced"):
        model.set_params(class_weight="balanced").update(ROWS, ids_of_rows)
    with pytest.raises(NotFittedError):
        make().update(ROWS, ids_of_rows)
    with raises(ParameterError, "loss='cane'", "bias=1"):
        trained().set_params(loss="nce").update(ROWS, ids_of_rows)
