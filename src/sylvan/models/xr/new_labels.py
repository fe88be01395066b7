"""XRLinear without its rows: new labels are learned from theirs alone, and what it knows stays as it is."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from sylvan.arrays.canonical import Csr
from sylvan.data import Vocabulary
from sylvan.errors import DataError, RowsUnknownWarning, UnsupportedError
from sylvan.indexing import LabelTree
from sylvan.models.base import GivenRows
from sylvan.models.xr.added_labels import NewRows, add_labels, added_label_jobs
from sylvan.models.xr.changes import clusters_for
from sylvan.models.xr.fitted import XRAnswers
from sylvan.models.xr.growth import Grown
from sylvan.models.xr.scaling import Scale
from sylvan.ranking.training import TreeTraining
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.runtime import Job, Runner
from sylvan.runtime.memory import resident_bytes
from sylvan.runtime.plan import UpdatePlan, timed

_Self = TypeVar("_Self", bound="XRNewLabels")


class XRNewLabels(XRAnswers):
    """Base of XRLinear, for new labels of a model that keeps no rows."""

    def _with_new_labels(
        self: _Self, X: Any, Y: Any, sample_weight: Any, asked: Mapping[str, Any], n_features: Any
    ) -> _Self:
        """A copy that has learned the new labels of some rows."""
        made, given, vocabulary = self._labels_asked(X, Y, sample_weight, asked, n_features)
        run, rankers = Runner(made.n_jobs), []
        for at, ranker in enumerate(made.rankers_):
            grown, rows, training = made._extended(at, ranker, given, run)
            rankers.append(add_labels(ranker, grown, rows, training, run))
        new = np.bincount(given.labels.indices, minlength=given.n_labels)[self.n_labels_ :].astype(np.int64)
        n_known = int((self.label_counts_ > 0).sum())
        made.rankers_, made.n_labels_ = rankers, given.n_labels
        made.n_rows_ = self.n_rows_ + given.features.shape[0]
        made.label_counts_ = np.concatenate((self.label_counts_, new))
        made.__dict__.pop("_gains", None)
        if vocabulary is not None:
            made.vocabulary_ = vocabulary
        warnings.warn(
            f"This {type(self).__name__} keeps no rows: known labels ({n_known:,}) learn nothing from the new rows "
            f"({given.features.shape[0]:,}), and new labels ({len(new):,}) are learned without the rows of the others "
            "and answered too often. With keep_rows=True, or rows=(X, Y), all are brought up to date.",
            RowsUnknownWarning, stacklevel=4,
        )  # fmt: skip
        return made

    def _plan_of_new_labels(
        self, X: Any, Y: Any, sample_weight: Any, asked: Mapping[str, Any], n_features: Any
    ) -> UpdatePlan:
        """What :meth:`_with_new_labels` would take."""
        made, given, _ = self._labels_asked(X, Y, sample_weight, asked, n_features)
        run, now = Runner(made.n_jobs), resident_bytes()
        with timed(run.n_jobs) as clock:
            jobs: list[Job[Any]] = []
            nodes = []
            for at, ranker in enumerate(made.rankers_):
                grown, rows, training = made._extended(at, ranker, given, run)
                jobs += added_label_jobs(ranker, grown, rows, training, run)[1]
                nodes.append([0] * (ranker.tree.depth - 1) + [given.n_labels - self.n_labels_])
        return UpdatePlan.of(nodes, jobs, clock.seconds, max(0, resident_bytes() - now), run.n_jobs)

    def _labels_asked(
        self: _Self, X: Any, Y: Any, sample_weight: Any, asked: Mapping[str, Any], n_features: Any
    ) -> tuple[_Self, GivenRows, Vocabulary | None]:
        """A shallow copy to work on, the new rows, and the names of labels then."""
        self.check_params()
        owner, way = type(self).__name__, "train it with keep_rows=True, or give them again, as rows=(X, Y)."
        if any(value is not None for value in asked.values()):
            what = " and ".join(f"{name}=…" for name, value in asked.items() if value is not None)
            raise UnsupportedError(f"This {owner} keeps no rows, which {what} needs: {way}")
        if X is None or Y is None:
            raise DataError(f"This {owner} keeps no rows: all that it can learn is new labels. Give X and Y.")
        made = self._shallow()
        if n_features is not None:
            made._widen(n_features)
        given, vocabulary = made._scaled_rows(X, Y, sample_weight)
        fresh = given.labels.indices >= self.n_labels_
        row = np.repeat(np.arange(given.labels.shape[0]), np.diff(given.labels.indptr))
        without = np.flatnonzero(np.bincount(row[fresh], minlength=given.labels.shape[0]) == 0)
        if len(without):
            raise UnsupportedError(
                f"This {owner} keeps no rows, and what it has learned of a label can't be brought up to date without "
                f"them: each new row must have a new label, but row {without[0]} has none. Leave such rows out, or "
                f"{way}"
            )
        return made, given, vocabulary

    def _extended(
        self, at: int, ranker: TreeRanker, given: GivenRows, run: Runner
    ) -> tuple[Grown, NewRows, TreeTraining]:
        """A tree with the new labels, the rows that they are learned from, and how."""
        length = 1.0 if self.scaling == "none" else Scale.of(given.features, False).length
        training = self._training_as_before(ranker.tree, at, given.features, length)
        counts = np.maximum(self.label_counts_, 1)  # an imported model hasn't any
        n_rows = np.add.reduceat(counts[ranker.tree.leaf_labels], ranker.tree.child_offsets[-1][:-1])
        added = (given.features, given.labels, given.n_labels)
        grown = Grown.same(ranker.tree).with_labels(clusters_for(ranker, *added, training, n_rows, self.max_leaf, run))
        rows = NewRows(given.features, given.labels, given.weight, length, counts.astype(np.float32))
        return grown, rows, training

    # ---------------------------------------- what updates with rows have in common with these

    def _scaled_rows(self, X: Any, Y: Any, sample_weight: Any) -> tuple[GivenRows, Vocabulary | None]:
        """As :meth:`_given_rows`, with the rows as the rankers see them."""
        given, vocabulary = self._given_rows(X, Y, sample_weight)
        return given._replace(features=self._scaled(given.features, self.feature_factors_)), vocabulary

    def _widen(self, n_features: Any) -> None:
        """Have more columns from now on; called of a copy."""
        n_features = self._more_features(n_features)
        if self.feature_factors_ is not None:
            ones = np.ones(n_features - self.n_features_, np.float32)
            self.feature_factors_ = np.concatenate((self.feature_factors_, ones))
        self.n_features_ = n_features
        self.__dict__.pop("feature_names_in_", None)

    def _training_as_before(self, tree: LabelTree, at: int, features: Csr, length: float) -> TreeTraining:
        """How a tree was trained: what was "auto" is what the first rows made of it."""
        training = self.tree_training(tree.depth, self.seeds()[at], features, 1.0)
        chosen: dict[str, Any] = {name: self.chosen_[name] for name in self.chosen_ if getattr(self, name) == "auto"}
        linear = dataclasses.replace(training.linear, **chosen).for_rows_of(length)
        return dataclasses.replace(training, linear=linear)
