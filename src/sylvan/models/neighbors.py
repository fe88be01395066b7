"""NeighborRanker: the labels of the most similar training rows, by vote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.canonical import stacked, take_rows
from sylvan.arrays.topk import TopK
from sylvan.arrays.types import Array, Bool, Float32, Int32, Int64
from sylvan.arrays.validate import Csr
from sylvan.errors import DataError, ModelError
from sylvan.explain.explanation import Example
from sylvan.explain.question import strongest
from sylvan.labels.targets import one_class_a_row
from sylvan.matching.neighbors import Nearest, RowIndex, index_from_state, index_rows
from sylvan.models.base import CANDIDATES, MOST_ANSWERS, Estimator, has_new_rows
from sylvan.models.label_changes import merged_labels, rows_by_id
from sylvan.parallel import all_at_once, of_one_state, resolve_jobs
from sylvan.params.fields import Number, Range, Threads, attribute, check_value, parameterized
from sylvan.params.wording import counted
from sylvan.ranking.calibrate import Method, calibrated, crosswise, holdout_folds
from sylvan.ranking.tail import Tail, tail_of
from sylvan.ranking.votes import LabelRows, Voted


@parameterized
class NeighborRanker(Estimator):
    """Ranks labels by the votes of the most similar training rows. It stores these rows; there is little to train.

    Similarity is the cosine of the angle between two rows. A label's score is its share of the neighbours' votes, where
    the weight of a vote is ``similarity ** power``: a number in [0, 1].

    Parameters
    ----------
    n_neighbors : int, default 30
        Number of training rows that vote; fewer if fewer share a feature with the input.
    power : float, default 5.0
        How much more nearer rows count; 0 for one vote each.
    tail : {"psp", "psp:A,B", "macro_recall"}, optional
        Order labels by probability times gain, where rare labels gain more; see :meth:`XRLinear.rank`.
    n_jobs : int, optional
        Number of threads for ranking; None or -1 for every core. The result doesn't depend on it.
    calibration : {"isotonic", "platt"}, optional
        How scores become the probabilities of :meth:`predict_proba`: by curves fitted to what the neighbours of some
        training rows say without the row itself. None leaves the scores as they are.

    Attributes
    ----------
    index_ : NeighborIndex or VectorIndex
        The training rows.
    row_labels_ : LabelRows
        Their labels.
    n_features_, n_labels_, n_rows_ : int
        Sizes seen in ``fit``.
    label_counts_ : ndarray of int64, shape (n_labels_,)
        Training rows of each label.

    Notes
    -----
    The neighbours are exact: nothing is skipped for speed. Features that few training rows have are looked up in an
    inverted index, whose cost is the number of postings read. What the other features, each in more than a fifth of the
    rows, can add to a similarity is at most the product of the lengths of the two rows' parts of such features, so it
    is computed for those rows alone whose bound reaches the best found so far; Bayardo, Ma & Srikant (2007), "Scaling
    Up All Pairs Similarity Search", leave features out of an index by such a bound, and Anastasiu & Karypis (2014),
    "L2AP", take the lengths.

    Labels that no neighbour has aren't ranked. In an ensemble with a model that ranks every label, neighbours add what
    linear models lack: a memory of single rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import NeighborRanker
    >>> X = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], np.float32)
    >>> model = NeighborRanker(n_neighbors=2, power=1).fit(X, [[0], [0, 1], [2]])
    >>> model.rank(np.array([[1.0, 0.0]]), k=2).scores.astype(float).round(3).tolist()
    [[1.0, 0.444]]
    """

    kind = "neighbor-ranker"
    added = MappingProxyType({"calibration": None})

    n_neighbors: Annotated[int, Range(1, MOST_ANSWERS)] = 30
    power: Annotated[float, Range(0, 1000)] = 5.0
    tail: Annotated[str | None, Tail()] = None
    n_jobs: Threads = None
    calibration: Method | None = "isotonic"

    index_: RowIndex = attribute()
    row_labels_: LabelRows = attribute()
    _row_ids: Int64 = attribute()
    _next_id: int = attribute()

    def fit(self, X: Any, Y: Any, sample_weight: Any = None) -> NeighborRanker:
        """Store the rows and their labels.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        Y : label matrix of shape (n, L), lists of label ids or names, or one class id or name per row
            Values are relevances: shares of a row's vote, relative to the largest relevance.
        sample_weight : array of shape (n,), optional
            Factor of each row's vote; a row with weight 0 is never a neighbour.

        Raises
        ------
        DataError
            When an array is malformed, or the arrays' shapes don't agree.
        ParameterError
            When a parameter is out of its range.
        """
        self._fit(X, Y, sample_weight, None)
        return self

    def fit_holding_out(self, X: Any, Y: Any, rows: Int32, sample_weight: Any = None, **options: Any) -> TopK | None:
        """As :meth:`fit`; see :meth:`Estimator.fit_holding_out`."""
        return self._fit(X, Y, sample_weight, rows, **options)

    def _fit(self, X: Any, Y: Any, sample_weight: Any, rows: Int32 | None) -> TopK | None:
        """Store the rows, and answer with probabilities for some of them: those given, or what calibrates the model."""
        self.check_params()
        features, labels, vocabulary = self._training_pair(X, Y)
        weight = validate.sample_weight(sample_weight, features.shape[0])
        if labels.nnz == 0:
            raise DataError(f"Y has shape {labels.shape} but holds no label: there is nothing to learn.")
        self._keep_names(X, vocabulary, one_class_a_row(Y))
        self._row_ids = np.arange(features.shape[0])
        self._next_id = features.shape[0]
        return self._store(features, labels, weight, rows)

    def _store(self, features: Csr, labels: Csr, weight: Float32 | None, rows: Int32 | None) -> Voted | None:
        """All rows; with answers to some of them, as :meth:`_fit`."""
        index = index_rows(features, None if weight is None else weight > 0)
        self.index_, self.row_labels_ = index, LabelRows.build(labels, weight)
        self.n_rows_, self.n_features_ = features.shape
        self.label_counts_ = np.bincount(labels.indices, minlength=labels.shape[1]).astype(np.int64)
        self.n_labels_, self.calibrator_ = labels.shape[1], None
        if rows is None and self.calibration is not None:
            rows = next(iter(holdout_folds(features.shape[0], 1, weight, self.most_held_out)), None)
        if rows is None:
            return None
        top = self._rank_held_out(features, rows)
        if self.calibration is not None:
            self.calibrator_ = calibrated(self.calibration, top, rows, labels, weight)
        if self.calibrator_ is None:
            return Voted.of(self.probabilities(top), top.nearest)
        return Voted.of(crosswise(self.calibrator_, self.bounded(top), rows, labels, weight), top.nearest)

    @all_at_once
    def update(  # type: ignore[override]  # the options that it takes are named
        self, X: Any = None, Y: Any = None, sample_weight: Any = None, *, forget: Any = None,
        merge: Mapping[Any, Sequence[Any]] | None = None, n_features: int | None = None, precise: bool | None = None,
        rows: Any = None,
    ) -> NeighborRanker:  # fmt: skip
        """Learn new rows, forget rows, make several labels one: all comes to what :meth:`fit` gives with the rows then.

        Parameters
        ----------
        X, Y, sample_weight, forget, merge, n_features
            As in :meth:`XRLinear.update`. Relevances of new rows are shares beside the largest among them.
        precise : bool, optional
            Makes no difference here.
        rows : optional
            Makes no difference, as the model has its rows: it must be a pair (X, Y) of as many. Other members of an
            ensemble may need them. With ``forget`` it isn't for a model that has forgotten rows before, whose ids
            aren't the numbers of the rows that are left.

        Raises
        ------
        NotFittedError, DataError

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import NeighborRanker
        >>> model = NeighborRanker().fit(np.eye(3)[:2], [[0], [1]])
        >>> model.update(np.eye(3)[2:], [[2]]).rank(np.eye(3)[2:], k=1).labels.tolist()
        [[2]]
        """
        self._need_fit("update")
        self.check_params()
        n_given = validate.features(rows[0]).shape[0] if isinstance(rows, tuple | list) and len(rows) == 2 else 0
        if rows is not None and n_given != self.n_rows_:
            raise DataError(f"rows must be the {self.n_rows_:,} that this {type(self).__name__} keeps, as (X, Y).")
        if rows is not None and forget is not None and self._next_id > self.n_rows_:
            raise DataError(f"This {type(self).__name__} has forgotten rows before: forget is by its ids, not rows=….")
        if n_features is not None:
            self.n_features_ = self._more_features(n_features)
        left = np.arange(self.n_rows_)
        if forget is not None:
            left = np.delete(left, rows_by_id(forget, self._row_ids, self._next_id))
        merged = self._merged(merge)
        if not has_new_rows(X, Y, sample_weight) and forget is None and not merged:
            raise DataError("There is nothing to do: give new rows X and Y, or forget, or merge.")
        features, labels, weights = self.index_.rows(), self.row_labels_.to_csr(), self.row_labels_.row_weights
        features, labels = take_rows(features, left), take_rows(labels, left)
        features = features._replace(shape=(len(left), self.n_features_))
        weights, ids = None if weights is None else weights[left], self._row_ids[left]
        if X is not None:
            new, self.vocabulary_ = self._given_rows(X, Y, sample_weight)
            n_new = new.features.shape[0]
            relevance = new.labels.data if (new.labels.data == 1).all() else new.labels.data / new.labels.data.max()
            labels = labels._replace(shape=(len(left), new.n_labels))
            labels = stacked(labels, new.labels._replace(data=relevance.astype(np.float32)))
            features = stacked(features, new.features)
            if weights is not None or new.weight is not None:
                pairs = (weights, len(left)), (new.weight, n_new)
                weights = np.concatenate([np.ones(n, np.float32) if part is None else part for part, n in pairs])
            ids = np.concatenate((ids, self._next_id + np.arange(n_new)))
            self._next_id += n_new
        labels, _ = merged_labels(labels, merged)
        if not labels.nnz:
            raise DataError("No row with a label would be left: there is nothing to learn.")
        self._row_ids = ids
        self._store(features, labels, weights, None)
        if gone := {label for into, sources in merged.items() for label in sources if label != into}:
            removed = np.array(sorted(gone), np.int32)
            self._drop_labels(removed)
            self._free_names(removed)
        return self

    @property
    def row_ids_(self) -> Int64:
        """The ids of the rows, rising; the first training's are 0 to its number of rows - 1."""
        self._need_fit("row_ids_")
        return self._row_ids

    @property
    def most_held_out(self) -> int:
        """Fewer than of other models: each costs as much as a row that is ranked later."""
        return 1_000

    def _rank_held_out(self, features: Csr, rows: Int32) -> Voted:
        """The best labels of training rows by their neighbours, among whom a row itself doesn't count."""
        jobs = resolve_jobs(self.n_jobs)
        n = min(self.n_neighbors + 1, self.n_rows_)
        neighbors, similarities = self.index_.nearest(take_rows(features, rows), n, n_jobs=jobs)
        same, shape = neighbors == rows[:, None], (len(rows), n - 1)
        dropped = np.where(same.any(axis=1), same.argmax(axis=1), n - 1)  # behind many equal rows, it isn't there
        other_rows = np.arange(n) != dropped[:, None]
        nearest = neighbors[other_rows].reshape(shape), similarities[other_rows].reshape(shape)
        top = self.row_labels_.vote(nearest, self.power, min(CANDIDATES, self.n_labels_), n_jobs=jobs)
        return Voted.of(top, nearest)

    @of_one_state
    def rank(self, X: Any, k: int = 10, *, tail: str | None = None, allowed: Any = None, denied: Any = None) -> TopK:
        """The ``k`` labels with the most votes of each row's neighbours.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features_)
        k : int
            Number of labels per row; if the neighbours have fewer, the row ends in label -1.
        tail : {"psp", "psp:A,B", "macro_recall", "none"}, optional
            Instead of the model's own; see :meth:`XRLinear.rank`.
        allowed, denied : label ids, or a mask of shape (n, n_labels_), optional
            The only labels that may be answered, and labels that may not, for all rows or for each row; see
            :class:`~sylvan.arrays.label_filter.LabelFilter` for the forms. The neighbours and the scores don't depend
            on them.

        Returns
        -------
        TopK
            Labels and scores in [0, 1] of shape (n, k), best first; among equal scores the lower label comes first.

        Raises
        ------
        NotFittedError, DataError, ParameterError
        """
        self._need_fit("rank")
        k = validate.count(k, "k", high=max(self.n_labels_, MOST_ANSWERS))
        if (tail := tail_of(self.tail, tail)) is not None:
            return self._rank_for_tail(X, k, tail, allowed=allowed, denied=denied)
        return self._named(self._voted(X, k, allowed, denied))

    def rank_voted(self, X: Any, k: int, *, allowed: Any = None, denied: Any = None, **options: Any) -> TopK:
        if options:  # a tail, which this refuses
            return super().rank_voted(X, k, **options)
        self._need_fit("rank_voted")
        top = self._voted(X, k, allowed, denied)
        return Voted.of(self.probabilities(top), top.nearest)

    @property
    def has_voters(self) -> bool:
        return True

    @property
    def voters_(self) -> LabelRows:
        """The labels of the rows that vote."""
        self._need_fit("voters_")
        return self.row_labels_

    def _voted(self, X: Any, k: int, allowed: Any, denied: Any) -> Voted:
        nearest = self._nearest(X, min(self.n_neighbors, self.n_rows_), description="Ranking")
        labels = self._filter(allowed, denied, nearest[0].shape[0])
        top = self.row_labels_.vote(nearest, self.power, k, labels=labels, n_jobs=resolve_jobs(self.n_jobs))
        return Voted.of(top, nearest)

    def neighbors(self, X: Any, n: int = 10, *, label: int | None = None) -> tuple[Int32, Float32]:
        """The training rows most similar to each row.

        Parameters
        ----------
        X : sparse matrix or array of shape (n_rows, n_features_)
        n : int
            How many.
        label : int, optional
            Only training rows that have this label.

        Returns
        -------
        rows : ndarray of int32, shape (n_rows, n)
            Row numbers of the matrix that the model was fitted on, most similar first, lower number first among
            equals; -1 where no more rows have a cosine above 0.
        similarities : ndarray of float32, shape (n_rows, n)
            Cosines in (0, 1]; -inf where the row is -1.

        Raises
        ------
        NotFittedError, DataError, ParameterError

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import NeighborRanker
        >>> X = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], np.float32)
        >>> model = NeighborRanker().fit(X, [[0], [0, 1], [2]])
        >>> rows, similarities = model.neighbors(X[2:], n=2)
        >>> rows.tolist(), similarities.astype(float).round(2).tolist()
        ([[2, 1]], [[1.0, 0.6]])
        >>> model.neighbors(X[2:], n=1, label=1)[0].tolist()
        [[1]]
        """
        self._need_fit("neighbors")
        n = validate.count(n, "n", owner="neighbors", high=max(self.n_rows_, MOST_ANSWERS))
        only = None
        if label is not None:
            check_value("label", label, Number(int, 0, self.n_labels_ - 1, optional=True), "neighbors")
            only = self.row_labels_.having(int(label))
        return self._nearest(X, n, only=only, description="Searching")

    def nearest_with(
        self, row: Csr, label: int, n: int, feature_name: Callable[[int], str] = str
    ) -> tuple[Example, ...]:
        """The training rows with a label that are most similar to one row, and what they share, for explanations."""
        results = []
        for number, similarity in zip(*(part[0].tolist() for part in self.neighbors(row, n, label=label)), strict=True):
            if number >= 0:
                shared = row.data * self.index_.values_of(number, row.indices)
                results.append(Example(number, similarity, strongest(row.indices, shared, feature_name)))
        return tuple(results)

    def _explain_notes(self, row: Csr, label: int) -> tuple[str, ...]:
        voters = self.neighbors(row, min(self.n_neighbors, self.n_rows_))[0][0]
        voters = voters[voters >= 0]
        if not len(places := np.flatnonzero(self.row_labels_.having(label)[voters])):
            return (f"None of the {len(voters)} nearest training rows has this label.",)
        words = f"{len(places)} of the {len(voters)} nearest training rows have this label; the first of them stands at"
        return (f"{words} place {places[0] + 1}.",)

    def _nearest(self, X: Any, n: int, *, description: str, only: Bool | None = None) -> Nearest:
        jobs = resolve_jobs(self.n_jobs)
        return self.index_.nearest(self._features(X), n, only=only, n_jobs=jobs, description=description)

    def _drop_labels(self, ids: Int32) -> None:
        self.row_labels_ = self.row_labels_.without(ids)
        self._note_dropped(ids)

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Array], dict[str, store.State]]:
        meta, arrays, parts = super()._fitted_state()

        if self._next_id != self.n_rows_:  # some were forgotten
            meta["next_id"], arrays["row_ids"] = self._next_id, self._row_ids
        return meta, arrays | self.index_.to_arrays() | self.row_labels_.to_arrays(), parts

    def _restore(self, state: store.State) -> None:
        super()._restore(state)

        self.index_ = index_from_state(state, self.n_features_, self.n_rows_)
        self.row_labels_ = LabelRows.from_state(state, self.n_rows_, self.n_labels_)
        self._row_ids, self._next_id = np.arange(self.n_rows_), self.n_rows_
        if "row_ids" in state.arrays:
            self._next_id = store.need_int(state, "next_id", self.n_rows_, 2**62)
            self._row_ids = store.need_rising(state, "row_ids", 0, self._next_id - 1, np.int64)
            if len(self._row_ids) != self.n_rows_:
                raise ModelError(f"{state.where!r} is damaged: 'row_ids' must name its {counted(self.n_rows_, 'row')}.")


store.register(NeighborRanker.kind, NeighborRanker.from_state)
