"""What building an IRLIIndex takes: its time by a few steps of each kind, its memory, and the index's size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.indexing.buckets import Buckets, hash_partition
from sylvan.models.irli.judge import RecallJudge
from sylvan.models.irli.learning import grouped
from sylvan.models.irli.settings import LearningSettings
from sylvan.models.irli.sizes import IndexSizes
from sylvan.models.irli.vectors import ROUGH_WIDTH
from sylvan.ranking.vectors import Metric, exact_neighbors
from sylvan.runtime.machine import available_bytes, resident_bytes
from sylvan.runtime.plan import Phase, Plan, timed

__all__ = ["IndexPlanning"]

ROUNDS = 3  # that "auto" is taken to make
_FLOAT = 4
_QUERIES, _ROWS = 64, 4096  # that are compared to see how long it takes
_BATCHES = 4  # that are trained on
_JUDGED = 64  # queries that are judged
_TUNED = 4  # judgements that the tuning takes as long as, about


@dataclass(frozen=True)
class IndexPlanning:
    """What is built, and of what."""

    vectors: npt.NDArray[np.float32]  # shape (n, d)
    metric: Metric
    parameters: dict[str, Any]  # of the index
    n_queries: int | None  # given training queries; None where rows of the base are taken
    finds_neighbors: bool  # whether their neighbours are computed
    n_jobs: int

    def plan(self) -> Plan:
        """The plan, by a few small measurements."""
        from sylvan.models.irli.training import one_thread

        n, width = self.vectors.shape
        sizes = IndexSizes.of(self.parameters, n, width)
        settings = LearningSettings.of({**self.parameters, "n_buckets": sizes.n_buckets, "hidden": sizes.hidden})
        shown = sizes.n_components or width
        n_queries = min(sizes.n_queries, n) if self.n_queries is None else self.n_queries
        now, available = resident_bytes(), available_bytes()
        with one_thread():
            training, moving, judging = self._steps(settings, shown)
            finding = self._finding(width, min(shown, ROUGH_WIDTH) if sizes.n_components else width, n_queries)
        rounds = ROUNDS if isinstance(settings.rounds, str) else settings.rounds
        epochs = (rounds + 1) * settings.epochs_per_round + settings.final_epochs
        n_groups = len(grouped(settings))
        batches = -(-n_queries // settings.batch_size)
        spread = min(self.n_jobs, n_groups)  # a group is trained on one thread
        holdout = min(1000, n_queries // 10)
        network = settings.n_repetitions * (settings.hidden * (shown + sizes.n_buckets + 1) + sizes.n_buckets)
        projected = _FLOAT * shown * (n + n_queries + width) if sizes.n_components else 0
        truths = 12 * n_queries * int(self.parameters["n_neighbors"])
        buckets = 2 * _FLOAT * settings.n_repetitions * n
        phases = (
            Phase("neighbours", finding, projected + truths),
            Phase("training", epochs * batches * n_groups * training / spread, 7 * _FLOAT * network),  # Adam; the best
            Phase("moving", rounds * n * moving / self.n_jobs, 3 * buckets),
            Phase("judging", (rounds + 1 + _TUNED) * holdout * judging / self.n_jobs, 0),
        )
        model = _FLOAT * (n * width + network + (shown * width if sizes.n_components else 0)) + buckets
        peak = now + self.vectors.nbytes + sum(phase.peak_bytes for phase in phases)
        seconds = sum(phase.seconds for phase in phases)
        return Plan(seconds, peak, model, None if available is None else now + available, phases)

    def _finding(self, width: int, rough_width: int, n_queries: int) -> float:
        """Seconds of finding the neighbours of training queries, and those of the holdout, which are exact."""
        n = len(self.vectors)
        few = np.ascontiguousarray(self.vectors[:_ROWS])
        rough = np.ascontiguousarray(few[:, :rough_width])
        times = []
        for rows in (few, rough):
            with timed() as comparing:
                exact_neighbors(rows[:_QUERIES], rows, min(100, len(rows)), self.metric)
            times.append(comparing.seconds / (min(_QUERIES, len(rows)) * len(rows)))
        exact = min(1000, n_queries // 10) if self.n_queries is None or self.finds_neighbors else 0
        learned = n_queries if self.finds_neighbors else 0
        return n * (exact * times[0] + learned * times[1]) / self.n_jobs

    def _steps(self, settings: LearningSettings, shown: int) -> tuple[float, float, float]:
        """Seconds of training a group on a batch, of a vector's best buckets, and of judging a query; of one thread."""
        from sylvan.models.irli.training import GroupTrainer, InputScale, network_of

        n, size = len(self.vectors), _BATCHES * settings.batch_size
        random = np.random.default_rng(0)
        inputs = random.standard_normal((size, shown), np.float32)
        each = int(self.parameters["n_neighbors"])
        ones, ids = np.ones(size * each, np.float32), random.integers(n, size=size * each, dtype=np.int32)
        truths = sp.csr_matrix((ones, ids, np.arange(0, size * each + 1, each)), shape=(size, n))
        groups, scale = grouped(settings), InputScale.of(inputs)
        assignment = hash_partition(n, settings.n_buckets, settings.n_repetitions, settings.seed)
        trainer = GroupTrainer(inputs, truths, groups[0], settings, scale)
        own = assignment[groups[0].start : groups[0].stop]
        trainer.train(own, 1)  # what happens once
        with timed() as training:
            trainer.train(own, 1)
        state = trainer.state()
        network = network_of([state], scale)
        with timed() as moving:
            network.top(inputs, min(settings.choices, settings.n_buckets))
        share = settings.n_repetitions / len(groups[0])
        buckets = Buckets.from_assignment(own, settings.n_buckets)
        with timed() as judging:
            RecallJudge(inputs[:_JUDGED], truths[:_JUDGED])(buckets, network)
        judged = min(_JUDGED, size)
        return training.seconds / _BATCHES, share * moving.seconds / size, share * judging.seconds / judged
