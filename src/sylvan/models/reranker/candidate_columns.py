"""What is known of the labels that several models propose: the columns by which a reranker orders them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import kernels, store
from sylvan.arrays.canonical import Csr
from sylvan.arrays.topk import TopK
from sylvan.matching.neighbors import Nearest
from sylvan.ranking.votes import LabelRows

OF_NEIGHBORS = ("similarity", "place", "votes")
_Ids = npt.NDArray[np.int32]
OF_MEMBER = ("score", "place", "share")  # a member's columns, each
OF_ALL = (
    "mean", "mean_share", "mean_best", "mean_sum", "place", "members", "highest", "label_rows", "first_given",
    "given_first", "together", "together_most",
)  # fmt: skip
_LEADERS = 10  # of a row's candidates, with which each candidate's rows are compared
_MOST_TOGETHER = 100  # labels that are stored as those which occur with a label
_BLOCK = 1_000_000  # label pairs that are counted at a time
_Floats = npt.NDArray[np.float32]


def neighbor_columns(labels: _Ids, nearest: Nearest, voters: LabelRows) -> _Floats:
    """Of every candidate, the nearest of the row's neighbours that has it, and how many have it."""
    # Shapes: labels (n, k); nearest (n, m); returns (n, k, 3)
    n, k = labels.shape
    result = np.zeros((n * k, len(OF_NEIGHBORS)), np.float32)
    rows, similarities = np.ascontiguousarray(nearest[0]), np.ascontiguousarray(nearest[1])
    kernels.neighbor_columns(np.ascontiguousarray(labels), rows, similarities, voters.offsets, voters.labels, result)
    return result.reshape(n, k, len(OF_NEIGHBORS))


@dataclass(frozen=True, eq=False)
class LabelFacts:
    """What training rows say of labels by themselves: how often each occurs, and which occur together."""

    n_rows: int
    counts: npt.NDArray[np.int64]  # shape (n_labels,): rows that have each label
    # shape (n_labels, n_labels): rows that have both labels, of the 100 labels that are most often with each
    together: Csr

    @classmethod
    def none(cls, n_labels: int) -> LabelFacts:
        """Of no rows."""
        return cls(0, np.zeros(n_labels, np.int64), Csr.empty(n_labels, n_labels))

    @classmethod
    def of(cls, truth: Csr) -> LabelFacts:
        """From the labels of rows, a matrix of shape (n, n_labels)."""
        n_labels = truth.shape[1]
        counts = np.bincount(truth.indices, minlength=n_labels).astype(np.int64)
        ones = sp.csr_matrix((np.ones(truth.nnz, np.float32), truth.indices, truth.indptr), shape=truth.shape)
        return cls(truth.shape[0], counts, _most_together(ones))

    def plus(self, truth: Csr) -> LabelFacts:
        """With those of other rows, which may have labels that are new."""
        n_labels = max(truth.shape[1], len(self.counts))
        other = LabelFacts.of(truth._replace(shape=(truth.shape[0], n_labels)))
        counts = other.counts.copy()
        counts[: len(self.counts)] += self.counts
        own = self.together
        wide = np.append(own.indptr, np.full(n_labels - own.shape[0], own.indptr[-1])).astype(own.indptr.dtype)
        grown = own._replace(indptr=wide, shape=(n_labels, n_labels))
        both = (grown.to_scipy() + other.together.to_scipy()).tocsr()
        return LabelFacts(self.n_rows + other.n_rows, counts, _greatest(both))

    def without(self, labels: npt.NDArray[np.int32]) -> LabelFacts:
        """Without some labels, whose ids stay."""
        counts = self.counts.copy()
        counts[labels] = 0
        gone = np.zeros(len(counts), bool)
        gone[labels] = True
        pairs = self.together.to_scipy().tocoo()
        left = ~(gone[pairs.row] | gone[pairs.col])
        together = sp.csr_matrix((pairs.data[left], (pairs.row[left], pairs.col[left])), shape=pairs.shape)
        return replace(self, counts=counts, together=_canonical(together))

    def moved(self, ids: npt.NDArray[np.int32], n_labels: int) -> LabelFacts:
        """The same of labels by other ids, among more labels."""
        counts = np.zeros(n_labels, np.int64)
        counts[ids] = self.counts
        pairs = self.together.to_scipy().tocoo()
        shape = (n_labels, n_labels)
        together = sp.csr_matrix((pairs.data, (ids[pairs.row], ids[pairs.col])), shape=shape)
        return LabelFacts(self.n_rows, counts, _canonical(together))

    def to_arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """The arrays by the names that they are stored under."""
        return {
            "facts.counts": self.counts, "facts.n_rows": np.array([self.n_rows], np.int64),
            "facts.indptr": self.together.indptr, "facts.indices": self.together.indices,
            "facts.data": self.together.data,
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: store.State, n_labels: int) -> LabelFacts:
        """From :meth:`to_arrays`' result, verified."""
        n_rows = int(store.need_range(state, "facts.n_rows", 0, 2**31, np.int64, (1,))[0])
        counts = store.need_range(state, "facts.counts", 0, n_rows, np.int64, (n_labels,))
        together = store.need_csr(state, "facts", (n_labels, n_labels))
        store.need_range(state, "facts.data", 0, max(n_rows, 1), np.float32)
        return cls(n_rows, counts, together)


def _canonical(matrix: sp.csr_matrix) -> Csr:
    matrix.sum_duplicates()
    return Csr.of(matrix.astype(np.float32))


def _most_together(rows: sp.csr_matrix) -> Csr:
    """Of each label, how many rows it shares with the labels that it shares most with; in blocks of labels."""
    columns = rows.T.tocsr()
    n_labels = rows.shape[1]
    per_row = np.diff(rows.indptr).astype(np.float64)
    work = np.cumsum(np.append(0.0, columns @ per_row))
    parts, first = [], 0
    while first < n_labels:
        last = max(first + 1, int(np.searchsorted(work, work[first] + _BLOCK, side="right")) - 1)
        block = (columns[first:last] @ rows).tocoo()
        apart = block.row + first != block.col
        kept = sp.csr_matrix((block.data[apart], (block.row[apart], block.col[apart])), shape=block.shape)
        parts.append(_greatest(kept).to_scipy())
        first = last
    return _canonical(sp.vstack(parts, "csr")) if parts else Csr.empty(n_labels, n_labels)


def _greatest(matrix: sp.csr_matrix) -> Csr:
    """The greatest entries of each row, of equals the first columns."""
    matrix.sort_indices()
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    order = np.lexsort((matrix.indices, -matrix.data, rows))
    places = np.arange(len(order)) - matrix.indptr[rows]  # the order keeps rows together
    chosen = order[places < _MOST_TOGETHER]
    entries = matrix.data[chosen], (rows[chosen], matrix.indices[chosen])
    return _canonical(sp.csr_matrix(entries, shape=matrix.shape))


def candidate_columns(candidates: TopK, tops: Sequence[TopK], facts: LabelFacts) -> _Floats:
    """Of every candidate, what the members say, how it stands among the others, and how often labels occur."""
    # Shape: candidates (n, k); returns (n, k, 3 * n_members + 12)
    n, k = candidates.labels.shape
    there = candidates.labels >= 0
    n_own = len(OF_MEMBER) * len(tops)
    result = np.zeros((n, k, n_own + len(OF_ALL)), np.float32)
    mean = np.where(there, candidates.scores, np.float32(0))
    best = mean[:, :1] if k else np.zeros((n, 1), np.float32)
    of_members, of_all = np.zeros((n * k, n_own + 2), np.float32), result[..., n_own:]
    bounds, proposed = np.cumsum([0, *(top.k for top in tops)]), np.ascontiguousarray(candidates.labels)
    labels = np.concatenate([proposed[:, :0], *(top.labels for top in tops)], axis=1)
    scores = np.concatenate([mean[:, :0], *(top.scores for top in tops)], axis=1)
    kernels.member_columns(proposed, labels, scores, bounds, of_members)
    together, pairs = np.zeros((n * k, 4), np.float32), facts.together
    kernels.together_columns(proposed, mean, pairs.indptr, pairs.indices, pairs.data, facts.counts, _LEADERS, together)
    result[..., :n_own] = of_members[:, :n_own].reshape(n, k, n_own)
    of_all[..., 0] = mean
    np.divide(mean, best, out=of_all[..., 1], where=best > 0)
    of_all[..., 2] = best
    of_all[..., 3] = mean.sum(axis=1, dtype=np.float64)[:, None]
    of_all[..., 4] = np.arange(k)
    of_all[..., 5:7] = of_members[:, n_own:].reshape(n, k, 2)
    of_all[..., 7] = np.log1p(facts.counts[np.maximum(candidates.labels, 0)])
    of_all[..., 8:] = together.reshape(n, k, 4)
    of_all[~there] = 0
    return result
