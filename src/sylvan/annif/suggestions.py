"""A model's answers as Annif's suggestions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.arrays.topk import TopK
from sylvan.models import TextModel
from sylvan.models.text_estimator import TextEstimator


def subjects_of(model: TextEstimator, by_uri: Callable[[str], int | None]) -> npt.NDArray[np.int32]:
    """The number that each label has in Annif's vocabulary; -1 for those that aren't there, or are deprecated."""
    numbers = [by_uri(uri) for uri in model.vocabulary_]
    return np.array([-1 if number is None else number for number in numbers], np.int32)


def suggested(
    model: TextEstimator, texts: list[str], limit: int, subjects: npt.NDArray[np.int32], n_subjects: int
) -> sp.csr_array[Any, tuple[int, int]]:
    """The probabilities of each text's best subjects; a text without a known word has none."""
    # Shape: subjects (n_labels,); returns (n, n_subjects)
    limit = min(limit, model.n_labels_)
    if limit < 1 or not texts:
        nothing = TopK(np.empty((len(texts), 0), np.int32), np.empty((len(texts), 0), np.float32))
        return _array(nothing, np.zeros(len(texts), bool), subjects, n_subjects)
    gone = np.flatnonzero(subjects < 0).tolist()
    denied = {"denied": gone} if gone else {}
    if not isinstance(model, TextModel):
        top = model.probabilities(model.rank(texts, limit, **denied))
        return _array(top, np.array([bool(text) for text in texts]), subjects, n_subjects)
    features, ranker = model.vectorizer.transform_rows(texts), model.inner()
    top = ranker.probabilities(ranker.rank(features, limit, **denied))
    return _array(top, np.diff(features.indptr) > 0, subjects, n_subjects)


def _array(
    top: TopK, known: npt.NDArray[np.bool_], subjects: npt.NDArray[np.int32], n_subjects: int
) -> sp.csr_array[Any, tuple[int, int]]:
    ids = np.where(top.labels >= 0, subjects[top.labels], -1)  # (n, limit)
    stays = (ids >= 0) & (top.scores > 0) & known[:, None]
    indptr = np.concatenate([[0], np.cumsum(stays.sum(axis=1))])
    scores = np.minimum(top.scores[stays], 1).astype(np.float32)
    array: Any = sp.csr_array((scores, ids[stays], indptr), shape=(len(ids), n_subjects))
    array.sort_indices()
    return array  # type: ignore[no-any-return]
