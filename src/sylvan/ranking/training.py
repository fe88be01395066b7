"""Training the rankers of one tree, layer by layer (PECOS Algorithm 2, lines 2-7)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.errors import ModelError
from sylvan.indexing import LabelTree
from sylvan.matching.beam import Beam, beam_bytes, next_beam, root_beam
from sylvan.matching.negatives import cluster_rows, csr_bytes, layer_positives, pairing_bytes
from sylvan.parallel import map_parallel
from sylvan.ranking.linear import Block, Folds, LayerProblem, LinearOptions, block_jobs, squared_norms
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.runtime.jobs import Arrays, Job, Packing, Results, Runner
from sylvan.validate import Csr
from sylvan.weights import ClusterRows, ClusterWeights, Layout

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


def train_rankers(
    features: Csr,
    labels: Csr,
    tree: LabelTree,
    training: TreeTraining,
    sample_weight: npt.NDArray[np.float32] | None = None,
    holdout: Sequence[npt.NDArray[np.int32]] = (),
    *,
    runner: Runner | None = None,
    known: Mapping[int, ClusterWeights] | None = None,
) -> list[TreeRanker]:
    """Phases 2 and 3: the rows that each layer's clusters learn from, then their rankers.

    The first ranker is trained on all rows. One more follows for each set of ``holdout`` rows (row ids), trained
    without them: a cluster's solution with all rows is where the one without them begins, at a part of the cost.

    ``known`` are weights of layers that were learned elsewhere and are taken as they are.
    """
    runner, known = Runner() if runner is None else runner, known or {}
    folds = Folds.of(holdout, features.shape[0])
    positives = runner.share(runner.one(_positives_job(tree, labels)))
    weighted = bool((labels.data != 1).any())
    sets: list[list[ClusterWeights]] = [[] for _ in range(1 + folds.count)]
    norms = squared_norms(features)
    beam: Beam | None = None  # of the layer above the one that was reached
    reached = 0
    for stage in _stages(training.negatives, known):
        if stage[0] in known:
            for layers in sets:
                layers.append(known[stage[0]])
            continue
        problems = {}
        for t in stage:
            nodes = None
            if t and training.negatives[t] != "tfn":  # the matcher's own choice: follow the beam down to here
                beam = root_beam(features.shape[0]) if beam is None else beam
                for above in range(reached, t):
                    beam = runner.one(_beam_job(features, sets[0][above], beam, above, training, runner.n_jobs))
                nodes, reached = beam[0], t
            row_offsets, rows = runner.share(runner.one(_rows_job(t, tree, training, positives, nodes)))
            problems[t] = LayerProblem(tree.child_offsets[t], positives[t], row_offsets, rows, weighted=weighted)
        jobs = [
            block_jobs(features, norms, problem, t, training.linear, folds=folds, sample_weight=sample_weight)
            for t, problem in problems.items()
        ]
        solved = runner.run([job for layer in jobs for job in layer], _description(stage, tree.depth))
        blocks = [[job.inputs["clusters"] for job in layer] for layer in jobs]
        offsets = [tree.child_offsets[t] for t in stage]
        for layers, found in zip(sets, _laid_out(solved, blocks, offsets, features, training, runner), strict=True):
            layers += found
    return [TreeRanker(tree, layers) for layers in sets]


def _stages(negatives: Sequence[str], known: Mapping[int, ClusterWeights]) -> list[list[int]]:
    """Layers that can be solved together, as none of them learns from a search through another.

    With teacher-forced negatives in all layers but the first, whose one cluster takes every row, that is all of them.
    """
    stages: list[list[int]] = []
    for t, scheme in enumerate(negatives):
        if t and scheme == "tfn" and t not in known and t - 1 not in known:
            stages[-1].append(t)
        else:
            stages.append([t])
    return stages


def _description(stage: Sequence[int], depth: int) -> str:
    if len(stage) == depth:
        return "Training"
    which = f"layer {stage[0] + 1}" if len(stage) == 1 else f"layers {stage[0] + 1} to {stage[-1] + 1}"
    return f"Training {which} of {depth}"


# ---------------------------------------- what comes before the rankers, as jobs


def _positives_job(tree: LabelTree, labels: Csr) -> Job[list[Csr]]:
    """The nodes that each row is a positive of, layer by layer (line 3)."""
    size = csr_bytes(labels.shape[0], len(labels.indices)) * tree.depth + pairing_bytes(len(labels.indices))
    inputs = {"tree": tree, "labels": labels}
    return Job("positives", layer_positives, inputs, peak_bytes=size, title="sorting the labels")


def _rows_job(
    t: int, tree: LabelTree, training: TreeTraining, positives: Sequence[Csr], nodes: npt.NDArray[np.int32] | None
) -> Job[tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]]:
    """The rows of layer t's clusters (line 4), ``nodes`` being the beam above it."""
    parents = positives[t - 1] if t else None
    n_pairs = (0 if parents is None else len(parents.indices)) + (0 if nodes is None else nodes.size)
    inputs = {
        "negatives": training.negatives[t], "parents": parents, "beam": nodes,
        "n_clusters": len(tree.child_offsets[t]) - 1, "n_rows": positives[t].shape[0],
    }  # fmt: skip
    title = f"gathering the rows of layer {t + 1}"
    return Job(f"layer{t}.rows", cluster_rows, inputs, peak_bytes=pairing_bytes(n_pairs), title=title)


def _beam_job(
    features: Csr, weights: ClusterWeights, above: Beam, t: int, training: TreeTraining, n_jobs: int
) -> Job[Beam]:
    """The clusters that each training row reaches below layer t (line 7)."""
    inputs = {
        "features": features, "weights": weights, "above": above, "width": training.beam,
        "combine": training.combines[t], "n_jobs": n_jobs,
    }  # fmt: skip
    size = beam_bytes(features.shape[0], training.beam)
    title = "searching the training rows' clusters"
    return Job(f"layer{t}.beam", next_beam, inputs, peak_bytes=size, packing=_BEAM, title=title)


def _pack_beam(beam: Beam) -> Arrays:
    return {"nodes": beam[0], "scores": beam[1]}


def _unpack_beam(arrays: Arrays) -> Beam:
    nodes, scores = arrays.get("nodes"), arrays.get("scores")
    if nodes is None or scores is None or nodes.shape != scores.shape or nodes.dtype != np.int32:
        raise ModelError("A stored beam is damaged: its nodes and scores don't agree.")
    return np.array(nodes), np.array(scores)  # the search asks for arrays that could be written to


_BEAM: Packing[Beam] = Packing(_pack_beam, _unpack_beam)


# ---------------------------------------- what comes after them


def _laid_out(
    solved: Results[Block],
    blocks: Sequence[Sequence[range]],
    offsets: Sequence[npt.NDArray[np.int64]],
    features: Csr,
    training: TreeTraining,
    runner: Runner,
) -> list[list[ClusterWeights]]:
    """The layers of a stage from their solved blocks, which are let go: with all rows, then without each fold.

    ``blocks`` holds the clusters of each block and ``offsets`` where each cluster's children begin, layer by layer.
    """
    place = [(at, clusters) for at, layer in enumerate(blocks) for clusters in layer]
    sizes: list[list[npt.NDArray[Any]]] = []
    for number, block in solved.scan():
        at, clusters = place[number]
        if not sizes:  # as many sets as the first cluster has
            sizes = [[np.zeros(len(each) - 1, ClusterRows.SIZES) for each in offsets] for _ in block[0]]
        for cluster, sets in zip(clusters, block, strict=True):
            for own, rows in zip(sizes, sets, strict=True):
                own[at][cluster] = rows.sizes()
    dtype, zeros = training.weight_dtype, runner.zeros
    layouts = [
        [Layout(size, each, features.shape[1], dtype, zeros) for size, each in zip(own, offsets, strict=True)]
        for own in sizes
    ]

    def lay(numbers: Sequence[int]) -> None:
        for number, block in solved.drain(numbers):
            at, clusters = place[number]
            for cluster, sets in zip(clusters, block, strict=True):
                for own, rows in zip(layouts, sets, strict=True):
                    own[at].place(cluster, rows)

    if solved.in_memory:
        ends = np.cumsum([0, *map(len, blocks)]).tolist()
        map_parallel(lay, [range(first, last) for first, last in itertools.pairwise(ends)], runner.n_jobs)
    else:
        lay(range(len(solved)))
    runner.release()
    return [[layout.finish() for layout in own] for own in layouts]
