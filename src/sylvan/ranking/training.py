"""Training the rankers of one tree, layer by layer (PECOS Algorithm 2, lines 2-7)."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from sylvan.arrays.canonical import Csr
from sylvan.arrays.types import Float16, Float32, Int32, Int64
from sylvan.data.parts.row_parts import Rows
from sylvan.indexing import LabelTree
from sylvan.matching.beam import Beam, RowChanges, root_beam, searched_beam
from sylvan.matching.negatives import csr_bytes, layer_positives, of_root, pairing_bytes, rows_job
from sylvan.parallel import map_parallel
from sylvan.ranking.linear import Folds, LayerProblem, LinearOptions, block_jobs, squared_norms
from sylvan.ranking.solution import LayerSolution, SolvedBlock, Triples
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.runtime.jobs import Job, Results, Runner
from sylvan.runtime.memory import return_freed_memory
from sylvan.weights.layer import ClusterRows, LayerWeights, Layout

Cost = Literal["l1", "l2", "max", "count", "none"]
# A stage of more than so much work (entries of the clusters' rows times groups of children) is solved in parts, so that
# not all of its weights wait to be laid out at once. Layers with fewer clusters than FEW go with the last one: they
# have few weights, and clusters that take long.
LARGE_STAGE, FEW = 1 << 29, 64
RELEASED = 1 << 26  # bytes of solved clusters that are laid out, until what they took is given back


def cost_weights(relevance: Csr, norm: str = "l1") -> Csr:
    """The factor of each positive's loss: its relevance over the size of the row's."""
    if norm == "none":
        return relevance._replace(data=np.ones_like(relevance.data))
    if norm == "count":
        return relevance
    lengths = np.diff(relevance.indptr)
    if norm == "l2":
        sizes = np.sqrt(relevance.row_squares())
    else:
        sizes = np.zeros(len(lengths))
        filled = np.flatnonzero(lengths)
        total = np.add if norm == "l1" else np.maximum
        if len(filled):
            sizes[filled] = total.reduceat(relevance.data.astype(np.float64), relevance.indptr[filled])
    return relevance._replace(data=(relevance.data / np.repeat(sizes, lengths)).astype(np.float32))


@dataclass(frozen=True)
class TreeTraining:
    """How the rankers of a tree are trained. ``negatives`` and ``combines`` hold one word a layer; ``beam`` is the
    width of the search that gives matcher-aware negatives, of which those clusters count whose score is at least
    ``man_threshold`` of the row's best. ``relevance`` is the norm of costs by how much of a row lies below a node;
    without one, what is given of labels counts, and of a node the highest below it."""

    negatives: Sequence[str]
    combines: Sequence[str]
    beam: int
    linear: LinearOptions
    weight_dtype: str
    man_threshold: float = 0.0
    relevance: str | None = None

    def weighs(self, labels: Csr) -> bool:
        """Whether positives have costs of their own."""
        return bool((labels.data != 1).any()) if self.relevance is None else self.relevance != "none"

    def positives(self, tree: LabelTree, labels: Csr, first: int = 0) -> list[Csr]:
        """The nodes of each layer from layer ``first`` on that rows are positives of, with their costs."""
        if self.relevance is None:
            return layer_positives(tree, labels, first=first)
        return [cost_weights(layer, self.relevance) for layer in layer_positives(tree, labels, np.add, first)]

    def beams(
        self, features: Rows, layers: Mapping[int, LayerWeights] | Sequence[LayerWeights], runner: Runner
    ) -> Generator[Beam, None, None]:
        """The beam above each layer, from the root down; each is searched when it is asked for."""
        yield (beam := root_beam(features.shape[0]))
        for t, combine in enumerate(self.combines[:-1]):
            yield (beam := searched_beam(t, features, layers[t], beam, self.beam, combine, runner))

    def found(self, t: int, beam: Beam) -> Int32:
        """The clusters of layer ``t`` that the beam above it found for each row, and -1 for those whose score is below
        the share of the row's best that counts. What lies far below the best cluster hardly enters the ranking, and is
        most of what the beam holds: a ranker learns nothing from rows that never come near it. Rankers' own scores
        aren't shares of anything, so there all clusters count."""
        nodes, scores = beam
        if t == 0 or self.man_threshold == 0 or self.combines[t - 1] == "ranker":
            return nodes
        least = scores.max(axis=1, keepdims=True) + np.float32(np.log(self.man_threshold))
        return np.where(scores >= least, nodes, np.int32(-1))


class Trained(NamedTuple):
    """What :func:`train_rankers` gives."""

    ranker: TreeRanker
    # one a layer: what the scores of all held-out rows, in the order of their ids, change by when rankers are trained
    # without the rows of their set, as `matching.beam.rank_changed` takes them. None without a holdout, and for layers
    # that were known
    changes: list[RowChanges | None]
    solutions: list[LayerSolution] | None = None  # one a layer, where they are to be kept


def train_rankers(
    features: Rows, labels: Csr, tree: LabelTree, training: TreeTraining, sample_weight: Float32 | None = None,
    holdout: Sequence[Int32] = (), *, runner: Runner | None = None, fixed: Mapping[int, LayerWeights] | None = None,
    keeps: bool = False,
) -> Trained:  # fmt: skip
    """Phases 2 and 3: the rows that each layer's clusters learn from, then their rankers. ``holdout`` are sets of row
    ids; ``fixed`` weights of layers that were learned elsewhere and are taken as they are. With ``keeps``, how each
    layer was solved is kept for updates."""
    runner, fixed = Runner() if runner is None else runner, fixed or {}
    n_rows, folds = features.shape[0], Folds.of(holdout, features.shape[0])
    size = csr_bytes(n_rows, labels.nnz) * tree.depth + pairing_bytes(labels.nnz)
    inputs, title = {"tree": tree, "labels": labels}, "sorting the labels"
    positives = runner.one(Job("positives", training.positives, inputs, peak_bytes=size, title=title, shared=True))
    weighted = training.weighs(labels)
    solve = partial(
        block_jobs, features, squared_norms(features), options=training.linear, folds=folds, sample_weight=sample_weight
    )
    layers: dict[int, LayerWeights] = {}
    changes: dict[int, RowChanges] = {}
    solutions: dict[int, LayerSolution] = {}
    beams = training.beams(features, layers, runner)
    beam, reached = next(beams), 0  # and the layer above which it is
    for stage in training_stages(training.negatives, fixed):
        if stage[0] in fixed:
            layers[stage[0]] = fixed[stage[0]]
            continue
        problems = {}
        for t in stage:
            nodes, scheme, children = None, training.negatives[t], tree.child_offsets[t]
            if scheme != "tfn":  # the matcher's own choice: follow the beam down to here
                while reached < t:
                    beam, reached = next(beams), reached + 1
                nodes = training.found(t, beam)
            parents = positives[t - 1] if t else of_root(positives[0])
            row_offsets, rows = runner.one(rows_job(t, scheme, len(children) - 1, n_rows, parents, nodes))
            problems[t] = LayerProblem(children, positives[t], row_offsets, rows, weighted=weighted, keeps=keeps)
            if t == tree.depth - 1:
                beam = root_beam(0)  # nothing is searched any more
                beams.close()
            del nodes  # of many rows this is much, and solving takes long
        jobs = {t: solve(problem, t) for t, problem in problems.items()}
        costs = {t: sum(job.cost for job in layer) for t, layer in jobs.items()}
        for part in solved_together(costs, {t: len(tree.child_offsets[t]) - 1 for t in stage}):
            solved = runner.run([job for t in part for job in jobs[t]], _description(part, tree.depth))
            clusters = [[job.inputs["clusters"] for job in jobs[t]] for t in part]
            offsets = [tree.child_offsets[t] for t in part]
            results = _laid_out(solved, clusters, offsets, features.shape[1], training.weight_dtype, runner)
            for t, (layers[t], changed, multipliers) in zip(part, results, strict=True):
                if keeps:
                    pending, problem = np.zeros(int(tree.child_offsets[t][-1]), np.float32), problems[t]
                    solutions[t] = LayerSolution(
                        problem.child_offsets, problem.row_offsets, problem.rows, np.concatenate(multipliers), pending
                    )
                if folds.count:
                    changes[t] = _by_row(changed, folds)
    order = range(tree.depth)
    ranker = TreeRanker(tree, [layers[t] for t in order])
    return Trained(ranker, [changes.get(t) for t in order], [solutions[t] for t in order] if keeps else None)


def _by_row(blocks: Sequence[Triples], folds: Folds) -> RowChanges:
    """The changes of a layer's blocks, row by row of those that are held out."""
    ids, nodes, changes = (np.concatenate(part) for part in zip(*blocks, strict=True))
    n_rows = len(folds.rows)
    numbers = np.zeros(0 if folds.of_row is None else len(folds.of_row), np.min_scalar_type(n_rows))
    numbers[folds.rows] = np.arange(n_rows)
    rows = numbers[ids]
    order = np.argsort(rows, kind="stable")  # a row's nodes rise: blocks come in the order of their nodes
    offsets = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=n_rows)))).astype(np.int64)
    return RowChanges(offsets, nodes[order], changes[order])


def solved_together(costs: Mapping[int, float], n_clusters: Mapping[int, int]) -> list[list[int]]:
    """The layers of a stage in groups, by number, that are solved one after the other: one group, unless that is much
    work. ``costs`` says what solving each costs. The last layer comes first: it has most of the weights."""
    layers = sorted(costs)
    if sum(costs.values()) < LARGE_STAGE:
        return [layers]
    alone = [t for t in layers[:-1] if n_clusters[t] >= FEW]
    return [[t for t in layers if t not in alone], *([t] for t in reversed(alone))]


def training_stages(negatives: Sequence[str], fixed: Mapping[int, LayerWeights] | None = None) -> list[list[int]]:
    """Layers that can be solved together, as none of them learns from a search through another. With teacher-forced
    negatives in all layers but the first, whose one cluster every row finds, that is all of them."""
    fixed = fixed or {}
    stages: list[list[int]] = []
    for t, scheme in enumerate(negatives):
        if t and scheme == "tfn" and t not in fixed and t - 1 not in fixed:
            stages[-1].append(t)
        else:
            stages.append([t])
    return stages


def _description(stage: Sequence[int], depth: int) -> str:
    if len(stage) == depth:
        return "Training"
    numbers = ", ".join(str(t + 1) for t in stage)
    return f"Training {'layer' if len(stage) == 1 else 'layers'} {numbers} of {depth}"


def _laid_out(
    solved: Results[SolvedBlock], clusters: Sequence[Sequence[range]], offsets: Sequence[Int64], n_features: int,
    dtype: str, runner: Runner,
) -> list[tuple[LayerWeights, list[Triples], list[Float16]]]:  # fmt: skip
    """The layers of a stage from their solved blocks, which are let go, with their blocks' changes of scores and
    multipliers. ``clusters`` holds those of each block and ``offsets`` where each cluster's children begin, layer by
    layer."""
    place = [(layer, some) for layer, blocks in enumerate(clusters) for some in blocks]
    sizes = [np.zeros(len(each) - 1, ClusterRows.SIZES) for each in offsets]
    for number, block in solved.scan():
        layer, some = place[number]
        sizes[layer][some.start : some.stop] = block.sizes(dtype)
    layouts = [Layout(size, each, n_features, dtype, runner.zeros) for size, each in zip(sizes, offsets, strict=True)]
    changes: list[Any] = [None] * len(place)
    multipliers: list[Any] = [None] * len(place)

    def lay(numbers: Sequence[int]) -> None:
        n_bytes = released = 0
        for number, block in solved.drain(numbers):
            layer, some = place[number]
            for cluster, rows in zip(some, block, strict=True):
                layouts[layer].place(cluster, rows)
            changes[number], multipliers[number] = block.changes(), block.multipliers()
            n_bytes += block.nbytes
            if n_bytes - released > RELEASED:
                released = n_bytes
                return_freed_memory()
        if n_bytes > RELEASED:
            return_freed_memory()

    bounds = list(itertools.pairwise(np.cumsum([0, *map(len, clusters)]).tolist()))
    if solved.in_memory:
        map_parallel(lay, [range(first, last) for first, last in bounds], runner.n_jobs)
    else:
        lay(range(len(solved)))
    runner.release()
    return [(layout.finish(), changes[a:b], multipliers[a:b]) for layout, (a, b) in zip(layouts, bounds, strict=True)]
