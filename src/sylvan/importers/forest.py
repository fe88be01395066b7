"""From the nodes of another library's tree to an XRLinear: one shape that all importers bring their models into. Here a
tree is a list of nodes, each with its parent and the row of a weight matrix; labels may hang at any depth. XRLinear
wants all of them in its last layer, so a label that hangs higher up gets a chain of nodes below it whose score is so
high that it changes nothing: with hinges a slack of exactly 0, with sigmoids a logarithm of exactly 0."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
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
from sylvan.weights.layer import ClusterRows, ClusterWeights, WeightDtype

MOST_LABELS = 2**31 - 1
_MOST_JSON = 1 << 30  # bytes; the largest such files are lists of label names
CERTAIN, IMPOSSIBLE = -1, -2  # instead of a row of weights
# Scores of such nodes: a float32's exp(-200) is 0, and so is the logarithm of 200's sigmoid; exp(-1000) is 0 too.
_CERTAIN_SCORE, _IMPOSSIBLE_SCORE = 200.0, -1000.0
MAX_DEPTH = 64  # what LabelTree reads back
_MOST_INDEX = 1 << 28  # bytes


def sized_file(path: Path) -> int:
    """The bytes of a file that must be there."""
    try:
        if not path.is_file():
            raise ModelError(f"{str(path)!r} is missing.")
        return os.stat(path).st_size
    except OSError as error:
        raise ModelError(f"{str(path)!r} can't be read ({error.strerror}).") from error


def read_bytes(path: Path) -> npt.NDArray[np.uint8]:
    """The content of a file that must be there."""
    sized_file(path)
    try:
        return np.fromfile(path, np.uint8)
    except OSError as error:
        raise ModelError(f"{str(path)!r} can't be read ({error.strerror}).") from error


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    if sized_file(path) > _MOST_JSON:
        raise ModelError(f"{str(path)!r} is larger than {_MOST_JSON} bytes, which no such file is.")
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
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
        self.path, self.at = path, 0
        self._bytes = read_bytes(path)
        self.size = len(self._bytes)

    def take(self, dtype: Any, count: int, what: str) -> npt.NDArray[Any]:
        """The next ``count`` values."""
        wide = np.dtype(dtype)
        if not 0 <= count <= (self.size - self.at) // wide.itemsize:
            left = self.size - self.at
            raise ModelError(
                f"{str(self.path)!r} is damaged: byte {self.at} should begin {count} values of {what}, but {left} "
                "bytes follow."
            )
        values: npt.NDArray[Any] = self._bytes[self.at : self.at + count * wide.itemsize].view(wide)
        self.at += count * wide.itemsize
        return values

    def number(self, dtype: Any, what: str, low: int, high: int) -> int:
        """The next value, an int within bounds."""
        value = int(self.take(dtype, 1, what)[0])
        if not low <= value <= high:
            raise ModelError(f"{str(self.path)!r} is damaged: {what} must be in [{low}, {high}]. Got {value} instead.")
        return value


@dataclass(frozen=True)
class Nodes:
    """One tree's nodes, without its root."""

    parents: npt.NDArray[np.int64]  # shape (n,): the parent of each node; -1 for the root
    labels: npt.NDArray[np.int64]  # shape (n,): the label of a node without children; -1 for others
    rows: npt.NDArray[np.int64]  # shape (n,): its row of `weights`, `CERTAIN` or `IMPOSSIBLE`
    weights: sp.csr_matrix  # shape (n_rows, n_features)
    intercepts: npt.NDArray[np.float32]  # shape (n_rows,)


@dataclass(frozen=True)
class _Layer:
    """Node numbers of one layer, siblings together, and where each parent's children begin."""

    nodes: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]


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
    n_labels = _count_labels(trees, n_labels, where)
    n_features = trees[0].weights.shape[1]
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
    depth = _depths(nodes.parents, where)
    parents, labels, rows = _complete(nodes, depth, n_labels, where)
    layers = _layers(parents)
    _check_size(layers, nodes.weights, where)
    leaves = labels[layers[-1].nodes].astype(np.int32)
    try:
        tree = LabelTree(tuple(layer.offsets for layer in layers), leaves, n_labels)
    except DataError as error:
        raise ModelError(f"{where}: {error}") from error
    weights = [_weights(layer, rows, nodes, weight_dtype) for layer in layers]
    return TreeRanker(tree, weights)


def _check_size(layers: Sequence[_Layer], weights: sp.csr_matrix, where: str) -> None:
    """Refuse a number of features far beyond what the weights speak of: each cluster keeps an index over them."""
    index = max(len(layer.offsets) for layer in layers) * (weights.shape[1] >> 16) * 8
    if index > _MOST_INDEX and index > 64 * weights.nnz:
        raise ModelError(
            f"{where}: {weights.shape[1]} features for {weights.nnz} weights would need {index >> 20} MiB of index."
        )


def _depths(parents: npt.NDArray[np.int64], where: str) -> npt.NDArray[np.int64]:
    """How deep each node lies, the root's children at 0."""
    n = len(parents)
    if n == 0 or int(parents.min()) < -1 or int(parents.max()) >= n:
        raise ModelError(f"{where}: the parents of its {n} nodes must be in [-1, {n - 1}], and there must be one.")
    depths = np.full(n, -1, np.int64)
    reached = np.flatnonzero(parents == -1)
    children = np.argsort(parents, kind="stable")
    starts = np.searchsorted(parents[children], np.arange(n + 1))
    level, n_reached = 0, 0
    while len(reached):
        if level == MAX_DEPTH:
            raise ModelError(f"{where}: its tree has more than {MAX_DEPTH} layers, which Sylvan's cannot have.")
        depths[reached] = level
        n_reached += len(reached)
        counts = starts[reached + 1] - starts[reached]
        ends = np.cumsum(counts)
        reached = children[np.arange(ends[-1]) + np.repeat(starts[reached] - (ends - counts), counts)]
        level += 1
    if n_reached < n:
        raise ModelError(f"{where}: {n - n_reached} of its {n} nodes cannot be reached from the root.")
    return depths


def _complete(
    nodes: Nodes, depths: npt.NDArray[np.int64], n_labels: int, where: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Parents, labels and rows of the nodes and of those that they lack: every label in the deepest layer."""
    has_children = np.zeros(len(depths), bool)
    has_children[nodes.parents[nodes.parents >= 0]] = True
    labelled = nodes.labels >= 0
    if (~has_children & ~labelled).any():
        node = int(np.flatnonzero(~has_children & ~labelled)[0])
        raise ModelError(f"{where}: node {node} has neither children nor a label.")
    parents, labels, rows = [nodes.parents], [nodes.labels.copy()], [nodes.rows]
    # A label on an inner node is a child of it that is as likely as the node itself.
    deepest = int((depths + (labelled & has_children)).max())
    tails = np.flatnonzero(labelled & ((depths < deepest) | has_children))
    names, labels[0][tails] = nodes.labels[tails], -1
    total, at = len(depths), depths[tails]
    above = tails
    while len(above):
        at = at + 1
        parents.append(above)
        rows.append(np.full(len(above), CERTAIN, np.int64))
        done = at == deepest
        labels.append(np.where(done, names, -1))
        new = np.arange(total, total + len(above))
        total += len(above)
        above, at, names = new[~done], at[~done], names[~done]
    missing = np.setdiff1d(np.arange(n_labels), nodes.labels[labelled])
    if len(missing):
        chain = deepest  # nodes above the labels' own layer
        parents += [np.arange(total - 1, total + chain - 1), np.full(len(missing), total + chain - 1)]
        parents[-2][:1] = -1
        if chain == 0:
            parents[-1][:] = -1
        labels += [np.full(chain, -1, np.int64), missing]
        rows += [np.full(chain, CERTAIN, np.int64), np.full(len(missing), IMPOSSIBLE, np.int64)]
        rows[-2][:1] = IMPOSSIBLE
    return np.concatenate(parents), np.concatenate(labels), np.concatenate(rows)


def _layers(parents: npt.NDArray[np.int64]) -> list[_Layer]:
    """The nodes of each layer in the order of their parents, and of their numbers among siblings."""
    order = np.argsort(parents, kind="stable")
    starts = np.searchsorted(parents[order], np.arange(-1, len(parents) + 1))
    above = np.array([-1])
    layers: list[_Layer] = []
    while True:
        counts = starts[above + 2] - starts[above + 1]
        if not counts.any():
            return layers
        ends = np.concatenate(([0], np.cumsum(counts)))
        nodes = order[np.arange(ends[-1]) + np.repeat(starts[above + 1] - ends[:-1], counts)]
        layers.append(_Layer(nodes, ends.astype(np.int64)))
        above = nodes


def _weights(layer: _Layer, rows: npt.NDArray[np.int64], nodes: Nodes, weight_dtype: WeightDtype) -> ClusterWeights:
    """The weights of one layer, cluster by cluster, features rising."""
    which = rows[layer.nodes]
    intercepts = np.where(which == CERTAIN, _CERTAIN_SCORE, _IMPOSSIBLE_SCORE).astype(np.float32)
    intercepts[which >= 0] = nodes.intercepts[which[which >= 0]]
    matrix = nodes.weights
    begins, lengths = np.zeros(len(which), np.int64), np.zeros(len(which), np.int64)
    begins[which >= 0] = matrix.indptr[which[which >= 0]]
    lengths[which >= 0] = matrix.indptr[which[which >= 0] + 1] - begins[which >= 0]
    clusters = [
        _cluster(matrix, begins[a:b], lengths[a:b], intercepts[a:b])
        for a, b in zip(layer.offsets[:-1].tolist(), layer.offsets[1:].tolist(), strict=True)
    ]
    return ClusterWeights.from_clusters(clusters, layer.offsets, matrix.shape[1], weight_dtype)


def _cluster(
    matrix: sp.csr_matrix,
    begins: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    intercepts: npt.NDArray[np.float32],
) -> ClusterRows:
    """One cluster's children, given as rows of ``matrix``, as rows of features."""
    ends = np.cumsum(lengths)
    entries = np.arange(ends[-1]) + np.repeat(begins - (ends - lengths), lengths)
    features = matrix.indices[entries]
    order = np.argsort(features, kind="stable")  # children of one feature stay in their order
    features = features[order]
    children = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)[order]
    first = np.flatnonzero(np.concatenate(([True], features[1:] != features[:-1])))[: len(features)]
    counts = np.diff(np.concatenate((first, [len(features)]))).astype(np.int32)
    return ClusterRows(
        features[first].astype(np.int32), counts, children, matrix.data[entries[order]].astype(np.float32), intercepts
    )
