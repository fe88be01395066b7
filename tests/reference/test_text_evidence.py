"""Labels known by their texts, beside the slow and obvious reference of what the documentation says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import text_evidence_reference as reference
from sylvan import TopK
from sylvan.arrays.canonical import Csr
from sylvan.models.label_texts.label_texts import LabelTexts
from sylvan.models.label_texts.text_evidence import WordContexts, fitted_curve, joined, row_means


def csr(dense: npt.NDArray[Any]) -> Csr:
    return Csr.of(sp.csr_matrix(dense.astype(np.float32)))


def unit_rows(dense: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    lengths = np.linalg.norm(dense, axis=1, keepdims=True)
    return (dense / np.where(lengths > 0, lengths, 1)).astype(np.float32)


@dataclass
class Case:
    """Rows, labels' texts and labels, dense; and the reference's view of them."""

    X: npt.NDArray[np.float32]
    T: npt.NDArray[np.float32]
    Y: npt.NDArray[np.float32]

    def __post_init__(self) -> None:
        self.texts = {label: text.astype(float) for label, text in enumerate(self.T)}
        self.rows = [row.astype(float) for row in self.X]
        self.truth = [set(np.flatnonzero(row).tolist()) for row in self.Y]
        by_label = {label: np.flatnonzero(self.Y[:, label]).tolist() for label in range(self.T.shape[0])}
        self.means = {label: reference.mean_row([self.rows[r] for r in its]) for label, its in by_label.items() if its}
        self.words = reference.word_vectors(self.means, self.texts)
        means = row_means(sp.csr_matrix(self.X), sp.csr_matrix(self.Y))
        self.found_means = means
        self.contexts = WordContexts.of(means, sp.csr_matrix(self.T))


def made(
    seed: int, n: int = 12, d: int = 20, n_labels: int = 14, row_share: float = 0.2, text_share: float = 0.1
) -> Case:
    """Some rows and some texts have no word, and some labels no row; values are never equal, nor nearly."""
    random = np.random.default_rng(seed)

    def drawn(n: int, share: float) -> npt.NDArray[np.float32]:
        dense = np.where(random.random((n, d)) < share, 0.2 + random.random((n, d)), 0)
        dense[random.random(n) < 0.1] = 0
        return unit_rows(dense)

    Y = random.random((n, n_labels)) < 2 / n_labels
    Y[:, random.random(n_labels) < 0.3] = False
    return Case(drawn(n, row_share), drawn(n_labels, text_share), Y.astype(np.float32))


cases = st.builds(
    made, st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 20), st.integers(1, 16),
    st.sampled_from([0.0, 0.2, 0.6]), st.sampled_from([0.0, 0.1, 0.4]),
)  # fmt: skip
many_words = pytest.mark.parametrize("case", [made(3, 30, 500, 20, 0.5, 0.3), made(5, 30, 500, 20, 0.5, 0.004)])


def check_words(case: Case) -> None:
    for label in range(case.T.shape[0]):
        mean = case.means.get(label, np.zeros(case.X.shape[1]))
        np.testing.assert_allclose(case.found_means[[label]].toarray()[0], mean, atol=1e-6)
    found = dict(zip(case.contexts.words.tolist(), case.contexts.means.to_scipy().toarray(), strict=True))
    assert set(case.words) <= set(found) <= set(np.flatnonzero(case.T.any(axis=0)).tolist())
    for word, vector in found.items():
        np.testing.assert_allclose(vector, case.words.get(word, np.zeros(case.X.shape[1])), atol=1e-6)
    predicted = case.contexts.predicted(sp.csr_matrix(case.T)).toarray()
    for label, text in case.texts.items():
        np.testing.assert_allclose(predicted[label], reference.predicted(text, case.words), atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(cases)
def test_words_and_predicted_rows(case: Case) -> None:
    check_words(case)


@many_words
def test_only_the_largest_values_of_many_stay(case: Case) -> None:
    check_words(case)
    assert max(np.count_nonzero(mean) for mean in case.means.values()) == 256
    assert case.contexts.means.to_scipy().getnnz(axis=1).max() == 32


def same_answers(top: TopK, row: int, expected: list[tuple[int, float]], atol: float = 1e-5) -> None:
    """Of answers as good as equal, either may be first."""
    found = [int(label) for label in top.labels[row] if label >= 0]
    scores = dict(expected)
    assert len(found) == len(expected) == len(set(found))
    np.testing.assert_allclose(top.scores[row, : len(found)], [score for _, score in expected], atol=atol)
    assert np.isneginf(top.scores[row, len(found) :]).all() and (top.labels[row, len(found) :] == -1).all()
    for place, label in enumerate(found):
        if label in scores:
            assert scores[label] == pytest.approx(float(top.scores[row, place]), abs=atol)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 5), st.integers(0, 5), st.integers(1, 12))
def test_joined_rankings(seed: int, first: int, second: int, k: int) -> None:
    random = np.random.default_rng(seed)
    labels = random.permutation(10).astype(np.int32)[None]
    scores = (random.integers(0, 4, (1, 10)) / 4).astype(np.float32)  # with ties
    parts, listed = [], []
    for begin, end in ((0, first), (5, 5 + second)):
        part = sorted(zip(labels[0, begin:end].tolist(), scores[0, begin:end].tolist(), strict=True),
                      key=lambda answer: (-answer[1], answer[0]))  # fmt: skip
        listed.append(part)
        wide = part + [(-1, -np.inf)] * (5 - len(part))
        parts.append(TopK(np.array([[a for a, _ in wide]], np.int32), np.array([[b for _, b in wide]], np.float32)))
    top = joined(*parts, k)
    found = [(int(a), float(b)) for a, b in zip(top.labels[0], top.scores[0], strict=True) if a >= 0]
    assert found == reference.joined(*listed, k)


def folds_of(described: list[int]) -> Mapping[int, int]:
    return dict(zip(described, np.random.default_rng(0).integers(0, 5, len(described)).tolist(), strict=True))


def check_highest(
    points: list[tuple[list[float], bool, int]], curve: npt.NDArray[np.float64], weight: npt.NDArray[Any] | None = None
) -> None:
    """The likelihood's slopes at a curve are those of the ridge, and there is one such place."""
    n = len(curve)
    slopes, curvature, sums = np.zeros(n), np.zeros((n, n)), 0.0
    for seen, right, row in points:
        x, w = np.array([1.0, *seen]), 1.0 if weight is None else float(weight[row])
        p = reference.probability(seen, curve)
        slopes += w * (right - p) * x
        curvature += w * p * (1 - p) * np.outer(x, x)
        sums += w
    assert sum(right for _, right, _ in points) > 40
    np.testing.assert_allclose(slopes / sums, 1e-6 * curve * [0, *[1] * (n - 1)], atol=1e-7)
    assert np.linalg.eigvalsh(curvature / sums).min() > 1e-6


def test_no_curve_from_fewer_than_twenty_right_answers() -> None:
    n_labels = 30
    X = np.eye(n_labels, dtype=np.float32).repeat(3, axis=0)  # a row is the label's text
    held_out = np.arange(0, 3 * n_labels, 3, dtype=np.int32)
    for n, found in ((19, False), (20, True)):
        Y = np.eye(n_labels, dtype=np.float32).repeat(3, axis=0)
        Y[held_out[n:]] = np.roll(Y[held_out[n:]], 1, axis=1)  # wrong, so that no similar label is right
        curve = fitted_curve(csr(X), csr(Y), csr(np.eye(n_labels)), held_out)
        assert (curve is not None) == found
    for few in (0, 1, 4, 5, 6):
        assert fitted_curve(csr(X), csr(Y[:, :few]), csr(np.eye(n_labels)[:few]), held_out) is None


def words_of(known: LabelTexts) -> dict[int, reference.Vector]:
    means = known.contexts.means.to_scipy().toarray().astype(float)
    return dict(zip(known.contexts.words.tolist(), means, strict=True))
