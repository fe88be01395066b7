"""Partitions and bucket networks learned in turns: train, re-partition by affinity and load, train again (IRLI)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.canonical import Csr
from sylvan.errors import DataError
from sylvan.indexing.buckets import Buckets, hash_partition, least_loaded
from sylvan.indexing.checks import check_number
from sylvan.lazy import need_torch
from sylvan.matching.bucket_network import BucketNetwork, Float32
from sylvan.models.irli.affinity import best_buckets_by_instances, best_buckets_by_vectors, expected_affinity
from sylvan.models.irli.judge import Judge, recall_judge
from sylvan.models.irli.rounds import LearnedPartitions, LearningRound, RoundKeeper
from sylvan.parallel import Progress, map_parallel, progress
from sylvan.params import Choice, Number

if TYPE_CHECKING:
    from sylvan.models.irli.training import GroupTrainer

__all__ = ["LearnedPartitions", "LearningRound", "learn_partitions"]

_MOST_ROUNDS = 10  # of rounds="auto"
_GROUP_WIDTH = 512  # hidden values that are trained together, at least one repetition's
_SAMPLE = 10_000  # labels or rows from which expected affinity is estimated
_SETTLED = 0.001  # share of labels newly assigned below which nothing is to be gained by another round
_FEWEST_HELD_OUT, _MOST_HELD_OUT = 20, 1000


def learn_partitions(
    X: Float32 | Csr | sp.csr_matrix,
    truths: Csr | sp.csr_matrix,
    n_labels: int,
    *,
    n_buckets: int,
    n_repetitions: int = 16,
    hidden: int = 1024,
    choices: int = 10,
    rounds: int | str = "auto",
    epochs_per_round: int = 5,
    final_epochs: int = 5,
    learning_rate: float = 0.001,
    row_learning_rate: float = 0.1,
    batch_size: int = 256,
    dropout: float = 0.0,
    label_vectors: Float32 | None = None,
    held_out: tuple[Any, Any] | None = None,
    judge: Judge | None = None,
    row_weights: Float32 | None = None,
    left_out: npt.NDArray[np.int64] | None = None,
    keeper: RoundKeeper | None = None,
    room: float = 0.0,
    seed: int = 0,
    n_jobs: int = 1,
) -> LearnedPartitions:
    """Learn partitions of the labels and networks that find an input's buckets, in turns.

    Labels are hashed into buckets, with a function for each repetition. Then, round by round, the networks are trained
    for some epochs to say which buckets hold a label of an input, and each label is moved to the least loaded of the
    buckets that it has most affinity to.

    Parameters
    ----------
    X : ndarray of float32, or CSR matrix, of shape (n, n_features)
        Inputs; of sparse ones the first layer is an embedding bag.
    truths : CSR matrix of shape (n, n_labels)
        The labels of each input; for vectors, its nearest neighbours in the base. Values don't matter.
    n_labels : int
    n_buckets, n_repetitions : int
        The paper's B and R.
    hidden : int
        Width of each network's hidden layer.
    choices : int
        Buckets of most affinity from which the least loaded is chosen; the paper's K. Where there are fewer buckets,
        all of them.
    rounds : int or "auto"
        Re-partitions. "auto" goes on until the held-out score no longer rises or hardly a label moves, and keeps the
        round of the best score. With a number, too, the best of so many is kept where there is a judge or are rows
        held out; otherwise the last.
    epochs_per_round, final_epochs : int
        Epochs of training after each re-partition, and at last on the partition that is kept, with a learning rate
        that falls to nothing.
    learning_rate, row_learning_rate : float
        Of Adam; and of Adagrad on the first layer of sparse inputs.
    batch_size : int
    dropout : float in [0, 1)
        Of hidden values, in training.
    label_vectors : ndarray of float32, shape (n_labels, n_features), optional
        Where labels are vectors of the inputs' space, the networks' answers to these are their affinity (Definition 2).
        Without them a label's affinity is the sum over its inputs (Definition 1), and labels without any stay where
        hashing put them.
    held_out : pair of X and truths, optional
        Inputs to choose the round by. With rounds="auto" and neither these nor a judge, a tenth of the rows, at most
        1,000, is held out from all but the final epochs; fewer than 200 rows have none to spare, and one round is
        made.
    judge : callable, optional
        Given Buckets and BucketNetwork, gives measures of which "score" decides, larger being better; by default
        recall against the number of candidates, see :func:`~sylvan.models.irli.judge.recall_judge`.
    row_weights : ndarray of float32, shape (n,), optional
        Factor of each row's loss.
    left_out : ndarray of int64, optional
        Rows that only the final epochs learn from, because a judge knows them.
    keeper : RoundKeeper, optional
        Is given all that learning goes on from at the end of each round, and asked for it at the beginning: what was
        learned before an interruption isn't learned again, and the bits are the same.
    room : float
        Soft capacity: buckets of less than so many times the mean load take the labels that like them best at once.
        With 0, as in the paper, the least loaded is always chosen.
    seed : int
    n_jobs : int
        Threads; groups of repetitions are trained beside each other, each group on one thread, so that the bits are
        the same for any number.

    Returns
    -------
    LearnedPartitions

    Raises
    ------
    ImportError
        When PyTorch isn't installed.
    DataError, ParameterError

    References
    ----------
    Gupta et al. (2021), "IRLI", sections 3.1 and 3.2.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from sylvan.models.irli.learning import learn_partitions
    >>> X = np.eye(8, dtype=np.float32).repeat(20, axis=0)  # 8 groups of inputs, 3 labels each
    >>> truths = sp.csr_matrix(np.kron(np.eye(8), np.ones((20, 3))))
    >>> learned = learn_partitions(X, truths, 24, n_buckets=8, n_repetitions=2, hidden=16, choices=2, rounds=2)
    >>> learned.rounds[-1].affinity_after > learned.rounds[0].affinity_after
    True
    """
    need_torch("Learning partitions")
    for name, value, allowed in (
        ("hidden", hidden, Number(int, 1)),
        ("choices", choices, Number(int, 1)),
        ("rounds", rounds, Choice(("auto",)) if isinstance(rounds, str) else Number(int, 0)),
        ("epochs_per_round", epochs_per_round, Number(int, 1)),
        ("final_epochs", final_epochs, Number(int, 0)),
        ("learning_rate", learning_rate, Number(float, 0, open_low=True)),
        ("row_learning_rate", row_learning_rate, Number(float, 0, open_low=True)),
        ("batch_size", batch_size, Number(int, 1)),
        ("dropout", dropout, Number(float, 0, 0.99)),
        ("room", room, Number(float, 0, 1000)),
    ):
        check_number(name, value, allowed)
    from sylvan.models.irli.training import TrainingOptions

    options = TrainingOptions(hidden, learning_rate, batch_size, row_learning_rate, dropout, seed)
    learning = _Learning(X, truths, n_labels, label_vectors, n_buckets, n_repetitions, options, n_jobs, row_weights)
    learning.leave_out(left_out)
    learning.choices, learning.room, learning.epochs = min(choices, n_buckets), room, epochs_per_round
    judge = learning.judged_by(judge, held_out, rounds == "auto")
    most = rounds if isinstance(rounds, int) else _MOST_ROUNDS if judge is not None else 1
    return learning.run(most, rounds == "auto", final_epochs, judge, keeper)


class _Learning:
    """Inputs, partitions and networks on their way."""

    choices: int
    room: float
    epochs: int

    def __init__(
        self,
        X: Any,
        truths: Any,
        n_labels: int,
        label_vectors: Float32 | None,
        n_buckets: int,
        n_repetitions: int,
        options: Any,
        n_jobs: int,
        weights: Float32 | None,
    ) -> None:
        self.X, self.truths = _matrix(X), _matrix(truths)
        if self.X.shape[0] != self.truths.shape[0] or self.truths.shape[1] != n_labels:
            raise DataError(
                f"Partitions of {n_labels} labels are learned from inputs and truths with equal numbers of rows and "
                f"{n_labels} columns of truths. Got shapes {self.X.shape} and {self.truths.shape} instead."
            )
        if label_vectors is not None and label_vectors.shape != (n_labels, self.X.shape[1]):
            raise DataError(
                f"'label_vectors' must have shape {(n_labels, self.X.shape[1])}. Got {label_vectors.shape} instead."
            )
        labelled = np.flatnonzero(np.diff(self.truths.indptr))
        if not len(labelled):
            raise DataError("No row has a label: there is nothing to learn.")
        if len(labelled) < self.X.shape[0]:
            self.X, self.truths = self.X[labelled], self.truths[labelled]
        self.labelled = labelled
        self.weights = None if weights is None else weights[labelled] / weights[labelled].mean(dtype=np.float64)
        self.vectors, self.n_buckets, self.options, self.n_jobs = label_vectors, n_buckets, options, n_jobs
        self.assignment = hash_partition(n_labels, n_buckets, n_repetitions, options.seed)
        size = max(_GROUP_WIDTH // options.hidden, 1)
        self.groups = [range(i, min(i + size, n_repetitions)) for i in range(0, n_repetitions, size)]
        self.shown: npt.NDArray[np.int64] | None = None  # the rows that aren't held out

    def leave_out(self, rows: npt.NDArray[np.int64] | None) -> None:
        """Keep some rows, of all that were given, from all but the final epochs."""
        if rows is not None:
            self.shown = np.flatnonzero(~np.isin(self.labelled, rows))
            if not len(self.shown):
                raise DataError("All rows that have a label are left out: there is nothing to learn.")

    def judged_by(self, judge: Judge | None, held_out: tuple[Any, Any] | None, automatic: bool) -> Judge | None:
        """Who chooses the round; rows are held out where that is needed."""
        if judge is not None:
            return judge
        if held_out is not None:
            return recall_judge(*held_out, n_jobs=self.n_jobs)
        n = self.X.shape[0]
        size = min(n // 10, _MOST_HELD_OUT)
        if not automatic or size < _FEWEST_HELD_OUT:
            return None
        order = np.random.default_rng([self.options.seed, 0]).permutation(n)
        self.shown = np.sort(order[size:])
        apart = np.sort(order[:size])
        return recall_judge(self.X[apart], self.truths[apart], n_jobs=self.n_jobs)

    def run(
        self, most: int, automatic: bool, final_epochs: int, judge: Judge | None, keeper: RoundKeeper | None
    ) -> LearnedPartitions:
        """All rounds and the final epochs."""
        from sylvan.models.irli.training import GroupTrainer, InputScale, one_thread

        scale = InputScale.of(self.X)
        with one_thread():
            trainers = map_parallel(
                lambda group: GroupTrainer(
                    self.X, self.truths, group, self.n_buckets, scale, self.options, self.weights
                ),
                self.groups,
                self.n_jobs,
            )
            turns = _Turns()
            if keeper is not None and (tree := keeper.load()) is not None:
                self.assignment = turns.restore(tree, trainers)
            while not turns.ended:
                self._turn(turns, trainers, judge)
                turns.ended |= len(turns.rounds) > most or (automatic and turns.settled())
                if keeper is not None:
                    keeper.save(turns.tree(self.assignment, trainers))
            self.assignment = turns.best_assignment
            for trainer, state in zip(trainers, turns.best_states, strict=True):
                trainer.load_state(state)
            if final_epochs:
                self.shown = None
                self._train(trainers, final_epochs, "final epochs", fade=True)
            buckets = Buckets.from_assignment(self.assignment, self.n_buckets)
            return LearnedPartitions(buckets, _join(trainers), tuple(turns.rounds), turns.best)

    def _turn(self, turns: _Turns, trainers: list[GroupTrainer], judge: Judge | None) -> None:
        """One round: move the labels, but for the first, and train."""
        start, number = time.monotonic(), len(turns.rounds)
        moved = np.zeros(len(self.assignment))
        network = _join(trainers)
        before = turns.rounds[-1].affinity_after if number else self._affinity(network)
        if number:
            old, self.assignment = self.assignment, self._repartition(network)
            moved = (old != self.assignment).mean(axis=1)
        loss = self._train(trainers, self.epochs, f"round {number}")
        network = _join(trainers)
        buckets = Buckets.from_assignment(self.assignment, self.n_buckets)
        found = None if judge is None else judge(buckets, network)
        after, seconds = self._affinity(network), time.monotonic() - start
        turns.rounds.append(LearningRound(number, moved, before, after, buckets.load_deviation(), loss, seconds, found))
        score = float(number) if found is None else found["score"]
        if not number or score > turns.best_score:
            turns.best, turns.best_score, turns.best_assignment = number, score, self.assignment
            turns.best_states = [trainer.state() for trainer in trainers]

    def _train(self, trainers: list[GroupTrainer], epochs: int, name: str, *, fade: bool = False) -> float:
        """Some epochs of all networks; the mean loss."""
        total = sum(trainer.n_batches(self.shown) for trainer in trainers) * epochs
        with progress(f"Learning, {name}", total, "batch") as bar, _ticking(bar) as (tick, ending):

            def work(trainer: GroupTrainer) -> float:
                with ending():
                    part = self.assignment[trainer.repetitions.start : trainer.repetitions.stop]
                    return trainer.train(part, epochs, rows=self.shown, fade=fade, tick=tick)

            losses = map_parallel(work, trainers, self.n_jobs)
        return float(np.average(losses, weights=[len(group) for group in self.groups]))

    def _repartition(self, network: BucketNetwork) -> npt.NDArray[np.int32]:
        """Where each label goes, by affinity and load."""
        room = int(self.room * self.assignment.shape[1] / self.n_buckets)

        def work(repetition: int) -> npt.NDArray[np.int32]:
            one = network.only(repetition)
            if self.vectors is not None:
                best = best_buckets_by_vectors(one, self.vectors, self.choices)
            else:
                X = self.X if self.shown is None else self.X[self.shown]
                truths = self.truths if self.shown is None else self.truths[self.shown]
                best = best_buckets_by_instances(one, X, truths, self.choices)
            return least_loaded(best, self.n_buckets, current=self.assignment[repetition], room=room)

        found = map_parallel(work, range(network.n_repetitions), self.n_jobs, description="Re-partitioning")
        return np.stack(found)

    def _affinity(self, network: BucketNetwork) -> float:
        """Theorem 1's quantity, of some labels or rows."""
        random = np.random.default_rng([self.options.seed, 4])
        if self.vectors is not None:
            n = len(self.vectors)
            some = np.sort(random.permutation(n)[:_SAMPLE])
            truths = sp.csr_matrix((np.ones(len(some)), some, np.arange(len(some) + 1)), shape=(len(some), n))
            return expected_affinity(network, self.vectors[some], truths, self.assignment, self.n_jobs)
        rows = np.arange(self.X.shape[0]) if self.shown is None else self.shown
        some = np.sort(random.permutation(rows)[:_SAMPLE])
        return expected_affinity(network, self.X[some], self.truths[some], self.assignment, self.n_jobs)


@dataclass
class _Turns:
    """How far learning has come, and what was best."""

    rounds: list[LearningRound] = field(default_factory=list)
    ended: bool = False
    best: int = 0
    best_score: float = -np.inf
    best_assignment: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros((0, 0), np.int32))
    best_states: list[dict[str, Any]] = field(default_factory=list)

    def settled(self) -> bool:
        """Whether another round would be of no use."""
        number = len(self.rounds) - 1
        return self.best < number or (number > 0 and float(self.rounds[-1].moved.mean()) < _SETTLED)

    def tree(self, assignment: npt.NDArray[np.int32], trainers: list[GroupTrainer]) -> dict[str, Any]:
        """Everything, for a keeper."""
        latest = self.best == len(self.rounds) - 1  # once is enough where the last round is the best
        return {
            **vars(self),
            "rounds": [one.as_dict() for one in self.rounds],
            "assignment": assignment,
            "states": [] if latest else [trainer.state() for trainer in trainers],
        }

    def restore(self, tree: Mapping[str, Any], trainers: list[GroupTrainer]) -> npt.NDArray[np.int32]:
        """What :meth:`tree` gave, put back; the assignment of the last round."""
        self.rounds = [LearningRound.from_dict(one) for one in tree["rounds"]]
        for name in ("ended", "best", "best_score", "best_assignment", "best_states"):
            setattr(self, name, tree[name])
        for trainer, state in zip(trainers, tree["states"] or self.best_states, strict=True):
            trainer.load_state(state)
        found: npt.NDArray[np.int32] = tree["assignment"]
        return found


@contextmanager
def _ticking(bar: Progress) -> Iterator[tuple[Callable[[], bool], Any]]:
    """A callable for every batch, which several threads call, and a block in which an error ends all of them.

    Otherwise a Ctrl-C would have to wait until the other threads have finished their round.
    """
    lock, over = threading.Lock(), threading.Event()

    def tick() -> bool:
        with lock:
            bar.update()
        return not over.is_set()

    @contextmanager
    def ending() -> Iterator[None]:
        try:
            yield
        except BaseException:
            over.set()
            raise

    yield tick, ending


def _join(trainers: list[GroupTrainer]) -> BucketNetwork:
    """The networks of all repetitions."""
    parts = [trainer.network() for trainer in trainers]
    return BucketNetwork(
        np.concatenate([part.first for part in parts], axis=1),
        np.concatenate([part.first_bias for part in parts]),
        np.concatenate([part.second for part in parts]),
        np.concatenate([part.second_bias for part in parts]),
    )


def _matrix(X: Any) -> Any:
    """Sparse matrices as scipy's, dense ones as they are."""
    if isinstance(X, Csr):
        return X.to_scipy()
    if not sp.issparse(X):
        return X
    matrix: Any = X
    found = matrix.tocsr()
    if found.nnz and (found.data == 0).any():  # a stored 0 is no label
        found = found.copy()
        found.eliminate_zeros()
    return found
