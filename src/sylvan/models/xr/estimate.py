"""What training the rankers of a tree will take: from trainings on a few of the rows, carried over to all of them. The
time of a training is nearly proportional to the entries of its rows. What a node's weights are as rows grow follows a
power of the node's positive rows, as vocabularies grow (Heaps' law): weights are its rows' features, of which ever
fewer are new. What holds memory is counted from sizes, by the functions that the training itself counts with."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sylvan.arrays.canonical import Csr
from sylvan.data.parts.row_parts import Rows
from sylvan.indexing import LabelTree
from sylvan.matching.beam import beam_bytes
from sylvan.matching.negatives import cluster_rows, csr_bytes, layer_positives, of_root, rows_bytes
from sylvan.ranking.linear import LANES, solver_bytes
from sylvan.ranking.solution import solved_bytes
from sylvan.ranking.training import TreeTraining, solved_together, train_rankers, training_stages
from sylvan.weights.layer import ClusterWeights, laid_out_bytes

NEAR = 0.6  # of the clusters that a search reaches, those whose score is near enough to the best, as a rule
CLUSTERS = 16  # of a layer, on whose weights thresholds are tried
# Exponents, where two trainings don't tell or a layer isn't like any of theirs: of a node's weights by its positive
# rows, in the last layer and above; of a cluster's features by its rows; of a vocabulary by its texts.
LAST, INNER, FEATURES, HEAPS = 0.65, 0.5, 0.45, 0.6
_LAST_RANGE, _CLUSTERS_RANGE = (0.4, 1.0), (0.0, 0.5)


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
    known: int  # bytes of the rows and positives
    solver: int  # bytes of a thread that solves the largest cluster
    laid_out: int  # bytes of the finished layer
    magnitudes: npt.NDArray[np.float32]  # absolute weights, some of them

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
        known = self.beams + sum(layer.known for layer in self.layers)
        finished = most = 0
        for part in self._parts():
            finished += sum(self.layers[t].laid_out for t in part)
            most = max(most, finished + sum(self.layers[t].solved for t in part))
        return known + max(solver, int(share * most))

    def _parts(self) -> list[list[int]]:
        """The layers that wait together to be laid out, one part after the other."""
        parts = []
        for stage in self.stages:
            costs = {t: self.layers[t].cost * self.row_entries for t in stage}
            parts += solved_together(costs, {t: self.layers[t].n_clusters for t in stage})
        return parts

    def left(self, threshold: float) -> float:
        """The share of weights that reach ``threshold``."""
        total = sum(layer.n_weights for layer in self.layers)
        left = sum(
            layer.n_weights * float((layer.magnitudes >= threshold).mean())
            for layer in self.layers
            if layer.magnitudes.size
        )
        return float(left / total) if total else 1.0


def estimate_ranker(
    features: Csr,
    labels: Csr,
    tree: LabelTree,
    training: TreeTraining,
    sample_weight: npt.NDArray[np.float32] | None = None,
    n_jobs: int = 1,
) -> RankerEstimate:
    """What :func:`~sylvan.ranking.training.train_rankers` takes, by training on one thread; meant for a few rows."""
    start = time.thread_time()  # of the processor, whatever else it does meanwhile
    ranker = train_rankers(features, labels, tree, training, sample_weight)[0]
    work = time.thread_time() - start
    size, positives = TrainingSize.of(features, labels), layer_positives(tree, labels)
    weighted = sample_weight is not None or training.weighs(labels)
    layers = []
    for t, weights in enumerate(ranker.layers):
        n_clusters = len(tree.child_offsets[t]) - 1
        offsets, rows = cluster_rows(
            "tfn", positives[t - 1] if t else of_root(positives[0]), None, n_clusters, size.n_rows
        )
        largest, n_own = int(np.diff(offsets).max()), float(len(rows))
        n_rows, n_weights = weights.block_starts.reshape(n_clusters, -1, 2)[:, -1].sum(axis=0, dtype=np.int64)
        layers.append(
            _layer(
                size, training, t, (n_clusters, int(tree.child_offsets[t][-1]), float(len(positives[t].indices))),
                (n_own, largest / max(1.0, n_own)), (float(n_weights), float(n_rows)), _magnitudes(weights), weighted,
            )
        )  # fmt: skip
    return _ranker(size, training, layers, n_jobs, work)


def carried_over(
    fewer: tuple[TrainingSize, RankerEstimate], more: tuple[TrainingSize, RankerEstimate], whole: TrainingSize,
    sizes: Sequence[int], training: TreeTraining, weighted: bool = False,
) -> RankerEstimate:  # fmt: skip
    """What training on all rows takes, by what training on some and on more of them took."""
    (size, seen), before = more, fewer[1]
    layers = []
    for t, n_nodes in enumerate(sizes):
        n_clusters = sizes[t - 1] if t else 1
        like, earlier = (one.layers[max(0, len(one.layers) - (len(sizes) - t))] for one in (seen, before))
        last = t == len(sizes) - 1
        # Rows come into more of the clusters where there are more of these.
        spread = _exponent(
            earlier.n_clusters, like.n_clusters, earlier.n_own / fewer[0].n_rows, like.n_own / size.n_rows,
            0.1, _CLUSTERS_RANGE,
        )  # fmt: skip
        per_row = whole.n_positives / whole.n_rows
        own_per_row = like.n_own / size.n_rows * (n_clusters / like.n_clusters) ** spread
        n_own = whole.n_rows * (min(own_per_row, max(1.0, per_row), n_clusters) if t else 1.0)
        node_positives = whole.n_rows * like.n_positives / size.n_rows * (n_nodes / like.n_nodes) ** spread
        n_positives = min(node_positives, whole.n_positives)
        if last:  # a label may have several leaves
            n_nodes = round(whole.n_labels * like.n_nodes / size.n_labels)
            n_positives = whole.n_positives * like.n_positives / max(1, size.n_positives)
        density = n_positives / n_nodes
        if not last:
            like = min(seen.layers[:-1] or seen.layers, key=lambda one: abs(np.log(_density(one) / density)))
        power = INNER
        if last:
            power = _exponent(
                _density(earlier), _density(like), earlier.n_weights / earlier.n_nodes, like.n_weights / like.n_nodes,
                LAST, _LAST_RANGE,
            )  # fmt: skip
        each = _grown(like.n_weights / like.n_nodes, _density(like), density, power)
        n_weights = n_nodes * min(each, float(whole.n_columns))
        rows_each = _grown(like.n_rows / like.n_clusters, like.n_own / like.n_clusters, n_own / n_clusters, FEATURES)
        n_rows = min(n_weights, n_clusters * min(rows_each, whole.n_columns))
        layers.append(
            _layer(
                whole, training, t, (n_clusters, n_nodes, float(n_positives)),
                (n_own, min(1.0, like.largest / max(1.0, like.n_pairs) * like.n_clusters / n_clusters)),
                (n_weights, n_rows), like.magnitudes, weighted,
            )
        )  # fmt: skip
    return _ranker(whole, training, layers, seen.n_jobs, seen.work * whole.n_entries / max(1, size.n_entries))


def _layer(
    size: TrainingSize, training: TreeTraining, t: int, shape: tuple[int, int, float], own: tuple[float, float],
    solved: tuple[float, float], magnitudes: npt.NDArray[np.float32], weighted: bool,
) -> LayerEstimate:  # fmt: skip
    """Layer ``t``: by (clusters, nodes, positives), (rows of labels, share of the largest) and (weights, features)."""
    (n_clusters, n_nodes, n_positives), (n_own, share), (n_weights, n_rows) = shape, own, solved
    searched = t > 0 and training.negatives[t] != "tfn"
    reached = min(training.beam, n_clusters) * (NEAR if training.man_threshold else 1.0)
    n_found = size.n_rows * max(1.0, reached) if searched else 0.0
    n_pairs = max(n_own, n_found)
    largest = min(float(size.n_rows), share * n_pairs)
    rows = largest / max(1, size.n_rows)
    n_used, n_children = size.n_columns * rows**HEAPS, -(-n_nodes // n_clusters)
    entries = int(size.n_entries * rows)
    solver = solver_bytes(int(largest), entries, int(n_used), size.n_columns, n_children, weighted)
    known = csr_bytes(size.n_rows, int(n_positives)) + rows_bytes(int(n_own + n_found), n_clusters)
    laid_out = laid_out_bytes(
        int(n_weights), int(n_rows), n_clusters, n_nodes, size.n_columns, n_children, training.weight_dtype
    )
    return LayerEstimate(
        n_clusters, n_nodes, n_positives, n_own, n_pairs, largest, n_weights, n_rows, known, int(solver), laid_out,
        magnitudes,
    )  # fmt: skip


def _ranker(
    size: TrainingSize, training: TreeTraining, layers: Sequence[LayerEstimate], n_jobs: int, work: float
) -> RankerEstimate:
    searched = any(scheme != "tfn" for scheme in training.negatives[1:])
    beams = beam_bytes(size.n_rows, training.beam) if searched else 0
    stages = tuple(map(tuple, training_stages(training.negatives)))
    row_entries = size.n_entries / max(1, size.n_rows)
    return RankerEstimate(tuple(layers), stages, row_entries, n_jobs, work, beams)


def _magnitudes(weights: ClusterWeights) -> npt.NDArray[np.float32]:
    n_clusters = len(weights.row_offsets) - 1
    some = np.unique(np.linspace(0, n_clusters - 1, min(n_clusters, CLUSTERS)).astype(np.int64))
    values = np.concatenate([weights.cluster(int(c)).weights for c in some])
    return np.asarray(np.abs(values), np.float32)


def _density(layer: LayerEstimate) -> float:
    """Positive rows of a node."""
    return max(layer.n_positives, 1e-9) / layer.n_nodes


def _grown(value: float, before: float, after: float, power: float) -> float:
    """A value that is a power of another, which grew."""
    return value * (after / before) ** power if before > 0 and after > 0 else value


def _exponent(x0: float, x1: float, y0: float, y1: float, otherwise: float, within: tuple[float, float]) -> float:
    """The power of x that y is, by two points, where these are apart."""
    if min(x0, x1, y0, y1) <= 0 or abs(np.log(x1 / x0)) < 0.1:
        return otherwise
    return float(np.clip(np.log(y1 / y0) / np.log(x1 / x0), *within))
