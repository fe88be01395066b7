"""Names of labels to their ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from sylvan.errors import DataError
from sylvan.labels.names import similar_names
from sylvan.labels.vocabulary import Numbers, Vocabulary
from sylvan.wording import counted

__all__ = ["ids_of_names"]


def ids_of_names(labels: Any, vocabulary: Vocabulary, name: str) -> Any:
    """``labels`` with every string replaced by its id in ``vocabulary``; ids and masks are left as they are. Where the
    labels are :class:`Numbers`, an int is a name too."""
    if labels is None or isinstance(labels, str | bytes) or sp.issparse(labels) or not isinstance(labels, Iterable):
        return labels
    kinds = "OUSiu" if isinstance(vocabulary, Numbers) else "OUS"
    if hasattr(labels, "dtype") and getattr(labels.dtype, "kind", "O") not in kinds:
        return labels
    listed = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    return [
        [_id(item, vocabulary, name) for item in row] if isinstance(row, list | tuple | set | np.ndarray)
        else _id(row, vocabulary, name)
        for row in listed
    ]  # fmt: skip


def _id(item: Any, vocabulary: Vocabulary, name: str) -> Any:
    if isinstance(vocabulary, Numbers) and isinstance(item, int | np.integer) and not isinstance(item, bool):
        item = str(item)
    if not isinstance(item, str):
        return item
    result = vocabulary.get(item)
    if result is not None:
        return result
    near = similar_names(item, vocabulary, 1)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    raise DataError(
        f"{name} holds {item!r}, but none of the model's {counted(len(vocabulary), 'label')} has that name.{guess}"
    )
