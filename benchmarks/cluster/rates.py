"""What the parts of a training cost on this machine: CPU seconds by entry, label, pair and weight, for the simulation.

A training of the synthetic set 300,000 x 700,000 is run job by job; what can't be seen there (a halving of very many
labels, a root of other numbers of children) is measured by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cluster.recorded import Recorder, array_bytes
from benchmarks.common import datasets
from sylvan import LabelTree, XRLinear, indexing, kernels
from sylvan.arrays.validate import Csr
from sylvan.indexing.clustering import layer_plan, plan_offsets
from sylvan.ranking.linear import LayerProblem, LinearOptions, block_jobs, squared_norms

__all__ = ["clustering_rates", "measured_rates", "root_rates", "training_rates"]

Record = dict[str, Any]
SAMPLE = 1 << 16  # labels that a large split iterates on
BRANCHING, MAX_LEAF = 16, 100
ITERATIONS = 10  # of a halving, as LabelTree.build has it
SETTINGS: dict[str, Record] = {"tfn": {"negatives": "tfn"}, "tfn+man": {}}


def measured_rates(folder: Path) -> Record:
    """All rates, by a prepared set."""
    X, Y = (Csr.of(matrix) for matrix in datasets.load(folder, "X.trn", "Y.trn"))
    result: Record = {"set": folder.name, "settings": {}}
    for setting, parameters in SETTINGS.items():
        result["settings"][setting] = training_rates(X, Y, parameters)
    embeddings = Csr.of(indexing.pifa(X, Y))
    result["clustering"], tree = clustering_rates(embeddings)
    result["root"] = root_rates(X, Y, tree.leaf_labels)
    problem = _root_problem(X, Y, tree.leaf_labels, 16)
    result["cutting"] = _seconds(lambda: problem.part(range(1))) / X.shape[0]
    return result


def training_rates(X: Csr, Y: Csr, parameters: Record) -> Record:
    """A training without calibration, on one thread, by its jobs.

    Returns
    -------
    dict
        Per layer: rows of all clusters and of the largest, clusters, nodes, cost, CPU seconds, seconds a unit of cost,
        weights and features that have any; the sizes of the set; seconds of the embeddings, of sorting labels and
        rows, of searching each layer, and of what the process does between the jobs (laying out, most of all).
    """
    recorder = Recorder()
    model = XRLinear(n_jobs=1, calibration=None, branching=BRANCHING, max_leaf=MAX_LEAF, **parameters)
    model.fit(X.to_scipy(), Y.to_scipy(), runner=recorder, force=True)
    recorder.finish()
    layers: dict[int, Record] = {}
    singles: dict[str, float] = {}
    for step in recorder.steps:
        for job in step.jobs:
            name = job.name.removeprefix("tree0.")
            if step.kind == "list":
                layer = layers.setdefault(int(name.partition(".")[0].removeprefix("layer")), _layer())
                for key, value in (("cost", job.cost), ("seconds", job.seconds), ("bytes_out", job.bytes_out)):
                    layer[key] += value
            else:
                singles[name] = singles.get(name, 0.0) + job.seconds
    for name, (pairs, largest, clusters, nodes) in recorder.pairs.items():
        t = int(name.rpartition("layer")[2])
        weights = model.layers_[t]
        ends = weights.block_starts.reshape(clusters, -1, 2)[:, -1].sum(axis=0, dtype=np.int64)
        layers[t] |= {"pairs": pairs, "largest": largest, "clusters": clusters, "nodes": nodes,
                      "used": int(ends[0]), "weights": int(ends[1]), "rate": layers[t]["seconds"] / layers[t]["cost"],
                      "bytes": array_bytes(weights)}  # fmt: skip
    return {"layers": [layers[t] for t in sorted(layers)], "singles": singles, **sizes(X, Y)}


def sizes(X: Csr, Y: Csr) -> Record:
    """Of a set: rows, labels, features, entries of X and of Y, entries of all labels' rows, and the commonest label."""
    of_rows = np.diff(X.indptr)
    return {
        "rows": X.shape[0], "labels": Y.shape[1], "columns": X.shape[1], "entries": len(X.indices),
        "positives": len(Y.indices), "aggregated": int((of_rows * np.diff(Y.indptr)).sum()),
        "commonest": int(np.bincount(Y.indices).max()),
    }  # fmt: skip


def _layer() -> Record:
    return {"cost": 0.0, "seconds": 0.0, "bytes_out": 0}


def clustering_rates(embeddings: Csr) -> tuple[Record, LabelTree]:
    """Seconds by value of an embedding, and the tree.

    What a halving of very many labels takes is measured once with its iterations on a sample and once with one alone:
    the pass that assigns is in both. What is left of the whole tree is that of its lower halvings.
    """
    n_labels = embeddings.shape[0]
    values, large = len(embeddings.indices) / n_labels, n_labels > 2 * SAMPLE
    many, one = (_halving(embeddings, iterations) for iterations in (ITERATIONS, 1))
    iterating = max(0.0, many - one) / (values * min(n_labels, SAMPLE)) * ITERATIONS / (ITERATIONS - 1)
    assigning = max(0.0, one - iterating / ITERATIONS * values * SAMPLE) / (values * n_labels) if large else 0.0
    trees: list[LabelTree] = []
    whole = left = _seconds(lambda: trees.append(LabelTree.build(embeddings, BRANCHING, MAX_LEAF, n_jobs=1)))
    part, n_parts = float(n_labels), 1
    while part > 2 * SAMPLE:
        left -= n_parts * values * (iterating * SAMPLE + assigning * part)
        part, n_parts = part / 2, n_parts * 2
    return {
        "labels": n_labels, "values_a_label": values, "iterating": iterating, "assigning": assigning,
        "subtree": float(left / (values * n_labels * np.log2(part / 16))), "seconds": whole,
    }, trees[0]  # fmt: skip


def _halving(rows: Csr, iterations: int) -> float:
    """CPU seconds of the first halving of these labels."""
    offsets = plan_offsets(layer_plan(rows.shape[0], BRANCHING, MAX_LEAF))
    starts = np.concatenate(([0], np.cumsum([layer.size for layer in offsets]))).astype(np.int64)
    order = np.arange(rows.shape[0], dtype=np.int32)

    def work() -> None:
        kernels.split_sparse_rows(
            rows.indptr, rows.indices, rows.data, rows.shape[1], np.concatenate(offsets), starts, 0, 0,
            int(offsets[0][-1]), 0, True, iterations, SAMPLE, 1, order,
        )  # fmt: skip

    return _seconds(work)


def root_rates(X: Csr, Y: Csr, leaf_labels: Any) -> list[Record]:
    """Seconds by (entry x group of children) of one cluster of all rows, by its number of children.

    Children are runs of a tree's leaves, whose labels are ``leaf_labels``.
    """
    norms, options, result = squared_norms(X), LinearOptions(), []
    for n_children in (2, 4, 8, 16, 32):
        job = block_jobs(X, norms, _root_problem(X, Y, leaf_labels, n_children), 0, options)[0]
        seconds = _seconds(job)
        result.append({"children": n_children, "seconds": seconds, "rate": seconds / job.cost})
    return result


def _root_problem(X: Csr, Y: Csr, leaf_labels: Any, n_children: int) -> LayerProblem:
    n_rows, positives = X.shape[0], _merged(Y, leaf_labels, n_children)
    return LayerProblem(np.array([0, n_children]), positives, np.array([0, n_rows]), np.arange(n_rows, dtype=np.int32))


def _merged(Y: Csr, leaf_labels: Any, n_nodes: int) -> Csr:
    """Each row's nodes, of ``n_nodes`` that are runs of leaves."""
    place = np.empty(Y.shape[1], np.int64)
    place[leaf_labels] = np.arange(len(leaf_labels))
    nodes = (place[Y.indices] * n_nodes // Y.shape[1]).astype(np.int32)
    merged = Csr(Y.indptr, nodes, np.ones(len(nodes), np.float32), (Y.shape[0], n_nodes)).to_scipy()
    merged.sum_duplicates()
    merged.data[:] = 1.0
    merged.sort_indices()
    return Csr.of(merged)


def _seconds(work: Callable[[], Any]) -> float:
    start = time.thread_time()
    work()
    return time.thread_time() - start
