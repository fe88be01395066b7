"""BeamTreeClassifier: parameters that change between calls, names in texts, slips in options, and interruptions."""

import copy
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.errors import raises

import sylvan
from sylvan import BeamTreeClassifier, LabelTree, TextModel, TfidfVectorizer
from sylvan.errors import DataError, ModelError, ParameterError

y = np.arange(120) % 6
X = np.eye(6, dtype=np.float32)[y] + np.random.default_rng(0).normal(size=(120, 6)).astype(np.float32) / 20
TEXTS = ["an elm by the road", "a fir in the wood", "the old elm", "firs and more firs", "one ash", "ash trees"] * 5
WOODS = ["elm", "fir", "elm", "fir", "ash", "ash"] * 5


def make(**params: Any) -> BeamTreeClassifier:
    return BeamTreeClassifier(**{"branching": 2, "n_candidates": 2, "learning_rate": 0.5, "n_jobs": 1, **params})


def moved(model: BeamTreeClassifier, **params: Any) -> float:
    """How far one more pass with other parameters takes the weights."""
    model = copy.deepcopy(model).set_params(**params)
    before = model.weights_.weights.copy()
    model.partial_fit(X, y)
    return float(np.abs(model.weights_.weights - before).max())


# ---------------------------------------- what may change, and what may not


def test_a_learning_rate_set_later_counts() -> None:
    model = make(optimizer="sgd").fit(X, y)
    assert moved(model, learning_rate=1e-6) < 1e-4 < moved(model)
    small = copy.deepcopy(model).set_params(learning_rate=1e-3).partial_fit(X, y)
    assert small.learning_rate_ == 1e-3
    again = copy.deepcopy(small).set_params(learning_rate="auto").partial_fit(X, y)
    assert again.learning_rate_ == 1e-3, "the last one"
    chosen = make(learning_rate="auto").fit(X, y)
    assert chosen.partial_fit(X, y).learning_rate_ == chosen.learning_rate_ > 0


@pytest.mark.parametrize(
    "params", [{"n_candidates": 5}, {"n_noises": 4}, {"together": False}, {"l2": 1.0}, {"noise": "unigram"},
               {"optimizer": "sgd"}, {"seed": 7}, {"class_weight": {0: 9.0}}]
)  # fmt: skip
def test_all_else_of_the_training_counts_too(params: dict[str, Any]) -> None:
    rows = np.r_[X, X[:40:6]]  # classes of different frequency
    ids = np.r_[y, y[:40:6]]
    model = make().fit(rows, ids)
    one, other = copy.deepcopy(model).partial_fit(rows, ids), model.set_params(**params).partial_fit(rows, ids)
    assert one.weights_.weights.tobytes() != other.weights_.weights.tobytes()


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("params", [{"branching": 3}, {"tree": "random"}, {"tree": "frequency", "branching": 4}])
def test_a_tree_cannot_change(params: dict[str, Any], saved: bool, tmp_path: Path) -> None:
    model = make().fit(X, y).set_params(**params)
    if saved:
        model.save(tmp_path / "model")
        model = sylvan.load(tmp_path / "model")  # type: ignore[assignment]
    before = model.weights_.weights.copy()
    with raises(ParameterError, "tree='kmeans'", "branching=2"):
        model.partial_fit(X, y)
    assert model.weights_.weights.tobytes() == before.tobytes()
    model.fit(X, y).partial_fit(X, y)


def test_a_given_tree_cannot_change(tmp_path: Path) -> None:
    tree = LabelTree.random(6, branching=3, max_leaf=2)
    model = make(tree=tree).fit(X, y)
    model.save(tmp_path / "model")
    sylvan.load(tmp_path / "model").partial_fit(X, y)  # type: ignore[attr-defined]
    model.set_params(branching=7).partial_fit(X, y)  # which has nothing to say
    with raises(ParameterError, "'tree'"):
        model.set_params(tree=LabelTree.random(6, branching=2, max_leaf=2, seed=5)).partial_fit(X, y)
    with raises(ParameterError, "tree='given'"):
        model.set_params(tree="random").partial_fit(X, y)
    model = make().fit(X, y)
    model.set_params(tree=model.tree_).partial_fit(X, y)  # the same


def test_losses_without_a_tree_do_not_mind() -> None:
    model = make(loss="softmax").fit(X, y)
    before = model.predict_proba(X)
    model.set_params(tree="random", branching=9).partial_fit(X, y)
    assert (model.predict_proba(X) != before).any()  # it has learned more


def test_no_classes_at_all() -> None:
    for model in (make(), make().fit(X, y)):
        with raises(DataError, "partial_fit"):
            model.partial_fit(X, y, classes=[])


def test_what_a_damaged_folder_says_of_the_tree() -> None:
    for name, wrong in (("trained_tree", "oak"), ("trained_branching", 1), ("n_shown", 2**62 + 1), ("n_shown", -1)):
        state = make().fit(X, y).to_state()
        state.meta[name] = wrong
        with raises(ModelError, name):
            BeamTreeClassifier.from_state(state)


def test_a_folder_whose_classes_no_release_reads_is_refused() -> None:
    """Its ids would be taken for its classes."""
    state = make().fit(X, y).to_state()
    state.arrays["class_values"] = np.arange(state.meta["n_labels"], dtype=np.int64) + 100
    with raises(ModelError, "before"):
        BeamTreeClassifier.from_state(state)


# ---------------------------------------- names


def test_a_text_model_weighs_classes_by_name() -> None:
    def weights(given: Any, labels: Any) -> bytes:
        model = TextModel(TfidfVectorizer(), make(class_weight=given, n_candidates=3)).fit(TEXTS, labels)
        return bytes(model.model.weights_.weights.tobytes())  # type: ignore[attr-defined]

    named = [[wood] for wood in WOODS]
    assert weights({"elm": 5.0}, named) != weights(None, named)
    assert weights({"elm": 1.0}, named) == weights(None, named)
    as_rows = TextModel(TfidfVectorizer(), make(n_candidates=3)).fit(
        TEXTS, named, sample_weight=[5.0 if wood == "elm" else 1.0 for wood in WOODS]
    )
    assert weights({"elm": 5.0}, WOODS) == as_rows.model.weights_.weights.tobytes()  # type: ignore[attr-defined]
    numbers = [{"elm": 30, "fir": 7, "ash": 12}[wood] for wood in WOODS]
    by_number = weights({30: 5.0}, numbers)
    assert by_number != weights(None, numbers) and by_number != weights({7: 5.0}, numbers)
    with raises(ParameterError, "class_weight", "oak", 3):
        weights({"oak": 2.0}, named)
    tagger = TextModel(TfidfVectorizer(), make(class_weight={"elm": 5.0}))
    assert tagger.plan(TEXTS, named).fits
    blocks = [(TEXTS[:12], named[:12]), (TEXTS[12:], named[12:])]
    assert TextModel(TfidfVectorizer(), make(class_weight={"elm": 5.0}, n_candidates=3)).fit_blocks(
        blocks
    ).model.weights_.weights.tobytes() == weights({"elm": 5.0}, named)  # type: ignore[attr-defined]


def test_names_that_end_in_a_nul_are_different(tmp_path: Path) -> None:
    names = ["a", "a\0", "a\0\0", "b", "c", "d"]
    model = make().fit(X, [names[i] for i in y])
    assert model.classes_.tolist() == names and model.predict(np.eye(6)).tolist() == names
    assert model.score(X, [names[i] for i in y]) == 1
    model.save(tmp_path / "model")
    again = sylvan.load(tmp_path / "model")
    assert again.predict(np.eye(6)).tolist() == names
    again.partial_fit(X, [names[i] for i in y], classes=names)  # type: ignore[attr-defined]
    assert make().fit(X, [WOODS[i] for i in y]).classes_.dtype.kind == "U"


# ---------------------------------------- slips


def test_options_that_there_are_not() -> None:
    model = make().fit(X, y)
    said = ("BeamTreeClassifier", "bea", "beam")
    for call in (model.predict_proba, model.choose, lambda X, **given: model.explain(X[:1], 0, **given)):
        with raises(ParameterError, said):
            call(X, bea=3)
    tagger = TextModel(TfidfVectorizer(), make()).fit(TEXTS, WOODS)
    with raises(ParameterError, "TextModel", "bea", "beam"):
        tagger.predict_proba(TEXTS[:2], bea=3)
    assert tagger.predict_proba(TEXTS[:2], beam=3).shape == (2, 3)


# ---------------------------------------- interruptions


def interrupted(call: Any, after: float = 0.3) -> None:
    """Ctrl-C a little later; the call must end by it. One that is done before fails the test, and only that."""
    timer = threading.Timer(after, lambda: os.kill(os.getpid(), signal.SIGINT))
    begin = time.process_time()
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        try:
            call()
        finally:
            timer.cancel()
            timer.join()
    assert time.process_time() - begin < after + 10


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_an_interrupted_fit_leaves_the_model_as_it_was() -> None:
    model = make().fit(X, y)
    before = (model.weights_, model.history_, model.label_counts_, model.learning_rate_, model.classes_)
    weights, proba = model.weights_.weights.copy(), model.predict_proba(X)
    longer = model.set_params(epochs=1_000_000)
    interrupted(lambda: longer.fit(np.c_[X, X], (y + 1) % 3))
    after = (model.weights_, model.history_, model.label_counts_, model.learning_rate_)
    assert all(one is other for one, other in zip(before, after, strict=False))
    assert model.weights_.weights.tobytes() == weights.tobytes() and model.n_features_ == 6
    assert np.array_equal(model.predict_proba(X), proba)
    fresh = make(epochs=1_000_000)
    interrupted(lambda: fresh.fit(X, y))
    assert not hasattr(fresh, "weights_") and not hasattr(fresh, "n_labels_")


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_an_interrupted_partial_fit_leaves_a_model() -> None:
    model = make().fit(X, y)
    rows, ids = np.tile(X, (20_000, 1)), np.tile(y, 20_000)
    before = model.weights_.weights.copy()
    interrupted(lambda: model.partial_fit(rows, ids))
    assert model.score(X, y) == 1 and model.n_rows_ == 120 and model.history_.shape == (10, 2)
    assert np.isfinite(model.weights_.weights).all() and model.weights_.weights.shape == before.shape
    model.partial_fit(X, y)
