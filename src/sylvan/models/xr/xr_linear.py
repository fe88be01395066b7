"""XRLinear: a tree of linear rankers, trained layer by layer and searched by beam (PECOS Algorithm 2)."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.canonical import take_rows
from sylvan.arrays.topk import TopK
from sylvan.arrays.validate import Csr
from sylvan.data import RowParts, Vocabulary
from sylvan.data.parts.row_parts import Rows
from sylvan.errors import DataError, ParameterError
from sylvan.indexing import LabelTree
from sylvan.metrics.rows import hits
from sylvan.models.base import CANDIDATES
from sylvan.models.label_changes import one_class_a_row
from sylvan.models.xr.estimate import TrainingSize
from sylvan.models.xr.plan import refuse_beyond_memory, training_plan
from sylvan.models.xr.scaling import Scale, scaled
from sylvan.models.xr.training_rows import HeldOut, TrainingRows
from sylvan.models.xr.unseen import UnseenRows, placed_by_own_rows
from sylvan.models.xr.updates import XRUpdates
from sylvan.ranking.calibrate import DEPTH, Calibrator, calibrated, crosswise, held_out_rows, holdout_folds
from sylvan.ranking.training import train_rankers
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.runtime import Checkpoint, Runner, opened_runner
from sylvan.runtime.checkpoint import identity_of
from sylvan.runtime.plan import Plan
from sylvan.weights.layer import ClusterWeights


class XRLinear(XRUpdates):
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
    combine : {"l3_hinge", "ranker", "sigmoid", "l1_hinge", "l2_hinge", "l4_hinge", "paper", "damped"} or list, \
            default "damped"
        How a node's score s is combined with those above it: product with exp(-max(0, 1 - s)^3) (Eq. 13; or with other
        powers), the node's own score alone (Eq. 12), or product with its sigmoid. ``"l3_hinge:0.25"`` raises the scores
        above to the power of 0.25 first. ``"paper"`` uses Eq. 13 in all layers except the last, and Eq. 12 there;
        ``"damped"`` is ``"l3_hinge"`` above the last layer and ``"l3_hinge:0.35"`` there, or ``"l3_hinge:0.65"`` where
        that was trained by teacher forcing alone. A ranker's own score isn't bounded. Where one in [0, 1] is needed,
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
    tree_, layers_ : LabelTree and list of ClusterWeights
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

    kind = "xr-linear"
    least_rows = 0  # it may have been imported

    def fit(
        self,
        X: Any,
        Y: Any,
        sample_weight: Any = None,
        *,
        label_features: Any = None,
        label_embeddings: Any = None,
        layers: Mapping[int, ClusterWeights] | None = None,
        memory_limit: int | str | None = None,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
        force: bool = False,
        runner: Runner | None = None,
    ) -> XRLinear:
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
        layers : mapping of int to ClusterWeights, optional
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
        self, X: Any, Y: Any, rows: npt.NDArray[np.int32], sample_weight: Any = None, **options: Any
    ) -> TopK | None:
        """As :meth:`fit`; see :meth:`Estimator.fit_holding_out`."""
        return self._fit(X, Y, sample_weight, [rows], **options)

    def _fit(
        self, X: Any, Y: Any, sample_weight: Any, holdout: Sequence[npt.NDArray[np.int32]] | None, *,
        label_features: Any = None, label_embeddings: Any = None, layers: Mapping[int, ClusterWeights] | None = None,
        force: bool = False, **running: Any,
    ) -> TopK | None:  # fmt: skip
        """Train, and answer with probabilities for held-out rows: a ``holdout``, or what calibrates the model."""
        features, labels, vocabulary, weight, scale = self._training_set(X, Y, sample_weight)
        if self.keep_rows and isinstance(features, RowParts):
            raise ParameterError("The 'keep_rows' parameter of XRLinear must be False for rows in parts.")
        if self.keep_rows and layers:
            raise ParameterError("The 'keep_rows' parameter of XRLinear must be False beside layers trained elsewhere.")
        about_labels = {"label_features": label_features, "label_embeddings": label_embeddings}
        folds = [] if holdout is None else holdout
        if holdout is None and self.calibration is not None:
            folds = holdout_folds(features.shape[0], self.calibration_folds, weight)
        rows = held_out_rows(folds) if len(folds) else None

        def identity() -> dict[str, Any]:
            parameters = {name: value for name, value in self.get_params(deep=False).items() if name != "n_jobs"}
            data = {"X": features, "Y": labels, "sample_weight": weight, "holdout": rows, **about_labels}
            return identity_of(type(self).__name__, parameters, **data)

        n_bytes = features.nbytes + labels.nbytes
        with opened_runner(self.n_jobs, identity=identity, input_bytes=n_bytes, **running) as run:
            trees = self.build_trees(features, labels, run, **about_labels)
            if running.get("memory_limit") is None and not force and not isinstance(features, RowParts):
                refuse_beyond_memory(self, features, labels, trees, weight, about_labels)
            placed = self._placed_by(rows, trees, features, labels, run) if rows is not None else None
            trained = [
                train_rankers(
                    features, labels, tree, self.tree_training(tree.depth, seed, features, scale.length), weight, folds,
                    runner=run.within(f"tree{at}"), known=layers, keeps=self.keep_rows,
                )
                for at, (tree, seed) in enumerate(zip(trees, self.seeds(), strict=True))
            ]  # fmt: skip
            rankers = [each.ranker for each in trained]
            top = calibrator = held_out = None
            if rows is not None:
                fitted = copy.copy(self)._fitted(rankers, features, labels, None)
                k, unseen = DEPTH if holdout is None else CANDIDATES, UnseenRows(features, folds, run)
                changes = [[unseen.changed(layer) for layer in each.changes] for each in trained]
                top = unseen.answers(fitted._rank_changed(unseen.features, changes, k, placed))
                if self.calibration is not None:
                    calibrator = calibrated(self.calibration, top, rows, labels, weight)
                if self.keep_rows:
                    own = None if weight is None else weight[rows]
                    held_out = HeldOut.of(rows.astype(np.int64), top, hits(top, take_rows(labels, rows)), own)
        self._keep_names(X, vocabulary, one_class_a_row(Y))
        self.chosen_ = self.by_the_rows(features, trees[0].depth)
        self._fitted(rankers, features, labels, calibrator, scale)
        solutions = [each.solutions for each in trained if each.solutions is not None]
        self.training_rows_ = None
        if self.keep_rows and not isinstance(features, RowParts):
            n, length = features.shape[0], scale.length
            self.training_rows_ = TrainingRows(features, labels, weight, np.arange(n), n, length, solutions, held_out)
        if holdout is None or top is None or rows is None or calibrator is None:
            return top
        return crosswise(calibrator, top, rows, labels, weight)

    def _placed_by(
        self, rows: npt.NDArray[np.int32], trees: Sequence[LabelTree], features: Rows, labels: Csr, run: Runner
    ) -> list[Csr] | None:
        """Held-out rows' labels that stand where they do for the row's sake; None in trees that rows didn't make."""
        by_rows = self.tree is None and self.embedding == "pifa" and self.clustering != "random"
        if not by_rows or trees[0].depth == 1 or max(tree.most_copies for tree in trees) > 1:
            return None
        return placed_by_own_rows(trees, features, labels, rows, run)

    def index(
        self, X: Any, Y: Any, *, label_features: Any = None, label_embeddings: Any = None, runner: Runner | None = None
    ) -> list[LabelTree]:
        """Phase 1 alone: the ``n_trees`` trees for which :meth:`fit` would train rankers.

        Parameters and errors as in :meth:`fit`.
        """
        features, labels, *_ = self._training_set(X, Y, None)
        run = Runner(self.n_jobs) if runner is None else runner
        return self.build_trees(features, labels, run, label_features, label_embeddings)

    def plan(
        self,
        X: Any,
        Y: Any,
        sample_weight: Any = None,
        *,
        label_features: Any = None,
        label_embeddings: Any = None,
        trees: Sequence[LabelTree] | None = None,
        whole: TrainingSize | None = None,
    ) -> Plan:
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
        features, labels, _, weight = self._verified(X, Y, sample_weight)
        about = {"label_features": label_features, "label_embeddings": label_embeddings}
        return training_plan(self, features, labels, weight, about, trees, whole)

    # ---------------------------------------- the phases

    def _training_set(
        self, X: Any, Y: Any, sample_weight: Any
    ) -> tuple[Rows, Csr, Vocabulary | None, npt.NDArray[np.float32] | None, Scale]:
        """Parameters and data, verified: features, scaled, labels, their names, weights of rows, what scaled them."""
        features, labels, vocabulary, weight = self._verified(X, Y, sample_weight)
        scale = Scale() if self.scaling == "none" else Scale.of(features, self.normalize)
        return scaled(features, scale.factors, self.normalize), labels, vocabulary, weight, scale

    def _verified(
        self, X: Any, Y: Any, sample_weight: Any
    ) -> tuple[Rows, Csr, Vocabulary | None, npt.NDArray[np.float32] | None]:
        """Parameters and data, verified: features, labels, their names, weights of rows."""
        self.check_params()
        features: Rows
        if isinstance(X, RowParts):
            if not X.shape[0]:
                raise DataError(f"X has shape {X.shape}, but a minimum of 1 row is required.")
            ids, vocabulary = self._without_names(Y)
            features, labels = X, validate.labels_beside(X.shape, ids)
            X.row_squares()  # every row is read once, and so verified
        else:
            features, labels, vocabulary = self._training_pair(X, Y)
        if labels.nnz == 0:
            raise DataError(f"Y has shape {labels.shape} but holds no label: there is nothing to learn.")
        self.check_params_for(labels.shape)
        return features, labels, vocabulary, validate.sample_weight(sample_weight, features.shape[0])

    def _fitted(
        self, rankers: list[TreeRanker], features: Rows, labels: Csr, calibrator: Calibrator | None,
        scale: Scale | None = None,
    ) -> XRLinear:  # fmt: skip
        self.rankers_, self.calibrator_ = rankers, calibrator
        self.feature_factors_ = None if scale is None else scale.factors
        self.n_rows_, self.n_features_ = features.shape
        self.label_counts_ = np.bincount(labels.indices, minlength=labels.shape[1]).astype(np.int64)
        self.n_labels_, self._removed = labels.shape[1], rankers[0].tree.removed
        return self


store.register(XRLinear.kind, XRLinear.from_state)
