"""XRLinear: a tree of linear rankers, trained layer by layer and searched by beam (PECOS Algorithm 2)."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.topk import TopK
from sylvan.arrays.validate import Csr
from sylvan.data import RowParts, Vocabulary
from sylvan.data.parts.row_parts import Rows
from sylvan.errors import DataError, ModelError, ParameterError, RowsUnknownWarning, UnsupportedError
from sylvan.explain.explanation import Names, TreeVote
from sylvan.explain.paths import Candidates, search_layers, tree_votes
from sylvan.indexing import LabelTree
from sylvan.indexing.clustering import Clustering
from sylvan.indexing.embeddings import Embedding
from sylvan.labels.targets import Targets, one_class_a_row
from sylvan.matching import beam as matching
from sylvan.models.base import CANDIDATES, MOST_ANSWERS, Estimator, has_new_rows
from sylvan.models.compress import compressed_model, pruned_model
from sylvan.models.label_changes import rows_by_id
from sylvan.models.xr.added_labels import planned_labels, with_new_labels
from sylvan.models.xr.changed_layer import saved_by_rebuilding
from sylvan.models.xr.estimate import TrainingSize, training_plan
from sylvan.models.xr.fitted import FittedTrees, search_of, train
from sylvan.models.xr.params import Scheme, TrainingData, build_trees, layer_words, scaled
from sylvan.models.xr.presets import PRESETS, Preset
from sylvan.models.xr.training_rows import HeldOut, TrainingRows
from sylvan.models.xr.updates import Changes, planned, rows_again, updated
from sylvan.parallel import all_at_once, of_one_state, resolve_jobs
from sylvan.params.fields import Choice, PerLabel, PerLayer, Range, Seed, Threads, attribute, check_value, parameterized
from sylvan.params.wording import counted
from sylvan.ranking.calibrate import DEPTH, Method, crosswise, holdout_folds
from sylvan.ranking.linear import LinearOptions, Loss
from sylvan.ranking.tail import Tail, tail_of
from sylvan.ranking.training import Cost
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.runtime import Checkpoint, Runner
from sylvan.runtime.memory import resident_bytes
from sylvan.runtime.plan import Plan, UpdatePlan, timed
from sylvan.weights.layer import LayerWeights, WeightDtype

_Self = TypeVar("_Self", bound="XRLinear")


@parameterized
class XRLinear(Estimator):
    """Extreme multilabel ranking with a tree of linear models.

    Labels are clustered into a balanced tree. Each node has a linear model, trained on the rows that reach its parent.
    ``rank`` follows the best few nodes of each layer down to the labels.

    Parameters
    ----------
    branching : int, default 16
        Maximum number of children of an inner node.
    max_leaf : int, default 100
        Maximum number of labels in a cluster (a node just above the labels). If it is at least the number of labels,
        the tree has one layer: plain one-versus-rest.
    beam : int, default 10
        Nodes followed per layer when ranking (and for ``"man"`` negatives).
    negatives : {"tfn", "man", "tfn+man", "paper"} or list of them, default "paper"
        Which rows a cluster is trained on: rows with a label in it (teacher forcing), rows whose beam search reached it
        (matcher-aware), or both; one for all layers, or a list with one per layer. ``"paper"`` takes both in the last
        layer and ``"tfn"`` above. ``"tfn"`` for all layers is the fastest (docs/results has the figures).
    man_threshold : float in [0, 1], default 0.005
        Of the clusters that a row's beam search reached, those count whose score is at least this share of the best.
    loss : {"squared_hinge", "hinge", "logistic"}, default "squared_hinge"
    cost, positive_cost : float, default 1.0
        Weight of the losses against half the squared norm of the weights, and of the positive losses.
    negative_cost : float or "auto", default "auto"
        Weight of the negative losses. ``"auto"`` is 1 with teacher forcing alone. Where a search brings negatives, it
        follows the usual number of features of a row: a thirtieth of it, between 0.3 and 1. The shorter a row, the more
        of its labels aren't said in it, and the less a missing label is worth.
    relevance : {"l1", "l2", "max", "count", "none"}, optional
        Costs of positives by how much of a row lies below a node; see :func:`sylvan.ranking.training.cost_weights`.
    bias : float, default 1.0
        Value of a constant feature; 0 for none.
    normalize : bool, default False
        Scale each row to unit length first, in training and in ranking.
    scaling : {"auto", "none"}, default "auto"
        How features of other scales than TF-IDF's, whose rows have length 1, are learned from. ``"auto"``: costs, the
        bias and the pruning are meant for rows of length 1, and hold likewise for rows of any usual length; columns
        whose values differ a hundredfold, as those of different units do, are divided by their root mean square first.
        ``"none"`` takes features and parameters as they are.
    tolerance : float or "auto", default "auto"
        The solver stops when the largest violation of optimality is below it. ``"auto"`` is 0.1, or 1e-4 for data so
        small that this takes a moment.
    max_iterations : int or "auto", default "auto"
        Maximum number of passes over a cluster's rows. ``"auto"`` is 10, or 300 for small data.
    threshold : float, default 0.1
        Weights with a smaller magnitude are dropped.
    max_weights_per_label : int, optional
        Keep only this many weights of each node, the largest.
    weight_dtype : {"uint8", "uint4", "float16", "float32"}, default "uint8"
        How weights are stored; ``"uint8"`` rounds to the nearest of 128 magnitudes in a geometric series, ``"uint4"``
        to the nearest of 16 weights of each cluster: a model 0.6 to 0.7 times as large, which ranks more slowly.
    combine : {"l3_hinge", "ranker", "sigmoid", "l1_hinge", "l2_hinge", "l4_hinge", "paper", "paper:nested", \
            "damped"} or list, default "damped"
        How a node's score s is combined with those above it: product with exp(-max(0, 1 - s)^3) (Eq. 13; or with other
        powers), the node's own score alone (Eq. 12), or product with its sigmoid. ``"l3_hinge:0.25"`` raises the scores
        above to the power of 0.25 first. ``"paper"`` uses Eq. 13 in all layers except the last, and Eq. 12 there;
        ``"damped"`` is ``"l3_hinge"`` above the last layer and ``"l3_hinge:0.35"`` there, or ``"l3_hinge:0.65"`` where
        that was trained by teacher forcing alone. ``"l3_hinge:nested"`` is Eq. 13 to the letter of Algorithm 2, where
        the score above, itself such a product, goes through the hinge as well; ``"paper:nested"`` is ``"paper"`` with
        it. A ranker's own score isn't bounded. Where one in [0, 1] is needed,
        for means over trees or models and :meth:`predict_proba`, Eq. 13 is applied, or the sigmoid with logistic loss.
    embedding : {"pifa", "pii", "pifa_lf", "spectral"}, default "pifa"
        The embeddings by which labels are clustered; see :mod:`sylvan.indexing`.
    clustering : {"spherical", "kmeans", "random"}, default "spherical"
    overlap : int, default 1
        Maximum number of clusters that contain a label; ranking uses the best of them.
    alpha : float in [0, 1] or array of shape (L,), default 0.5
        With ``embedding="pifa_lf"``, the weight of the instances' features against the label's own, for all labels or
        for each.
    max_features_per_label : int, optional
        With ``"pifa"`` and ``"pifa_lf"``, how many values of a label are kept; by default 1,024, with None all.
    spectral_dimensions : int, default 64
        With ``embedding="spectral"``, the number of singular vectors.
    n_trees : int, default 1
        Number of trees, each with its own seed and rankers; a label's score is the mean over the trees.
    tree : LabelTree, optional
        An existing tree; the indexing parameters are then ignored.
    calibration : {"isotonic", "platt"}, optional
        How scores become the probabilities of :meth:`predict_proba`: by curves fitted to answers on a holdout, which
        takes an eighth to a third of the training's time and doesn't change the ranking. By default ``"isotonic"``;
        with None, and where there are fewer than 120 rows, scores are only mapped into [0, 1].
    calibration_folds : int, default 1
        Number of holdouts, each with other rows.
    tail : {"psp", "psp:A,B", "macro_recall"}, optional
        Order labels by probability times gain, where rare labels gain more; see :meth:`rank`.
    keep_rows : bool, default False
        Keep the training rows, and how the trees were solved with them, for :meth:`update`: about 8 bytes a value of a
        feature, and 2 bytes for each row and label of a cluster that the row takes part in.
    n_jobs : int, optional
        Number of threads; None or -1 for every core. The result doesn't depend on it.
    seed : int, default 0

    Attributes
    ----------
    rankers_ : list of TreeRanker
        The trees and the weights of their layers.
    tree_, layers_ : LabelTree and list of LayerWeights
        Those of the first.
    n_features_, n_labels_, n_rows_ : int
        Sizes seen in ``fit``.
    label_counts_ : ndarray of int64, shape (n_labels_,)
        Training rows of each label, for propensities.
    feature_factors_ : ndarray of float32, shape (n_features_,), or None
        What ``scaling`` multiplies the columns by, in training and in ranking.
    chosen_ : dict of str to float
        What the rows made of parameters that are ``"auto"``: ``negative_cost``, ``tolerance``, ``max_iterations``.

    Notes
    -----
    Yu, Zhong, Zhang, Chang & Dhillon (2022), "PECOS: Prediction for Enormous and Correlated Output Spaces", Sections
    2.1-2.5 and Algorithm 2. Training costs about rows x entries per row x children / 16 x passes for each cluster;
    ranking one row about beam x entries of the row x layers lookups.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import XRLinear
    >>> X = np.eye(4, dtype=np.float32).repeat(5, axis=0)
    >>> model = XRLinear().fit(X, np.arange(4).repeat(5))
    >>> model.rank(X[[0, 7]], k=1).labels.ravel().tolist()
    [0, 1]
    """

    branching: Annotated[int, Range(2)] = 16
    max_leaf: Annotated[int, Range(1)] = 100
    beam: Annotated[int, Range(1, validate.MAX_COLUMNS)] = 10
    negatives: Annotated[Scheme | list[Scheme], PerLayer(get_args(Scheme))] = "paper"
    man_threshold: Annotated[float, Range(0, 1)] = 0.005
    loss: Loss = LinearOptions.loss
    cost: Annotated[float, Range(0, open_low=True)] = LinearOptions.cost
    positive_cost: Annotated[float, Range(0, open_low=True)] = LinearOptions.positive_cost
    negative_cost: Annotated[float | Literal["auto"], Range(0, open_low=True, word="auto")] = "auto"
    relevance: Cost | None = None
    bias: Annotated[float, Range(0)] = LinearOptions.bias
    normalize: bool = False
    scaling: Literal["auto", "none"] = "auto"
    tolerance: Annotated[float | Literal["auto"], Range(0, open_low=True, word="auto")] = "auto"
    max_iterations: Annotated[int | Literal["auto"], Range(1, 2**31 - 1, word="auto")] = "auto"
    threshold: Annotated[float, Range(0)] = LinearOptions.threshold
    max_weights_per_label: Annotated[int | None, Range(1, 2**31 - 1)] = LinearOptions.max_weights_per_label
    weight_dtype: WeightDtype = "uint8"
    combine: Annotated[str | list[str], matching.Combine()] = "damped"
    embedding: Embedding = "pifa"
    clustering: Clustering = "spherical"
    overlap: Annotated[int, Range(1)] = 1
    alpha: Annotated[float | list[float] | npt.NDArray[np.float64], PerLabel(0, 1)] = 0.5
    max_features_per_label: Annotated[int | None, Range(1)] = 1024
    spectral_dimensions: Annotated[int, Range(1)] = 64
    n_trees: Annotated[int, Range(1, 1000)] = 1
    tree: LabelTree | None = None
    calibration: Method | None = "isotonic"
    calibration_folds: Annotated[int, Range(1, 100)] = 1
    tail: Annotated[str | None, Tail()] = None
    keep_rows: bool = False
    n_jobs: Threads = None
    seed: Seed = 0

    kind: ClassVar[str] = "xr-linear"
    least_rows: ClassVar[int] = 0  # it may have been imported
    presets: ClassVar[Mapping[Preset, Mapping[str, Any]]] = PRESETS
    not_saved = ("tree",)  # it is saved as ``tree_``
    added = MappingProxyType({"max_features_per_label": 1024, "spectral_dimensions": 64, "keep_rows": False})
    fitted_: FittedTrees = attribute(FittedTrees())

    @classmethod
    def preset(cls: type[_Self], name: Preset, **parameters: Any) -> _Self:
        """A model with parameters that go together, and any others.

        Parameters
        ----------
        name : {"fast", "balanced", "accurate", "paper"}
            ``"balanced"`` is the defaults. ``"fast"`` trains by teacher forcing alone: for less time, it ranks a little
            worse, most of all long texts with several labels. It isn't calibrated: its probabilities are scores.
            ``"accurate"`` is three trees instead of one. ``"paper"`` is XR-Linear as PECOS describes it, to compare
            with; docs/papers/pecos.md says what of it can't be set.
        **parameters
            Parameters of the class, which go before the preset's.

        Raises
        ------
        ParameterError
            When there is no such preset.

        Examples
        --------
        >>> from sylvan import XRLinear
        >>> XRLinear.preset("accurate", beam=20)
        XRLinear(beam=20, n_trees=3)
        """
        check_value("name", name, Choice(tuple(PRESETS)), f"{cls.__name__}.preset")
        return cls(**{**PRESETS[name], **parameters})

    def fit(
        self, X: Any, Y: Any, sample_weight: Any = None, *, label_features: Any = None, label_embeddings: Any = None,
        layers: Mapping[int, LayerWeights] | None = None, memory_limit: int | str | None = None,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None, force: bool = False,
        runner: Runner | None = None,
    ) -> XRLinear:  # fmt: skip
        """Build the tree and train its rankers.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d), or RowParts
            Of rows in parts (:func:`sylvan.data.open_parts`), each job reads those that it learns from.
        Y : label matrix of shape (n, L), lists of label ids or names, or one class id or name per row
            Values other than 1 are relevances: they weight the cost of the positive label.
        sample_weight : array of shape (n,), optional
            Factor of each row's costs.
        label_features : sparse matrix or array of shape (L, d), optional
            For ``embedding="pifa_lf"``, in the feature space of X.
        label_embeddings : sparse matrix or array of shape (L, m), optional
            Embeddings to cluster the labels by, instead of ``embedding``.
        layers : mapping of int to LayerWeights, optional
            Weights of layers of a given ``tree`` that were trained elsewhere; they are used as they are.
        memory_limit : int or str, optional
            Maximum memory of the process in bytes, including X and Y, or text such as ``"4GB"``. Training then works in
            parts and writes finished parts to files; the result has the same bits. Pages of mapped files don't count.
        checkpoint : path or Checkpoint, optional
            A folder for finished parts. After an interruption, the same call resumes from it, with the same bits as a
            result. Nothing is written in the first minute. A path is removed when ``fit`` is done.
        force : bool, default False
            Train even if :meth:`plan` says that the machine doesn't have enough memory.
        runner : Runner, optional
            Runs the jobs of the training, instead of threads of this process; see :mod:`sylvan.runtime`.

        Raises
        ------
        DataError
            When an array is malformed, or the arrays' shapes don't agree.
        ParameterError
            When a parameter is out of its range.
        MemoryLimitError
            When ``memory_limit`` is too low for the work that can't be split; without a limit, when the machine clearly
            has too little memory.
        ModelError
            When ``checkpoint`` belongs to another training, or can't be written.
        """
        self._fit(
            X, Y, sample_weight, None, label_features=label_features, label_embeddings=label_embeddings, layers=layers,
            memory_limit=memory_limit, checkpoint=checkpoint, force=force, runner=runner,
        )  # fmt: skip
        return self

    def fit_holding_out(
        self, X: Any, Y: Any, rows: npt.NDArray[np.int32] | None, sample_weight: Any = None, **options: Any
    ) -> TopK | None:
        """As :meth:`fit`; see :meth:`Estimator.fit_holding_out`. Without ``rows``, those that calibrate the model."""
        return self._fit(X, Y, sample_weight, None if rows is None else [rows], **options)

    def _fit(
        self, X: Any, Y: Any, sample_weight: Any, holdout: Sequence[npt.NDArray[np.int32]] | None, *,
        label_features: Any = None, label_embeddings: Any = None, layers: Mapping[int, LayerWeights] | None = None,
        force: bool = False, n_texts: int = 0, **running: Any,
    ) -> TopK | None:  # fmt: skip
        """Train, and answer with probabilities for held-out rows: a ``holdout``, or what calibrates the model. The last
        ``n_texts`` rows are texts of labels."""
        data, vocabulary = self._verified(X, Y, sample_weight, label_features, label_embeddings)
        data = data.scaled(self)
        features, labels, weight = data.features, data.labels, data.weight
        if self.keep_rows and isinstance(features, RowParts):
            raise ParameterError("The 'keep_rows' parameter of XRLinear must be False for rows in parts.")
        if self.keep_rows and layers:
            raise ParameterError("The 'keep_rows' parameter of XRLinear must be False beside layers trained elsewhere.")
        folds = [] if holdout is None else holdout
        if holdout is None and self.calibration is not None:
            n = features.shape[0] - n_texts
            folds = holdout_folds(n, self.calibration_folds, None if weight is None else weight[:n])
        trained = train(self, data, folds, DEPTH if holdout is None else CANDIDATES, layers, force, n_texts, **running)
        self._keep_names(X, vocabulary, one_class_a_row(Y))
        self.n_rows_, self.n_features_ = features.shape
        self.label_counts_ = np.bincount(labels.indices, minlength=labels.shape[1]).astype(np.int64)
        self.fitted_, self.calibrator_ = trained.fitted, trained.calibrator
        self.n_labels_, self._removed = labels.shape[1], trained.fitted.rankers[0].tree.removed
        if holdout is None or trained.top is None or trained.calibrator is None:
            return trained.top
        return crosswise(trained.calibrator, trained.top, holdout[0], labels, weight)

    def index(
        self, X: Any, Y: Any, *, label_features: Any = None, label_embeddings: Any = None, runner: Runner | None = None
    ) -> list[LabelTree]:
        """Phase 1 alone: the ``n_trees`` trees for which :meth:`fit` would train rankers.

        Parameters and errors as in :meth:`fit`.
        """
        data = self._verified(X, Y, None, label_features, label_embeddings)[0].scaled(self)
        return build_trees(self, data, Runner(self.n_jobs) if runner is None else runner)

    def plan(
        self, X: Any, Y: Any, sample_weight: Any = None, *, label_features: Any = None, label_embeddings: Any = None,
        trees: Sequence[LabelTree] | None = None, whole: TrainingSize | None = None,
    ) -> Plan:  # fmt: skip
        """Estimate what ``fit`` with the same arguments would need: time, memory and the size of the model.

        A few models are trained on samples of at most 5,000 rows, in a second or two, and what they took is carried
        over to all rows. The size of the model and the peak memory are mostly within a third of the real ones. The
        model doesn't change.

        Parameters and errors as in :meth:`fit`, and:

        trees : sequence of LabelTree, optional
            Used instead of building trees.
        whole : TrainingSize, optional
            The size of a larger training set, of which X and Y are a sample of rows.

        Returns
        -------
        Plan
            With ``seconds``, ``peak_bytes``, ``model_bytes``, ``available_bytes`` and ``fits``; ``print(plan.text())``.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import XRLinear
        >>> plan = XRLinear().plan(np.eye(4).repeat(5, axis=0), np.arange(4).repeat(5))
        >>> plan.fits, plan.model_bytes < 10_000
        (True, True)
        """
        data, _ = self._verified(X, Y, sample_weight, label_features, label_embeddings)
        return training_plan(self, data, trees, whole)

    def _verified(
        self, X: Any, Y: Any, sample_weight: Any, label_features: Any, label_embeddings: Any
    ) -> tuple[TrainingData, Vocabulary | None]:
        """Parameters and data, verified, and the names of labels."""
        self.check_params()
        features: Rows
        if isinstance(X, RowParts):
            if not X.shape[0]:
                raise DataError(f"X has shape {X.shape}, but a minimum of 1 row is required.")
            targets = Targets.read(Y)
            features, labels, vocabulary = X, validate.labels_beside(X.shape, targets.matrix), targets.names
            X.row_squares()  # every row is read once, and so verified
        else:
            features, labels, vocabulary = self._training_pair(X, Y)
        if labels.nnz == 0:
            raise DataError(f"Y has shape {labels.shape} but holds no label: there is nothing to learn.")
        if self.tree is not None and self.n_trees > 1:
            raise ParameterError(
                f"The 'n_trees' parameter of XRLinear must be 1 beside a given tree. Got {self.n_trees} instead."
            )
        if np.shape(self.alpha) not in {(), (labels.shape[1],)}:
            raise ParameterError(
                f"The 'alpha' parameter of XRLinear has {counted(np.size(self.alpha), 'number')}, but Y has shape "
                f"{labels.shape}: one for all labels, or one for each, is needed."
            )
        weight = validate.sample_weight(sample_weight, features.shape[0])
        about_labels = {"label_features": label_features, "label_embeddings": label_embeddings}
        return TrainingData(features, labels, weight, about_labels), vocabulary

    # ---------------------------------------- what it has learned

    @property
    def rankers_(self) -> Sequence[TreeRanker]:
        """The trees and the weights of their layers."""
        self._need_fit("rankers_")
        return self.fitted_.rankers

    @property
    def tree_(self) -> LabelTree:
        """The first tree."""
        self._need_fit("tree_")
        return self.fitted_.rankers[0].tree

    @property
    def layers_(self) -> list[LayerWeights]:
        """The weights of the first tree's layers."""
        self._need_fit("layers_")
        return self.fitted_.rankers[0].layers

    @property
    def feature_factors_(self) -> npt.NDArray[np.float32] | None:
        """What ``scaling`` multiplies the columns by, in training and in ranking."""
        return self.fitted_.factors

    @property
    def chosen_(self) -> Mapping[str, float]:
        """What the rows made of parameters that are ``"auto"``."""
        return self.fitted_.chosen

    @property
    def training_rows_(self) -> TrainingRows | None:
        """The rows of the training, where they are kept."""
        return self.fitted_.rows

    @property
    def row_ids_(self) -> npt.NDArray[np.int64]:
        """The ids of the rows that are kept, rising; the first training's are 0 to its number of rows - 1."""
        self._need_fit("row_ids_")
        if self.training_rows_ is None:
            raise UnsupportedError(f"This {type(self).__name__} keeps no rows: train it with keep_rows=True.")
        return self.training_rows_.ids

    @property
    def drift_(self) -> float:
        """The share of a search's cost that new trees would save, estimated by their shapes; 0 after a training."""
        self._need_fit("drift_")
        saved = [saved_by_rebuilding(ranker.tree, self.branching, self.max_leaf, self.beam) for ranker in self.rankers_]
        return float(np.mean(saved))

    # ---------------------------------------- ranking

    @of_one_state
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
        features = scaled(self._features(X), self.fitted_.factors, self.normalize)
        labels = self._filter(allowed, denied, features.shape[0])
        search = search_of(self, self.fitted_, beam, 1 if features.shape[0] == 1 else None)
        return self._named(self.fitted_.rank(features, k, search, labels))

    def _scaled(self, features: Csr) -> Csr:
        return scaled(features, self.fitted_.factors, self.normalize)

    def _probabilities(self, top: TopK) -> npt.NDArray[np.float32]:
        return self.fitted_.probabilities(top, search_of(self, self.fitted_))

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
        features = self._scaled(self._features(X))
        rows = self.training_rows_
        return np.zeros(features.shape[0], bool) if rows is None else rows.include(features)

    def _explain_trees(self, row: Csr, label: int, top: int, names: Names, **options: Any) -> tuple[TreeVote, ...]:
        fitted, search = self.fitted_, search_of(self, self.fitted_, options.get("beam"))
        bound = (lambda scores: fitted.bounded(scores, search)) if len(fitted.rankers) > 1 else None
        row = self._scaled(row)
        return tree_votes(fitted.rankers, search.combines, row, label, search.beam, top, names, bound)

    def searched(self, x: Any, tree: int = 0, beam: int | None = None) -> list[Candidates]:
        """The nodes that the search for one row scores; see :meth:`Estimator.searched`."""
        self._need_fit("searched")
        row = validate.features(x, n_features=self.n_features_, owner=type(self).__name__)
        if row.shape[0] != 1:
            raise DataError(f"searched takes one row. Got {row.shape[0]} instead.")
        n_trees, beam = len(self.fitted_.rankers), validate.count(self.beam if beam is None else beam, "beam")
        if not 0 <= tree < n_trees:
            raise ParameterError(f"The 'tree' of searched must be an int in [0, {n_trees - 1}]. Got {tree}.")
        combines = search_of(self, self.fitted_).combines[tree]
        return search_layers(self.fitted_.rankers[tree], self._scaled(row), beam, combines)

    # ---------------------------------------- changes after the training

    @all_at_once
    def update(  # type: ignore[override]  # the options that it takes are named
        self: _Self, X: Any = None, Y: Any = None, sample_weight: Any = None, *, forget: Any = None,
        merge: Mapping[Any, Sequence[Any]] | None = None, rows: tuple[Any, Any] | None = None,
        precise: bool | None = None, n_features: int | None = None,
    ) -> _Self:  # fmt: skip
        """Learn new rows, of labels old and new; forget rows; make several labels one. The tree stays, and grows.

        With the same tree, this comes to what :meth:`fit` gives with all rows. A node is solved again only where the
        changed rows matter to it, from the solution that there is.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features_), optional
            New rows.
        Y : as in :meth:`fit`, of n rows
            Ids from ``n_labels_`` on, and names that aren't known, are new labels; names get the next ids in
            alphabetical order. A new label joins the cluster that the search sends its rows to, and clusters that grow
            beyond one and a half times ``max_leaf`` are split, while those beside them are fewer than one and a half
            times ``branching``; see ``drift_``.
        sample_weight : array of shape (n,), optional
            Of the new rows.
        forget : list of int, optional
            Ids of rows, as in ``row_ids_``. No weight depends on them afterwards, and they are gone from the rows that
            are kept. What was built of all rows once stays: the shape of the tree, and the numbers in ``chosen_``.
        merge : mapping of label to list of labels, optional
            The rows of some labels become those of one of them, or of any other label; the others are removed.
        rows : pair (X, Y), optional
            All rows of a model that keeps none, as they were given to :meth:`fit`, of equal weights. Nodes are then
            solved from nothing. Without them, such a model can learn new labels alone; see the notes.
        precise : bool, optional
            Whether every node is solved again that a changed row puts off its optimum by more than ``tolerance``, and
            all rows are searched for again. Otherwise nodes wait while the losses of the new rows are at most a
            tenth of their objective, which bounds how far they are from their minimum. By default, where the
            solver's tolerance is below 0.01, as it is for small data.
        n_features : int, optional
            The number of columns from now on; those from ``n_features_`` on are new, and no row had them.

        Returns
        -------
        XRLinear
            This model, changed; where an error is raised, it is as it was. A copy by :func:`copy.copy` made before
            stays what it is.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        UnsupportedError
            When the model keeps no rows (see ``keep_rows``) and isn't given them, and a new row has no new label, or
            something is to be forgotten or merged.
        DataError
            When an array is malformed, an id isn't known, or labels can't be merged.

        Notes
        -----
        A model that keeps no rows, and isn't given them, learns new labels from their rows, and nothing else: other
        labels and the inner nodes keep their weights, bit for bit, and no cluster is split. A new label's negatives are
        the other new rows that come to its cluster, and stand-ins for the rows of known labels: of those in the cluster
        and the 30 that each new row is answered with, the positive part of their weights, weighing as much as all the
        label's rows. New labels are answered more often than with the rows, which a ``RowsUnknownWarning`` says
        (docs/results has the figures). ``precise`` changes nothing then, and a later update with ``rows`` doesn't
        make up for what known labels haven't learned: train again.

        Every minimum of Eq. 10 only grows when rows come, so that the objective is above its minimum by no more than
        the losses of the rows that a node waits for. New rows are ranked before they are learned, and these answers
        calibrate the model from then on, together with those of the rows held out before.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import XRLinear
        >>> X = np.eye(4, dtype=np.float32).repeat(5, axis=0)
        >>> model = XRLinear(keep_rows=True).fit(X[:15], np.arange(3).repeat(5))
        >>> model.update(X[15:], np.full(5, 3)).rank(X[[15]], k=1).labels.tolist()
        [[3]]
        """
        fitted, changes, vocabulary = self._changes(
            "update", X, Y, sample_weight, forget, merge, rows, precise, n_features
        )
        if fitted.rows is None:
            result, n_known = with_new_labels(self, fitted, changes), int((self.label_counts_ > 0).sum())
            warnings.warn(
                f"This {type(self).__name__} keeps no rows: known labels ({n_known:,}) learn nothing from the new rows "
                f"({changes.features.shape[0]:,}), and new labels ({changes.n_labels - self.n_labels_:,}) are learned "
                "without the rows of the others and answered too often. A model that keeps its rows (keep_rows=True), "
                "or can be given them (rows=(X, Y)), brings all up to date.",
                RowsUnknownWarning, stacklevel=4,
            )  # fmt: skip
        else:
            result = updated(self, fitted, changes, precise)
        # ``self`` is a copy here: all_at_once gives its fields to the model in one step.
        self.vocabulary_, self.label_counts_, self.n_rows_ = vocabulary, result.label_counts, result.n_rows
        self.n_features_, self.n_labels_ = result.fitted.n_features, result.fitted.n_labels
        if self.training_rows_ is None:  # they were given for this once
            result = result._replace(fitted=replace(result.fitted, rows=None))
        self.fitted_, self.calibrator_ = result.fitted, result.calibrator
        if len(result.gone):
            self._note_dropped(result.gone)
            self._free_names(result.gone)
        return self

    def plan_update(  # type: ignore[override]  # the options that it takes are named
        self, X: Any = None, Y: Any = None, sample_weight: Any = None, *, forget: Any = None,
        merge: Mapping[Any, Sequence[Any]] | None = None, rows: tuple[Any, Any] | None = None,
        precise: bool | None = None, n_features: int | None = None,
    ) -> UpdatePlan:  # fmt: skip
        """Estimate what :meth:`update` with the same arguments would do; nothing changes.

        Which nodes would be solved is found as :meth:`update` does, but for layers below others that would change. A
        few are solved to see how long that takes. Parameters and errors as in :meth:`update`.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import XRLinear
        >>> X = np.eye(4, dtype=np.float32).repeat(5, axis=0)
        >>> model = XRLinear(keep_rows=True).fit(X[:15], np.arange(3).repeat(5))
        >>> model.plan_update(X[15:], np.full(5, 3)).nodes
        (4,)
        """
        run, resident = Runner(self.n_jobs), resident_bytes()
        fitted, changes, _ = self._changes(
            "plan_update", X, Y, sample_weight, forget, merge, rows, precise, n_features
        )  # fmt: skip
        with timed(run.n_jobs) as clock:
            if fitted.rows is None:
                nodes, jobs = planned_labels(self, fitted, changes, run)
            else:
                nodes, jobs = planned(self, fitted, changes, precise, run)
        return UpdatePlan.of(nodes, jobs, clock.seconds, max(0, resident_bytes() - resident), run.n_jobs)

    def _changes(
        self, method: str, X: Any, Y: Any, sample_weight: Any, forget: Any, merge: Mapping[Any, Sequence[Any]] | None,
        rows: tuple[Any, Any] | None, precise: Any, n_features: Any,
    ) -> tuple[FittedTrees, Changes, Vocabulary | None]:  # fmt: skip
        """The trees with all columns and the rows so far, what changes, and the names of labels then. Without rows of
        the training, which the trees don't have then, all that can change is that there are new labels."""
        self._need_fit(method)
        if precise not in (None, True, False):
            raise ParameterError(f"The 'precise' parameter of update must be a bool or None. Got {precise!r} instead.")
        self.check_params()
        owner, alone = type(self).__name__, rows is None and self.training_rows_ is None
        way = "train it with keep_rows=True, or give them again, as rows=(X, Y)."
        so_far = None if alone else self._rows_so_far(rows)
        refused = [f"{name}=…" for name, value in (("forget", forget), ("merge", merge)) if value is not None]
        if alone and refused:
            raise UnsupportedError(f"This {owner} keeps no rows, which {' and '.join(refused)} needs: {way}")
        if alone and (X is None or Y is None):
            raise DataError(f"This {owner} keeps no rows: all that it can learn is new labels. Give X and Y.")
        wide = self
        if n_features is not None:  # a copy that takes more columns, whose weights don't know of them yet
            wide = self._shallow()
            wide.n_features_ = self._more_features(n_features)
            wide.fitted_ = self.fitted_.with_columns(wide.n_features_)
        fitted = wide.fitted_ if so_far is None else replace(wide.fitted_, rows=so_far.with_columns(wide.n_features_))
        is_given = has_new_rows(X, Y, sample_weight)
        forgotten = np.zeros(0, np.int64)
        if forget is not None and so_far is not None:
            forgotten = rows_by_id(forget, so_far.ids, so_far.next_id)
        merged = self._merged(merge)
        if not is_given:
            if forget is None and not merged:
                raise DataError("There is nothing to do: give new rows X and Y, or forget, or merge.")
            changes, vocabulary = Changes.none(wide.n_features_, self.n_labels_), self.vocabulary_
        else:
            new, vocabulary = wide._given_rows(X, Y, sample_weight)
            changes = Changes(*new._replace(features=wide._scaled(new.features)))
        if alone:
            fresh, indptr = changes.labels.indices >= self.n_labels_, changes.labels.indptr
            without = np.flatnonzero(np.diff(np.concatenate(([0], np.cumsum(fresh)))[indptr]) == 0)
            if len(without):
                raise UnsupportedError(
                    f"This {owner} keeps no rows, and what it has learned of a label can't be brought up to date "
                    f"without them: each new row must have a new label, but row {without[0]} has none. Leave such rows "
                    f"out, or {way}"
                )
        return fitted, changes._replace(forgotten=forgotten, merged=merged), vocabulary

    def _rows_so_far(self, rows: tuple[Any, Any] | None) -> TrainingRows:
        """The rows that are kept, or those that are handed over."""
        if self.training_rows_ is not None:
            if rows is not None:
                raise DataError(f"This {type(self).__name__} keeps its rows: it can't be given others.")
            self.training_rows_.verify()
            return self.training_rows_
        if not (isinstance(rows, (tuple, list)) and len(rows) == 2):
            raise DataError(f"rows must be a pair (X, Y). Got {type(rows).__name__} instead.")
        X, Y = rows
        named = Y if self.vocabulary_ is None else self._truth(Y)
        features, labels = validate.pair(self._features(X), named, owner=type(self).__name__)
        if labels.shape[1] > self.n_labels_:
            raise DataError(f"rows have {counted(labels.shape[1], 'label')}, but the model has {self.n_labels_}.")
        labels = labels._replace(shape=(labels.shape[0], self.n_labels_))
        if labels.shape[0] != self.n_rows_:
            raise DataError(f"rows are {labels.shape[0]}, but the model was fitted on {self.n_rows_}.")
        return rows_again(self, self.fitted_, self._scaled(features), labels)

    def calibrate(self: _Self, X: Any, Y: Any) -> _Self:
        """See :meth:`Estimator.calibrate`; what later updates calibrate by begins with these rows."""
        top, right = self._fit_calibrator(X, Y)
        if self.training_rows_ is not None:
            held_out = HeldOut.of(np.full(len(right), -1), top, right, None)  # by no id: they can't be forgotten
            self.fitted_ = replace(self.fitted_, rows=replace(self.training_rows_, held_out=held_out))
        return self

    def _drop_labels(self, ids: npt.NDArray[np.int32]) -> None:
        self.fitted_ = self.fitted_.without(ids, self.relevance)
        self._note_dropped(ids)

    pruned = pruned_model
    compress = compressed_model

    def _with_weights(self: _Self, share: float, weight_dtype: WeightDtype | None) -> _Self:
        pruned, n_jobs = copy.copy(self), resolve_jobs(self.n_jobs)
        rankers = [ranker.pruned(share, weight_dtype, n_jobs) for ranker in self.fitted_.rankers]
        pruned.fitted_ = replace(self.fitted_, rankers=rankers)
        return pruned if weight_dtype is None else pruned.set_params(weight_dtype=weight_dtype)

    def weight_dtypes(self) -> set[str]:
        """How the weights are stored; empty where there are none."""
        return {layer.weight_dtype for ranker in self.rankers_ for layer in ranker.layers}

    # ---------------------------------------- saving

    def _plain_params(self) -> dict[str, Any]:
        params = super()._plain_params()
        return params if np.ndim(self.alpha) == 0 else {**params, "alpha": None}  # it is saved as an array

    @classmethod
    def _params_from(cls, state: store.State) -> dict[str, Any]:
        params = super()._params_from(state)
        if params["alpha"] is None:
            n_labels = store.need_int(state, "n_labels", 1, validate.MAX_COLUMNS)
            params["alpha"] = store.need_range(state, "alpha", 0, 1, np.float64, (n_labels,))
        return params

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], dict[str, store.State]]:
        meta, arrays, parts = super()._fitted_state()
        if np.ndim(self.alpha) > 0:
            arrays["alpha"] = np.asarray(self.alpha, dtype=np.float64)
        state = self.fitted_.to_state()
        return meta | state[0], arrays | state[1], parts | state[2]

    def _restore(self, state: store.State) -> None:
        super()._restore(state)
        self.fitted_ = FittedTrees.from_state(state, self.n_features_, self.n_labels_)
        for ranker in self.rankers_:
            if not np.array_equal(ranker.tree.removed, self._removed):
                raise ModelError(f"{state.where!r} is damaged: its trees hold other labels than it has.")
            for name in ("negatives", "combine"):
                layer_words(self, name, ranker.tree.depth)


store.register(XRLinear.kind, XRLinear.from_state)
