"""IRLIClassifier brought up to date: new labels are put into buckets, and the networks go on learning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.arrays.canonical import Csr, stacked, take_rows
from sylvan.errors import DataError, UnsupportedError
from sylvan.models.base import GivenRows
from sylvan.models.irli.bucket_network import best_buckets
from sylvan.models.irli.buckets import Buckets, hash_partition, least_loaded_at_random
from sylvan.models.irli.fitted import FittedIRLI
from sylvan.models.irli.learning import grouped
from sylvan.models.irli.settings import LearningSettings
from sylvan.parallel import map_parallel, resolve_jobs
from sylvan.params.wording import shown_bytes, shown_seconds
from sylvan.runtime import Job, Runner
from sylvan.runtime.plan import timed

if TYPE_CHECKING:
    from sylvan.models.irli.training import InputScale

EPOCHS, EPOCHS_ALONE = 8, 4  # over new rows with known rows beside, and without
BESIDE, LEAST_BESIDE = 2, 500  # known rows that are shown beside each new one, and at least; others in each epoch
WIDER = 3  # times ``choices``: labels that share most buckets with the one that they are like are answered in its place
_BATCHES = 4  # that are tried for a plan
_PLACES, _SHOWN = 7, 8  # what seeds are for


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
    weights: npt.NDArray[np.float32] | None  # shape (n,), or None
    n_new: int
    epochs: int
    n_rows: int  # that the model will have learned from
    label_counts: npt.NDArray[np.int64]  # shape (n_labels,): of these

    @classmethod
    def of(
        cls, new: GivenRows, known: tuple[Csr, Csr] | None, dense: bool, epochs: int | None, n_rows: int,
        label_counts: npt.NDArray[np.int64],
    ) -> UpdateRows:  # fmt: skip
        """New rows that have a label and a weight, and known ones behind them; the counts are those before."""
        features, labels, weight, n_labels = new
        shown = np.diff(labels.indptr) > 0
        if weight is not None:
            shown &= weight > 0
        left = np.flatnonzero(shown)
        if not len(left):
            raise DataError("No row of X has both a label and a weight above 0: there is nothing to learn.")
        rows, truths, weights = take_rows(features, left), take_rows(labels, left), None
        if weight is not None:
            weights = weight[left]
        if known is not None:
            n_known = known[0].shape[0]
            rows = stacked(rows, known[0]._replace(shape=(n_known, features.shape[1])))
            truths = stacked(truths, known[1]._replace(shape=(n_known, n_labels)))
            if weights is not None:
                weights = np.concatenate((weights, np.ones(n_known, np.float32)))
        if epochs is None:
            epochs = EPOCHS_ALONE if known is None else EPOCHS
        counts = np.bincount(labels.indices, minlength=n_labels).astype(np.int64)
        counts[: len(label_counts)] += label_counts
        inputs: Any = rows.to_scipy()
        inputs, n_rows = inputs.toarray() if dense else inputs, n_rows + features.shape[0]
        return cls(inputs, truths.to_scipy(), weights, len(left), epochs, n_rows, counts)


def refuse(owner: str, options: Mapping[str, Any]) -> None:
    """Say of options of other models what one can do instead."""
    given = [name for name, value in options.items() if value is not None]
    if "forget" in given:
        raise UnsupportedError(
            f"{owner} can't forget rows: its networks hold something of each that they were shown. Train it anew "
            "without them."
        )
    if "merge" in given:
        raise UnsupportedError(
            f"{owner} can't merge labels: it keeps no rows. Train it anew with their rows as one label's, or "
            "remove those that are to be answered no more (without_labels)."
        )
    if given:
        raise UnsupportedError(f"The update of {owner} takes no {given[0]!r}, but rows, epochs and n_features.")


def updated(model: Any, known: FittedIRLI, given: UpdateRows) -> FittedIRLI:
    """New labels in buckets, and the networks trained on, with a model's parameters."""
    return learned_on(model, _placed(model, known, given), given)


def learned_on(model: Any, known: FittedIRLI, given: UpdateRows) -> FittedIRLI:
    """The networks trained on the rows."""
    from sylvan.models.irli.training import network_of, one_thread, row_sums_of

    jobs, scale = _jobs(model, known, given)
    with one_thread():
        states = list(Runner(resolve_jobs(model.n_jobs)).run(jobs, "Learning on"))
    touched = np.arange(known.network.n_features) if known.dense else np.unique(given.X.indices)
    learned = network_of(states, scale)
    layers = learned.first[touched], learned.first_bias, learned.second, learned.second_bias
    if not all(np.isfinite(layer).all() for layer in layers):
        raise DataError("The networks' weights have left the range of numbers: the learning rates are too high.")
    return replace(known, network=learned.rounded_again(known.network, touched), row_sums=row_sums_of(states))


def planned(model: Any, known: FittedIRLI, given: UpdateRows) -> IRLIUpdatePlan:
    """What placing the labels takes, and learning, by a few batches of one group."""
    from sylvan.models.irli.training import one_thread

    with timed() as around:
        known = _placed(model, known, given)
        jobs, _ = _jobs(model, known, given)
    rows, inputs = jobs[0].inputs["rows"], dict(jobs[0].inputs)
    tried, spent = rows[:1, : _BATCHES * inputs["settings"].batch_size], []
    for some in (tried[:, :1], tried[:, :1], tried):  # the first also takes what takes time once
        with one_thread(), timed() as clock:
            jobs[0].work(**{**inputs, "epochs": 1, "rows": some})
        spent.append(clock.seconds)
    each = max(spent[2] - spent[1], 0) * rows.size / tried.size + spent[1]
    seconds = each * len(jobs) / min(resolve_jobs(model.n_jobs), len(jobs))
    size = sum(array.nbytes for job in jobs for array in job.inputs["state"].values())
    learned = known.network.first.nbytes + known.network.second.nbytes
    beside = rows.shape[1] - given.n_new
    return IRLIUpdatePlan(given.epochs, given.n_new, beside, 2 * around.seconds + seconds, 2 * size + learned)


def _placed(model: Any, known: FittedIRLI, given: UpdateRows) -> FittedIRLI:
    """Networks as wide as the rows, and new labels in buckets, in every repetition."""
    if given.X.shape[1] > known.network.n_features:
        known = known.widened(given.X.shape[1])
    before, n_known, n_labels = known.buckets, known.buckets.n_labels, given.truths.shape[1]
    if n_labels == n_known:
        return known
    truths = given.truths[: given.n_new, n_known:].tocsr()
    rows = np.flatnonzero(np.diff(truths.indptr))
    X, truths, loads = given.X[rows], truths[rows], before.loads()
    choices = min(WIDER * model.choices, before.n_buckets)
    hashed = hash_partition(n_labels, before.n_buckets, before.n_repetitions, model.seed)[:, n_known:]

    def work(repetition: int) -> npt.NDArray[np.int32]:
        best = best_buckets(known.network.only(repetition), X, truths, choices)
        unknown = best[:, 0] < 0
        best[unknown] = hashed[repetition, unknown, None]
        seed = model.seed, _PLACES, n_known, repetition
        return least_loaded_at_random(best, before.n_buckets, seed, loads=loads[repetition])

    from sylvan.models.irli.training import one_thread

    with one_thread():
        placed = map_parallel(work, range(before.n_repetitions), resolve_jobs(model.n_jobs), description="Placing")
    assignment = np.hstack((before.assignment, np.stack(placed)))
    return replace(known, buckets=Buckets.from_assignment(assignment, before.n_buckets))


def _jobs(model: Any, known: FittedIRLI, given: UpdateRows) -> tuple[list[Job[Any]], InputScale]:
    """The training of each group of networks on the rows, from what they are."""
    from sylvan.models.irli.training import STATE, InputScale, states_of, train_group

    network, weights = known.network, given.weights
    sizes = {"n_buckets": network.n_buckets, "n_repetitions": network.n_repetitions, "hidden": network.hidden}
    seed = np.random.SeedSequence([model.seed, _SHOWN, given.n_rows]).generate_state(1)[0] >> 1  # of this update
    settings = LearningSettings.of({**model.get_params(deep=False), **sizes, "seed": int(seed)})
    groups, rows, scale = grouped(settings), _shown(given, settings.seed), InputScale.of(given.X)
    if weights is not None:
        weights = weights / weights[np.unique(rows)].mean(dtype=np.float64).astype(np.float32)
    jobs: list[Job[Any]] = []
    for i, state in enumerate(states_of(network, groups, scale, known.row_sums)):
        inputs = {
            "X": given.X, "truths": given.truths, "repetitions": groups[i], "settings": settings, "scale": scale,
            "state": state, "assignment": known.buckets.assignment[groups[i].start : groups[i].stop],
            "epochs": given.epochs, "rows": rows, "row_weights": weights, "fade": True,
        }  # fmt: skip
        size = 2 * sum(array.nbytes for array in state.values())
        jobs.append(Job(f"update.group{i}", train_group, inputs, rows.size, size, STATE))
    return jobs, scale


def _shown(given: UpdateRows, seed: int) -> npt.NDArray[np.int64]:
    """The rows of each epoch, (epochs, m): all new ones, and known ones drawn anew."""
    n_known = given.X.shape[0] - given.n_new
    n_beside = min(max(BESIDE * given.n_new, LEAST_BESIDE), n_known)
    shown = np.empty((given.epochs, given.n_new + n_beside), np.int64)
    shown[:, : given.n_new] = np.arange(given.n_new)
    for epoch, row in enumerate(shown):
        drawn = np.random.default_rng([seed, epoch]).permutation(n_known)[:n_beside]
        row[given.n_new :] = given.n_new + np.sort(drawn)
    return shown
