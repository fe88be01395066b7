"""The papers' indexing matrices C: where the nodes and labels of a tree stand that they describe, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.errors import DataError
from sylvan.indexing.shape import MAX_NODES, Placement

__all__ = ["matrices_of_placement", "placement_of_matrices"]


def placement_of_matrices(
    matrices: Sequence[sp.spmatrix | sp.sparray],
) -> tuple[tuple[npt.NDArray[np.int64], ...], npt.NDArray[np.int32], int]:
    """Child offsets, leaf labels and the number of labels; see :meth:`sylvan.LabelTree.from_matrices`."""
    chain = [_columns(matrix, t) for t, matrix in enumerate(matrices)]
    if not chain:
        raise DataError("A label tree needs at least one indexing matrix. Got none.")
    if chain[0].shape[1] != 1:
        chain.insert(0, sp.csc_matrix(np.ones((chain[0].shape[1], 1), np.float32)))
    for t in range(1, len(chain)):
        if chain[t].shape[1] != chain[t - 1].shape[0]:
            raise DataError(
                f"Indexing matrices must chain: matrix {t} has shape {chain[t].shape}, so the one above "
                f"it must have {chain[t].shape[1]} rows. Got shape {chain[t - 1].shape} instead."
            )
    offsets, leaf_labels = _numbered(_without_empty_nodes(chain))
    return offsets, leaf_labels, int(chain[-1].shape[0])


def matrices_of_placement(
    child_offsets: tuple[npt.NDArray[np.int64], ...], leaf_labels: npt.NDArray[np.int32], n_labels: int
) -> list[sp.csc_matrix]:
    """The matrices from the root down, float32; the last has shape (n_labels, n_clusters)."""
    chain = []
    for t, offsets in enumerate(child_offsets):
        last = t == len(child_offsets) - 1
        rows = leaf_labels if last else np.arange(offsets[-1], dtype=np.int32)
        shape = (n_labels if last else int(offsets[-1]), offsets.size - 1)
        rows = np.concatenate([np.sort(part) for part in np.split(rows, offsets[1:-1])]) if last else rows
        matrix = sp.csc_matrix((np.ones(rows.size, np.float32), rows, offsets.copy()), shape=shape)
        chain.append(matrix)
    return chain


def _columns(matrix: Any, t: int) -> sp.csc_matrix:
    """``matrix`` as CSC without explicit zeros and repeated entries, the caller's own left as it is."""
    if not sp.issparse(matrix):
        matrix = np.atleast_2d(np.asarray(matrix))
        if matrix.dtype.kind not in "biuf" or matrix.ndim != 2:
            raise DataError(f"Indexing matrix {t} must be a two-dimensional matrix of numbers.")
    columns = sp.csc_matrix(matrix, copy=True)
    columns.sum_duplicates()
    columns.eliminate_zeros()
    return columns


def _without_empty_nodes(chain: list[sp.csc_matrix]) -> list[sp.csc_matrix]:
    """The chain without the links to nodes that have no label below them."""
    links = [chain[-1]]
    for above in reversed(chain[:-1]):
        alive = np.diff(links[0].indptr) > 0
        keep = alive[above.indices]
        counts = np.concatenate(([0], np.cumsum(keep)))
        links.insert(0, sp.csc_matrix((above.data[keep], above.indices[keep], counts[above.indptr]), shape=above.shape))
    return links


def _numbered(chain: list[sp.csc_matrix]) -> Placement:
    """Number the nodes from the root down so that siblings are contiguous."""
    ids = np.zeros(1, np.int64)
    offsets = []
    for matrix in chain:
        starts, ends = matrix.indptr[ids].astype(np.int64), matrix.indptr[ids + 1].astype(np.int64)
        layer = np.concatenate(([0], np.cumsum(ends - starts)))
        if layer[-1] > MAX_NODES:
            raise DataError(f"The indexing matrices make a layer of more than {MAX_NODES} nodes.")
        ids = matrix.indices[np.arange(layer[-1]) + np.repeat(starts - layer[:-1], ends - starts)]
        offsets.append(layer)
    n_labels = int(chain[-1].shape[0])
    missing = np.flatnonzero(np.bincount(ids, minlength=n_labels) == 0)
    if missing.size:
        raise DataError(
            f"The indexing matrices leave {missing.size} of {n_labels} labels in no cluster; "
            f"the first is label {missing[0]}."
        )
    return tuple(offsets), ids.astype(np.int32)
