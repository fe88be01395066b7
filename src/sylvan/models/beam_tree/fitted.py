"""What BeamTreeClassifier has learned, and how classes are ranked by it: by beam, or by every class's score."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.arrays.canonical import Csr
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK
from sylvan.arrays.validate import LARGEST_TRAINED
from sylvan.errors import ModelError, ParameterError
from sylvan.indexing import LabelTree
from sylvan.matching.class_beam import SCORES, ClassWeights, Scores, all_scores, log_sums_of, rank_classes
from sylvan.models.beam_tree.examples import Classes
from sylvan.models.beam_tree.solver import LOSSES, OPTIMIZERS, TREE_LOSSES, Optimizer
from sylvan.models.irli.bucket_network import best_columns
from sylvan.parallel import map_parallel, split_ranges
from sylvan.params.wording import counted

_BLOCK_SCORES = 1 << 22  # that one thread has at once
_MOST_ROWS = 4096
GIVEN = "given"  # what a tree is called that was a parameter
Tree = Literal["kmeans", "random", "frequency"]
Float32 = npt.NDArray[np.float32]


def scores_of(model: Any) -> Scores:
    """What a class's score is by a model's parameters: for a loss without candidates always the sum of its path."""
    scores: Scores = model.scores if model.loss == "cane" else "path"
    return scores


@dataclass(frozen=True)
class Bound:
    """The parameters that weights are bound to, whatever is set later."""

    loss: str
    bias: float
    scores: Scores
    branching: int
    tree: str  # how it was made

    @classmethod
    def of(cls, model: Any) -> Bound:
        """Those of a BeamTreeClassifier."""
        tree = GIVEN if isinstance(model.tree, LabelTree) else model.tree
        return cls(model.loss, float(model.bias), scores_of(model), int(model.branching), tree)

    @classmethod
    def from_state(cls, state: store.State) -> Bound:
        """What :meth:`to_json` gave, verified."""
        return cls(
            store.need_choice(state, "trained_loss", tuple(LOSSES)),
            store.need_float(state, "trained_bias", 0),
            store.need_choice(state, "trained_scores", SCORES),
            store.need_int(state, "trained_branching", 2, 1 << 20),
            store.need_choice(state, "trained_tree", (*get_args(Tree), GIVEN)),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {f"trained_{name}": value for name, value in vars(self).items()}

    def refuse_changes(self, model: Any, tree: LabelTree) -> None:
        """Refuse to go on with parameters that the weights, of the edges of ``tree``, can't be carried over to."""
        if (model.loss, model.bias) != (self.loss, self.bias):
            raise ParameterError(
                f"loss={self.loss!r} and bias={self.bias:g} were what the first call learned with; partial_fit can't "
                f"go on with loss={model.loss!r} and bias={model.bias:g}."
            )
        if scores_of(model) != self.scores:
            raise ParameterError(
                f"scores={self.scores!r} was what the first call learned with; partial_fit can't go on with "
                f"scores={model.scores!r}."
            )
        if self.loss not in TREE_LOSSES:
            return
        if isinstance(model.tree, LabelTree):
            if model.tree != tree:
                raise ParameterError(
                    "The tree of the first call isn't the 'tree' that is set now: its weights belong to its edges, so "
                    "that partial_fit can't go on with another. fit learns anew."
                )
        elif (model.tree, model.branching) != (self.tree, self.branching):
            raise ParameterError(
                f"The tree was made by tree={self.tree!r} and branching={self.branching} in the first call; "
                f"partial_fit can't go on with tree={model.tree!r} and branching={model.branching}. fit learns anew."
            )


@dataclass(frozen=True, eq=False)
class FittedBeamTree:
    """What was learned: the classes, the weights of the tree's edges, and what training goes on from."""

    classes: Classes
    bound: Bound
    dense: bool  # whether rows are ranked as dense ones
    weights: ClassWeights  # what classes are ranked by
    trained: ClassWeights  # the weights of the last step; the same where the optimiser takes no averages
    optimizer: Optimizer
    learning_rate: float
    n_shown: int  # examples so far
    n_averaged: int  # of these, the last ones that are in the averages
    history: npt.NDArray[np.float64]  # shape (n_epochs, 2)

    def rank(
        self, X: Csr | Float32, k: int, beam: int, labels: LabelFilter | None = None, *, raw: bool = False, n_jobs: int
    ) -> TopK:
        """The ``k`` best classes of those that a beam search reaches; see :func:`rank_by_beam`."""
        loss, bias = self.bound.loss, self.bound.bias
        return rank_by_beam(self.weights, X, k, beam, loss=loss, bias=bias, labels=labels, raw=raw, n_jobs=n_jobs)

    def coverage(self, X: Csr | Float32, ids: npt.NDArray[np.int32], n_candidates: int, n_jobs: int) -> float:
        """The share of rows whose class is among the candidates of training; an id of -1 never is; NaN without rows."""
        width = min(n_candidates, self.classes.n)
        found = self.rank(X, width, width, raw=True, n_jobs=n_jobs).labels
        covered = ((found == ids[:, None]) & (found >= 0)).any(axis=1)
        return float(covered.mean()) if len(ids) else float("nan")

    def to_parts(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], dict[str, store.State]]:
        """Values, arrays and parts for a saved model: the weights it ranks by, and, under other names, what training
        goes on from."""
        arrays = self.trained.to_arrays(by_feature=not self.dense)
        if self.trained is not self.weights:
            arrays["last_weights"] = arrays["weights"]
            arrays |= self.weights.to_arrays(by_feature=not self.dense)
        meta: dict[str, Any] = {"n_shown": self.n_shown, "n_averaged": self.n_averaged, "dense": self.dense}
        meta |= {"trained_rate": self.learning_rate, "trained_optimizer": self.optimizer}
        tree = self.weights.tree.to_state()
        return meta | self.bound.to_json(), {"history": self.history, **arrays}, {"tree": tree}

    @classmethod
    def from_state(cls, state: store.State, tree: LabelTree, classes: Classes, n_features: int) -> FittedBeamTree:
        """What :meth:`to_parts` gave, verified."""
        if tree.n_labels != classes.n:
            raise ModelError(
                f"{state.where!r} is damaged: its tree has {tree.n_labels} of {counted(classes.n, 'class')}."
            )
        n_shown = store.need_int(state, "n_shown", 0, 2**62)
        n_averaged = store.need_int(state, "n_averaged", 0, n_shown)
        dense, bound = store.need_bool(state, "dense"), Bound.from_state(state)
        rate = store.need_float(state, "trained_rate", 0)
        optimizer = store.need_choice(state, "trained_optimizer", OPTIMIZERS)
        weights = trained = ClassWeights.from_arrays(state, tree, n_features, by_feature=not dense, scores=bound.scores)
        if optimizer == "averaged_sgd":
            shape = weights.weights.shape if dense else weights.weights.shape[::-1]
            last, delays = (store.need_array(state, name, np.float32, shape) for name in ("last_weights", "delays"))
            trained = ClassWeights.from_stored(tree, last, None, delays, by_feature=not dense, scores=bound.scores)
        history = store.need_array(state, "history", np.float64, (None, 2))
        return cls(classes, bound, dense, weights, trained, optimizer, rate, n_shown, n_averaged, history)


def saved_tree(state: store.State) -> LabelTree:
    """The tree of the weights."""
    return LabelTree.from_state(store.need_part(state, "tree", "label-tree"))


def rank_by_beam(
    weights: ClassWeights,
    X: Csr | Float32,
    k: int,
    beam: int,
    *,
    loss: str,
    bias: float,
    labels: LabelFilter | None = None,
    raw: bool = False,
    n_jobs: int = 1,
) -> TopK:
    """The ``k`` best classes of those below the beam's nodes, with the logarithms of their shares among these. The
    probabilities of a hierarchical softmax are taken as they are; with ``raw`` every score is, which is faster."""
    if weights.is_flat:
        return rank_exactly(weights, X, k, loss=loss, bias=bias, labels=labels, raw=raw, n_jobs=n_jobs)
    log_probabilities = loss == "hsm"
    sums = None if raw or log_probabilities else np.empty(X.shape[0], np.float32)
    search = partial(rank_classes, weights, bias=bias, log_probabilities=log_probabilities)
    if labels is None:
        top = search(X, k, beam, n_jobs, log_sums=sums, description="Ranking")
    else:
        tree = weights.tree
        reach, top = min(tree.n_leaves, beam * int(tree.cluster_sizes.max())), _empty(X.shape[0], k)

        def work(rows: tuple[int, int]) -> None:
            reached = search(_part(X, *rows), reach, beam, log_sums=None if sums is None else sums[slice(*rows)])
            _put(top, rows, reached.labels, reached.scores, labels)

        map_parallel(work, split_ranges(X.shape[0], _block_rows(reach)), n_jobs, description="Ranking")
    if sums is not None:
        np.subtract(top.scores, sums[:, None], out=top.scores)
    return top


def rank_exactly(
    weights: ClassWeights,
    X: Csr | Float32,
    k: int,
    *,
    loss: str,
    bias: float,
    labels: LabelFilter | None = None,
    raw: bool = False,
    n_jobs: int = 1,
) -> TopK:
    """The ``k`` best of all classes, with the logarithms of their probabilities."""
    n_classes, raw = weights.tree.n_labels, raw or loss == "hsm"
    top = _empty(X.shape[0], k)

    def work(rows: tuple[int, int]) -> None:
        scores = _every_score(weights, _part(X, *rows), bias, loss == "hsm")
        if not raw:
            scores -= log_sums_of(scores, scores.max(axis=1))[:, None]
        every = np.broadcast_to(np.arange(n_classes, dtype=np.int32), scores.shape)
        if labels is not None:
            scores[~_is_open(every, labels, rows[0])] = -np.inf
        columns, best = best_columns(scores, k)
        _put(top, rows, np.where(best > -np.inf, columns, -1), best, None)

    map_parallel(work, split_ranges(X.shape[0], _block_rows(n_classes)), n_jobs, description="Ranking")
    return top


def within_bounds(rows: Csr) -> Csr:
    """Features no larger than can be learned from, larger ones are cut off: sums must stay numbers."""
    most = np.float32(LARGEST_TRAINED)
    if not rows.data.size or max(float(rows.data.max()), -float(rows.data.min())) <= most:
        return rows
    return rows._replace(data=np.clip(rows.data, -most, most))


def _every_score(weights: ClassWeights, X: Csr | Float32, bias: float, log_probabilities: bool) -> Float32:
    lone = isinstance(X, np.ndarray) and len(X) == 1
    if lone:  # a product of one row goes another way through BLAS, to other bits
        X = np.concatenate([X, np.zeros_like(X)])
    scores = all_scores(weights, X, bias, log_probabilities=log_probabilities)
    return scores[:1] if lone else scores


def _empty(n: int, k: int) -> TopK:
    return TopK(np.full((n, k), -1, np.int32), np.full((n, k), -np.inf, np.float32))


def _block_rows(width: int) -> int:
    """Rows ranked at once: by the model's size alone, so that threads change no bit."""
    return int(min(max(_BLOCK_SCORES // width, 16), _MOST_ROWS))


def _part(X: Csr | Float32, start: int, stop: int) -> Csr | Float32:
    if isinstance(X, np.ndarray):
        return X[start:stop]
    first, last = int(X.indptr[start]), int(X.indptr[stop])
    shape = (stop - start, X.shape[1])
    return Csr(X.indptr[start : stop + 1] - first, X.indices[first:last], X.data[first:last], shape)


def _put(
    top: TopK, rows: tuple[int, int], classes: npt.NDArray[np.int32], scores: Float32, labels: LabelFilter | None
) -> None:
    """The first k of a block's classes that are open, best first."""
    k = top.labels.shape[1]
    if labels is not None:
        closed = ~_is_open(classes, labels, rows[0])
        order = np.argsort(closed, axis=1, kind="stable")[:, :k]
        classes = np.take_along_axis(np.where(closed, np.int32(-1), classes), order, axis=1)
        scores = np.take_along_axis(scores, order, axis=1)
    part, width = slice(*rows), min(k, classes.shape[1])
    top.labels[part, :width] = classes[:, :width]
    top.scores[part, :width] = np.where(classes[:, :width] >= 0, scores[:, :width], np.float32(-np.inf))


def _is_open(classes: npt.NDArray[np.int32], labels: LabelFilter, first_row: int) -> npt.NDArray[np.bool_]:
    """Which classes of each row may be answered with, where the rows are those from ``first_row`` on."""
    listed = np.zeros(labels.n_labels, bool)
    listed[labels.shared] = True
    named = listed[np.maximum(classes, 0)]
    if labels.rows is not None:
        stop = first_row + len(classes)
        start, end = labels.rows.indptr[first_row], labels.rows.indptr[stop]
        of_row = np.repeat(np.arange(len(classes), dtype=np.int64), np.diff(labels.rows.indptr[first_row : stop + 1]))
        keys = of_row * labels.n_labels + labels.rows.indices[start:end]
        asked = np.arange(len(classes), dtype=np.int64)[:, None] * labels.n_labels + classes
        named = named | np.isin(asked, keys)
    return (named if labels.allows else ~named) & (classes >= 0)
