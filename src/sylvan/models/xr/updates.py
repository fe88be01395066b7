"""XRLinear brought up to date: rows that come and go, labels that come, labels that become one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sylvan.arrays import validate
from sylvan.arrays.canonical import within
from sylvan.arrays.topk import TopK
from sylvan.arrays.validate import Csr
from sylvan.data import Vocabulary
from sylvan.errors import DataError, ParameterError, UnsupportedError
from sylvan.indexing import LabelTree
from sylvan.metrics.rows import hits
from sylvan.models.xr.changed_layer import RowsNow, UpdateOptions
from sylvan.models.xr.changes import Changes, clusters_for, halves, rows_now
from sylvan.models.xr.growth import Grown, saved_by_rebuilding
from sylvan.models.xr.new_labels import XRNewLabels
from sylvan.models.xr.scaling import Scale
from sylvan.models.xr.training_rows import HeldOut, TrainingRows
from sylvan.models.xr.updating import planned_update, solutions_of, update_rankers
from sylvan.parallel import one_at_a_time
from sylvan.params.wording import counted
from sylvan.ranking.calibrate import DEPTH
from sylvan.ranking.solution import LayerSolution
from sylvan.ranking.training import TreeTraining
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.runtime import Job, Runner
from sylvan.runtime.memory import resident_bytes
from sylvan.runtime.plan import UpdatePlan, timed

_Self = TypeVar("_Self", bound="XRUpdates")

# A child waits to be solved again until the losses of new rows are more than this share of its objective.
WAITING = 0.1
PRECISE = 0.01  # a tolerance below it asks for every child that is off its optimum
ROOM = 1.5  # a cluster of more than this many times max_leaf labels is split, unless its parent is as crowded


class XRUpdates(XRNewLabels):
    """Base of XRLinear, for what comes after its training."""

    @one_at_a_time
    def update(  # type: ignore[override]  # the options that it takes are named
        self: _Self,
        X: Any = None,
        Y: Any = None,
        sample_weight: Any = None,
        *,
        forget: Any = None,
        merge: Mapping[Any, Sequence[Any]] | None = None,
        rows: tuple[Any, Any] | None = None,
        precise: bool | None = None,
        n_features: int | None = None,
    ) -> _Self:
        """Learn new rows, of labels old and new; forget rows; make several labels one. The tree stays, and grows.

        With the same tree, this comes to what :meth:`fit` gives with all rows. A node is solved again only where the
        changed rows matter to it, from the solution that there is.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features_), optional
            New rows.
        Y : as in :meth:`fit`, of n rows
            Ids from ``n_labels_`` on, and names that aren't known, are new labels; names get the next ids in
            alphabetical order. A new label joins the cluster that the search sends its rows to, and clusters that grow
            beyond one and a half times ``max_leaf`` are split, while those beside them are fewer than one and a half
            times ``branching``; see ``drift_``.
        sample_weight : array of shape (n,), optional
            Of the new rows.
        forget : list of int, optional
            Ids of rows, as in ``row_ids_``. No weight depends on them afterwards, and they are gone from the rows that
            are kept. What was built of all rows once stays: the shape of the tree, and the numbers in ``chosen_``.
        merge : mapping of label to list of labels, optional
            The rows of some labels become those of one of them, or of any other label; the others are removed.
        rows : pair (X, Y), optional
            All rows of a model that keeps none, as they were given to :meth:`fit`, of equal weights. Nodes are then
            solved from nothing. Without them, such a model can learn new labels alone; see the notes.
        precise : bool, optional
            Whether every node is solved again that a changed row puts off its optimum by more than ``tolerance``, and
            all rows are searched for anew. Otherwise nodes wait while the losses of the new rows are at most a
            tenth of their objective, which bounds how far they are from their minimum. By default, where the
            solver's tolerance is below 0.01, as it is for small data.
        n_features : int, optional
            The number of columns from now on; those from ``n_features_`` on are new, and no row had them.

        Returns
        -------
        XRLinear
            This model, changed; where an error is raised, it is as it was. A copy by :func:`copy.copy` made before
            stays what it is.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        UnsupportedError
            When the model keeps no rows (see ``keep_rows``) and isn't given them, and a new row has no new label, or
            something is to be forgotten or merged.
        DataError
            When an array is malformed, an id isn't known, or labels can't be merged.

        Notes
        -----
        A model that keeps no rows, and isn't given them, learns new labels from their rows, and nothing else: other
        labels and the inner nodes keep their weights, to the bit, and no cluster is split. A new label's negatives are
        the other new rows that come to its cluster, and stand-ins for the rows of known labels: of those in the cluster
        and the 30 that each new row is answered with, the positive part of their weights, weighing as much as all the
        label's rows. New labels are answered more often than with the rows, which a ``RowsUnknownWarning`` says
        (docs/results has the figures). ``precise`` changes nothing then, and a later update with ``rows`` doesn't
        make up for what known labels haven't learned: train anew.

        Every minimum of Eq. 10 only grows when rows come, so that the objective is above its minimum by no more than
        the losses of the rows that a node waits for. New rows are ranked before they are learned, and these answers
        calibrate the model from then on, together with those of the rows held out before.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import XRLinear
        >>> X = np.eye(4, dtype=np.float32).repeat(5, axis=0)
        >>> model = XRLinear(keep_rows=True).fit(X[:15], np.arange(3).repeat(5))
        >>> model.update(X[15:], np.full(5, 3)).rank(X[[15]], k=1).labels.tolist()
        [[3]]
        """
        self._need_fit("update")
        if rows is None and self.training_rows_ is None:
            self._need_precise(precise)
            made = self._with_new_labels(X, Y, sample_weight, {"forget": forget, "merge": merge}, n_features)
            return self._become(made)
        made, kept, changes, vocabulary = self._asked(X, Y, sample_weight, forget, merge, rows, n_features)
        made._apply(changes, kept, precise, keeps=self.training_rows_ is not None)
        if vocabulary is not None:
            made.vocabulary_ = vocabulary
        gone = [label for target, sources in changes.merged.items() for label in sources if label != target]
        if gone:
            n_clusters = [ranker.tree.layer_sizes[:-1] for ranker in made.rankers_]
            made = made.without_label_ids(np.array(sorted(set(gone)), np.int32))
            if made.training_rows_ is not None and n_clusters != [each.tree.layer_sizes[:-1] for each in made.rankers_]:
                made._apply(made._no_new_rows(), made.training_rows_, precise, keeps=True)  # rows were sent to them
        return self._become(made)

    def calibrate(self: _Self, X: Any, Y: Any) -> _Self:
        """See :meth:`Estimator.calibrate`; what later updates calibrate by begins with these rows."""
        top, right = self._fit_calibrator(X, Y)
        if self.training_rows_ is not None:
            held_out = HeldOut.of(np.full(len(right), -1), top, right, None)  # by no id: they can't be forgotten
            self.training_rows_ = dataclasses.replace(self.training_rows_, held_out=held_out)
        return self

    def _become(self: _Self, made: _Self) -> _Self:
        self.__dict__ = dict(made.__dict__)  # at once, for threads that rank meanwhile
        return self

    def plan_update(  # type: ignore[override]  # the options that it takes are named
        self, X: Any = None, Y: Any = None, sample_weight: Any = None, *, forget: Any = None,
        merge: Mapping[Any, Sequence[Any]] | None = None, rows: tuple[Any, Any] | None = None,
        precise: bool | None = None, n_features: int | None = None,
    ) -> UpdatePlan:  # fmt: skip
        """Estimate what :meth:`update` with the same arguments would do; nothing changes.

        Which nodes would be solved is found as :meth:`update` does, but for layers below others that would change. A
        few are solved to see how long that takes. Parameters and errors as in :meth:`update`.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import XRLinear
        >>> X = np.eye(4, dtype=np.float32).repeat(5, axis=0)
        >>> model = XRLinear(keep_rows=True).fit(X[:15], np.arange(3).repeat(5))
        >>> model.plan_update(X[15:], np.full(5, 3)).nodes
        (4,)
        """
        self._need_fit("plan_update")
        if rows is None and self.training_rows_ is None:
            self._need_precise(precise)
            return self._plan_of_new_labels(X, Y, sample_weight, {"forget": forget, "merge": merge}, n_features)
        made, kept, changes, _ = self._asked(X, Y, sample_weight, forget, merge, rows, n_features)
        run, now = Runner(made.n_jobs), resident_bytes()
        with timed(run.n_jobs) as clock:
            everything, _, _ = rows_now(changes, kept)
            options = made._options(precise, everything, kept)
            nodes: list[list[int]] = []
            jobs: list[Job[Any]] = []
            for at, ranker in enumerate(made.rankers_):
                training = made._training_as_before(ranker.tree, at, everything.features, kept.length)
                grown = made._grown(ranker, kept.solutions[at][-1], changes, everything, training, run, splits=False)
                counts, own = planned_update(ranker, kept.solutions[at], grown, everything, training, options, run)
                nodes.append(counts)
                jobs += own
        return UpdatePlan.of(nodes, jobs, clock.seconds, max(0, resident_bytes() - now), run.n_jobs)

    @property
    def row_ids_(self) -> npt.NDArray[np.int64]:
        """The ids of the rows that are kept, rising; the first training's are 0 to its number of rows - 1."""
        self._need_fit("row_ids_")
        if self.training_rows_ is None:
            raise UnsupportedError(f"This {type(self).__name__} keeps no rows: train it with keep_rows=True.")
        return self.training_rows_.ids

    @property
    def drift_(self) -> float:
        """The share of a search's cost that new trees would save, estimated by their shapes; 0 after a training."""
        self._need_fit("drift_")
        saved = [saved_by_rebuilding(ranker.tree, self.branching, self.max_leaf, self.beam) for ranker in self.rankers_]
        return float(np.mean(saved))

    # ---------------------------------------- what is asked for

    def _asked(
        self: _Self, X: Any, Y: Any, sample_weight: Any, forget: Any, merge: Mapping[Any, Sequence[Any]] | None,
        rows: tuple[Any, Any] | None, n_features: int | None,
    ) -> tuple[_Self, TrainingRows, Changes, Vocabulary | None]:  # fmt: skip
        """A shallow copy to work on, the rows so far, what changes, and the names of labels then."""
        self.check_params()
        kept = self._rows_to_update(rows)
        made = self._shallow()
        if n_features is not None:
            kept = made._widened(kept, n_features)
        return made, kept, *made._changes(X, Y, sample_weight, forget, merge, kept)

    def _widened(self, kept: TrainingRows, n_features: Any) -> TrainingRows:
        """With more columns, which no row that is kept has; called of a copy."""
        self._widen(n_features)
        features = kept.features._replace(shape=(kept.features.shape[0], self.n_features_))
        return dataclasses.replace(kept, features=features)

    def _rows_to_update(self, rows: tuple[Any, Any] | None) -> TrainingRows:
        """The rows that are kept, or those that are handed over."""
        if self.training_rows_ is not None:
            if rows is not None:
                raise DataError(f"This {type(self).__name__} keeps its rows: it can't be given others.")
            self.training_rows_.verify()
            return self.training_rows_
        if not (isinstance(rows, (tuple, list)) and len(rows) == 2):
            raise DataError(f"rows must be a pair (X, Y). Got {type(rows).__name__} instead.")
        X, Y = rows
        named = Y if self.vocabulary_ is None else self._truth(Y)
        features, labels = validate.pair(self._features(X), named, owner=type(self).__name__)
        if labels.shape[1] > self.n_labels_:
            raise DataError(f"rows have {counted(labels.shape[1], 'label')}, but the model has {self.n_labels_}.")
        labels = labels._replace(shape=(labels.shape[0], self.n_labels_))
        if labels.shape[0] != self.n_rows_:
            raise DataError(f"rows are {labels.shape[0]}, but the model was fitted on {self.n_rows_}.")
        seen = self._scaled(features, self.feature_factors_)
        length = 1.0 if self.scaling == "none" else Scale.of(seen, False).length
        solutions = [
            solutions_of(ranker, seen, labels, self._training_as_before(ranker.tree, at, seen, length))
            for at, ranker in enumerate(self.rankers_)
        ]
        return TrainingRows(seen, labels, None, np.arange(self.n_rows_), self.n_rows_, length, solutions)

    def _changes(
        self, X: Any, Y: Any, sample_weight: Any, forget: Any, merge: Mapping[Any, Sequence[Any]] | None,
        kept: TrainingRows,
    ) -> tuple[Changes, Vocabulary | None]:  # fmt: skip
        """What is asked for, verified, by numbers; and the names of labels, where they have any."""
        if (X is None) != (Y is None):
            raise DataError("update takes X and Y together: the new rows, and their labels.")
        if X is None and sample_weight is not None:
            raise DataError("sample_weight is that of new rows: give X and Y with it.")
        forgotten = np.zeros(0, np.int64) if forget is None else kept.rows_of(forget)
        merged = {} if merge is None else self._merged(merge)
        if X is None:
            if forget is None and not merged:
                raise DataError("There is nothing to do: give new rows X and Y, or forget, or merge.")
            return self._no_new_rows()._replace(forgotten=forgotten, merged=merged), self.vocabulary_
        given, vocabulary = self._scaled_rows(X, Y, sample_weight)
        return Changes(given.features, given.labels, given.weight, forgotten, merged, given.n_labels), vocabulary

    def _no_new_rows(self) -> Changes:
        features, labels = (np.zeros((0, width), np.float32) for width in (self.n_features_, self.n_labels_))
        forgotten = np.zeros(0, np.int64)
        return Changes(validate.features(features), validate.labels(labels), None, forgotten, {}, self.n_labels_)

    # ---------------------------------------- what is done

    def _apply(self, changes: Changes, kept: TrainingRows, precise: bool | None, keeps: bool) -> None:
        """Bring the trees, and all that was counted, up to date; called of a fresh, shallow copy."""
        held_out = self._held_out(changes, kept)
        rows, ids, room = rows_now(changes, kept)
        options, run = self._options(precise, rows, kept), Runner(self.n_jobs)
        rankers, solutions = [], []
        for at, ranker in enumerate(self.rankers_):
            training = self._training_as_before(ranker.tree, at, rows.features, kept.length)
            grown = self._grown(ranker, kept.solutions[at][-1], changes, rows, training, run)
            made, solved = update_rankers(ranker, kept.solutions[at], grown, rows, training, options, run)
            rankers.append(made)
            solutions.append(solved)
        self.rankers_ = rankers
        self.n_labels_, self.n_rows_, self.n_features_ = changes.n_labels, *rows.features.shape
        self.label_counts_ = np.bincount(rows.labels.indices, minlength=changes.n_labels).astype(np.int64)
        for name in ("_gains", "training_rows_"):
            self.__dict__.pop(name, None)
        if held_out is not None and self.calibration is not None:
            self.calibrator_ = held_out.calibrator(self.calibration)
        if keeps:
            next_id = kept.next_id + changes.features.shape[0]
            self.training_rows_ = TrainingRows(
                rows.features, rows.labels, rows.weight, ids, next_id, kept.length, solutions, held_out,
                rows.norms, room,
            )  # fmt: skip

    def _held_out(self, changes: Changes, kept: TrainingRows) -> HeldOut | None:
        """The answers that calibrate the model from now on: to new rows by what it knows as yet, behind the others."""
        held_out = kept.held_out
        if held_out is None:
            return None
        held_out = held_out.without(kept.ids[changes.forgotten])
        if not changes.features.shape[0]:
            return held_out
        top = self._plain_answers(changes.features, DEPTH)
        new_ids = kept.next_id + np.arange(changes.features.shape[0])
        return held_out.followed_by(HeldOut.of(new_ids, top, hits(top, changes.labels), changes.weight))

    def _plain_answers(self, features: Csr, k: int) -> TopK:
        """Answers with scores in [0, 1], not calibrated, to rows as the rankers see them; without new columns."""
        features = within(features, self.rankers_[0].layers[0].n_features)
        return self._rank_changed(features, [[None] * ranker.tree.depth for ranker in self.rankers_], k)

    def _options(self, precise: bool | None, rows: RowsNow, kept: TrainingRows) -> UpdateOptions:
        self._need_precise(precise)
        if precise is None:
            training = self._training_as_before(self.rankers_[0].tree, 0, rows.features, kept.length)
            precise = training.linear.tolerance < PRECISE
        return UpdateOptions(0.0 if precise else WAITING, precise)

    def _need_precise(self, precise: Any) -> None:
        if precise not in (None, True, False):
            raise ParameterError(f"The 'precise' parameter of update must be a bool or None. Got {precise!r} instead.")

    def _grown(
        self, ranker: TreeRanker, solution: LayerSolution, changes: Changes, rows: RowsNow, training: TreeTraining,
        run: Runner, splits: bool = True,
    ) -> Grown:  # fmt: skip
        """The tree with the new labels, each in the cluster that the search sends its rows to, and split clusters."""
        grown = Grown.same(ranker.tree)
        if changes.n_labels > ranker.tree.n_labels:
            n_rows, added = np.diff(solution.row_offsets), (changes.features, changes.labels, changes.n_labels)
            grown = grown.with_labels(clusters_for(ranker, *added, training, n_rows, self.max_leaf, run))
        if ranker.tree.depth == 1 or not splits:
            return grown
        c = 0
        while c < len(grown.tree.cluster_sizes):
            if grown.tree.cluster_sizes[c] > ROOM * self.max_leaf and self._has_room(grown.tree, c):
                grown = grown.split(c, halves(grown.tree, c, rows))
            else:
                c += 1
        return grown

    def _has_room(self, tree: LabelTree, cluster: int) -> bool:
        above = tree.child_offsets[-2]
        parent = int(np.searchsorted(above, cluster, side="right")) - 1
        return bool(above[parent + 1] - above[parent] < ROOM * self.branching)
