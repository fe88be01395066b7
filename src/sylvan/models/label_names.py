"""Labels by name: from a caller's names to ids, and from ids to names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sylvan.data import Vocabulary
from sylvan.errors import DataError
from sylvan.topk import TopK

__all__ = ["NamedTopK", "ids_of_names", "names_for", "rows_of_names"]

_COMPARED = 200_000  # names among which a like one is looked for; more would take seconds


@dataclass(frozen=True)
class NamedTopK(TopK):
    """A :class:`~sylvan.TopK` whose labels have names.

    Attributes
    ----------
    labels : ndarray of int32, shape (n, k)
    scores : ndarray of float32, shape (n, k)
    names : list of list of str
        The label names of each row, best first; shorter than k where there are fewer answers.
    """

    vocabulary: Vocabulary

    @cached_property
    def names(self) -> list[list[str]]:  # type: ignore[override]  # here the vocabulary is known already
        return TopK.names(self, self.vocabulary)


def ids_of_names(labels: Any, vocabulary: Vocabulary, name: str) -> Any:
    """``labels`` with every string replaced by its id in ``vocabulary``; ids and masks are left as they are.

    Parameters
    ----------
    labels : list of str or int, list of such lists, or anything else
        Strings are names, ints are label ids.
    vocabulary : Vocabulary
    name : str
        What the errors call ``labels``.

    Raises
    ------
    DataError
        For a name that the vocabulary doesn't have, with one that is like it.

    Examples
    --------
    >>> from sylvan.data import Vocabulary
    >>> from sylvan.models.label_names import ids_of_names
    >>> ids_of_names(["sea", 0], Vocabulary(["whaling", "sea"]), "allowed")
    [1, 0]
    """
    if labels is None or isinstance(labels, str | bytes) or sp.issparse(labels) or not isinstance(labels, Iterable):
        return labels
    if hasattr(labels, "dtype") and getattr(labels.dtype, "kind", "O") not in "OUS":
        return labels
    listed = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    return [
        [_id(item, vocabulary, name) for item in row] if isinstance(row, list | tuple | set | np.ndarray)
        else _id(row, vocabulary, name)
        for row in listed
    ]  # fmt: skip


def _id(item: Any, vocabulary: Vocabulary, name: str) -> Any:
    if not isinstance(item, str):
        return item
    found = vocabulary.get(item)
    if found is not None:
        return found
    near = difflib.get_close_matches(item, list(vocabulary), n=1) if len(vocabulary) <= _COMPARED else []
    guess = f" Did you mean {near[0]!r}?" if near else ""
    raise DataError(f"{name} holds {item!r}, but none of the model's {len(vocabulary)} labels has that name.{guess}")


def names_for(model: Any, vocabulary: Vocabulary) -> dict[str, Vocabulary]:
    """What a text model's own model is told of its labels' names: nothing, unless parameters of it may hold names."""
    return {"class_names": vocabulary} if getattr(model, "takes_class_names", False) else {}


def rows_of_names(Y: Any) -> list[Any] | None:
    """``Y`` as a list when its labels are strings, one or several a row; None for ids and matrices.

    Examples
    --------
    >>> from sylvan.models.label_names import rows_of_names
    >>> rows_of_names([[], ["sea"]]), rows_of_names([[], [0]])
    ([[], ['sea']], None)
    """
    if sp.issparse(Y) or isinstance(Y, str | bytes) or not hasattr(Y, "__len__") or not hasattr(Y, "__iter__"):
        return None
    if hasattr(Y, "__array__") and (np.ndim(Y) != 1 or np.asarray(Y).dtype.kind not in "OU"):
        return None
    listed = np.asarray(Y).tolist() if hasattr(Y, "__array__") else list(Y)
    for row in listed:
        if isinstance(row, str):
            return listed
        first = next(iter(row), None) if isinstance(row, Iterable) else row
        if isinstance(first, tuple | list) and len(first) == 2:  # a label and its relevance
            first = first[0]
        if first is not None:
            return listed if isinstance(first, str) else None
    return None
