"""How well labels fit rows by the labels' own texts, for labels that no row has taught a model yet. Three things speak
for a label that has no row: the words that its text shares with the row; the words of rows whose labels have such words
in their texts, which is a sparse map from words of labels to words of rows; and how much of the label's text the row
holds. Where there is a text encoder, the cosine of its vectors is a fourth. A logistic curve, fitted to labels whose
rows were left out, makes a probability of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import store
from sylvan.arrays.canonical import Csr, distinct, take_rows
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK
from sylvan.arrays.types import Array, Bool, Float32, Float64, Int32, Int64
from sylvan.indexing import pifa
from sylvan.indexing.embeddings import pifa_rows
from sylvan.matching.neighbors import NeighborIndex
from sylvan.models.label_changes import best_of_pairs, rows_of
from sylvan.parallel import resolve_jobs

CSR_ARRAYS = ("indptr", "indices", "data")
PER_LABEL, PER_WORD, PER_TEXT = 256, 32, 300  # largest values kept of a label's rows, of a word and of a prediction


@dataclass(frozen=True, eq=False)
class WordContexts:
    """What rows look like whose labels have a word in their texts."""

    words: Int32  # shape (w,): features, rising
    # shape (w, d): of each word, the weighted mean of its labels' rows, at length 1 before all but its largest values
    # are dropped
    means: Csr

    @classmethod
    def of(cls, label_rows: sp.csr_matrix, texts: sp.csr_matrix, n_jobs: int | None = 1) -> WordContexts:
        """From :func:`row_means` of some labels and the features of their texts, both of shape (m, d)."""
        words = distinct(texts.indices)
        of_words = Csr.of(texts[:, words])
        return cls(words, pifa_rows(Csr.of(label_rows), of_words, PER_WORD, resolve_jobs(n_jobs), of_all=True))

    @classmethod
    def none(cls, n_features: int) -> WordContexts:
        """Where nothing is known of any word."""
        return cls(np.zeros(0, np.int32), Csr.empty(0, n_features))

    def predicted(self, texts: sp.csr_matrix) -> sp.csr_matrix:
        """What rows of labels with these texts, of shape (n, d), would look like; rows of length 1, or empty."""
        place = np.full(texts.shape[1], -1, np.int32)
        place[self.words] = np.arange(len(self.words), dtype=np.int32)
        valid = place[texts.indices] >= 0
        by_word = texts.data[valid], place[texts.indices[valid]], np.append(0, np.cumsum(valid))[texts.indptr]
        words = sp.csr_matrix(by_word, shape=(texts.shape[0], len(self.words)))
        return pifa_rows(self.means, Csr.of(words.T.tocsr()), PER_TEXT, 1).to_scipy()

    def without(self, words: Array) -> WordContexts:
        """Without the contexts of some words."""
        left = np.flatnonzero(~np.isin(self.words, words))
        return WordContexts(self.words[left], take_rows(self.means, left))

    def widened(self, n_features: int) -> WordContexts:
        """With more columns, of which nothing is known."""
        return WordContexts(self.words, self.means._replace(shape=(len(self.words), n_features)))

    def to_arrays(self) -> dict[str, Array]:
        """The arrays to store."""
        return {"words": self.words, **{f"contexts.{name}": getattr(self.means, name) for name in CSR_ARRAYS}}

    @classmethod
    def from_state(cls, state: store.State, n_features: int) -> WordContexts:
        """From what :meth:`to_arrays` gave, verified."""
        words = store.need_rising(state, "words", 0, n_features - 1, np.int32)
        return cls(words, store.need_csr(state, "contexts", (len(words), n_features)))


def row_means(X: sp.csr_matrix, Y: sp.csr_matrix, n_jobs: int | None = 1) -> sp.csr_matrix:
    """The mean row of each label, at length 1 times the logarithm of 1 + its number of rows; of shape (L, d)."""
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    means = pifa(X, Y, max_features_per_label=PER_LABEL, n_jobs=n_jobs)
    return sp.csr_matrix(sp.diags_array(np.log1p(counts).astype(np.float32)) @ means)


FOLDS, FEWEST_RIGHT = 5, 20
JUDGED = 20  # labels of a row that the curve is fitted to
BLOCK_COSINES = 1 << 23  # computed at once
TIED = 1e-6  # where a vector stands in a product decides on the last bits of its cosine: so near to another it is equal
_Vectors = npt.NDArray[np.floating[Any]]
# Chosen by trials on eurlex57k and gutenberg, for recall of labels without rows.
CONTEXT = 0.5  # what predicted rows count for, where the label's own text counts for 1
NEAREST = 10  # texts of labels that say how similar a row is to such texts at all
FEWEST_CANDIDATES, CANDIDATES = 50, 4  # labels of a row that the curve is asked for: so many, or times k
LEAST = 1e-3  # similarities below it are all alike
LEAST_COSINE = 0.05  # as LEAST, of an encoder's vectors, whose cosines are seldom 0
BLOCK_ROWS = 4_096


def fitted_curve(
    features: Csr, labels: Csr, texts: Csr, held_out: Int32, weight: Float32 | None = None,
    n_jobs: int | None = 1, vectors: tuple[_Vectors, _Vectors] | None = None,
) -> Float64 | None:  # fmt: skip
    """The curve that makes probabilities of evidence. Fitted to labels that have rows as if they had none: a fifth of
    them at a time is left out of what the others' words say of rows, and so are the rows ``held_out``, for which they
    are judged."""
    # Shapes: features, labels (n, d); texts (L, d); weight (n,); vectors (L, dim); returns (4,)
    X, Y, Z = features.to_scipy(), labels.to_scipy(), texts.to_scipy()
    is_training = np.ones(X.shape[0], bool)
    is_training[held_out] = False
    of_labels, of_rows = (None, None) if vectors is None else vectors
    described = np.flatnonzero((np.bincount(Y.indices, minlength=Y.shape[1]) > 0) & has_text(texts, of_labels))
    if not len(held_out) or len(described) < FOLDS or not is_training.any():
        return None
    means = row_means(X[is_training], Y[is_training][:, described], n_jobs)
    fold = np.random.default_rng(0).integers(0, FOLDS, len(described))
    rows, truth, index = take_rows(features, held_out), Y[held_out], NeighborIndex.build(texts)
    parts = []
    for number in np.unique(fold).tolist():  # of few labels, a fifth may be none
        other_folds = fold != number
        contexts = WordContexts.of(means[other_folds], Z[described[other_folds]], n_jobs)
        scorer = TextScorer(texts, described[~other_folds].astype(np.int32), contexts, index, of_labels)
        row, label, evidence = scorer.evidence(rows, JUDGED, None, of_rows)
        right = np.asarray(truth[row, label]).ravel() > 0
        parts.append((evidence, right, np.ones(len(row)) if weight is None else weight[held_out][row]))
    evidence, right, weighed = (np.concatenate(each) for each in zip(*parts, strict=True))
    if np.count_nonzero(right & (weighed > 0)) < FEWEST_RIGHT:
        return None
    return _logistic(evidence, right, weighed)


def _logistic(evidence: Float64, right: Bool, weight: Array) -> Float64:
    """Logistic regression by Newton's method, with a ridge that keeps it finite where classes can be divided."""
    X = np.concatenate((np.ones((len(evidence), 1)), evidence), axis=1)
    beta = np.zeros(X.shape[1])
    ridge = np.diag(np.append(0, np.full(len(beta) - 1, 1e-6))) * weight.sum()
    share = np.clip((weight * right).sum() / weight.sum(), 1e-6, 1 - 1e-6)
    beta[0] = np.log(share / (1 - share))
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(X @ beta, -80, 80)))
        slope = X.T @ (weight * (right - p)) - ridge @ beta
        step = np.linalg.solve(X.T @ (X * (weight * p * (1 - p))[:, None]) + ridge + 1e-9 * np.eye(len(beta)), slope)
        largest = np.abs(step).max()
        beta += step * min(1, 2 / max(largest, 1e-12))  # a long step may overshoot
        if largest < 1e-8:
            break
    return beta


class Near(NamedTuple):
    """Candidates of rows."""

    row: Int64  # shape (m,): rising
    place: Int32  # shape (m,): of labels among those that are scored; rising in each row
    cosine: Float32  # shape (m,)
    # shape (n,): of each row, the mean of its highest cosines with any label, those below 0 counting as 0
    usual: Float64


def near_by_cosine(
    vectors: Float32, labels: Int32, rows: _Vectors, places: Int32, n: int, masks: list[Bool] | None
) -> Near:
    """The ``n`` of ``labels`` that are nearest to each row by the cosines of vectors, with those as near as the
    last, beside its candidates."""
    # Shapes: vectors (n_labels, dim); rows (n_rows, dim); places (n_rows, c)
    rows = np.asarray(rows, np.float32)
    n_block = max(1, BLOCK_COSINES // max(1, len(vectors)))
    blocks = [(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))]
    usual = np.zeros(len(rows))
    for first in range(0, len(rows), n_block):
        last = min(first + n_block, len(rows))
        products = rows[first:last] @ vectors.T
        n_usual = min(NEAREST, products.shape[1])
        highest = np.partition(products, products.shape[1] - n_usual, axis=1)[:, products.shape[1] - n_usual :]
        usual[first:last] = np.maximum(highest, 0).sum(axis=1, dtype=np.float64) / NEAREST
        of_labels = products[:, labels]
        may = None if masks is None else np.stack(masks if len(masks) == 1 else masks[first:last])
        wanted = _nearest(of_labels if may is None else np.where(may, of_labels, -np.inf), n)
        row, column = np.nonzero(places[first:last] >= 0)
        wanted[row, places[first:last][row, column]] = True
        row, place = np.nonzero(wanted)
        blocks.append((row + first, place.astype(np.int32), of_labels[row, place]))
    rows_of, places_of, cosines = (np.concatenate(part) for part in zip(*blocks, strict=True))
    return Near(rows_of, places_of, cosines, usual)


def _nearest(cosines: Float32, n: int) -> Bool:
    """Flags of the ``n`` highest of each row, and of those equal to the last of them; none at or below 0."""
    if n < cosines.shape[1]:
        least = np.partition(cosines, cosines.shape[1] - n, axis=1)[:, cosines.shape[1] - n, None]
        return np.asarray((cosines >= least - np.float32(TIED)) & (cosines > 0))
    return cosines > 0


def n_evidence(with_vectors: bool) -> int:
    """How many numbers speak for a label."""
    return 5 if with_vectors else 3


def has_text(texts: Csr, vectors: _Vectors | None) -> Bool:
    """Which labels have a text with a known word, or a vector."""
    described = np.diff(texts.indptr) > 0
    return np.asarray(described if vectors is None else described | vectors.any(axis=1))


class TextScorer:
    """How well some labels fit rows, by the labels' texts."""

    def __init__(
        self, texts: Csr, labels: Int32, contexts: WordContexts, index: NeighborIndex | None = None,
        vectors: _Vectors | None = None,  # shape (n_labels, dim): an encoder's vectors of all texts, of length 1
    ) -> None:  # fmt: skip
        # Shape: texts (n_labels, d)
        self.labels = labels  # the labels that are scored, rising
        self._every = NeighborIndex.build(texts) if index is None else index
        self._own = take_rows(texts, labels).unit_rows()
        unit = self._own.to_scipy()
        mixed = (unit + np.float32(CONTEXT) * contexts.predicted(unit)) / np.float32(1 + CONTEXT)  # of length 1 at most
        mixed.sort_indices()
        self._both = Csr.of(sp.csr_matrix(mixed, dtype=np.float32))
        self._similar = NeighborIndex.build(self._both, scaled=False)
        self._vectors = None if vectors is None else np.ascontiguousarray(vectors, np.float32)

    def evidence(
        self, rows: Csr, n_candidates: int, allowed: LabelFilter | None = None, vectors: _Vectors | None = None
    ) -> tuple[Int64, Int32, Float64]:
        """What speaks for the ``n_candidates`` most similar labels of each row. With ``vectors``, the encoder's of the
        rows, of shape (n, dim), as many labels of the highest cosines are candidates besides."""
        # Returns row (m,), label (m,), evidence (m, 3)
        n = min(n_candidates, len(self.labels))
        places, similar = self._candidates(rows, n, allowed)
        row, column = np.nonzero(places >= 0)
        place, similarity, log_cosines = places[row, column], similar[row, column].astype(np.float64), []
        if self._vectors is not None:
            assert vectors is not None
            masks = self._masks(rows.shape[0], allowed)
            near = near_by_cosine(self._vectors, self.labels, vectors, places, n, masks)
            similarity = self._similarities(rows, near.row, near.place, row * len(self.labels) + place, similarity)
            row, place = near.row, near.place
            log_cosines = [np.log(np.maximum(each, LEAST_COSINE)) for each in (near.cosine, near.usual[row])]
        _, nearest = self._every.nearest(rows, NEAREST)
        usual = np.maximum(nearest, 0).mean(axis=1, dtype=np.float64)
        by_words = np.stack((similarity, usual[row], _shared(rows, row, self._own, place)), axis=1)
        return row, self.labels[place], np.column_stack((np.log(np.maximum(by_words, LEAST)), *log_cosines))

    def _masks(self, n_rows: int, allowed: LabelFilter | None) -> list[Bool] | None:
        """Which of the labels may be answered: one mask for all rows, or one a row."""
        if allowed is None:
            return None
        return [allowed.mask(row)[self.labels] for row in range(1 if allowed.rows is None else n_rows)]

    def _similarities(self, rows: Csr, row: Int64, place: Int32, known_pairs: Int64, similarity: Any) -> Float64:
        """The similarity of each pair, which is known for the pairs row · labels + place in ``known_pairs``."""
        order, pair = np.argsort(known_pairs), row * len(self.labels) + place
        position = np.searchsorted(known_pairs[order], pair)
        is_known, result = np.isin(pair, known_pairs), np.empty(len(pair), np.float64)
        result[is_known] = similarity[order][position[is_known]]
        unknown = np.flatnonzero(~is_known)
        result[unknown] = _shared(rows.unit_rows(), row[unknown], self._both, place[unknown], weighed=True)
        return result

    def _candidates(self, rows: Csr, n: int, allowed: LabelFilter | None) -> tuple[Int32, Float32]:
        """The most similar of the labels, by their places among these, of each row."""
        masks = self._masks(rows.shape[0], allowed)
        if masks is None or len(masks) == 1:
            return self._similar.nearest(rows, n, only=None if masks is None else masks[0])
        each = [self._similar.nearest(take_rows(rows, np.array([row])), n, only=mask) for row, mask in enumerate(masks)]
        return np.concatenate([labels for labels, _ in each]), np.concatenate([similar for _, similar in each])

    def cosine(self, vector: _Vectors, label: int) -> float:
        """The cosine of a row's vector with that of a label's text."""
        assert self._vectors is not None
        return float(np.asarray(vector, np.float32) @ self._vectors[label])

    def shared_features(self, row: Csr, label: int) -> Int32:
        """The features that a label's text and one row have in common, those that count most in the text first."""
        place = int(np.searchsorted(self.labels, label))
        text = take_rows(self._own, np.array([place]))
        is_shared = np.isin(text.indices, row.indices)
        return text.indices[is_shared][np.argsort(-text.data[is_shared], kind="stable")]

    def rank(
        self, rows: Csr, k: int, curve: Float64, allowed: LabelFilter | None = None, vectors: _Vectors | None = None
    ) -> TopK:
        """The ``k`` labels of highest probability for each row; fewer where fewer share anything with it."""
        n_rows, tops = rows.shape[0], []
        for first in range(0, n_rows, BLOCK_ROWS):  # the features of all rows' candidates would need too much memory
            span = np.arange(first, min(first + BLOCK_ROWS, n_rows))
            some, labels, near = rows, allowed, vectors
            if n_rows > BLOCK_ROWS:
                some, labels = take_rows(rows, span), None if allowed is None else allowed.of_rows(span)
                near = None if vectors is None else vectors[span]
            row, label, evidence = self.evidence(some, max(CANDIDATES * k, FEWEST_CANDIDATES), labels, near)
            tops.append(best_of_pairs(row, label, probabilities(curve, evidence), len(span), k))
        return rows_of(tops, k)


def probabilities(curve: Float64, evidence: Float64) -> Float32:
    """What a curve makes of evidence."""
    total = np.full(len(evidence), curve[0])
    for slope, values in zip(curve[1:], evidence.T, strict=True):  # a product's last bits depend on its rows' number
        total += slope * values
    return np.asarray((1 / (1 + np.exp(-np.clip(total, -80, 80)))).astype(np.float32))


def joined(first: TopK, second: TopK, k: int) -> TopK:
    """The ``k`` best of two rankings of different labels, lower labels first among equals."""
    labels = np.concatenate((first.labels, second.labels), axis=1)
    scores = np.concatenate((first.scores, second.scores), axis=1)
    order = np.lexsort((labels, -scores), axis=1)[:, :k]
    return TopK(np.take_along_axis(labels, order, axis=1), np.take_along_axis(scores, order, axis=1))


def _shared(rows: Csr, row: Int64, of: Csr, place: Int32, weighed: bool = False) -> Float64:
    """The sum of what ``of[place]`` has of the features of the row beside it, times the row's values if ``weighed``."""
    if not rows.nnz or not len(row):
        return np.zeros(len(row))
    pair = np.repeat(np.arange(len(row)), np.diff(of.indptr)[place])
    values_of = take_rows(of, place)
    width = np.int64(rows.shape[1])
    has = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)) * width + rows.indices
    wanted = row[pair] * width + values_of.indices
    position = np.minimum(np.searchsorted(has, wanted), len(has) - 1)
    values = values_of.data * rows.data[position] if weighed else values_of.data
    shared = np.where(has[position] == wanted, values, np.float32(0))
    return np.asarray(np.bincount(pair, shared, minlength=len(row)), np.float64)
