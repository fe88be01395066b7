"""One training of an XRLinear: its data, where it works, and what it takes."""

from __future__ import annotations

import copy
import os
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sylvan import validate
from sylvan.errors import DataError, ParameterError
from sylvan.indexing import LabelTree
from sylvan.indexing.choice import embed_labels
from sylvan.models.holdout import calibrated, folds_for
from sylvan.models.xr.plan import Phase, Plan, rankers_plan, timed
from sylvan.parallel import resolve_jobs
from sylvan.ranking import workspace
from sylvan.ranking.calibrate import Calibrator
from sylvan.ranking.training import train_rankers
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.ranking.workspace import Workspace
from sylvan.runtime.checkpoint import Checkpoint, identity_of
from sylvan.runtime.machine import available_bytes
from sylvan.runtime.memory import embedding_bytes
from sylvan.weights import ClusterWeights

if TYPE_CHECKING:
    from sylvan.models.xr.xr_linear import XRLinear

__all__ = ["XRTraining", "fit_below"]

# A training is planned, and perhaps refused, when its data take more than this share of the memory that there is: the
# rankers of smaller ones have never been seen to fill the rest.
LARGE = 1 / 16


class XRTraining:
    """A model's parameters and the data that it is to learn from, checked.

    Parameters
    ----------
    model : XRLinear
        Its parameters are what is trained; nothing of it changes.
    X, Y, sample_weight, label_features, label_embeddings
        As :meth:`sylvan.XRLinear.fit` takes them.
    """

    def __init__(
        self, model: XRLinear, X: Any, Y: Any, sample_weight: Any, label_features: Any, label_embeddings: Any
    ) -> None:
        model.check_params()
        self.model, self.jobs = model, resolve_jobs(model.n_jobs)
        features, self.labels, self.vocabulary = model._training_pair(X, Y)
        self.features = model._scaled(features)
        self.weight = validate.sample_weight(sample_weight, features.shape[0])
        self.known: dict[int, ClusterWeights] = {}  # layers that were learned elsewhere
        self.of_labels = {"label_features": label_features, "label_embeddings": label_embeddings}
        if self.labels.nnz == 0:
            raise DataError(f"Y has shape {self.labels.shape} but holds no label: there is nothing to learn.")
        if model.tree is not None and model.n_trees > 1:
            raise ParameterError(
                f"The 'n_trees' parameter of XRLinear must be 1 beside a given tree. Got {model.n_trees} instead."
            )

    def run(
        self, memory_limit: int | str | None, checkpoint: Checkpoint | str | os.PathLike[str] | None, force: bool
    ) -> tuple[list[TreeRanker], Calibrator | None]:
        """The rankers, and the calibrator if one was asked for; parameters as in :meth:`sylvan.XRLinear.fit`."""
        model, features, labels = self.model, self.features, self.labels
        with workspace.opened(memory_limit, checkpoint, self._identity, features.nbytes + labels.nbytes) as work:
            trees = self._trees(work)
            if memory_limit is None and not force:
                self._refuse_beyond_memory(trees)
            folds = folds_for(model.calibration, model.calibration_folds, features.shape[0], self.weight)
            found = [
                train_rankers(
                    features, labels, tree, model._training(tree.depth, seed, self.jobs), self.weight, folds,
                    work=work, prefix=f"tree{at}", known=self.known,
                )
                for at, (tree, seed) in enumerate(trees)
            ]  # fmt: skip
            rankers, *without = (list(each) for each in zip(*found, strict=True))
            blind = [copy.copy(model)._join(each, features, labels, None) for each in without]
            return rankers, calibrated(model.calibration, blind, folds, features, labels, self.weight)

    def plan(self) -> Plan:
        """What :meth:`run` will take."""
        with timed(self.jobs) as clock:
            trees = self._trees(Workspace())
        return self._plan(trees, Phase("tree" if len(trees) == 1 else "trees", clock.seconds, self._index_bytes()))

    def _plan(self, trees: list[tuple[LabelTree, int]], *before: Phase) -> Plan:
        model = self.model
        folds = 0 if model.calibration is None else model.calibration_folds
        return rankers_plan(model, self.features, self.labels, trees, self.weight, self.jobs, before, folds)

    def _index_bytes(self) -> int:
        """What clustering the labels holds at its worst."""
        if self.model.tree is not None or self.labels.shape[1] <= self.model.max_leaf:
            return 0
        lengths = np.diff(self.features.indptr)[np.repeat(np.arange(self.labels.shape[0]), np.diff(self.labels.indptr))]
        return embedding_bytes(self.labels.shape[1], int(lengths.sum()), self.labels.nnz)

    def _refuse_beyond_memory(self, trees: list[tuple[LabelTree, int]]) -> None:
        """Raise a MemoryLimitError before hours of work rather than be killed after them."""
        available = available_bytes()
        if available is not None and self.features.nbytes + self.labels.nbytes > LARGE * available:
            self._plan(trees).check()

    def _identity(self) -> dict[str, Any]:
        """What tells this training from others, for its checkpoint."""
        model = self.model
        parameters = {name: value for name, value in model.get_params(deep=False).items() if name != "n_jobs"}
        return identity_of(
            type(model).__name__, parameters, X=self.features, Y=self.labels, sample_weight=self.weight,
            **self.of_labels,
        )  # fmt: skip

    def _trees(self, work: Workspace) -> list[tuple[LabelTree, int]]:
        """Phase 1: the trees, all before any ranker, so that the embeddings needn't be kept; and each one's seed."""
        model, features, labels = self.model, self.features, self.labels
        first = int(model.seed)  # a NumPy integer would overflow below
        seeds = [(first + number * 1_000_003) % 2**31 for number in range(model.n_trees)]
        if model.tree is not None:
            if model.tree.n_labels != labels.shape[1]:
                raise DataError(f"The tree has {model.tree.n_labels} labels, but Y has shape {labels.shape}.")
            return [(model.tree, seed) for seed in seeds]
        if labels.shape[1] <= model.max_leaf:
            return [(LabelTree.flat(labels.shape[1]), seed) for seed in seeds]

        @cache
        def embeddings() -> Any:
            return embed_labels(
                features, labels, model.embedding, alpha=model.alpha, seed=model.seed, n_jobs=self.jobs,
                zeros=work.zeros_once, **self.of_labels,
            )  # fmt: skip

        def build(seed: int) -> LabelTree:
            return LabelTree.build(
                embeddings(), model.branching, model.max_leaf, clustering=model.clustering, overlap=model.overlap,
                seed=seed, n_jobs=self.jobs,
            )  # fmt: skip

        return [(work.tree(f"tree{at}.tree", partial(build, seed)), seed) for at, seed in enumerate(seeds)]


def fit_below(
    model: XRLinear, X: Any, Y: Any, sample_weight: Any, known: dict[int, ClusterWeights],
    checkpoint: Checkpoint | None, force: bool,
) -> XRLinear:  # fmt: skip
    """Fit a model with a tree of its own whose layers ``known`` are learned already; the others below them."""
    training = XRTraining(model, X, Y, sample_weight, None, None)
    training.known = known
    rankers, calibrator = training.run(None, checkpoint, force)
    return model._join(rankers, training.features, training.labels, calibrator)
