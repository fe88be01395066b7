"""Training the rankers of one tree, layer by layer (PECOS Algorithm 2, lines 2-7)."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.errors import ModelError
from sylvan.indexing import LabelTree
from sylvan.matching import beam as matching
from sylvan.matching.negatives import cluster_rows, layer_positives
from sylvan.ranking.finished import Finished
from sylvan.ranking.linear import Folds, LayerProblem, LinearOptions, solve_layers
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.ranking.workspace import Workspace
from sylvan.runtime.memory import beam_bytes, csr_bytes, pairing_bytes
from sylvan.validate import Csr
from sylvan.weights import ClusterWeights

__all__ = ["TreeTraining", "train_rankers"]


@dataclass(frozen=True)
class TreeTraining:
    """How the rankers of a tree are trained.

    ``negatives`` and ``combines`` hold one word a layer; ``beam`` is the width of the search that gives matcher-aware
    negatives.
    """

    negatives: Sequence[str]
    combines: Sequence[str]
    beam: int
    linear: LinearOptions
    weight_dtype: str
    n_jobs: int


def train_rankers(
    features: Csr,
    labels: Csr,
    tree: LabelTree,
    training: TreeTraining,
    sample_weight: npt.NDArray[np.float32] | None = None,
    held_out: Sequence[npt.NDArray[np.int32]] = (),
    *,
    work: Workspace | None = None,
    prefix: str = "tree0",
    known: Mapping[int, ClusterWeights] | None = None,
) -> list[TreeRanker]:
    """Phases 2 and 3: each layer's rows, then its rankers.

    The first ranker is trained on all rows. One more follows for each set of ``held_out`` rows (row ids), which teach
    it nothing: a cluster's solution with all rows is where the one without them begins, at a part of the cost.

    ``work`` says where finished parts go, under names that begin with ``prefix``; without it they stay in memory.
    ``known`` are weights of layers that were learned elsewhere and are taken as they are.
    """
    work = Workspace() if work is None else work
    names = [prefix, *(f"fold{fold}{prefix}" for fold in range(len(held_out)))]
    finished = [
        work.finished(name, tree, features.shape[1], training.weight_dtype, training.n_jobs) for name in names
    ]
    layers = _Layers(features, labels, tree, training, sample_weight, held_out, work, prefix, finished, known or {})
    try:
        # Every layer's rows are known beforehand.
        if not known and all(scheme == "tfn" for scheme in training.negatives[1:]):
            return [TreeRanker(tree, found) for found in layers.together()]
        return [TreeRanker(tree, found) for found in layers.one_by_one()]
    except BaseException:
        with contextlib.suppress(ModelError):  # that the disk is full as well would hide what went wrong first
            layers.flush()
        raise


class _Layers:
    """The layers of one tree while they are trained."""

    def __init__(
        self,
        features: Csr,
        labels: Csr,
        tree: LabelTree,
        training: TreeTraining,
        sample_weight: npt.NDArray[np.float32] | None,
        held_out: Sequence[npt.NDArray[np.int32]],
        work: Workspace,
        prefix: str,
        finished: Sequence[Finished],
        known: Mapping[int, ClusterWeights],
    ) -> None:
        self.known = known
        self.features, self.tree, self.training, self.sample_weight = features, tree, training, sample_weight
        self.folds = Folds.of(held_out, features.shape[0])
        self.work, self.prefix, self.finished = work, prefix, finished
        self.weighted = bool((labels.data != 1).any())
        n_rows = features.shape[0]
        work.need(csr_bytes(n_rows, labels.nnz) * tree.depth + pairing_bytes(labels.nnz), "sorting the labels")
        self.positives = [self._kept(nodes) for nodes in layer_positives(tree, labels)]
        work.release()

    def _kept(self, nodes: Csr) -> Csr:
        keep = self.work.keep
        return Csr(keep(nodes.indptr), keep(nodes.indices), keep(nodes.data), nodes.shape)

    def problem(self, t: int, nodes: npt.NDArray[np.int32] | None) -> LayerProblem:
        """The rows of layer t's clusters, ``nodes`` being the beam above it."""
        offsets, n_rows = self.tree.child_offsets[t], self.features.shape[0]
        above = self.positives[t - 1] if t else None
        if above is not None:
            n_pairs = above.nnz + (0 if nodes is None else nodes.size)
            self.work.need(pairing_bytes(n_pairs), f"gathering the rows of layer {t + 1}")
        row_offsets, rows = cluster_rows(self.training.negatives[t], above, nodes, len(offsets) - 1, n_rows)
        row_offsets, rows = self.work.keep(row_offsets), self.work.keep(rows)
        self.work.release()
        return LayerProblem(offsets, self.positives[t], row_offsets, rows, weighted=self.weighted)

    def solve(self, problems: dict[int, LayerProblem], description: str) -> None:
        """Whatever isn't finished of these layers."""
        finished, *without = self.finished
        solve_layers(
            self.features, problems, self.training.linear, finished, folds=self.folds, without=without,
            sample_weight=self.sample_weight, gate=self.work.gate, n_jobs=self.training.n_jobs, description=description,
        )  # fmt: skip
        self.flush()

    def flush(self) -> None:
        """Bring what is solved to safety."""
        for finished in self.finished:
            finished.flush()

    def complete(self, t: int) -> bool:
        """Whether nothing of layer t has to be solved any more."""
        return all(finished.complete(t) for finished in self.finished)

    def together(self) -> list[list[ClusterWeights]]:
        """All layers as one list of work; those of all rows first, then those without each fold."""
        todo = [t for t in range(self.tree.depth) if not self.complete(t)]
        self.solve({t: self.problem(t, None) for t in todo}, "Training")
        return [finished.lay_out(range(self.tree.depth)) for finished in self.finished]

    def one_by_one(self) -> list[list[ClusterWeights]]:
        """Each layer on what the search through those above it finds."""
        sets: list[list[ClusterWeights]] = [[] for _ in self.finished]
        beams = _Beams(self, sets[0])
        for t in range(self.tree.depth):
            if t in self.known:
                for layers in sets:
                    layers.append(self.known[t])
                continue
            if not self.complete(t):
                self.solve({t: self.problem(t, beams.above(t)[0])}, f"Training layer {t + 1} of {self.tree.depth}")
            for layers, finished in zip(sets, self.finished, strict=True):
                layers += finished.lay_out([t])
        return sets


class _Beams:
    """The clusters that each training row reaches; one that a checkpoint holds isn't searched for again."""

    def __init__(self, training: _Layers, layers: Sequence[ClusterWeights]) -> None:
        self._of, self._layers = training, layers
        self._last: tuple[int, matching.Beam] = (0, matching.root_beam(training.features.shape[0]))

    def above(self, t: int) -> matching.Beam:
        """The beam that layer t's clusters are taken from."""
        if self._last[0] != t:
            found = self._of.work.part(f"{self._of.prefix}.beam{t}", lambda: self._search(t), _pack, self._unpack)
            self._last = (t, found)
        return self._last[1]

    def _search(self, t: int) -> matching.Beam:
        training, features = self._of.training, self._of.features
        self._of.work.need(beam_bytes(features.shape[0], training.beam), "searching the training rows' clusters")
        above = self.above(t - 1)
        combine = training.combines[t - 1]
        return matching.next_beam(features, self._layers[t - 1], above, training.beam, combine, training.n_jobs)

    def _unpack(self, state: store.State) -> matching.Beam:
        n_nodes = max(self._of.tree.layer_sizes)
        nodes = store.need_range(state, "nodes", -1, n_nodes - 1, np.int32, (self._of.features.shape[0], None))
        scores = store.need_array(state, "scores", np.float32, nodes.shape)
        return nodes.copy(), scores.copy()  # what was loaded can't be written to, which the search asks of its arrays


def _pack(beam: matching.Beam) -> store.State:
    return store.State("training-beam", 1, arrays={"nodes": beam[0], "scores": beam[1]})
