"""Training the rankers of one tree, layer by layer (PECOS Algorithm 2, lines 2-7)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.indexing import LabelTree
from sylvan.matching.beam import beam_job, root_beam
from sylvan.matching.negatives import near_best, positives_job, rows_job
from sylvan.parallel import map_parallel
from sylvan.ranking.linear import Block, Folds, LayerProblem, LinearOptions, block_jobs, squared_norms
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.runtime.jobs import Results, Runner
from sylvan.validate import Csr
from sylvan.weights import ClusterRows, ClusterWeights, Layout

__all__ = ["TreeTraining", "train_rankers"]


@dataclass(frozen=True)
class TreeTraining:
    """How the rankers of a tree are trained.

    ``negatives`` and ``combines`` hold one word a layer; ``beam`` is the width of the search that gives matcher-aware
    negatives, of which those clusters count whose score is at least ``man_threshold`` of the row's best.
    """

    negatives: Sequence[str]
    combines: Sequence[str]
    beam: int
    linear: LinearOptions
    weight_dtype: str
    man_threshold: float = 0.0


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
    n_rows, folds = features.shape[0], Folds.of(holdout, features.shape[0])
    positives = runner.one(positives_job(tree, labels))
    weighted = bool((labels.data != 1).any())
    solve = partial(
        block_jobs, features, squared_norms(features), options=training.linear, folds=folds,
        sample_weight=sample_weight,
    )  # fmt: skip
    sets: list[list[ClusterWeights]] = [[] for _ in range(1 + folds.count)]
    beam, reached = root_beam(n_rows), 0  # and the layer above which it is
    for stage in _stages(training.negatives, known):
        if stage[0] in known:
            for layers in sets:
                layers.append(known[stage[0]])
            continue
        problems = {}
        for t in stage:
            nodes, scheme, children = None, training.negatives[t], tree.child_offsets[t]
            if t and scheme != "tfn":  # the matcher's own choice: follow the beam down to here
                for above in range(reached, t):
                    weights, combine = sets[0][above], training.combines[above]
                    job = beam_job(above, features, weights, beam, training.beam, combine, runner.n_jobs)
                    beam = runner.one(job)
                reached = t
                nodes = near_best(beam, training.man_threshold, training.combines[t - 1])
            parents = positives[t - 1] if t else None
            row_offsets, rows = runner.one(rows_job(t, scheme, len(children) - 1, n_rows, parents, nodes))
            problems[t] = LayerProblem(children, positives[t], row_offsets, rows, weighted=weighted)
        jobs = [solve(problem, t) for t, problem in problems.items()]
        solved = runner.run([job for layer in jobs for job in layer], _description(stage, tree.depth))
        blocks = [[job.inputs["clusters"] for job in layer] for layer in jobs]
        offsets = [tree.child_offsets[t] for t in stage]
        laid_out = _laid_out(solved, blocks, offsets, features.shape[1], training.weight_dtype, runner)
        for layers, result in zip(sets, laid_out, strict=True):
            layers += result
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


def _laid_out(
    solved: Results[Block],
    blocks: Sequence[Sequence[range]],
    offsets: Sequence[npt.NDArray[np.int64]],
    n_features: int,
    dtype: str,
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
                own[at][cluster] = rows.sizes(dtype)
    layouts = [
        [Layout(size, each, n_features, dtype, runner.zeros) for size, each in zip(own, offsets, strict=True)]
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
