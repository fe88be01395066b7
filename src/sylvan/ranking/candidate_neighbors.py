"""How near a row's neighbours are that have a candidate."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sylvan import kernels
from sylvan.matching.neighbors import Nearest
from sylvan.ranking.votes import LabelRows

__all__ = ["OF_NEIGHBORS", "neighbor_columns"]

OF_NEIGHBORS = ("similarity", "place", "votes")

_Floats = npt.NDArray[np.float32]
_Ids = npt.NDArray[np.int32]


def neighbor_columns(labels: _Ids, nearest: Nearest, voters: LabelRows) -> _Floats:
    """Of every candidate, the nearest of the row's neighbours that has it, and how many have it.

    Parameters
    ----------
    labels : ndarray of int32, shape (n, k)
        Candidates, each once in a row; -1 where there is none.
    nearest : pair of ndarrays of int32 and float32, shape (n, m)
        The training rows nearest to each row, nearest first, and their similarities, above 0; -1 where there are no
        more.
    voters : LabelRows
        The labels of the training rows.

    Returns
    -------
    ndarray of float32, shape (n, k, 3)
        Zeros where there is no candidate, or no neighbour has it. The ``similarity`` of the nearest neighbour that has
        the label; its ``place``, as 1 over the place from 1; ``votes``, how many neighbours have the label.
    """
    n, k = labels.shape
    result = np.zeros((n * k, len(OF_NEIGHBORS)), np.float32)
    rows, similarities = np.ascontiguousarray(nearest[0]), np.ascontiguousarray(nearest[1])
    kernels.neighbor_columns(
        np.ascontiguousarray(labels), rows, similarities, voters.offsets, voters.labels, result
    )
    return result.reshape(n, k, len(OF_NEIGHBORS))
