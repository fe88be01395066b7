"""From the nodes of another library's tree to an XRLinear: one shape that all importers bring their models into. Here a
tree is a list of nodes, each with its parent and the row of a weight matrix; labels may hang at any depth. XRLinear
wants all of them in its last layer, so a cluster of labels that hangs higher up gets a chain of nodes above it, and a
label alone one below it, whose score is so high that it changes nothing: with hinges a slack of exactly 0, with
sigmoids a logarithm of exactly 0."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.arrays.validate import MAX_COLUMNS
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.indexing import LabelTree
from sylvan.matching.beam import hinge_power
from sylvan.models import XRLinear
from sylvan.models.xr.fitted import FittedTrees
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.weights.layer import ClusterRows, LayerWeights, WeightDtype

Ints = npt.NDArray[np.int64]
MOST_LABELS = 2**31 - 1
_MOST_JSON = 1 << 30  # bytes; the largest such files are lists of label names
CERTAIN, IMPOSSIBLE = -1, -2  # instead of a row of weights
# Scores of such nodes: a float32's exp(-200) is 0, and so is the logarithm of 200's sigmoid; exp(-1000) is 0 too.
_CERTAIN_SCORE, _IMPOSSIBLE_SCORE = 200.0, -1000.0
MAX_DEPTH = 64  # what LabelTree reads back
_MOST_INDEX = 1 << 28  # bytes


def damaged(path: Path, fault: str) -> ModelError:
    """The error that says what is wrong with a file."""
    return ModelError(f"{str(path)!r} is damaged: {fault}.")


@contextmanager
def need_file(path: Path) -> Iterator[int]:
    """The bytes of a file that must be there, and that the block reads."""
    try:
        if not path.is_file():
            raise ModelError(f"{str(path)!r} is missing.")
        yield os.stat(path).st_size
    except OSError as error:
        raise ModelError(f"{str(path)!r} can't be read ({error.strerror}).") from error


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    with need_file(path) as size:
        if size > _MOST_JSON:
            raise ModelError(f"{str(path)!r} is larger than {_MOST_JSON} bytes, which no such file is.")
        try:
            return json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise ModelError(f"{str(path)!r} is not JSON, or damaged ({error}).") from error


def need_field(fields: Any, name: str, kind: type, path: Path, low: int = 0, high: int = MOST_LABELS) -> Any:
    """A field of a JSON object, of the given type and, when it is a number, within bounds."""
    value = fields.get(name) if isinstance(fields, dict) else None
    if kind is float and type(value) is int:
        value = float(value) if abs(value) < 1 << 53 else None
    number = kind in (int, float)
    if type(value) is not kind or (isinstance(value, (int, float)) and number and not low <= value <= high):
        bounds = f" in [{low}, {high}]" if number else ""
        words = {int: "an int", float: "a number", str: "a string", dict: "an object", list: "a list"}
        raise ModelError(f"{str(path)!r}: {name!r} must be {words[kind]}{bounds}. Got {value!r:.60} instead.")
    return value


class Cursor:
    """Little-endian fields of a binary file, one after another; none is read beyond the end."""

    def __init__(self, path: Path) -> None:
        self.path, self.place = path, 0
        with need_file(path):
            self._bytes = np.fromfile(path, np.uint8)
        self.size = len(self._bytes)

    def take(self, dtype: Any, count: int, content: str) -> npt.NDArray[Any]:
        """The next ``count`` values."""
        size, left = np.dtype(dtype).itemsize, self.size - self.place
        if not 0 <= count <= left // size:
            fault = f"byte {self.place} should begin {count} values of {content}, but {left} bytes follow"
            raise damaged(self.path, fault)
        values: npt.NDArray[Any] = self._bytes[self.place : self.place + count * size].view(dtype)
        self.place += count * size
        return values

    def number(self, dtype: Any, content: str, low: int, high: int) -> int:
        """The next value, an int within bounds."""
        value = int(self.take(dtype, 1, content)[0])
        if not low <= value <= high:
            raise damaged(self.path, f"{content} must be in [{low}, {high}]. Got {value} instead")
        return value


@dataclass(frozen=True)
class Nodes:
    """One tree's nodes, without its root."""

    parents: Ints  # shape (n,): the parent of each node; -1 for the root
    labels: Ints  # shape (n,): the label of a node without children; -1 for others
    rows: Ints  # shape (n,): its row of `weights`, `CERTAIN` or `IMPOSSIBLE`
    weights: sp.csr_matrix  # shape (n_rows, n_features)
    intercepts: npt.NDArray[np.float32]  # shape (n_rows,)


def build_model(
    trees: Sequence[Nodes], n_labels: int | None, combine: str | list[str], weight_dtype: WeightDtype, where: str,
    **params: Any,
) -> XRLinear:  # fmt: skip
    """An XRLinear that ranks with these trees."""
    model = XRLinear(combine=combine, weight_dtype=weight_dtype, n_trees=len(trees), **params)
    model.check_params()
    try:
        hinge_power([combine] if isinstance(combine, str) else combine)
    except ParameterError as error:
        raise ModelError(f"{where}: {error}") from error
    n_labels, n_features = _count_labels(trees, n_labels, where), trees[0].weights.shape[1]
    if not 0 <= n_features <= MAX_COLUMNS:
        raise ModelError(f"{where}: models have at most {MAX_COLUMNS} features. Got {n_features} instead.")
    model.fitted_ = FittedTrees([_ranker(nodes, n_labels, weight_dtype, where) for nodes in trees])
    first = model.fitted_.rankers[0].tree
    model.branching = max([2, *(int(np.diff(layer).max()) for layer in first.child_offsets[:-1])])
    model.max_leaf = int(first.cluster_sizes.max())
    # No such library stores how often a label was seen.
    model.n_rows_, model.label_counts_ = 0, np.zeros(n_labels, np.int64)
    model.n_features_, model.n_labels_ = n_features, n_labels
    return model


def _count_labels(trees: Sequence[Nodes], wanted: int | None, where: str) -> int:
    """How many labels there are; ids that leave out nearly all numbers are no ids."""
    result = 1 + max(int(nodes.labels.max(initial=-1)) for nodes in trees)
    leaves = sum(int((nodes.labels >= 0).sum()) for nodes in trees)
    if wanted is None:
        if result > 1000 * leaves + 1_000_000:
            raise ModelError(f"{where}: its last label is {result - 1}, but it has {leaves} leaves only.")
        return result
    if wanted < result:
        raise ParameterError(f"n_labels must be at least {result}, as {where} has label {result - 1}. Got {wanted}.")
    return wanted


def _ranker(nodes: Nodes, n_labels: int, weight_dtype: WeightDtype, where: str) -> TreeRanker:
    n = len(nodes.parents)
    if n == 0 or int(nodes.parents.min()) < -1 or int(nodes.parents.max()) >= n:
        raise ModelError(f"{where}: the parents of its {n} nodes must be in [-1, {n - 1}], and there must be one.")
    depths = np.full(n, -1, np.int64)  # of each node; the root's children are at 0
    for depth, (members, _) in enumerate(_layers(nodes.parents, where)):
        depths[members] = depth
    if (depths < 0).any():
        n_lost = int((depths < 0).sum())
        raise ModelError(f"{where}: {n_lost} of its {n} nodes cannot be reached from the root.")
    parents, labels, rows = _complete(nodes, depths, n_labels, where)
    layers = list(_layers(parents, where))
    # Features far beyond what the weights speak of are refused: each cluster keeps an index over them.
    n_features, n_weights = nodes.weights.shape[1], nodes.weights.nnz
    index = max(len(offsets) for _, offsets in layers) * (n_features >> 16) * 8
    if index > _MOST_INDEX and index > 64 * n_weights:
        words = f"{n_features} features for {n_weights} weights would need {index >> 20} MiB of index"
        raise ModelError(f"{where}: {words}.")
    try:
        leaves = labels[layers[-1][0]].astype(np.int32)
        tree = LabelTree(tuple(offsets for _, offsets in layers), leaves, n_labels)
    except DataError as error:
        raise ModelError(f"{where}: {error}") from error
    return TreeRanker(tree, [_weights(rows[members], offsets, nodes, weight_dtype) for members, offsets in layers])


def _layers(parents: Ints, where: str) -> Iterator[tuple[Ints, Ints]]:
    """The nodes of each layer in the order of their parents, and of their numbers among siblings; and where each
    parent's children begin."""
    order = np.argsort(parents, kind="stable")
    starts = np.searchsorted(parents[order], np.arange(-1, len(parents) + 1))
    above = np.array([-1])
    for depth in itertools.count():
        counts = starts[above + 2] - starts[above + 1]
        if not counts.any():
            return
        if depth == MAX_DEPTH:
            raise ModelError(f"{where}: its tree has more than {MAX_DEPTH} layers, which Sylvan's cannot have.")
        above = order[_runs(starts[above + 1], counts)]
        yield above, np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def _runs(starts: Ints, lengths: Ints) -> Ints:
    """The numbers of several runs, one run after another."""
    ends = np.cumsum(lengths)
    runs: Ints = np.arange(ends[-1]) + np.repeat(starts - (ends - lengths), lengths)
    return runs


def _complete(nodes: Nodes, depths: Ints, n_labels: int, where: str) -> tuple[Ints, Ints, Ints]:
    """Parents, labels and rows of the nodes and of those that they lack: every label in the deepest layer."""
    has_children = np.zeros(len(depths), bool)
    has_children[nodes.parents[nodes.parents >= 0]] = True
    labelled = nodes.labels >= 0
    if (~has_children & ~labelled).any():
        node = int(np.flatnonzero(~has_children & ~labelled)[0])
        raise ModelError(f"{where}: node {node} has neither children nor a label.")
    parents, labels, rows = [nodes.parents.copy()], [nodes.labels.copy()], [nodes.rows]
    # A label on an inner node is a child of it that is as likely as the node itself.
    deepest = int((depths + (labelled & has_children)).max())
    tails = labelled & ((depths < deepest) | has_children)
    # Labels that are all of a node's children stay together, below a chain that takes one place in a beam.
    together = tails & ~np.isin(nodes.parents, nodes.parents[~tails | has_children])
    clusters, alone = np.unique(nodes.parents[together]), np.flatnonzero(tails & ~together)
    labels[0][alone] = -1
    names = np.concatenate((nodes.labels[alone], np.full(len(clusters), -1)))
    total, above, ends = len(depths), np.concatenate((alone, clusters)), np.zeros(len(depths) + 1, np.int64)
    depth, start = depths[above], np.where(names < 0, above, -1)
    while len(above):
        depth = depth + 1
        parents.append(above)
        rows.append(np.full(len(above), CERTAIN, np.int64))
        done = depth == deepest - (names < 0)
        labels.append(np.where(done, names, -1))
        new = np.arange(total, total + len(above))
        total += len(above)
        ends[start[done]] = new[done]
        above, depth, names, start = (each[~done] for each in (new, depth, names, start))
    parents[0][together] = ends[nodes.parents[together]]
    missing = np.setdiff1d(np.arange(n_labels), nodes.labels[labelled])
    if len(missing):
        above = np.arange(total - 1, total + deepest)  # of a chain down to the labels' own layer, and of the labels
        above[0] = -1
        parents += [above[:-1], np.full(len(missing), above[-1])]
        labels += [np.full(deepest, -1, np.int64), missing]
        rows.append(np.full(deepest + len(missing), IMPOSSIBLE, np.int64))
    return np.concatenate(parents), np.concatenate(labels), np.concatenate(rows)


def _weights(rows: Ints, offsets: Ints, nodes: Nodes, weight_dtype: WeightDtype) -> LayerWeights:
    """The weights of one layer, whose nodes have ``rows`` of ``nodes``, cluster by cluster, features rising."""
    weighted, matrix = rows >= 0, nodes.weights
    intercepts = np.where(rows == CERTAIN, _CERTAIN_SCORE, _IMPOSSIBLE_SCORE).astype(np.float32)
    intercepts[weighted] = nodes.intercepts[rows[weighted]]
    begins, lengths = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    begins[weighted] = matrix.indptr[rows[weighted]]
    lengths[weighted] = matrix.indptr[rows[weighted] + 1] - begins[weighted]
    clusters = [
        _cluster(matrix, begins[a:b], lengths[a:b], intercepts[a:b]) for a, b in itertools.pairwise(offsets.tolist())
    ]
    return LayerWeights.from_clusters(clusters, offsets, matrix.shape[1], weight_dtype)


def _cluster(matrix: sp.csr_matrix, begins: Ints, lengths: Ints, intercepts: npt.NDArray[np.float32]) -> ClusterRows:
    """One cluster's children, given as rows of ``matrix``, as rows of features."""
    entries = _runs(begins, lengths)
    order = np.argsort(matrix.indices[entries], kind="stable")  # children of one feature stay in their order
    features = matrix.indices[entries[order]]
    children = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)[order]
    first = np.flatnonzero(np.diff(features, prepend=-1))
    counts = np.diff(first, append=len(features)).astype(np.int32)
    weights = matrix.data[entries[order]].astype(np.float32)
    return ClusterRows(features[first].astype(np.int32), counts, children, weights, intercepts)
