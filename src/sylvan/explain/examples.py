"""The training rows with a label that are nearest to a row, and what they share with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sylvan.arrays import validate
from sylvan.arrays.validate import Csr
from sylvan.errors import DataError
from sylvan.explain.records import Example, excerpt
from sylvan.params.wording import counted

SHARED = 5  # features named an example


def nearest_examples(
    row: Csr, label: int, examples: Any, n: int, feature_name: Callable[[int], str], n_labels: int
) -> tuple[Example, ...]:
    """The ``n`` rows of ``examples`` with ``label`` of the greatest cosine with ``row``, lower rows among equals."""
    # Shape: row (1, n_features)
    if hasattr(examples, "nearest_with"):
        check_ranker(examples, row.shape[1], n_labels)
        result: tuple[Example, ...] = examples.nearest_with(row, label, n, feature_name)
        return result
    if not isinstance(examples, tuple | list) or len(examples) != 2:
        raise DataError(
            "examples must be a pair (X, Y) of training features and labels, or a fitted NeighborRanker. "
            f"Got {type(examples).__name__} instead."
        )
    X = validate.features(examples[0], n_features=row.shape[1], name="the features of examples", owner="the model")
    Y = validate.labels(examples[1], n_rows=X.shape[0], name="the labels of examples").to_scipy()
    if Y.shape[1] > n_labels:
        raise DataError(f"The labels of examples have shape {Y.shape}, but the model has {counted(n_labels, 'label')}.")
    rows = np.flatnonzero(np.diff(Y[:, [label]].indptr)) if label < Y.shape[1] else np.zeros(0, np.int64)
    return nearest_rows(row, X.to_scipy()[rows], rows, n, feature_name)


def check_ranker(ranker: Any, n_features: int, n_labels: int) -> None:
    """Refuse a ranker of other features or labels than the model's."""
    if not ranker.__sklearn_is_fitted__():
        raise DataError("The NeighborRanker given as examples is not fitted yet: call its fit first.")
    if (ranker.n_features_, ranker.n_labels_) != (n_features, n_labels):
        raise DataError(
            f"The NeighborRanker given as examples has {counted(ranker.n_features_, 'feature')} and "
            f"{counted(ranker.n_labels_, 'label')}, but the model has {n_features} and {n_labels}."
        )


def nearest_rows(
    row: Csr, X: sp.csr_matrix, numbers: Any, n: int, feature_name: Callable[[int], str]
) -> tuple[Example, ...]:
    """The ``n`` of the rows ``X``, which are called ``numbers``, that are nearest to ``row``."""
    mine = row.to_scipy()
    dots = np.asarray((X @ mine.T).todense(), np.float64).ravel()
    squares = np.asarray(X.multiply(X).sum(axis=1), np.float64).ravel() * float(np.square(row.data, dtype=float).sum())
    similarities = np.divide(dots, np.sqrt(squares), out=np.zeros(len(dots)), where=squares > 0)
    results = []
    for at in np.lexsort((numbers, -similarities))[:n].tolist():
        both = X[at].multiply(mine).tocsr()
        shared = strongest(both.indices, both.data, feature_name)
        results.append(Example(int(numbers[at]), float(similarities[at]), shared))
    return tuple(results)


def strongest(features: Any, products: Any, feature_name: Callable[[int], str]) -> tuple[str, ...]:
    """The names of the features that add most to a similarity, the lower feature first among equals."""
    order = np.lexsort((features, -products))[:SHARED]
    return tuple(feature_name(int(features[i])) for i in order if products[i] > 0)


def with_excerpts(result: tuple[Example, ...], texts: Sequence[str]) -> tuple[Example, ...]:
    """The examples with the beginnings of their texts."""
    return tuple(replace(example, excerpt=excerpt(texts[example.row])) for example in result)
