"""What classes are like by what comes before them: a few numbers for each, from which a tree of classes is made."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

__all__ = ["context_centers"]


def context_centers(
    before: npt.NDArray[Any], targets: npt.NDArray[Any], n_classes: int, dim: int = 64
) -> npt.NDArray[np.float32]:
    """Classes with like vectors follow on like things.

    For every class it is counted what came before it; the roots of the shares of each, seen from the directions in
    which classes differ most, are its vector.

    Parameters
    ----------
    before : ndarray of int, shape (n, m)
        The ids in [0, n_classes) at m places before each target, or negative ones where nothing is; places count each
        by itself.
    targets : ndarray of int, shape (n,)
    n_classes : int
    dim : int
        The most numbers of a vector.

    Returns
    -------
    ndarray of float32, shape (n_classes, dim or fewer)
        Zeros for a class that is no target.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan.tasks.contexts import context_centers
    >>> centers = context_centers(np.array([[0], [0], [1], [1]]), np.array([2, 3, 4, 4]), n_classes=5)
    >>> bool(np.allclose(centers[2], centers[3])), bool(np.allclose(centers[2], centers[4]))
    (True, False)
    """
    places = before.shape[1]
    real = before >= 0
    columns = (before.astype(np.int64) + n_classes * np.arange(places))[real]
    rows = np.broadcast_to(targets[:, None], before.shape)[real]
    counts = sp.csr_matrix(
        (np.ones(len(rows), np.float64), (rows, columns)), shape=(n_classes, places * n_classes)
    )  # repeated ones are summed
    sums = np.maximum(np.asarray(counts.sum(axis=1)).ravel(), 1.0)
    shares = (sp.diags(1 / sums) @ counts).sqrt().tocsr()
    dim = min(dim, n_classes)
    # A randomised look at the rows' space and two steps towards its main directions: the same bits every time.
    basis = shares @ np.random.default_rng(0).standard_normal((shares.shape[1], dim))
    for _ in range(2):
        basis = shares @ (shares.T @ np.linalg.qr(basis)[0])
    directions = np.linalg.qr(shares.T @ np.linalg.qr(basis)[0])[0]
    found: npt.NDArray[np.float32] = (shares @ directions).astype(np.float32)
    return found
