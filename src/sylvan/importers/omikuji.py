"""A model of omikuji: its settings and its trees in CBOR."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.arrays import validate
from sylvan.errors import ModelError
from sylvan.importers.forest import MOST_LABELS, Ints, Nodes, build_model, damaged, need_field, need_file, read_json
from sylvan.models import XRLinear
from sylvan.weights.layer import WeightDtype

_DEEPEST = 220  # maps and lists in one another
_AT_ONCE = 4096  # bytes that are read together; so near is the place that an error names
_COMBINES = {"Hinge": "l2_hinge", "Log": "sigmoid"}
_MOST_TREES = 1000
Triples = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float32]]  # feature, child, weight


def read_cbor(path: Path) -> Any:
    """The one item of a CBOR file; in its maps, a list of numbers is an ndarray of float64."""
    try:
        import cbor2
    except ImportError as error:
        raise ModelError(f'{str(path)!r} is CBOR, which needs cbor2: pip install "sylvan[cbor]".') from error
    with need_file(path) as size, path.open("rb") as file:
        # Tags stand for dates, patterns, shared values and more: a model has none, and none is decoded.
        decoder = cbor2.CBORDecoder(
            file, object_hook=_with_arrays, semantic_decoders=defaultdict(lambda: _refuse_tag), tag_hook=_refuse_tag,
            read_size=_AT_ONCE, max_depth=_DEEPEST, allow_indefinite=False, allow_duplicate_keys=False,
            strict_hashable_types=True,
        )  # fmt: skip
        try:
            item = decoder.decode()
        except cbor2.CBORDecodeError as error:
            raise ModelError(f"{str(path)!r} is damaged in its first {file.tell()} bytes: {error}.") from error
        if left := size - file.tell():
            raise damaged(path, f"{left} bytes follow where it should end")
    return item


def _with_arrays(contents: Any, immutable: bool) -> Any:
    """A map whose lists of numbers are arrays: a fifth of the memory, and taken while only this map is in lists."""
    for name, value in contents.items():
        if type(value) is list and set(map(type, value)) <= {int, float}:
            contents[name] = np.fromiter(value, np.float64, len(value))
    return contents


def _refuse_tag(*_: Any) -> Any:
    raise ValueError("a model holds no tags")


def is_omikuji(folder: Path) -> bool:
    """Whether this is a folder that omikuji's ``Model.save`` wrote."""
    return (folder / "settings.json").is_file() and (folder / "tree0.cbor").is_file()


def from_omikuji(
    folder: str | os.PathLike[str], *, n_labels: int | None = None, weight_dtype: WeightDtype = "float32"
) -> XRLinear:
    """The model that omikuji's ``Model.save`` (or ``omikuji train``) left in a folder.

    Parameters
    ----------
    folder : path
        With ``settings.json`` and ``tree0.cbor``, ``tree1.cbor``, …, as omikuji 0.4 and 0.5 write them.
    n_labels : int, optional
        How many labels there are; omikuji doesn't store it, and by default the last label of a tree is the last
        of all. A label that stands in no tree gets a score of 0.
    weight_dtype : {"float32", "float16", "uint8", "uint4"}, default "float32"
        ``"float32"`` keeps every weight as it is, ``"uint8"`` makes the model half as large, ``"uint4"`` a third.

    Returns
    -------
    XRLinear
        Fitted, with a tree for each of omikuji's. Rows are scaled to unit length when they are ranked (``normalize``),
        as omikuji does. How often labels were seen is not known: ``label_counts_`` are zeros.

    Raises
    ------
    ModelError
        When a file is missing or damaged, or doesn't fit the others; or without cbor2 (``pip install "sylvan[cbor]"``).
    ParameterError
        For another ``weight_dtype``, or an ``n_labels`` below a label of a tree.

    Notes
    -----
    ``Hinge`` becomes ``combine="l2_hinge"``, ``Log`` ``"sigmoid"``. omikuji takes its beam when it predicts; here it is
    10 as its default there, and can be set. A single tree ranks as there if the beam isn't narrower than ``k``. The
    scores of several trees are averaged in both libraries, of each tree over its first 100 labels (or ``k``) here, and
    over the first ``beam_size`` labels of each leaf that the beam reaches there.

    Examples
    --------
    The smallest such folder: one feature and a constant one, two labels in one cluster.

    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from sylvan.importers import from_omikuji
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "settings.json").write_text('{"n_features": 1, "classifier_loss_type": "Hinge"}')
    >>> dense = b"\\xa1\\x65Dense\\xa3\\x61v\\x01\\x63dim\\x82\\x02\\x02\\x64data\\x84\\x20\\x01\\x00\\x00"
    >>> leaf = b"\\xa1\\x64Leaf\\xa2\\x67weights" + dense + b"\\x66labels\\x82\\x00\\x01"
    >>> _ = (folder / "tree0.cbor").write_bytes(leaf)
    >>> from_omikuji(folder).rank(np.array([[2.0]]), k=1).labels.tolist()
    [[1]]
    """
    if n_labels is not None:
        n_labels = validate.count(n_labels, "n_labels", high=MOST_LABELS)
    where = Path(folder)
    settings = read_json(where / "settings.json")
    n_features = need_field(settings, "n_features", int, where / "settings.json", 1, validate.MAX_COLUMNS)
    loss = need_field(settings, "classifier_loss_type", str, where / "settings.json")
    if loss not in _COMBINES:
        wanted = f"'classifier_loss_type' must be one of {', '.join(_COMBINES)}"
        raise ModelError(f"{str(where / 'settings.json')!r}: {wanted}. Got {loss!r:.60} instead.")
    trees: list[Nodes] = []
    while (where / f"tree{len(trees)}.cbor").exists() or not trees:
        if len(trees) == _MOST_TREES:
            raise ModelError(f"{str(where)!r} holds more than {_MOST_TREES} trees.")
        path = where / f"tree{len(trees)}.cbor"
        trees.append(_Tree(path, n_features).read(read_cbor(path)))
    numbers = {int(path.stem[4:]) for path in where.glob("tree*.cbor") if path.stem[4:].isdecimal()}
    if beyond := sorted(number for number in numbers if number > len(trees)):
        raise ModelError(f"{str(where)!r} lacks tree{len(trees)}.cbor, but holds tree{beyond[0]}.cbor.")
    return build_model(trees, n_labels, _COMBINES[loss], weight_dtype, repr(str(where)), normalize=True)


class _Tree:
    """Collects the nodes of one tree."""

    def __init__(self, path: Path, n_features: int) -> None:
        self.path, self.n_features = path, n_features
        self.parents: list[Ints] = []
        self.labels: list[Ints] = []
        self.triples: list[Triples] = []
        self.n_nodes = 0

    def read(self, tree: Any) -> Nodes:
        """All nodes below the root ``tree``."""
        above = [(tree, -1)]
        while above:
            node, number = above.pop()
            above += self._children(node, number)
        features, nodes, weights = (np.concatenate(parts) for parts in zip(*self.triples, strict=True))
        order = np.lexsort((features, nodes))
        features, nodes, weights = features[order], nodes[order], weights[order]
        if ((features[1:] == features[:-1]) & (nodes[1:] == nodes[:-1])).any():
            raise self._damaged("a weight is given twice")
        intercepts = np.zeros(self.n_nodes, np.float32)
        constant = features == self.n_features
        intercepts[nodes[constant]] = weights[constant]
        features, nodes, weights = features[~constant], nodes[~constant], weights[~constant]
        starts = np.searchsorted(nodes, np.arange(self.n_nodes + 1))
        matrix = sp.csr_matrix((weights, features.astype(np.int32), starts), shape=(self.n_nodes, self.n_features))
        parents, labels = np.concatenate(self.parents), np.concatenate(self.labels)
        return Nodes(parents, labels, np.arange(self.n_nodes), matrix, intercepts)

    def _children(self, node: Any, number: int) -> list[tuple[Any, int]]:
        """Adds one node's children; returns those that have children themselves."""
        kind, body = self._variant(node, ("Branch", "Leaf"), "a tree's node")
        below = body.get("children" if kind == "Branch" else "labels")
        if kind == "Leaf":
            labels = self._ints(below, MOST_LABELS - 1, "labels")
            n, deeper = len(labels), []
        else:
            if not isinstance(below, list):
                raise self._damaged("a node's children must be a list of nodes")
            n, labels = len(below), np.full(len(below), -1, np.int64)
            deeper = [(child, place) for place, child in enumerate(below, self.n_nodes)]
        features, children, weights = self._weights(body.get("weights"), n)
        if not np.isfinite(weights).all():
            raise self._damaged("a weight is no finite number")
        stored = weights != 0
        self.triples.append((features[stored], children[stored] + self.n_nodes, weights[stored]))
        self.parents.append(np.full(n, number, np.int64))
        self.labels.append(labels)
        self.n_nodes += n
        return deeper

    def _weights(self, matrix: Any, n_children: int) -> Triples:
        """Weights of a node's children, the constant feature being the last."""
        kind, body = self._variant(matrix, ("Dense", "Sparse"), "a node's weights")
        n_rows = self.n_features + 1
        subject = f"weights of {n_rows} features and {n_children} children have"
        if kind == "Dense":
            shape = self._ints(body.get("dim"), MOST_LABELS, "dim").tolist()
            data = self._numbers(body.get("data"), "data")
            if shape != [n_rows, n_children] or len(data) != n_rows * n_children:
                raise self._damaged(f"{subject} shape {shape!r:.60} and {len(data)} values")
            rows, columns = np.divmod(np.arange(len(data)), max(1, n_children))
            return rows, columns, data
        outer, inner = body.get("outer_dim"), body.get("inner_dim")
        if (outer, inner) != (n_rows, n_children):
            raise self._damaged(f"{subject} dimensions {outer!r:.30} and {inner!r:.30}")
        features = self._ints(body.get("outer_inds"), n_rows - 1, "outer_inds")
        children = self._ints(body.get("inner_inds"), n_children - 1, "inner_inds")
        offsets = self._ints(body.get("indptr"), len(children), "indptr")
        data = self._numbers(body.get("data"), "data")
        rising = len(offsets) == len(features) + 1 and offsets[0] == 0 and offsets[-1] == len(children)
        if not rising or (np.diff(offsets) < 0).any() or len(data) != len(children):
            raise self._damaged("the offsets, places and values of sparse weights don't fit each other")
        return np.repeat(features, np.diff(offsets)), children, data

    def _variant(self, item: Any, kinds: tuple[str, ...], field: str) -> tuple[str, dict[str, Any]]:
        """The name and content of a map of one entry."""
        if isinstance(item, dict) and len(item) == 1:
            ((kind, body),) = item.items()
            if kind in kinds and isinstance(body, dict):
                return kind, body
        raise self._damaged(f"{field} must be one of {', '.join(kinds)}")

    def _numbers(self, values: Any, name: str) -> npt.NDArray[np.float32]:
        if not isinstance(values, np.ndarray):
            raise self._damaged(f"{name!r} must be a list of numbers")
        with np.errstate(over="ignore"):
            return values.astype(np.float32)

    def _ints(self, values: Any, high: int, name: str) -> Ints:
        if not isinstance(values, np.ndarray) or not ((values >= 0) & (values <= high) & (values % 1 == 0)).all():
            raise self._damaged(f"{name!r} must be a list of ints in [0, {high}]")
        return values.astype(np.int64)

    def _damaged(self, fault: str) -> ModelError:
        return damaged(self.path, fault)
