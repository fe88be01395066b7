"""XRLinear: a tree of linear rankers, trained layer by layer and searched by beam (PECOS Algorithm 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sylvan import indexing, store, validate
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.indexing import LabelTree
from sylvan.matching import beam as matching
from sylvan.matching.negatives import NEGATIVES, cluster_rows, layer_positives
from sylvan.models.base import Estimator
from sylvan.parallel import map_parallel, resolve_jobs
from sylvan.params import Choice, Constraint, Instance, Jobs, Number, PerLayer
from sylvan.ranking.linear import LOSSES, LayerProblem, LinearOptions, solve_layers
from sylvan.topk import TopK
from sylvan.validate import Csr
from sylvan.weights import WEIGHT_DTYPES, ClusterRows, ClusterWeights

__all__ = ["XRLinear"]

EMBEDDINGS = ("pifa", "pii", "pifa_lf", "spectral")
# What the paper settles on (Section 3, "Choice of Negative Sampling Schemes and Transform functions"): for the
# layers above the last, and for the last.
PAPER = {"negatives": ("tfn", "tfn+man"), "combine": ("l3_hinge", "ranker")}
KIND = "xr-linear"
MOST_ANSWERS = 1_000_000  # k beyond the number of labels only pads; what pads a gigabyte a row is a slip


class XRLinear(Estimator):
    """Extreme multilabel ranking with a tree of linear models.

    Labels are clustered into a balanced tree; a linear model for each node, trained on the rows that reach its
    parent, says whether to go on there; ``rank`` follows the best few nodes of each layer down to the labels.

    Parameters
    ----------
    branching : int, default 16
        Most children of an inner node.
    max_leaf : int, default 100
        Most labels of a cluster, the nodes above the labels. With at least as many as there are labels the tree
        has one layer: plain one-versus-rest.
    beam : int, default 10
        Nodes followed per layer when ranking (and for ``"man"`` negatives).
    negatives : {"tfn", "man", "tfn+man", "paper"} or list of them, default "tfn"
        Which rows a cluster's models see: those with a label below it (teacher forcing), those whose beam reached
        it (matcher-aware), or both; one word for all layers or one a layer. ``"paper"`` takes both in the last
        layer and ``"tfn"`` above it: slower to train, and better where rows have several labels that were seen
        often; the default is the fastest and never far behind (docs/results.md has the figures).
    loss : {"squared_hinge", "hinge", "logistic"}, default "squared_hinge"
    cost, positive_cost, negative_cost : float, default 1.0
        Factor of the losses beside half the squared norm of the weights, and of the positive and negative ones.
    bias : float, default 1.0
        Value of a constant feature; 0 for none.
    tolerance : float, default 0.1
        A model is done when its largest violation of optimality falls below it.
    max_iterations : int, default 10
        Most passes over a cluster's rows.
    threshold : float, default 0.1
        Weights smaller in magnitude are dropped.
    max_weights_per_label : int, optional
        Keep only so many weights of each node, the largest.
    weight_dtype : {"uint8", "float16", "float32"}, default "uint8"
        How weights are stored; ``"uint8"`` rounds a weight to the nearest of 128 magnitudes of equal ratio.
    combine : {"l3_hinge", "ranker", "sigmoid", "paper"} or list of them, default "l3_hinge"
        How a node's score joins those above it: times exp(-max(0, 1 - s)^3) (Eq. 13), the node's own score alone
        (Eq. 12), or times its sigmoid; ``"paper"`` takes Eq. 13 in all layers but the last, and Eq. 12 there.
    embedding : {"pifa", "pii", "pifa_lf", "spectral"}, default "pifa"
        What labels are clustered by; see :mod:`sylvan.indexing`.
    clustering : {"spherical", "kmeans", "random"}, default "spherical"
    overlap : int, default 1
        Most clusters that a label may stand in; the best of its places counts when ranking.
    alpha : float in [0, 1], default 0.5
        Share of the instances' features beside the label's own, with ``embedding="pifa_lf"``.
    tree : LabelTree, optional
        A tree made beforehand; the parameters of the index are then not used.
    n_jobs : int, optional
        Threads; None or -1 for every core. The answer doesn't depend on it.
    seed : int, default 0

    Attributes
    ----------
    tree_ : LabelTree
    layers_ : list of ClusterWeights
        The weights of each layer of the tree.
    n_features_, n_labels_, n_rows_ : int
        Sizes seen in ``fit``.
    label_counts_ : ndarray of int64, shape (n_labels_,)
        Training rows of each label, for propensities.

    Notes
    -----
    Yu, Zhong, Zhang, Chang & Dhillon (2022), "PECOS: Prediction for Enormous and Correlated Output Spaces",
    Sections 2.1-2.5 and Algorithm 2. Training costs about rows x entries a row x children / 16 x passes for each
    cluster; ranking one row about beam x entries of the row x layers lookups.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import XRLinear
    >>> X = np.eye(4, dtype=np.float32).repeat(5, axis=0)
    >>> model = XRLinear().fit(X, np.arange(4).repeat(5))
    >>> model.rank(X[[0, 7]], k=1).labels.ravel().tolist()
    [0, 1]
    """

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
        "tree": Instance((LabelTree,), "a LabelTree", optional=True),
        "n_jobs": Jobs(optional=True),
        "seed": Number(int, 0, 2**31 - 1),
    }

    tree_: LabelTree
    layers_: list[ClusterWeights]
    n_rows_: int
    label_counts_: npt.NDArray[np.int64]

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
        tree: LabelTree | None = None,
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
        self.tree = tree
        self.n_jobs = n_jobs
        self.seed = seed

    def fit(
        self,
        X: Any,
        Y: Any,
        sample_weight: Any = None,
        *,
        label_features: Any = None,
        label_embeddings: Any = None,
    ) -> XRLinear:
        """Build the tree and train its rankers.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        Y : label matrix of shape (n, L), lists of label ids, or one class id a row
            Values other than 1 are relevances: the cost of the positive.
        sample_weight : array of shape (n,), optional
            Factor of each row's costs.
        label_features : sparse matrix or array of shape (L, d), optional
            For ``embedding="pifa_lf"``, in the feature space of X.
        label_embeddings : sparse matrix or array of shape (L, m), optional
            Embeddings to cluster the labels by, instead of ``embedding``.

        Raises
        ------
        DataError
            When an array is malformed, or the arrays' shapes don't agree.
        ParameterError
            When a parameter is out of its range.
        """
        self.check_params()
        jobs = resolve_jobs(self.n_jobs)
        features, labels = validate.pair(X, Y, owner=type(self).__name__)
        weight = validate.sample_weight(sample_weight, features.shape[0])
        if labels.nnz == 0:
            raise DataError(f"Y has shape {labels.shape} but holds no label: there is nothing to learn.")
        tree = self._make_tree(features, labels, label_features, label_embeddings, jobs)
        layers = self._train(features, labels, tree, weight, jobs)
        self.tree_, self.layers_ = tree, layers
        self.n_rows_, self.n_features_ = features.shape
        self.label_counts_ = np.bincount(labels.indices, minlength=labels.shape[1]).astype(np.int64)
        self.n_labels_ = labels.shape[1]
        return self

    def _make_tree(
        self, features: Csr, labels: Csr, label_features: Any, label_embeddings: Any, jobs: int
    ) -> LabelTree:
        """Phase 1: label embeddings, then the tree."""
        n_labels = labels.shape[1]
        if self.tree is not None:
            if self.tree.n_labels != n_labels:
                raise DataError(f"The tree has {self.tree.n_labels} labels, but Y has shape {labels.shape}.")
            return self.tree
        if n_labels <= self.max_leaf:
            return LabelTree.flat(n_labels)
        if label_embeddings is not None:
            embeddings: Any = _of_labels(label_embeddings, "label_embeddings", labels)
        elif self.embedding == "pifa_lf":
            if label_features is None:
                raise DataError(
                    "embedding='pifa_lf' needs label_features, a matrix of shape (n_labels, n_features) in the "
                    "feature space of X."
                )
            own = _of_labels(label_features, "label_features", labels)
            embeddings = indexing.pifa_lf(features, labels, own, alpha=self.alpha)
        elif self.embedding == "spectral":
            embeddings = indexing.spectral(labels, seed=self.seed)
        elif self.embedding == "pii":
            embeddings = indexing.pii(labels)
        else:
            embeddings = indexing.pifa(features, labels, n_jobs=jobs)
        return LabelTree.build(
            embeddings, self.branching, self.max_leaf, clustering=self.clustering, overlap=self.overlap,
            seed=self.seed, n_jobs=jobs,
        )  # fmt: skip

    def _train(
        self,
        features: Csr,
        labels: Csr,
        tree: LabelTree,
        sample_weight: npt.NDArray[np.float32] | None,
        jobs: int,
    ) -> list[ClusterWeights]:
        """Phases 2 and 3: each layer's rows, then its rankers (Algorithm 2, lines 2-7)."""
        negatives = self._per_layer("negatives", tree.depth)
        combines = self._per_layer("combine", tree.depth)
        options = self._options()
        weighted = bool((labels.data != 1).any())
        positives = layer_positives(tree, labels)

        def problem(t: int, nodes: npt.NDArray[np.int32] | None) -> LayerProblem:
            offsets = tree.child_offsets[t]
            above = positives[t - 1] if t else None
            rows = cluster_rows(negatives[t], above, nodes, len(offsets) - 1, features.shape[0])
            return LayerProblem(offsets, positives[t], *rows, weighted=weighted)

        def lay_out(t: int, clusters: list[ClusterRows]) -> ClusterWeights:
            return ClusterWeights.from_clusters(clusters, tree.child_offsets[t], features.shape[1], self.weight_dtype)

        if all(scheme == "tfn" for scheme in negatives[1:]):  # every layer's rows are known beforehand
            solved = solve_layers(
                features, [problem(t, None) for t in range(tree.depth)], options,
                sample_weight=sample_weight, n_jobs=jobs, description="Training",
            )  # fmt: skip
            return map_parallel(lambda t: lay_out(t, solved[t]), range(tree.depth), jobs)
        layers: list[ClusterWeights] = []
        above = matching.root_beam(features.shape[0])
        for t in range(tree.depth):
            if t:
                above = matching.next_beam(features, layers[-1], above, self.beam, combines[t - 1], jobs)
            solved = solve_layers(
                features, [problem(t, above[0])], options, sample_weight=sample_weight, first_layer=t,
                n_jobs=jobs, description=f"Training layer {t + 1} of {tree.depth}",
            )  # fmt: skip
            layers.append(lay_out(t, solved[0]))
        return layers

    def _options(self) -> LinearOptions:
        names = (
            "loss", "cost", "positive_cost", "negative_cost", "bias", "tolerance", "max_iterations", "threshold",
            "max_weights_per_label", "seed",
        )  # fmt: skip
        return LinearOptions(**{name: getattr(self, name) for name in names})

    def _per_layer(self, name: str, depth: int) -> list[str]:
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
        return [(last if t == depth - 1 else above) if word == "paper" else word for t, word in enumerate(words)]

    def rank(self, X: Any, k: int = 10, *, beam: int | None = None) -> TopK:
        """The ``k`` best labels of each row.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features_)
        k : int
            Labels a row; a row for which the beam reaches fewer ends in label -1.
        beam : int, optional
            Nodes followed per layer, instead of the model's own.

        Returns
        -------
        TopK
            Labels and scores of shape (n, k), best first, lower label first among equals.

        Raises
        ------
        NotFittedError, DataError, ParameterError
        """
        self._need_fit("rank")
        k = validate.count(k, "k", high=max(self.n_labels_, MOST_ANSWERS))
        beam = self.beam if beam is None else beam
        beam = validate.count(beam, "beam")
        features = validate.features(X, n_features=self.n_features_, owner="XRLinear")
        return matching.rank(
            features, self.layers_, self.tree_.leaf_labels, k=k, beam=beam,
            combines=self._per_layer("combine", self.tree_.depth), n_copies=self.tree_.most_copies,
            n_jobs=1 if features.shape[0] == 1 else resolve_jobs(self.n_jobs), description="Ranking",
        )  # fmt: skip

    def _probabilities(self, top: TopK) -> npt.NDArray[np.float32]:
        if self._per_layer("combine", self.tree_.depth)[-1] == "ranker":
            return (1 / (1 + np.exp(-np.clip(top.scores, -80, 80)))).astype(np.float32)
        return np.clip(top.scores, 0, 1)

    def to_state(self) -> store.State:
        """The fitted model as plain values and arrays; a tree given as a parameter is kept as ``tree_``."""
        self._need_fit("to_state")
        params = {name: value for name, value in self.get_params(deep=False).items() if name != "tree"}
        arrays: dict[str, Any] = {"label_counts": self.label_counts_}
        for t, weights in enumerate(self.layers_):
            arrays.update(weights.to_arrays(f"layer{t}"))
        meta = {
            "n_features": self.n_features_,
            "n_rows": self.n_rows_,
            "block_bits": [weights.block_bits for weights in self.layers_],
        }
        return store.State(KIND, 1, params, meta, arrays, {"tree": self.tree_.to_state()})

    @classmethod
    def from_state(cls, state: store.State) -> XRLinear:
        """A model from what :meth:`to_state` gave.

        Raises
        ------
        ModelError
            When something is missing, of the wrong kind or inconsistent.
        """
        store.need_kind(state, KIND)
        names = [name for name in cls.parameter_names() if name != "tree"]
        model = cls(**store.need_params(state, names))
        model.check_params()
        resolve_jobs(model.n_jobs)
        tree = LabelTree.from_state(store.need_part(state, "tree", "label-tree"))
        n_features = store.need_int(state, "n_features", 0, validate.MAX_COLUMNS)
        bits = state.meta.get("block_bits")
        if (
            not isinstance(bits, list)
            or len(bits) != tree.depth
            or not all(type(b) is int and 0 <= b <= 16 for b in bits)
        ):
            raise ModelError(
                f"{state.where!r} is damaged: in manifest.json, 'block_bits' must be {tree.depth} ints in [0, 16]. "
                f"Got {bits!r} instead."
            )
        model.tree_ = tree
        model.layers_ = [
            ClusterWeights.from_arrays(state, f"layer{t}", tree.child_offsets[t], n_features, bits[t])
            for t in range(tree.depth)
        ]
        model.n_rows_ = store.need_int(state, "n_rows", 0)
        model.label_counts_ = store.need_array(state, "label_counts", np.int64, (tree.n_labels,))
        model.n_features_ = n_features
        model.n_labels_ = tree.n_labels
        for name in ("negatives", "combine"):
            model._per_layer(name, tree.depth)
        return model


def _of_labels(matrix: Any, name: str, labels: Csr) -> Csr:
    """A matrix with one row a label."""
    rows = validate.features(matrix, name=name)
    if rows.shape[0] != labels.shape[1]:
        raise DataError(
            f"{name} has shape {rows.shape}, but Y has shape {labels.shape}: one row a label is needed."
        )
    return rows


store.register(KIND, XRLinear.from_state)
