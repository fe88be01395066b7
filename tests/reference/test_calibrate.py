"""Calibration against slow references: scikit-learn's isotonic regression, a general minimiser, one row at a time."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises
from scipy.optimize import minimize

from sylvan import TopK
from sylvan.errors import ModelError
from sylvan.ranking import calibrate
from sylvan.ranking.calibrate import LEAST, Calibrator
from sylvan.store import State

METHODS = ["isotonic", "platt"]


@st.composite
def answers(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.sampled_from([1, 2, 5, 30, 400]))
    scores = random.random(n) if draw(st.booleans()) else random.choice([0.0, 0.1, 0.5, 1.0], n)
    right = random.random(n) < draw(st.sampled_from([scores, 1 - scores, scores * 0 + 0.1, scores * 0, scores * 0 + 1]))
    weight = np.float32(random.choice([0.5, 1.0, 3.0], n)) if draw(st.booleans()) else None
    return scores, right, weight


@settings(max_examples=30)
@given(answers())
def test_isotonic_is_scikit_learns(case: tuple[np.ndarray, np.ndarray, np.ndarray | None]) -> None:
    isotonic = pytest.importorskip("sklearn.isotonic").IsotonicRegression
    scores, right, weight = case
    inputs, outputs = calibrate.isotonic(scores, right, weight)
    assert (np.diff(inputs) >= 0).all() and (np.diff(outputs) >= 0).all()
    assert (outputs > 0).all() and (outputs < 1).all()
    slow = isotonic(out_of_bounds="clip").fit(scores, right, weight)
    # The lowest and the highest step keep a distance from 0 and 1, of half an answer more, but pass no other step.
    mass, at, steps = np.ones(len(scores)) if weight is None else weight, slow.predict(scores), slow.y_thresholds_
    lowest, highest = np.isclose(steps, steps.min()), np.isclose(steps, steps.max())
    least = 0.5 / (mass[np.isclose(at, at.min())].sum() + 1)
    most = 1 - 0.5 / (mass[np.isclose(at, at.max())].sum() + 1)
    if lowest.all():
        values = np.clip(steps, least, most)
    else:
        values = np.where(lowest, np.maximum(steps, min(least, steps[~lowest].min())), steps)
        values = np.where(highest, np.minimum(steps, max(most, steps[~highest].max())), values)
    asked = np.linspace(-0.1, 1.1, 50)
    expected = np.interp(asked, slow.X_thresholds_, values)
    np.testing.assert_allclose(np.interp(asked, inputs, outputs), expected, atol=1e-6)


def test_one_answer_moves_only_its_own_step() -> None:
    scores, right = np.arange(200) / 200, np.arange(200) % 10 == 5
    _, outputs = calibrate.isotonic(np.append(-1.0, scores), np.append(False, right))
    assert outputs.mean() < 0.15, "the lowest score was seen once, so one half as likely as not; the others weren't"


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from([1, 2, 7, 200]))
def test_pooling_is_scikit_learns(seed: int, n: int) -> None:
    isotonic_regression = pytest.importorskip("sklearn.isotonic").isotonic_regression
    random = np.random.default_rng(seed)
    weights = random.choice([0.5, 1.0, 2.0], n)
    values = random.choice([0.0, 0.25, 0.5, 1.0], n) if seed % 2 else random.normal(size=n)
    starts = calibrate.pool(values * weights, weights)
    lengths = np.diff(np.append(starts, n))
    fitted = np.add.reduceat(values * weights, starts) / np.add.reduceat(weights, starts)
    assert (np.diff(fitted) > 0).all()
    expected = isotonic_regression(values, sample_weight=weights)
    np.testing.assert_allclose(np.repeat(fitted, lengths), expected, atol=1e-9)


@settings(max_examples=20)
@given(answers())
def test_platt_is_the_likeliest_curve(case: tuple[np.ndarray, np.ndarray, np.ndarray | None]) -> None:
    scores, right, weight = case
    (slope,), (intercept,) = calibrate.platt(scores, right, weight)
    clipped = np.clip(scores, 1e-6, 1 - 1e-6)
    x, mass = np.log(clipped / (1 - clipped)), np.ones(len(scores)) if weight is None else weight.astype(float)
    n_right, n_wrong = mass[right].sum(), mass[~right].sum()
    target = np.where(right, (n_right + 1) / (n_right + 2), 1 / (n_wrong + 2))

    def loss(ab: np.ndarray) -> float:
        s = ab[0] * x + ab[1]
        return float((mass * (np.logaddexp(0, s) - target * s)).sum())

    best = minimize(loss, np.zeros(2), bounds=[(0, None), (None, None)], method="L-BFGS-B")
    assert slope >= 0
    assert loss(np.array([slope, intercept])) <= best.fun + 1e-5 * (1 + abs(best.fun))


def test_falling_is_one_ulp_at_a_time() -> None:
    random = np.random.default_rng(0)
    rows = random.choice([0.0, 1e-9, 0.2, 0.5, 0.7, 1.0], (60, 9))
    found = calibrate.falling(rows)
    for row, fast in zip(rows, found, strict=True):
        last = np.float32(np.inf)
        for wanted, got in zip(np.float32(np.clip(row, LEAST, 1 - LEAST)), fast, strict=True):
            last = min(wanted, np.nextafter(last, np.float32(0))) if np.isfinite(last) else wanted
            assert got == last
    assert (found > 0).all() and (found < 1).all() and (np.diff(found, axis=1) < 0).all()


def ranking(n: int = 2000, k: int = 12, seed: int = 0) -> tuple[TopK, np.ndarray]:
    """Scores that are too low by a square at the first place and too high further down."""
    random = np.random.default_rng(seed)
    chances = -np.sort(-random.random((n, k)))
    right = random.random((n, k)) < chances
    scores = np.where(np.arange(k) < 2, chances**2, np.sqrt(chances))
    labels = np.tile(np.arange(k, dtype=np.int32), (n, 1))
    labels[: n // 10, k - 3 :] = -1
    scores = np.minimum.accumulate(np.where(labels >= 0, scores, -np.inf).astype(np.float32), axis=1)
    return TopK(labels, scores), right & (labels >= 0)


@pytest.mark.parametrize("method", METHODS)
def test_probabilities_mean_what_they_say_and_keep_the_order(method: str) -> None:
    calibrator = Calibrator.fit(method, *ranking())
    assert calibrator is not None
    top, right = ranking(seed=1)
    found = calibrator(top)
    assert (found.labels == top.labels).all() and found.scores.dtype == np.float32
    there = top.labels >= 0
    assert np.isneginf(found.scores[~there]).all()
    both = there[:, 1:] & there[:, :-1]
    assert (found.scores[:, :-1] > found.scores[:, 1:])[both].all()
    for place in range(top.k):
        seen = there[:, place]
        assert abs(found.scores[seen, place].mean() - right[seen, place].mean()) < 0.04
    shorter = calibrator(TopK(top.labels[:, :5], top.scores[:, :5]))
    assert (shorter.scores == found.scores[:, :5]).all(), "how many answers are asked for changes none"


@pytest.mark.parametrize("method", METHODS)
def test_too_few_answers_teach_nothing(method: str) -> None:
    top, right = ranking(20, 2)
    assert Calibrator.fit(method, top, right) is None
    top, right = ranking(400, 3)
    assert Calibrator.fit(method, top, np.zeros_like(right)) is None
    assert Calibrator.fit(method, top, np.ones_like(right)) is None


@pytest.mark.parametrize(
    ("name", "values"),
    [("places", [0, 2, 2]), ("offsets", [0, 2, 2, 4]), ("offsets", [0, 2, 3, 5]), ("inputs", [1.0, np.nan, 0, 1])],
)
def test_damaged_curves_are_refused(name: str, values: list[float]) -> None:
    arrays = {
        "places": np.array([0, 1, 2]), "offsets": np.array([0, 2, 3, 4]),
        "inputs": np.array([0.1, 0.9, 0.5, 0.5]), "outputs": np.array([0.2, 0.8, 0.5, 0.5]),
    }  # fmt: skip
    state = State(calibrate.KIND, 1, meta={"method": "isotonic"}, arrays=arrays)
    assert Calibrator.from_state(state).method == "isotonic"
    with raises(ModelError):
        Calibrator.from_state(replace(state, arrays={**arrays, name: np.array(values, arrays[name].dtype)}))


@pytest.mark.parametrize("method", METHODS)
def test_a_weight_of_two_is_a_row_twice(method: str) -> None:
    top, right = ranking(300, 3)
    weight = np.float32(np.arange(300) % 2 + 1)
    twice = np.repeat(np.arange(300), weight.astype(int))
    a = Calibrator.fit(method, top, right, weight)
    b = Calibrator.fit(method, TopK(top.labels[twice], top.scores[twice]), right[twice])
    assert a is not None and b is not None
    np.testing.assert_allclose(a(top).scores, b(top).scores, rtol=1e-4)
