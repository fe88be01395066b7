"""BucketNetwork and affinities against their definitions, spelled out slowly."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from word_topics import all_logits

from sylvan.models.irli import bucket_network
from sylvan.models.irli.bucket_network import BucketNetwork, best_buckets, expected_affinity
from sylvan.store import State


def network(
    n_features: int = 9, n_repetitions: int = 3, hidden: int = 5, n_buckets: int = 7, seed: int = 0
) -> BucketNetwork:
    random = np.random.default_rng(seed)
    shapes = (n_features, n_repetitions * hidden), (n_repetitions * hidden,), (n_repetitions, hidden, n_buckets)
    arrays = [random.standard_normal(shape, np.float32) for shape in (*shapes, (n_repetitions, n_buckets))]
    return BucketNetwork(*arrays)


def inputs(n: int = 20, n_features: int = 9, seed: int = 1) -> np.ndarray:
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, n_features), np.float32)
    return X * (random.random((n, n_features)) < 0.4)


def slow_logits(net: BucketNetwork, X: np.ndarray) -> np.ndarray:
    found = np.zeros((len(X), net.n_repetitions, net.n_buckets))
    for i, x in enumerate(X.astype(np.float64)):
        for r in range(net.n_repetitions):
            part = slice(r * net.hidden, (r + 1) * net.hidden)
            values = np.maximum(x @ net.first[:, part] + net.first_bias[part], 0)
            found[i, r] = values @ net.second[r] + net.second_bias[r]
    return found


def test_logits_are_those_of_the_formula() -> None:
    net, X = network(), inputs()
    for form in (X, sp.csr_matrix(X), sp.csr_array(X)):
        np.testing.assert_allclose(all_logits(net, form), slow_logits(net, X), rtol=1e-4, atol=1e-5)
        assert net.top(form, 4)[0].tolist() == net.top(X, 4)[0].tolist()
    assert (net.n_features, net.n_repetitions, net.hidden, net.n_buckets) == (9, 3, 5, 7)


@pytest.mark.parametrize("m", [1, 3, 7])
def test_top_sorts_the_logits(m: int) -> None:
    net, X = network(), inputs()
    logits = all_logits(net, X)
    chosen, probabilities = net.top(X, m)
    assert chosen.dtype == np.int32
    assert probabilities.dtype == np.float32
    assert chosen.tolist() == np.argsort(-logits, axis=2, kind="stable")[:, :, :m].tolist()
    expected = np.take_along_axis(1 / (1 + np.exp(-logits)), chosen, axis=2)
    np.testing.assert_allclose(probabilities, expected, rtol=1e-5)


@pytest.mark.parametrize("sparse", [False, True])
def test_neither_threads_nor_company_change_a_bit(sparse: bool) -> None:
    net = network(n_features=40, n_repetitions=4, hidden=64, n_buckets=50)
    X = inputs(1100, 40)
    given_inputs = sp.csr_matrix(X) if sparse else X
    together = [part.tobytes() for part in net.top(given_inputs, 6)]
    assert [part.tobytes() for part in net.top(given_inputs, 6, n_jobs=3)] == together
    chosen, probabilities = net.top(given_inputs, 6)
    for row in (0, 511, 512, 1099):
        alone = net.top(given_inputs[row : row + 1], 6)
        assert alone[0].tobytes() == chosen[row].tobytes()
        assert alone[1].tobytes() == probabilities[row].tobytes()


def test_no_rows() -> None:
    chosen, probabilities = network().top(inputs(0), 2)
    assert chosen.shape == probabilities.shape == (0, 3, 2)


def test_weights_that_are_no_numbers_give_probability_0() -> None:
    net = network()
    net.second[1, :, 2] = np.nan
    net.first[:] = np.inf
    chosen, probabilities = net.top(inputs(), 7)
    assert np.isfinite(probabilities).all()
    assert (np.sort(chosen, axis=2) == np.arange(7)).all()


@pytest.mark.parametrize("n_buckets", [7, 40])  # of which at least 16 are computed at a time
def test_definition_1_is_the_sum_over_instances(n_buckets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    net, X = network(n_repetitions=1, n_buckets=n_buckets), inputs(30)
    random = np.random.default_rng(3)
    Y = (random.random((30, 11)) < 0.2).astype(np.float32) * 3  # values don't matter
    Y[:, 4] = 0
    scores = 1 / (1 + np.exp(-slow_logits(net, X)[:, 0]))
    sums = np.array([scores[Y[:, label] > 0].sum(axis=0) for label in range(11)])
    expected = np.argsort(-sums, axis=1, kind="stable")[:, :3]
    expected[4] = -1
    for block in (1 << 24, 100, 1):
        monkeypatch.setattr(bucket_network, "_AFFINITIES", block)
        for given_inputs in (X, sp.csr_matrix(X)):
            assert best_buckets(net, given_inputs, sp.csr_matrix(Y), 3).tolist() == expected.tolist()
    monkeypatch.setattr(bucket_network, "_AFFINITIES", 3)
    everything = best_buckets(net, X, sp.csr_matrix(Y), n_buckets)
    assert (np.sort(everything[:4], axis=1) == np.arange(n_buckets)).all()


def test_expected_affinity_is_a_mean_over_labels_of_inputs() -> None:
    net, X = network(), inputs(30)
    random = np.random.default_rng(3)
    Y = random.random((30, 11)) < 0.2
    assignment = random.integers(0, 7, (3, 11), dtype=np.int32)
    scores = 1 / (1 + np.exp(-slow_logits(net, X)))
    each = [scores[i, r, assignment[r, label]] for i, label in np.argwhere(Y) for r in range(3)]
    assert expected_affinity(net, X, sp.csr_matrix(Y), assignment) == pytest.approx(np.mean(each), rel=1e-5)
    assert expected_affinity(net, X, sp.csr_matrix(Y * 0), assignment) == 0


def test_a_projection_comes_before_all_networks() -> None:
    random = np.random.default_rng(5)
    net = network()
    projection = random.normal(size=(9, net.n_features)).astype(np.float32)
    behind, X = replace(net, projection=projection), random.normal(size=(20, 9)).astype(np.float32)
    assert (behind.n_inputs, behind.n_features) == (9, net.n_features)
    np.testing.assert_allclose(all_logits(behind, X), all_logits(net, X @ projection), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(all_logits(behind.only(1), X)[:, 0], all_logits(behind, X)[:, 1], rtol=1e-4, atol=1e-5)
    state = State("k", 1, arrays=behind.arrays())
    again = BucketNetwork.from_arrays(state, 9, net.n_repetitions, net.n_buckets)
    np.testing.assert_array_equal(all_logits(again, X), all_logits(behind, X))
