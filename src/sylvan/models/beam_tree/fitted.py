"""What BeamTreeClassifier has learned, and how classes are ranked by it: by beam, or by every class's score."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from sylvan import store
from sylvan.arrays.canonical import Csr
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK, best_columns
from sylvan.arrays.types import Array, Float32, Float64, Int32
from sylvan.arrays.validate import LARGEST_TRAINED
from sylvan.errors import ModelError, ParameterError
from sylvan.indexing import LabelTree
from sylvan.matching.class_beam import SCORES, ClassWeights, Scores, all_scores, log_sums_of, rank_classes
from sylvan.models.beam_tree.examples import Classes
from sylvan.models.beam_tree.solver import LOSSES, OPTIMIZERS, TREE_LOSSES, Optimizer
from sylvan.parallel import map_parallel, split_ranges
from sylvan.params.wording import counted

_BLOCK_SCORES = 1 << 22  # that one thread has at once
_MOST_ROWS = 4096
GIVEN = "given"  # what a tree is called that was a parameter
Tree = Literal["kmeans", "random", "frequency"]


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
                    "that partial_fit can't go on with another. fit starts over."
                )
        elif (model.tree, model.branching) != (self.tree, self.branching):
            raise ParameterError(
                f"The tree was made by tree={self.tree!r} and branching={self.branching} in the first call; "
                f"partial_fit can't go on with tree={model.tree!r} and branching={model.branching}. fit starts over."
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
    history: Float64  # shape (n_epochs, 2)

    def rank(
        self, X: Csr | Float32, k: int, beam: int, labels: LabelFilter | None = None, *, raw: bool = False, n_jobs: int
    ) -> TopK:
        """The ``k`` best classes of those that a beam search reaches; see :func:`rank_by_beam`."""
        loss, bias = self.bound.loss, self.bound.bias
        return rank_by_beam(self.weights, X, k, beam, loss=loss, bias=bias, labels=labels, raw=raw, n_jobs=n_jobs)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array], dict[str, store.State]]:
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
    weights: ClassWeights, X: Csr | Float32, k: int, beam: int, *, loss: str, bias: float,
    labels: LabelFilter | None = None, raw: bool = False, n_jobs: int = 1,
) -> TopK:  # fmt: skip
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
            log_sums = None if sums is None else sums[slice(*rows)]
            reached = search(_part(X, *rows), reach, beam, log_sums=log_sums)
            closed = ~labels.opens(reached.labels, np.arange(len(reached.labels))[:, None], rows)
            order = np.argsort(closed, axis=1, kind="stable")[:, :k]
            classes = np.take_along_axis(np.where(closed, np.int32(-1), reached.labels), order, axis=1)
            _put(top, rows, classes, np.take_along_axis(reached.scores, order, axis=1))

        map_parallel(work, _ranges(X, reach), n_jobs, description="Ranking")
    if sums is not None:
        np.subtract(top.scores, sums[:, None], out=top.scores)
    return top


def rank_exactly(
    weights: ClassWeights, X: Csr | Float32, k: int, *, loss: str, bias: float, labels: LabelFilter | None = None,
    raw: bool = False, n_jobs: int = 1,
) -> TopK:  # fmt: skip
    """The ``k`` best of all classes, with the logarithms of their probabilities."""
    n_classes, log_probabilities = weights.tree.n_labels, loss == "hsm"
    top = _empty(X.shape[0], k)

    def work(rows: tuple[int, int]) -> None:
        part, n_rows = _part(X, *rows), rows[1] - rows[0]
        if n_rows == 1 and isinstance(part, np.ndarray):  # a product of one row goes another way, to other bits
            part = np.concatenate([part, np.zeros_like(part)])
        scores = all_scores(weights, part, bias, log_probabilities=log_probabilities)[:n_rows]
        if not (raw or log_probabilities):
            scores -= log_sums_of(scores, scores.max(axis=1))[:, None]
        if labels is not None:
            class_ids = np.broadcast_to(np.arange(n_classes, dtype=np.int32), scores.shape)
            scores[~labels.opens(class_ids, np.arange(n_rows)[:, None], rows)] = -np.inf
        columns, best = best_columns(scores, k)
        _put(top, rows, np.where(best > -np.inf, columns, -1), best)

    map_parallel(work, _ranges(X, n_classes), n_jobs, description="Ranking")
    return top


def within_bounds(rows: Csr) -> Csr:
    """Features no larger than can be learned from, larger ones are cut off: sums must stay numbers."""
    most = np.float32(LARGEST_TRAINED)
    if not rows.data.size or max(float(rows.data.max()), -float(rows.data.min())) <= most:
        return rows
    return rows._replace(data=np.clip(rows.data, -most, most))


def _empty(n: int, k: int) -> TopK:
    return TopK(np.full((n, k), -1, np.int32), np.full((n, k), -np.inf, np.float32))


def _part(X: Csr | Float32, first: int, last: int) -> Csr | Float32:
    return X.between(first, last) if isinstance(X, Csr) else X[first:last]


def _ranges(X: Csr | Float32, width: int) -> list[tuple[int, int]]:
    """Rows ranked at once: by the model's size alone, so that threads change no bit."""
    return split_ranges(X.shape[0], int(min(max(_BLOCK_SCORES // width, 16), _MOST_ROWS)))


def _put(top: TopK, rows: tuple[int, int], classes: Int32, scores: Float32) -> None:
    """The first k of a block's classes, best first."""
    part, width = slice(*rows), min(top.labels.shape[1], classes.shape[1])
    top.labels[part, :width] = classes[:, :width]
    top.scores[part, :width] = np.where(classes[:, :width] >= 0, scores[:, :width], np.float32(-np.inf))
