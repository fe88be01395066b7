"""The clusters of a training that is too large to be run here, by the laws that rows and labels of real sets follow.

- The children of a node have shares of its rows by Zipf's law: frequent labels lie together.
- A row's labels are drawn by these shares, but for a part that lies in the leaf of another of its labels. A row is in a
  cluster when any of its labels is; its search finds further clusters, likewise the frequent ones first.
- A label's embedding, and what is left of a node's weights, grow with the node's rows by a power law.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.indexing.clustering import layer_plan, plan_offsets
from sylvan.ranking.linear import LANES

__all__ = ["HEAPS", "LayerOnPaper", "Shape"]

Floats = npt.NDArray[np.float64]
HEAPS = 0.6  # exponent of a cluster's different features by its rows, as sylvan.models.xr.estimate has it
MOST_VALUES = 1024  # of a label's embedding, as XRLinear keeps them


@dataclass(frozen=True)
class LayerOnPaper:
    """One layer.

    Attributes
    ----------
    rows : ndarray of float64, shape (n_clusters,)
        Training rows of each cluster.
    children : ndarray of int64, shape (n_clusters,)
    positives : float
        Positive rows of all nodes.
    """

    rows: Floats
    children: npt.NDArray[np.int64]
    positives: float

    def costs(self, entries: float) -> Floats:
        """Of each cluster, as :func:`~sylvan.ranking.linear.block_jobs` counts, for rows of so many entries."""
        return np.asarray(self.rows * (entries + 1) * -(-self.children // LANES) + 1.0)


@dataclass(frozen=True)
class Shape:
    """A set and its tree.

    Attributes
    ----------
    n_rows, n_labels, n_columns : int
    labels_per_row, entries : float
        Of a row.
    exponent, skew : float
        Of Zipf's law: for labels, and for the children of a node.
    near : float
        The share of a row's further labels that lie in the leaf of another one.
    found : float
        Clusters that a row is trained on in the last layer with matcher-aware negatives, its own included.
    branching, max_leaf, seed : int
    """

    n_rows: int
    n_labels: int
    n_columns: int
    labels_per_row: float = 5.0
    entries: float = 100.0
    exponent: float = 0.85
    skew: float = 1.0
    near: float = 0.25
    found: float = 6.0
    branching: int = 16
    max_leaf: int = 100
    seed: int = 0

    @property
    def row_bytes(self) -> float:
        """Of a row of features on disk: columns, values, and where it begins."""
        return 8 * self.entries + 8

    @property
    def x_bytes(self) -> float:
        """Of all features."""
        return self.n_rows * self.row_bytes

    @property
    def y_bytes(self) -> float:
        """Of all labels."""
        return self.n_rows * (8 * self.labels_per_row + 8)

    @property
    def n_positives(self) -> float:
        """Labels of all rows."""
        return self.n_rows * self.labels_per_row

    @cached_property
    def plan(self) -> tuple[int, ...]:
        """Nodes of each layer of the tree."""
        return layer_plan(self.n_labels, self.branching, self.max_leaf)

    @property
    def commonest(self) -> float:
        """Rows of the most frequent label."""
        power = 1 - self.exponent
        return self.n_positives / float(((self.n_labels + 0.5) ** power - 0.5**power) / power)

    @cached_property
    def shares(self) -> list[Floats]:
        """Of all positives, by cluster of each layer, the root first."""
        shares, generator = [np.ones(1)], np.random.default_rng(self.seed)
        for offsets in plan_offsets(self.plan)[:-1]:
            n_children = np.diff(offsets)
            ranks = np.arange(offsets[-1]) - np.repeat(offsets[:-1], n_children) + 1
            weights = ranks**-self.skew
            own = np.repeat(shares[-1] / np.add.reduceat(weights, offsets[:-1]), n_children) * weights
            # Which of the siblings is the largest is chance.
            order = np.lexsort((generator.random(len(own)), np.repeat(np.arange(len(n_children)), n_children)))
            shares.append(own[order])
        return shares

    def layers(self, searched: bool) -> list[LayerOnPaper]:
        """All layers, the last one with the rows of a search where it is ``searched``."""
        draws = 1 + (self.labels_per_row - 1) * (1 - self.near)  # of a row, that are independent
        result = []
        for t, (shares, offsets) in enumerate(zip(self.shares, plan_offsets(self.plan), strict=True)):
            last = t == len(self.plan) - 1
            here = draws
            if last and searched and t:
                here = max(draws, _draws_that_find(shares, min(self.found, 0.9 * len(shares))))
            rows = self.n_rows * -np.expm1(here * np.log1p(-np.minimum(shares, 1 - 1e-12)))
            if not t:
                rows = np.array([float(self.n_rows)])
            below = None if last else self.shares[t + 1]
            positives = self.n_positives
            if below is not None:
                positives = float(self.n_rows * -np.expm1(draws * np.log1p(-below)).sum())
            result.append(LayerOnPaper(rows, np.diff(offsets), positives))
        return result

    def embedding_values(self, power: float) -> float:
        """Values of all labels' embeddings: a label has those of its rows to this power, and 1,024 at most."""
        edges = np.unique(np.geomspace(1, self.n_labels + 1, 400).astype(np.int64))
        middle = np.sqrt(edges[:-1] * (edges[1:] - 1.0))
        rows = np.maximum(1.0, self.commonest * middle**-self.exponent)
        each = np.minimum(MOST_VALUES, (rows * self.entries) ** power)
        return float((np.diff(edges) * each).sum())

    def different(self, rows: Any) -> Any:
        """Different features among some rows."""
        return np.minimum(rows * self.entries, self.n_columns * (rows / self.n_rows) ** HEAPS)


def _draws_that_find(shares: Floats, found: float) -> float:
    """How many draws find so many different clusters on average."""
    low, high = 1.0, 2.0
    logs = np.log1p(-np.minimum(shares, 1 - 1e-12))

    def different(draws: float) -> float:
        return float(-np.expm1(draws * logs).sum())

    while different(high) < found and high < 1e9:
        high *= 2
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if different(middle) < found else (low, middle)
    return high
