"""The tasks of a training of XRLinear on a cluster, phase by phase, from a set's shape and what its parts cost.

X lies on a store that all workers read, in pages; a task reads the rows of its clusters and writes its result back.
The driver sorts labels and rows, and lays out the layers; everything else is tasks of workers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.cluster.costs import Costs
from benchmarks.cluster.events import Task
from benchmarks.cluster.on_paper import LayerOnPaper, Shape
from sylvan.ranking.linear import LANES, solver_bytes

__all__ = ["PHASES", "Splits", "training_tasks"]

PHASES = ("embeddings", "clustering", "sorting", "upper layers", "search", "solving", "layout")
PAGE = 4096  # bytes that are read at once, of rows that lie anywhere
SAMPLE = 1 << 16  # labels that a halving iterates on
WHOLE = 2 * SAMPLE  # and the most for which these are all
TASKS_A_WORKER = 8  # of a phase, so that the last ones end at about the same time
LEAST_TASK_S, MOST_TASK_S = 1.0, 60.0
LONG_S = 10.0  # of a cluster that is worth more work in all, if only it is done earlier
MOST_ROWS = 2_000_000  # of a task of embeddings or of a search
ORDER = 4  # bytes of a label in the tree's order, or of a row's number
PAIR = 16  # bytes of a row's number and positives, which a task of clusters is given for each of their rows


@dataclass(frozen=True)
class Splits:
    """What is divided among tasks beyond the design.

    Attributes
    ----------
    assigning : bool
        The pass of a large halving that assigns all labels: by ranges of labels.
    children : bool
        Clusters that take longer than a task should: by groups of 16 children, which are solved side by side anyway.
    lanes : int
        Clusters that take long: by groups of so many children, fewer than 16, which is more work in all.
    layout : bool
        The layout of the layers: by ranges of clusters, on the workers.
    unmapped : bool
        Not divided, but repeated: each task of a search reads the layers above the last one for itself, where else a
        node reads them once for all of its workers.
    """

    assigning: bool = False
    children: bool = False
    lanes: int = LANES
    layout: bool = False
    unmapped: bool = False


def training_tasks(
    shape: Shape, costs: Costs, n_workers: int, *, per_node: int = 1, searched: bool = False,
    splits: Splits | None = None,
) -> list[Task]:  # fmt: skip
    """All tasks, each after those that it builds on.

    Parameters
    ----------
    shape : Shape
    costs : Costs
        Of a training with these negatives.
    n_workers, per_node : int
        Which decide how large tasks are, and how many nodes read what is mapped.
    searched : bool
        Whether the last layer has matcher-aware negatives too.
    splits : Splits, optional
    """
    plan = _Plan(shape, costs, n_workers, -(-n_workers // per_node), Splits() if splits is None else splits)
    layers = shape.layers(searched)
    plan.embeddings()
    plan.clustering()
    if not searched:
        plan.sorting(shape.n_positives * len(layers), sum(layer.rows.sum() for layer in layers))
        plan.solving(layers, range(len(layers)), "solving")
        plan.layout(layers, range(len(layers)), "layout")
        return plan.tasks
    upper, last = range(len(layers) - 1), len(layers) - 1
    plan.sorting(shape.n_positives * len(layers), sum(layers[t].rows.sum() for t in upper))
    plan.solving(layers, upper, "upper layers")
    plan.layout(layers, upper, "upper layers")
    plan.search(layers)
    plan.sorting(0, layers[last].rows.sum())
    plan.solving(layers, [last], "solving")
    plan.layout(layers, [last], "layout")
    return plan.tasks


class _Plan:
    """Tasks so far; each phase begins when all before it is done."""

    def __init__(self, shape: Shape, costs: Costs, n_workers: int, n_nodes: int, splits: Splits) -> None:
        self.tasks: list[Task] = []
        self._shape, self._costs, self._splits = shape, costs, splits
        self._n_workers, self._n_nodes = n_workers, n_nodes
        self._after: tuple[int, ...] = ()
        self._begun, self._stage = 0, 0
        self._values = shape.embedding_values(costs.embedding_power) / shape.n_labels  # of a label

    # ---------------------------------------- the phases

    def embeddings(self) -> None:
        """A task for each range of labels: it reads the rows with any of them."""
        shape = self._shape
        seconds = self._costs.aggregating * shape.n_positives * shape.entries
        n = max(self._n_tasks(seconds), math.ceil(shape.n_positives / MOST_ROWS))
        rows = min(shape.n_rows, shape.n_positives / n)
        out = 8 * self._values * shape.n_labels / n
        read = self._read(rows) + shape.y_bytes / n
        for number in range(n):
            peak = int(rows * shape.row_bytes + out)
            self._add(f"labels {number}", "embeddings", seconds / n, read, out, peak)
        self._done("embeddings")

    def clustering(self) -> None:
        """Halvings, down to labels that one task clusters to the end."""
        whole = max(float(WHOLE), self._labels_of(self._target(self._clustering_s(self._shape.n_labels))))
        self._halve(float(self._shape.n_labels), 0, whole, self._after)
        self._done("clustering")

    def sorting(self, n_positives: float, n_pairs: float) -> None:
        """Labels by layer, and the rows of clusters, on the driver."""
        seconds = self._costs.sorting * n_positives + self._costs.pairing * n_pairs
        read = self._shape.y_bytes if n_positives else 0.0
        peak = int(8 * n_positives + 40 * n_pairs)
        self._add("rows of clusters", "sorting", seconds, read, 0.0, peak, on_driver=True)
        self._done("sorting")

    def search(self, layers: Sequence[LayerOnPaper]) -> None:
        """The clusters of the last layer that each row finds: a task for each range of rows."""
        shape = self._shape
        visited = sum(min(self._costs.beam, len(layer.rows)) for layer in layers[:-1])
        seconds = self._costs.searching * shape.n_rows * shape.entries * visited
        n = max(self._n_tasks(seconds), math.ceil(shape.n_rows / MOST_ROWS))
        model = sum(self._weights(layers, t) for t in range(len(layers) - 1)) * self._costs.laid_out_bytes
        rows = shape.n_rows / n
        own, out = rows * shape.row_bytes, ORDER * shape.found * rows
        read = own + model * (1.0 if self._splits.unmapped else min(1.0, self._n_nodes / n))
        for number in range(n):
            self._add(f"rows {number}", "search", seconds / n, read, out,
                      int(own + model + 16 * rows * self._costs.beam))  # fmt: skip
        self._done("search")

    def solving(self, layers: Sequence[LayerOnPaper], which: Sequence[int] | range, phase: str) -> None:
        """Blocks of clusters of some layers, all of which may run at once."""
        seconds = {t: self._seconds(layers[t], t, len(layers)) for t in which}
        target = self._target(sum(float(each.sum()) for each in seconds.values()))
        for t in which:
            self._layer(layers, t, seconds[t], target, phase)
        self._done(phase)

    def layout(self, layers: Sequence[LayerOnPaper], which: Sequence[int] | range, phase: str) -> None:
        """The solved clusters as they are saved."""
        weights = sum(self._weights(layers, t) for t in which)
        seconds, read = self._costs.laying_out * weights, self._costs.solved_bytes * weights
        out = self._costs.laid_out_bytes * weights
        n = self._n_tasks(seconds) if self._splits.layout else 1
        for number in range(n):
            name, peak = f"layout {number}", int((read + out) / n)
            self._add(name, phase, seconds / n, read / n, out / n, peak, on_driver=not self._splits.layout)
        self._done(phase)

    # ---------------------------------------- parts of them

    def _halve(self, n_labels: float, depth: int, whole: float, after: tuple[int, ...]) -> None:
        costs, values, embedding = self._costs, self._values, 8 * self._values
        read = self._read(n_labels, self._shape.n_labels, embedding)
        peak = int(n_labels * (embedding + 2 * ORDER))
        if n_labels <= whole:
            seconds = self._clustering_s(n_labels)
            self._add(f"subtree of layer {depth}", "clustering", seconds, read, ORDER * n_labels, peak, after)
            return
        name = "all labels" if not depth else f"halves {depth}"
        iterating, assigning = costs.iterating * values * SAMPLE, costs.assigning * values * n_labels
        if not self._splits.assigning:
            made: tuple[int, ...] = (
                self._add(name, "clustering", iterating + assigning, read, ORDER * n_labels, peak, after),
            )
        else:
            sample = self._read(SAMPLE, self._shape.n_labels, embedding)
            first = self._add(f"{name}: sample", "clustering", iterating, sample, 0, int(SAMPLE * embedding), after)
            n = max(1, math.ceil(n_labels / whole), min(self._n_workers, math.ceil(assigning / LEAST_TASK_S)))
            made = tuple(
                self._add(f"{name}: {part}", "clustering", assigning / n, read / n, ORDER * n_labels / n,
                          peak // n, (first,))
                for part in range(n)
            )  # fmt: skip
        for _ in range(2):
            self._halve(n_labels / 2, depth + 1, whole, made)

    def _clustering_s(self, n_labels: float) -> float:
        """Seconds of clustering so many labels to the end."""
        costs, values = self._costs, self._values
        seconds, n_parts = 0.0, 1
        while n_labels > WHOLE:
            seconds += n_parts * values * (costs.iterating * SAMPLE + costs.assigning * n_labels)
            n_labels, n_parts = n_labels / 2, 2 * n_parts
        return seconds + n_parts * costs.subtree * values * n_labels * max(1.0, math.log2(max(2.0, n_labels / LANES)))

    def _labels_of(self, seconds: float) -> float:
        """The most halves of halves of all labels whose clustering takes no more than this."""
        n_labels = float(self._shape.n_labels)
        while n_labels > WHOLE and self._clustering_s(n_labels) > seconds:
            n_labels /= 2
        return n_labels

    def _seconds(self, layer: LayerOnPaper, t: int, depth: int) -> npt.NDArray[np.float64]:
        """Of each cluster."""
        rate = self._costs.last if t == depth - 1 else self._costs.inner
        if not t and depth > 1:
            rate = self._costs.root(int(layer.children[0]))
        return rate * layer.costs(self._shape.entries)

    def _layer(
        self, layers: Sequence[LayerOnPaper], t: int, seconds: npt.NDArray[np.float64], target: float, phase: str
    ) -> None:
        """A layer's clusters in blocks of about the seconds that a task should take."""
        shape, layer, last = self._shape, layers[t], t == len(layers) - 1
        rows, children = layer.rows, layer.children
        used = shape.different(rows)
        peaks = solver_bytes(rows, rows * shape.entries, used, shape.n_columns, children, False)
        peaks = peaks + rows * shape.row_bytes
        weight = rows**0.5 * children
        solved = weight / weight.sum() * self._weights(layers, t) * self._costs.solved_bytes
        name = "root" if not t else ("last layer" if last else f"layer {t + 1}")
        divided = self._divided(children, seconds, target)
        for cluster in np.flatnonzero(divided):
            n, own = self._parts(int(children[cluster]), float(seconds[cluster]))
            for part in range(n):
                self._solve(f"{name}, cluster {cluster}, part {part}", phase, own, float(rows[cluster]),
                            float(solved[cluster]) / n, int(peaks[cluster]))  # fmt: skip
        left = np.flatnonzero(~divided)
        if not len(left):
            return
        block = np.cumsum(seconds[left]) // target
        starts = np.flatnonzero(np.diff(block, prepend=-1.0))
        parts = (np.add.reduceat(each[left], starts) for each in (seconds, rows, solved))
        most = np.maximum.reduceat(peaks[left], starts)
        for first, cpu, n_rows, out, peak in zip(left[starts], *parts, most, strict=True):
            named = f"{name}, clusters {first}" if t else name
            self._solve(named, phase, float(cpu), float(n_rows), float(out), int(peak + out))

    def _solve(self, name: str, phase: str, cpu_s: float, pairs: float, out: float, peak: int) -> None:
        """A task of clusters with so many rows, which are cut out for it and sent, and whose features it reads."""
        read = self._read(min(pairs, self._shape.n_rows)) + PAIR * pairs
        self._add(name, phase, cpu_s, read, out, peak, handing_s=self._costs.cutting * pairs)

    def _divided(
        self, children: npt.NDArray[np.int64], seconds: npt.NDArray[np.float64], target: float
    ) -> npt.NDArray[np.bool_]:
        """Which clusters are divided by their children."""
        splits = self._splits
        result = np.zeros(len(children), np.bool_)
        if splits.children:
            result |= (seconds > target) & (children > LANES)
        if splits.lanes < LANES:
            result |= (seconds > max(target, LONG_S)) & (children > splits.lanes)
        return result

    def _parts(self, children: int, seconds: float) -> tuple[int, float]:
        """Into how many parts a cluster is divided, and the seconds of each."""
        lanes = self._splits.lanes if seconds > LONG_S else LANES
        n_groups, n = -(-children // LANES), -(-children // lanes)
        slower = self._costs.root(min(lanes, children)) / self._costs.root(min(LANES, children))
        return n, seconds / n_groups * slower

    def _weights(self, layers: Sequence[LayerOnPaper], t: int) -> float:
        """Of all nodes of a layer."""
        layer, last = layers[t], t == len(layers) - 1
        n_nodes = int(layer.children.sum())
        each = self._costs.weights_of(layer.positives / n_nodes, last)
        return n_nodes * min(each, float(self._shape.n_columns))

    # ---------------------------------------- tasks

    def _add(
        self, name: str, phase: str, cpu_s: float, bytes_in: float, bytes_out: float, peak: int,
        after: tuple[int, ...] | None = None, **more: Any,
    ) -> int:  # fmt: skip
        after = self._after if after is None else after
        self.tasks.append(Task(name, phase, cpu_s, bytes_in, bytes_out, after, self._stage, peak, **more))
        return len(self.tasks) - 1

    def _done(self, phase: str) -> None:
        """What comes later waits for all of this phase."""
        after = tuple(range(self._begun, len(self.tasks)))
        self._after = (self._add(f"end of {phase}", phase, 0.0, 0.0, 0.0, 0, after, on_driver=True),)
        self._begun, self._stage = len(self.tasks), self._stage + 1

    def _target(self, seconds: float) -> float:
        """Seconds that a task of a phase should take."""
        return min(MOST_TASK_S, max(LEAST_TASK_S, seconds / (TASKS_A_WORKER * self._n_workers)))

    def _n_tasks(self, seconds: float) -> int:
        return max(1, math.ceil(seconds / self._target(seconds)))

    def _read(self, rows: float, n_rows: float | None = None, row_bytes: float | None = None) -> float:
        """Bytes of the pages with some of the rows, which lie anywhere among all."""
        n_rows = self._shape.n_rows if n_rows is None else n_rows
        row_bytes = self._shape.row_bytes if row_bytes is None else row_bytes
        n_pages = max(1.0, n_rows * row_bytes / PAGE)
        touched = n_pages * -math.expm1(-rows * (1 + row_bytes / PAGE) / n_pages)
        return float(min(n_rows * row_bytes, max(rows * row_bytes, touched * PAGE)))
