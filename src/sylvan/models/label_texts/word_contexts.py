"""What rows look like whose labels have a word in their texts: a sparse map from words of labels to words of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import store
from sylvan.arrays.canonical import Csr, take_rows
from sylvan.indexing import pifa

_Ids = npt.NDArray[np.int32]

PER_LABEL, PER_WORD, PER_TEXT = 256, 32, 300  # largest values kept of a label's rows, of a word and of a prediction
BLOCK_PRODUCTS = 1 << 24


@dataclass(frozen=True, eq=False)
class WordContexts:
    """What rows look like whose labels have a word in their texts."""

    words: _Ids  # shape (w,): features, rising
    # shape (w, d): of each word, the weighted mean of its labels' rows, at length 1 before all but its largest values
    # are dropped
    means: Csr

    @classmethod
    def of(cls, label_rows: sp.csr_matrix, texts: sp.csr_matrix) -> WordContexts:
        """From :func:`row_means` of some labels and the features of their texts, both of shape (m, d)."""
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
        return cls(words, sorted_csr(sp.vstack(parts, format="csr")))

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
        """From what :meth:`to_arrays` gave, verified."""
        words = store.need_rising(state, "words", 0, n_features - 1, np.int32)
        return cls(words, store.need_csr(state, "contexts", (len(words), n_features)))


def row_means(X: sp.csr_matrix, Y: sp.csr_matrix, n_jobs: int | None = 1) -> sp.csr_matrix:
    """The mean row of each label, at length 1 times the logarithm of 1 + its number of rows; of shape (L, d)."""
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    means = pifa(X, Y, max_features_per_label=PER_LABEL, n_jobs=n_jobs)
    return sp.csr_matrix(sp.diags_array(np.log1p(counts).astype(np.float32)) @ means)


def sorted_csr(matrix: sp.csr_matrix) -> Csr:
    """With sorted columns, in single precision."""
    matrix.sort_indices()
    return Csr.of(sp.csr_matrix(matrix, dtype=np.float32))


def _unit(matrix: Any) -> sp.csr_matrix:
    """Rows at length 1."""
    return sorted_csr(sp.csr_matrix(matrix)).unit_rows().to_scipy()


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
