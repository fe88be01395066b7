"""Models that napkinXC saved: ``args.bin``, ``weights.bin`` and, for trees, ``tree.bin``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.arrays.validate import MAX_COLUMNS
from sylvan.errors import ModelError
from sylvan.importers.forest import MOST_LABELS, Cursor, Ints, Nodes, build_model, damaged
from sylvan.models import XRLinear
from sylvan.weights.layer import WeightDtype

_COMBINES = ("sigmoid", "l2_hinge")  # by the number of the loss: logistic, squared hinge
_TREE, _FLAT = "plt", ("br", "ovr")
_CONSTANT = 10.0  # the score of a node whose training rows were all of one class
_FIRST = 2  # column of the first feature; 0 is unused, 1 the constant one
_HEAD = np.dtype([("classes", "<i4"), ("first", "<i4"), ("loss", "<i4")])
_SIZES = np.dtype([("size", "<u8"), ("nonzero", "<u8"), ("length", "<u8"), ("stored", "<u8"), ("sparse", "u1")])
_PAIR = np.dtype([("index", "<i4"), ("value", "<f4")])


_Bases = tuple[sp.csr_matrix, npt.NDArray[np.float32]]  # all classifiers of weights.bin: their weights and intercepts


def is_napkinxc(folder: Path) -> bool:
    """Whether this is a folder that a model of napkinXC was saved in."""
    return (folder / "args.bin").is_file() and (
        (folder / "weights.bin").is_file() or (folder / "member_0" / "weights.bin").is_file()
    )


def from_napkinxc(folder: str | os.PathLike[str], *, weight_dtype: WeightDtype = "float32", beam: int = 50) -> XRLinear:
    """The PLT, BR or OVR model that napkinXC left in a folder, or an ensemble of PLTs.

    Parameters
    ----------
    folder : path
        With ``args.bin``, ``weights.bin`` and ``tree.bin``, or ``member_0``, ``member_1``, … with the last two, as
        napkinXC 0.6 and 0.7 write them.
    weight_dtype : {"float32", "float16", "uint8", "uint4"}, default "float32"
        ``"float32"`` keeps every weight as it is, ``"uint8"`` makes the model half as large, ``"uint4"`` a third.
    beam : int, default 50
        Nodes followed per layer. napkinXC searches its tree exactly by default, which a wide beam comes near.

    Returns
    -------
    XRLinear
        Fitted. Rows are scaled to unit length when they are ranked (``normalize``) if napkinXC did so. How often
        labels were seen is not known: ``label_counts_`` are zeros.

    Raises
    ------
    ModelError
        When a file is missing or damaged, and for what XRLinear has no word for: other kinds of models, hashed
        features, a threshold of features, other losses than the logistic and the squared hinge.
    ParameterError
        For another ``weight_dtype`` or a ``beam`` below 1.

    Notes
    -----
    The logistic loss becomes ``combine="sigmoid"``, the squared hinge ``"l2_hinge"``. The scores of an OVR model are
    those of a BR model of the same weights, which its folder doesn't differ from. The scores of several trees are
    averaged, of each tree over its first 100 labels (or ``k``), where napkinXC takes the first ``k`` of each tree, and
    their scores in all trees.

    Examples
    --------
    A BR model of one label whose training rows all had it.

    >>> import pathlib, struct, tempfile
    >>> import numpy as np
    >>> from sylvan.importers import from_napkinxc
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> args = struct.pack("<q5sf?iiiq2si", 5, b"0.7.2", 1.0, True, 0, 0, 1, 2, b"br", 0)
    >>> _ = (folder / "args.bin").write_bytes(args)
    >>> _ = (folder / "weights.bin").write_bytes(struct.pack("<iiii", 1, 1, 1, 0))
    >>> from_napkinxc(folder).rank(np.zeros((1, 0)), k=1).labels.tolist()
    [[0]]
    """
    where = Path(folder)
    bias, normalize, kind, n_members = _read_args(where / "args.bin")
    folders = [where / f"member_{number}" for number in range(n_members)] if n_members > 1 else [where]
    read = [_read_bases(member / "weights.bin", bias) for member in folders]
    losses, bases = {loss for _, loss in read}, [members for members, _ in read]
    if len(losses) > 1:
        raise ModelError(f"{str(where)!r}: its members were trained with different losses.")
    n_features = max(weights.shape[1] for weights, _ in bases)
    for weights, _ in bases:
        weights.resize((weights.shape[0], n_features))
    trees = [_nodes(member, result, kind == _TREE) for member, result in zip(folders, bases, strict=True)]
    return build_model(
        trees, None, _COMBINES[losses.pop()], weight_dtype, repr(str(where)), beam=beam, bias=max(bias, 0.0),
        normalize=normalize,
    )  # fmt: skip


def _read_args(path: Path) -> tuple[float, bool, str, int]:
    """The bias, whether rows are scaled, the kind of model and the number of its members."""
    file = Cursor(path)
    file.take("u1", file.number("<i8", "the length of its version", 1, 40), "its version")
    bias = float(file.take("<f4", 1, "the bias")[0])
    normalize = bool(file.number("u1", "whether rows are scaled", 0, 1))
    hashed = file.number("<i4", "the size of the hash", -(2**31), 2**31 - 1)
    threshold = float(file.take("<f4", 1, "the threshold of features")[0])
    file.take("<i4", 1, "the kind of model")
    kind = file.take("u1", file.number("<i8", "the length of its name", 1, 40), "its name").tobytes().decode("latin-1")
    n_members = file.number("<i4", "the number of members", 0, 1000)
    if kind != _TREE and kind not in _FLAT:
        raise ModelError(f"{str(path)!r}: a model of kind {kind!r} can't be imported; plt, br and ovr can.")
    if hashed != 0:
        raise ModelError(f"{str(path)!r}: the model hashes its features, which Sylvan's doesn't.")
    if threshold != 0:
        words = f"the model drops features below {threshold:g} before it ranks, which Sylvan's doesn't"
        raise ModelError(f"{str(path)!r}: {words}.")
    if not np.isfinite(bias) or (n_members > 1 and kind != _TREE):
        raise damaged(path, f"a {kind} of {n_members} members and a bias of {bias:g}")
    return bias, normalize, kind, n_members


def _read_bases(path: Path, bias: float) -> tuple[_Bases, int]:
    """Every classifier: its weights where positive means yes, and its score for a row of nothing but zeros; the number
    of their loss."""
    file = Cursor(path)
    n_bases = file.number("<i4", "the number of classifiers", 1, max(1, (file.size - 4) // _HEAD.itemsize))
    signs, lengths = np.ones(n_bases, np.float32), np.zeros(n_bases, np.int64)
    constant = np.ones(n_bases, bool)
    parts, losses, size = [np.zeros(0, _PAIR)], set(), 0
    for number in range(n_bases):
        classes, first, loss = file.take(_HEAD, 1, "a classifier")[0].item()
        if classes not in (0, 1, 2) or first not in (0, 1) or not 0 <= loss < len(_COMBINES):
            raise ModelError(
                f"{str(path)!r}: classifier {number} has {classes} classes, the first of them {first}, and loss "
                f"{loss}; at most 2, 0 or 1, and a loss of 0 (logistic) or 1 (squared hinge) can be imported."
            )
        signs[number] = 1 if first == 1 else -1
        if classes == 2:
            constant[number] = False
            losses.add(loss)
            columns, pairs = _read_weights(file)
            size, lengths[number] = max(size, columns), len(pairs)
            parts.append(pairs)
    if len(losses) > 1:
        raise ModelError(f"{str(path)!r}: its classifiers were trained with different losses.")
    weights, intercepts = _as_matrix(np.concatenate(parts), lengths, signs, size, bias, path)
    return (weights, np.where(constant, signs * _CONSTANT, intercepts)), losses.pop() if losses else 0


def _read_weights(file: Cursor) -> tuple[int, npt.NDArray[Any]]:
    """How many columns there are, and the columns and values of one classifier."""
    size, _, length, stored, sparse = file.take(_SIZES, 1, "the size of a classifier")[0].item()
    if sparse:
        pairs = file.take(_PAIR, stored, "weights")
    else:
        values = file.take("<f4", length, "weights")
        stored = np.flatnonzero(values)
        pairs = np.empty(len(stored), _PAIR)
        pairs["index"], pairs["value"] = stored, values[stored]
    if file.number("u1", "whether gradients follow", 0, 1):
        raise ModelError(f"{str(file.path)!r} holds gradients for further training, and can't be imported.")
    return min(size, MAX_COLUMNS), pairs


def _as_matrix(
    pairs: npt.NDArray[Any], lengths: Ints, signs: npt.NDArray[np.float32], size: int, bias: float, path: Path
) -> _Bases:
    """The weights of all classifiers, ``lengths`` of the pairs each, and what the constant feature adds to a score."""
    base = np.repeat(np.arange(len(lengths)), lengths)
    index, values = pairs["index"].astype(np.int64), pairs["value"].astype(np.float32)
    if len(index) and (int(index.min()) < 0 or int(index.max()) > MAX_COLUMNS):
        raise damaged(path, f"columns must be in [0, {MAX_COLUMNS}]")
    if ((np.diff(index) <= 0) & (np.diff(base) == 0)).any():
        raise damaged(path, "the columns of a classifier must rise")
    if not np.isfinite(values).all():
        raise damaged(path, "a weight is no finite number")
    values *= signs[base]
    ones, stored = index == 1, (index >= _FIRST) & (values != 0)
    intercepts = np.zeros(len(lengths), np.float32)
    intercepts[base[ones]] = values[ones] * np.float32(bias)
    n_features = max(size - _FIRST - 1, int(index.max(initial=0)) - _FIRST + 1, 0)
    starts = np.searchsorted(base[stored], np.arange(len(lengths) + 1))
    columns = (index[stored] - _FIRST).astype(np.int32)
    return sp.csr_matrix((values[stored], columns, starts), shape=(len(lengths), n_features)), intercepts


def _nodes(folder: Path, bases: _Bases, tree: bool) -> Nodes:
    n_bases = bases[0].shape[0]
    if not tree:
        return Nodes(np.full(n_bases, -1, np.int64), np.arange(n_bases), np.arange(n_bases), *bases)
    file = Cursor(folder / "tree.bin")
    file.number("<i4", "the number of labels", 1, MOST_LABELS)
    n_nodes = file.number("<i4", "the number of nodes", 1, min(MOST_LABELS, file.size // 12))
    names, labels = file.take("<i4", 2 * n_nodes, "nodes").reshape(-1, 2).astype(np.int64).T
    file.take("<i4", 1, "the root")
    parents = file.take("<i4", n_nodes, "parents").astype(np.int64)
    if n_nodes != n_bases:
        raise ModelError(f"{str(folder)!r}: tree.bin has {n_nodes} nodes, but weights.bin {n_bases} classifiers.")
    if (np.sort(names) != np.arange(n_nodes)).any() or (labels < -1).any():
        raise damaged(folder / "tree.bin", f"its nodes aren't numbered from 0 to {n_nodes - 1}")
    order = np.argsort(names)
    return Nodes(parents[order], labels[order], np.arange(n_nodes), *bases)
