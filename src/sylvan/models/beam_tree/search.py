"""Ranking with a trained tree of classes: by beam, or by every class's score; scores become log-probabilities."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from sylvan.arrays.canonical import Csr
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK
from sylvan.arrays.validate import LARGEST_TRAINED
from sylvan.matching.class_beam import ClassWeights, all_scores, log_sums_of, rank_classes
from sylvan.models.irli.bucket_network import best_columns
from sylvan.parallel import map_parallel, split_ranges

_BLOCK_SCORES = 1 << 22  # that one thread has at once
_MOST_ROWS = 4096
Float32 = npt.NDArray[np.float32]


def rank_by_beam(
    weights: ClassWeights,
    X: Csr | Float32,
    k: int,
    beam: int,
    *,
    loss: str,
    bias: float,
    labels: LabelFilter | None = None,
    raw: bool = False,
    n_jobs: int = 1,
) -> TopK:
    """The ``k`` best classes of those below the beam's nodes, with the logarithms of their shares among these. The
    probabilities of a hierarchical softmax are taken as they are; with ``raw`` every score is, which is faster."""
    if weights.is_flat:
        return rank_exactly(weights, X, k, loss=loss, bias=bias, labels=labels, raw=raw, n_jobs=n_jobs)
    log_probabilities = loss == "hsm"
    sums = None if raw or log_probabilities else np.empty(X.shape[0], np.float32)
    search = partial(rank_classes, weights, bias=bias, log_probabilities=log_probabilities)
    if labels is None:
        top = search(X, k, beam, n_jobs, log_sums=sums, description="Ranking")
    else:
        tree = weights.tree
        reach, top = min(tree.n_leaves, beam * int(tree.cluster_sizes.max())), _empty(X.shape[0], k)

        def work(rows: tuple[int, int]) -> None:
            reached = search(_part(X, *rows), reach, beam, log_sums=None if sums is None else sums[slice(*rows)])
            _put(top, rows, reached.labels, reached.scores, labels)

        map_parallel(work, split_ranges(X.shape[0], _block_rows(reach)), n_jobs, description="Ranking")
    if sums is not None:
        np.subtract(top.scores, sums[:, None], out=top.scores)
    return top


def rank_exactly(
    weights: ClassWeights,
    X: Csr | Float32,
    k: int,
    *,
    loss: str,
    bias: float,
    labels: LabelFilter | None = None,
    raw: bool = False,
    n_jobs: int = 1,
) -> TopK:
    """The ``k`` best of all classes, with the logarithms of their probabilities."""
    n_classes, raw = weights.tree.n_labels, raw or loss == "hsm"
    top = _empty(X.shape[0], k)

    def work(rows: tuple[int, int]) -> None:
        scores = _every_score(weights, _part(X, *rows), bias, loss == "hsm")
        if not raw:
            scores -= log_sums_of(scores, scores.max(axis=1))[:, None]
        every = np.broadcast_to(np.arange(n_classes, dtype=np.int32), scores.shape)
        if labels is not None:
            scores[~_is_open(every, labels, rows[0])] = -np.inf
        columns, best = best_columns(scores, k)
        _put(top, rows, np.where(best > -np.inf, columns, -1), best, None)

    map_parallel(work, split_ranges(X.shape[0], _block_rows(n_classes)), n_jobs, description="Ranking")
    return top


def coverage_of(
    weights: ClassWeights, X: Csr | Float32, ids: npt.NDArray[np.int32], n_candidates: int, bias: float, n_jobs: int = 1
) -> float:
    """The share of rows whose class is among the candidates of training; an id of -1 never is; NaN without rows."""
    width = min(n_candidates, weights.n_classes)
    found = rank_by_beam(weights, X, width, width, loss="cane", bias=bias, raw=True, n_jobs=n_jobs).labels
    covered = ((found == ids[:, None]) & (found >= 0)).any(axis=1)
    return float(covered.mean()) if len(ids) else float("nan")


def within_bounds(rows: Csr) -> Csr:
    """Features no larger than can be learned from, larger ones are cut off: sums must stay numbers."""
    most = np.float32(LARGEST_TRAINED)
    if not rows.data.size or max(float(rows.data.max()), -float(rows.data.min())) <= most:
        return rows
    return rows._replace(data=np.clip(rows.data, -most, most))


def _every_score(weights: ClassWeights, X: Csr | Float32, bias: float, log_probabilities: bool) -> Float32:
    lone = isinstance(X, np.ndarray) and len(X) == 1
    if lone:  # a product of one row goes another way through BLAS, to other bits
        X = np.concatenate([X, np.zeros_like(X)])
    scores = all_scores(weights, X, bias, log_probabilities=log_probabilities)
    return scores[:1] if lone else scores


def _empty(n: int, k: int) -> TopK:
    return TopK(np.full((n, k), -1, np.int32), np.full((n, k), -np.inf, np.float32))


def _block_rows(width: int) -> int:
    """Rows ranked at once: by the model's size alone, so that threads change no bit."""
    return int(min(max(_BLOCK_SCORES // width, 16), _MOST_ROWS))


def _part(X: Csr | Float32, start: int, stop: int) -> Csr | Float32:
    if isinstance(X, np.ndarray):
        return X[start:stop]
    first, last = int(X.indptr[start]), int(X.indptr[stop])
    shape = (stop - start, X.shape[1])
    return Csr(X.indptr[start : stop + 1] - first, X.indices[first:last], X.data[first:last], shape)


def _put(
    top: TopK, rows: tuple[int, int], classes: npt.NDArray[np.int32], scores: Float32, labels: LabelFilter | None
) -> None:
    """The first k of a block's classes that are open, best first."""
    k = top.labels.shape[1]
    if labels is not None:
        closed = ~_is_open(classes, labels, rows[0])
        order = np.argsort(closed, axis=1, kind="stable")[:, :k]
        classes = np.take_along_axis(np.where(closed, np.int32(-1), classes), order, axis=1)
        scores = np.take_along_axis(scores, order, axis=1)
    part, width = slice(*rows), min(k, classes.shape[1])
    top.labels[part, :width] = classes[:, :width]
    top.scores[part, :width] = np.where(classes[:, :width] >= 0, scores[:, :width], np.float32(-np.inf))


def _is_open(classes: npt.NDArray[np.int32], labels: LabelFilter, first_row: int) -> npt.NDArray[np.bool_]:
    """Which classes of each row may be answered with, where the rows are those from ``first_row`` on."""
    listed = np.zeros(labels.n_labels, bool)
    listed[labels.shared] = True
    named = listed[np.maximum(classes, 0)]
    if labels.rows is not None:
        stop = first_row + len(classes)
        start, end = labels.rows.indptr[first_row], labels.rows.indptr[stop]
        of_row = np.repeat(np.arange(len(classes), dtype=np.int64), np.diff(labels.rows.indptr[first_row : stop + 1]))
        keys = of_row * labels.n_labels + labels.rows.indices[start:end]
        asked = np.arange(len(classes), dtype=np.int64)[:, None] * labels.n_labels + classes
        named = named | np.isin(asked, keys)
    return (named if labels.allows else ~named) & (classes >= 0)
