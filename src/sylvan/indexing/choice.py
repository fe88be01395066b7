"""What the labels are clustered by, chosen by a word or given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from sylvan import validate
from sylvan.canonical import compressed
from sylvan.errors import DataError
from sylvan.indexing.embeddings import pifa_lf, pifa_rows, pii, spectral
from sylvan.validate import Csr

__all__ = ["EMBEDDINGS", "embed_labels"]

EMBEDDINGS = ("pifa", "pii", "pifa_lf", "spectral")
_MOST = 1024  # features that PIFA keeps of a label


def embed_labels(
    features: Csr,
    labels: Csr,
    embedding: str,
    *,
    alpha: float = 0.5,
    label_features: Any = None,
    label_embeddings: Any = None,
    seed: int = 0,
    n_jobs: int = 1,
    zeros: Callable[[int, Any], npt.NDArray[Any]] | None = None,
) -> Any:
    """Embeddings of shape (L, dimensions): ``label_embeddings``, or those that ``embedding`` names.

    ``zeros(size, dtype)`` gives PIFA its large arrays.

    Raises
    ------
    DataError
        When what was given of the labels doesn't have one row a label, or isn't there.
    """
    if label_embeddings is not None:
        return _of_labels(label_embeddings, "label_embeddings", labels)
    if embedding == "pifa_lf":
        if label_features is None:
            raise DataError(
                "embedding='pifa_lf' needs label_features, a matrix of shape (n_labels, n_features) in the "
                "feature space of X."
            )
        own = _of_labels(label_features, "label_features", labels)
        return pifa_lf(features, labels, own, alpha=alpha)
    if embedding == "spectral":
        return spectral(labels, seed=seed)
    if embedding == "pii":
        return pii(labels)
    found = pifa_rows(features, labels, _MOST, n_jobs, zeros)
    return compressed(found.indptr, found.indices, found.data, *found.shape, "embeddings", "row")


def _of_labels(matrix: Any, name: str, labels: Csr) -> Csr:
    """A matrix with one row a label."""
    rows = validate.features(matrix, name=name)
    if rows.shape[0] != labels.shape[1]:
        raise DataError(
            f"{name} has shape {rows.shape}, but Y has shape {labels.shape}: one row a label is needed."
        )
    return rows
