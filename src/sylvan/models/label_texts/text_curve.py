"""The curve that makes probabilities of what speaks for labels by their texts, learned from labels that have rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.arrays.canonical import Csr, take_rows
from sylvan.matching.neighbors import NeighborIndex
from sylvan.models.label_texts.text_evidence import TextScorer, has_text
from sylvan.models.label_texts.word_contexts import WordContexts, row_means

_Ids = npt.NDArray[np.int32]
_Floats = npt.NDArray[np.float64]
_Vectors = npt.NDArray[np.floating[Any]]

FOLDS, FEWEST_RIGHT = 5, 20
JUDGED = 20  # labels of a row that the curve is fitted to


def fitted_curve(
    features: Csr, labels: Csr, texts: Csr, held_out: _Ids, weight: npt.NDArray[np.float32] | None = None,
    n_jobs: int | None = 1, vectors: tuple[_Vectors, _Vectors] | None = None,
) -> _Floats | None:  # fmt: skip
    """The curve that makes probabilities of evidence. Fitted to labels that have rows as if they had none: a fifth of
    them at a time is left out of what the others' words say of rows, and so are the rows ``held_out``, for which they
    are judged."""
    # Shapes: features, labels (n, d); texts (L, d); weight (n,); vectors (L, dim); returns (4,)
    X, Y, Z = features.to_scipy(), labels.to_scipy(), texts.to_scipy()
    rest = np.ones(X.shape[0], bool)
    rest[held_out] = False
    of_labels, of_rows = (None, None) if vectors is None else vectors
    described = np.flatnonzero((np.bincount(Y.indices, minlength=Y.shape[1]) > 0) & has_text(texts, of_labels))
    if not len(held_out) or len(described) < FOLDS or not rest.any():
        return None
    means = row_means(X[rest], Y[rest][:, described], n_jobs)
    fold = np.random.default_rng(0).integers(0, FOLDS, len(described))
    rows, truth, index = take_rows(features, held_out), Y[held_out], NeighborIndex.build(texts)
    every = []
    for number in np.unique(fold).tolist():  # of few labels, a fifth may be none
        others = fold != number
        contexts = WordContexts.of(means[others], Z[described[others]])
        scorer = TextScorer(texts, described[~others].astype(np.int32), contexts, index, of_labels)
        row, label, evidence = scorer.evidence(rows, JUDGED, None, of_rows)
        right = np.asarray(truth[row, label]).ravel() > 0
        every.append((evidence, right, np.ones(len(row)) if weight is None else weight[held_out][row]))
    evidence, right, weighed = (np.concatenate(each) for each in zip(*every, strict=True))
    if np.count_nonzero(right & (weighed > 0)) < FEWEST_RIGHT:
        return None
    return _logistic(evidence, right, weighed)


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
