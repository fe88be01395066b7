"""A row of weight n counts as n equal rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sylvan import NeighborRanker, TextModel, XRLinear

RNG = np.random.default_rng(7)
X = RNG.standard_normal((24, 6)).astype(np.float32)
Y = RNG.integers(0, 4, 24)
EXACT = {"calibration": None, "tolerance": 1e-4, "max_iterations": 3000, "threshold": 0.0, "weight_dtype": "float32"}
MODELS = {
    "one layer": lambda: XRLinear(scaling="none", n_jobs=1, **EXACT),
    "logistic": lambda: XRLinear(scaling="none", loss="logistic", n_jobs=1, **EXACT),
    "neighbours": lambda: NeighborRanker(n_neighbors=10_000, calibration=None, n_jobs=1),
}
weights = st.lists(st.integers(0, 4), min_size=24, max_size=24).filter(lambda w: len(set(Y[np.array(w) > 0])) == 4)


def scores(model: Any, rows: Any) -> np.ndarray:
    return model.rank(rows, k=4).to_csr(4).toarray()


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=6)
@given(weight=weights)
def test_weights_agree_with_repeated_rows(name: str, weight: list[int]) -> None:
    weighted = MODELS[name]().fit(X, Y, sample_weight=weight)
    repeated = MODELS[name]().fit(X.repeat(weight, axis=0), Y.repeat(weight))
    plain = MODELS[name]().fit(X, Y)
    found, expected = scores(weighted, X), scores(repeated, X)
    np.testing.assert_allclose(found, expected, atol=2e-3)
    if max(weight) > min(weight) + 2:
        assert not np.allclose(scores(plain, X), expected, atol=2e-3), "else the weights wouldn't matter"


def test_weights_of_texts() -> None:
    texts, labels, weight = ["sea ship", "sea", "land", "land sea"], ["a", "a", "b", "b"], [1, 3, 2, 0]
    weighted = TextModel(model=XRLinear(n_jobs=1, **EXACT)).fit(texts, labels, sample_weight=weight)
    zeroed = TextModel(model=XRLinear(n_jobs=1, **EXACT)).fit(texts, labels, sample_weight=[1, 3, 2, 1])
    assert weighted.rank(["land sea"], k=2).scores.tolist() != zeroed.rank(["land sea"], k=2).scores.tolist()
