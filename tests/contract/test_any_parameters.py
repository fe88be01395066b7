"""XRLinear and BeamTreeClassifier with any parameters and data: they answer, or say in a sentence why not."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.bits import bits

import sylvan
from sylvan import BeamTreeClassifier, LabelTree, TopK, XRLinear
from sylvan.errors import SylvanError

PARAMETERS: dict[str, st.SearchStrategy[Any]] = {
    "branching": st.sampled_from([2, 3, 16]), "beam": st.sampled_from([1, 2, 10, 10**6]),
    "bias": st.sampled_from([0.0, 1.0, 1e3]), "n_jobs": st.sampled_from([1, 3]), "seed": st.integers(0, 2**31 - 1),
}  # fmt: skip
OF_LABELS: dict[str, st.SearchStrategy[Any]] = {
    **PARAMETERS,
    "max_leaf": st.sampled_from([1, 2, 5, 100]),
    "negatives": st.sampled_from(["tfn", "man", "tfn+man"]),
    "loss": st.sampled_from(["squared_hinge", "hinge", "logistic"]),
    "cost": st.sampled_from([1e-6, 1.0, 1e6]),
    "positive_cost": st.sampled_from([1e-3, 1.0, 100.0]),
    "negative_cost": st.sampled_from([1e-3, 1.0, 100.0]),
    "tolerance": st.sampled_from([1e-4, 0.1, 1e6]),
    "max_iterations": st.sampled_from([1, 10, 200]),
    "threshold": st.sampled_from([0.0, 0.1, 1e9]),
    "max_weights_per_label": st.sampled_from([None, 1, 3]),
    "weight_dtype": st.sampled_from(["uint8", "uint4", "float16", "float32"]),
    "normalize": st.booleans(),
    "combine": st.sampled_from(["l3_hinge", "ranker", "sigmoid", "l2_hinge", "paper"]),
    "embedding": st.sampled_from(["pifa", "pii", "spectral"]),
    "clustering": st.sampled_from(["kmeans", "spherical", "random"]),
    "calibration": st.sampled_from([None, "isotonic", "platt"]),
    "calibration_folds": st.sampled_from([1, 3]),
}
OF_CLASSES: dict[str, st.SearchStrategy[Any]] = {
    **PARAMETERS,
    "n_candidates": st.sampled_from([1, 2, 9, 1000]),
    "n_noises": st.sampled_from([1, 5]),
    "loss": st.sampled_from(["cane", "cane", "softmax", "nce", "blackout", "negative_sampling", "hsm"]),
    "tree": st.sampled_from(["kmeans", "random", "frequency"]),
    "learning_rate": st.sampled_from(["auto", 1e-6, 0.1, 1e6, 1e30]),
    "optimizer": st.sampled_from(["adagrad", "sgd"]),
    "epochs": st.sampled_from([1, 3]),
    "l2": st.sampled_from([0.0, 1e-3, 10.0]),
    "noise": st.sampled_from(["uniform", "unigram"]),
    "noise_power": st.sampled_from([0.0, 0.75, 10.0]),
    "class_weight": st.sampled_from([None, "balanced", {0: 1e-3}, {0: 1e6}]),
}


@st.composite
def rows(draw: st.DrawFn) -> tuple[np.random.Generator, sp.csr_matrix, int, np.ndarray | None]:
    """Features, a number of labels, weights, and what else is to be drawn from."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, d, n_labels = (draw(st.sampled_from(sizes)) for sizes in ([1, 2, 9, 40, 150], [1, 2, 9, 40], [1, 2, 9, 40]))
    X = sp.csr_matrix(random.normal(size=(n, d)) * (random.random((n, d)) < draw(st.sampled_from([0.0, 0.2, 1.0]))))
    weight = random.choice([0.0, 0.5, 3.0], n) if draw(st.booleans()) else None
    return random, X, n_labels, weight


def answered(model: Any, X: sp.csr_matrix, Y: Any, weight: np.ndarray | None) -> tuple[TopK, Any] | None:
    """A sound answer and the model that was loaded, which gives the same; None where a sentence says why not."""
    try:
        model.fit(X, Y, sample_weight=weight)
    except SylvanError as error:
        assert str(error).endswith((".", "?"))
        return None
    top = model.rank(X, k=3)
    assert not np.isnan(top.scores).any()
    assert ((top.labels >= -1) & (top.labels < model.n_labels_)).all()
    assert bits(model.rank(X[-1:], k=3)) == bits((top.labels[-1:], top.scores[-1:]))
    need_probabilities(model.predict_proba(X))
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        loaded = sylvan.load(Path(folder) / "model")
        assert bits(loaded.rank(X, k=3)) == bits(top)
    return top, loaded


def need_probabilities(proba: Any) -> None:
    values = proba.data if sp.issparse(proba) else proba
    assert not values.size or (values.min() >= 0 and values.max() <= 1)


@settings(max_examples=70)
@given(rows(), st.fixed_dictionaries({}, optional=OF_LABELS), st.booleans(), st.booleans(),
       st.sampled_from([0.02, 0.3, 1.0]))  # fmt: skip
def test_labels(case: Any, params: dict[str, Any], overlap: bool, relevances: bool, share: float) -> None:
    random, X, n_labels, weight = case
    Y = sp.csr_matrix((random.random((X.shape[0], n_labels)) < share).astype(np.float32))
    if relevances:
        Y.data *= random.choice([1e-3, 1.0, 50.0], Y.nnz).astype(np.float32)
    model = XRLinear(**params)
    if overlap and n_labels > 3:
        half = n_labels // 2
        labels = [*range(n_labels - 1), *range(half - 1, n_labels)]
        offsets = np.array([0, n_labels - 1, len(labels)])
        model.set_params(tree=LabelTree((np.array([0, 2]), offsets), np.array(labels, np.int32), n_labels))
    if answered(model, X, Y, weight):
        assert model.predict(X).shape == Y.shape


@settings(max_examples=30)
@given(rows(), st.fixed_dictionaries({}, optional=OF_CLASSES), st.sampled_from([1e-20, 1.0, 1e14]))
def test_one_class_a_row(case: Any, params: dict[str, Any], scale: float) -> None:
    random, X, n_classes, weight = case
    X, y = X * scale, random.integers(0, n_classes, X.shape[0])
    model = BeamTreeClassifier(**params)
    if found := answered(model, X, y, weight):
        top, loaded = found
        assert (top.labels[:, 0] >= 0).all()
        same = model.predict(X) == model.classes_[top.labels[:, 0]]
        clear = top.scores[:, 0] - top.scores[:, 1] > 1e-4 if top.scores.shape[1] > 1 else np.full(len(same), True)
        assert same[clear].all(), "only scores alike to rounding may differ in order"
        need_probabilities(model.predict_proba(X, exact=True))
        try:
            loaded.partial_fit(X, y, sample_weight=weight)
        except SylvanError as error:
            assert str(error).endswith((".", "?"))
