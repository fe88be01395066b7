"""What a trained XRLinear answers, and how it is saved."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK
from sylvan.arrays.validate import Csr
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.explain.paths import Candidates, search_layers, tree_votes
from sylvan.explain.records import Names, TreeVote
from sylvan.indexing import LabelTree
from sylvan.matching import beam as matching
from sylvan.metrics.rows import hits
from sylvan.models.base import CANDIDATES, MOST_ANSWERS
from sylvan.models.xr.params import AUTOS, XRParameters
from sylvan.models.xr.scaling import scaled
from sylvan.models.xr.training_rows import TrainingRows
from sylvan.parallel import resolve_jobs
from sylvan.ranking.calibrate import falling
from sylvan.ranking.ensemble import mean_score
from sylvan.ranking.tail import tail_of
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.weights.layer import ClusterWeights, WeightDtype

_Self = TypeVar("_Self", bound="XRAnswers")


class XRAnswers(XRParameters):
    """Base of XRLinear, once its trees are trained."""

    rankers_: list[TreeRanker]
    feature_factors_: npt.NDArray[np.float32] | None = None
    chosen_: Mapping[str, float] = MappingProxyType({})
    training_rows_: TrainingRows | None = None

    @property
    def tree_(self) -> LabelTree:
        """The first tree."""
        self._need_fit("tree_")
        return self.rankers_[0].tree

    @property
    def layers_(self) -> list[ClusterWeights]:
        """The weights of the first tree's layers."""
        self._need_fit("layers_")
        return self.rankers_[0].layers

    def rank(
        self, X: Any, k: int = 10, *, beam: int | None = None, tail: str | None = None, allowed: Any = None,
        denied: Any = None,
    ) -> TopK:  # fmt: skip
        """The ``k`` best labels of each row.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features_)
        k : int
            Number of labels per row; a row for which the beam reaches fewer ends in label -1.
        beam : int, optional
            Nodes followed per layer, instead of the model's own.
        tail : {"psp", "psp:A,B", "macro_recall", "none"}, optional
            Instead of the model's own: the best of at least 100 candidates by probability times the label's gain,
            for which see :func:`sylvan.ranking.tail.label_gains`.
        allowed, denied : label ids, or a mask of shape (n, n_labels_), optional
            The only labels that may be answered, and labels that may not, for all rows or for each row; see
            :class:`~sylvan.arrays.label_filter.LabelFilter` for the forms. The beam follows only nodes with such a
            label.

        Returns
        -------
        TopK
            Labels and scores of shape (n, k), best first; among equal scores the lower label comes first.

        Raises
        ------
        NotFittedError, DataError, ParameterError
        """
        self._need_fit("rank")
        k = validate.count(k, "k", high=max(self.n_labels_, MOST_ANSWERS))
        beam = validate.count(self.beam if beam is None else beam, "beam")
        if (tail := tail_of(self.tail, tail)) is not None:
            return self._rank_for_tail(X, k, tail, beam=beam, allowed=allowed, denied=denied)
        features = self._scaled(self._features(X), self.feature_factors_)
        labels = self._filter(allowed, denied, features.shape[0])
        jobs = 1 if features.shape[0] == 1 else resolve_jobs(self.n_jobs)
        if len(self.rankers_) == 1:
            return self._named(self._rank_tree(self.rankers_[0], features, k, beam, labels, jobs))
        deep = min(max(k, CANDIDATES), self.n_labels_)
        tops = [self._rank_tree(ranker, features, deep, beam, labels, jobs) for ranker in self.rankers_]
        return self._named(self._mean(tops, k))

    def _rank_changed(
        self, features: Csr, changes: Sequence[Sequence[matching.RowChanges | None]], k: int,
        without: Sequence[Csr] | None = None,
    ) -> TopK:  # fmt: skip
        """The best labels when scores change, tree by tree and layer by layer, with scores mapped into [0, 1].
        ``without`` has labels that a tree doesn't answer, row by row."""
        k, combines = min(k, self.n_labels_), self.per_layer("combine", self.tree_.depth)
        options: dict[str, Any] = {"beam": self.beam, "combines": combines, "n_jobs": resolve_jobs(self.n_jobs)}
        pairs = zip(self.rankers_, changes, strict=True)
        tops = [ranker.rank_changed(features, k, changed, **options) for ranker, changed in pairs]
        if without is not None:
            tops = [_without(top, labels) for top, labels in zip(tops, without, strict=True)]
        return self.bounded(tops[0] if len(tops) == 1 else self._mean(tops, k))

    def _mean(self, tops: Sequence[TopK], k: int) -> TopK:
        """The answers of all trees as one."""
        return mean_score([TopK(top.labels, self._bounded(top.scores)) for top in tops], k)

    def learned_rows(self, X: Any) -> npt.NDArray[np.bool_]:
        """Which rows are among those that the model has learned from and keeps (``keep_rows``), to be updated.

        Parameters
        ----------
        X : as in :meth:`rank`

        Returns
        -------
        ndarray of bool, shape (n,)
            Whether a row kept has the same features; False for all where none are kept, and for rows without features.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import XRLinear
        >>> model = XRLinear(keep_rows=True).fit(np.eye(4)[:3], [0, 1, 0])
        >>> model.learned_rows(np.eye(4)[::-1]).tolist()
        [False, True, True, True]
        """
        self._need_fit("learned_rows")
        features = self._scaled(self._features(X), self.feature_factors_)
        if self.training_rows_ is None:
            return np.zeros(features.shape[0], bool)
        return self.training_rows_.include(features)

    def _scaled(self, features: Csr, factors: npt.NDArray[np.float32] | None) -> Csr:
        return scaled(features, factors, self.normalize)

    def _rank_tree(
        self, ranker: TreeRanker, features: Csr, k: int, beam: int, labels: LabelFilter | None, jobs: int
    ) -> TopK:
        combines = self.per_layer("combine", ranker.tree.depth)
        return ranker.rank(features, k, beam=beam, combines=combines, labels=labels, n_jobs=jobs, description="Ranking")

    def _explain_trees(self, row: Csr, label: int, top: int, names: Names, **options: Any) -> tuple[TreeVote, ...]:
        beam = self.beam if options.get("beam") is None else options["beam"]
        combines = [self.per_layer("combine", ranker.tree.depth) for ranker in self.rankers_]
        bound = self._bounded if len(self.rankers_) > 1 else None
        scaled = self._scaled(row, self.feature_factors_)
        return tree_votes(self.rankers_, combines, scaled, label, beam, top, names, bound)

    def searched(self, x: Any, tree: int = 0, beam: int | None = None) -> list[Candidates]:
        """The nodes that the search for one row scores; see :meth:`Estimator.searched`."""
        self._need_fit("searched")
        row = validate.features(x, n_features=self.n_features_, owner=type(self).__name__)
        if row.shape[0] != 1:
            raise DataError(f"searched takes one row. Got {row.shape[0]} instead.")
        if not 0 <= tree < len(self.rankers_):
            raise ParameterError(f"The 'tree' of searched must be an int in [0, {len(self.rankers_) - 1}]. Got {tree}.")
        ranker, beam = self.rankers_[tree], validate.count(self.beam if beam is None else beam, "beam")
        combines = self.per_layer("combine", ranker.tree.depth)
        return search_layers(ranker, self._scaled(row, self.feature_factors_), beam, combines)

    def _probabilities(self, top: TopK) -> npt.NDArray[np.float32]:
        if len(self.rankers_) > 1:
            return np.clip(top.scores, 0, 1)
        bounded = self._bounded(top.scores)
        # Margins beyond 1 are all sure, and still in an order.
        return falling(bounded) if self.per_layer("combine", self.tree_.depth)[-1] == "ranker" else bounded

    def _bounded(self, scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The scores of one tree mapped into [0, 1]. For rankers' own scores this depends on the loss. Margins that
        training drives to 1 are distinguished by Eq. 13. Their sigmoids would be close together, so that a mean over
        several trees would hardly distinguish good labels."""
        combines = self.per_layer("combine", self.tree_.depth)
        if combines[-1] != "ranker":
            return np.clip(scores, 0, 1)
        if self.loss == "logistic":
            return (1 / (1 + np.exp(-np.clip(scores, -80, 80)))).astype(np.float32)
        return matching.hinge_measure(scores, matching.hinge_power(combines))

    def _with_weights(self: _Self, share: float, weight_dtype: WeightDtype | None) -> _Self:
        made, jobs = copy.copy(self), resolve_jobs(self.n_jobs)
        made.rankers_ = [ranker.pruned(share, weight_dtype, jobs) for ranker in self.rankers_]
        return made if weight_dtype is None else made.set_params(weight_dtype=weight_dtype)

    def _drop_labels(self, ids: npt.NDArray[np.int32]) -> None:
        if self.training_rows_ is not None:
            trees, by_relevance = [ranker.tree for ranker in self.rankers_], self.relevance not in (None, "none")
            self.training_rows_ = self.training_rows_.without_labels(ids, trees, by_relevance)
        self.rankers_ = [ranker.without(ids) for ranker in self.rankers_]
        self._note_dropped(ids)

    def weight_dtypes(self) -> set[str]:
        return {layer.weight_dtype for ranker in self.rankers_ for layer in ranker.layers}

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], dict[str, store.State]]:
        meta, arrays, parts = super()._fitted_state()
        parts |= {f"tree{number}": ranker.to_state() for number, ranker in enumerate(self.rankers_)}
        if self.feature_factors_ is not None:
            arrays["feature_factors"] = self.feature_factors_
        parts |= self._calibrator_to_parts()
        if self.training_rows_ is not None:
            parts["rows"] = self.training_rows_.to_state()
        meta |= {"n_trees": len(self.rankers_), **{f"{name}_": value for name, value in self.chosen_.items()}}
        return meta, arrays, parts

    def _restore(self, state: store.State) -> None:
        super()._restore(state)
        n_trees = store.need_int(state, "n_trees", 1, 1000)
        autos = [name for name in AUTOS if f"{name}_" in state.meta]
        chosen: dict[str, float] = {name: store.need_float(state, f"{name}_", 0) for name in autos}
        if "max_iterations" in chosen:
            chosen["max_iterations"] = store.need_int(state, "max_iterations_", 1, 2**31 - 1)
        self.chosen_ = chosen
        parts = [store.need_part(state, f"tree{number}", "tree-ranker") for number in range(n_trees)]
        self.rankers_ = [TreeRanker.from_state(part, self.n_features_) for part in parts]
        if "feature_factors" in state.arrays:
            factors = store.need_array(state, "feature_factors", np.float32, (self.n_features_,))
            store.need_finite(state, "feature_factors")
            self.feature_factors_ = factors
        self._calibrator_from_parts(state)
        if any(ranker.tree.n_labels != self.n_labels_ for ranker in self.rankers_):
            raise ModelError(f"{state.where!r} is damaged: its trees have different numbers of labels.")
        if any(not np.array_equal(ranker.tree.removed, self._removed) for ranker in self.rankers_):
            raise ModelError(f"{state.where!r} is damaged: its trees hold other labels than it has.")
        if "rows" in state.parts:
            part = store.need_part(state, "rows", "training-rows")
            self.training_rows_ = TrainingRows.from_state(part, self.rankers_, self.n_features_, self.n_labels_)
        for name in ("negatives", "combine"):
            for ranker in self.rankers_:
                self.per_layer(name, ranker.tree.depth)


def _without(top: TopK, labels: Csr) -> TopK:
    """Answers without some labels of each row; those behind them move up."""
    gone = hits(top, labels)
    order = np.argsort(gone, axis=1, kind="stable")
    kept = np.where(gone, np.int32(-1), top.labels), np.where(gone, np.float32(-np.inf), top.scores)
    return TopK(*(np.take_along_axis(each, order, axis=1) for each in kept))
