"""XRLinear with parameters and data drawn at random: it answers, or says in a sentence why not."""

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
from sylvan import LabelTree, XRLinear
from sylvan.errors import SylvanError

PARAMETERS: dict[str, st.SearchStrategy[Any]] = {
    "branching": st.sampled_from([2, 3, 16]),
    "max_leaf": st.sampled_from([1, 2, 5, 100]),
    "beam": st.sampled_from([1, 2, 10, 10**6]),
    "negatives": st.sampled_from(["tfn", "man", "tfn+man"]),
    "loss": st.sampled_from(["squared_hinge", "hinge", "logistic"]),
    "cost": st.sampled_from([1e-6, 1.0, 1e6]),
    "positive_cost": st.sampled_from([1e-3, 1.0, 100.0]),
    "negative_cost": st.sampled_from([1e-3, 1.0, 100.0]),
    "bias": st.sampled_from([0.0, 1.0, 1e3]),
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
    "n_jobs": st.sampled_from([1, 3]),
    "seed": st.integers(0, 2**31 - 1),
}


@st.composite
def data(draw: st.DrawFn) -> tuple[sp.csr_matrix, sp.csr_matrix, np.ndarray | None]:
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, d, n_labels = (draw(st.sampled_from(sizes)) for sizes in ([1, 2, 9, 40, 150], [1, 2, 9, 40], [1, 2, 9, 40]))
    X = sp.csr_matrix(random.normal(size=(n, d)) * (random.random((n, d)) < draw(st.sampled_from([0.0, 0.2, 1.0]))))
    Y = sp.csr_matrix((random.random((n, n_labels)) < draw(st.sampled_from([0.02, 0.3, 1.0]))).astype(np.float32))
    if draw(st.booleans()):
        Y.data *= random.choice([1e-3, 1.0, 50.0], Y.nnz).astype(np.float32)
    weight = random.choice([0.0, 0.5, 3.0], n) if draw(st.booleans()) else None
    return X, Y, weight


@settings(max_examples=70)
@given(data(), st.fixed_dictionaries({}, optional=PARAMETERS), st.booleans())
def test_an_answer_or_a_sentence(
    case: tuple[sp.csr_matrix, sp.csr_matrix, np.ndarray | None], params: dict[str, Any], overlap: bool
) -> None:
    X, Y, weight = case
    model = XRLinear(**params)
    if overlap and Y.shape[1] > 3:
        half = Y.shape[1] // 2
        labels = [*range(Y.shape[1] - 1), *range(half - 1, Y.shape[1])]
        offsets = np.array([0, Y.shape[1] - 1, len(labels)])
        model.set_params(tree=LabelTree((np.array([0, 2]), offsets), np.array(labels, np.int32), Y.shape[1]))
    try:
        model.fit(X, Y, sample_weight=weight)
    except SylvanError as error:
        assert str(error).endswith((".", "?"))
        return
    top = model.rank(X, k=3)
    assert not np.isnan(top.scores).any()
    assert ((top.labels >= -1) & (top.labels < Y.shape[1])).all()
    assert bits(model.rank(X[-1:], k=3)) == bits((top.labels[-1:], top.scores[-1:]))
    proba = model.predict_proba(X)
    assert not proba.nnz or (proba.data.min() >= 0 and proba.data.max() <= 1)
    assert model.predict(X).shape == Y.shape
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        assert bits(sylvan.load(Path(folder) / "model").rank(X, k=3)) == bits(top)
