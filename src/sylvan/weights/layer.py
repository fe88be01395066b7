"""LayerWeights: one layer's weights, per cluster, rows keyed by feature; matching reads it, ranking makes it. Entries
(child number, weight) of a cluster lie together, feature after feature. Features are cut into blocks of
``2 ** block_bits``; a cluster stores where each block's rows and entries begin, and a row only the low bits of its
feature (its key) and its length. A weight is a float, or one byte that points into a codebook whose magnitudes grow by
a constant factor, so that a small weight is rounded as little as a large one, or four bits that are packed with the
child's number (:mod:`sylvan.weights.quantized`). Everything is offsets: a memory-mapped file is used as it lies on
disk."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from sylvan import kernels, store
from sylvan.arrays.types import Array, Bool, Float32, Int32, Int64
from sylvan.errors import ModelError
from sylvan.weights.quantized import (
    BOOK,
    CODE_BITS,
    CodedRows,
    child_bits,
    coded,
    encode,
    make_codebook,
    pack_bits,
    pack_lengths,
    stream_bytes,
    unpack_bits,
    unpack_lengths,
)

WeightDtype = Literal["uint8", "uint4", "float16", "float32"]
WEIGHT_DTYPES: tuple[WeightDtype, ...] = get_args(WeightDtype)
KEY_PADDING = 16  # lookups compare 16 keys at once and may read past a cluster's last
ROWS_PER_BLOCK = 8  # aimed at: one comparison finds the row, and the starts stay small beside the rows
PACKED_ROWS_PER_BLOCK = 64  # of packed weights, whose starts would otherwise be large beside them


@contextmanager
def readable(c: int) -> Iterator[None]:
    """Within it, numbers of cluster ``c`` that can't be are damage of the model."""
    try:
        yield
    except (ValueError, IndexError) as error:
        raise ModelError(f"The weights of cluster {c} in this model are damaged: {error}.") from error


@dataclass(frozen=True)
class ClusterRows:
    """One cluster's weights as rows: feature ids (rising), entries a row, child numbers (rising in a row), weights.
    Child numbers may be of any type of integers. Of a cluster that was stored in four bits, ``packed`` is how."""

    features: Int32
    lengths: Int32
    children: Array
    weights: Float32
    intercepts: Float32
    packed: CodedRows | None = None

    # What a layer's layout depends on before any of its clusters is placed.
    SIZES: ClassVar[Any] = np.dtype([("rows", "<i8"), ("entries", "<i8"), ("least", "<f4"), ("largest", "<f4")])

    def sizes(self, weight_dtype: str) -> tuple[int, int, float, float]:
        """Rows, entries, and the least and largest magnitude of a weight: one item of dtype :attr:`SIZES`."""
        if weight_dtype == "uint4":
            packed = self.coded()
            return len(packed.features), len(packed.children), 0.0, 0.0
        magnitudes = np.abs(self.weights)
        least, largest = magnitudes.min(initial=np.inf), magnitudes.max(initial=0)
        return len(self.features), len(self.children), float(least), float(largest)

    def coded(self) -> CodedRows:
        """The rows with four-bit codes for weights."""
        if self.packed is not None:
            return self.packed
        return coded(self.features, self.lengths, self.children.astype(np.int32, copy=False), self.weights)

    def of_children(self, stay_in: Bool) -> ClusterRows:
        """The weights of some children alone, which are renumbered in their order."""
        features, lengths, children, left = _of_children(stay_in, self.features, self.lengths, self.children)
        packed, old = None, self.packed
        if old is not None:
            chosen, pieces, numbers, stay = _of_children(stay_in, old.features, old.lengths, old.children)
            packed = CodedRows(chosen, pieces, numbers, old.codes[stay], old.codebook)
        return ClusterRows(
            features, lengths.astype(np.int32), children, self.weights[left], self.intercepts[stay_in], packed
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        arrays = (self.features, self.lengths, self.children, self.weights, self.intercepts)
        return sum(array.nbytes for array in arrays)


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """One layer's weights. With ``weight_dtype="uint4"``, ``children`` is None, ``values`` (uint8) are the child
    numbers and codes of :func:`~sylvan.weights.quantized.pack_bits`, ``lengths`` (uint8) two a byte, and ``codebook``
    has 16 weights a cluster; ``row_offsets`` are multiples of 2 and ``entry_offsets`` of 8: each cluster begins at a
    byte."""

    n_features: int
    block_bits: int
    # shape (n_clusters + 1,): cluster c's children are nodes `child_offsets[c]` to `child_offsets[c + 1] - 1` of the
    # layer
    child_offsets: Int64
    row_offsets: Int64  # shape (n_clusters + 1,)
    entry_offsets: Int64  # shape (n_clusters + 1,)
    # shape (n_clusters * (n_blocks + 1) * 2,): first row and first entry of each block, counted within the cluster
    block_starts: npt.NDArray[np.uint32]
    keys: Array  # shape (n_rows + 16,)
    lengths: Array  # shape (n_rows + 16,), dtype as ``children``: entries of each row, less one
    children: Array | None  # shape (n_entries,): child number within the cluster
    values: Array  # shape (n_entries,): codes into `codebook`, or weights
    codebook: Float32 | None  # shape (256,), or None
    intercepts: Float32  # shape (n_nodes,)
    native: Any = field(init=False, default=None)  # the same arrays as the kernels see them

    def __post_init__(self) -> None:
        values = self.values.view(np.uint16) if self.values.dtype == np.float16 else self.values
        layer = kernels.Layer(
            self.n_features, self.block_bits, self.child_offsets, self.row_offsets, self.entry_offsets,
            self.block_starts, self.keys, self.lengths, self.children, values, self.codebook, self.intercepts,
        )  # fmt: skip
        object.__setattr__(self, "native", layer)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "native"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    @property
    def n_entries(self) -> int:
        """Number of stored weights."""
        if self.children is None:  # what the offsets count may be more, for the clusters to begin at bytes
            return int(self.block_starts.reshape(len(self.row_offsets) - 1, -1, 2)[:, -1, 1].sum(dtype=np.int64))
        return int(self.children.size)

    @property
    def weight_dtype(self) -> str:
        """One of :data:`WEIGHT_DTYPES`."""
        return "uint4" if self.children is None else str(self.values.dtype)

    @classmethod
    def from_clusters(
        cls, clusters: Sequence[ClusterRows], child_offsets: Int64, n_features: int, weight_dtype: str = "uint8",
        codebook: Float32 | None = None,
    ) -> LayerWeights:  # fmt: skip
        """Lay the clusters' rows out; with ``weight_dtype`` "uint8" and "uint4" weights are rounded to codebooks. A
        given ``codebook`` of bytes is used as it is."""
        sizes = np.array([cluster.sizes(weight_dtype) for cluster in clusters], ClusterRows.SIZES)
        layout = Layout(sizes, child_offsets, n_features, weight_dtype, codebook=codebook)
        for c, cluster in enumerate(clusters):
            layout.place(c, cluster)
        return layout.finish()

    def cluster(self, c: int) -> ClusterRows:
        """Cluster ``c``'s rows, unpacked: what the kernels compute with."""
        if self.children is None:
            return self._packed_cluster(c)
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

    def sound_cluster(self, c: int) -> ClusterRows:
        """As :meth:`cluster`, verified: what a loaded model's files say of it is trusted from here on."""
        with readable(c):
            rows = self.cluster(c)
            rising = bool((np.diff(rows.features) > 0).all())
            inside = not len(rows.features) or 0 <= rows.features[0] <= rows.features[-1] < self.n_features
            if not rising or not inside or (rows.lengths < 1).any() or rows.lengths.sum() != len(rows.children):
                raise ValueError("its rows must rise and be filled")
            if rows.children.min(initial=0) < 0 or rows.children.max(initial=0) >= max(1, len(rows.intercepts)):
                raise ValueError("it has no such child")
            if not np.isfinite(rows.weights).all():
                raise ValueError("they must be finite")
        return rows

    def _packed_cluster(self, c: int) -> ClusterRows:
        first_row, first_entry = int(self.row_offsets[c]), int(self.entry_offsets[c])
        first, last = int(self.child_offsets[c]), int(self.child_offsets[c + 1])
        starts = self.block_starts.reshape(len(self.row_offsets) - 1, -1, 2)[c].astype(np.int64)
        n_rows, n_entries = int(starts[-1, 0]), int(starts[-1, 1])
        if n_rows > self.row_offsets[c + 1] - first_row or n_entries > self.entry_offsets[c + 1] - first_entry:
            raise ValueError("a cluster's blocks end behind it")
        blocks = np.repeat(np.arange(len(starts) - 1, dtype=np.int64), np.diff(starts[:, 0]))
        features = ((blocks << self.block_bits) + self.keys[first_row : first_row + n_rows]).astype(np.int32)
        pieces = unpack_lengths(self.lengths, first_row, n_rows)
        of_row = np.repeat(np.arange(n_rows), pieces)
        bits = child_bits(int(np.diff(self.child_offsets).max())) + CODE_BITS
        numbers = unpack_bits(self.values, first_entry, n_entries, bits)
        assert self.codebook is not None
        book, codes = self.codebook.reshape(-1, BOOK)[c], (numbers % BOOK).astype(np.uint8)
        children, weights = numbers >> CODE_BITS, book[codes]
        # Continued rows are one, and a child's entries side by side add up to one weight.
        of_entry = features[of_row]
        if len(of_entry) != n_entries:
            raise ValueError("a cluster's rows and entries disagree")
        new = np.flatnonzero(np.diff(of_entry, prepend=-1) | np.diff(children, prepend=-1))
        row_features, lengths = np.unique(of_entry[new], return_counts=True)
        summed = np.add.reduceat(weights, new) if len(new) else weights
        return ClusterRows(
            row_features, lengths.astype(np.int32), children[new].astype(np.int32), summed, self.intercepts[first:last],
            CodedRows(features, pieces, children.astype(np.int32), codes, book),
        )  # fmt: skip

    def to_arrays(self, prefix: str) -> dict[str, Array]:
        """The arrays to store, named with ``prefix``; ``child_offsets`` belong to the tree."""
        names = ["row_offsets", "entry_offsets", "block_starts", "keys", "lengths", "children", "values", "intercepts"]
        arrays = {f"{prefix}.{name}": getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.codebook is not None:
            arrays[f"{prefix}.codebook"] = self.codebook
        return arrays

    @classmethod
    def from_arrays(
        cls, state: store.State, prefix: str, child_offsets: Int64, n_features: int, block_bits: int
    ) -> LayerWeights:
        """What :meth:`to_arrays` stored. The sizes of all arrays and the offsets of the clusters are verified here. The
        starts, keys, lengths and child numbers inside a cluster are compared with these by the kernels wherever they
        use them, so that a mapped model of any size opens in milliseconds."""
        n_clusters, n_nodes = len(child_offsets) - 1, int(child_offsets[-1])
        child_types = (np.uint8, np.uint16, np.uint32)

        def need(name: str, dtype: Any, size: int | None) -> Array:
            return store.need_array(state, f"{prefix}.{name}", dtype, (size,))

        row_offsets = store.need_offsets(state, f"{prefix}.row_offsets", length=n_clusters + 1)
        entry_offsets = store.need_offsets(state, f"{prefix}.entry_offsets", length=n_clusters + 1)
        n_starts = n_clusters * (-(-n_features >> block_bits) + 1) * 2
        n_keys = int(row_offsets[-1]) + KEY_PADDING
        n_entries, n_lengths, packed = int(entry_offsets[-1]), n_keys, f"{prefix}.children" not in state.arrays
        if packed:
            bits = child_bits(int(np.diff(child_offsets).max(initial=1))) + CODE_BITS
            children, n_values, n_lengths = None, stream_bytes(n_entries, bits), int(row_offsets[-1]) // 2 + KEY_PADDING
        else:
            children, n_values = need("children", child_types, n_entries), n_entries
        codebook = None
        value_types: tuple[Any, ...] = (np.float16, np.float32)
        if packed or f"{prefix}.codebook" in state.arrays:
            codebook = need("codebook", np.float32, BOOK * n_clusters if packed else 256)
            store.need_finite(state, f"{prefix}.codebook")
            value_types = (np.uint8,)
        store.need_finite(state, f"{prefix}.intercepts")
        try:
            return cls(
                n_features, block_bits, child_offsets, row_offsets, entry_offsets,
                need("block_starts", np.uint32, n_starts),
                need("keys", np.uint8 if block_bits <= 8 else np.uint16, n_keys),
                need("lengths", np.uint8 if children is None else children.dtype, n_lengths), children,
                need("values", value_types, n_values), codebook,
                need("intercepts", np.float32, n_nodes),
            )  # fmt: skip
        except (ValueError, TypeError) as error:
            if isinstance(error, ModelError):
                raise
            raise ModelError(f"{state.where!r} is damaged: in {prefix}, {error}.") from error


class Layout:
    """A layer's arrays, filled cluster by cluster in any order."""

    def __init__(
        self,
        # shape (n_clusters,): what `ClusterRows.sizes` says of each cluster: it settles every offset and the codebook
        sizes: Array,
        child_offsets: Int64,  # shape (n_clusters + 1,)
        n_features: int,
        weight_dtype: str,  # one of `WEIGHT_DTYPES`
        # `allocate(size, dtype)` gives the large arrays, all zeros; those of a file, for instance
        allocate: Callable[[int, Any], Array] = np.zeros,
        codebook: Float32 | None = None,
    ) -> None:
        self._n_features, self._child_offsets = n_features, np.ascontiguousarray(child_offsets)
        self._packed = weight_dtype == "uint4"
        # Packed clusters begin at bytes, so that several threads can place them.
        unit_rows, unit_entries = (2, 8) if self._packed else (1, 1)
        self._row_offsets = _offsets(sizes["rows"], unit_rows)
        self._entry_offsets = _offsets(sizes["entries"], unit_entries)
        rows, entries = int(self._row_offsets[-1]), int(self._entry_offsets[-1])
        self._bits = block_bits(n_features, rows, len(sizes), self._packed)
        most_children = int(np.diff(child_offsets).max(initial=1))
        self._keys = allocate(rows + KEY_PADDING, np.uint8 if self._bits <= 8 else np.uint16)
        self._starts = allocate(len(sizes) * (-(-n_features >> self._bits) + 1) * 2, np.uint32)
        self._children: Array | None = None
        # shape (256,): for "uint8", instead of one that the sizes settle
        self.codebook: Float32 | None = None
        if self._packed:
            self._entry_bits = child_bits(most_children) + CODE_BITS
            self._lengths = allocate(rows // 2 + KEY_PADDING, np.uint8)
            self._values = allocate(stream_bytes(entries, self._entry_bits), np.uint8)
            self.codebook = np.zeros(BOOK * len(sizes), np.float32)
        else:
            number = child_dtype(most_children)
            self._lengths = allocate(rows + KEY_PADDING, number)
            self._children = allocate(entries, number)
            self._values = allocate(entries, np.dtype(weight_dtype))
        if weight_dtype == "uint8":
            least, largest = sizes["least"].min(initial=np.inf), sizes["largest"].max(initial=0)
            self.codebook = make_codebook(float(least), float(largest)) if codebook is None else codebook
        self._intercepts = np.zeros(int(child_offsets[-1]), np.float32)

    def place(self, c: int, cluster: ClusterRows) -> None:
        """Write cluster ``c``, whose sizes must be those given."""
        self._intercepts[int(self._child_offsets[c]) : int(self._child_offsets[c + 1])] = cluster.intercepts
        starts = self._starts.reshape(len(self._row_offsets) - 1, -1, 2)[c]
        first_row, first_entry = int(self._row_offsets[c]), int(self._entry_offsets[c])
        if self._packed:
            packed = cluster.coded()
            rows: ClusterRows | CodedRows = packed
            lengths = pack_lengths(packed.lengths)
            self._lengths[first_row // 2 : first_row // 2 + len(lengths)] = lengths
            numbers = packed.children.astype(np.int64) << CODE_BITS | packed.codes
            stream, first_byte = pack_bits(numbers, self._entry_bits), first_entry * self._entry_bits // 8
            self._values[first_byte : first_byte + len(stream)] = stream
            assert self.codebook is not None
            self.codebook[BOOK * c : BOOK * (c + 1)] = packed.codebook
        else:
            assert self._children is not None
            rows, entries = cluster, slice(first_entry, first_entry + len(cluster.children))
            self._lengths[first_row : first_row + len(cluster.features)] = cluster.lengths - 1
            self._children[entries] = cluster.children
            book = self.codebook
            self._values[entries] = cluster.weights if book is None else encode(cluster.weights, book)
        self._keys[first_row : first_row + len(rows.features)] = rows.features & ((1 << self._bits) - 1)
        # Rows and entries before each block.
        starts[:, 0] = before = np.searchsorted(rows.features >> self._bits, np.arange(len(starts)))
        starts[:, 1] = np.concatenate(([0], np.cumsum(rows.lengths)))[before]

    def copies(self, layer: LayerWeights) -> bool:
        """Whether clusters of another layer of weights like these needn't be placed, but can be copied."""
        same = (self._bits, self._n_features) == (layer.block_bits, layer.n_features)
        if self._packed:
            return same and self._entry_bits == child_bits(int(np.diff(layer.child_offsets).max(initial=1))) + CODE_BITS
        return same and self._lengths.dtype == layer.lengths.dtype

    def copy(self, c: int, layer: LayerWeights, clusters: range) -> None:
        """Write some clusters of such a layer, as they lie there, from ``c`` on."""
        rows, entries = (self._row_offsets, layer.row_offsets), (self._entry_offsets, layer.entry_offsets)
        numbers, n_starts = range(1 << 62), len(self._starts) // (len(self._row_offsets) - 1)
        parts: list[tuple[Any, Any, tuple[Any, Any], float]] = [  # and of each array, what has how many items of it
            (self._intercepts, layer.intercepts, (self._child_offsets, layer.child_offsets), 1),
            (self._starts, layer.block_starts, (numbers, numbers), n_starts), (self._keys, layer.keys, rows, 1),
        ]  # fmt: skip
        if self._packed:
            parts += [(self.codebook, layer.codebook, (numbers, numbers), BOOK)]
        else:
            parts += [(self._children, layer.children, entries, 1)]
        length, value = (0.5, self._entry_bits / 8) if self._packed else (1, 1)
        parts += [(self._lengths, layer.lengths, rows, length), (self._values, layer.values, entries, value)]
        for to, source, (offsets, from_offsets), size in parts:
            begin, first, last = (
                int(offset * size) for offset in (offsets[c], from_offsets[clusters.start], from_offsets[clusters.stop])
            )
            to[begin : begin + last - first] = source[first:last]

    def finish(self) -> LayerWeights:
        """The layer, when every cluster has been placed."""
        return LayerWeights(
            self._n_features, self._bits, self._child_offsets, self._row_offsets, self._entry_offsets, self._starts,
            self._keys, self._lengths, self._children, self._values, self.codebook, self._intercepts,
        )  # fmt: skip


def _of_children(is_kept: Bool, features: Int32, lengths: Array, children: Array) -> tuple[Int32, Int64, Int32, Bool]:
    """Features, lengths and children of the entries of some children, renumbered, and which entries these are."""
    left = is_kept[children]
    rows = np.repeat(np.arange(len(features)), lengths)[left]
    counts = np.bincount(rows, minlength=len(features))
    return features[counts > 0], counts[counts > 0], (np.cumsum(is_kept) - 1)[children[left]].astype(np.int32), left


def child_dtype(most_children: int) -> np.dtype[Any]:
    """The narrowest type of the numbers of so many children, and of their count less one."""
    return np.dtype(np.uint8 if most_children <= 1 << 8 else np.uint16 if most_children <= 1 << 16 else np.uint32)


def laid_out_bytes(
    n_weights: int, n_rows: int, n_clusters: int, n_nodes: int, n_features: int, most_children: int, weight_dtype: str
) -> int:
    """A layer as it is searched and saved: entries, rows, block starts, offsets and intercepts."""
    packed = weight_dtype == "uint4"
    bits = block_bits(n_features, n_rows, n_clusters, packed)
    if packed:
        entries, lengths = stream_bytes(n_weights, child_bits(most_children) + CODE_BITS), n_rows // 2
        books = 4 * BOOK * n_clusters
    else:
        child = child_dtype(most_children).itemsize
        entries, lengths = (child + np.dtype(weight_dtype).itemsize) * n_weights, child * n_rows
        books = 1024 if weight_dtype == "uint8" else 0
    rows = lengths + _rows_bytes(n_features, n_rows, n_clusters, bits)
    return entries + rows + books + 16 * n_clusters + 4 * n_nodes


def _offsets(sizes: Int64, unit: int) -> Int64:
    """Where parts of these sizes begin and the last one ends, at multiples of ``unit``."""
    return np.concatenate(([0], np.cumsum(-(-sizes // unit) * unit))).astype(np.int64)


def block_bits(n_features: int, n_rows: int, n_clusters: int, packed: bool = False) -> int:
    """Block size for about :data:`ROWS_PER_BLOCK` rows a block and cluster; of packed weights, the smallest on disk up
    to :data:`PACKED_ROWS_PER_BLOCK`."""
    per_cluster = max(1.0, n_rows / max(1, n_clusters))

    def bits_for(rows_per_block: int) -> int:
        return int(min(16, np.log2(max(1.0, rows_per_block * n_features / per_cluster))))

    if not packed:
        return bits_for(ROWS_PER_BLOCK)
    # Keys grow to two bytes where blocks get larger than 256 features, which may take more than fewer starts save.
    choices = range(bits_for(ROWS_PER_BLOCK), bits_for(PACKED_ROWS_PER_BLOCK) + 1)
    return min(choices, key=lambda bits: _rows_bytes(n_features, n_rows, n_clusters, bits))


def _rows_bytes(n_features: int, n_rows: int, n_clusters: int, bits: int) -> int:
    """Keys of rows and starts of blocks."""
    return (1 if bits <= 8 else 2) * n_rows + 8 * (-(-n_features >> bits) + 1) * n_clusters


def runs_between(changed: Iterable[int], n_clusters: int) -> Iterator[tuple[int, int]]:
    """Where the clusters that aren't changed begin and end, run by run: [2, 3] of 6 gives (0, 2) and (4, 6)."""
    for before, after in itertools.pairwise((-1, *sorted(changed), n_clusters)):
        if before + 1 < after:
            yield before + 1, after


def with_clusters(
    layer: LayerWeights, changed: Mapping[int, ClusterRows], came_from: Int32, child_offsets: Int64, n_features: int,
    codebook: Float32 | None,
) -> LayerWeights:  # fmt: skip
    """A layer with other weights in some clusters."""
    # Shapes: came_from (n_clusters,); child_offsets (n_clusters + 1,); codebook (256,)
    runs = list(runs_between(changed, len(came_from)))
    sizes = np.zeros(len(came_from), ClusterRows.SIZES)
    sizes["rows"], sizes["entries"] = np.diff(layer.row_offsets)[came_from], np.diff(layer.entry_offsets)[came_from]
    sizes["least"] = np.inf
    for c, cluster in changed.items():
        sizes[c] = cluster.sizes(layer.weight_dtype)
    book = layer.codebook if layer.weight_dtype == "uint8" else None
    if book is not None and codebook is None:  # all weights settle it
        for first, last in runs:
            begin, end = layer.entry_offsets[[came_from[first], came_from[last - 1] + 1]].tolist()
            magnitudes = np.abs(book[np.flatnonzero(np.bincount(layer.values[begin:end], minlength=len(book)))])
            sizes["least"][first], sizes["largest"][first] = magnitudes.min(initial=np.inf), magnitudes.max(initial=0)
    layout = Layout(sizes, child_offsets, n_features, layer.weight_dtype, codebook=codebook)
    for c, cluster in changed.items():
        layout.place(c, cluster)
    copies = layout.copies(layer)
    if book is not None and layout.codebook is not None and copies and layout.codebook is not book:
        layer = replace(layer, values=encode(book, layout.codebook)[layer.values], codebook=layout.codebook)
    for first, last in runs:
        begin = int(came_from[first])
        if copies:
            layout.copy(first, layer, range(begin, begin + last - first))
        else:
            for c in range(first, last):
                layout.place(c, layer.sound_cluster(int(came_from[c])))
    return layout.finish()
