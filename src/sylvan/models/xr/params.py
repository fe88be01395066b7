"""The parameters of XR-Linear, and what follows from them alone: its index, and how each layer is trained."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np

from sylvan import validate
from sylvan.errors import DataError, ParameterError
from sylvan.indexing import LabelTree
from sylvan.indexing.choice import EMBEDDINGS, embed_labels
from sylvan.indexing.embeddings import embedding_bytes
from sylvan.indexing.tree import TREE
from sylvan.matching import beam as matching
from sylvan.matching.negatives import NEGATIVES
from sylvan.models.base import Estimator
from sylvan.params import Choice, Constraint, Flag, Instance, Jobs, Number, PerLayer
from sylvan.ranking.calibrate import METHODS
from sylvan.ranking.linear import LOSSES, LinearOptions
from sylvan.ranking.tail import Tail
from sylvan.ranking.training import TreeTraining
from sylvan.runtime import Job, Once, Runner
from sylvan.validate import Csr
from sylvan.weights import WEIGHT_DTYPES

__all__ = ["XRParameters"]

# What the paper settles on (Section 3, "Choice of Negative Sampling Schemes and Transform functions"): for the
# layers above the last, and for the last.
PAPER = {"negatives": ("tfn", "tfn+man"), "combine": ("l3_hinge", "ranker")}


class XRParameters(Estimator):
    """Base of XRLinear, whose documentation describes each parameter."""

    constraints: ClassVar[Mapping[str, Constraint]] = {
        "branching": Number(int, 2),
        "max_leaf": Number(int, 1),
        "beam": Number(int, 1, validate.MAX_COLUMNS),
        "negatives": PerLayer((*NEGATIVES, "paper")),
        "loss": Choice(tuple(LOSSES)),
        "cost": Number(float, 0, open_low=True),
        "positive_cost": Number(float, 0, open_low=True),
        "negative_cost": Number(float, 0, open_low=True),
        "bias": Number(float, 0),
        "normalize": Flag(),
        "tolerance": Number(float, 0, open_low=True),
        "max_iterations": Number(int, 1, 2**31 - 1),
        "threshold": Number(float, 0),
        "max_weights_per_label": Number(int, 1, optional=True),
        "weight_dtype": Choice(WEIGHT_DTYPES),
        "combine": PerLayer((*matching.COMBINES, "paper")),
        "embedding": Choice(EMBEDDINGS),
        "clustering": Choice(("spherical", "kmeans", "random")),
        "overlap": Number(int, 1),
        "alpha": Number(float, 0, 1),
        "n_trees": Number(int, 1, 1000),
        "tree": Instance((LabelTree,), "a LabelTree", optional=True),
        "calibration": Choice(METHODS, optional=True),
        "calibration_folds": Number(int, 1, 100),
        "tail": Tail(),
        "n_jobs": Jobs(optional=True),
        "seed": Number(int, 0, 2**31 - 1),
    }

    def __init__(
        self,
        branching: int = 16,
        max_leaf: int = 100,
        beam: int = 10,
        negatives: str | list[str] = "tfn",
        loss: str = "squared_hinge",
        cost: float = 1.0,
        positive_cost: float = 1.0,
        negative_cost: float = 1.0,
        bias: float = 1.0,
        normalize: bool = False,
        tolerance: float = 0.1,
        max_iterations: int = 10,
        threshold: float = 0.1,
        max_weights_per_label: int | None = None,
        weight_dtype: str = "uint8",
        combine: str | list[str] = "l3_hinge",
        embedding: str = "pifa",
        clustering: str = "spherical",
        overlap: int = 1,
        alpha: float = 0.5,
        n_trees: int = 1,
        tree: LabelTree | None = None,
        calibration: str | None = None,
        calibration_folds: int = 1,
        tail: str | None = None,
        n_jobs: int | None = None,
        seed: int = 0,
    ) -> None:
        self.branching = branching
        self.max_leaf = max_leaf
        self.beam = beam
        self.negatives = negatives
        self.loss = loss
        self.cost = cost
        self.positive_cost = positive_cost
        self.negative_cost = negative_cost
        self.bias = bias
        self.normalize = normalize
        self.tolerance = tolerance
        self.max_iterations = max_iterations
        self.threshold = threshold
        self.max_weights_per_label = max_weights_per_label
        self.weight_dtype = weight_dtype
        self.combine = combine
        self.embedding = embedding
        self.clustering = clustering
        self.overlap = overlap
        self.alpha = alpha
        self.n_trees = n_trees
        self.tree = tree
        self.calibration = calibration
        self.calibration_folds = calibration_folds
        self.tail = tail
        self.n_jobs = n_jobs
        self.seed = seed

    def tree_training(self, depth: int, seed: int) -> TreeTraining:
        """How the rankers of one tree are trained."""
        names = (
            "loss", "cost", "positive_cost", "negative_cost", "bias", "tolerance", "max_iterations", "threshold",
            "max_weights_per_label",
        )  # fmt: skip
        linear = LinearOptions(**{name: getattr(self, name) for name in names}, seed=seed)
        return TreeTraining(
            self.per_layer("negatives", depth), self.per_layer("combine", depth), self.beam, linear,
            self.weight_dtype,
        )  # fmt: skip

    def per_layer(self, name: str, depth: int) -> list[str]:
        """A parameter that is one word or one a layer, as one a layer."""
        value = getattr(self, name)
        if isinstance(value, str):
            words = [value] * depth
        elif len(value) == depth:
            words = list(value)
        else:
            raise ParameterError(
                f"The {name!r} parameter of XRLinear names {len(value)} layers, but the tree has {depth}."
            )
        above, last = PAPER[name]
        words = [(last if t == depth - 1 else above) if word == "paper" else word for t, word in enumerate(words)]
        if name == "combine":
            matching.hinge_power(words)
        return words

    def seeds(self) -> list[int]:
        """The seed of each tree."""
        return [(int(self.seed) + number * 1_000_003) % 2**31 for number in range(self.n_trees)]

    def build_trees(
        self, features: Csr, labels: Csr, run: Runner, label_features: Any = None, label_embeddings: Any = None
    ) -> list[LabelTree]:
        """Phase 1: the trees, all before any ranker, so that the embeddings needn't stay."""
        if self.tree is not None:
            if self.tree.n_labels != labels.shape[1]:
                raise DataError(f"The tree has {self.tree.n_labels} labels, but Y has shape {labels.shape}.")
            return [self.tree]
        if labels.shape[1] <= self.max_leaf:
            return [LabelTree.flat(labels.shape[1])] * self.n_trees

        given = {
            "features": features, "labels": labels, "embedding": self.embedding, "alpha": self.alpha,
            "seed": self.seed, "n_jobs": run.n_jobs, "zeros": partial(run.zeros, brief=True),
            "label_features": label_features, "label_embeddings": label_embeddings,
        }  # fmt: skip
        shape = {
            "embeddings": Once(Job("embeddings", embed_labels, given)), "branching": self.branching,
            "max_leaf": self.max_leaf, "clustering": self.clustering, "overlap": self.overlap, "n_jobs": run.n_jobs,
        }  # fmt: skip
        jobs = [
            Job(f"tree{at}.tree", LabelTree.build, {**shape, "seed": seed}, packing=TREE)
            for at, seed in enumerate(self.seeds())
        ]
        return [run.one(job) for job in jobs]

    def index_bytes(self, features: Csr, labels: Csr) -> int:
        """What clustering the labels takes at its worst."""
        if self.tree is not None or labels.shape[1] <= self.max_leaf:
            return 0
        lengths = np.diff(features.indptr)[np.repeat(np.arange(labels.shape[0]), np.diff(labels.indptr))]
        return embedding_bytes(labels.shape[1], int(lengths.sum()), labels.nnz)
