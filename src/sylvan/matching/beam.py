"""Beam search down the label tree (PECOS Algorithm 2 and Section 2.5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sylvan import kernels
from sylvan.parallel import map_parallel, split_ranges
from sylvan.topk import TopK
from sylvan.validate import Csr
from sylvan.weights import ClusterWeights

__all__ = ["COMBINES", "next_beam", "rank", "root_beam"]

COMBINES = {"ranker": 0, "l3_hinge": 1, "sigmoid": 2}
HINGE_POWER = 3.0  # p of Eq. 13
ROWS = 4096  # rows a thread takes at a time: clusters are unpacked once for all of them

Beam = tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]


def root_beam(n_rows: int) -> Beam:
    """The root alone, with score 0 (the logarithm of 1), for every row."""
    return np.zeros((n_rows, 1), np.int32), np.zeros((n_rows, 1), np.float32)


def next_beam(features: Csr, weights: ClusterWeights, above: Beam, width: int, combine: str, n_jobs: int = 1) -> Beam:
    """The ``width`` best children of the clusters in ``above``: node ids and scores, shape (n, width), best first."""
    n_rows = features.shape[0]
    width = min(width, len(weights.intercepts))
    nodes, scores = np.empty((n_rows, width), np.int32), np.empty((n_rows, width), np.float32)

    def search(rows: tuple[int, int]) -> None:
        kernels.search_layer(
            weights.layer, features.indptr, features.indices, features.data, *rows, *above, COMBINES[combine],
            HINGE_POWER, nodes, scores,
        )  # fmt: skip

    map_parallel(search, _shares(n_rows, n_jobs), n_jobs)
    return nodes, scores


def rank(
    features: Csr,
    layers: Sequence[ClusterWeights],
    leaf_labels: npt.NDArray[np.int32],
    *,
    k: int,
    beam: int,
    combines: Sequence[str],
    n_copies: int = 1,
    n_jobs: int = 1,
    description: str | None = None,
) -> TopK:
    """The ``k`` best labels of each row among those that a beam of ``beam`` clusters a layer reaches.

    ``combines`` says for each layer how its scores join those above; ``n_copies`` is the most leaves of any label.
    The scores of the product rules are exponentiated, those of ``"ranker"`` are the last ranker's own.
    """
    n_rows = features.shape[0]
    labels, scores = np.empty((n_rows, k), np.int32), np.empty((n_rows, k), np.float32)
    handles = [weights.layer for weights in layers]
    how = [COMBINES[combine] for combine in combines]
    exponentiate = combines[-1] != "ranker"

    def search(rows: tuple[int, int]) -> None:
        kernels.rank(
            handles, features.indptr, features.indices, features.data, *rows, beam, how, HINGE_POWER, leaf_labels,
            n_copies, exponentiate, labels, scores,
        )  # fmt: skip

    if n_rows == 1:  # a single query has no work to share and no bar to draw
        search((0, 1))
    else:
        map_parallel(search, _shares(n_rows, n_jobs), n_jobs, description=description)
    return TopK(labels, scores)


def _shares(n_rows: int, n_jobs: int) -> list[tuple[int, int]]:
    return split_ranges(n_rows, min(ROWS, max(256, -(-n_rows // n_jobs))))
