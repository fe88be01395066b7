"""New labels of a model that keeps no rows: they are found, and what it knew stays as it was, to the bit."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.bits import bits
from kit.errors import raises, warns
from kit.weights import dense_weights
from label_scores import label_scores

import sylvan
from sylvan import XRLinear
from sylvan.errors import DataError, ParameterError, RowsUnknownWarning, UnsupportedError
from sylvan.models.xr import added_labels

N_LABELS, COMMON = 24, 24  # a label's rows have its column, and one that all rows share
pytestmark = pytest.mark.filterwarnings("ignore::sylvan.errors.RowsUnknownWarning")


def rows_of(labels: list[int], each: int = 5, seed: int = 0, width: int = 40) -> tuple[sp.csr_matrix, np.ndarray]:
    """Rows of length 1, and the label of each; with some noise."""
    y = np.repeat(labels, each)
    X = np.random.default_rng(seed).random((len(y), width)) * 0.2 * (np.arange(width) < 32)
    X[np.arange(len(y)), y + (y >= COMMON)] += 1
    X[:, COMMON] += 1
    return sp.csr_matrix(X / np.linalg.norm(X, axis=1, keepdims=True), dtype=np.float32), y


def trained(**params: Any) -> XRLinear:
    given = {"branching": 3, "max_leaf": 4, "n_jobs": 1, "threshold": 0.02, **params}
    return XRLinear(**given).fit(*rows_of(list(range(N_LABELS))))


def known_scores(model: Any, X: Any, n_labels: int = N_LABELS) -> np.ndarray:
    return label_scores(model, X)[:, :n_labels]


def weights(model: XRLinear) -> Any:
    """Those of inner nodes and of the first labels, for the first columns."""
    found = []
    for ranker in model.rankers_:
        for layer in ranker.layers:
            known = ranker.tree.leaf_labels < N_LABELS if layer is ranker.layers[-1] else slice(None)
            found += [dense_weights(layer)[:40, known], layer.intercepts[known]]
    return bits(found)


SHAPES: dict[str, dict[str, Any]] = {
    "a tree": {}, "one layer": {"max_leaf": 100}, "two trees": {"n_trees": 2}, "four bits": {"weight_dtype": "uint4"},
    "four bits in one layer": {"weight_dtype": "uint4", "max_leaf": 100}, "halves": {"weight_dtype": "float16"},
    "floats": {"weight_dtype": "float32"}, "another loss": {"loss": "logistic", "cost": 10.0},
    "overlapping clusters": {"overlap": 2}, "relevances": {"relevance": "l1"}, "teacher forcing": {"negatives": "tfn"},
    "pruned away": {"threshold": 10.0},
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_what_was_known_stays_to_the_bit_and_new_labels_are_found(shape: dict[str, Any], tmp_path: Path) -> None:
    model, known = trained(**shape), rows_of(list(range(N_LABELS)), seed=1)[0]
    before, learned = known_scores(model, known), weights(model)
    for new in ([24, 25], [26]):
        X, y = rows_of(new, seed=2)
        model.update(X, y)
        assert weights(model) == learned
        np.testing.assert_allclose(known_scores(model, known), before, rtol=1e-6)
        if shape.get("threshold", 0) < 10:
            assert (model.rank(X, k=3).labels == y[:, None]).any(axis=1).mean() >= 0.5
        model.save(tmp_path / "m")
        model = sylvan.load(tmp_path / "m")
    assert model.n_labels_ == 27 and model.n_rows_ == 24 * 5 + 15
    assert model.label_counts_.tolist() == [5] * 27


def test_a_label_that_comes_alone_is_not_answered_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows_of([24])
    known = rows_of(list(range(N_LABELS)), seed=1)[0]
    informed = known_scores(trained().update(X, y), known, 25)[:, 24].mean()
    monkeypatch.setattr(added_labels, "leaves_beside", lambda *_: np.zeros(0, np.int64))
    alone = known_scores(trained().update(X, y), known, 25)[:, 24].mean()
    assert 2 * informed < alone, "its own rows alone don't say what it isn't"


def test_more_labels_than_a_byte_counts() -> None:
    n = 256
    X = sp.identity(n + 2, np.float32, "csr")
    model = XRLinear(max_leaf=1000, n_jobs=1).fit(X[:n], np.arange(n))
    before = known_scores(model, X[:n], n)
    model.update(X[n:], [[n], [n + 1]])
    np.testing.assert_allclose(known_scores(model, X[:n], n), before, rtol=1e-6)
    assert model.rank(X[n:], k=1).labels.ravel().tolist() == [n, n + 1]


def test_new_columns_are_for_new_labels() -> None:
    model, known = trained(), rows_of(list(range(N_LABELS)), seed=1)[0]
    before, learned = known_scores(model, known), weights(model)
    X = sp.hstack([rows_of([25])[0] * 0.5, np.ones((5, 1))]).tocsr()
    model.update(X, [[24]] * 5, n_features=41)
    wide = sp.hstack([known, sp.csr_matrix((known.shape[0], 1))]).tocsr()
    np.testing.assert_allclose(known_scores(model, wide), before, rtol=1e-6)
    assert weights(model) == learned
    assert all(layer.n_features == 41 for layer in model.layers_)
    assert model.rank(X[:1], k=1).labels.item() == 24


def test_weights_of_rows_and_known_labels_of_new_rows_count() -> None:
    X, y = rows_of([24, 25])
    plain, weighed = trained().update(X, y), trained().update(X, y, np.linspace(0.1, 3, len(y)))
    assert bits(plain) != bits(weighed)
    also = trained().update(X, [[label, 3] for label in y])
    assert also.label_counts_.tolist() == [5] * 26, "what known labels don't learn isn't counted"


def test_a_warning_says_what_is_lost() -> None:
    X, y = rows_of([24, 25])
    words = ("new", 24, 10, 2)
    with warns(RowsUnknownWarning, words):
        trained().update(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained(keep_rows=True).update(X, y)
        trained().plan_update(X, y)


def test_a_plan_counts_new_labels_and_changes_nothing() -> None:
    model = trained(n_trees=2)
    before = bits(model)
    plan = model.plan_update(*rows_of([24, 25]))
    assert plan.nodes == (0, 0, 4) and plan.seconds > 0 and bits(model) == before


NEW = rows_of([24])
WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "a row without a new label": (
        dict(zip("XY", rows_of([24, 3]), strict=True)), UnsupportedError, ("row 5", "keep_rows=True", "X", "Y")
    ),
    "forget": ({"forget": [3]}, UnsupportedError, ("keep_rows=True", "forget")),
    "merge": ({"merge": {1: [2]}}, UnsupportedError, ("keep_rows=True", "X", "Y", "merge")),
    "merge beside rows": ({"X": NEW[0], "Y": NEW[1], "merge": {1: [2]}}, UnsupportedError, ("X", "Y", "merge")),
    "nothing": ({}, DataError, ("X", "Y", "learn")),
    "no labels": ({"X": NEW[0]}, DataError, ("X", "Y", "XRLinear")),
    "other features": ({"X": NEW[0][:, :7], "Y": NEW[1]}, DataError, (7, "(5, 7)")),
    "precise": ({"X": NEW[0], "Y": NEW[1], "precise": 3}, ParameterError, ("precise", 3)),
    "fewer columns": ({"X": NEW[0], "Y": NEW[1], "n_features": 3}, ParameterError, "n_features"),
}  # fmt: skip


def test_errors_change_nothing() -> None:
    model = trained()
    before = bits(model)
    for given, kind, words in WRONG.values():
        for method in (model.update, model.plan_update):
            with raises(kind, words):
                method(**given)
            assert bits(model) == before


def test_names_and_probabilities() -> None:
    names = np.array([f"label {n:02}" for n in range(30)])
    X, y = rows_of(list(range(N_LABELS)), each=10)
    model = XRLinear(max_leaf=4, branching=3, n_jobs=1).fit(X, names[y])
    calibrator = model.calibrator_
    assert calibrator is not None
    model.update(NEW[0], names[NEW[1]])
    assert model.classes_[-1] == "label 24" and model.rank(NEW[0][:1], k=1).names == [["label 24"]]
    assert model.calibrator_ is calibrator and model.predict_proba(NEW[0]).shape == (5, 25)
