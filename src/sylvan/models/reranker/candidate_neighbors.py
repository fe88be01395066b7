"""How near a row's neighbours are that have a candidate."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sylvan import kernels
from sylvan.matching.neighbors import Nearest
from sylvan.ranking.votes import LabelRows

OF_NEIGHBORS = ("similarity", "place", "votes")

_Floats = npt.NDArray[np.float32]
_Ids = npt.NDArray[np.int32]


def neighbor_columns(labels: _Ids, nearest: Nearest, voters: LabelRows) -> _Floats:
    """Of every candidate, the nearest of the row's neighbours that has it, and how many have it."""
    # Shapes: labels (n, k); nearest (n, m); returns (n, k, 3)
    n, k = labels.shape
    result = np.zeros((n * k, len(OF_NEIGHBORS)), np.float32)
    rows, similarities = np.ascontiguousarray(nearest[0]), np.ascontiguousarray(nearest[1])
    kernels.neighbor_columns(np.ascontiguousarray(labels), rows, similarities, voters.offsets, voters.labels, result)
    return result.reshape(n, k, len(OF_NEIGHBORS))
