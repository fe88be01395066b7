"""IRLI's learning: train, move labels by affinity and load, train again (Gupta et al. 2021, sections 3.1 and 3.2)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.errors import DataError, ModelError
from sylvan.indexing.buckets import Buckets, hash_partition, least_loaded
from sylvan.lazy import need_torch
from sylvan.matching.bucket_network import BucketNetwork, Float32
from sylvan.models.irli.affinity import best_buckets_by_instances, best_buckets_by_vectors, expected_affinity
from sylvan.models.irli.judge import Judge, RecallJudge
from sylvan.models.irli.rounds import Round
from sylvan.models.irli.settings import LearningSettings
from sylvan.parallel import map_parallel
from sylvan.runtime import ARRAY, Job, Packing, Runner
from sylvan.runtime.jobs import Arrays

if TYPE_CHECKING:
    from sylvan.models.irli.training import InputScale, State

__all__ = ["LearnedPartitions", "learn_partitions"]

_MOST_ROUNDS = 10  # of rounds="auto"
_GROUP_WIDTH = 512  # hidden values that are trained together, at least one repetition's
_SAMPLE = 10_000  # labels or rows from which expected affinity is estimated
_SETTLED = 0.001  # share of labels newly assigned below which nothing is to be gained by another round
_FEWEST_HOLDOUT, _MOST_HOLDOUT = 20, 1000

Int32 = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LearnedPartitions:
    """What :func:`learn_partitions` learned.

    Attributes
    ----------
    buckets : Buckets
    network : BucketNetwork
    rounds : tuple of Round
        All that were tried.
    best_round : int
        The number of the one whose partitions these are.
    """

    buckets: Buckets
    network: BucketNetwork
    rounds: tuple[Round, ...]
    best_round: int


def learn_partitions(
    X: Float32 | sp.csr_matrix,
    truths: sp.csr_matrix,
    settings: LearningSettings,
    *,
    label_vectors: Float32 | None = None,
    judge: Judge | None = None,
    holdout: Rows | None = None,
    row_weights: Float32 | None = None,
    runner: Runner | None = None,
) -> LearnedPartitions:
    """Learn partitions of the labels and networks that predict an input's buckets, in turns.

    Labels are hashed into buckets, with a function for each repetition. Then, round by round, the networks are trained
    for some epochs to say which buckets hold a label of an input, and each label is moved to the least loaded of the
    buckets that it has most affinity to.

    Parameters
    ----------
    X : ndarray of float32, or csr_matrix of float32, of shape (n, n_features)
        Inputs; of sparse ones the first layer is an embedding bag.
    truths : csr_matrix of shape (n, n_labels)
        The labels of each input; for vectors, its nearest neighbours in the base. Values don't matter.
    settings : LearningSettings
    label_vectors : ndarray of float32, shape (n_labels, n_features), optional
        Where labels are vectors of the inputs' space, the networks' answers to these are their affinity (Definition 2).
        Without them a label's affinity is the sum over its inputs (Definition 1), and labels without any stay where
        hashing put them.
    judge : callable, optional
        Scores a round; see :mod:`sylvan.models.irli.judge`. With rounds="auto" and no judge, a tenth of the rows, at
        most 1,000, is held out from all but the final epochs for a :class:`~sylvan.models.irli.judge.RecallJudge`;
        fewer than 200 rows have none to spare, and one round is made.
    holdout : ndarray of int64, optional
        Rows that only the final epochs learn from, because the judge scores by them.
    row_weights : ndarray of float32, shape (n,), optional
        Factor of each row's loss.
    runner : Runner, optional
        Who runs the jobs: the training of each group of repetitions in each round, the moves, the judging. A group is
        trained on one thread, so that the bits are the same for any number of threads.

    Returns
    -------
    LearnedPartitions

    Raises
    ------
    ImportError
        When PyTorch isn't installed.
    DataError

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from sylvan.models.irli.learning import learn_partitions
    >>> from sylvan.models.irli.settings import LearningSettings
    >>> X = np.eye(8, dtype=np.float32).repeat(20, axis=0)  # 8 groups of inputs, 3 labels each
    >>> truths = sp.csr_matrix(np.kron(np.eye(8), np.ones((20, 3))))
    >>> learned = learn_partitions(X, truths, LearningSettings(8, n_repetitions=2, hidden=16, choices=2, rounds=2))
    >>> learned.rounds[-1].affinity_after > learned.rounds[0].affinity_after
    True
    """
    need_torch("Learning partitions")
    from sylvan.models.irli.training import network_of, one_thread

    runner = Runner() if runner is None else runner
    task = _Task.of(X, truths, settings, label_vectors, row_weights, holdout)
    if judge is None and settings.rounds == "auto":
        task, judge = task.with_holdout(runner.n_jobs)
    auto = isinstance(settings.rounds, str)
    last = settings.rounds if isinstance(settings.rounds, int) else 1 if judge is None else _MOST_ROUNDS
    with one_thread():
        assignment = hash_partition(task.n_labels, settings.n_buckets, settings.n_repetitions, settings.seed)
        states: Sequence[State] = runner.run(task.begin_jobs())
        affinity = runner.one(task.measure_job("begin", states, assignment))["affinity"]
        rounds: list[Round] = []
        best: _Best | None = None
        for number in range(last + 1):
            name, start, before, moved = f"round{number}", time.monotonic(), affinity, np.zeros(len(assignment))
            if number:
                old, assignment = assignment, runner.one(task.repartition_job(name, states, assignment, runner.n_jobs))
                moved = (old != assignment).mean(axis=1)
            states, loss = task.train(name, states, assignment, settings.epochs_per_round, runner)
            measures = runner.one(task.measure_job(name, states, assignment, judge, runner.n_jobs))
            affinity, seconds = measures.pop("affinity"), time.monotonic() - start
            buckets = Buckets.from_assignment(assignment, settings.n_buckets)
            deviation = tuple(buckets.load_deviation().tolist())
            rounds.append(Round(number, tuple(moved.tolist()), before, affinity, deviation, loss, seconds, measures))
            score = measures.get("score", float(number))
            if best is None or score > best.score:
                best = _Best(number, score, buckets, states)
            if auto and (best.number < number or (number and moved.mean() < _SETTLED)):
                break
        assert best is not None  # round 0 is always made
        states = best.states
        if settings.final_epochs:
            states, _ = task.train("final", states, best.buckets.assignment, settings.final_epochs, runner)
        return LearnedPartitions(best.buckets, network_of(states, task.scale), tuple(rounds), best.number)


@dataclass(frozen=True)
class _Best:
    """The best round so far."""

    number: int
    score: float
    buckets: Buckets
    states: Sequence[State]


@dataclass(frozen=True)
class _Task:
    """What is learned from, and how: the rows that have labels, of all that were given."""

    X: Any  # (n, n_features)
    truths: sp.csr_matrix  # (n, n_labels)
    settings: LearningSettings
    scale: InputScale
    label_vectors: Float32 | None  # (n_labels, n_features)
    weights: Float32 | None  # of a mean of 1
    rows: Rows | None  # those that all epochs learn from but the final ones; None for all

    @classmethod
    def of(
        cls,
        X: Any,
        truths: Any,
        settings: LearningSettings,
        label_vectors: Float32 | None,
        weights: Float32 | None,
        holdout: Rows | None,
    ) -> _Task:
        """Verified."""
        from sylvan.models.irli.training import InputScale

        X, truths = _without_stored_zeros(X), _without_stored_zeros(truths)
        n_labels = truths.shape[1]
        if X.shape[0] != truths.shape[0]:
            raise DataError(
                "Partitions are learned from inputs and truths with equal numbers of rows. Got shapes "
                f"{X.shape} and {truths.shape} instead."
            )
        if label_vectors is not None and label_vectors.shape != (n_labels, X.shape[1]):
            raise DataError(
                f"'label_vectors' must have shape {(n_labels, X.shape[1])}. Got {label_vectors.shape} instead."
            )
        labelled = np.flatnonzero(np.diff(truths.indptr))
        if not len(labelled):
            raise DataError("No row has a label: there is nothing to learn.")
        rows = None if holdout is None else np.flatnonzero(~np.isin(labelled, holdout))
        if rows is not None and not len(rows):
            raise DataError("All rows that have a label are held out: there is nothing to learn.")
        if len(labelled) < X.shape[0]:
            X, truths = X[labelled], truths[labelled]
        if weights is not None:
            weights = weights[labelled] / weights[labelled].mean(dtype=np.float64)
        return cls(X, truths, settings, InputScale.of(X), label_vectors, weights, rows)

    def with_holdout(self, n_jobs: int) -> tuple[_Task, Judge | None]:
        """Hold rows out for a judge; none where there are too few."""
        n = self.X.shape[0]
        size = min(n // 10, _MOST_HOLDOUT)
        if size < _FEWEST_HOLDOUT:
            return self, None
        order = np.random.default_rng([self.settings.seed, 0]).permutation(n)
        apart = np.sort(order[:size])
        return replace(self, rows=np.sort(order[size:])), RecallJudge(self.X[apart], self.truths[apart], n_jobs=n_jobs)

    @property
    def n_labels(self) -> int:
        """Columns of truths."""
        return int(self.truths.shape[1])

    @property
    def groups(self) -> list[range]:
        """The repetitions that are trained together."""
        size, n = max(_GROUP_WIDTH // self.settings.hidden, 1), self.settings.n_repetitions
        return [range(i, min(i + size, n)) for i in range(0, n, size)]

    # ---------------------------------------- the steps of a round, as jobs

    def _group_inputs(self, group: range) -> dict[str, Any]:
        return {
            "X": self.X, "truths": self.truths, "repetitions": group, "settings": self.settings, "scale": self.scale
        }  # fmt: skip

    def begin_jobs(self) -> list[Job[State]]:
        """The networks of each group as they are before any training."""
        from sylvan.models.irli.training import begin_group

        return [Job(f"begin.group{i}", begin_group, self._group_inputs(group)) for i, group in enumerate(self.groups)]

    def train(
        self, name: str, states: Sequence[State], assignment: Int32, epochs: int, runner: Runner
    ) -> tuple[Sequence[State], float]:
        """Some epochs of all networks, and their mean loss; the "final" ones on all rows, at a falling rate."""
        from sylvan.models.irli.training import STATE, train_group

        rows = None if name == "final" else self.rows
        cost = epochs * -(-(self.X.shape[0] if rows is None else len(rows)) // self.settings.batch_size)
        jobs = []
        for i, (group, state) in enumerate(zip(self.groups, states, strict=True)):
            inputs = {
                **self._group_inputs(group), "state": state, "assignment": assignment[group.start : group.stop],
                "epochs": epochs, "rows": rows, "row_weights": self.weights, "fade": name == "final",
            }  # fmt: skip
            title = f"training the networks of repetitions {group[0]} to {group[-1]}"
            size = 2 * sum(array.nbytes for array in state.values())
            jobs.append(Job(f"{name}.group{i}", train_group, inputs, cost, size, STATE, title))
        trained = dict(runner.run(jobs, f"Learning, {name}").scan())
        states = [trained[i] for i in range(len(jobs))]
        losses = [float(state["loss"]) for state in states]
        return states, float(np.average(losses, weights=[len(group) for group in self.groups]))

    def repartition_job(self, name: str, states: Sequence[State], assignment: Int32, n_jobs: int) -> Job[Int32]:
        """Each label to the least loaded of the K buckets that it has most affinity to, in every repetition."""
        inputs = {"task": self, "states": states, "assignment": assignment, "n_jobs": n_jobs}
        return Job(f"{name}.partition", _repartition, inputs, packing=ARRAY, title="moving the labels")

    def measure_job(
        self, name: str, states: Sequence[State], assignment: Int32, judge: Judge | None = None, n_jobs: int = 1
    ) -> Job[dict[str, float]]:
        """The "affinity" that Theorem 1 says grows, and what a judge measures."""
        inputs = {"task": self, "states": states, "assignment": assignment, "judge": judge, "n_jobs": n_jobs}
        return Job(f"{name}.measures", _measure, inputs, packing=_MEASURES, title="judging the round")


def _repartition(task: _Task, states: Sequence[State], assignment: Int32, n_jobs: int) -> Int32:
    from sylvan.models.irli.training import network_of

    network, n_buckets = network_of(states, task.scale), task.settings.n_buckets
    choices, room = min(task.settings.choices, n_buckets), int(task.settings.room * task.n_labels / n_buckets)
    X, truths = task.X, task.truths
    if task.label_vectors is None and task.rows is not None:
        X, truths = X[task.rows], truths[task.rows]

    def work(repetition: int) -> Int32:
        one = network.only(repetition)
        if task.label_vectors is not None:
            best = best_buckets_by_vectors(one, task.label_vectors, choices)
        else:
            best = best_buckets_by_instances(one, X, truths, choices)
        return least_loaded(best, n_buckets, current=assignment[repetition], room=room)

    return np.stack(map_parallel(work, range(len(assignment)), n_jobs, description="Re-partitioning"))


def _measure(
    task: _Task, states: Sequence[State], assignment: Int32, judge: Judge | None, n_jobs: int
) -> dict[str, float]:
    from sylvan.models.irli.training import network_of

    network, random = network_of(states, task.scale), np.random.default_rng([task.settings.seed, 4])
    if task.label_vectors is not None:
        some = np.sort(random.permutation(task.n_labels)[:_SAMPLE])
        own = np.ones(len(some)), some, np.arange(len(some) + 1)
        X, truths = task.label_vectors[some], sp.csr_matrix(own, shape=(len(some), task.n_labels))
    else:
        some = np.sort(random.permutation(np.arange(task.X.shape[0]) if task.rows is None else task.rows)[:_SAMPLE])
        X, truths = task.X[some], task.truths[some]
    affinity = expected_affinity(network, X, truths, assignment, n_jobs)
    measures = {} if judge is None else judge(Buckets.from_assignment(assignment, task.settings.n_buckets), network)
    return {"affinity": affinity, **measures}


def _pack_measures(measures: dict[str, float]) -> Arrays:
    names = np.frombuffer("\n".join(measures).encode(), np.uint8)
    return {"names": names, "values": np.array(list(measures.values()), np.float64)}


def _unpack_measures(arrays: Arrays) -> dict[str, float]:
    try:
        names = bytes(arrays["names"]).decode().split("\n")
        return dict(zip(names, arrays["values"].tolist(), strict=True))
    except (KeyError, ValueError) as error:
        raise ModelError(f"Stored measures of a round are damaged: {error}.") from error


_MEASURES: Packing[dict[str, float]] = Packing(_pack_measures, _unpack_measures)


def _without_stored_zeros(matrix: Any) -> Any:
    """Sparse matrices in CSR form without zeros, which are no labels; dense ones as they are."""
    if not sp.issparse(matrix):
        return matrix
    rows: Any = matrix
    rows = rows.tocsr()
    if rows.nnz and (rows.data == 0).any():
        rows = rows.copy()
        rows.eliminate_zeros()
    return rows
