"""What XR-Linear learns: a value that ranks, explains, loses labels and is saved; and how it is learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from sylvan import store
from sylvan.arrays.canonical import take_rows
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK, answers_of, keep, resized
from sylvan.arrays.types import Array, Float32, Int32
from sylvan.arrays.validate import Csr
from sylvan.data import RowParts
from sylvan.errors import ModelError
from sylvan.matching import beam as matching
from sylvan.metrics.tallies import hits
from sylvan.models.base import CANDIDATES
from sylvan.models.xr.estimate import training_plan
from sylvan.models.xr.params import TrainingData, build_trees, chosen_by_rows, layer_words, tree_training
from sylvan.models.xr.training_rows import HeldOut, TrainingRows
from sylvan.models.xr.unseen import UnseenRows, placed_by_own_rows
from sylvan.parallel import resolve_jobs
from sylvan.ranking.calibrate import Calibrator, falling
from sylvan.ranking.ensemble import mean_score
from sylvan.ranking.linear import Loss
from sylvan.ranking.training import Cost, train_rankers
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.runtime import opened_runner
from sylvan.runtime.checkpoint import checksum, identity_of
from sylvan.runtime.memory import available_bytes
from sylvan.weights.layer import LayerWeights

# A training is planned, and perhaps refused, when its data take more than this share of the memory that there is: the
# rankers of smaller ones have never been seen to fill the rest.
LARGE, SMALL = 1 / 16, 1 << 20  # and more than so many bytes
AUTOS = ("negative_cost", "tolerance", "max_iterations")  # what the rows choose, where it is "auto"


class Search(NamedTuple):
    """What parameters say of ranking."""

    beam: int
    combines: list[list[str]]  # of each tree, one word a layer
    loss: Loss
    n_jobs: int


@dataclass(frozen=True, eq=False)
class FittedTrees:
    """Trees and the weights of their layers. Features are given as the rankers see them."""

    rankers: Sequence[TreeRanker] = ()  # none before fit
    factors: Float32 | None = None  # shape (n_features,): of the columns
    chosen: Mapping[str, float] = field(default_factory=dict)  # what rows made of parameters that are "auto"
    rows: TrainingRows | None = None  # if they are kept

    @property
    def n_labels(self) -> int:
        """With those that were removed."""
        return self.rankers[0].tree.n_labels

    @property
    def n_features(self) -> int:
        """The columns that the weights know of."""
        return self.rankers[0].layers[0].n_features

    def rank(self, features: Csr, k: int, search: Search, labels: LabelFilter | None = None) -> TopK:
        """The best labels of each row, of those that ``labels`` leaves open; of several trees the mean score."""
        deep = k if len(self.rankers) == 1 else min(max(k, CANDIDATES), self.n_labels)
        tops = [
            ranker.rank(
                features, deep, beam=search.beam, combines=combines, labels=labels, n_jobs=search.n_jobs,
                description="Ranking",
            )
            for ranker, combines in zip(self.rankers, search.combines, strict=True)
        ]  # fmt: skip
        return tops[0] if len(tops) == 1 else self._joined(tops, k, search)

    def rank_changed(
        self, features: Csr, changes: Sequence[Sequence[matching.RowChanges | None]], k: int, search: Search,
        without: Sequence[Csr] | None = None,
    ) -> TopK:  # fmt: skip
        """The best labels when scores change, tree by tree and layer by layer, with scores mapped into [0, 1].
        ``without`` has labels that a tree doesn't answer, row by row."""
        k, tops = min(k, self.n_labels), []
        for number, (ranker, combines) in enumerate(zip(self.rankers, search.combines, strict=True)):
            tree = ranker.tree
            top = matching.rank_changed(
                features, ranker.layers, tree.leaf_labels, changes[number], k=k, beam=search.beam, combines=combines,
                n_copies=tree.most_copies, n_jobs=search.n_jobs,
            )  # fmt: skip
            if without is not None:  # labels behind them move up
                top = resized(keep(top, ~hits(top, without[number])), k)
            tops.append(top)
        top = tops[0] if len(tops) == 1 else self._joined(tops, k, search)
        return TopK(top.labels, np.where(top.labels >= 0, self.probabilities(top, search), np.float32(-np.inf)))

    def _joined(self, tops: Sequence[TopK], k: int, search: Search) -> TopK:
        return mean_score([TopK(top.labels, self.bounded(top.scores, search)) for top in tops], k)

    def probabilities(self, top: TopK, search: Search) -> Float32:
        """The scores of :meth:`rank` mapped into [0, 1], not calibrated."""
        if len(self.rankers) > 1:
            return np.clip(top.scores, 0, 1)
        bounded = self.bounded(top.scores, search)
        # Margins beyond 1 are all sure, and still in an order.
        return falling(bounded) if search.combines[0][-1] == "ranker" else bounded

    def bounded(self, scores: Float32, search: Search) -> Float32:
        """The scores of one tree mapped into [0, 1]. For rankers' own scores this depends on the loss. Margins that
        training drives to 1 are distinguished by Eq. 13. Their sigmoids would be close together, so that a mean over
        several trees would hardly distinguish good labels."""
        combines = search.combines[0]
        if combines[-1] != "ranker":
            return np.clip(scores, 0, 1)
        if search.loss == "logistic":
            return (1 / (1 + np.exp(-np.clip(scores, -80, 80)))).astype(np.float32)
        return matching.hinge_measure(scores, matching.hinge_power(combines))

    def without(self, labels: Int32, relevance: Cost | None) -> FittedTrees:
        """When labels are removed; costs of a row's other labels may depend on all that it has."""
        rows = self.rows
        if rows is not None:
            trees = [ranker.tree for ranker in self.rankers]
            rows = rows.without_labels(labels, trees, relevance not in (None, "none"))
        return replace(self, rankers=[ranker.without(labels) for ranker in self.rankers], rows=rows)

    def with_columns(self, n_features: int) -> FittedTrees:
        """With further columns, which no row had."""
        factors, rows = self.factors, self.rows
        if factors is not None:
            factors = np.concatenate((factors, np.ones(n_features - len(factors), np.float32)))
        if rows is not None:
            rows = rows.with_columns(n_features)
        return replace(self, factors=factors, rows=rows)

    def to_state(self) -> tuple[dict[str, Any], dict[str, Array], dict[str, store.State]]:
        """Values, arrays and parts of the model's state."""
        parts = {f"tree{number}": ranker.to_state() for number, ranker in enumerate(self.rankers)}
        arrays = {} if self.factors is None else {"feature_factors": self.factors}
        if self.rows is not None:
            parts["rows"] = self.rows.to_state()
        meta = {"n_trees": len(self.rankers), **{f"{name}_": value for name, value in self.chosen.items()}}
        return meta, arrays, parts

    @classmethod
    def from_state(cls, state: store.State, n_features: int, n_labels: int) -> FittedTrees:
        """From what :meth:`to_state` gave, verified."""
        n_trees = store.need_int(state, "n_trees", 1, 1000)
        chosen = {name: store.need_float(state, f"{name}_", 0) for name in AUTOS if f"{name}_" in state.meta}
        if "max_iterations" in chosen:
            chosen["max_iterations"] = store.need_int(state, "max_iterations_", 1, 2**31 - 1)
        parts = [store.need_part(state, f"tree{number}", "tree-ranker") for number in range(n_trees)]
        rankers, factors, rows = [TreeRanker.from_state(part, n_features) for part in parts], None, None
        if "feature_factors" in state.arrays:
            factors = store.need_array(state, "feature_factors", np.float32, (n_features,))
            store.need_finite(state, "feature_factors")
        if any(ranker.tree.n_labels != n_labels for ranker in rankers):
            raise ModelError(f"{state.where!r} is damaged: its trees have different numbers of labels.")
        if "rows" in state.parts:
            part = store.need_part(state, "rows", "training-rows")
            rows = TrainingRows.from_state(part, rankers, n_features, n_labels)
        return cls(rankers, factors, chosen, rows)


def search_of(params: Any, fitted: FittedTrees, beam: int | None = None, n_jobs: int | None = None) -> Search:
    """How parameters have these trees searched; with another beam, or number of threads, if asked."""
    combines = [layer_words(params, "combine", ranker.tree.depth) for ranker in fitted.rankers]
    n_jobs = resolve_jobs(params.n_jobs) if n_jobs is None else n_jobs
    return Search(params.beam if beam is None else beam, combines, params.loss, n_jobs)


class Trained(NamedTuple):
    """What a training gives."""

    fitted: FittedTrees
    calibrator: Calibrator | None
    top: TopK | None  # answers to the held-out rows, of scores in [0, 1]


def train(
    params: Any, data: TrainingData, folds: Sequence[Int32], k: int, layers: Mapping[int, LayerWeights] | None,
    force: bool, n_texts: int = 0, **running: Any,
) -> Trained:  # fmt: skip
    """All phases. ``folds`` are held-out rows, of which the trees are asked for ``k`` answers as if they were new. The
    last ``n_texts`` rows are texts of labels."""
    features, labels, weight, about, factors, length = data
    rows = np.sort(np.concatenate(folds)) if len(folds) else None

    def identity() -> dict[str, Any]:
        values = {name: value for name, value in params.get_params(deep=False).items() if name != "n_jobs"}
        values |= {f"layers[{t}]": checksum(*each.to_arrays("").values()) for t, each in (layers or {}).items()}
        arrays = {"X": features, "Y": labels, "sample_weight": weight, "holdout": rows, **about}
        return identity_of(type(params).__name__, values, **arrays)

    n_bytes = features.nbytes + labels.nbytes
    with opened_runner(params.n_jobs, identity=identity, input_bytes=n_bytes, **running) as run:
        trees = build_trees(params, data, run)
        unlimited = running.get("memory_limit") is None and not force and not isinstance(features, RowParts)
        available = available_bytes() if unlimited and n_bytes > SMALL else None
        if available is not None and n_bytes > LARGE * available:  # rather now than killed after hours of work
            training_plan(params, data, trees).check()
        # Where rows made the trees, a label may stand where it does for the sake of one of its few rows.
        by_rows = params.tree is None and params.embedding == "pifa" and params.clustering != "random"
        movable = by_rows and trees[0].depth > 1 and max(tree.most_copies for tree in trees) == 1
        placed = placed_by_own_rows(trees, features, labels, rows, run) if movable and rows is not None else None
        n = features.shape[0] - n_texts
        others = features.between(0, n) if n_texts and isinstance(features, Csr) else features
        trained = []
        for number, tree in enumerate(trees):
            training = tree_training(params, tree.depth, number, others, length)
            options = {"runner": run.within(f"tree{number}"), "fixed": layers, "keeps": params.keep_rows}
            trained.append(train_rankers(features, labels, tree, training, weight, folds, **options))
        chosen = chosen_by_rows(params, others, trees[0].depth)
        fitted = FittedTrees([each.ranker for each in trained], factors, chosen)
        top = calibrator = held_out = None
        if rows is not None:
            unseen = UnseenRows(others, folds, run)
            changes = [[unseen.scaled(layer) for layer in each.changes] for each in trained]
            top = fitted.rank_changed(unseen.features, changes, k, search_of(params, fitted), placed)
            top = answers_of(top, unseen.known)
            if n_texts:
                # of each label, the rows that are neither held out nor texts
                counts = np.bincount(labels.indices[: labels.indptr[n]], minlength=labels.shape[1])
                counts -= np.bincount(take_rows(labels, rows).indices, minlength=labels.shape[1])
                texts = np.arange(n, features.shape[0])
                top = unseen.answered(top, take_rows(labels, texts), features.take(texts), counts)
            right, row_weight = hits(top, take_rows(labels, rows)), None if weight is None else weight[rows]
            if params.calibration is not None:
                calibrator = Calibrator.fit(params.calibration, top, right, row_weight)
            if params.keep_rows:
                held_out = HeldOut.of(rows.astype(np.int64), top, right, row_weight)
    if params.keep_rows and not isinstance(features, RowParts):
        n, solutions = features.shape[0], [each.solutions for each in trained if each.solutions is not None]
        training_rows = TrainingRows(features, labels, weight, np.arange(n), n, length, solutions, held_out)
        fitted = replace(fitted, rows=training_rows)
    return Trained(fitted, calibrator, top)
