"""BeamTreeClassifier with parameters and data drawn at random: it answers, or says in a sentence why not."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.bits import bits

import sylvan
from sylvan import BeamTreeClassifier
from sylvan.errors import SylvanError

PARAMETERS: dict[str, st.SearchStrategy[Any]] = {
    "branching": st.sampled_from([2, 3, 16]),
    "n_candidates": st.sampled_from([1, 2, 9, 1000]),
    "n_noises": st.sampled_from([1, 5]),
    "loss": st.sampled_from(["cane", "cane", "softmax", "nce", "blackout", "negative_sampling", "hsm"]),
    "tree": st.sampled_from(["kmeans", "random", "frequency"]),
    "learning_rate": st.sampled_from(["auto", 1e-6, 0.1, 1e6, 1e30]),
    "optimizer": st.sampled_from(["adagrad", "sgd"]),
    "epochs": st.sampled_from([1, 3]),
    "l2": st.sampled_from([0.0, 1e-3, 10.0]),
    "bias": st.sampled_from([0.0, 1.0, 1e3]),
    "beam": st.sampled_from([1, 2, 10, 10**6]),
    "noise": st.sampled_from(["uniform", "unigram"]),
    "noise_power": st.sampled_from([0.0, 0.75, 10.0]),
    "class_weight": st.sampled_from([None, "balanced", {0: 1e-3}, {0: 1e6}]),
    "n_jobs": st.sampled_from([1, 3]),
    "seed": st.integers(0, 2**31 - 1),
}


@st.composite
def data(draw: st.DrawFn) -> tuple[sp.csr_matrix, np.ndarray, np.ndarray | None]:
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, d, n_classes = (draw(st.sampled_from(sizes)) for sizes in ([1, 2, 9, 150], [1, 9, 40], [1, 2, 9, 40]))
    X = sp.csr_matrix(random.normal(size=(n, d)) * (random.random((n, d)) < draw(st.sampled_from([0.0, 0.2, 1.0]))))
    X *= draw(st.sampled_from([1e-20, 1.0, 1e14]))
    weight = random.choice([0.0, 0.5, 3.0], n) if draw(st.booleans()) else None
    return X, random.integers(0, n_classes, n), weight


@settings(max_examples=30)
@given(data(), st.fixed_dictionaries({}, optional=PARAMETERS))
def test_an_answer_or_a_sentence(
    case: tuple[sp.csr_matrix, np.ndarray, np.ndarray | None], params: dict[str, Any]
) -> None:
    X, y, weight = case
    model = BeamTreeClassifier(**params)
    try:
        model.fit(X, y, sample_weight=weight)
    except SylvanError as error:
        assert str(error).endswith((".", "?"))
        return
    top = model.rank(X, k=3)
    assert not np.isnan(top.scores).any()
    assert ((top.labels >= -1) & (top.labels < model.n_labels_)).all() and (top.labels[:, 0] >= 0).all()
    assert bits(model.rank(X[-1:], k=3)) == bits((top.labels[-1:], top.scores[-1:]))
    same = model.predict(X) == model.classes_[top.labels[:, 0]]
    assert same.mean() > 0.5, "scores alike to rounding may differ in order"
    for proba in (model.predict_proba(X), model.predict_proba(X, exact=True)):
        values = proba.data if sp.issparse(proba) else proba
        assert not values.size or (values.min() >= 0 and values.max() <= 1)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        loaded = sylvan.load(Path(folder) / "model")
        assert bits(loaded.rank(X, k=3)) == bits(top)
        try:
            loaded.partial_fit(X, y, sample_weight=weight)
        except SylvanError as error:
            assert str(error).endswith((".", "?"))
