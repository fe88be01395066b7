"""What IRLIClassifier has learned, and how labels are ranked by what networks say of the buckets that they are in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import store
from sylvan.arrays.canonical import Csr
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK
from sylvan.models.irli.bucket_network import BucketNetwork
from sylvan.models.irli.buckets import MOST_REPETITIONS, Buckets
from sylvan.models.irli.candidates import Candidates, Order, find_candidates
from sylvan.models.irli.rounds import Rounds
from sylvan.models.irli.settings import MOST_BUCKETS
from sylvan.parallel import map_parallel, split_ranges

BucketOrder = Literal["likelihood", "probability", "votes"]
FLOOR = 1e-4  # probability of a bucket that wasn't looked into
_VALUES = 1 << 21  # inputs are taken by so many chosen buckets at a time
_ROWS = 256


@dataclass(frozen=True)
class BucketQuery:
    """How buckets are looked into."""

    probes: int  # the best buckets of each repetition that are; all where there are fewer
    min_votes: int  # repetitions, at least, in which a candidate stands in one of these buckets
    # what labels are ranked by: the product of their buckets' probabilities, 1 in 10,000 for buckets that weren't
    # looked into; their sum; or the number of repetitions they are candidates in, then the sum
    order: BucketOrder

    def candidates(self, buckets: Buckets, network: BucketNetwork, X: Any, limit: int | None) -> Candidates:
        """The labels of the chosen buckets; their scores are sums of what :meth:`score` takes."""
        chosen, probabilities = network.top(X, min(self.probes, network.n_buckets))
        if self.order == "likelihood":
            np.maximum(probabilities, FLOOR, out=probabilities)
            np.log(probabilities, out=probabilities)
            probabilities -= np.float32(np.log(FLOOR))
            np.maximum(probabilities, 0, out=probabilities)
        order: Order = "votes" if self.order == "votes" else "probability"
        return find_candidates(buckets, chosen, probabilities, min_votes=self.min_votes, order=order, limit=limit)

    def score(self, candidates: Candidates, n_repetitions: int) -> npt.NDArray[np.float32]:
        """Scores in [0, 1] of candidates, in their order."""
        mean = candidates.scores / np.float32(n_repetitions)
        if self.order == "likelihood":
            mean = np.exp(mean + np.float32(np.log(FLOOR)))
        elif self.order == "votes":
            mean = (candidates.votes + mean) / np.float32(n_repetitions + 1)
        return np.asarray(np.minimum(mean, 1), dtype=np.float32)


@dataclass(frozen=True, eq=False)
class FittedIRLI:
    """What was learned: partitions of the labels, their networks, and what an update goes on from."""

    buckets: Buckets
    network: BucketNetwork
    rounds: Rounds
    dense: bool  # whether the networks take dense inputs
    row_sums: npt.NDArray[np.float32] | None  # Adagrad's, shape (n_features, n_repetitions); None of dense inputs

    def rank(self, X: Csr, k: int, query: BucketQuery, labels: LabelFilter | None = None, *, n_jobs: int) -> TopK:
        """The ``k`` best labels of each row."""
        return rank_labels(self.buckets, self.network, X, k, query, labels=labels, dense=self.dense, n_jobs=n_jobs)

    def without(self, labels: npt.NDArray[np.int32]) -> FittedIRLI:
        """With some labels in no bucket."""
        return replace(self, buckets=self.buckets.without(labels))

    def widened(self, n_features: int) -> FittedIRLI:
        """With more features, whose weights are 0."""
        sums, new = self.row_sums, n_features - self.network.n_features
        if sums is not None:
            sums = np.concatenate((sums, np.zeros((new, sums.shape[1]), np.float32)))
        return replace(self, network=self.network.widened(n_features), row_sums=sums)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Values and arrays for a saved model."""
        meta = {"n_buckets_used": self.buckets.n_buckets, "n_repetitions_used": self.buckets.n_repetitions}
        arrays = {} if self.row_sums is None else {"row_sums": self.row_sums}
        arrays |= self.buckets.arrays() | self.network.arrays()
        return {**meta, "dense": self.dense, **self.rounds.as_json()}, arrays

    @classmethod
    def from_state(cls, state: store.State, n_features: int, n_labels: int) -> FittedIRLI:
        """What :meth:`to_parts` gave, verified."""
        n_buckets = store.need_int(state, "n_buckets_used", 1, MOST_BUCKETS)
        n_repetitions = store.need_int(state, "n_repetitions_used", 1, MOST_REPETITIONS)
        dense, rounds, row_sums = store.need_bool(state, "dense"), Rounds.from_state(state), None
        buckets = Buckets.from_arrays(state, n_buckets, n_repetitions, n_labels)
        network = BucketNetwork.from_arrays(state, n_features, n_repetitions, n_buckets)
        if "row_sums" in state.arrays:
            row_sums = store.need_array(state, "row_sums", np.float32, (n_features, n_repetitions))
        return cls(buckets, network, rounds, dense, row_sums)


@dataclass(frozen=True, eq=False)
class PrecisionJudge:
    """Scores by the mean of P@1, P@3 and P@5 of labels that are ranked as ``query`` says. The other parameters are
    those of :class:`~sylvan.models.irli.rounds.RecallJudge`."""

    X: Any
    truths: sp.csr_matrix
    query: BucketQuery
    n_jobs: int = 1

    def __call__(self, buckets: Buckets, network: BucketNetwork) -> dict[str, float]:
        top = rank_labels(buckets, network, self.X, 5, self.query, n_jobs=self.n_jobs)
        rows, width = np.arange(self.X.shape[0], dtype=np.int64), self.truths.shape[1]
        right_keys = np.repeat(rows, np.diff(self.truths.indptr)) * width + self.truths.indices
        right = np.isin(rows[:, None] * width + top.labels, right_keys) & (top.labels >= 0)
        precision = {f"P@{k}": float(right[:, :k].mean()) for k in (1, 3, 5)}
        return {"score": float(np.mean(list(precision.values()))), **precision}


def rank_labels(
    buckets: Buckets,
    network: BucketNetwork,
    X: Any,
    k: int,
    query: BucketQuery,
    *,
    labels: LabelFilter | None = None,
    dense: bool = False,
    n_jobs: int = 1,
) -> TopK:
    """The ``k`` best labels of each row."""
    # Shape: X (n, n_features)
    matrix = X.to_scipy() if isinstance(X, Csr) else X
    n = matrix.shape[0]
    top = TopK(np.full((n, k), -1, np.int32), np.full((n, k), -np.inf, np.float32))

    def work(part: tuple[int, int]) -> None:
        rows = slice(*part)
        candidates = query.candidates(buckets, network, _inputs(matrix[rows], dense), k if labels is None else None)
        scores = query.score(candidates, buckets.n_repetitions)
        counts = np.diff(candidates.offsets)
        if labels is not None:
            open_ = _open(labels, part[0], counts, candidates.labels)
            ends = np.concatenate(([0], np.cumsum(open_)))
            ids, scores, counts = candidates.labels[open_], scores[open_], np.diff(ends[candidates.offsets])
        else:
            ids = candidates.labels
        of_row = np.repeat(np.arange(len(counts)), counts)
        place = np.arange(len(ids)) - np.repeat(np.cumsum(counts) - counts, counts)
        best = place < k
        top.labels[rows][of_row[best], place[best]] = ids[best]
        top.scores[rows][of_row[best], place[best]] = scores[best]

    map_parallel(work, split_ranges(n, _rows(network, query)), n_jobs, description="Ranking")
    return top


def count_candidates(
    buckets: Buckets, network: BucketNetwork, X: Any, query: BucketQuery, *, dense: bool = False, n_jobs: int = 1
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """How many labels each row finds, and how many counters are raised for it; parameters as in :func:`rank_labels`."""
    matrix = X.to_scipy() if isinstance(X, Csr) else X

    def work(part: tuple[int, int]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        candidates = query.candidates(buckets, network, _inputs(matrix[slice(*part)], dense), None)
        return candidates.counts(), candidates.touched

    counted = map_parallel(work, split_ranges(matrix.shape[0], _rows(network, query)), n_jobs)
    none = np.zeros(0, np.int64)
    return (
        np.concatenate([none, *(counts for counts, _ in counted)]),
        np.concatenate([none, *(touched for _, touched in counted)]),
    )


def _rows(network: BucketNetwork, query: BucketQuery) -> int:
    """How many rows are answered at a time."""
    chosen = network.n_repetitions * min(query.probes, network.n_buckets)
    return max(min(_VALUES // chosen, _ROWS), 1)


def _inputs(X: Any, dense: bool) -> Any:
    return X.toarray() if dense and not isinstance(X, np.ndarray) else X


def _open(
    labels: LabelFilter, start: int, counts: npt.NDArray[np.int64], ids: npt.NDArray[np.int32]
) -> npt.NDArray[np.bool_]:
    """Which candidates of some rows, those from ``start`` on, may be answered with."""
    listed = np.zeros(labels.n_labels, bool)
    listed[labels.shared] = True
    named: npt.NDArray[np.bool_] = listed[ids]
    if labels.rows is not None:
        offsets = labels.rows.indptr[start : start + len(counts) + 1]
        rows = np.arange(len(counts), dtype=np.int64) * labels.n_labels
        keys = np.repeat(rows, np.diff(offsets)) + labels.rows.indices[offsets[0] : offsets[-1]]
        named |= np.isin(np.repeat(rows, counts) + ids, keys)
    return named if labels.allows else ~named
