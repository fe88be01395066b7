"""Labels by vote: what rows' neighbours have, weighed by how similar they are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sylvan import kernels, store
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK
from sylvan.arrays.types import Array, Bool, Float32, Int32, Int64
from sylvan.arrays.validate import Csr
from sylvan.matching.neighbors import Nearest
from sylvan.parallel import map_parallel, split_ranges

ROWS = 1024  # ballots that a thread takes at a time


@dataclass(frozen=True)
class Voted(TopK):
    """Labels by vote, and the neighbours who voted."""

    # shape (n, n_neighbors): the rows nearest to each, nearest first, and their similarities; -1 and -inf where there
    # are no more
    nearest: Nearest

    @classmethod
    def of(cls, top: TopK, nearest: Nearest) -> Voted:
        """Labels and scores, by these neighbours."""
        return cls(top.labels, top.scores, nearest)

    def of_rows(self, rows: slice | Array) -> Voted:
        numbers, similarities = self.nearest
        return Voted(self.labels[rows], self.scores[rows], (numbers[rows], similarities[rows]))


@dataclass(frozen=True, eq=False)
class LabelRows:
    """The labels of the rows that vote."""

    offsets: Int64  # shape (n_rows + 1,)
    labels: Int32  # the labels of each row
    n_labels: int
    # share in (0, 1] of the row's vote that each label gets; None where all get the whole
    relevance: Float32 | None = None
    # shape (n_rows,), or None: factor of each row's vote; None where all count alike
    row_weights: Float32 | None = None

    @classmethod
    def build(cls, labels: Csr, row_weights: Float32 | None) -> LabelRows:
        """The labels of a matrix; relevances are taken beside the largest of all."""
        same = bool((labels.data == labels.data[:1]).all())
        relevance = None if same else (labels.data / labels.data.max()).astype(np.float32)
        return cls(labels.indptr, labels.indices, labels.shape[1], relevance, row_weights)

    def vote(
        self, nearest: Nearest, power: float, k: int, *, labels: LabelFilter | None = None, n_jobs: int = 1
    ) -> TopK:
        """The ``k`` labels of most votes for each list of neighbours, best first, lower label first among equals. A
        neighbour's vote weighs its similarity to the power of ``power``; a label's score in [0, 1] is the share of all
        the weight that voted for it. Labels without a vote aren't named, nor those that ``labels`` leaves closed; the
        shares are the same with and without."""
        rows, similarities = nearest
        shape = (rows.shape[0], k)
        best, scores = np.empty(shape, np.int32), np.empty(shape, np.float32)
        listed = None if labels is None else labels.to_kernel()

        def count(part: tuple[int, int]) -> None:
            kernels.vote(
                self.offsets, self.labels, self.relevance, self.row_weights, self.n_labels, rows, similarities,
                power, *part, best, scores, listed,
            )  # fmt: skip

        map_parallel(count, split_ranges(shape[0], ROWS), n_jobs)
        return TopK(best, scores)

    def having(self, label: int) -> Bool:
        """Which rows have a label."""
        flags = np.zeros(len(self.offsets) - 1, np.bool_)
        flags[np.searchsorted(self.offsets, np.flatnonzero(self.labels == label), side="right") - 1] = True
        return flags

    def without(self, labels: Int32) -> LabelRows:
        """The rows without some of their labels, for which nobody votes any more."""
        left = self.to_csr().where(~np.isin(self.labels, labels))
        relevance = None if self.relevance is None else left.data
        return replace(self, offsets=left.indptr, labels=left.indices, relevance=relevance)

    def to_csr(self) -> Csr:
        """The labels as a matrix, with relevances beside the largest of all."""
        data = np.ones(len(self.labels), np.float32) if self.relevance is None else self.relevance
        return Csr(self.offsets, self.labels, data, (len(self.offsets) - 1, self.n_labels))

    def to_arrays(self) -> dict[str, Array]:
        """The arrays to be saved, by name."""
        each = self.offsets, self.labels, self.relevance, self.row_weights
        names = ("label_offsets", "labels", "relevance", "row_weights")
        return {name: array for name, array in zip(names, each, strict=True) if array is not None}

    @classmethod
    def from_state(cls, state: store.State, n_rows: int, n_labels: int) -> LabelRows:
        """From arrays that :meth:`to_arrays` gave, verified."""
        labels = store.need_range(state, "labels", 0, n_labels - 1, np.int32, (None,))
        offsets = store.need_offsets(state, "label_offsets", total=len(labels), length=n_rows + 1)
        relevance = row_weights = None
        if "relevance" in state.arrays:
            relevance = store.need_range(state, "relevance", 0, 1, np.float32, (len(labels),))
        if "row_weights" in state.arrays:
            store.need_finite(state, "row_weights")
            row_weights = store.need_range(state, "row_weights", 0, np.inf, np.float32, (n_rows,))
        return cls(offsets, labels, n_labels, relevance, row_weights)
