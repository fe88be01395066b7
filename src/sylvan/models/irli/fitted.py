"""What IRLIClassifier has learned, how labels are ranked by what networks say of the buckets that they are in, and how
it is brought up to date: new labels are put into buckets, and the networks go on learning."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from sylvan import store
from sylvan.arrays.canonical import Csr, stacked, take_rows
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK
from sylvan.arrays.types import Array, Float32, Int32, Int64
from sylvan.errors import DataError
from sylvan.metrics.tallies import hits
from sylvan.models.base import GivenRows
from sylvan.models.irli import rounds
from sylvan.models.irli.bucket_network import BucketNetwork, best_buckets
from sylvan.models.irli.buckets import (
    MOST_BUCKETS,
    MOST_REPETITIONS,
    Buckets,
    Candidates,
    Order,
    find_candidates,
    hash_partition,
    least_loaded_at_random,
)
from sylvan.models.irli.learning import grouped, training_jobs
from sylvan.models.irli.rounds import InputScale, LearningSettings, Lesson, Rounds, State
from sylvan.parallel import map_parallel, resolve_jobs, split_ranges
from sylvan.params.wording import shown_bytes, shown_seconds
from sylvan.runtime import Job, Runner
from sylvan.runtime.plan import timed

BucketOrder = Literal["likelihood", "probability", "votes"]
FLOOR = 1e-4  # probability of a bucket that wasn't looked into
_VALUES = 1 << 21  # inputs are taken by so many chosen buckets at a time
_ROWS = 256
EPOCHS, EPOCHS_ALONE = 8, 4  # of an update over new rows with known rows beside, and without
BESIDE, LEAST_BESIDE = 2, 500  # known rows that are shown beside each new one, and at least; others in each epoch
WIDER = 3  # times ``choices``: labels that share most buckets with the one that they are like are answered in its place
_BATCHES = 4  # that are tried for a plan
_PLACES, _SHOWN = 7, 8  # what seeds are for


@dataclass(frozen=True)
class BucketQuery:
    """How buckets are looked into."""

    probes: int  # the best buckets of each repetition that are; all where there are fewer
    min_votes: int  # repetitions, at least, in which a candidate stands in one of these buckets
    # what labels are ranked by: the product of their buckets' probabilities, 1 in 10,000 for buckets that weren't
    # looked into; their sum; or the number of repetitions they are candidates in, then the sum
    order: BucketOrder


@dataclass(frozen=True, eq=False)
class FittedIRLI:
    """What was learned: partitions of the labels, their networks, and what an update goes on from."""

    buckets: Buckets
    network: BucketNetwork
    rounds: Rounds
    dense: bool  # whether the networks take dense inputs
    row_sums: Float32 | None  # Adagrad's, shape (n_features, n_repetitions); None of dense inputs

    def candidates(self, X: Any, query: BucketQuery, limit: int | None = None) -> Candidates:
        """The labels of the chosen buckets; their scores are sums of what :meth:`_scores` takes."""
        inputs = X.toarray() if self.dense and not isinstance(X, np.ndarray) else X
        chosen, probabilities = self.network.top(inputs, min(query.probes, self.network.n_buckets))
        if query.order == "likelihood":
            np.maximum(probabilities, FLOOR, out=probabilities)
            np.log(probabilities, out=probabilities)
            probabilities -= np.float32(np.log(FLOOR))
            np.maximum(probabilities, 0, out=probabilities)
        order: Order = "votes" if query.order == "votes" else "probability"
        return find_candidates(self.buckets, chosen, probabilities, min_votes=query.min_votes, order=order, limit=limit)

    def _scores(self, candidates: Candidates, order: BucketOrder) -> Float32:
        """Scores in [0, 1] of candidates, in their order."""
        n_repetitions = self.buckets.n_repetitions
        mean = candidates.scores / np.float32(n_repetitions)
        if order == "likelihood":
            mean = np.exp(mean + np.float32(np.log(FLOOR)))
        elif order == "votes":
            mean = (candidates.votes + mean) / np.float32(n_repetitions + 1)
        return np.asarray(np.minimum(mean, 1), dtype=np.float32)

    def _parts(self, X: Any, query: BucketQuery) -> list[tuple[int, int]]:
        """The rows that are answered at a time."""
        chosen = self.network.n_repetitions * min(query.probes, self.network.n_buckets)
        return split_ranges(X.shape[0], max(min(_VALUES // chosen, _ROWS), 1))

    def rank(self, X: Any, k: int, query: BucketQuery, labels: LabelFilter | None = None, *, n_jobs: int) -> TopK:
        """The ``k`` best labels of each row."""
        # Shape: X (n, n_features)
        matrix = X.to_scipy() if isinstance(X, Csr) else X
        shape = matrix.shape[0], k
        top = TopK(np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32))

        def work(part: tuple[int, int]) -> None:
            rows = slice(*part)
            candidates = self.candidates(matrix[rows], query, k if labels is None else None)
            ids, scores, counts = candidates.labels, self._scores(candidates, query.order), candidates.counts()
            of_row = np.repeat(np.arange(len(counts)), counts)
            if labels is not None:
                opened = labels.opens(ids, of_row, part)
                ids, scores, of_row = ids[opened], scores[opened], of_row[opened]
                counts = np.bincount(of_row, minlength=len(counts))
            place = np.arange(len(ids)) - np.repeat(np.cumsum(counts) - counts, counts)
            best = place < k
            top.labels[rows][of_row[best], place[best]] = ids[best]
            top.scores[rows][of_row[best], place[best]] = scores[best]

        map_parallel(work, self._parts(matrix, query), n_jobs, description="Ranking")
        return top

    def count(self, X: Csr, query: BucketQuery, n_jobs: int) -> tuple[Int64, Int64]:
        """How many labels each row finds, and how many counters are raised for it."""
        matrix, totals = X.to_scipy(), np.zeros((2, X.shape[0]), np.int64)

        def work(part: tuple[int, int]) -> None:
            candidates = self.candidates(matrix[slice(*part)], query)
            totals[:, slice(*part)] = candidates.counts(), candidates.touched

        map_parallel(work, self._parts(matrix, query), n_jobs)
        return totals[0], totals[1]

    def updated(self, model: Any, update: UpdateRows) -> FittedIRLI:
        """New labels in buckets, and the networks trained on, with a model's parameters."""
        from sylvan.models.irli.training import one_thread

        with one_thread():
            return learned_on(model, _placed(model, self, update), update)

    def plan_update(self, model: Any, update: UpdateRows) -> IRLIUpdatePlan:
        """What placing the labels takes, and learning, by a few batches of one group."""
        from sylvan.models.irli.training import one_thread

        with one_thread():
            with timed() as around:
                placed = _placed(model, self, update)
                jobs, lesson = _jobs(model, placed, update)
            inputs, spent = {**jobs[0].inputs, "epochs": 1}, []
            rows = inputs["rows"]
            tried = rows[:1, : _BATCHES * lesson.settings.batch_size]
            for some in (tried[:, :1], tried[:, :1], tried):  # the first also takes what takes time once
                with timed() as clock:
                    jobs[0].work(**{**inputs, "rows": some})
                spent.append(clock.seconds)
        each = max(spent[2] - spent[1], 0) * rows.size / tried.size + spent[1]
        seconds = each * len(jobs) / min(resolve_jobs(model.n_jobs), len(jobs))
        size = sum(array.nbytes for job in jobs for array in job.inputs["state"].values())
        learned = placed.network.first.nbytes + placed.network.second.nbytes
        beside = rows.shape[1] - update.n_new
        return IRLIUpdatePlan(update.epochs, update.n_new, beside, 2 * around.seconds + seconds, 2 * size + learned)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
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
        dense, record, row_sums = store.need_bool(state, "dense"), Rounds.from_state(state), None
        buckets = Buckets.from_arrays(state, n_buckets, n_repetitions, n_labels)
        network = BucketNetwork.from_arrays(state, n_features, n_repetitions, n_buckets)
        if "row_sums" in state.arrays:
            row_sums = store.need_array(state, "row_sums", np.float32, (n_features, n_repetitions))
        return cls(buckets, network, record, dense, row_sums)


@dataclass(frozen=True, eq=False)
class PrecisionJudge:
    """Scores by the mean of P@1, P@3 and P@5 of labels that are ranked as ``query`` says. The other parameters are
    those of :class:`~sylvan.models.irli.rounds.RecallJudge`."""

    X: Any
    truths: sp.csr_matrix
    query: BucketQuery
    n_jobs: int = 1

    def __call__(self, buckets: Buckets, network: BucketNetwork) -> dict[str, float]:
        fitted = FittedIRLI(buckets, network, Rounds((), 0), dense=False, row_sums=None)
        top = fitted.rank(self.X, 5, self.query, n_jobs=self.n_jobs)
        right = hits(top, Csr.of(self.truths))
        precision = {f"P@{k}": float(right[:, :k].mean()) for k in (1, 3, 5)}
        return {"score": float(np.mean(list(precision.values()))), **precision}


@dataclass(frozen=True)
class IRLIUpdatePlan:
    """What an update would do."""

    epochs: int
    new_rows: int  # shown in each epoch
    known_rows: int  # shown in each epoch beside them
    seconds: float  # time until the model is changed
    peak_bytes: int  # memory that the update takes beside the model and the rows

    def text(self) -> str:
        """The plan in a line for a terminal."""
        return (
            f"Rows that would be shown to the networks, {self.epochs:,} times: {self.new_rows:,} new ones and "
            f"{self.known_rows:,} known ones; about {shown_seconds(self.seconds)} and {shown_bytes(self.peak_bytes)} "
            "of memory."
        )


@dataclass(frozen=True)
class UpdateRows:
    """What the networks go on learning from."""

    X: Any  # shape (n, n_features): new rows, and known ones behind them; all have labels
    truths: sp.csr_matrix  # shape (n, n_labels): with new labels
    weights: Float32 | None  # shape (n,), or None
    n_new: int
    epochs: int
    n_rows: int  # that the model will have learned from
    label_counts: Int64  # shape (n_labels,): of these

    @classmethod
    def of(
        cls, new: GivenRows, known_rows: tuple[Csr, Csr] | None, dense: bool, epochs: int | None, n_rows: int,
        label_counts: Int64,
    ) -> UpdateRows:  # fmt: skip
        """New rows that have a label and a weight, and known ones behind them; the counts are those before."""
        features, labels, weights, n_labels = new
        rows = taught_rows(labels, weights)
        X, truths = take_rows(features, rows), take_rows(labels, rows)
        weights = None if weights is None else weights[rows]
        if known_rows is not None:
            n_known = known_rows[0].shape[0]
            X = stacked(X, known_rows[0]._replace(shape=(n_known, features.shape[1])))
            truths = stacked(truths, known_rows[1]._replace(shape=(n_known, n_labels)))
            if weights is not None:
                weights = np.concatenate((weights, np.ones(n_known, np.float32)))
        counts = np.bincount(labels.indices, minlength=n_labels).astype(np.int64)
        counts[: len(label_counts)] += label_counts
        inputs: Any = X.to_scipy().toarray() if dense else X.to_scipy()
        epochs = epochs or (EPOCHS_ALONE if known_rows is None else EPOCHS)
        n_after = n_rows + features.shape[0]
        return cls(inputs, truths.to_scipy(), weights, len(rows), epochs, n_after, counts)

    def shown(self, seed: int) -> Int64:
        """The rows of each epoch, (epochs, m): all new ones, and known ones drawn again for each."""
        n_known = self.X.shape[0] - self.n_new
        n_beside = min(max(BESIDE * self.n_new, LEAST_BESIDE), n_known)
        rows = np.empty((self.epochs, self.n_new + n_beside), np.int64)
        rows[:, : self.n_new] = np.arange(self.n_new)
        for epoch, row in enumerate(rows):
            drawn = np.random.default_rng([seed, epoch]).permutation(n_known)[:n_beside]
            row[self.n_new :] = self.n_new + np.sort(drawn)
        return rows


def learned_on(model: Any, fitted: FittedIRLI, rows: UpdateRows) -> FittedIRLI:
    """The networks trained on the rows."""
    jobs, lesson = _jobs(model, fitted, rows)
    states = list(Runner(resolve_jobs(model.n_jobs)).run(jobs, "Learning on"))
    touched = np.arange(fitted.network.n_features) if fitted.dense else np.unique(rows.X.indices)
    learned = rounds.network_of(states, lesson.scale)
    layers = learned.first[touched], learned.first_bias, learned.second, learned.second_bias
    if not all(np.isfinite(layer).all() for layer in layers):
        raise DataError("The networks' weights have left the range of numbers: the learning rates are too high.")
    network = learned.rounded_again(fitted.network, touched)
    return replace(fitted, network=network, row_sums=rounds.row_sums_of(states))


def _placed(model: Any, fitted: FittedIRLI, update: UpdateRows) -> FittedIRLI:
    """Networks as wide as the rows, and new labels in buckets, in every repetition."""
    if new := update.X.shape[1] - fitted.network.n_features:
        if (sums := fitted.row_sums) is not None:
            sums = np.concatenate((sums, np.zeros((new, sums.shape[1]), np.float32)))
        fitted = replace(fitted, network=fitted.network.widened(update.X.shape[1]), row_sums=sums)
    before, n_known, n_labels = fitted.buckets, fitted.buckets.n_labels, update.truths.shape[1]
    if n_labels == n_known:
        return fitted
    truths = update.truths[: update.n_new, n_known:].tocsr()
    rows = np.flatnonzero(np.diff(truths.indptr))
    X, truths, loads = update.X[rows], truths[rows], before.loads()
    choices = min(WIDER * model.choices, before.n_buckets)
    hashed = hash_partition(n_labels, before.n_buckets, before.n_repetitions, model.seed)[:, n_known:]

    def work(repetition: int) -> Int32:
        best = best_buckets(fitted.network.only(repetition), X, truths, choices)
        unknown = best[:, 0] < 0
        best[unknown] = hashed[repetition, unknown, None]
        seed = model.seed, _PLACES, n_known, repetition
        return least_loaded_at_random(best, before.n_buckets, seed, loads=loads[repetition])

    placed = map_parallel(work, range(before.n_repetitions), resolve_jobs(model.n_jobs), description="Placing")
    assignment = np.hstack((before.assignment, np.stack(placed)))
    return replace(fitted, buckets=Buckets.from_assignment(assignment, before.n_buckets))


def _jobs(model: Any, fitted: FittedIRLI, update: UpdateRows) -> tuple[list[Job[State]], Lesson]:
    """The training of each group of networks on the rows, from what they are."""
    network, weights = fitted.network, update.weights
    sizes = {"n_buckets": network.n_buckets, "n_repetitions": network.n_repetitions, "hidden": network.hidden}
    seed = np.random.SeedSequence([model.seed, _SHOWN, update.n_rows]).generate_state(1)[0] >> 1  # of this update
    settings = LearningSettings.of({**model.get_params(deep=False), **sizes, "seed": int(seed)})
    rows = update.shown(settings.seed)
    if weights is not None:
        weights = weights / weights[np.unique(rows)].mean(dtype=np.float64).astype(np.float32)
    lesson = Lesson(update.X, update.truths, settings, InputScale.of(update.X), weights)
    states = rounds.states_of(network, grouped(settings), lesson.scale, fitted.row_sums)
    how = {"epochs": update.epochs, "rows": rows, "fade": True}
    return training_jobs("update", lesson, states, fitted.buckets.assignment, rows.size, **how), lesson


def taught_rows(labels: Csr, weights: Float32 | None) -> Int64:
    """The rows that networks learn from: those with a label and a weight above 0."""
    has_label = np.diff(labels.indptr) > 0
    rows = np.flatnonzero(has_label if weights is None else has_label & (weights > 0))
    if not len(rows):
        raise DataError("No row of X has both a label and a weight above 0: there is nothing to learn.")
    return rows
