"""What training an XRLinear will take: time, memory, the size of the model; and what would take less."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.arrays.canonical import take_rows
from sylvan.arrays.validate import Csr
from sylvan.data.parts.row_parts import Rows
from sylvan.indexing import LabelTree
from sylvan.indexing.clustering import layer_plan
from sylvan.indexing.embeddings import embedding_bytes
from sylvan.models.xr.estimate import RankerEstimate, TrainingSize, carried_over, estimate_ranker
from sylvan.models.xr.params import Scale, build_trees, chosen_by_rows, scaled, tree_training
from sylvan.parallel import resolve_jobs
from sylvan.params.wording import shown_bytes
from sylvan.ranking.calibrate import holdout_folds
from sylvan.runtime import Runner
from sylvan.runtime.memory import available_bytes, resident_bytes
from sylvan.runtime.plan import Phase, Plan

TREE_BYTES = 16  # of a finished tree and the label counts, a label
AGAIN = 0.17  # of a training's time, to see what it would answer without the rows that calibrate it
DEEP = 100  # max_leaf of a tree that is as deep as pays
# What is trained on to plan: at most so many rows, so many of their feature values, and so many seconds.
MOST_ROWS, MOST_ENTRIES, MOST_SECONDS = 5_000, 800_000, 1.2
STEP, MORE = 4, 1.5  # times the rows of the training before, and at least
FEWEST_CLUSTERS = 8  # of a sample's labels, where all labels have as many: one cluster would be no tree


@dataclass(frozen=True)
class _Sample:
    """A training on some of the rows: the size of its data, what it took, and what making its tree took."""

    size: TrainingSize
    ranker: RankerEstimate
    tree_seconds: float


def training_plan(
    model: Any, features: Rows, labels: Csr, weight: Any, about: Mapping[str, Any],
    trees: Sequence[LabelTree] | None = None, whole: TrainingSize | None = None,
) -> Plan:  # fmt: skip
    """The plan of an XRLinear, from trainings on a few of the rows."""
    whole = TrainingSize.of(features, labels) if whole is None else whole
    samples = _Samples(model, features, labels, weight, about, None if trees is None else trees[0], whole)
    estimate, seconds = samples.estimate()
    phases, n_jobs = [], resolve_jobs(model.n_jobs)
    if trees is None:
        made = samples.tree is None
        name, n_bytes = "tree" if model.n_trees == 1 else "trees", _index_bytes(model, whole) if made else 0
        phases = [Phase(name, model.n_trees * seconds / n_jobs, n_bytes)]
    unread = whole.nbytes if whole.n_rows > features.shape[0] else 0
    return _rankers_plan(model, estimate, whole, phases, unread, samples.n_rows % whole.n_rows)


def _index_bytes(model: Any, size: TrainingSize) -> int:
    """What clustering the labels takes at its worst."""
    if model.tree is not None or size.n_labels <= model.max_leaf:
        return 0
    n_entries = size.n_entries * size.n_positives // max(1, size.n_rows)  # of each label's rows
    return embedding_bytes(size.n_labels, n_entries, size.n_positives, model.max_features_per_label)


class _Samples:
    """Trainings on samples of the rows of one training."""

    def __init__(
        self, model: Any, features: Rows, labels: Csr, weight: Any, about: Mapping[str, Any], tree: LabelTree | None,
        whole: TrainingSize,
    ) -> None:  # fmt: skip
        self._model, self._features, self._labels, self._whole = copy.copy(model), features, labels, whole
        self._weight, self._about, self.n_rows = weight, about, 0
        self.tree = model.tree if tree is None else tree  # one that is given
        if self.tree is not None:
            self._sizes = tuple(self.tree.layer_sizes)
        else:
            self._sizes = layer_plan(whole.n_labels, model.branching, model.max_leaf)
        # All rows choose how they are solved: a sample by itself would be taken for a small set, solved precisely.
        self._model.set_params(**chosen_by_rows(model, features, len(self._sizes), whole.n_entries))

    def estimate(self) -> tuple[RankerEstimate, float]:
        """Train on ever more of the rows until they are enough: the estimate for all, and seconds of making a tree."""
        training = tree_training(self._model, len(self._sizes), 0, self._features)
        rows = self._drawn()
        labelled = np.diff(self._labels.indptr)
        if not labelled[rows].any():
            rows = np.flatnonzero(labelled)[: len(rows)]
        seen: list[_Sample] = []
        n = max(1, len(rows) // STEP**2, int(np.argmax(labelled[rows] > 0)) + 1)  # with a label among them
        while True:
            start = time.thread_time()
            seen.append(self._trained(np.sort(rows[:n])))
            affordable = MOST_SECONDS / max(1e-9, time.thread_time() - start)
            more = min(len(rows), STEP * n, int(affordable * n))
            if (more < MORE * n and more < len(rows)) or n == len(rows):
                break
            n = max(more, n)
        *_, before, last = (seen[0], *seen)
        whole = self._whole
        if last.size.n_rows == whole.n_rows:
            return last.ranker, last.tree_seconds
        weighted = self._weight is not None or training.weighs(self._labels)
        ranker = carried_over(
            (before.size, before.ranker), (last.size, last.ranker), whole, self._sizes, training, weighted
        )  # fmt: skip
        return ranker, last.tree_seconds * whole.n_entries / max(1, last.size.n_entries)

    def _drawn(self) -> npt.NDArray[np.int64]:
        """The largest sample's rows, drawn at random and in that order, so that its beginning is a sample too."""
        drawn = np.random.default_rng(0).permutation(self._features.shape[0])[:MOST_ROWS]
        n_entries = np.cumsum(np.diff(self._features.indptr)[drawn])
        return drawn[: max(1, int(np.searchsorted(n_entries, MOST_ENTRIES, side="right")))]

    def _trained(self, rows: npt.NDArray[np.int64]) -> _Sample:
        model, self.n_rows = copy.copy(self._model), len(rows)
        features, labels = self._features.take(rows), take_rows(self._labels, rows)
        scale = Scale() if model.scaling == "none" else Scale.of(features, model.normalize)
        features = scaled(features, scale.factors, model.normalize)
        if self.tree is None and all(value is None for value in self._about.values()):
            labels = _without_gaps(labels)
        model.n_trees, start = 1, time.thread_time()
        if len(self._sizes) > 1:
            fewest = min(self._sizes[-2], FEWEST_CLUSTERS)
            model.max_leaf = max(1, min(model.max_leaf, labels.shape[1] // fewest))
        tree = self.tree or build_trees(model, features, labels, Runner(), **self._about)[0]
        took = time.thread_time() - start
        model.negatives, model.combine = (_layers_for(value, tree.depth) for value in (model.negatives, model.combine))
        training = tree_training(model, tree.depth, 0, features, scale.length)
        weight = None if self._weight is None else self._weight[rows]
        ranker = estimate_ranker(features, labels, tree, training, weight, resolve_jobs(model.n_jobs))
        return _Sample(TrainingSize.of(features, labels), ranker, took)


def _layers_for(value: Any, depth: int) -> Any:
    """A parameter with one word a layer, for a tree of another depth: from the last layer up."""
    return value if isinstance(value, str) else ([value[0]] * depth + list(value))[-depth:]


def _without_gaps(labels: Csr) -> Csr:
    """The labels that occur alone, numbered anew."""
    used, indices = np.unique(labels.indices, return_inverse=True)
    return Csr(labels.indptr, indices.astype(np.int32), labels.data, (labels.shape[0], len(used)))


def _rankers_plan(
    model: Any, estimate: RankerEstimate, whole: TrainingSize, before: Sequence[Phase], unread: int, sampled: int
) -> Plan:
    """The plan of a model each of whose trees is taken to be like the first."""
    now, available = resident_bytes(), available_bytes()
    available, now = None if available is None else now + available, now + unread
    # What changes in the scores of the rows that calibrate it is little beside the solved clusters.
    n_folds = 0 if model.calibration is None else len(holdout_folds(whole.n_rows, model.calibration_folds))
    n_trees, own = model.n_trees, TREE_BYTES * whole.n_labels
    each = estimate.model_bytes + own
    peak = (n_trees - 1) * each + estimate.peak_bytes() + own  # when the last tree is trained
    phases = [*before, Phase("rankers", n_trees * estimate.seconds, peak)]
    if n_folds:
        seconds = n_folds * n_trees * estimate.seconds * AGAIN
        phases.append(Phase("calibration", seconds, peak))
    plan = Plan(
        sum(phase.seconds for phase in phases), now + max(phase.peak_bytes for phase in phases), n_trees * each,
        available, tuple(phases), sampled_rows=sampled,
    )  # fmt: skip
    if plan.fits:
        return plan
    beside = now + phases[-1].peak_bytes - estimate.peak_bytes()
    return replace(plan, offers=tuple(_offers(model, estimate, n_trees, beside, plan, now)))


def _offers(model: Any, estimate: RankerEstimate, n_trees: int, beside: int, plan: Plan, now: int) -> Iterator[str]:
    """What takes less memory, with how much it would be; the most harmless first."""

    def offer(words: str, n_bytes: int) -> Iterator[str]:
        if n_bytes - now < 0.98 * (plan.peak_bytes - now):  # of what the training adds
            yield f"{words} (about {shown_bytes(n_bytes)})"

    available = plan.available_bytes or 0
    yield f"memory_limit={shown_bytes(available).replace(' ', '')!r}, which works in parts and on disk"
    if estimate.n_jobs > 1:
        yield from offer("n_jobs=1", beside + estimate.peak_bytes(n_jobs=1))
    for threshold in (2 * model.threshold or 0.1, 3 * model.threshold or 0.2):
        share = estimate.left(threshold)
        yield from offer(f"threshold={threshold:.3g}", beside + estimate.peak_bytes(share=share))
    if n_trees > 1:
        yield from offer("n_trees=1", beside + estimate.peak_bytes() - (n_trees - 1) * estimate.model_bytes)
    if model.max_leaf > DEEP:
        yield f"max_leaf={DEEP}, a deeper tree, whose clusters see fewer rows"
