"""How well labels fit rows by the labels' own texts, for labels that no row has taught a model yet.

Three things speak for a label that has no row: the words that its text shares with the row; the words of rows whose
labels have such words in their texts, which is a sparse map from words of labels to words of rows; and how much of the
label's text the row holds. A logistic curve, fitted to labels whose rows were left out, makes a probability of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import store
from sylvan.canonical import Csr, take_rows
from sylvan.indexing import pifa
from sylvan.label_filter import LabelFilter
from sylvan.matching.neighbors import NeighborIndex
from sylvan.topk import TopK

__all__ = ["TextScorer", "WordContexts", "fitted_curve", "joined", "row_means"]

_Ids = npt.NDArray[np.int32]
_Floats = npt.NDArray[np.float64]

# Chosen by the figures of benchmarks/linear/label_texts.py, which twice or half of each changes by less than a point.
CONTEXT = 0.5  # what predicted rows count for, where the label's own text counts for 1
PER_LABEL, PER_WORD, PER_TEXT = 256, 32, 300  # largest values kept of a label's rows, of a word and of a prediction
NEAREST = 10  # texts of labels that say how similar a row is to such texts at all
FEWEST_CANDIDATES, CANDIDATES = 50, 4  # labels of a row that the curve is asked for: so many, or times k
LEAST = 1e-3  # similarities below it are all alike
FOLDS, FEWEST_RIGHT = 5, 20
BLOCK_ROWS, BLOCK_PRODUCTS = 4_096, 1 << 24


@dataclass(frozen=True, eq=False)
class WordContexts:
    """What rows look like whose labels have a word in their texts.

    Attributes
    ----------
    words : ndarray of int32, shape (w,)
        Features, rising.
    means : Csr of shape (w, d)
        Of each word, the weighted mean of its labels' rows, at length 1 before all but its largest values are dropped.
    """

    words: _Ids
    means: Csr

    @classmethod
    def of(cls, label_rows: sp.csr_matrix, texts: sp.csr_matrix) -> WordContexts:
        """From :func:`row_means` of some labels and the features of their texts, both of shape (m, d).

        Examples
        --------
        >>> import scipy.sparse as sp
        >>> from sylvan.ranking.text_evidence import WordContexts
        >>> rows, texts = sp.csr_matrix([[0.0, 3, 4], [5, 0, 0]]), sp.csr_matrix([[0.0, 1, 0], [0, 0, 1]])
        >>> contexts = WordContexts.of(rows, texts)
        >>> contexts.words.tolist(), contexts.means.to_scipy().toarray().astype(float).round(1).tolist()
        ([1, 2], [[0.0, 0.6, 0.8], [1.0, 0.0, 0.0]])
        """
        by_word = texts.T.tocsr()
        words = np.flatnonzero(np.diff(by_word.indptr)).astype(np.int32)
        by_word = by_word[words]
        of_entry = np.diff(label_rows.indptr)[by_word.indices]
        work = np.concatenate(([0], np.cumsum(of_entry)))[by_word.indptr]
        cuts = np.searchsorted(work, np.arange(BLOCK_PRODUCTS, int(work[-1]), BLOCK_PRODUCTS))
        edges = np.unique(np.concatenate(([0], cuts, [len(words)])))
        parts = [Csr.empty(0, texts.shape[1]).to_scipy()]
        for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            parts.append(_largest(_unit(by_word[first:last] @ label_rows), PER_WORD))
        return cls(words, _csr(sp.vstack(parts, format="csr")))

    @classmethod
    def none(cls, n_features: int) -> WordContexts:
        """Where nothing is known of any word."""
        return cls(np.zeros(0, np.int32), Csr.empty(0, n_features))

    def predicted(self, texts: sp.csr_matrix) -> sp.csr_matrix:
        """What rows of labels with these texts, of shape (n, d), would look like; rows of length 1, or empty."""
        place = np.full(texts.shape[1], -1, np.int32)
        place[self.words] = np.arange(len(self.words), dtype=np.int32)
        known = place[texts.indices] >= 0
        indptr = np.concatenate(([0], np.cumsum(known)))[texts.indptr]
        by_word = (texts.data[known], place[texts.indices[known]], indptr)
        words = sp.csr_matrix(by_word, shape=(texts.shape[0], len(self.words)))
        return _unit(_largest(sp.csr_matrix(words @ self.means.to_scipy()), PER_TEXT))

    def without(self, words: npt.NDArray[Any]) -> WordContexts:
        """Without what is known of some words."""
        kept = np.flatnonzero(~np.isin(self.words, words))
        return WordContexts(self.words[kept], take_rows(self.means, kept))

    def widened(self, n_features: int) -> WordContexts:
        """With more columns, of which nothing is known."""
        return WordContexts(self.words, self.means._replace(shape=(len(self.words), n_features)))

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays to store."""
        parts = {f"contexts.{name}": getattr(self.means, name) for name in ("indptr", "indices", "data")}
        return {"words": self.words, **parts}

    @classmethod
    def from_state(cls, state: store.State, n_features: int) -> WordContexts:
        """From what :meth:`to_arrays` gave, verified.

        Raises
        ------
        ModelError
        """
        words = store.need_rising(state, "words", 0, n_features - 1, np.int32)
        return cls(words, store.need_csr(state, "contexts", (len(words), n_features)))


def row_means(X: sp.csr_matrix, Y: sp.csr_matrix, n_jobs: int | None = 1) -> sp.csr_matrix:
    """The mean row of each label, at length 1 times the logarithm of 1 + its number of rows; of shape (L, d)."""
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    means = pifa(X, Y, max_features_per_label=PER_LABEL, n_jobs=n_jobs)
    return sp.csr_matrix(sp.diags_array(np.log1p(counts).astype(np.float32)) @ means)


class TextScorer:
    """How well some labels fit rows, by the labels' texts.

    Parameters
    ----------
    texts : Csr of shape (n_labels, d)
        The features of each label's text; empty where a label has none.
    labels : ndarray of int32
        The labels that are scored, rising.
    contexts : WordContexts
    index : NeighborIndex, optional
        Of all ``texts``.
    """

    def __init__(self, texts: Csr, labels: _Ids, contexts: WordContexts, index: NeighborIndex | None = None) -> None:
        self.labels = labels
        self._every = NeighborIndex.build(texts) if index is None else index
        self._own = take_rows(texts, labels).unit_rows()
        own = self._own.to_scipy()
        both = (own + np.float32(CONTEXT) * contexts.predicted(own)) / np.float32(1 + CONTEXT)  # of length 1 at most
        self._similar = NeighborIndex.build(_csr(both), scaled=False)

    def evidence(
        self, rows: Csr, n_candidates: int, allowed: LabelFilter | None = None
    ) -> tuple[npt.NDArray[np.int64], _Ids, _Floats]:
        """What speaks for the ``n_candidates`` most similar labels of each row.

        Returns
        -------
        row : ndarray of int64, shape (m,)
            Rising; labels that share nothing with a row aren't candidates.
        label : ndarray of int32, shape (m,)
        evidence : ndarray of float64, shape (m, 3)
            The logarithms of the label's similarity, of the row's similarity to texts of labels at all, and of the sum
            of the label's features that the row has.
        """
        places, similar = self._candidates(rows, min(n_candidates, len(self.labels)), allowed)
        row, at = np.nonzero(places >= 0)
        place = places[row, at]
        _, nearest = self._every.nearest(rows, NEAREST)
        usual = np.maximum(nearest, 0).mean(axis=1, dtype=np.float64)
        evidence = np.stack((similar[row, at], usual[row], self._shared(rows, row, place)), axis=1)
        return row, self.labels[place], np.log(np.maximum(evidence, LEAST))

    def _candidates(
        self, rows: Csr, n: int, allowed: LabelFilter | None
    ) -> tuple[_Ids, npt.NDArray[np.float32]]:
        """The most similar of the labels, by their places among these, of each row."""
        if allowed is None or allowed.rows is None:
            only = None if allowed is None else allowed.mask(0)[self.labels]
            return self._similar.nearest(rows, n, only=only)
        each = [
            self._similar.nearest(take_rows(rows, np.array([row])), n, only=allowed.mask(row)[self.labels])
            for row in range(rows.shape[0])
        ]
        return np.concatenate([found for found, _ in each]), np.concatenate([similar for _, similar in each])

    def _shared(self, rows: Csr, row: npt.NDArray[np.int64], place: _Ids) -> _Floats:
        """The sum of each label's features that the row beside it has."""
        if not rows.nnz:
            return np.zeros(len(row))
        lengths = np.diff(self._own.indptr)[place]
        pair = np.repeat(np.arange(len(row)), lengths)
        own = take_rows(self._own, place)
        width = np.int64(rows.shape[1])
        has = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)) * width + rows.indices
        wanted = row[pair] * width + own.indices
        at = np.minimum(np.searchsorted(has, wanted), len(has) - 1)
        shared = np.where(has[at] == wanted, own.data, np.float32(0))
        result: _Floats = np.bincount(pair, shared, minlength=len(row)).astype(np.float64)
        return result

    def shared_features(self, row: Csr, label: int) -> _Ids:
        """The features that a label's text and one row have in common, those that count most in the text first."""
        at = int(np.searchsorted(self.labels, label))
        text = take_rows(self._own, np.array([at]))
        both = np.isin(text.indices, row.indices)
        return text.indices[both][np.argsort(-text.data[both], kind="stable")]

    def rank(self, rows: Csr, k: int, curve: _Floats, allowed: LabelFilter | None = None) -> TopK:
        """The ``k`` labels of highest probability for each row; fewer where fewer share anything with it."""
        n_rows = rows.shape[0]
        if n_rows > BLOCK_ROWS:  # the features of all candidates of all rows would be more than anybody has room for
            spans = [np.arange(first, min(first + BLOCK_ROWS, n_rows)) for first in range(0, n_rows, BLOCK_ROWS)]
            tops = [
                self.rank(take_rows(rows, span), k, curve, None if allowed is None else allowed.of_rows(span))
                for span in spans
            ]
            return TopK(*(np.concatenate([getattr(top, name) for top in tops]) for name in ("labels", "scores")))
        row, label, evidence = self.evidence(rows, max(CANDIDATES * k, FEWEST_CANDIDATES), allowed)
        scores = probabilities(curve, evidence)
        order = np.lexsort((label, -scores, row))
        row, label, scores = row[order], label[order], scores[order]
        counts = np.bincount(row, minlength=rows.shape[0])
        place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        top = TopK(np.full((rows.shape[0], k), -1, np.int32), np.full((rows.shape[0], k), -np.inf, np.float32))
        kept = place < k
        top.labels[row[kept], place[kept]], top.scores[row[kept], place[kept]] = label[kept], scores[kept]
        return top


def fitted_curve(
    features: Csr, labels: Csr, texts: Csr, held_out: _Ids, weight: npt.NDArray[np.float32] | None = None,
    n_jobs: int | None = 1,
) -> _Floats | None:  # fmt: skip
    """The curve that makes probabilities of evidence.

    Fitted to labels that have rows as if they had none: a fifth of them at a time is left out of what the others'
    words say of rows, and so are the rows ``held_out``, for which they are judged.

    Parameters
    ----------
    features, labels : Csr of shape (n, d) and (n, L)
    texts : Csr of shape (L, d)
    held_out : ndarray of int32
        Rows, rising.
    weight : ndarray of float32, shape (n,), optional
    n_jobs : int, optional

    Returns
    -------
    ndarray of float64, shape (4,), or None
        The intercept and three slopes; None where too few labels of these rows have texts to learn it from.
    """
    X, Y, Z = features.to_scipy(), labels.to_scipy(), texts.to_scipy()
    rest = np.ones(X.shape[0], bool)
    rest[held_out] = False
    described = np.flatnonzero((np.bincount(Y.indices, minlength=Y.shape[1]) > 0) & (np.diff(Z.indptr) > 0))
    if not len(held_out) or len(described) < FOLDS or not rest.any():
        return None
    means = row_means(X[rest], Y[rest][:, described], n_jobs)
    fold = np.random.default_rng(0).integers(0, FOLDS, len(described))
    rows, truth, index = take_rows(features, held_out), Y[held_out], NeighborIndex.build(texts)
    every = []
    for number in np.unique(fold).tolist():  # of few labels, a fifth may be none
        others = fold != number
        contexts = WordContexts.of(means[others], Z[described[others]])
        scorer = TextScorer(texts, described[~others].astype(np.int32), contexts, index)
        row, label, evidence = scorer.evidence(rows, 20)
        right = np.asarray(truth[row, label]).ravel() > 0
        every.append((evidence, right, np.ones(len(row)) if weight is None else weight[held_out][row]))
    evidence, right, weighed = (np.concatenate(each) for each in zip(*every, strict=True))
    if np.count_nonzero(right & (weighed > 0)) < FEWEST_RIGHT:
        return None
    return _logistic(evidence, right, weighed)


def probabilities(curve: _Floats, evidence: _Floats) -> npt.NDArray[np.float32]:
    """What a curve makes of evidence."""
    result: npt.NDArray[np.float32] = (1 / (1 + np.exp(-np.clip(curve[0] + evidence @ curve[1:], -80, 80)))).astype(
        np.float32
    )
    return result


def joined(first: TopK, second: TopK, k: int) -> TopK:
    """The ``k`` best of two rankings of different labels, lower labels first among equals."""
    labels = np.concatenate((first.labels, second.labels), axis=1)
    scores = np.concatenate((first.scores, second.scores), axis=1)
    order = np.lexsort((labels, -scores), axis=1)[:, :k]
    return TopK(np.take_along_axis(labels, order, axis=1), np.take_along_axis(scores, order, axis=1))


def _logistic(evidence: _Floats, right: npt.NDArray[np.bool_], weight: npt.NDArray[Any]) -> _Floats:
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


def _csr(matrix: sp.csr_matrix) -> Csr:
    matrix.sort_indices()
    return Csr.of(sp.csr_matrix(matrix, dtype=np.float32))


def _unit(matrix: Any) -> sp.csr_matrix:
    """Rows at length 1."""
    return _csr(sp.csr_matrix(matrix)).unit_rows().to_scipy()


def _largest(matrix: sp.csr_matrix, n: int) -> sp.csr_matrix:
    """The ``n`` largest values of each row, none below 0, of equal ones those of the lower columns."""
    lengths = np.diff(matrix.indptr)
    if lengths.max(initial=0) <= n:
        return matrix
    row = np.repeat(np.arange(matrix.shape[0], dtype=np.uint64), lengths)
    falling = np.uint64(0xFFFFFFFF) - matrix.data.view(np.uint32)  # bits of floats from 0 on rise with their values
    keys = row << np.uint64(32) | falling
    last = matrix.indptr[:-1] + np.minimum(lengths, n) - 1  # where the last one that stays is, in order
    bound = np.repeat(np.sort(keys)[np.maximum(last, 0)], lengths)
    equal, kept = keys == bound, keys < bound
    room = np.repeat(np.minimum(lengths, n) - np.add.reduceat(np.append(kept, False), matrix.indptr[:-1]), lengths)
    nth = np.cumsum(equal) - np.repeat(np.append(0, np.cumsum(equal))[matrix.indptr[:-1]], lengths)
    kept |= equal & (nth <= room)
    indptr = np.concatenate(([0], np.cumsum(kept)))[matrix.indptr]
    return sp.csr_matrix((matrix.data[kept], matrix.indices[kept], indptr), shape=matrix.shape)
