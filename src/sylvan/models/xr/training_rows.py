"""The rows that a model keeps to be updated: what they are, how each tree was solved with them, what they calibrate."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import kernels, store
from sylvan.arrays.canonical import Csr, take_rows
from sylvan.arrays.topk import TopK
from sylvan.arrays.types import Array, Bool, Float32, Int32, Int64
from sylvan.errors import ModelError
from sylvan.indexing import LabelTree
from sylvan.matching.negatives import layer_positives
from sylvan.parallel import split_ranges
from sylvan.ranking.calibrate import MOST_ROWS, Calibrator
from sylvan.ranking.solution import LayerSolution
from sylvan.ranking.tree_ranker import TreeRanker

SPARE = 1.25  # of a matrix that is copied, so much is allocated; the system gives memory when it is written
_MARKED = 1 << 14  # rows at a time
KIND = "training-rows"


class RowBuffer:
    """Arrays with spare capacity that hold the rows of a matrix, and how many rows are used. Matrices may share a
    buffer: rows that are used are never written again. When two matrices append to the same rows, the second is copied
    to a new buffer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._indptr, self._indices = np.zeros(0, np.int64), np.zeros(0, np.int32)
        self._data = np.zeros(0, np.float32)
        self._n_used = -1  # rows

    def __reduce__(self) -> tuple[type[RowBuffer], tuple[()]]:
        return RowBuffer, ()  # a copy of a matrix lies elsewhere

    def stacked(self, above: Csr, below: Csr) -> tuple[Csr, RowBuffer]:
        """The rows of ``above`` followed by those of ``below``, which has as many columns; and the buffer that holds
        them, which is this one if ``above`` is all that it holds and the new rows fit."""
        n_above, n_rows, nnz = above.shape[0], above.shape[0] + below.shape[0], above.nnz + below.nnz
        if n_above == n_rows:
            return above, self
        with self._lock:
            fits = self._n_used == n_above and above.data.base is self._data
            fits = fits and n_rows < len(self._indptr) and nnz <= len(self._data)
            if fits:  # from here on these rows are nobody else's
                self._n_used = n_rows
        buffer = self if fits else RowBuffer()
        if not fits:  # a copy, with spare capacity
            buffer._indptr, buffer._n_used = np.empty(int(SPARE * n_rows) + 1, np.int64), n_rows
            buffer._indices, buffer._data = np.empty(int(SPARE * nnz), np.int32), np.empty(int(SPARE * nnz), np.float32)
            buffer._indptr[: len(above.indptr)] = above.indptr
            buffer._indices[: above.nnz], buffer._data[: above.nnz] = above.indices, above.data
        buffer._indptr[n_above + 1 : n_rows + 1] = below.indptr[1:] + above.indptr[-1]
        buffer._indices[above.nnz : nnz], buffer._data[above.nnz : nnz] = below.indices, below.data
        arrays = buffer._indptr[: n_rows + 1], buffer._indices[:nnz], buffer._data[:nnz]
        return Csr(*arrays, (n_rows, above.shape[1])), buffer


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Answers to rows by models that hadn't learned them, which say what a score means."""

    ids: Int64  # shape (m,): of the rows, in the order in which they were asked for
    scores: Float32  # shape (m, k): in [0, 1], best first; -inf where there is no answer
    right: Bool  # shape (m, k)
    weight: Float32  # shape (m,)

    @classmethod
    def of(cls, ids: Int64, top: TopK, right: Bool, weight: Float32 | None) -> HeldOut:
        """From answers with scores in [0, 1]."""
        scores = np.where(top.labels >= 0, top.scores, np.float32(-np.inf)).astype(np.float32)
        return cls(ids, scores, right, np.ones(len(ids), np.float32) if weight is None else weight)

    def without(self, ids: Int64) -> HeldOut:
        """Without some rows."""
        left = ~np.isin(self.ids, ids)
        return HeldOut(self.ids[left], self.scores[left], self.right[left], self.weight[left])

    def followed_by(self, later: HeldOut) -> HeldOut:
        """With later answers, of which the last ones count: as many as a training holds out at most."""
        k, last = max(self.scores.shape[1], later.scores.shape[1]), slice(-MOST_ROWS, None)

        def joined(name: str, fill: Any) -> Array:
            parts = [getattr(part, name) for part in (self, later)]
            wide = [np.pad(part, ((0, 0), (0, k - part.shape[1])), constant_values=fill) for part in parts]
            return np.concatenate(wide)[last]

        ids, weight = np.concatenate((self.ids, later.ids)), np.concatenate((self.weight, later.weight))
        return HeldOut(ids[last], joined("scores", -np.inf), joined("right", False), weight[last])

    def calibrator(self, method: str) -> Calibrator | None:
        """What the answers make of scores; None where they are too few."""
        labels = np.where(np.isneginf(self.scores), np.int32(-1), np.int32(0))
        weight = None if (self.weight == 1).all() else self.weight
        return Calibrator.fit(method, TopK(labels, self.scores), self.right, weight)


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """The rows of a training."""

    features: Csr  # shape (n, d): as the rankers see them
    labels: Csr  # shape (n, n_labels)
    weight: Float32 | None  # shape (n,), or None
    # shape (n,): rising; what a row is called when it is to be forgotten. No id is given twice
    ids: Int64
    next_id: int  # that of the next row that comes
    length: float  # usual length of the rows of the first training, which costs, bias and pruning are meant for
    solutions: list[list[LayerSolution]]  # of each tree and layer
    held_out: HeldOut | None = None
    # shape (n,), or None: the squared length of each row, where an update has asked for it
    norms: Float32 | None = None
    buffer: RowBuffer = field(default_factory=RowBuffer)  # holds the features once an update has appended rows
    unread: str = ""  # the folder that arrays were loaded from which `verify` hasn't read yet

    def with_columns(self, n_features: int) -> TrainingRows:
        """With further columns, which no row has."""
        return replace(self, features=self.features._replace(shape=(self.features.shape[0], n_features)))

    def without_labels(self, labels: Int32, trees: Sequence[LabelTree], by_relevance: bool) -> TrainingRows:
        """When labels are removed: no row has them, and of ``trees`` the nodes that had rows by them are to be solved.
        ``by_relevance`` says whether the costs of a row's other labels depend on all that it has."""
        left = self.labels.where(~np.isin(self.labels.indices, labels))
        changed = np.diff(left.indptr) < np.diff(self.labels.indptr)
        other_costs = changed & (by_relevance or bool((self.labels.data != 1).any()))
        solutions = []
        for layers, tree in zip(self.solutions, trees, strict=True):
            new_tree, nodes = tree.without(labels)
            clusters = [np.ones(1, bool), *nodes[:-1]]
            before, after = layer_positives(tree, self.labels), layer_positives(new_tree, left)
            solutions.append([
                layer.without(nodes[t], clusters[t], new_tree.child_offsets[t])
                .with_other_rows(*_no_longer_positive(before[t], after[t], nodes[t]), other_costs)
                for t, layer in enumerate(layers)
            ])  # fmt: skip
        return replace(self, labels=left, solutions=solutions)

    def include(self, features: Csr) -> Bool:
        """Which rows of features, as the rankers see them, are among these; a row without any is never."""
        return np.isin(_marks(features), _marks(self.features)) & (np.diff(features.indptr) > 0)

    def repeated(self, since: int) -> int:
        """How many rows from the id ``since`` on have the features and the labels of a row before it."""
        marks = _marks(self.features) ^ (_marks(self.labels) * np.uint64(3))
        later = self.ids >= since
        return int((np.isin(marks, marks[~later]) & later & (np.diff(self.features.indptr) > 0)).sum())

    def taken(self, rows: npt.NDArray[np.integer[Any]]) -> tuple[Csr, Csr, Float32 | None]:
        """Features, labels and weights of some rows."""
        weight = None if self.weight is None else self.weight[rows]
        return take_rows(self.features, rows), take_rows(self.labels, rows), weight

    def to_state(self) -> store.State:
        """All of it as arrays."""
        arrays: dict[str, Array] = {"ids": self.ids}
        for name, matrix in (("features", self.features), ("labels", self.labels)):
            arrays |= {f"{name}.{part}": getattr(matrix, part) for part in ("indptr", "indices", "data")}
        if self.weight is not None:
            arrays["weight"] = self.weight
        for tree, layers in enumerate(self.solutions):
            for t, layer in enumerate(layers):
                arrays |= layer.to_arrays(f"tree{tree}.layer{t}")
        if self.held_out is not None:
            names = ("ids", "scores", "right", "weight")
            arrays |= {f"held_out.{name}": getattr(self.held_out, name) for name in names}
            arrays["held_out.right"] = self.held_out.right.astype(np.uint8)
        return store.State(KIND, 1, {}, {"next_id": self.next_id, "length": self.length}, arrays)

    @classmethod
    def from_state(
        cls, state: store.State, rankers: Sequence[TreeRanker], n_features: int, n_labels: int
    ) -> TrainingRows:
        """From :meth:`to_state`'s result; sizes are verified here, and what :meth:`verify` reads when it is needed."""
        store.need_kind(state, KIND)
        ids = store.need_array(state, "ids", np.int64, (None,))
        n = len(ids)
        features, labels = (
            _matrix(state, name, (n, width)) for name, width in (("features", n_features), ("labels", n_labels))
        )
        weight = store.need_array(state, "weight", np.float32, (n,)) if "weight" in state.arrays else None
        solutions: list[list[LayerSolution]] = [[] for _ in rankers]
        for number, ranker in enumerate(rankers):
            for t, offsets in enumerate(ranker.tree.child_offsets):
                solutions[number].append(LayerSolution.from_arrays(state, f"tree{number}.layer{t}", offsets))
        held_out = None
        if "held_out.ids" in state.arrays:
            held_ids = store.need_array(state, "held_out.ids", np.int64, (None,))
            scores = store.need_array(state, "held_out.scores", np.float32, (len(held_ids), None))
            right = store.need_array(state, "held_out.right", np.uint8, scores.shape)
            weights = store.need_array(state, "held_out.weight", np.float32, (len(held_ids),))
            held_out = HeldOut(held_ids, scores, right.astype(bool), weights)
        return cls(
            features, labels, weight, ids, store.need_int(state, "next_id", 0, 2**62),
            store.need_float(state, "length", 0), solutions, held_out,
            unread=state.where or "The model",
        )  # fmt: skip

    def verify(self) -> None:
        """Read what comes from files once, before anything is learned from it."""
        if not (where := self.unread):
            return

        def need(sound: Any, description: str) -> None:
            if not sound:
                raise ModelError(f"{where!r} is damaged: {description}.")

        n, ids = len(self.ids), self.ids
        rising = n == 0 or (ids[0] >= 0 and ids[-1] < self.next_id and (np.diff(ids) > 0).all())
        need(rising, f"the ids of its rows must rise, in [0, {self.next_id - 1}]")
        for name, matrix in (("features", self.features), ("labels", self.labels)):
            fault = kernels.check_compressed(matrix.indptr, matrix.indices, matrix.data, matrix.shape[1])[0]
            need(not fault, f"the {name} of its rows aren't sorted, or not finite")
        if (weight := self.weight) is not None:
            need((np.isfinite(weight) & (weight >= 0)).all(), "weights of rows must be finite numbers of at least 0")
        if self.held_out is not None:
            scores = self.held_out.scores
            inside = np.isneginf(scores) | ((scores >= 0) & (scores <= 1))
            need(inside.all(), "scores of held-out rows must be in [0, 1]")
        for layer in chain.from_iterable(self.solutions):
            layer.verify(n, where)


def _matrix(state: store.State, name: str, shape: tuple[int, int]) -> Csr:
    """A sparse matrix whose offsets are verified."""
    indptr = store.need_offsets(state, f"{name}.indptr", length=shape[0] + 1)
    size = (int(indptr[-1]),)
    indices = store.need_array(state, f"{name}.indices", np.int32, size)
    return Csr(indptr, indices, store.need_array(state, f"{name}.data", np.float32, size), shape)


def _no_longer_positive(before: Csr, after: Csr, is_kept: Bool) -> tuple[Int64, Int64]:
    """Rows and nodes, by the numbers that they have now, of positives that aren't any more; of nodes that are kept."""
    number, n_nodes = np.cumsum(is_kept) - 1, after.shape[1]
    stays = is_kept[before.indices]
    old = before.rows_of_values()[stays] * n_nodes + number[before.indices[stays]]
    gone = np.setdiff1d(old, after.rows_of_values() * n_nodes + after.indices, assume_unique=True)
    return gone // n_nodes, gone % n_nodes


def _marks(features: Csr) -> npt.NDArray[np.uint64]:
    """A number for each row, shape (n,), that is the same for the same features, and hardly ever for others."""
    marks = np.zeros(len(features.indptr) - 1, np.uint64)
    for start, stop in split_ranges(len(marks), _MARKED):
        entries = slice(int(features.indptr[start]), int(features.indptr[stop]))
        ids = features.indices[entries].astype(np.uint64) << np.uint64(32)
        values = (ids | features.data[entries].view(np.uint32)) * np.uint64(0x9E3779B97F4A7C15)
        values = (values ^ (values >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(values ^ (values >> np.uint64(32)), dtype=np.uint64)))
        ends = features.indptr[start : stop + 1] - features.indptr[start]
        marks[start:stop] = sums[ends[1:]] - sums[ends[:-1]]
    return marks
