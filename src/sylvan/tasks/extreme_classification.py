"""Extreme classification: the right few of very many labels for a row of sparse features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from sylvan import metrics
from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr
from sylvan.arrays.topk import TopK
from sylvan.errors import DataError
from sylvan.indexing import pifa
from sylvan.neural.text.bag_text_encoder import BagEncoder
from sylvan.params.fields import KW_ONLY, Range, parameterized
from sylvan.params.wording import counted
from sylvan.runtime.checkpoint import checksum
from sylvan.sampling.tensors import slices
from sylvan.tasks.base import Task, part_of

_ROWS = 1024  # encoded at a time in evaluation
_IGNORED = -100
_AT_ONCE = 1 << 20  # values that are copied at a time
_PERIOD = 1009  # of the weights that tell values from the same values in other places
Batch = tuple[Tensor, Tensor, Tensor, Tensor]


@parameterized
class ExtremeClassification(Task):
    """Train a dense embedding of sparse features against class embeddings, with any sampler and loss.

    Give it to :func:`sylvan.neural.train`. The vectors of features and classes are trained by ``optimizer``, with
    sparse gradients, and what else there is by Adam. A row with several labels has them all as the positives of one
    softmax.

    Parameters
    ----------
    features : CSR, shape (n, n_features)
    labels : CSR of shape (n, n_classes), lists of label ids, or class ids
        Rows without a label are skipped in training.
    validation, test : pair of features and labels, optional
        Labels beyond the training's last column are dropped, and rows without a label skipped. Without
        ``validation``, a part of the training rows is set apart for it; without ``test`` the
        measures of the test are those of validation.
    n_samples : int, optional
        Negatives for each row, or for a whole batch where ``shared``; no more than there are classes. By default
        1,000, or half of the classes where that is less.
    dim : int
        Dimensions of queries and classes.
    hidden : int, optional
        Width of a hidden layer with ReLU; none by default. See :class:`~sylvan.neural.BagEncoder`.
    normalize : bool
        Whether rows are scaled to length 1.
    validation_share : float
        Of the training rows, for validation where none is given.

    Attributes
    ----------
    encoder_ : BagEncoder
    n_classes_ : int

    Notes
    -----
    The measures are P@1, P@3 and P@5 over all classes, exact, as :func:`sylvan.metrics.precision` has them; with the
    loss "beam-tree" of what its search finds. The mean features of its rows make a class's place in a tree by k-means.

    References
    ----------
    Chen and others: Adaptive sampled softmax with inverted multi-index. Section 6.4.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from sylvan.neural import train
    >>> from sylvan.tasks import ExtremeClassification
    >>> classes = np.random.default_rng(0).integers(20, size=400)
    >>> X = sp.csr_matrix((np.ones(400), (np.arange(400), classes)), shape=(400, 20))  # a feature a class
    >>> job = ExtremeClassification(X, classes, sampler="uniform", n_samples=5, batch_size=16, dim=16)
    >>> history = train(job, epochs=20)
    >>> history.test["P@1"]
    1.0
    """

    features: Any
    labels: Any
    _: KW_ONLY
    validation: tuple[Any, Any] | None = None
    test: tuple[Any, Any] | None = None
    dim: Annotated[int, Range(1)] = 128
    hidden: Annotated[int | None, Range(1)] = None
    normalize: bool = True
    batch_size: int = 256
    validation_share: Annotated[float, Range(0, 0.9, open_low=True)] = 0.1

    metric = "P@1"
    larger_is_better = True
    cutoffs = (1, 3, 5)
    usual_table_rate = 0.15
    data_names = ("features", "labels", "validation", "test", "device")

    def _prepare(self) -> None:
        X, Y = self._checked(self.features, self.labels, "training")
        self.n_classes_ = Y.shape[1]
        # Of the rows as they were given: what a seed keeps apart of them has another name already.
        self._checksums = {"training": checksum_of_matrices(X, Y)}
        labelled = np.flatnonzero(np.diff(Y.indptr))
        if self.validation is None:
            labelled = np.random.default_rng(self.seed).permutation(labelled)
            n = max(1, round(len(labelled) * self.validation_share))
            apart, labelled = np.sort(labelled[:n]), np.sort(labelled[n:])
            holdout = X[apart], Y[apart]
        else:
            holdout = self._holdout(*self.validation, X.shape[1], "validation")
            self._checksums["validation"] = checksum_of_matrices(*holdout)
        if not len(labelled):
            raise DataError("No row is left for training: give more rows that have a label.")
        self._X, self._Y = X[labelled], Y[labelled]
        self._parts = {"validation": holdout, "test": holdout}
        if self.test is not None:
            self._parts["test"] = self._holdout(*self.test, X.shape[1], "test")
            self._checksums["test"] = checksum_of_matrices(*self._parts["test"])
        self.encoder_ = BagEncoder(self._X.shape[1], self.dim, hidden=self.hidden, dropout=self.dropout)
        classes = nn.Parameter(torch.randn(self.n_classes_, self.dim) / np.sqrt(self.dim))
        counts = np.bincount(self._Y.indices, minlength=self.n_classes_)
        self.make_objective(self.n_classes_, self.dim, counts, lambda: pifa(self._X, self._Y))
        self.classes_ = self.make_module(self.encoder_, "classes", classes)
        features = [(self.encoder_.features, self.table_learning_rate_)]
        self.make_optimizers(self.encoder_.inner_parameters(), features, self.classes_)

    def _checked(self, features: Any, labels: Any, part: str) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        X = self._normalized(validate.features(features))
        Y = validate.labels(labels).to_scipy()
        if X.shape[0] != Y.shape[0]:
            raise DataError(
                f"The {part} part has {counted(X.shape[0], 'row')} of features, but {Y.shape[0]} of labels."
            )
        return X, sp.csr_matrix(Y)

    def _normalized(self, features: Csr) -> sp.csr_matrix:
        """The features, of unit length where that is asked for."""
        X = features.to_scipy()
        if self.normalize:
            squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
            X = sp.csr_matrix(sp.diags(1 / np.sqrt(np.maximum(squares, 1e-30))) @ X)
        return sp.csr_matrix(X, dtype=np.float32)

    def _holdout(self, features: Any, labels: Any, n_features: int, part: str) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        X, Y = self._checked(features, labels, part)
        if X.shape[1] != n_features:
            raise DataError(f"The {part} part has {counted(X.shape[1], 'feature')}, but the training has {n_features}.")
        Y.resize((Y.shape[0], self.n_classes_))
        labelled = np.flatnonzero(np.diff(Y.indptr))
        if not len(labelled):
            raise DataError(f"No row of the {part} part has a label that is known from training.")
        return X[labelled], Y[labelled]

    # What the training loop asks.

    def steps_per_epoch(self) -> int:
        return -(-int(self._X.shape[0]) // self.batch_size)

    def batches(self, epoch: int) -> Iterator[Batch]:
        for rows in self.shuffled(self._X.shape[0], epoch):
            labels = self._Y[rows]
            counts = np.diff(labels.indptr)
            targets = np.full((len(counts), int(counts.max())), _IGNORED, np.int64)  # padded on the right
            targets[np.arange(targets.shape[1]) < counts[:, None]] = labels.indices
            yield (*self._bags(self._X[rows]), torch.from_numpy(targets).to(self.device))

    def step(self, batch: Batch, step: int) -> Tensor:
        *bags, targets = batch
        loss: Tensor = self._objective(self.encoder_(*bags), self.classes_, targets, step)
        return loss

    def evaluate(self, split: str) -> dict[str, float]:
        X, Y = self._parts[part_of(split)]
        cutoffs = [k for k in self.cutoffs if k <= self.n_classes_]
        return {f"P@{k}": value for k, value in metrics.precision(Y, self._rank(X, max(cutoffs)), cutoffs).items()}

    def settings(self) -> dict[str, Any]:
        sizes = {"row": self._X.shape[0], "feature": self._X.shape[1], "class": self.n_classes_}
        size = ", ".join(counted(n, word) for word, n in sizes.items())
        data = {"data": size, "data_checksum": self._checksums}
        return {"task": "extreme-classification", **data, **self.plain_settings()}

    # Evaluation and use.

    @torch.no_grad()
    def rank(self, features: Any, k: int = 5) -> TopK:
        """The ``k`` best classes of each row of a matrix as wide as that of the training, best first.

        Raises
        ------
        DataError
            When the matrix is malformed or of another width.
        ParameterError
            When ``k`` isn't an int in its range.
        """
        X = self._normalized(validate.features(features, n_features=self._X.shape[1], owner=type(self).__name__))
        k = validate.count(k, "k")
        self.module.eval()
        return self._rank(X, k)

    def _rank(self, X: sp.csr_matrix, k: int) -> TopK:
        parts = (self.encoder_(*self._bags(X[part])) for part in slices(max(1, X.shape[0]), 1, _ROWS))
        tops = [self._objective.top_classes(queries, self.classes_, k) for queries in parts]
        return TopK(np.concatenate([top.labels for top in tops]), np.concatenate([top.scores for top in tops]))

    def _bags(self, X: sp.csr_matrix) -> tuple[Tensor, Tensor, Tensor]:
        ids, offsets = torch.from_numpy(X.indices.astype(np.int64)), torch.from_numpy(X.indptr.astype(np.int64))
        return ids.to(self.device), offsets.to(self.device), torch.from_numpy(X.data).to(self.device)


def checksum_of_matrices(features: sp.csr_matrix, labels: sp.csr_matrix) -> str:
    """Checksum of where features and labels stand, and seven digits of the features' values. Values that came of texts
    may differ in their last bits between processors, on which a training may well go on. They are therefore summed,
    weighted by their places, and the sum rounded; what rows hold is counted exactly."""
    total = 0.0
    for part in slices(features.nnz, 1, _AT_ONCE):
        values = features.data[part].astype(np.float64)
        total += float(np.sum(values * (1 + np.arange(part.start, part.stop) % _PERIOD)))
    places = [part for matrix in (features, labels) for part in (matrix.indptr, matrix.indices)]
    return f"{checksum(*places, any_integer=True)} {total:.6e}"
