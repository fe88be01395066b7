"""A layer of which some clusters have other weights: what nothing has changed for is copied as it lies."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sylvan.weights.layer import ClusterRows, ClusterWeights, Layout
from sylvan.weights.quantized import encode


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
    """A layer with other weights in some clusters."""
    # Shapes: came_from (n_clusters,); child_offsets (n_clusters + 1,); codebook (256,)
    runs = list(runs_between(changed, len(came_from)))
    sizes = np.zeros(len(came_from), ClusterRows.SIZES)
    sizes["rows"], sizes["entries"] = np.diff(layer.row_offsets)[came_from], np.diff(layer.entry_offsets)[came_from]
    sizes["least"] = np.inf
    for c, cluster in changed.items():
        sizes[c] = cluster.sizes(layer.weight_dtype)
    coded = layer.weight_dtype == "uint8" and layer.codebook is not None
    if coded and codebook is None:  # all weights settle it
        for first, last in runs:
            sizes["least"][first], sizes["largest"][first] = _extremes(layer, came_from[first], came_from[last - 1] + 1)
    layout = Layout(sizes, child_offsets, n_features, layer.weight_dtype, codebook=codebook)
    for c, cluster in changed.items():
        layout.place(c, cluster)
    copies = layout.copies(layer)
    if coded and copies and layout.codebook is not layer.codebook:
        codes = encode(layer.codebook, layout.codebook)  # type: ignore[arg-type]  # both have one
        layer = replace(layer, values=codes[layer.values], codebook=layout.codebook)
    for first, last in runs:
        begin = int(came_from[first])
        if copies:
            layout.copy(first, layer, range(begin, begin + last - first))
        else:
            for c in range(first, last):
                layout.place(c, layer.sound_cluster(int(came_from[c])))
    return layout.finish()


def _extremes(layer: ClusterWeights, first: int, last: int) -> tuple[float, float]:
    """The least and the largest magnitude of some clusters' weights that are bytes."""
    codes = layer.values[int(layer.entry_offsets[first]) : int(layer.entry_offsets[last])]
    assert layer.codebook is not None
    magnitudes = np.abs(layer.codebook[np.flatnonzero(np.bincount(codes, minlength=len(layer.codebook)))])
    return float(magnitudes.min(initial=np.inf)), float(magnitudes.max(initial=0))
