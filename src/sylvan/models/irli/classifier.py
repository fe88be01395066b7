"""IRLIClassifier: labels in buckets, learned in turns with networks that predict an input's buckets (IRLI)."""

from __future__ import annotations

import os
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.canonical import take_rows
from sylvan.arrays.topk import TopK
from sylvan.errors import DataError, MemoryLimitError, ParameterError
from sylvan.models.base import MOST_ANSWERS
from sylvan.models.irli.bucket_network import BucketNetwork
from sylvan.models.irli.bucket_scores import BucketOrder, BucketQuery, count_candidates, rank_labels
from sylvan.models.irli.buckets import MOST_REPETITIONS, Buckets
from sylvan.models.irli.learning import fit_partitions
from sylvan.models.irli.report import BucketReport
from sylvan.models.irli.rounds import PrecisionJudge, Rounds
from sylvan.models.irli.settings import (
    MOST_BUCKETS,
    Batch,
    Choices,
    Dropout,
    Epochs,
    FinalEpochs,
    Hidden,
    NBucketsOrAuto,
    NumberOfRounds,
    Rate,
    Repetitions,
)  # fmt: skip
from sylvan.models.irli.updates import IRLIUpdates
from sylvan.models.label_changes import one_class_a_row
from sylvan.parallel import resolve_jobs
from sylvan.params.fields import Range, Seed, Threads, attribute, parameterized
from sylvan.params.wording import counted
from sylvan.ranking.tail import Tail, tail_of
from sylvan.runtime import Checkpoint, Runner
from sylvan.runtime.memory import available_bytes, shown_bytes

_DENSE = 0.25  # share of stored values from which a matrix is multiplied as a dense one
_FEWEST_ROWS, _MOST_HOLDOUT = 200, 2000


@parameterized
class IRLIClassifier(IRLIUpdates):
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

    n_buckets: NBucketsOrAuto = "auto"
    n_repetitions: Repetitions = 8
    hidden: Hidden = 256
    choices: Choices = 10
    probes: Annotated[int, Range(1, MOST_BUCKETS)] = 50
    min_votes: Repetitions = 1
    order: BucketOrder = "likelihood"
    rounds: NumberOfRounds = "auto"
    epochs_per_round: Epochs = 4
    final_epochs: FinalEpochs = 8
    learning_rate: Rate = 0.002
    row_learning_rate: Rate = 0.1
    batch_size: Batch = 256
    dropout: Dropout = 0.0
    tail: Annotated[str | None, Tail()] = None
    n_jobs: Threads = None
    seed: Seed = 0

    buckets_: Buckets = attribute()
    network_: BucketNetwork = attribute()
    _rounds: Rounds = attribute()
    _dense: bool = attribute()
    _row_sums: npt.NDArray[np.float32] | None = attribute()

    def fit(
        self,
        X: Any,
        Y: Any,
        sample_weight: Any = None,
        *,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
        runner: Runner | None = None,
    ) -> IRLIClassifier:
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
        jobs = resolve_jobs(self.n_jobs)
        features, labels, vocabulary = self._training_pair(X, Y)
        weight = validate.sample_weight(sample_weight, features.shape[0])
        if labels.nnz == 0:
            raise DataError(f"Y has shape {labels.shape} but holds no label: there is nothing to learn.")
        self._need_room(features.shape[1])
        dense = features.nnz >= _DENSE * features.shape[0] * max(features.shape[1], 1)
        labelled = np.diff(labels.indptr) > 0
        rows = np.flatnonzero(labelled if weight is None else labelled & (weight > 0))
        if not len(rows):
            raise DataError("No row of X has both a label and a weight above 0: there is nothing to learn.")
        inputs: Any = take_rows(features, rows).to_scipy()
        inputs, truths = inputs.toarray() if dense else inputs, take_rows(labels, rows).to_scipy()
        holdout, judge = self._holdout(len(rows)), None
        if holdout is not None:
            judge = PrecisionJudge(inputs[holdout], truths[holdout], self._query(None, None, None), n_jobs=jobs)
        n_buckets = buckets_for(labels.shape[1]) if isinstance(self.n_buckets, str) else int(self.n_buckets)
        learned = fit_partitions(
            type(self).__name__,
            {**self.get_params(deep=False), "n_buckets": n_buckets},
            {"X": features, "Y": labels, "sample_weight": weight},
            inputs,
            truths,
            n_jobs=jobs,
            checkpoint=checkpoint,
            runner=runner,
            judge=judge,
            holdout=holdout,
            row_weights=None if weight is None else weight[rows],
        )
        self.buckets_, self.network_ = learned.buckets, learned.network if dense else learned.network.rounded()
        self._rounds, self._dense = Rounds(learned.rounds, learned.best_round), bool(dense)
        self._row_sums = learned.row_sums
        self.n_rows_, self.n_features_ = features.shape
        self.label_counts_ = np.bincount(labels.indices, minlength=labels.shape[1]).astype(np.int64)
        self._keep_names(X, vocabulary, one_class_a_row(Y))
        self.n_labels_ = labels.shape[1]
        return self

    def _need_room(self, n_features: int) -> None:
        """Refuse first layers that the machine has no memory for."""
        n_bytes, available = 4 * n_features * self.n_repetitions * self.hidden, available_bytes()
        if available is not None and n_bytes > available:
            raise MemoryLimitError(
                f"The networks of {counted(n_features, 'feature')} would take {shown_bytes(n_bytes)} of memory, but "
                f"there are only {shown_bytes(available)}. What takes less: fewer features (number those that occur), "
                "or smaller n_repetitions and hidden."
            )

    def _holdout(self, n_rows: int) -> npt.NDArray[np.int64] | None:
        """The rows by which the round is chosen; None where there is nothing to choose, or too little to choose by."""
        if self.rounds == 0 or n_rows < _FEWEST_ROWS:
            return None
        order = np.random.default_rng([self.seed, 5]).permutation(n_rows)
        return np.sort(order[: min(n_rows // 10, _MOST_HOLDOUT)])

    def _query(self, probes: int | None, min_votes: int | None, order: BucketOrder | None) -> BucketQuery:
        """How buckets are looked into and labels ranked."""
        asked = {"probes": probes, "min_votes": min_votes, "order": order}
        for name, value in asked.items():
            allowed = self.constraints[name]
            if value is not None and not allowed.accepts(value):
                words = f"The {name!r} parameter of rank must be {allowed.describe()}"
                raise ParameterError(f"{words}. Got {value!r} instead.")
        return BucketQuery(
            self.probes if probes is None else probes,
            self.min_votes if min_votes is None else min_votes,
            self.order if order is None else order,
        )

    def rank(
        self,
        X: Any,
        k: int = 10,
        *,
        probes: int | None = None,
        min_votes: int | None = None,
        order: BucketOrder | None = None,
        tail: str | None = None,
        allowed: Any = None,
        denied: Any = None,
    ) -> TopK:
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
        query = self._query(probes, min_votes, order)
        if (tail := tail_of(self.tail, tail)) is not None:
            options = {"probes": probes, "min_votes": min_votes, "order": order}
            return self._rank_for_tail(X, k, tail, allowed=allowed, denied=denied, **options)
        features = self._features(X)
        labels = self._filter(allowed, denied, features.shape[0])
        jobs = resolve_jobs(self.n_jobs)
        top = rank_labels(
            self.buckets_, self.network_, features, k, query, labels=labels, dense=self._dense, n_jobs=jobs
        )
        return self._named(top)

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
        counts = touched = np.zeros(0, np.int64)
        if X is not None:
            counts, touched = count_candidates(
                self.buckets_,
                self.network_,
                self._features(X),
                self._query(None, None, None),
                dense=self._dense,
                n_jobs=resolve_jobs(self.n_jobs),
            )
        return BucketReport.of(self.buckets_, self._rounds, counts, touched)

    def _drop_labels(self, ids: npt.NDArray[np.int32]) -> None:
        self.buckets_ = self.buckets_.without(ids)
        self._note_dropped(ids)

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], dict[str, store.State]]:
        meta, arrays, parts = super()._fitted_state()
        meta |= {"n_buckets_used": self.buckets_.n_buckets, "n_repetitions_used": self.buckets_.n_repetitions}
        meta |= {"dense": self._dense, **self._rounds.as_json()}
        if self._row_sums is not None:
            arrays["row_sums"] = self._row_sums
        return meta, arrays | self.buckets_.arrays() | self.network_.arrays(), parts

    def _restore(self, state: store.State) -> None:
        super()._restore(state)
        n_buckets = store.need_int(state, "n_buckets_used", 1, MOST_BUCKETS)
        n_repetitions = store.need_int(state, "n_repetitions_used", 1, MOST_REPETITIONS)
        self._dense = store.need_bool(state, "dense")
        self._rounds = Rounds.from_state(state)
        self.buckets_ = Buckets.from_arrays(state, n_buckets, n_repetitions, self.n_labels_)
        self.network_ = BucketNetwork.from_arrays(state, self.n_features_, n_repetitions, n_buckets)
        self._row_sums = None
        if "row_sums" in state.arrays:
            self._row_sums = store.need_array(state, "row_sums", np.float32, (self.n_features_, n_repetitions))


def buckets_for(n_labels: int) -> int:
    """The number of buckets that "auto" means."""
    return int(max(2 ** round(np.log2(6 * np.sqrt(max(n_labels, 1)))), 16))


store.register(IRLIClassifier.kind, IRLIClassifier.from_state)
