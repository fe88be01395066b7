"""Linear scores of classes down a tree: a row of weights for every edge, beam search for the best, exact sums."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from sylvan import kernels, store
from sylvan.arrays.canonical import Csr
from sylvan.arrays.topk import TopK
from sylvan.arrays.types import Float32, Int64
from sylvan.errors import DataError
from sylvan.indexing.tree import LabelTree, check_class_tree, first_edges
from sylvan.parallel import map_parallel, split_ranges
from sylvan.params.fields import Choice, Number, check_value

ROWS = 1024  # rows a thread searches for at a time
BLOCK = 1 << 22  # scores that are computed at once
_FEW_WEIGHTS = 1 << 20  # up to so many, a kernel sums the products; those of BLAS have bits that depend on its block

Scores = Literal["own", "path"]
SCORES: tuple[Scores, ...] = get_args(Scores)


@dataclass(frozen=True, eq=False)
class ClassWeights:
    """A row of weights for every edge of a tree of classes, and what of them is a class's score (Eq. 9 of Candidates
    vs. Noises Estimation). Edges are numbered as :func:`sylvan.indexing.tree.first_edges` says. A flat tree's
    edges are the classes."""

    tree: LabelTree  # every class in exactly one leaf
    # shape (n_edges, n_features + 1): the last column holds the intercepts. In C order, which suits dense rows, or in
    # Fortran order, where the weights of a feature lie side by side, which suits compressed rows
    weights: Float32
    squares: Float32 | None = None  # AdaGrad's sums of squared gradients, which training goes on from
    delays: Float32 | None = None  # what `averages` needs beside weights that are averaged over the steps of training
    # what a node scores, and so a class: the sum over the edges on its path (the paper's Eq. 9), or its own edge alone,
    # and the edges above it only decide whether a beam search finds it
    scores: Scores = "path"

    def __post_init__(self) -> None:
        tree = self.tree
        check_value("scores", self.scores, Choice(SCORES), type(self).__name__)
        check_class_tree(tree, tree.n_labels, owner=type(self).__name__)
        beside = {"squares": self.squares, "delays": self.delays}
        arrays = {"weights": self.weights, **{name: array for name, array in beside.items() if array is not None}}
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray) or array.dtype != np.float32 or array.ndim != 2:
                raise DataError(f"The {name} of classes must be a float32 matrix with a row for each edge.")
            if not (array.flags.f_contiguous if self.by_feature else array.flags.c_contiguous):
                raise DataError(
                    f"The {name} of classes must lie in C order, or the weights and squares in Fortran order."
                )
        shape = self.weights.shape
        if shape[0] != self.n_edges or shape[1] < 1:
            raise DataError(
                f"The weights of classes must have a row for each of the tree's {self.n_edges} edges and a column for "
                f"the intercept. Got the shape {shape} instead."
            )
        if wrong := next((name for name, array in arrays.items() if array.shape != shape), None):
            raise DataError(
                f"The {wrong} of classes must have the weights' shape, {shape}. Got {arrays[wrong].shape} instead."
            )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "handle"}

    @cached_property
    def first_edges(self) -> tuple[int, ...]:
        """The first edge of each layer, then the number of edges."""
        return tuple(first_edges(self.tree).tolist())

    @cached_property
    def handle(self) -> kernels.ClassTree:
        """The tree as the kernels see it; a native object that stays out of pickles."""
        offsets = zip(self.tree.child_offsets, self.first_edges, strict=False)
        starts = [layer[:-1] + first for layer, first in offsets]
        return kernels.ClassTree(np.concatenate([*starts, [self.n_edges]]), self.tree.leaf_labels)

    @classmethod
    def zeros(
        cls, tree: LabelTree, n_features: int, *, by_feature: bool = False, scores: Scores = "path"
    ) -> ClassWeights:
        """Weights of 0, which training begins with; ``by_feature`` suits compressed rows."""
        weights = np.zeros((sum(tree.layer_sizes), n_features + 1), np.float32, order="F" if by_feature else "C")
        return cls(tree, weights, scores=scores)

    def trainable(self, *, squares: bool = False, delays: bool = False) -> ClassWeights:
        """The same weights to go on with, and what training needs beside, ``squares`` for AdaGrad and ``delays`` for
        averaging: copies of what can't be written to."""

        def beside(array: Float32 | None, wanted: bool) -> Float32 | None:
            if not wanted:
                return None
            return np.zeros_like(self.weights) if array is None else np.require(array, requirements="W")

        arrays = beside(self.squares, squares), beside(self.delays, delays)
        return replace(self, weights=np.require(self.weights, requirements="W"), squares=arrays[0], delays=arrays[1])

    def averages(self, n_steps: int) -> ClassWeights:
        """The averages of the weights over the last ``n_steps`` steps, step t of which counts t times."""
        if self.delays is None:
            raise DataError("These weights weren't averaged: they have no delays.")
        factors = 0.5 * n_steps * (n_steps + 1.0)
        averages = np.divide(self.delays, np.float32(-max(factors, 1.0)))  # in the order of the weights
        averages += self.weights
        return replace(self, weights=averages, squares=None, delays=None)

    def alone(self) -> ClassWeights:
        """The weights without what training needs beside."""
        return replace(self, squares=None, delays=None)

    def regrown(self, tree: LabelTree, was: Int64, n_features: int) -> ClassWeights:
        """Copies for a tree that has grown and for more features."""
        # Shape: was (n_edges,)

        def grown(array: Float32) -> Float32:
            weights_now = np.zeros((len(was), n_features + 1), np.float32, order="F" if self.by_feature else "C")
            before = np.flatnonzero(was >= 0)
            weights_now[before, : self.n_features] = array[was[before], :-1]
            weights_now[before, -1] = array[was[before], -1]
            return weights_now

        squares, delays = (None if array is None else grown(array) for array in (self.squares, self.delays))
        return ClassWeights(tree, grown(self.weights), squares, delays, self.scores)

    @property
    def by_feature(self) -> bool:
        """Whether the weights of a feature lie side by side (Fortran order), not those of an edge."""
        return not self.weights.flags.c_contiguous

    @property
    def stored(self) -> tuple[Float32, Float32 | None, Float32 | None]:
        """Weights, squares and delays in C order as they lie in memory: by feature, their transposes."""
        if not self.by_feature:
            return self.weights, self.squares, self.delays
        return self.weights.T, *(None if array is None else array.T for array in (self.squares, self.delays))

    @classmethod
    def from_stored(
        cls, tree: LabelTree, weights: Float32, squares: Float32 | None = None, delays: Float32 | None = None, *,
        by_feature: bool = False, scores: Scores = "path",
    ) -> ClassWeights:  # fmt: skip
        """What :attr:`stored` gave."""
        beside = [array if array is None or not by_feature else array.T for array in (squares, delays)]
        return cls(tree, weights.T if by_feature else weights, beside[0], beside[1], scores)

    def to_arrays(self, *, by_feature: bool) -> dict[str, Float32]:
        """Arrays of a saved model, by their names here: as they lie in memory, which a mapped file then is too."""
        arrays = {"weights": self.weights, "squares": self.squares, "delays": self.delays}
        return {name: array.T if by_feature else array for name, array in arrays.items() if array is not None}

    @classmethod
    def from_arrays(
        cls, state: store.State, tree: LabelTree, n_features: int, *, by_feature: bool, scores: Scores = "path"
    ) -> ClassWeights:
        """What :meth:`to_arrays` gave, verified. Weights that are no numbers rank last."""
        shape = sum(tree.layer_sizes), n_features + 1
        shape = shape[::-1] if by_feature else shape
        weights = store.need_array(state, "weights", np.float32, shape)
        squares = store.need_array(state, "squares", np.float32, shape) if "squares" in state.arrays else None
        return cls.from_stored(tree, weights, squares, by_feature=by_feature, scores=scores)

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return self.tree.n_labels

    @property
    def n_features(self) -> int:
        """Number of features, the intercept's column not counted."""
        return int(self.weights.shape[1]) - 1

    @property
    def n_edges(self) -> int:
        """Number of edges: of nodes but the root."""
        return self.first_edges[-1]

    @property
    def is_flat(self) -> bool:
        """Whether every class is a child of the root, so that edges are classes."""
        return len(self.tree.child_offsets) == 1


def class_features(X: Csr | Float32, n_features: int) -> Any:
    """Rows of features as the kernels take them."""
    if X.shape[1] != n_features:
        raise DataError(f"X has {X.shape[1]} features, but the weights are for {n_features}.")
    if isinstance(X, Csr):
        return kernels.ClassFeatures(None, X.indptr, X.indices, X.data, n_features)
    if not isinstance(X, np.ndarray) or X.dtype != np.float32 or not X.flags.c_contiguous:
        raise DataError("Dense features of classes must be a float32 matrix in C order.")
    return kernels.ClassFeatures(X, None, None, None, n_features)


def rank_classes(
    weights: ClassWeights, X: Csr | Float32, k: int, beam: int, n_jobs: int = 1, bias: float = 1.0, *,
    log_probabilities: bool = False, log_sums: Float32 | None = None, description: str | None = None,
) -> TopK:  # fmt: skip
    """The ``k`` best classes of each row among those that a beam of ``beam`` nodes a layer reaches (Algorithm 3 of
    Candidates vs. Noises Estimation)."""
    # Shapes: X (n, n_features); log_sums (n,)
    check_value("k", k, Number(int, 1, 2**31 - 1))
    check_value("beam", beam, Number(int, 1))
    n_rows, k, beam = int(X.shape[0]), int(k), min(int(beam), weights.n_edges)
    features = class_features(X, weights.n_features)
    classes, scores = np.full((n_rows, k), -1, np.int32), np.full((n_rows, k), -np.inf, np.float32)
    stored = weights.stored[0]

    def search(rows: tuple[int, int]) -> None:
        kernels.rank_classes(
            weights.handle, stored, weights.by_feature, features, float(bias), *rows, beam, log_probabilities,
            weights.scores == "own", classes, scores, log_sums,
        )  # fmt: skip

    if n_rows <= ROWS:
        search((0, n_rows))
    else:
        map_parallel(search, split_ranges(n_rows, ROWS), n_jobs, description=description)
    return TopK(classes, scores)


def all_scores(
    weights: ClassWeights, X: Csr | Float32, bias: float = 1.0, *, log_probabilities: bool = False
) -> Float32:
    """The exact score of every class for every row, float32 of shape (n, K). Parameters are :func:`rank_classes`'s;
    with ``log_probabilities`` each row is a normalised log-distribution."""
    features, stored, labels = class_features(X, weights.n_features), weights.stored[0], weights.tree.leaf_labels
    scores = np.empty((int(X.shape[0]), weights.n_classes), np.float32)
    for first, last in split_ranges(int(X.shape[0]), max(1, BLOCK // weights.n_edges)):
        if isinstance(X, Csr) or weights.n_edges * weights.n_features <= _FEW_WEIGHTS:
            of_edges = np.empty((last - first, weights.n_edges), np.float32)
            kernels.score_class_edges(stored, weights.by_feature, features, float(bias), first, last, of_edges)
        else:
            counted = weights.weights[weights.first_edges[-2] if weights.scores == "own" else 0 :]
            of_edges = X[first:last] @ counted[:, :-1].T
            of_edges += np.float32(bias) * counted[:, -1]
        scores[first:last, labels] = _sums(weights, of_edges, log_probabilities)
    return scores


def _sums(weights: ClassWeights, scores: Float32, log_probabilities: bool) -> Float32:
    """The score of each leaf (n, n_leaves) from those of the edges (n, n_edges)."""
    if weights.scores == "own":
        return scores[:, -weights.n_classes :]
    above: Float32 | None = None
    for offsets, first in zip(weights.tree.child_offsets, weights.first_edges, strict=False):
        layer = scores[:, first : first + int(offsets[-1])]
        counts = np.diff(offsets)
        if log_probabilities:
            starts = offsets[:-1]
            layer = layer - np.repeat(np.maximum.reduceat(layer, starts, axis=1), counts, axis=1)
            layer -= np.repeat(np.log(np.add.reduceat(np.exp(layer), starts, axis=1)), counts, axis=1)
        above = layer if above is None else np.repeat(above, counts, axis=1) + layer
    assert above is not None  # a tree has at least one layer
    return above


def log_sums_of(scores: Float32, most: Float32) -> Float32:
    """log(sum(exp)) of each row (n, m), by its largest score; 0 where that is no finite number."""
    with np.errstate(all="ignore"):
        shares = scores - most[:, None]
        sums: Float32 = np.log(np.exp(shares, out=shares).sum(axis=1)) + most
    sums[~np.isfinite(sums)] = 0
    return sums
