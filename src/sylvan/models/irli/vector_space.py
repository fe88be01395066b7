"""Vectors as an index works with them: verified, and of unit length where only angles count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import validate
from sylvan.errors import DataError

__all__ = ["FARTHEST", "Vectors", "comparable", "indicator", "kept", "need_directions"]

_ROWS = 1 << 14  # converted at once
FARTHEST = {"euclidean": np.inf, "angular": np.inf, "inner_product": -np.inf}  # the distance of no vector at all

Vectors = npt.NDArray[np.float32]


def comparable(vectors: Any, metric: str, **checks: Any) -> Vectors:
    """What a user gave as vectors, verified, and scaled to length one where only their angles count.

    Raises
    ------
    DataError
        As :func:`sylvan.validate.vectors`, and for a vector of zeros under the angular metric.
    """
    rows = validate.vectors(vectors, **checks)
    if metric != "angular":
        return rows
    unit = np.empty_like(rows)
    for part, lengths in _lengths(rows, checks.get("name", "vectors")):
        unit[part] = rows[part] / lengths[:, None]
    return unit


def need_directions(rows: Vectors, metric: str, name: str) -> None:
    """Refuse, under the angular metric, what :func:`comparable` would refuse.

    Raises
    ------
    DataError
        For a vector of zeros.
    """
    if metric == "angular":
        for _ in _lengths(rows, name):
            pass


def _lengths(rows: Vectors, name: str) -> Iterator[tuple[slice, npt.NDArray[np.float64]]]:
    """The vectors' lengths, some rows at a time."""
    for start in range(0, len(rows), _ROWS):
        block = rows[start : start + _ROWS].astype(np.float64)  # squares of small values vanish in float32
        lengths = np.sqrt(np.einsum("ij,ij->i", block, block))
        if not lengths.all():
            raise DataError(
                f"{name} holds only zeros in row {start + int(np.argmin(lengths))}: such a vector has no direction, "
                "and metric='angular' compares directions."
            )
        yield slice(start, start + len(block)), lengths


def kept(rows: Vectors, given: Any) -> Vectors:
    """``rows`` to be kept: a copy where they are what a user gave and may change; what is mapped for reading isn't."""
    plain: Vectors = rows.view(np.ndarray)  # not NumPy's own class of mapped arrays, whose every slice is another such
    theirs = isinstance(given, np.ndarray) and np.may_share_memory(plain, given)
    if theirs and plain.flags.writeable:
        plain = plain.copy()
    return plain


def indicator(ids: npt.NDArray[np.integer[Any]], n_columns: int) -> validate.Csr:
    """Rows of ids, -1 where there is none, as a matrix of ones; an id named twice in a row counts once."""
    rows, at = np.nonzero(ids >= 0)
    keys = np.unique(rows * np.int64(n_columns) + ids[rows, at])
    indptr = np.concatenate(([0], np.cumsum(np.bincount(keys // n_columns, minlength=len(ids))))).astype(np.int64)
    columns = (keys % n_columns).astype(np.int32)
    return validate.Csr(indptr, columns, np.ones(len(keys), np.float32), (len(ids), n_columns))
