"""The training texts with a label that are nearest to a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sylvan.errors import DataError
from sylvan.explain.examples import check_ranker, nearest_rows, with_excerpts
from sylvan.explain.records import Example
from sylvan.models.base import Estimator
from sylvan.models.text_labels import names_and_weights

if TYPE_CHECKING:
    from sylvan.models.text_estimator import TextEstimator

__all__ = ["nearest_texts"]


def nearest_texts(model: TextEstimator, texts: list[str], name: str, examples: Any, n: int) -> tuple[Example, ...]:
    """The ``n`` training texts of a label that are nearest to the one in ``texts``.

    Parameters
    ----------
    model : TextEstimator
    texts : list of one str
    name : str
        Of the label.
    examples : pair (texts, label_lists), NeighborRanker, TextModel of one, or pair of either and its texts
    n : int

    Raises
    ------
    DataError
        When ``examples`` is nothing of these, or its parts don't fit each other or the model.
    """
    from sylvan.models.text_estimator import check_texts

    pair = examples if isinstance(examples, tuple | list) and len(examples) == 2 else (examples, None)
    if isinstance(pair[0], Estimator):
        known = None if pair[1] is None else check_texts(pair[1])
        return _nearest_of(model, pair[0], known, texts, name, n)
    if pair[1] is None:
        raise DataError(
            "examples must be a pair (texts, label_lists) of training texts and their labels, or a fitted "
            f"NeighborRanker. Got {type(examples).__name__} instead."
        )
    known, label_lists = check_texts(pair[0]), list(pair[1])
    if len(known) != len(label_lists):
        raise DataError(f"examples have {len(known)} texts, but the labels of {len(label_lists)}.")
    rows = [i for i, row in enumerate(label_lists) if name in map(str, names_and_weights(row, i))]
    if not rows:
        return ()
    X = model._text_features([known[i] for i in rows]).to_scipy()
    found = nearest_rows(model._text_features(texts), X, np.array(rows, int), n, model._feature_name)
    return with_excerpts(found, known)


def _nearest_of(
    model: TextEstimator, ranker: Estimator, known: list[str] | None, texts: list[str], name: str, n: int
) -> tuple[Example, ...]:
    """The nearest rows of a NeighborRanker over the model's features, or of one in a TextModel of its own."""
    whole: Any = ranker if hasattr(ranker, "inner") else model
    inner: Any = ranker.inner() if hasattr(ranker, "inner") else ranker
    if not hasattr(inner, "nearest_with"):
        raise DataError(f"examples must be a NeighborRanker or hold one. Got {type(inner).__name__} instead.")
    if whole is model:
        check_ranker(inner, model.n_features_, model.n_labels_)
    label = whole.vocabulary_.get(name)
    if label is None:
        return ()
    row = whole._text_features(texts)
    found: tuple[Example, ...] = inner.nearest_with(row, label, n, whole._feature_name)
    if known is None:
        return found
    if len(known) != inner.n_rows_:
        raise DataError(f"examples have {len(known)} texts, but the NeighborRanker was fitted on {inner.n_rows_}.")
    return with_excerpts(found, known)
