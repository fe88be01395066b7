"""IRLIClassifier: labels in buckets, learned in turns with networks that predict an input's buckets (IRLI)."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import numpy as np

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr, take_rows
from sylvan.arrays.topk import TopK
from sylvan.arrays.types import Array, Int32
from sylvan.data import Vocabulary
from sylvan.errors import DataError, MemoryLimitError, RowsUnknownWarning, UnsupportedError
from sylvan.labels.targets import one_class_a_row
from sylvan.lazy import need_torch
from sylvan.models.base import MOST_ANSWERS, Estimator
from sylvan.models.irli.bucket_network import BucketNetwork
from sylvan.models.irli.buckets import MOST_BUCKETS, Buckets
from sylvan.models.irli.fitted import (
    BucketOrder,
    BucketQuery,
    FittedIRLI,
    IRLIUpdatePlan,
    PrecisionJudge,
    UpdateRows,
    taught_rows,
)
from sylvan.models.irli.learning import fit_partitions
from sylvan.models.irli.rounds import BucketReport, Choices, Hidden, NBucketsOrAuto, NumberOfRounds, Rate, Repetitions
from sylvan.parallel import all_at_once, of_one_state, resolve_jobs
from sylvan.params.fields import Range, Seed, Threads, attribute, check_values, parameterized
from sylvan.params.wording import counted, shown_bytes
from sylvan.ranking.tail import Tail, tail_of
from sylvan.runtime import Checkpoint, Runner
from sylvan.runtime.memory import available_bytes

_DENSE = 0.25  # share of stored values from which a matrix is multiplied as a dense one
_FEWEST_ROWS, _MOST_HOLDOUT = 200, 2000


@parameterized
class IRLIClassifier(Estimator):
    """Ranks labels by the buckets they are in: several partitions, each with a network, learned in turns.

    Labels are hashed into ``n_buckets`` buckets, ``n_repetitions`` times over. Networks of one hidden layer learn which
    buckets hold a label of an input; then each label moves to the least loaded of the buckets that its inputs have most
    affinity to, and the networks learn on. An input's labels are looked for in the ``probes`` best buckets of every
    repetition. Training needs PyTorch (``pip install "sylvan[neural]"``); a trained model doesn't.

    Parameters
    ----------
    n_buckets : int or "auto", default "auto"
        Buckets of each repetition, the paper's B. "auto" takes the power of two that is nearest to six times the
        square root of the number of labels, 16 at least.
    n_repetitions : int, default 8
        The paper's R; answers improved there up to 32.
    hidden : int, default 256
        Width of each network's hidden layer; the paper has 1,024.
    choices : int, default 10
        Buckets of most affinity among which a label goes to the least loaded; the paper's K.
    probes : int, default 50
        Buckets looked into in each repetition, the paper's m; all of them where there are fewer.
    min_votes : int, default 1
        Repetitions, at least, in which a candidate stands in one of these buckets.
    order : {"likelihood", "probability", "votes"}, default "likelihood"
        What labels are ranked by. "votes", the paper's: in how many repetitions they are candidates, then the sum of
        their buckets' probabilities. Extensions: "probability", that sum alone; "likelihood", the product of the
        probabilities, where a bucket that wasn't looked into has 1 in 10,000.
    rounds : int or "auto", default "auto"
        Times that labels move; "auto" goes on while P@1, P@3 and P@5 of holdout rows improve, and takes the best.
    epochs_per_round, final_epochs : int, default 4 and 8
        Passes over the rows after each move, and at last on the best partitions.
    learning_rate, row_learning_rate : float, default 0.002 and 0.1
        Of Adam; and of Adagrad on the first layer of sparse features.
    batch_size : int, default 256
    dropout : float in [0, 1), default 0.0
        Of hidden values, in training.
    tail : {"psp", "psp:A,B", "macro_recall"}, optional
        Order labels by probability times gain, where rare labels gain more; see :meth:`XRLinear.rank`.
    n_jobs : int, optional
        Threads; None or -1 for every core. Neither model nor answer depends on it.
    seed : int, default 0

    Attributes
    ----------
    buckets_ : Buckets
    network_ : BucketNetwork
    n_features_, n_labels_, n_rows_ : int
        Sizes seen in ``fit``.
    label_counts_ : ndarray of int64, shape (n_labels_,)
        Training rows of each label.

    Notes
    -----
    Features of which less than a quarter are stored are taken as sparse: the first layer is then an embedding bag of
    n_features * n_repetitions * hidden weights, which is most of the model. Once it is trained it is rounded to four
    bits a weight, in which it is saved; in memory it takes four bytes a weight.

    The defaults were chosen on parts of two sets of real texts: more buckets than "auto" takes were learned slower and
    no better, and the epochs of a falling learning rate at the end gave more than repetitions beyond eight. The order
    matters more: where labels share buckets, "likelihood" puts the right ones of a row first far more often than sums
    or votes do, from the second label on.

    References
    ----------
    Gupta et al. (2021), "IRLI: Iterative Re-partitioning for Learning to Index", sections 3 and 5.1.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import IRLIClassifier
    >>> X = np.eye(6, dtype=np.float32).repeat(10, axis=0)
    >>> model = IRLIClassifier(n_buckets=4, n_repetitions=4, hidden=16, rounds=1, n_jobs=1).fit(X, np.arange(60) // 10)
    >>> model.rank(np.eye(6), k=1).labels.ravel().tolist()
    [0, 1, 2, 3, 4, 5]
    """

    kind = "irli"
    unlearns = True

    n_buckets: NBucketsOrAuto = "auto"
    n_repetitions: Repetitions = 8
    hidden: Hidden = 256
    choices: Choices = 10
    probes: Annotated[int, Range(1, MOST_BUCKETS)] = 50
    min_votes: Repetitions = 1
    order: BucketOrder = "likelihood"
    rounds: NumberOfRounds = "auto"
    epochs_per_round: Annotated[int, Range(1)] = 4
    final_epochs: Annotated[int, Range(0)] = 8
    learning_rate: Rate = 0.002
    row_learning_rate: Rate = 0.1
    batch_size: Annotated[int, Range(1)] = 256
    dropout: Annotated[float, Range(0, 0.99)] = 0.0
    tail: Annotated[str | None, Tail()] = None
    n_jobs: Threads = None
    seed: Seed = 0

    fitted_: FittedIRLI = attribute()

    def fit(
        self, X: Any, Y: Any, sample_weight: Any = None, *,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None, runner: Runner | None = None,
    ) -> IRLIClassifier:  # fmt: skip
        """Learn the partitions and their networks.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        Y : label matrix of shape (n, L), lists of label ids or names, or one class id or name per row
            A label is there or not; by how much is not asked.
        sample_weight : array of shape (n,), optional
            Factor of each row's loss; rows of weight 0 are ignored.
        checkpoint : path or Checkpoint, optional
            A folder for what each round has learned, from which the same call goes on after an interruption, to the
            same bits. A short training of small networks writes nothing; a path is removed when ``fit`` is done.
        runner : Runner, optional
            Who runs the training's jobs, instead of threads of this process; see :mod:`sylvan.runtime`.

        Raises
        ------
        ImportError
            When PyTorch isn't installed.
        DataError
            When an array is malformed, or the arrays' shapes don't agree.
        ParameterError
            When a parameter is out of its range.
        ModelError
            When ``checkpoint`` is another training's, or can't be written.
        """
        self.check_params()
        validate.count(self.min_votes, "min_votes", owner=type(self).__name__, high=self.n_repetitions)
        jobs = resolve_jobs(self.n_jobs)
        features, labels, vocabulary = self._training_pair(X, Y)
        weight = validate.sample_weight(sample_weight, features.shape[0])
        n_features, n_labels = features.shape[1], labels.shape[1]
        if labels.nnz == 0:
            raise DataError(f"Y has shape {labels.shape} but holds no label: there is nothing to learn.")
        n_bytes, available = 4 * n_features * self.n_repetitions * self.hidden, available_bytes()
        if available is not None and n_bytes > available:
            raise MemoryLimitError(
                f"The networks of {counted(n_features, 'feature')} would take {shown_bytes(n_bytes)} of memory, but "
                f"there are only {shown_bytes(available)}. What takes less: fewer features (number those that occur), "
                "or smaller n_repetitions and hidden."
            )
        rows = taught_rows(labels, weight)
        dense = features.nnz >= _DENSE * features.shape[0] * max(n_features, 1)
        inputs: Any = take_rows(features, rows).to_scipy()
        inputs, truths = inputs.toarray() if dense else inputs, take_rows(labels, rows).to_scipy()
        holdout = judge = None
        if self.rounds != 0 and len(rows) >= _FEWEST_ROWS:  # the rows by which the round is chosen
            order = np.random.default_rng([self.seed, 5]).permutation(len(rows))
            holdout = np.sort(order[: min(len(rows) // 10, _MOST_HOLDOUT)])
            judge = PrecisionJudge(inputs[holdout], truths[holdout], self._query(), n_jobs=jobs)
        n_buckets = buckets_for(n_labels) if isinstance(self.n_buckets, str) else int(self.n_buckets)
        learned = fit_partitions(
            type(self).__name__, {**self.get_params(deep=False), "n_buckets": n_buckets},
            {"X": features, "Y": labels, "sample_weight": weight}, inputs, truths, n_jobs=jobs, checkpoint=checkpoint,
            runner=runner, judge=judge, holdout=holdout, row_weights=None if weight is None else weight[rows],
        )  # fmt: skip
        network = learned.network if dense else learned.network.rounded()
        self.fitted_ = FittedIRLI(learned.buckets, network, learned.record, bool(dense), learned.row_sums)
        self.n_rows_, self.n_features_ = features.shape
        self.label_counts_ = np.bincount(labels.indices, minlength=n_labels).astype(np.int64)
        self._keep_names(X, vocabulary, one_class_a_row(Y))
        self.n_labels_ = n_labels
        return self

    def _query(self, **settings: Any) -> BucketQuery:
        """How buckets are looked into and labels ranked."""
        values = {name: value for name, value in settings.items() if value is not None}
        check_values(self.constraints, "rank", **values)
        return BucketQuery(**{"probes": self.probes, "min_votes": self.min_votes, "order": self.order, **values})

    @of_one_state
    def rank(
        self, X: Any, k: int = 10, *, probes: int | None = None, min_votes: int | None = None,
        order: BucketOrder | None = None, tail: str | None = None, allowed: Any = None, denied: Any = None,
    ) -> TopK:  # fmt: skip
        """The ``k`` best labels of each row.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features_)
        k : int
            Labels a row; where there are fewer candidates, the row ends in label -1.
        probes, min_votes, order : optional
            Instead of the model's own.
        tail : {"psp", "psp:A,B", "macro_recall", "none"}, optional
            Instead of the model's own; see :meth:`XRLinear.rank`.
        allowed, denied : label ids, or a mask of shape (n, n_labels_), optional
            The only labels to answer with, for every row or row by row, and labels not to answer with; see
            :class:`~sylvan.arrays.label_filter.LabelFilter` for the forms. Buckets and scores are the same with and
            without.

        Returns
        -------
        TopK
            Labels and scores of shape (n, k), best first, lower label first among equals. A score lies in [0, 1]: the
            geometric mean of the label's buckets' probabilities for "likelihood", their mean for "probability", and
            for "votes" a number that orders by votes first.

        Raises
        ------
        NotFittedError, DataError, ParameterError
        """
        self._need_fit("rank")
        k = validate.count(k, "k", high=max(self.n_labels_, MOST_ANSWERS))
        options = {"probes": probes, "min_votes": min_votes, "order": order}
        query = self._query(**options)
        validate.count(query.min_votes, "min_votes", high=self.fitted_.buckets.n_repetitions)
        if (tail := tail_of(self.tail, tail)) is not None:
            return self._rank_for_tail(X, k, tail, allowed=allowed, denied=denied, **options)
        features = self._features(X)
        labels = self._filter(allowed, denied, features.shape[0])
        return self._named(self.fitted_.rank(features, k, query, labels, n_jobs=resolve_jobs(self.n_jobs)))

    def report(self, X: Any = None) -> BucketReport:
        """How balanced the buckets are, how the training went, and how many labels are candidates for an input.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features_), optional
            What candidates are counted for; without it, none are.

        Returns
        -------
        BucketReport
            Data, with ``text()``, ``to_dict()`` and ``save(path)``, which draws it.

        Raises
        ------
        NotFittedError, DataError

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import IRLIClassifier
        >>> X = np.eye(6, dtype=np.float32).repeat(10, axis=0)
        >>> model = IRLIClassifier(n_buckets=3, n_repetitions=4, hidden=16, rounds=1, n_jobs=1)
        >>> report = model.fit(X, np.arange(60) // 10).report()
        >>> report.n_labels, report.mean_load, len(report.load_deviation), len(report.rounds)
        (6, 2.0, 4, 2)
        """
        self._need_fit("report")
        counts = np.zeros(0, np.int64), np.zeros(0, np.int64)
        if X is not None:
            counts = self.fitted_.count(self._features(X), self._query(), resolve_jobs(self.n_jobs))
        return BucketReport.of(self.fitted_.buckets, self.fitted_.rounds, *counts)

    @property
    def buckets_(self) -> Buckets:
        """Which bucket each label is in, in every repetition."""
        return self.fitted_.buckets

    @property
    def network_(self) -> BucketNetwork:
        """The networks of all repetitions."""
        return self.fitted_.network

    # ---------------------------------------- bringing up to date

    @all_at_once
    def update(
        self, X: Any = None, Y: Any = None, sample_weight: Any = None, *, rows: tuple[Any, Any] | None = None,
        epochs: int | None = None, n_features: int | None = None, **options: Any,
    ) -> IRLIClassifier:  # fmt: skip
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
            row are shown, at least 500, newly drawn.
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
        model that has grown a lot is better trained again.

        Adam begins again; Adagrad goes on with its sums, which a model of sparse features keeps beside its networks.

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
        learned_rows, vocabulary = self._update_rows(X, Y, sample_weight, rows, epochs, n_features, options)
        n_before, n_labels = self.n_labels_, learned_rows.truths.shape[1]
        self.fitted_ = self.fitted_.updated(self, learned_rows)
        self.vocabulary_, self.n_labels_, self.n_features_ = vocabulary, n_labels, learned_rows.X.shape[1]
        self.n_rows_, self.label_counts_ = learned_rows.n_rows, learned_rows.label_counts
        fresh = np.diff(learned_rows.truths[:, n_before:].tocsr().indptr) > 0
        if rows is None and fresh.sum() > (~fresh).sum():
            warnings.warn(
                f"This {type(self).__name__} has learned new labels ({n_labels - n_before:,}) from rows "
                f"({len(fresh):,}) of which few or none have known labels alone: known labels are answered less from "
                "now on, and new ones too often. With rows=(X, Y), rows that it was trained on, it learns both.",
                RowsUnknownWarning, stacklevel=4,
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
        learned_rows, _ = self._update_rows(X, Y, sample_weight, rows, epochs, n_features, options)
        return self.fitted_.plan_update(self, learned_rows)

    def _update_rows(
        self, X: Any, Y: Any, sample_weight: Any, rows: Any, epochs: Any, n_features: Any, options: Mapping[str, Any]
    ) -> tuple[UpdateRows, Vocabulary | None]:
        """What an update learns from, verified, and the names of labels then."""
        self.check_params()
        owner, unused = type(self).__name__, [name for name, value in options.items() if value is not None]
        if "forget" in unused:
            raise UnsupportedError(
                f"{owner} can't forget rows: its networks hold something of each that they were shown. Train it again "
                "without them."
            )
        if "merge" in unused:
            raise UnsupportedError(
                f"{owner} can't merge labels: it keeps no rows. Train it again with their rows as one label's, or "
                "remove those that are to be answered no more (without_labels)."
            )
        if unused:
            raise UnsupportedError(f"The update of {owner} takes no {unused[0]!r}, but rows, epochs and n_features.")
        need_torch("Bringing an IRLIClassifier up to date")
        known_rows = None if rows is None else self._known_rows(rows)
        width = None if n_features is None else self._more_features(n_features)
        if epochs is not None:
            epochs = validate.count(epochs, "epochs", owner="update")
        if X is None or Y is None:
            raise DataError("update takes X and Y together: the new rows, and their labels.")
        new, vocabulary = self._given_rows(X, Y, sample_weight, width)
        return UpdateRows.of(new, known_rows, self.fitted_.dense, epochs, self.n_rows_, self.label_counts_), vocabulary

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

    # ---------------------------------------- labels and files

    def _drop_labels(self, ids: Int32) -> None:
        self.fitted_ = replace(self.fitted_, buckets=self.fitted_.buckets.without(ids))
        self._note_dropped(ids)

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Array], dict[str, store.State]]:
        (meta, arrays, parts), learned = super()._fitted_state(), self.fitted_.to_parts()
        return meta | learned[0], arrays | learned[1], parts

    def _restore(self, state: store.State) -> None:
        super()._restore(state)
        self.fitted_ = FittedIRLI.from_state(state, self.n_features_, self.n_labels_)


def buckets_for(n_labels: int) -> int:
    """The number of buckets that "auto" means."""
    return int(max(2 ** round(np.log2(6 * np.sqrt(max(n_labels, 1)))), 16))


store.register(IRLIClassifier.kind, IRLIClassifier.from_state)
