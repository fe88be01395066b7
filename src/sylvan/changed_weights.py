"""A layer of which some clusters have other weights: what nothing has changed for is copied as it lies."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from sylvan.weights import ClusterRows, ClusterWeights, Layout

__all__ = ["runs_between", "with_clusters"]


def runs_between(changed: Iterable[int], n_clusters: int) -> Iterator[tuple[int, int]]:
    """Where the clusters that aren't changed begin and end, run by run: [2, 3] of 6 gives (0, 2) and (4, 6)."""
    for before, after in itertools.pairwise((-1, *sorted(changed), n_clusters)):
        if before + 1 < after:
            yield before + 1, after


def with_clusters(
    layer: ClusterWeights,
    changed: Mapping[int, ClusterRows],
    came_from: npt.NDArray[np.int32],
    child_offsets: npt.NDArray[np.int64],
    n_features: int,
    codebook: npt.NDArray[np.float32] | None,
) -> ClusterWeights:
    """A layer with other weights in some clusters.

    Parameters
    ----------
    layer : ClusterWeights
    changed : mapping of int to ClusterRows
        By the clusters' numbers in the new layer.
    came_from : ndarray of int32, shape (n_clusters,)
        The number that each cluster of the new layer has in this one; of those that aren't ``changed``, consecutive
        ones are consecutive here.
    child_offsets : ndarray of int64, shape (n_clusters + 1,)
        Of the new layer.
    n_features : int
        Likewise.
    codebook : ndarray of float32, shape (256,), or None
        Of weights that are bytes; without one, it is made anew.

    Raises
    ------
    ModelError
        When the layer is that of a damaged model.
    """
    runs = list(runs_between(changed, len(came_from)))
    sizes = np.zeros(len(came_from), ClusterRows.SIZES)
    sizes["rows"], sizes["entries"] = np.diff(layer.row_offsets)[came_from], np.diff(layer.entry_offsets)[came_from]
    for c, cluster in changed.items():
        sizes[c] = cluster.sizes(layer.weight_dtype)
    if layer.weight_dtype == "uint8" and codebook is None:  # all weights settle it
        for c in itertools.chain.from_iterable(range(*run) for run in runs):
            sizes[c] = layer.sound_cluster(int(came_from[c])).sizes("uint8")
    layout = Layout(sizes, child_offsets, n_features, layer.weight_dtype, codebook=codebook)
    for c, cluster in changed.items():
        layout.place(c, cluster)
    copies = layout.copies(layer)
    for first, last in runs:
        begin = int(came_from[first])
        if copies:
            layout.copy(first, layer, range(begin, begin + last - first))
        else:
            for c in range(first, last):
                layout.place(c, layer.sound_cluster(int(came_from[c])))
    return layout.finish()
