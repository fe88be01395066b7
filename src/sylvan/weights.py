"""ClusterWeights: one layer's weights, per cluster, rows keyed by feature; matching reads it, ranking makes it.

Entries (child number, weight) of a cluster lie together, feature after feature. Features are cut into blocks of
``2 ** block_bits``; a cluster stores where each block's rows and entries begin, and a row only the low bits of its
feature (its key) and its length. A weight is a float, or one byte that points into a codebook whose magnitudes
grow by a constant factor, so that a small weight is rounded as little as a large one. Everything is offsets: a
memory-mapped file is used as it lies on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sylvan import kernels, store
from sylvan.errors import ModelError

__all__ = ["WEIGHT_DTYPES", "ClusterRows", "ClusterWeights", "Layout", "laid_out_bytes"]

WEIGHT_DTYPES = ("uint8", "float16", "float32")
KEY_PADDING = 16  # lookups compare 16 keys at once and may read past a cluster's last
ROWS_PER_BLOCK = 8  # aimed at: one comparison finds the row, and the starts stay small beside the rows
LEAST_RATIO = 1e-5  # magnitudes below this part of the largest share the codebook's least


@dataclass(frozen=True)
class ClusterRows:
    """One cluster's weights as rows: feature ids (rising), entries a row, child numbers (rising in a row), weights."""

    features: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int32]
    children: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32]
    intercepts: npt.NDArray[np.float32]

    # What a layer's layout depends on before any of its clusters is placed.
    SIZES: ClassVar[Any] = np.dtype([("rows", "<i8"), ("entries", "<i8"), ("least", "<f4"), ("largest", "<f4")])

    def sizes(self) -> tuple[int, int, float, float]:
        """Rows, entries, and the least and largest magnitude of a weight: one item of dtype :attr:`SIZES`."""
        magnitudes = np.abs(self.weights)
        least, largest = magnitudes.min(initial=np.inf), magnitudes.max(initial=0)
        return len(self.features), len(self.children), float(least), float(largest)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        arrays = (self.features, self.lengths, self.children, self.weights, self.intercepts)
        return sum(array.nbytes for array in arrays)


@dataclass(frozen=True, eq=False)
class ClusterWeights:
    """One layer's weights.

    Attributes
    ----------
    n_features, block_bits : int
    child_offsets : ndarray of int64, shape (n_clusters + 1,)
        Cluster c's children are nodes ``child_offsets[c]`` to ``child_offsets[c + 1] - 1`` of the layer.
    row_offsets, entry_offsets : ndarray of int64, shape (n_clusters + 1,)
    block_starts : ndarray of uint32, shape (n_clusters * (n_blocks + 1) * 2,)
        First row and first entry of each block, counted within the cluster.
    keys : ndarray of uint8 or uint16, shape (n_rows + 16,)
    lengths : ndarray, shape (n_rows + 16,), dtype as ``children``
        Entries of each row, less one.
    children : ndarray of uint8, uint16 or uint32, shape (n_entries,)
        Child number within the cluster.
    values : ndarray of uint8, float16 or float32, shape (n_entries,)
        Codes into ``codebook``, or weights.
    codebook : ndarray of float32, shape (256,), or None
    intercepts : ndarray of float32, shape (n_nodes,)
    """

    n_features: int
    block_bits: int
    child_offsets: npt.NDArray[np.int64]
    row_offsets: npt.NDArray[np.int64]
    entry_offsets: npt.NDArray[np.int64]
    block_starts: npt.NDArray[np.uint32]
    keys: npt.NDArray[Any]
    lengths: npt.NDArray[Any]
    children: npt.NDArray[Any]
    values: npt.NDArray[Any]
    codebook: npt.NDArray[np.float32] | None
    intercepts: npt.NDArray[np.float32]
    layer: Any = field(init=False, default=None)  # the same arrays as the kernels see them

    def __post_init__(self) -> None:
        values = self.values.view(np.uint16) if self.values.dtype == np.float16 else self.values
        layer = kernels.Layer(
            self.n_features, self.block_bits, self.child_offsets, self.row_offsets, self.entry_offsets,
            self.block_starts, self.keys, self.lengths, self.children, values, self.codebook, self.intercepts,
        )  # fmt: skip
        object.__setattr__(self, "layer", layer)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "layer"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    @property
    def n_entries(self) -> int:
        """Number of stored weights."""
        return int(self.children.size)

    @classmethod
    def from_clusters(
        cls,
        clusters: Sequence[ClusterRows],
        child_offsets: npt.NDArray[np.int64],
        n_features: int,
        weight_dtype: str = "uint8",
    ) -> ClusterWeights:
        """Lay the clusters' rows out; with ``weight_dtype="uint8"`` weights are rounded to a codebook."""
        sizes = np.array([cluster.sizes() for cluster in clusters], ClusterRows.SIZES)
        layout = Layout(sizes, child_offsets, n_features, weight_dtype)
        for c, cluster in enumerate(clusters):
            layout.place(c, cluster)
        return layout.finish()

    def cluster(self, c: int) -> ClusterRows:
        """Cluster ``c``'s rows, unpacked: what the kernels compute with."""
        rows = slice(int(self.row_offsets[c]), int(self.row_offsets[c + 1]))
        entries = slice(int(self.entry_offsets[c]), int(self.entry_offsets[c + 1]))
        starts = self.block_starts.reshape(len(self.row_offsets) - 1, -1, 2)[c]
        blocks = np.repeat(np.arange(len(starts) - 1, dtype=np.int64), np.diff(starts[:, 0].astype(np.int64)))
        values = self.values[entries]
        return ClusterRows(
            ((blocks << self.block_bits) + self.keys[rows]).astype(np.int32),
            self.lengths[rows].astype(np.int32) + np.int32(1),
            self.children[entries].astype(np.int32),
            (values.astype(np.float32) if self.codebook is None else self.codebook[values]).astype(np.float32),
            self.intercepts[int(self.child_offsets[c]) : int(self.child_offsets[c + 1])],
        )

    def to_arrays(self, prefix: str) -> dict[str, npt.NDArray[Any]]:
        """The arrays to store, named with ``prefix``; ``child_offsets`` belong to the tree."""
        names = ["row_offsets", "entry_offsets", "block_starts", "keys", "lengths", "children", "values", "intercepts"]
        arrays = {f"{prefix}.{name}": getattr(self, name) for name in names}
        if self.codebook is not None:
            arrays[f"{prefix}.codebook"] = self.codebook
        return arrays

    @classmethod
    def from_arrays(
        cls, state: store.State, prefix: str, child_offsets: npt.NDArray[np.int64], n_features: int, block_bits: int
    ) -> ClusterWeights:
        """What :meth:`to_arrays` stored.

        The sizes of all arrays and the offsets of the clusters are verified here. The starts, keys, lengths and
        child numbers inside a cluster are compared with these by the kernels wherever they use them, so that a
        mapped model of any size opens in milliseconds.

        Raises
        ------
        ModelError
            When an array is missing, or its dtype, size or offsets are wrong.
        """
        n_clusters, n_nodes = len(child_offsets) - 1, int(child_offsets[-1])
        child_types = (np.uint8, np.uint16, np.uint32)

        def need(name: str, dtype: Any, size: int | None) -> npt.NDArray[Any]:
            return store.need_array(state, f"{prefix}.{name}", dtype, (size,))

        row_offsets = store.need_offsets(state, f"{prefix}.row_offsets", length=n_clusters + 1)
        entry_offsets = store.need_offsets(state, f"{prefix}.entry_offsets", length=n_clusters + 1)
        n_starts = n_clusters * (_n_blocks(n_features, block_bits) + 1) * 2
        n_keys = int(row_offsets[-1]) + KEY_PADDING
        children = need("children", child_types, int(entry_offsets[-1]))
        codebook = None
        value_types: tuple[Any, ...] = (np.float16, np.float32)
        if f"{prefix}.codebook" in state.arrays:
            codebook = need("codebook", np.float32, 256)
            store.need_finite(state, f"{prefix}.codebook")
            value_types = (np.uint8,)
        store.need_finite(state, f"{prefix}.intercepts")
        try:
            return cls(
                n_features, block_bits, child_offsets, row_offsets, entry_offsets,
                need("block_starts", np.uint32, n_starts),
                need("keys", np.uint8 if block_bits <= 8 else np.uint16, n_keys),
                need("lengths", children.dtype, n_keys), children,
                need("values", value_types, int(entry_offsets[-1])), codebook,
                need("intercepts", np.float32, n_nodes),
            )  # fmt: skip
        except (ValueError, TypeError) as error:
            if isinstance(error, ModelError):
                raise
            raise ModelError(f"{state.where!r} is damaged: in {prefix}, {error}.") from error


class Layout:
    """A layer's arrays, filled cluster by cluster in any order.

    Parameters
    ----------
    sizes : ndarray of dtype ``ClusterRows.SIZES``, shape (n_clusters,)
        What :meth:`ClusterRows.sizes` says of each cluster: it settles every offset and the codebook.
    child_offsets : ndarray of int64, shape (n_clusters + 1,)
    n_features : int
    weight_dtype : str
        One of :data:`WEIGHT_DTYPES`.
    allocate : callable
        ``allocate(size, dtype)`` gives the large arrays, all zeros; those of a file, for instance.
    """

    def __init__(
        self,
        sizes: npt.NDArray[Any],
        child_offsets: npt.NDArray[np.int64],
        n_features: int,
        weight_dtype: str,
        allocate: Callable[[int, Any], npt.NDArray[Any]] = np.zeros,
    ) -> None:
        rows, entries = int(sizes["rows"].sum()), int(sizes["entries"].sum())
        self._n_features, self._child_offsets = n_features, np.ascontiguousarray(child_offsets)
        self._bits = block_bits(n_features, rows, len(sizes))
        most_children = int(np.diff(child_offsets).max(initial=1))
        child_dtype = np.uint8 if most_children <= 1 << 8 else np.uint16 if most_children <= 1 << 16 else np.uint32
        self._keys = allocate(rows + KEY_PADDING, np.uint8 if self._bits <= 8 else np.uint16)
        self._lengths = allocate(rows + KEY_PADDING, child_dtype)
        self._starts = allocate(len(sizes) * (_n_blocks(n_features, self._bits) + 1) * 2, np.uint32)
        self._children = allocate(entries, child_dtype)
        self._values = allocate(entries, np.dtype(weight_dtype))
        self._row_offsets = np.concatenate(([0], np.cumsum(sizes["rows"]))).astype(np.int64)
        self._entry_offsets = np.concatenate(([0], np.cumsum(sizes["entries"]))).astype(np.int64)
        self._codebook: npt.NDArray[np.float32] | None = None
        if weight_dtype == "uint8":
            least, largest = sizes["least"].min(initial=np.inf), sizes["largest"].max(initial=0)
            self._codebook = _make_codebook(float(least), float(largest))
        self._intercepts = np.zeros(int(child_offsets[-1]), np.float32)

    def place(self, c: int, cluster: ClusterRows) -> None:
        """Write cluster ``c``, whose sizes must be those given."""
        rows = slice(int(self._row_offsets[c]), int(self._row_offsets[c + 1]))
        self._keys[rows] = cluster.features & ((1 << self._bits) - 1)
        self._lengths[rows] = cluster.lengths - 1
        _count_blocks(cluster, self._bits, self._starts.reshape(len(self._row_offsets) - 1, -1, 2)[c])
        entries = slice(int(self._entry_offsets[c]), int(self._entry_offsets[c + 1]))
        self._children[entries] = cluster.children
        book = self._codebook
        self._values[entries] = cluster.weights if book is None else _encode(cluster.weights, book)
        self._intercepts[int(self._child_offsets[c]) : int(self._child_offsets[c + 1])] = cluster.intercepts

    def finish(self) -> ClusterWeights:
        """The layer, when every cluster has been placed."""
        return ClusterWeights(
            self._n_features, self._bits, self._child_offsets, self._row_offsets, self._entry_offsets, self._starts,
            self._keys, self._lengths, self._children, self._values, self._codebook, self._intercepts,
        )  # fmt: skip


def laid_out_bytes(
    n_weights: int, n_rows: int, n_clusters: int, n_nodes: int, n_features: int, block_bits: int, weight_bytes: int = 1
) -> int:
    """A layer as it is searched and saved: entries, rows, block starts, offsets and intercepts."""
    blocks = _n_blocks(n_features, block_bits) + 1
    keys = 1 if block_bits <= 8 else 2
    return (1 + weight_bytes) * n_weights + (1 + keys) * n_rows + (8 * blocks + 16) * n_clusters + 4 * n_nodes + 1024


def _n_blocks(n_features: int, bits: int) -> int:
    return -(-n_features // (1 << bits))


def block_bits(n_features: int, n_rows: int, n_clusters: int) -> int:
    """Block size for about :data:`ROWS_PER_BLOCK` rows a block and cluster."""
    per_cluster = max(1.0, n_rows / max(1, n_clusters))
    wanted = max(1.0, ROWS_PER_BLOCK * n_features / per_cluster)
    return int(min(16, np.log2(wanted)))


def _count_blocks(cluster: ClusterRows, bits: int, starts: npt.NDArray[np.uint32]) -> None:
    """Fill ``starts`` (n_blocks + 1, 2): rows and entries before each block."""
    n_blocks = len(starts) - 1
    rows = np.searchsorted(cluster.features >> bits, np.arange(n_blocks + 1))
    entries = np.concatenate(([0], np.cumsum(cluster.lengths)))
    starts[:, 0] = rows
    starts[:, 1] = entries[rows]


def _make_codebook(least: float, largest: float) -> npt.NDArray[np.float32]:
    """Codes 0 to 127: magnitudes from the least to the largest in equal ratios; 128 to 255: their negatives."""
    if largest == 0:
        return np.zeros(256, np.float32)
    least = max(min(least, largest), largest * LEAST_RATIO)
    magnitudes = least * (largest / least) ** (np.arange(128) / 127)
    magnitudes[-1] = largest
    return np.concatenate((magnitudes, -magnitudes)).astype(np.float32)


def _encode(weights: npt.NDArray[np.float32], codebook: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """The code of the nearest magnitude (in ratio) of each weight."""
    least, largest = float(codebook[0]), float(codebook[127])
    codes = np.zeros(len(weights), np.float32)
    if largest > least:
        scale = 127 / np.log(largest / least)
        np.log(np.maximum(np.abs(weights), least) / np.float32(least), out=codes)
        codes *= np.float32(scale)
    np.rint(codes, out=codes)
    np.clip(codes, 0, 127, out=codes)
    encoded = codes.astype(np.uint8)
    encoded[weights < 0] += np.uint8(128)
    return encoded
