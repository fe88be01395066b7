"""The clusters that are solved: kept in memory, or written away in blocks, until their layers are laid out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.errors import ModelError
from sylvan.indexing import LabelTree
from sylvan.parallel import map_parallel
from sylvan.ranking.linear import Collector
from sylvan.runtime.checkpoint import Checkpoint
from sylvan.weights import ClusterRows, ClusterWeights, Layout

__all__ = ["Finished", "FinishedInBlocks", "FinishedInMemory"]

_KIND = "training-block"
_OBJECTS = 800  # bytes that Python takes for a cluster's arrays themselves
_FIELDS = ("features", "lengths", "children", "weights", "intercepts")
_Item = tuple[int, int, ClusterRows]


class Finished(Collector, Protocol):
    """What training asks of the place where solved clusters go."""

    def complete(self, layer: int) -> bool:
        """Whether no cluster of this layer has to be solved any more."""

    def flush(self) -> None:
        """Bring what was put to safety, where there is such a thing."""

    def lay_out(self, layers: Sequence[int]) -> list[ClusterWeights]:
        """These layers, all of whose clusters have been put."""


class FinishedInMemory:
    """Solved clusters as they are."""

    def __init__(self, tree: LabelTree, n_features: int, weight_dtype: str, n_jobs: int = 1) -> None:
        self._tree, self._n_features, self._weight_dtype, self._n_jobs = tree, n_features, weight_dtype, n_jobs
        self._clusters: list[dict[int, ClusterRows]] = [{} for _ in range(tree.depth)]

    def has(self, layer: int, cluster: int) -> bool:
        """Never: nothing outlives a training."""
        return False

    def complete(self, layer: int) -> bool:
        """Never, likewise."""
        return False

    def put(self, layer: int, cluster: int, rows: ClusterRows) -> None:
        """Keep the cluster."""
        self._clusters[layer][cluster] = rows

    def flush(self) -> None:
        """There is nothing to be done."""

    def lay_out(self, layers: Sequence[int]) -> list[ClusterWeights]:
        """The layers, side by side; their clusters are let go."""

        def work(t: int) -> ClusterWeights:
            found, self._clusters[t] = self._clusters[t], {}
            ordered = [found[c] for c in range(len(found))]
            return ClusterWeights.from_clusters(
                ordered, self._tree.child_offsets[t], self._n_features, self._weight_dtype
            )

        return map_parallel(work, layers, self._n_jobs)


class FinishedInBlocks:
    """Solved clusters in the blocks of a checkpoint, those of an interrupted training among them.

    Parameters
    ----------
    checkpoint : Checkpoint
    prefix : str
        Begins the names of this tree's parts.
    tree : LabelTree
    n_features : int
    weight_dtype : str
    zeros, release : callable
        ``zeros(size, dtype)`` gives the arrays in which layers are laid out; ``release()`` is called now and then, when
        what was written to them needn't stay in memory.
    block_bytes : int
        Clusters of about so many bytes are written together.
    seconds : float
        Longest time that solved clusters wait for it.

    Notes
    -----
    Which clusters come together, and in which order, depends on time and threads; the layers don't, as each cluster
    has its place in its layer.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        prefix: str,
        tree: LabelTree,
        n_features: int,
        weight_dtype: str,
        *,
        zeros: Callable[[int, Any], npt.NDArray[Any]],
        release: Callable[[], None],
        block_bytes: int,
        seconds: float,
    ) -> None:
        self._checkpoint, self._prefix, self._tree = checkpoint, f"{prefix}.block", tree
        self._n_features, self._weight_dtype = n_features, weight_dtype
        self._zeros, self._release = zeros, release
        self._block_bytes, self._seconds = block_bytes, seconds
        self._sizes = [np.zeros(len(offsets) - 1, ClusterRows.SIZES) for offsets in tree.child_offsets]
        self._done = [np.zeros(len(offsets) - 1, bool) for offsets in tree.child_offsets]
        self._waiting: list[_Item] = []
        self._bytes, self._due = 0, time.monotonic() + seconds
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._number = 0
        self._layers_of: dict[str, set[int]] = {}
        for name in checkpoint.names(self._prefix):
            self._number = int(name.removeprefix(self._prefix)) + 1
            layers: set[int] = set()
            for t, c, rows in self._read(name):
                self._note(t, c, rows)
                layers.add(t)
            self._layers_of[name] = layers

    def has(self, layer: int, cluster: int) -> bool:
        """Whether the cluster is in a block."""
        return bool(self._done[layer][cluster])

    def complete(self, layer: int) -> bool:
        """Whether all clusters of the layer are in blocks."""
        return bool(self._done[layer].all())

    def put(self, layer: int, cluster: int, rows: ClusterRows) -> None:
        """Keep the cluster until a block is full, or has waited long enough, and is written."""
        with self._lock:
            self._note(layer, cluster, rows)
            self._waiting.append((layer, cluster, rows))
            self._bytes += rows.nbytes + _OBJECTS
            batch = self._take() if self._bytes >= self._block_bytes or time.monotonic() >= self._due else []
        self._write(batch)

    def flush(self) -> None:
        """Write what waits, if anything has been written before; a short training leaves no trace."""
        if self._checkpoint.begun:
            with self._lock:
                batch = self._take()
            self._write(batch)

    def lay_out(self, layers: Sequence[int]) -> list[ClusterWeights]:
        """The layers, from one reading of the blocks."""
        layouts = {
            t: Layout(self._sizes[t], self._tree.child_offsets[t], self._n_features, self._weight_dtype, self._zeros)
            for t in layers
        }
        for name, held in self._layers_of.items():
            if held & layouts.keys():
                self._place(layouts, self._read(name))
        with self._lock:
            waiting = [item for item in self._waiting if item[0] in layouts]
            self._waiting = [item for item in self._waiting if item[0] not in layouts]
        self._place(layouts, waiting)
        return [layouts[t].finish() for t in layers]

    def _place(self, layouts: dict[int, Layout], items: Sequence[_Item] | Iterator[_Item]) -> None:
        for t, c, rows in items:
            if t in layouts:
                layouts[t].place(c, rows)
        self._release()

    def _note(self, t: int, c: int, rows: ClusterRows) -> None:
        self._sizes[t][c], self._done[t][c] = rows.sizes(), True

    def _take(self) -> list[_Item]:
        """What waits; the caller holds the lock."""
        batch, self._waiting, self._bytes = self._waiting, [], 0
        return batch

    def _write(self, batch: list[_Item]) -> None:
        """One block; threads that come with the next ones meanwhile wait here, so that they don't pile up."""
        if not batch:
            return
        with self._writing:
            name = f"{self._prefix}{self._number:06d}"
            sizes = [(t, c, len(rows.features), len(rows.children)) for t, c, rows in batch]
            arrays = {field: np.concatenate([getattr(rows, field) for *_, rows in batch]) for field in _FIELDS}
            self._checkpoint.write(
                name, store.State(_KIND, 1, arrays={"clusters": np.array(sizes, np.int64), **arrays})
            )
            self._number += 1
            self._layers_of[name] = {t for t, *_ in batch}
            self._due = time.monotonic() + self._seconds
            del arrays, batch
            self._release()

    def _read(self, name: str) -> Iterator[_Item]:
        """The clusters of a block; none when it isn't whole."""
        state = self._checkpoint.read(name)
        if state is None:
            return
        try:
            arrays = _checked(state, self._tree)
        except ModelError:
            return
        at = dict.fromkeys(_FIELDS, 0)
        for t, c, n_rows, n_entries in arrays["clusters"].tolist():
            offsets = self._tree.child_offsets[t]
            n_children = int(offsets[c + 1] - offsets[c])
            taken = dict(zip(_FIELDS, (n_rows, n_rows, n_entries, n_entries, n_children), strict=True))
            yield t, c, ClusterRows(*(arrays[field][at[field] : at[field] + taken[field]] for field in _FIELDS))
            for field in _FIELDS:
                at[field] += taken[field]


def _checked(state: store.State, tree: LabelTree) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a block that fit the tree and each other.

    Raises
    ------
    ModelError
        When they don't.
    """
    store.need_kind(state, _KIND)
    clusters = store.need_array(state, "clusters", np.int64, (None, 4))
    widths = np.array([len(offsets) - 1 for offsets in tree.child_offsets])
    layers = clusters[:, 0]
    if (clusters < 0).any() or (layers >= tree.depth).any() or (clusters[:, 1] >= widths[layers % tree.depth]).any():
        raise ModelError(f"{state.where!r} is damaged: it names clusters that the tree hasn't got.")
    children = [int(tree.child_offsets[t][c + 1] - tree.child_offsets[t][c]) for t, c in clusters[:, :2].tolist()]
    n_rows, n_entries = int(clusters[:, 2].sum()), int(clusters[:, 3].sum())
    needs = ((np.int32, n_rows), (np.int32, n_rows), (np.int32, n_entries), (np.float32, n_entries))
    arrays = {
        field: store.need_array(state, field, dtype, (size,))
        for field, (dtype, size) in zip(_FIELDS, (*needs, (np.float32, sum(children))), strict=True)
    }
    return {"clusters": clusters, **arrays}
