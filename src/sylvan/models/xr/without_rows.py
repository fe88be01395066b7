"""The rows that each cluster of a trained tree was learned from, found again where nobody has kept them."""

from __future__ import annotations

import numpy as np

from sylvan.arrays.validate import Csr
from sylvan.matching.beam import beam_job, root_beam
from sylvan.matching.negatives import cluster_rows, layer_positives, near_best, of_root
from sylvan.ranking.solution import LayerSolution
from sylvan.ranking.training import TreeTraining
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.runtime import Runner


def solutions_of(
    ranker: TreeRanker, features: Csr, labels: Csr, training: TreeTraining, runner: Runner | None = None
) -> list[LayerSolution]:
    """How a ranker's layers were solved, as far as its rows say it: the multipliers aren't known."""
    runner = Runner() if runner is None else runner
    tree, n_rows = ranker.tree, features.shape[0]
    positives, beam = layer_positives(tree, labels), root_beam(n_rows)
    result = []
    for t, offsets in enumerate(tree.child_offsets):
        if t:
            job = beam_job(
                t - 1, features, ranker.layers[t - 1], beam, training.beam, training.combines[t - 1], runner.n_jobs
            )
            beam = runner.one(job)
        nodes = beam[0] if not t else near_best(beam, training.man_threshold, training.combines[t - 1])
        parents = positives[t - 1] if t else of_root(positives[0])
        row_offsets, rows = cluster_rows(training.negatives[t], parents, nodes, len(offsets) - 1, n_rows)
        n_multipliers = int((np.diff(row_offsets) * np.diff(offsets)).sum())
        nothing = np.zeros(int(offsets[-1]), np.float32)
        result.append(LayerSolution(offsets, row_offsets, rows, np.zeros(n_multipliers, np.float16), nothing, False))
    return result
