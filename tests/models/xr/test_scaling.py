"""Features of any scale: units of rows and of columns change no answer."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

import sylvan
from sylvan import XRLinear
from sylvan.arrays.validate import features
from sylvan.errors import ModelError
from sylvan.models.xr.params import Scale

N, D, CLASSES = 160, 12, 8


def made(seed: int, density: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Rows around the means of their classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(N) % CLASSES
    X = rng.normal(size=(N, D)) * 0.4 + rng.normal(size=(CLASSES, D))[y]
    return (X * (rng.random((N, D)) < density)).astype(np.float32), y


def length_by_hand(X: np.ndarray) -> float:
    lengths = [float(np.sqrt(sum(float(value) ** 2 for value in row))) for row in X]
    length = float(np.median([length for length in lengths if length > 0] or [1.0]))
    return 1.0 if abs(length - 1) < 1e-3 else length  # rows of unit length, but for rounding


@settings(max_examples=25)
@given(st.integers(0, 99), st.floats(0.1, 1.0), st.floats(-6, 6))
def test_lengths_and_factors_are_those_by_hand(seed: int, density: float, power: float) -> None:
    X = made(seed, density)[0] * np.float32(10.0**power)
    scale = Scale.of(XRLinear(), features(X))
    assert scale.factors is None and scale.length == pytest.approx(length_by_hand(X), rel=1e-5)
    units = (10.0 ** np.random.default_rng(seed).uniform(-4, 4, D)).astype(np.float32)
    units[:2] = 1e-4, 1e4
    scale = Scale.of(XRLinear(), features(X * units))
    filled = [(X[:, j] * units[j])[X[:, j] != 0].astype(float) for j in range(D)]
    by_hand = [1 / np.sqrt(np.mean(values**2)) if len(values) else 1.0 for values in filled]
    assert scale.factors is not None
    np.testing.assert_allclose(scale.factors, by_hand, rtol=1e-5)
    assert scale.length == pytest.approx(length_by_hand(X * units * scale.factors), rel=1e-5)


def test_rows_of_length_1_are_taken_as_they_are() -> None:
    X = features(made(0)[0]).unit_rows()
    assert Scale.of(XRLinear(), X) == Scale()
    spread = features(np.diag(10.0 ** np.arange(-4, 4)).astype(np.float32)).unit_rows()
    assert Scale.of(XRLinear(), spread) == Scale()
    assert Scale.of(XRLinear(), features(sp.csr_matrix((3, 4), dtype=np.float32))) == Scale()


@settings(max_examples=9)
@given(st.integers(0, 99), st.integers(-40, 40), st.sampled_from(["squared_hinge", "hinge", "logistic"]))
def test_a_power_of_two_changes_no_bit_of_an_answer(seed: int, power: int, loss: str) -> None:
    X, y = made(seed, 0.5)
    factor = np.float32(2.0**power)
    one, other = (XRLinear(loss=loss, max_leaf=4, branching=2, n_jobs=1).fit(rows, y) for rows in (X, X * factor))
    ours, theirs = one.rank(X, k=5), other.rank(X * factor, k=5)
    assert (ours.labels == theirs.labels).all()
    if loss == "logistic":  # whose steps stop by a bound of their own
        np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-3)
    else:
        assert (ours.scores == theirs.scores).all()


@settings(max_examples=6)
@given(st.integers(0, 99), st.floats(-4, 4))
def test_a_model_of_any_scale_knows_its_rows(seed: int, power: float) -> None:
    X, y = made(seed)
    own = XRLinear(n_jobs=1).fit(X, y).score(X, y)
    assert own > 0.9
    scaled = X * np.float32(10.0**power)
    model = XRLinear(n_jobs=1).fit(scaled, y)
    assert model.score(scaled, y) == pytest.approx(own, abs=0.02)
    assert model.layers_[0].n_entries == pytest.approx(XRLinear(n_jobs=1).fit(X, y).layers_[0].n_entries, rel=0.02)
    units = (10.0 ** np.random.default_rng(seed).uniform(-4, 4, D)).astype(np.float32)
    assert XRLinear(n_jobs=1).fit(X * units, y).score(X * units, y) > 0.85


@pytest.mark.parametrize("normalize", [False, True])
def test_factors_are_saved_and_checked(normalize: bool, tmp_path: Path) -> None:
    X, y = made(3)
    X *= (10.0 ** np.arange(D) / 1e6).astype(np.float32)
    model = XRLinear(normalize=normalize, calibration="isotonic", n_jobs=1).fit(X, y)
    assert model.feature_factors_ is not None and model.score(X, y) > 0.85
    model.save(tmp_path / "model")
    again = sylvan.load(tmp_path / "model")
    assert (again.rank(X).scores == model.rank(X).scores).all()
    assert again.explain(X[:1], label=int(y[0])).trees[0].paths
    state = model.to_state()
    state.arrays["feature_factors"] = np.full(D, np.nan, np.float32)
    with raises(ModelError, "feature_factors", "NaN"):
        XRLinear.from_state(state)
    again.fit(made(3)[0], y)
    assert again.feature_factors_ is None


def test_none_takes_features_as_they_are() -> None:
    X, y = made(1)
    assert XRLinear(scaling="none", n_jobs=1).fit(X * 1000, y).score(X * 1000, y) < 0.5, "all weights are pruned"
