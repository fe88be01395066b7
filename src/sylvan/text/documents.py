"""What a caller gives as texts, checked; results of chunks of them, stored and joined in little memory."""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import kernels
from sylvan.arrays.frames import texts_of
from sylvan.errors import DataError
from sylvan.params.wording import counted

_Scalar = TypeVar("_Scalar", bound=np.generic)

MOST_CHARACTERS = 1 << 30  # of one document


def as_documents(texts: Iterable[str]) -> tuple[str, ...]:
    """The documents as a tuple of strings, which can't change while kernels read them."""
    if isinstance(texts, (str, bytes)):
        raise DataError(
            f"texts must be a list of strings, one a document, but is a single {type(texts).__name__}. "
            "Put it in a list."
        )
    texts = texts_of(texts)
    if sp.issparse(texts):
        raise DataError("texts must be a list of strings, one a document, but is a sparse matrix.")
    try:
        documents = tuple(texts)
    except TypeError:
        raise DataError(
            f"texts must be a list of strings, one a document, but is of type {type(texts).__name__}."
        ) from None
    bad = kernels.tfidf_first_non_text(documents)
    if bad >= 0:
        kind = type(documents[bad]).__name__
        hint = {"bytes": " Decode it first.", "NoneType": " Use '' for a text that is missing."}
        raise DataError(f"Document {bad} of texts must be a str, but is of type {kind}.{hint.get(kind, '')}")
    if documents:
        long = 0 if len(documents) == 1 else int(np.argmax(kernels.tfidf_text_lengths(documents)))
        if len(documents[long]) > MOST_CHARACTERS:
            raise DataError(
                f"Document {long} of texts has {counted(len(documents[long]), 'character')}; no more than "
                f"{MOST_CHARACTERS} are possible."
            )
    return documents


def apart(array: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
    """A copy in pages of its own, which go back to the system when it is let go; freed heap memory seldom does."""
    if not array.nbytes:
        return array
    pages = mmap.mmap(-1, array.nbytes)
    copy: npt.NDArray[_Scalar] = np.ndarray(array.shape, array.dtype, pages)
    copy[:] = array
    return copy


def stacked_rows(parts: list[tuple[Any, Any, Any]]) -> tuple[Any, Any, Any]:
    """One matrix of consecutive parts, which are let go one by one."""
    starts = np.cumsum([0, *(len(part[1]) for part in parts)])
    indices = np.empty(starts[-1], dtype=np.int32)
    data = np.empty(starts[-1], dtype=np.float32)
    indptr = np.concatenate(
        [np.zeros(1, dtype=np.int64), *(part[0][1:] + start for part, start in zip(parts, starts, strict=False))]
    )
    for i, (start, stop) in enumerate(pairwise(starts)):
        indices[start:stop], data[start:stop] = parts[i][1], parts[i][2]
        parts[i] = (None, None, None)
    return indptr, indices, data
