"""IRLI's learning: train, move labels by affinity and load, train again (Gupta et al. 2021, sections 3.1 and 3.2)."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from sylvan.arrays.types import Float32, Int32, Int64
from sylvan.errors import DataError
from sylvan.lazy import need_torch
from sylvan.models.irli import rounds
from sylvan.models.irli.bucket_network import BucketNetwork, best_buckets, expected_affinity
from sylvan.models.irli.buckets import Buckets, hash_partition, least_loaded_at_random
from sylvan.models.irli.rounds import InputScale, LearningSettings, Lesson, Partitions, Progress, Round, Rounds, State
from sylvan.parallel import map_parallel
from sylvan.runtime import ARRAY, Checkpoint, Job, Runner, opened_runner
from sylvan.runtime.checkpoint import identity_of

_MOST_ROUNDS = 10  # of rounds="auto"
_GROUP_WIDTH = 512  # hidden values that are trained together, at least one repetition's
_SAMPLE = 10_000  # labels or rows from which expected affinity is estimated
_SETTLED = 0.001  # share of labels newly assigned below which nothing is to be gained by another round


@dataclass(frozen=True, eq=False)
class LearnedPartitions:
    """What :func:`learn_partitions` learned."""

    buckets: Buckets
    network: BucketNetwork
    record: Rounds  # all rounds that were tried, and the number of the one whose partitions these are
    # shape (n_features, n_repetitions), or None: adagrad's sums of squares of sparse features, by which training can go
    # on
    row_sums: Float32 | None = None


def fit_partitions(
    estimator: str, parameters: Mapping[str, Any], data: Mapping[str, Any], X: Float32 | sp.csr_matrix,
    truths: sp.csr_matrix, *, n_jobs: int, checkpoint: Checkpoint | str | os.PathLike[str] | None,
    runner: Runner | None, **options: Any,
) -> LearnedPartitions:  # fmt: skip
    """What an estimator's ``fit`` learns, on the runner that it was given."""
    settings = {name: value for name, value in parameters.items() if name != "n_jobs"}
    identity = partial(identity_of, estimator, settings, **data)
    with opened_runner(n_jobs, runner=runner, checkpoint=checkpoint, identity=identity) as opened:
        return learn_partitions(X, truths, LearningSettings.of(parameters), runner=opened, **options)


def learn_partitions(
    X: Float32 | sp.csr_matrix, truths: sp.csr_matrix, settings: LearningSettings, *,
    label_vectors: Float32 | None = None, judge: rounds.Judge | None = None, holdout: Int64 | None = None,
    row_weights: Float32 | None = None, runner: Runner | None = None,
) -> LearnedPartitions:  # fmt: skip
    """Learn partitions of the labels and networks that predict an input's buckets, in turns (Algorithm 1). Labels are
    hashed into buckets, with a function for each repetition. Then, round by round, the networks are trained for some
    epochs to say which buckets hold a label of an input, and each label is moved to the least loaded of the buckets
    that it has most affinity to."""
    # Shapes: X (n, n_features); truths (n, n_labels); label_vectors (n_labels, n_features); row_weights (n,)
    need_torch("Learning partitions")
    from sylvan.models.irli.training import one_thread

    runner, rows = Runner() if runner is None else runner, None
    labelled = np.flatnonzero(np.diff(truths.indptr))
    n = len(labelled)
    if not n:
        raise DataError("No row has a label: there is nothing to learn.")
    if holdout is not None:
        rows = np.flatnonzero(~np.isin(labelled, holdout))
        if not len(rows):
            raise DataError("All rows that have a label are held out: there is nothing to learn.")
    if n < X.shape[0]:
        X, truths = X[labelled], truths[labelled]
    weights = None if row_weights is None else row_weights[labelled]
    if weights is not None:
        weights = weights / weights.mean(dtype=np.float64)
    random, n_labels = np.random.default_rng([settings.seed, 4]), truths.shape[1]
    if label_vectors is None:
        some = np.sort(random.permutation(np.arange(n) if rows is None else rows)[:_SAMPLE])
        sample = X[some], truths[some]
    else:
        some = np.sort(random.permutation(n_labels)[:_SAMPLE])
        each_its_label = np.ones(len(some)), some, np.arange(len(some) + 1)
        sample = label_vectors[some], sp.csr_matrix(each_its_label, shape=(len(some), n_labels))
    lesson = Lesson(X, truths, settings, InputScale.of(X), weights)
    learning = _Learning(lesson, label_vectors, judge, rows, runner, sample)
    with one_thread():
        progress = learning.resume() or learning.begin()
        while not learning.is_over(progress):
            progress = learning.round(progress)
        return learning.finish(progress)


def grouped(settings: LearningSettings) -> list[range]:
    """The repetitions that are trained together."""
    size, n = max(_GROUP_WIDTH // settings.hidden, 1), settings.n_repetitions
    return [range(i, min(i + size, n)) for i in range(0, n, size)]


def training_jobs(
    name: str, lesson: Lesson, states: Sequence[State], assignment: Int32, cost: float, **how: Any
) -> list[Job[State]]:
    """The training of each group of networks from its state, as a job that :func:`train_group` is the work of."""
    from sylvan.models.irli.training import train_group

    jobs = []
    for i, (group, state) in enumerate(zip(grouped(lesson.settings), states, strict=True)):
        group_inputs = {"repetitions": group, "state": state, "assignment": assignment[group.start : group.stop]}
        inputs = {"lesson": lesson, **group_inputs, **how}
        title = f"training the networks of repetitions {group[0]} to {group[-1]}"
        size = 2 * sum(array.nbytes for array in state.values())
        jobs.append(Job(f"{name}.group{i}", train_group, inputs, cost, size, rounds.STATE, title))
    return jobs


@dataclass(frozen=True, eq=False)
class _Learning:
    """What is learned from, and how: the rows that have labels, of all rows of a training set."""

    lesson: Lesson  # whose weights have a mean of 1
    label_vectors: Float32 | None  # (n_labels, n_features)
    judge: rounds.Judge | None
    rows: Int64 | None  # those that all epochs learn from but the final ones; None for all
    runner: Runner
    sample: tuple[Any, sp.csr_matrix]  # inputs and their labels, by which affinity is measured

    def begin(self) -> Progress:
        """Labels hashed into buckets, and networks before any training."""
        from sylvan.models.irli.training import begin_group

        lesson, settings = self.lesson, self.lesson.settings
        assignment = hash_partition(lesson.truths.shape[1], settings.n_buckets, settings.n_repetitions, settings.seed)
        groups = enumerate(grouped(settings))
        jobs = [Job(f"begin.group{i}", begin_group, {"lesson": lesson, "repetitions": group}) for i, group in groups]
        hashed = Partitions(Buckets.from_assignment(assignment, settings.n_buckets), self.runner.run(jobs))
        return Progress(hashed, self._measure("begin", hashed)[0], hashed)

    def is_over(self, progress: Progress) -> bool:
        """Whether all rounds were made, or another would gain nothing."""
        if not progress.rounds:
            return False
        last = progress.rounds[-1]
        if not isinstance(self.lesson.settings.rounds, str):
            return last.number >= self.lesson.settings.rounds
        most = 1 if self.judge is None else _MOST_ROUNDS
        settled = last.number > 0 and float(np.mean(last.moved)) < _SETTLED
        return last.number >= most or progress.best_round < last.number or settled

    def round(self, progress: Progress) -> Progress:
        """Labels move, all but in the first round; the networks are trained, and both are judged."""
        number, start, before = len(progress.rounds), time.monotonic(), progress.last
        name = f"round{number}"
        buckets = self._repartition(number, before) if number else before.buckets
        trained, loss = self._train(name, Partitions(buckets, before.states), self.lesson.settings.epochs_per_round)
        affinity, measures = self._measure(name, trained, self.judge)
        moved = tuple((before.buckets.assignment != buckets.assignment).mean(axis=1).tolist())
        deviation, seconds = tuple(buckets.load_deviation().tolist()), time.monotonic() - start
        record = Round(number, moved, progress.affinity, affinity, deviation, loss, seconds, measures)
        progress = progress.after(record, trained)
        # The next round needs the last round's networks and the best one's; others are deleted.
        self.runner.save("progress", progress, rounds.PROGRESS)
        unused = {*range(number)} - {progress.best_round}
        groups = [group for old in unused for group in self._names(old)]
        self.runner.forget([*groups, *(f"round{old}.partition" for old in range(1, number + 1))])
        return progress

    def finish(self, progress: Progress) -> LearnedPartitions:
        """The best round's partitions, whose networks learn on at a falling rate, from holdout rows too."""
        best, record = progress.best, Rounds(progress.rounds, progress.best_round)
        if epochs := self.lesson.settings.final_epochs:
            best, _ = self._train("final", best, epochs)
        network, row_sums = rounds.network_of(best.states, self.lesson.scale), rounds.row_sums_of(best.states)
        return LearnedPartitions(best.buckets, network, record, row_sums)

    def _train(self, name: str, partitions: Partitions, epochs: int) -> tuple[Partitions, float]:
        """Some epochs of all networks, and their mean loss; the "final" ones on all rows, at a falling rate."""
        lesson, rows = self.lesson, None if name == "final" else self.rows
        cost = epochs * -(-(lesson.X.shape[0] if rows is None else len(rows)) // lesson.settings.batch_size)
        jobs = training_jobs(
            name, lesson, partitions.states, partitions.buckets.assignment, cost, epochs=epochs, rows=rows,
            fade=name == "final",
        )  # fmt: skip
        trained = dict(self.runner.run(jobs, f"Learning, {name}").scan())
        states, sizes = [trained[i] for i in range(len(jobs))], [len(group) for group in grouped(lesson.settings)]
        loss = np.average([float(state["loss"]) for state in states], weights=sizes)
        return Partitions(partitions.buckets, states), float(loss)

    def _repartition(self, number: int, partitions: Partitions) -> Buckets:
        """Each label to the least loaded of the K buckets that it has most affinity to, in every repetition."""
        inputs = {
            "lesson": self.lesson, "partitions": partitions, "label_vectors": self.label_vectors, "rows": self.rows,
            "n_jobs": self.runner.n_jobs, "seed": (self.lesson.settings.seed, 6, number),
        }  # fmt: skip
        job = Job(f"round{number}.partition", _moved_labels, inputs, packing=ARRAY, title="moving the labels")
        return Buckets.from_assignment(self.runner.one(job), partitions.buckets.n_buckets)

    def _measure(
        self, name: str, partitions: Partitions, judge: rounds.Judge | None = None
    ) -> tuple[float, dict[str, float]]:
        """The affinity that Theorem 1 says grows, and what a judge measures."""
        inputs = {
            "scale": self.lesson.scale, "partitions": partitions, "sample": self.sample, "judge": judge,
            "n_jobs": self.runner.n_jobs,
        }  # fmt: skip
        return self.runner.one(Job(f"{name}.measures", _measured, inputs, title="judging the round"))

    def _names(self, number: int) -> list[str]:
        """The jobs of a round whose results are its networks."""
        return [f"round{number}.group{i}" for i in range(len(grouped(self.lesson.settings)))]

    def resume(self) -> Progress | None:
        """The progress that :meth:`round` stored; None where it isn't there, or not whole."""
        if (stored := self.runner.load(["progress"], rounds.PROGRESS)) is None:
            return None
        progress, last = stored[0], stored[0].rounds[-1].number
        states = {n: self.runner.load(self._names(n), rounds.STATE) for n in {last, progress.best_round}}
        latest, best = states[last], states[progress.best_round]
        if latest is None or best is None:
            return None
        return replace(progress, last=replace(progress.last, states=latest), best=replace(progress.best, states=best))


def _moved_labels(
    *, lesson: Lesson, partitions: Partitions, label_vectors: Float32 | None, rows: Int64 | None, n_jobs: int,
    seed: tuple[int, ...],
) -> Int32:  # fmt: skip
    """The buckets that labels move to, (n_repetitions, n_labels); placed in another random order every time."""
    settings, X, truths = lesson.settings, lesson.X, lesson.truths
    network, assignment = rounds.network_of(partitions.states, lesson.scale), partitions.buckets.assignment
    choices, room = min(settings.choices, settings.n_buckets), int(settings.room * truths.shape[1] / settings.n_buckets)
    if label_vectors is None and rows is not None:
        X, truths = X[rows], truths[rows]

    def work(repetition: int) -> Int32:
        of_repetition = network.only(repetition)
        if label_vectors is None:
            best = best_buckets(of_repetition, X, truths, choices)
        else:
            best = of_repetition.top(label_vectors, choices)[0][:, 0]
        current = assignment[repetition]
        return least_loaded_at_random(best, network.n_buckets, (*seed, repetition), current=current, room=room)

    return np.stack(map_parallel(work, range(len(assignment)), n_jobs, description="Re-partitioning"))


def _measured(
    *, scale: InputScale, partitions: Partitions, sample: tuple[Any, sp.csr_matrix], judge: rounds.Judge | None,
    n_jobs: int,
) -> tuple[float, dict[str, float]]:  # fmt: skip
    network = rounds.network_of(partitions.states, scale)
    affinity = expected_affinity(network, *sample, partitions.buckets.assignment, n_jobs)
    return affinity, {} if judge is None else judge(partitions.buckets, network)
