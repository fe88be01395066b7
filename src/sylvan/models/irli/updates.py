"""IRLIClassifier brought up to date: new labels are put into buckets, and the networks go on learning."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr, stacked, take_rows
from sylvan.data import Vocabulary
from sylvan.errors import DataError, RowsUnknownWarning, UnsupportedError
from sylvan.lazy import need_torch
from sylvan.models.base import Estimator
from sylvan.models.irli.bucket_network import BucketNetwork, best_buckets
from sylvan.models.irli.buckets import Buckets, hash_partition, least_loaded_at_random
from sylvan.models.irli.learning import grouped
from sylvan.models.irli.settings import LearningSettings
from sylvan.parallel import map_parallel, one_at_a_time, resolve_jobs
from sylvan.params.wording import counted
from sylvan.runtime import Job, Runner
from sylvan.runtime.memory import shown_bytes
from sylvan.runtime.plan import shown_seconds, timed

if TYPE_CHECKING:
    from sylvan.models.irli.training import InputScale

_Self = TypeVar("_Self", bound="IRLIUpdates")
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
class _Rows:
    """What the networks go on learning from."""

    X: Any  # shape (n, n_features): new rows, and known ones behind them; all have labels
    truths: sp.csr_matrix  # shape (n, n_labels): with new labels
    weights: npt.NDArray[np.float32] | None  # shape (n,), or None
    n_new: int


class IRLIUpdates(Estimator):
    """Base of IRLIClassifier, for what comes after its training."""

    unlearns = True
    buckets_: Buckets
    network_: BucketNetwork
    choices: int
    seed: int
    n_jobs: int | None
    _dense: bool
    _row_sums: npt.NDArray[np.float32] | None

    @one_at_a_time
    def update(
        self: _Self, X: Any = None, Y: Any = None, sample_weight: Any = None, *, rows: tuple[Any, Any] | None = None,
        epochs: int | None = None, n_features: int | None = None, **options: Any,
    ) -> _Self:  # fmt: skip
        """Learn new rows, of labels old and new: new labels get buckets, and the networks learn on.

        This is further training from the networks that there are, at a learning rate that falls to nothing, not what
        :meth:`fit` gives with all rows. Known labels stay in their buckets. What networks aren't shown, they forget:
        give known rows along, as ``rows``.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features_)
            New rows.
        Y : as in :meth:`fit`, of n rows
            Ids from ``n_labels_`` on, and names that aren't known, are new labels; names get the next ids in
            alphabetical order.
        sample_weight : array of shape (n,), optional
            Factor of each new row's loss; that of known rows is 1. Rows of weight 0 are ignored.
        rows : pair (X, Y), optional
            Rows that the model was trained on, all or some, with known labels. In each epoch, two of them for each new
            row are shown, at least 500, drawn anew.
        epochs : int, optional
            Passes over the new rows: 8 by default, 4 without ``rows``.
        n_features : int, optional
            The number of columns from now on; those from ``n_features_`` on are new, and begin with weights of 0.

        Returns
        -------
        IRLIClassifier
            This model, changed; where an error is raised, or it is interrupted, it is as it was. A copy by
            :func:`copy.copy` made before stays what it is.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        ImportError
            When PyTorch isn't installed.
        UnsupportedError
            For ``forget``, ``merge`` and other options of models that keep their rows.
        DataError
            When an array is malformed, no row has a label, or a label was removed before.
        ParameterError
            When a parameter is out of its range.

        Warns
        -----
        RowsUnknownWarning
            When new labels come without ``rows``, and fewer new rows have known labels alone than have a new one:
            known labels are answered less, and new ones too often. docs/results has the figures.

        Notes
        -----
        Gupta et al. (2021), "IRLI", sections 3.1 and 3.2. In each repetition the new labels, in a random order, go to
        the least loaded of the 3 * ``choices`` buckets of highest probability, summed over the label's rows; of a label
        without a row, hashing decides. Among as few as ``choices`` buckets, new labels share most of theirs with the
        known label that they are most like, and are answered wherever it is. The number of buckets stays, so that a
        model that has grown a lot is better trained anew.

        Adam begins anew; Adagrad goes on with its sums, which a model of sparse features keeps beside its networks.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import IRLIClassifier
        >>> X, y = np.eye(6, dtype=np.float32).repeat(10, axis=0), np.arange(60) // 10
        >>> model = IRLIClassifier(n_buckets=4, n_repetitions=4, hidden=16, batch_size=8, learning_rate=0.01, n_jobs=1)
        >>> model.fit(X[:50], y[:50]).update(X[50:], y[50:], rows=(X[:50], y[:50])).rank(X[-1:], k=1).labels.tolist()
        [[5]]
        """
        self._need_fit("update")
        n_before = self.n_labels_
        made, given, epochs = self._asked(X, Y, sample_weight, rows, epochs, n_features, options)
        made._place(given)
        made._learn_on(given, epochs)
        self.__dict__ = dict(made.__dict__)  # at once, for threads that rank meanwhile
        fresh = np.diff(given.truths[:, n_before:].tocsr().indptr) > 0
        if rows is None and fresh.sum() > (~fresh).sum():
            warnings.warn(
                f"This {type(self).__name__} has learned new labels ({self.n_labels_ - n_before:,}) from rows "
                f"({len(fresh):,}) of which few or none have known labels alone: known labels are answered less from "
                "now on, and new ones too often. With rows=(X, Y), rows that it was trained on, it learns both.",
                RowsUnknownWarning, stacklevel=3,
            )  # fmt: skip
        return self

    def plan_update(
        self, X: Any = None, Y: Any = None, sample_weight: Any = None, *, rows: tuple[Any, Any] | None = None,
        epochs: int | None = None, n_features: int | None = None, **options: Any,
    ) -> IRLIUpdatePlan:  # fmt: skip
        """Estimate what :meth:`update` with the same arguments would do; nothing changes.

        Some of the networks are trained on a few batches, to see how long that takes. Parameters and errors as in
        :meth:`update`.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import IRLIClassifier
        >>> X, y = np.eye(6, dtype=np.float32).repeat(10, axis=0), np.arange(60) // 10
        >>> model = IRLIClassifier(n_buckets=4, n_repetitions=4, hidden=16, n_jobs=1).fit(X[:50], y[:50])
        >>> plan = model.plan_update(X[50:], y[50:], rows=(X[:50], y[:50]))
        >>> plan.epochs, plan.new_rows, plan.known_rows, model.n_labels_
        (8, 10, 50, 5)
        """
        self._need_fit("plan_update")
        made, given, epochs = self._asked(X, Y, sample_weight, rows, epochs, n_features, options)
        return made._planned(given, epochs)

    def _asked(
        self: _Self, X: Any, Y: Any, sample_weight: Any, rows: Any, epochs: Any, n_features: Any,
        options: Mapping[str, Any],
    ) -> tuple[_Self, _Rows, int]:  # fmt: skip
        """A shallow copy to work on, whose counts and names are those of then; its rows, and the passes over them."""
        self.check_params()
        self._refuse(options)
        need_torch("Bringing an IRLIClassifier up to date")
        made, known = self._shallow(), None
        if rows is not None:
            known = self._known_rows(rows)
        if n_features is not None:
            made._widen(n_features)
        passes = EPOCHS_ALONE if rows is None else EPOCHS
        if epochs is not None:
            passes = validate.count(epochs, "epochs", owner="update")
        given, made.vocabulary_ = made._given(X, Y, sample_weight, known)
        return made, given, passes

    def _refuse(self, options: Mapping[str, Any]) -> None:
        """Say of options of other models what one can do instead."""
        owner, given = type(self).__name__, [name for name, value in options.items() if value is not None]
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

    # ---------------------------------------- what is learned from

    def _known_rows(self, rows: Any) -> tuple[Csr, Csr]:
        """Rows that are given again, those that have labels, without labels that were removed."""
        if not (isinstance(rows, tuple | list) and len(rows) == 2):
            raise DataError(f"rows must be a pair (X, Y). Got {type(rows).__name__} instead.")
        named = rows[1] if self.vocabulary_ is None else self._truth(rows[1])
        features, labels = validate.pair(self._features(rows[0]), named, owner=type(self).__name__)
        if labels.shape[1] > self.n_labels_:
            raise DataError(f"rows have {counted(labels.shape[1], 'label')}, but the model has {self.n_labels_}.")
        if len(self._removed):
            matrix = labels.to_scipy().copy()
            matrix.data[np.isin(matrix.indices, self._removed)] = 0
            labels = validate.labels(matrix)
        left = np.flatnonzero(np.diff(labels.indptr))
        if not len(left):
            raise DataError("No row of rows has a label of the model: they can't stand for what it knows.")
        return take_rows(features, left), take_rows(labels, left)

    def _given(
        self, X: Any, Y: Any, sample_weight: Any, known: tuple[Csr, Csr] | None
    ) -> tuple[_Rows, Vocabulary | None]:
        """New rows that have a label and a weight, known ones behind them, and the names of labels then; counted."""
        if X is None or Y is None:
            raise DataError("update takes X and Y together: the new rows, and their labels.")
        (features, labels, weight, n_labels), vocabulary = self._given_rows(X, Y, sample_weight)
        shown = np.diff(labels.indptr) > 0
        if weight is not None:
            shown &= weight > 0
        left = np.flatnonzero(shown)
        if not len(left):
            raise DataError("No row of X has both a label and a weight above 0: there is nothing to learn.")
        shown_rows, truths = take_rows(features, left), take_rows(labels, left)
        weights = None if weight is None else weight[left]
        if known is not None:
            n_known = known[0].shape[0]
            shown_rows = stacked(shown_rows, known[0]._replace(shape=(n_known, self.n_features_)))
            truths = stacked(truths, known[1]._replace(shape=(n_known, n_labels)))
            if weights is not None:
                weights = np.concatenate((weights, np.ones(n_known, np.float32)))
        counts = np.bincount(labels.indices, minlength=n_labels).astype(np.int64)
        counts[: self.n_labels_] += self.label_counts_
        self.n_rows_, self.n_labels_, self.label_counts_ = self.n_rows_ + features.shape[0], n_labels, counts
        inputs: Any = shown_rows.to_scipy()
        return _Rows(inputs.toarray() if self._dense else inputs, truths.to_scipy(), weights, len(left)), vocabulary

    def _widen(self, n_features: Any) -> None:
        """Have more columns from now on; called of a copy."""
        wanted = self._more_features(n_features)
        self.network_ = self.network_.widened(wanted)
        if self._row_sums is not None:
            new = np.zeros((wanted - self.n_features_, self._row_sums.shape[1]), np.float32)
            self._row_sums = np.concatenate((self._row_sums, new))
        self.n_features_ = wanted
        self.__dict__.pop("feature_names_in_", None)

    # ---------------------------------------- what is done, to a fresh, shallow copy

    def _place(self, given: _Rows) -> None:
        """Put new labels into buckets, in every repetition."""
        before, n_known = self.buckets_, self.buckets_.n_labels
        if self.n_labels_ == n_known:
            return
        truths = given.truths[: given.n_new, n_known:].tocsr()
        own = np.flatnonzero(np.diff(truths.indptr))
        X, truths, loads = given.X[own], truths[own], before.loads()
        choices = min(WIDER * self.choices, before.n_buckets)
        hashed = hash_partition(self.n_labels_, before.n_buckets, before.n_repetitions, self.seed)[:, n_known:]

        def work(repetition: int) -> npt.NDArray[np.int32]:
            best = best_buckets(self.network_.only(repetition), X, truths, choices)
            unknown = best[:, 0] < 0
            best[unknown] = hashed[repetition, unknown, None]
            seed = self.seed, _PLACES, n_known, repetition
            return least_loaded_at_random(best, before.n_buckets, seed, loads=loads[repetition])

        from sylvan.models.irli.training import one_thread

        with one_thread():
            placed = map_parallel(work, range(before.n_repetitions), resolve_jobs(self.n_jobs), description="Placing")
        self.buckets_ = Buckets.from_assignment(np.hstack((before.assignment, np.stack(placed))), before.n_buckets)

    def _jobs(self, given: _Rows, epochs: int) -> tuple[list[Job[Any]], InputScale]:
        """The training of each group of networks on the rows, from what they are."""
        from sylvan.models.irli.training import STATE, InputScale, states_of, train_group

        network, weights = self.network_, given.weights
        sizes = {"n_buckets": network.n_buckets, "n_repetitions": network.n_repetitions, "hidden": network.hidden}
        own = np.random.SeedSequence([self.seed, _SHOWN, self.n_rows_]).generate_state(1)[0] >> 1  # of this update
        settings = LearningSettings.of({**self.get_params(deep=False), **sizes, "seed": int(own)})
        groups, rows, scale = grouped(settings), _shown(given, epochs, settings.seed), InputScale.of(given.X)
        if weights is not None:
            weights = weights / weights[np.unique(rows)].mean(dtype=np.float64).astype(np.float32)
        jobs: list[Job[Any]] = []
        for i, state in enumerate(states_of(network, groups, scale, self._row_sums)):
            inputs = {
                "X": given.X, "truths": given.truths, "repetitions": groups[i], "settings": settings, "scale": scale,
                "state": state, "assignment": self.buckets_.assignment[groups[i].start : groups[i].stop],
                "epochs": epochs, "rows": rows, "row_weights": weights, "fade": True,
            }  # fmt: skip
            size = 2 * sum(array.nbytes for array in state.values())
            jobs.append(Job(f"update.group{i}", train_group, inputs, rows.size, size, STATE))
        return jobs, scale

    def _learn_on(self, given: _Rows, epochs: int) -> None:
        """Train the networks on the rows."""
        from sylvan.models.irli.training import network_of, one_thread, row_sums_of

        jobs, scale = self._jobs(given, epochs)
        with one_thread():
            states = list(Runner(resolve_jobs(self.n_jobs)).run(jobs, "Learning on"))
        network = self.network_
        touched = np.arange(network.n_features) if self._dense else np.unique(given.X.indices)
        learned = network_of(states, scale)
        layers = learned.first[touched], learned.first_bias, learned.second, learned.second_bias
        if not all(np.isfinite(layer).all() for layer in layers):
            raise DataError("The networks' weights have left the range of numbers: the learning rates are too high.")
        self.network_, self._row_sums = learned.rounded_again(network, touched), row_sums_of(states)

    def _planned(self, given: _Rows, epochs: int) -> IRLIUpdatePlan:
        """What placing the labels takes, and learning, by a few batches of one group."""
        from sylvan.models.irli.training import one_thread

        with timed() as around:
            self._place(given)
            jobs, _ = self._jobs(given, epochs)
        rows, inputs = jobs[0].inputs["rows"], dict(jobs[0].inputs)
        tried, spent = rows[:1, : _BATCHES * inputs["settings"].batch_size], []
        for some in (tried[:, :1], tried[:, :1], tried):  # the first also takes what takes time once
            with one_thread(), timed() as clock:
                jobs[0].work(**{**inputs, "epochs": 1, "rows": some})
            spent.append(clock.seconds)
        each = max(spent[2] - spent[1], 0) * rows.size / tried.size + spent[1]
        seconds = each * len(jobs) / min(resolve_jobs(self.n_jobs), len(jobs))
        size = sum(array.nbytes for job in jobs for array in job.inputs["state"].values())
        learned = self.network_.first.nbytes + self.network_.second.nbytes
        beside = rows.shape[1] - given.n_new
        return IRLIUpdatePlan(epochs, given.n_new, beside, 2 * around.seconds + seconds, 2 * size + learned)


def _shown(given: _Rows, epochs: int, seed: int) -> npt.NDArray[np.int64]:
    """The rows of each epoch, (epochs, m): all new ones, and known ones drawn anew."""
    n_known = given.X.shape[0] - given.n_new
    n_beside = min(max(BESIDE * given.n_new, LEAST_BESIDE), n_known)
    shown = np.empty((epochs, given.n_new + n_beside), np.int64)
    shown[:, : given.n_new] = np.arange(given.n_new)
    for epoch, row in enumerate(shown):
        drawn = np.random.default_rng([seed, epoch]).permutation(n_known)[:n_beside]
        row[given.n_new :] = given.n_new + np.sort(drawn)
    return shown
