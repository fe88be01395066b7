"""Label embeddings against slow and obvious reference implementations; labels without instances; malformed input."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.bits import same_bits
from kit.errors import raises

from sylvan import data, indexing
from sylvan.arrays import validate
from sylvan.errors import DataError, ParameterError
from sylvan.indexing.embeddings import _EMBEDDED


def unit(rows):
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def pifa_reference(X, Y, keep=None):
    rows = []
    for label in range(Y.shape[1]):
        row = np.zeros(X.shape[1])
        for instance in range(X.shape[0]):
            row += Y[instance, label] * X[instance]
        if keep is not None:
            largest = sorted(range(row.size), key=lambda j: (-abs(row[j]), j))[:keep]
            row = np.where(np.isin(np.arange(row.size), largest), row, 0)
        rows.append(row)
    return unit(np.array(rows))


@st.composite
def problems(draw):
    n, d, labels = draw(st.integers(1, 12)), draw(st.integers(1, 40)), draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    X = rng.integers(-3, 6, (n, d)) * (rng.random((n, d)) < draw(st.sampled_from([0.1, 0.5, 1.0])))
    Y = rng.integers(1, 3, (n, labels)) * (rng.random((n, labels)) < draw(st.sampled_from([0.1, 0.5])))
    return X.astype(np.float32), Y.astype(np.float32)


@given(problems(), st.sampled_from([None, 1, 2, 5, 100]), st.integers(1, 3))
@settings(max_examples=60)
def test_pifa_is_its_reference(problem, keep, n_jobs):
    X, Y = problem
    Z = indexing.pifa(sp.csr_matrix(X), sp.csr_matrix(Y), max_features_per_label=keep, n_jobs=n_jobs)
    assert Z.dtype == np.float32
    assert Z.shape == (Y.shape[1], X.shape[1])
    assert (Z.data != 0).all()
    assert all((np.diff(Z.indices[a:b]) > 0).all() for a, b in zip(Z.indptr[:-1], Z.indptr[1:], strict=True))
    np.testing.assert_allclose(Z.toarray(), pifa_reference(X, Y, keep), atol=1e-6)


def test_pifa_in_many_tasks_is_pifa_in_one(monkeypatch):
    rng = np.random.default_rng(0)
    X = sp.random_array((300, 500), density=0.05, rng=rng, format="csr", dtype=np.float32)
    Y = sp.random_array((300, 90), density=0.05, rng=rng, format="csr", dtype=np.float32)
    whole = indexing.pifa(X, Y, max_features_per_label=20)
    Y = sp.hstack([Y, Y], format="csr")
    whole = sp.vstack([whole, whole], format="csr")
    monkeypatch.setattr(indexing.embeddings, "_TASK_VALUES", 50)
    for n_jobs in (1, 2, 5):
        parts = indexing.pifa(X, Y, max_features_per_label=20, n_jobs=n_jobs)
        assert (parts.indptr == whole.indptr).all()
        assert (parts.indices == whole.indices).all()
        assert (parts.data.view(np.int32) == whole.data.view(np.int32)).all()


def test_pifa_takes_canonical_matrices_and_empty_ones():
    x, y = validate.features(np.eye(2)), validate.labels([[0], [1]], n_labels=3)
    Z = indexing.pifa(x, y)
    assert Z.toarray().tolist() == [[1, 0], [0, 1], [0, 0]]
    nothing = indexing.pifa(np.zeros((2, 3)), [[0], [1]])
    assert nothing.nnz == 0
    assert indexing.pifa(np.zeros((2, 3)), validate.labels([[], []], n_labels=2)).shape == (2, 3)


def test_pii():
    Y = np.array([[1, 0, 0], [1, 2, 0]])
    np.testing.assert_allclose(indexing.pii(sp.csr_matrix(Y)).toarray(), unit(Y.T), atol=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0, np.array([0.0, 0.5, 1.0, 0.9])])
def test_pifa_lf(alpha):
    rng = np.random.default_rng(1)
    X, own = rng.random((6, 5)), rng.random((4, 5))
    Y = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [1, 0, 0, 0]])
    weights = np.where(Y.any(axis=0), np.broadcast_to(alpha, 4), 0)[:, None]
    expected = unit((1 - weights) * own + weights * pifa_reference(X, Y))
    Z = indexing.pifa_lf(X, sp.csr_matrix(Y), own, alpha)
    assert Z.dtype == np.float32
    np.testing.assert_allclose(Z.toarray(), expected, atol=1e-6)


@pytest.mark.parametrize("k", [1, 2, 3, 50])
def test_spectral_is_its_reference(k):
    rng = np.random.default_rng(2)
    Y = (rng.random((30, 8)) < 0.3).astype(float)
    Y[:, 5] = 0
    rows, columns = Y.sum(axis=1), Y.sum(axis=0)
    root = [np.divide(1, np.sqrt(v), out=np.zeros_like(v), where=v > 0) for v in (rows, columns)]
    vectors = np.linalg.svd(root[0][:, None] * Y * root[1])[2].T
    expected = root[1][:, None] * vectors[:, 1 : k + 1]
    Z = indexing.spectral(sp.csr_matrix(Y), k)
    assert Z.shape == (8, min(k, 7))
    for column in range(min(k, 6)):
        a, b = Z[:, column], expected[:, column]
        assert min(np.abs(a - b).max(), np.abs(a + b).max()) < 1e-4
    assert (Z[5, : min(k, 6)] == 0).all()
    assert (indexing.spectral(sp.csr_matrix(Y), k) == Z).all()


def test_spectral_is_the_same_again_for_a_graph_of_many_parts():
    """Its largest singular value, 1, occurs once a part: the solver has to choose among the vectors."""
    Y = sp.csr_matrix(np.eye(200))
    first = indexing.spectral(Y, 20)
    assert all((indexing.spectral(Y, 20) == first).all() for _ in range(3))
    assert not (indexing.spectral(Y, 20, seed=1) == first).all()


@pytest.mark.parametrize("shape", [(60, 40), (40, 60)])
def test_spectral_solves_for_singular_vectors(shape):
    """Of a graph too large to be decomposed whole: each vector, scaled back, is one of the largest."""
    rng = np.random.default_rng(3)
    Y = (rng.random(shape) < 0.2).astype(float)
    Y[0], Y[:, 0] = 1, 1
    scaled = Y / np.sqrt(Y.sum(axis=1))[:, None] / np.sqrt(Y.sum(axis=0))
    vectors = indexing.spectral(sp.csr_matrix(Y), 10) * np.sqrt(Y.sum(axis=0))[:, None]
    expected = np.linalg.svd(scaled)[1][1:11]
    np.testing.assert_allclose(scaled.T @ (scaled @ vectors), vectors * expected**2, atol=1e-5)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(10), atol=1e-5)


def test_spectral_of_almost_nothing():
    assert indexing.spectral([[0]], 4).shape == (1, 1)
    assert indexing.spectral([[0, 1, 2]], 4).tolist() == [[0], [0], [0]], "one row tells no labels apart"
    assert indexing.spectral(validate.labels([[], []], n_labels=3), 1).shape == (3, 1)


def test_malformed_input_is_a_sentence():
    eye = np.eye(3)
    with raises(DataError, "(3, 3)", "(2, 1)"):
        indexing.pifa(eye, [[0], [0]])
    with raises(DataError, "NaN"):
        indexing.pifa(eye * np.nan, [[0], [0], [0]])
    with raises(ParameterError, "max_features_per_label", "[1, inf)", "None"):
        indexing.pifa(eye, [[0], [0], [0]], max_features_per_label=0)
    with raises(DataError, "label_features", "(2, 3)", 1):
        indexing.pifa_lf(eye, [[0], [0], [0]], eye[:2])
    with raises(DataError, "label_features", "(2, 3)", 3):
        indexing.pifa_lf(eye, [[0], [1], [2]], eye[:2])
    with raises(DataError, "features"):
        indexing.pifa_lf(eye, [[0], [0], [0]], np.ones((1, 2)))
    for alpha in (-0.1, 1.5, np.nan, [0.5, 0.5]):
        with raises(ParameterError, "alpha"):
            indexing.pifa_lf(eye, [[0], [0], [0]], eye[:1], alpha)
    with raises(ParameterError, "'k'", 0):
        indexing.spectral([[0]], 0)


def test_pifa_of_parts_is_that_of_the_matrix(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    X = validate.features(sp.random_array((60, 40), density=0.2, rng=rng, dtype=np.float32))
    Y = validate.labels(sp.random_array((60, 9), density=0.2, rng=rng, dtype=np.float32))
    monkeypatch.setattr(indexing.embeddings, "_TASK_VALUES", 50)
    data.save_parts(tmp_path, X, rows_per_part=25)
    found = indexing.embeddings.pifa_rows(data.open_parts(tmp_path)[0], Y, 20, 1)
    same_bits(found, indexing.embeddings.pifa_rows(X, Y, 20, 1))
    same_bits(_EMBEDDED.unpack(_EMBEDDED.pack(found)), found)
