"""Names of labels to their ids."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from sylvan.errors import DataError
from sylvan.labels.names import similar_names
from sylvan.labels.vocabulary import Numbers, Vocabulary
from sylvan.params.wording import counted


def ids_of_names(labels: Any, vocabulary: Vocabulary, name: str) -> Any:
    """``labels`` with every string replaced by its id in ``vocabulary``; ids and masks are left as they are. Where the
    labels are :class:`Numbers`, an int is a name too."""
    if labels is None or isinstance(labels, str | bytes) or sp.issparse(labels) or not isinstance(labels, Iterable):
        return labels
    kinds = "OUSiu" if isinstance(vocabulary, Numbers) else "OUS"
    if hasattr(labels, "dtype") and getattr(labels.dtype, "kind", "O") not in kinds:
        return labels

    def refusal(item: str) -> str:
        return f"{name} holds {item!r}, but none of the model's {counted(len(vocabulary), 'label')} has that name."

    listed = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    return [
        [_id(item, vocabulary, refusal) for item in row] if isinstance(row, list | tuple | set | np.ndarray)
        else _id(row, vocabulary, refusal)
        for row in listed
    ]  # fmt: skip


def find_label(label: Any, n_labels: int, names: Any = None) -> int:
    """The id of a label that is given by name or id."""
    if names is not None and not callable(names):
        known = names if isinstance(names, Vocabulary) else Vocabulary.verbatim(map(str, names))
        label = _id(label, known, lambda name: f"There is no label {name!r} among the {n_labels} of this model.")
    elif isinstance(label, str):
        raise DataError(f"The label must be an id in [0, {n_labels}), as this model knows no names. Got {label!r}.")
    whole = isinstance(label, numbers.Integral) and not isinstance(label, bool)
    if not whole or not 0 <= int(label) < n_labels:
        raise DataError(f"The label must be an id in [0, {n_labels}). Got {label!r} instead.")
    return int(label)


def _id(item: Any, vocabulary: Vocabulary, refusal: Callable[[str], str]) -> Any:
    """The id of a name; anything else as it is. Of a name that no label has, ``refusal`` is said, and similar ones."""
    if isinstance(vocabulary, Numbers) and isinstance(item, numbers.Integral) and not isinstance(item, bool):
        item = str(item)
    if not isinstance(item, str):
        return item
    result = vocabulary.get(item)
    if result is None:
        near = similar_names(item, vocabulary)
        guess = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise DataError(f"{refusal(item)}{guess}")
    return result
