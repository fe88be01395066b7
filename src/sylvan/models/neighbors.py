"""NeighborRanker: the labels of the most similar training rows, by vote."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from sylvan import store, validate
from sylvan.canonical import take_rows
from sylvan.errors import DataError, ParameterError
from sylvan.explain.examples import strongest
from sylvan.explain.records import Example
from sylvan.matching.neighbors import Nearest, NeighborIndex
from sylvan.models.base import CANDIDATES, MOST_ANSWERS, Estimator
from sylvan.models.holdout import calibrated, holdout_folds
from sylvan.parallel import resolve_jobs
from sylvan.params import Choice, Range, Threads, attribute, parameterized
from sylvan.ranking.calibrate import METHODS
from sylvan.ranking.tail import Tail, tail_of
from sylvan.ranking.votes import LabelRows
from sylvan.topk import TopK
from sylvan.validate import Csr

__all__ = ["NeighborRanker"]


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
    index_ : NeighborIndex
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
    calibration: Annotated[str | None, Choice(METHODS)] = "isotonic"

    index_: NeighborIndex = attribute()
    row_labels_: LabelRows = attribute()

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

    def fit_holding_out(
        self, X: Any, Y: Any, rows: npt.NDArray[np.int32], sample_weight: Any = None, **options: Any
    ) -> TopK | None:
        """As :meth:`fit`; see :meth:`Estimator.fit_holding_out`."""
        return self._fit(X, Y, sample_weight, rows, **options)

    def _fit(self, X: Any, Y: Any, sample_weight: Any, rows: npt.NDArray[np.int32] | None) -> TopK | None:
        """Store the rows, and answer with probabilities for some of them: those given, or what calibrates the model."""
        self.check_params()
        features, labels, vocabulary = self._training_pair(X, Y)
        weight = validate.sample_weight(sample_weight, features.shape[0])
        if labels.nnz == 0:
            raise DataError(f"Y has shape {labels.shape} but holds no label: there is nothing to learn.")
        index = NeighborIndex.build(features, None if weight is None else weight > 0)
        self.index_, self.row_labels_ = index, LabelRows.build(labels, weight)
        self.n_rows_, self.n_features_ = features.shape
        self.label_counts_ = np.bincount(labels.indices, minlength=labels.shape[1]).astype(np.int64)
        self._keep_names(X, vocabulary)
        self.n_labels_, self.calibrator_ = labels.shape[1], None
        if rows is None and self.calibration is not None:
            rows = next(iter(holdout_folds(features.shape[0], 1, weight, self.most_held_out)), None)
        if rows is None:
            return None
        top = self._rank_held_out(features, rows)
        if self.calibration is not None:
            self.calibrator_ = calibrated(self.calibration, top, rows, labels, weight)
        return self.probabilities(top)

    @property
    def most_held_out(self) -> int:
        """Fewer than of other models: each costs as much as a row that is ranked later."""
        return 1_000

    def _rank_held_out(self, features: Csr, rows: npt.NDArray[np.int32]) -> TopK:
        """The best labels of training rows by their neighbours, among whom a row itself doesn't count."""
        jobs = resolve_jobs(self.n_jobs)
        n = min(self.n_neighbors + 1, self.n_rows_)
        neighbors, similarities = self.index_.nearest(take_rows(features, rows), n, n_jobs=jobs)
        own = neighbors == rows[:, None]
        dropped = np.where(own.any(axis=1), own.argmax(axis=1), n - 1)  # behind many equal rows, it isn't there
        others = np.arange(n) != dropped[:, None]
        shape = (len(rows), n - 1)
        nearest = neighbors[others].reshape(shape), similarities[others].reshape(shape)
        return self.row_labels_.vote(nearest, self.power, min(CANDIDATES, self.n_labels_), n_jobs=jobs)

    def rank(
        self, X: Any, k: int = 10, *, tail: str | None = None, allowed: Any = None, denied: Any = None
    ) -> TopK:
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
            :class:`~sylvan.label_filter.LabelFilter` for the forms. The neighbours and the scores don't depend on them.

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
        nearest = self._nearest(X, min(self.n_neighbors, self.n_rows_), description="Ranking")
        labels = self._filter(allowed, denied, nearest[0].shape[0])
        top = self.row_labels_.vote(nearest, self.power, k, labels=labels, n_jobs=resolve_jobs(self.n_jobs))
        return self._named(top)

    def neighbors(
        self, X: Any, n: int = 10, *, label: int | None = None
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
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
            if not isinstance(label, (int, np.integer)) or isinstance(label, bool) or not 0 <= label < self.n_labels_:
                raise ParameterError(
                    f"The 'label' parameter of neighbors must be an int in [0, {self.n_labels_ - 1}] or None. "
                    f"Got {label!r} instead."
                )
            only = self.row_labels_.having(int(label))
        return self._nearest(X, n, only=only, description="Searching")

    def nearest_with(
        self, row: Csr, label: int, n: int, feature_name: Callable[[int], str] = str
    ) -> tuple[Example, ...]:
        """The training rows with a label that are most similar to one row, and what they share, for explanations."""
        results = []
        rows, similarities = self.neighbors(row, n, label=label)
        for number, similarity in zip(rows[0].tolist(), similarities[0].tolist(), strict=True):
            if number >= 0:
                shared = row.data * self.index_.values_of(number, row.indices)
                results.append(Example(number, similarity, strongest(row.indices, shared, feature_name)))
        return tuple(results)

    def _explain_notes(self, row: Csr, label: int) -> tuple[str, ...]:
        voters = self.neighbors(row, min(self.n_neighbors, self.n_rows_))[0][0]
        voters = voters[voters >= 0]
        having = np.flatnonzero(self.row_labels_.having(label)[voters])
        if not len(having):
            return (f"None of the {len(voters)} nearest training rows has this label.",)
        return (
            f"{len(having)} of the {len(voters)} nearest training rows have this label; the first of them stands at "
            f"place {having[0] + 1}.",
        )

    def _nearest(
        self, X: Any, n: int, *, description: str, only: npt.NDArray[np.bool_] | None = None
    ) -> Nearest:
        features = self._features(X)
        return self.index_.nearest(features, n, only=only, n_jobs=resolve_jobs(self.n_jobs), description=description)

    def _drop_labels(self, ids: npt.NDArray[np.int32]) -> None:
        self.row_labels_ = self.row_labels_.without(ids)
        self._note_dropped(ids)

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], dict[str, store.State]]:
        meta, arrays, parts = super()._fitted_state()
        parts |= self._calibrator_to_parts()
        return meta, arrays | self.index_.to_arrays() | self.row_labels_.to_arrays(), parts

    def _restore(self, state: store.State) -> None:
        super()._restore(state)
        self._calibrator_from_parts(state)
        self.index_ = NeighborIndex.from_state(state, self.n_features_, self.n_rows_)
        self.row_labels_ = LabelRows.from_state(state, self.n_rows_, self.n_labels_)


store.register(NeighborRanker.kind, NeighborRanker.from_state)
