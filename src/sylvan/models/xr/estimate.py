"""What training an XRLinear will take, and what would take less: from trainings on a few of the rows, carried over to
all of them. The time of a training is nearly proportional to the entries of its rows. What a node's weights are as rows
grow follows a power of the node's positive rows, as vocabularies grow (Heaps' law): weights are its rows' features, of
which ever fewer are new. What holds memory is counted from sizes, by the functions that the training itself counts
with."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from sylvan.arrays.canonical import Csr, take_rows
from sylvan.arrays.types import Float32, Int64
from sylvan.data.parts.row_parts import Rows
from sylvan.indexing import LabelTree
from sylvan.indexing.clustering import layer_plan
from sylvan.indexing.embeddings import embedding_bytes
from sylvan.matching.beam import beam_bytes
from sylvan.matching.negatives import cluster_rows, csr_bytes, layer_positives, of_root, rows_bytes
from sylvan.models.xr.params import TrainingData, build_trees, chosen_by_rows, tree_training
from sylvan.parallel import resolve_jobs
from sylvan.params.wording import shown_bytes
from sylvan.ranking.calibrate import holdout_folds
from sylvan.ranking.linear import LANES, solver_bytes
from sylvan.ranking.solution import solved_bytes
from sylvan.ranking.training import TreeTraining, solved_together, train_rankers, training_stages
from sylvan.runtime import Runner
from sylvan.runtime.memory import available_bytes, resident_bytes
from sylvan.runtime.plan import Phase, Plan
from sylvan.weights.layer import laid_out_bytes

NEAR = 0.6  # of the clusters that a search reaches, those whose score is near enough to the best, as a rule
CLUSTERS = 16  # of a layer, on whose weights thresholds are tried
# Exponents, where two trainings don't tell or a layer isn't like any of theirs: of a node's weights by its positive
# rows, in the last layer and above; of a cluster's features by its rows; of a vocabulary by its texts.
LAST, INNER, FEATURES, HEAPS = 0.65, 0.5, 0.45, 0.6
_LAST_RANGE, _CLUSTERS_RANGE = (0.4, 1.0), (0.0, 0.5)
TREE_BYTES = 16  # of a finished tree and the label counts, a label
AGAIN = 0.17  # of a training's time, to see what it would answer without the rows that calibrate it
DEEP = 100  # max_leaf of a tree that is as deep as pays
# What is trained on to plan: at most so many rows, so many of their feature values, and so many seconds.
MOST_ROWS, MOST_ENTRIES, MOST_SECONDS = 5_000, 800_000, 1.2
STEP, MORE = 4, 1.5  # times the rows of the training before, and at least
FEWEST_CLUSTERS = 8  # of a sample's labels, where all labels have as many: one cluster would be no tree


@dataclass(frozen=True)
class TrainingSize:
    """How large the data of a training are."""

    n_rows: int
    n_labels: int
    n_columns: int
    n_entries: int  # feature values of all rows
    n_positives: int  # labels of all rows

    @classmethod
    def of(cls, features: Rows, labels: Csr) -> TrainingSize:
        """The size of these data."""
        n_columns = features.used_columns()[0].shape[1]  # as the solver numbers them
        return cls(features.shape[0], labels.shape[1], n_columns, features.nnz, len(labels.indices))

    @property
    def nbytes(self) -> int:
        """Of features and labels in memory."""
        return csr_bytes(self.n_rows, self.n_entries) + csr_bytes(self.n_rows, self.n_positives)


@dataclass(frozen=True)
class LayerEstimate:
    """One layer of a tree."""

    n_clusters: int
    n_nodes: int
    n_positives: float  # positive rows of all nodes together
    n_own: float  # rows of all clusters with a label in them
    n_pairs: float  # rows of all clusters that they are trained on
    largest: float  # rows of the largest cluster
    n_weights: float  # over all clusters
    n_rows: float  # features that have a weight, over all clusters
    problem: int  # bytes of the rows and positives
    solver: int  # bytes of a thread that solves the largest cluster
    laid_out: int  # bytes of the finished layer
    magnitudes: Float32  # absolute weights, some of them

    @property
    def density(self) -> float:
        """Positive rows of a node."""
        return max(self.n_positives, 1e-9) / self.n_nodes

    @property
    def solved(self) -> int:
        """Bytes of the solved clusters before they are laid out."""
        return solved_bytes(int(self.n_weights), int(self.n_rows), -(-self.n_nodes // self.n_clusters))

    @property
    def cost(self) -> float:
        """Of solving it, in rows times groups of children."""
        return self.n_pairs * -(-self.n_nodes // (self.n_clusters * LANES))


@dataclass(frozen=True)
class RankerEstimate:
    """The rankers of one tree."""

    layers: tuple[LayerEstimate, ...]
    stages: tuple[tuple[int, ...], ...]  # the layers that are known together, with a search before the next ones
    row_entries: float  # entries of a row
    n_jobs: int
    work: float  # seconds of one thread
    beams: int  # bytes of the search's answers

    @property
    def seconds(self) -> float:
        """With the threads of the training, on a machine that does nothing else."""
        total = sum(layer.cost for layer in self.layers) or 1.0
        longest = max(layer.cost * layer.largest / max(1.0, layer.n_pairs) for layer in self.layers)
        return self.work * max(1 / self.n_jobs, min(1.0, longest / total))

    @property
    def model_bytes(self) -> int:
        """Of the layers, in memory and on disk."""
        return sum(layer.laid_out for layer in self.layers)

    def peak_bytes(self, n_jobs: int | None = None, share: float = 1.0) -> int:
        """At the worst moment, beside what the process held before. With other threads, or only a ``share`` of the
        weights, if asked."""
        n_clusters = sum(layer.n_clusters for layer in self.layers)
        at_once = min(self.n_jobs if n_jobs is None else n_jobs, n_clusters)
        solver = max(layer.solver for layer in self.layers) * at_once
        problem = self.beams + sum(layer.problem for layer in self.layers)
        finished = most = 0
        for stage in self.stages:
            costs = {t: self.layers[t].cost * self.row_entries for t in stage}
            # The layers that wait together to be laid out, one part after the other.
            for part in solved_together(costs, {t: self.layers[t].n_clusters for t in stage}):
                finished += sum(self.layers[t].laid_out for t in part)
                most = max(most, finished + sum(self.layers[t].solved for t in part))
        return problem + max(solver, int(share * most))

    def left(self, threshold: float) -> float:
        """The share of weights that reach ``threshold``."""
        total = sum(layer.n_weights for layer in self.layers)
        filled = [layer for layer in self.layers if layer.magnitudes.size]
        left = sum(layer.n_weights * float((layer.magnitudes >= threshold).mean()) for layer in filled)
        return float(left / total) if total else 1.0


class Sample(NamedTuple):
    """A training on some of the rows: the size of its data, what it took, and what making its tree took."""

    size: TrainingSize
    ranker: RankerEstimate
    tree_seconds: float


def estimate_ranker(
    features: Rows, labels: Csr, tree: LabelTree, training: TreeTraining, sample_weight: Float32 | None = None,
    n_jobs: int = 1,
) -> RankerEstimate:  # fmt: skip
    """What :func:`~sylvan.ranking.training.train_rankers` takes, by training on one thread; meant for a few rows."""
    start = time.thread_time()  # of the processor, whatever else it does meanwhile
    ranker = train_rankers(features, labels, tree, training, sample_weight)[0]
    work = time.thread_time() - start
    size, positives = TrainingSize.of(features, labels), layer_positives(tree, labels)
    weighted = sample_weight is not None or training.weighs(labels)
    layers = []
    for t, weights in enumerate(ranker.layers):
        n_clusters = len(tree.child_offsets[t]) - 1
        parents = positives[t - 1] if t else of_root(positives[0])
        offsets, rows = cluster_rows("tfn", parents, None, n_clusters, size.n_rows)
        n_rows, n_weights = weights.block_starts.reshape(n_clusters, -1, 2)[:, -1].sum(axis=0, dtype=np.int64)
        some = np.unique(np.linspace(0, n_clusters - 1, min(n_clusters, CLUSTERS)).astype(np.int64)).tolist()
        values = np.concatenate([weights.cluster(c).weights for c in some])
        layers.append(
            _layer(
                size, training, t, weighted, int(np.diff(offsets).max()) / max(1.0, len(rows)), n_clusters=n_clusters,
                n_nodes=int(tree.child_offsets[t][-1]), n_positives=float(len(positives[t].indices)),
                n_own=float(len(rows)), n_weights=float(n_weights), n_rows=float(n_rows),
                magnitudes=np.asarray(np.abs(values), np.float32),
            )
        )  # fmt: skip
    return _ranker(size, training, layers, n_jobs, work)


def carried_over(
    smaller: Sample, larger: Sample, total: TrainingSize, sizes: Sequence[int], training: TreeTraining,
    weighted: bool = False,
) -> RankerEstimate:  # fmt: skip
    """What training on all rows takes, by what training on some and on more of them took."""
    size, seen, layers = larger.size, larger.ranker, []
    for t, n_nodes in enumerate(sizes):
        n_clusters, last = sizes[t - 1] if t else 1, t == len(sizes) - 1
        like, earlier = (each.layers[max(0, len(each.layers) - (len(sizes) - t))] for each in (seen, smaller.ranker))
        # Rows come into more of the clusters where there are more of these.
        per_row = [layer.n_own / n for layer, n in ((earlier, smaller.size.n_rows), (like, size.n_rows))]
        spread = _exponent((earlier.n_clusters, like.n_clusters), per_row, 0.1, _CLUSTERS_RANGE)
        n_own = float(total.n_rows)
        if t:
            most = max(1.0, total.n_positives / total.n_rows)
            n_own = total.n_rows * min(per_row[1] * (n_clusters / like.n_clusters) ** spread, most, n_clusters)
        node_positives = total.n_rows * like.n_positives / size.n_rows * (n_nodes / like.n_nodes) ** spread
        n_positives = min(node_positives, total.n_positives)
        if last:  # a label may have several leaves
            n_nodes = round(total.n_labels * like.n_nodes / size.n_labels)
            n_positives = total.n_positives * like.n_positives / max(1, size.n_positives)
        density, power = n_positives / n_nodes, INNER
        if last:
            weights = [layer.n_weights / layer.n_nodes for layer in (earlier, like)]
            power = _exponent((earlier.density, like.density), weights, LAST, _LAST_RANGE)
        else:
            like = min(seen.layers[:-1] or seen.layers, key=lambda layer: abs(np.log(layer.density / density)))
        each = _grown(like.n_weights / like.n_nodes, like.density, density, power)
        n_weights = n_nodes * min(each, float(total.n_columns))
        rows_each = _grown(like.n_rows / like.n_clusters, like.n_own / like.n_clusters, n_own / n_clusters, FEATURES)
        share = min(1.0, like.largest / max(1.0, like.n_pairs) * like.n_clusters / n_clusters)
        layers.append(
            _layer(
                total, training, t, weighted, share, n_clusters=n_clusters, n_nodes=n_nodes,
                n_positives=float(n_positives), n_own=n_own, n_weights=n_weights,
                n_rows=min(n_weights, n_clusters * min(rows_each, total.n_columns)), magnitudes=like.magnitudes,
            )
        )  # fmt: skip
    return _ranker(total, training, layers, seen.n_jobs, seen.work * total.n_entries / max(1, size.n_entries))


def _layer(
    size: TrainingSize, training: TreeTraining, t: int, weighted: bool, share: float, *, n_clusters: int, n_nodes: int,
    n_positives: float, n_own: float, n_weights: float, n_rows: float, magnitudes: Float32,
) -> LayerEstimate:  # fmt: skip
    """Layer ``t``, whose largest cluster has a ``share`` of all rows."""
    searched = t > 0 and training.negatives[t] != "tfn"
    reached = min(training.beam, n_clusters) * (NEAR if training.man_threshold else 1.0)
    n_found = size.n_rows * max(1.0, reached) if searched else 0.0
    n_pairs = max(n_own, n_found)
    largest = min(float(size.n_rows), share * n_pairs)
    rows, n_children = largest / max(1, size.n_rows), -(-n_nodes // n_clusters)
    n_used, entries = int(size.n_columns * rows**HEAPS), int(size.n_entries * rows)
    solver = int(solver_bytes(int(largest), entries, n_used, size.n_columns, n_children, weighted))
    problem = csr_bytes(size.n_rows, int(n_positives)) + rows_bytes(int(n_own + n_found), n_clusters)
    laid_out = laid_out_bytes(
        int(n_weights), int(n_rows), n_clusters, n_nodes, size.n_columns, n_children, training.weight_dtype
    )
    return LayerEstimate(
        n_clusters, n_nodes, n_positives, n_own, n_pairs, largest, n_weights, n_rows, problem, solver, laid_out,
        magnitudes,
    )  # fmt: skip


def _ranker(
    size: TrainingSize, training: TreeTraining, layers: Sequence[LayerEstimate], n_jobs: int, work: float
) -> RankerEstimate:
    searched = any(scheme != "tfn" for scheme in training.negatives[1:])
    beams = beam_bytes(size.n_rows, training.beam) if searched else 0
    stages = tuple(map(tuple, training_stages(training.negatives)))
    return RankerEstimate(tuple(layers), stages, size.n_entries / max(1, size.n_rows), n_jobs, work, beams)


def _grown(value: float, before: float, after: float, power: float) -> float:
    """A value that is a power of another, which grew."""
    return value * (after / before) ** power if before > 0 and after > 0 else value


def _exponent(x: Sequence[float], y: Sequence[float], otherwise: float, within: tuple[float, float]) -> float:
    """The power of x that y is, by two points, where these are apart."""
    if min(*x, *y) <= 0 or abs(np.log(x[1] / x[0])) < 0.1:
        return otherwise
    return float(np.clip(np.log(y[1] / y[0]) / np.log(x[1] / x[0]), *within))


def training_plan(
    model: Any, data: TrainingData, trees: Sequence[LabelTree] | None = None, total: TrainingSize | None = None
) -> Plan:
    """The plan of an XRLinear, from trainings on a few of the rows."""
    total = TrainingSize.of(data.features, data.labels) if total is None else total
    tree = model.tree if trees is None else trees[0]
    samples = _Samples(model, data, tree, total)
    estimate, seconds = samples.estimate()
    phases = []
    if trees is None:
        n_bytes = 0
        if tree is None and total.n_labels > model.max_leaf:  # what clustering the labels takes at its worst
            n_entries = total.n_entries * total.n_positives // max(1, total.n_rows)  # of each label's rows
            n_bytes = embedding_bytes(total.n_labels, n_entries, total.n_positives, model.max_features_per_label)
        name = "tree" if model.n_trees == 1 else "trees"
        phases = [Phase(name, model.n_trees * seconds / resolve_jobs(model.n_jobs), n_bytes)]
    unread = total.nbytes if total.n_rows > data.features.shape[0] else 0
    return _rankers_plan(model, estimate, total, phases, unread, samples.n_rows % total.n_rows)


class _Samples:
    """Trainings on samples of the rows of one training."""

    def __init__(self, model: Any, data: TrainingData, tree: LabelTree | None, total: TrainingSize) -> None:
        self._model, self._data, self._tree, self._total, self.n_rows = copy.copy(model), data, tree, total, 0
        planned = layer_plan(total.n_labels, model.branching, model.max_leaf) if tree is None else tree.layer_sizes
        self._sizes = tuple(planned)
        # All rows choose how they are solved: a sample by itself would be taken for a small set, solved precisely.
        self._model.set_params(**chosen_by_rows(model, data.features, len(self._sizes), total.n_entries))

    def estimate(self) -> tuple[RankerEstimate, float]:
        """Train on ever more of the rows until they are enough: the estimate for all, and seconds of making a tree."""
        features, labels = self._data.features, self._data.labels
        training = tree_training(self._model, len(self._sizes), 0, features)
        # The largest sample's rows, drawn at random and in that order, so that its beginning is a sample too.
        drawn = np.random.default_rng(0).permutation(features.shape[0])[:MOST_ROWS]
        n_entries = np.cumsum(np.diff(features.indptr)[drawn])
        rows = drawn[: max(1, int(np.searchsorted(n_entries, MOST_ENTRIES, side="right")))]
        labelled = np.diff(labels.indptr)
        if not labelled[rows].any():
            rows = np.flatnonzero(labelled)[: len(rows)]
        seen: list[Sample] = []
        n = max(1, len(rows) // STEP**2, int(np.argmax(labelled[rows] > 0)) + 1)  # with a label among them
        while True:
            start = time.thread_time()
            seen.append(self._trained(np.sort(rows[:n])))
            affordable = MOST_SECONDS / max(1e-9, time.thread_time() - start)
            n_next = min(len(rows), STEP * n, int(affordable * n))
            if (n_next < MORE * n and n_next < len(rows)) or n == len(rows):
                break
            n = max(n_next, n)
        *_, before, last = (seen[0], *seen)
        total = self._total
        if last.size.n_rows == total.n_rows:
            return last.ranker, last.tree_seconds
        weighted = self._data.weight is not None or training.weighs(labels)
        ranker = carried_over(before, last, total, self._sizes, training, weighted)
        return ranker, last.tree_seconds * total.n_entries / max(1, last.size.n_entries)

    def _trained(self, rows: Int64) -> Sample:
        model, self.n_rows = copy.copy(self._model), len(rows)
        features, labels, weight, about, *_ = self._data
        labels, weight = take_rows(labels, rows), None if weight is None else weight[rows]
        if self._tree is None and all(value is None for value in about.values()):
            used, indices = np.unique(labels.indices, return_inverse=True)  # the labels that occur, renumbered
            labels = Csr(labels.indptr, indices.astype(np.int32), labels.data, (labels.shape[0], len(used)))
        data = TrainingData(features.take(rows), labels, weight, about).scaled(model)
        model.n_trees, start = 1, time.thread_time()
        if len(self._sizes) > 1:
            fewest = min(self._sizes[-2], FEWEST_CLUSTERS)
            model.max_leaf = max(1, min(model.max_leaf, labels.shape[1] // fewest))
        tree = self._tree or build_trees(model, data, Runner())[0]
        took = time.thread_time() - start
        for name in ("negatives", "combine"):  # of another depth: from the last layer up
            if not isinstance(value := getattr(model, name), str):
                setattr(model, name, ([value[0]] * tree.depth + list(value))[-tree.depth :])
        training = tree_training(model, tree.depth, 0, data.features, data.length)
        ranker = estimate_ranker(data.features, labels, tree, training, weight, resolve_jobs(model.n_jobs))
        return Sample(TrainingSize.of(data.features, labels), ranker, took)


def _rankers_plan(
    model: Any, estimate: RankerEstimate, total: TrainingSize, before: Sequence[Phase], unread: int, sampled: int
) -> Plan:
    """The plan of a model each of whose trees is taken to be like the first."""
    resident, available = resident_bytes(), available_bytes()
    available, resident = None if available is None else resident + available, resident + unread
    # What changes in the scores of the rows that calibrate it is little beside the solved clusters.
    n_folds = 0 if model.calibration is None else len(holdout_folds(total.n_rows, model.calibration_folds))
    n_trees, tree_bytes = model.n_trees, TREE_BYTES * total.n_labels
    each = estimate.model_bytes + tree_bytes
    peak = (n_trees - 1) * each + estimate.peak_bytes() + tree_bytes  # when the last tree is trained
    phases = [*before, Phase("rankers", n_trees * estimate.seconds, peak)]
    if n_folds:
        seconds = n_folds * n_trees * estimate.seconds * AGAIN
        phases.append(Phase("calibration", seconds, peak))
    peak = max(phase.peak_bytes for phase in phases)
    plan = Plan(sum(phase.seconds for phase in phases), resident + peak, n_trees * each, available, tuple(phases))
    plan = replace(plan, sampled_rows=sampled)
    if plan.fits:
        return plan
    beside = resident + phases[-1].peak_bytes - estimate.peak_bytes()
    # What takes less memory, with how much it would be; the most harmless first.
    offers: list[tuple[str, int]] = []
    if estimate.n_jobs > 1:
        offers.append(("n_jobs=1", estimate.peak_bytes(n_jobs=1)))
    for threshold in (2 * model.threshold or 0.1, 3 * model.threshold or 0.2):
        offers.append((f"threshold={threshold:.3g}", estimate.peak_bytes(share=estimate.left(threshold))))
    if n_trees > 1:
        offers.append(("n_trees=1", estimate.peak_bytes() - (n_trees - 1) * estimate.model_bytes))
    words = [f"memory_limit={shown_bytes(available or 0).replace(' ', '')!r}, which works in parts and on disk"]
    for name, n_bytes in offers:
        if beside + n_bytes - resident < 0.98 * (plan.peak_bytes - resident):  # of what the training adds
            words.append(f"{name} (about {shown_bytes(beside + n_bytes)})")
    if model.max_leaf > DEEP:
        words.append(f"max_leaf={DEEP}, a deeper tree, whose clusters see fewer rows")
    return replace(plan, offers=tuple(words))
