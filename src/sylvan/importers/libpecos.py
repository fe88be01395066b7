"""Models that libpecos saved: an ``XLinearModel``'s folder, or that of one level of it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.data.formats.arrays import load_npz_columns
from sylvan.errors import DataError, ModelError, warn_data
from sylvan.importers.forest import MAX_DEPTH, Ints, Nodes, build_model, need_field, read_json
from sylvan.models import XRLinear
from sylvan.weights.layer import WeightDtype

_MODELS = ("XLinearModel", "HierarchicalMLModel")
_POST_PROCESSOR = re.compile(r"(log-)?(?:l([1-4])-hinge|sigmoid)")


@dataclass(frozen=True)
class _Layer:
    """One folder ``<t>.model``."""

    children: sp.csr_matrix  # (n_parents, n_nodes)
    weights: sp.csr_matrix  # (n_nodes, n_features)
    intercepts: npt.NDArray[np.float32]
    bias: float
    post_processor: str
    only_topk: int


def is_libpecos(folder: Path) -> bool:
    """Whether this is a folder that ``XLinearModel.save`` wrote."""
    inner = ("ranker/param.json", "0.model/param.json", "xlinear_ensemble/config.json")
    return any((folder / name).is_file() for name in inner)


def from_libpecos(folder: str | os.PathLike[str], *, weight_dtype: WeightDtype = "float32") -> XRLinear:
    """The model that libpecos's ``XLinearModel.save`` (or ``python -m pecos.xmc.xlinear.train``) left in a folder.

    Tree, weights, bias, beam and the way of combining scores are taken over, so that it ranks as there.

    Parameters
    ----------
    folder : path
        With ``param.json`` and ``ranker/<layer>.model/{param.json,W.npz,C.npz}``; ``ranker`` itself will do, and so
        will a text2text application's folder, of which the model over matrices is taken.
    weight_dtype : {"float32", "float16", "uint8", "uint4"}, default "float32"
        ``"float32"`` keeps every weight as it is, ``"uint8"`` makes the model half as large, ``"uint4"`` a third.

    Returns
    -------
    XRLinear
        Fitted. Its ``beam`` is the layers' ``only_topk``; where they differ it is the widest, and a DataWarning says
        so. How many labels are wanted is asked of ``rank``. How often labels were seen is not known:
        ``label_counts_`` are zeros.

    Raises
    ------
    ModelError
        When a file is missing, damaged or doesn't fit the others, and for what XRLinear has no word for: a label in
        several clusters, a model compiled to memory maps, layers combined by different powers of the hinge.
    ParameterError
        For another ``weight_dtype``.

    Notes
    -----
    ``l3-hinge`` becomes ``combine="l3_hinge"``, ``sigmoid`` ``"sigmoid"``, ``noop`` ``"ranker"``. The logarithmic forms
    rank alike, and here answer with the score itself. The vectoriser of a text2text application can't be taken along:
    it splits at white space and keeps punctuation, which ``TfidfVectorizer`` has no setting for.

    Examples
    --------
    The smallest such folder: two features and a constant one, two labels, no tree.

    >>> import json, pathlib, tempfile
    >>> import numpy as np, scipy.sparse as sp
    >>> from sylvan.importers import from_libpecos
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> layer = folder / "ranker" / "0.model"
    >>> layer.mkdir(parents=True)
    >>> param = {"bias": 1.0, "pred_kwargs": {"only_topk": 2, "post_processor": "l3-hinge"}}
    >>> _ = (layer / "param.json").write_text(json.dumps(param))
    >>> _ = (folder / "ranker" / "param.json").write_text('{"model": "HierarchicalMLModel", "depth": 1}')
    >>> sp.save_npz(layer / "W.npz", sp.csc_matrix([[2.0, 0.0], [0.0, 2.0], [-1.0, -1.0]]))
    >>> sp.save_npz(layer / "C.npz", sp.csc_matrix([[1.0], [1.0]]))
    >>> from_libpecos(folder).rank(np.array([[0.0, 1.0]]), k=1).labels.tolist()
    [[1]]
    """
    where = Path(folder)
    several = where / "xlinear_ensemble"
    if several.is_dir():
        count = need_field(read_json(several / "config.json"), "nr_ensembles", int, several / "config.json", 1)
        if count > 1:
            raise ModelError(f"{str(where)!r} joins {count} models; import them one by one from {str(several)!r}.")
        where = several / "0"
    chain = where / "ranker" if (where / "ranker").is_dir() else where
    param = read_json(chain / "param.json")
    if need_field(param, "model", str, chain / "param.json") not in _MODELS:
        raise ModelError(f"{str(chain)!r} holds a {param['model']!r:.60}, not an XLinearModel of libpecos.")
    depth = need_field(param, "depth", int, chain / "param.json", 1, MAX_DEPTH)
    layers = [_read_layer(chain / f"{t}.model") for t in range(depth)]
    n_labels, n_layers = layers[-1].weights.shape[0], depth + (chain / f"{depth}.model").exists()
    for name, got, found in ("depth", depth, n_layers), ("nr_labels", param.get("nr_labels", n_labels), n_labels):
        if got != found:
            raise ModelError(f"{str(chain / 'param.json')!r} says {name}={got!r:.60}, but the layers say {found}.")
    nodes = _nodes_of_layers(layers, chain)
    combine = _combine([layer.post_processor for layer in layers], chain)
    widths = [layer.only_topk for layer in layers[:-1]]
    beam = max(widths, default=10)
    if len(set(widths)) > 1:
        words = f"follows {', '.join(map(str, widths))} nodes in its layers (only_topk), and XRLinear one number in all"
        warn_data(f"{str(where)!r} {words}: the largest, {beam}, is taken, so that some rows may rank otherwise.")
    bias = max(layers[0].bias, 0.0)
    return build_model([nodes], n_labels, combine, weight_dtype, repr(str(where)), beam=beam, bias=bias)


def _read_layer(folder: Path) -> _Layer:
    path = folder / "param.json"
    param = read_json(path)
    if param.get("is_mmap") if isinstance(param, dict) else False:
        words = "which only libpecos reads. Import the folder that it was compiled from"
        raise ModelError(f"{str(folder)!r} is a model compiled to memory maps, {words}.")
    bias = need_field(param, "bias", float, path, -1, 10**9)
    prediction = need_field(param, "pred_kwargs", dict, path)
    weights, children = _matrix(folder / "W.npz"), _matrix(folder / "C.npz")
    if children.shape[1] != weights.shape[0]:
        counts = f"W.npz has {weights.shape[0]} columns, but C.npz {children.shape[1]} rows"
        raise ModelError(f"{str(folder)!r}: {counts}: each node must have one of both.")
    intercepts = np.zeros(weights.shape[0], np.float32)
    if bias > 0:  # the last feature is the constant one
        if weights.shape[1] < 1:
            raise ModelError(f"{str(folder / 'W.npz')!r} lacks the row of the bias.")
        intercepts = (weights[:, -1].toarray().ravel() * np.float32(bias)).astype(np.float32)
        weights = weights[:, :-1]
    return _Layer(
        children, weights, intercepts, bias, need_field(prediction, "post_processor", str, path),
        need_field(prediction, "only_topk", int, path, 1),
    )  # fmt: skip


def _matrix(path: Path) -> sp.csr_matrix:
    """The columns of a matrix as rows, without zeros."""
    try:
        return load_npz_columns(path)
    except DataError as error:
        raise ModelError(str(error)) from error


def _nodes_of_layers(layers: list[_Layer], where: Path) -> Nodes:
    """The nodes of all layers, numbered through from the top."""
    n_features = layers[0].weights.shape[1]
    parents, labels, above, first = [], [], 1, 0
    for t, layer in enumerate(layers):
        (n_nodes, width), n_parents = layer.weights.shape, layer.children.shape[0]
        if width != n_features:
            raise ModelError(f"{str(where)!r}: layer {t} has {width} features, but layer 0 has {n_features}.")
        if n_parents != above:
            raise ModelError(f"{str(where)!r}: C.npz of layer {t} has {n_parents} columns for {above} parents.")
        counts = np.bincount(layer.children.indices, minlength=n_nodes)
        if counts.max(initial=0) > 1:
            words = f"in layer {t}, node {int(counts.argmax())} has {int(counts.max())} parents"
            raise ModelError(f"{str(where)!r}: {words}. Trees with overlapping clusters can't be imported.")
        parent = np.full(n_nodes, -2, np.int64)
        parent[layer.children.indices] = np.repeat(np.arange(above), np.diff(layer.children.indptr))
        parents.append(np.where(parent >= 0, parent + first - above, parent) if t else np.where(parent < 0, -2, -1))
        labels.append(np.arange(n_nodes) if layer is layers[-1] else np.full(n_nodes, -1))
        above, first = n_nodes, first + n_nodes
    return _attached(np.concatenate(parents), np.concatenate(labels), layers)


def _attached(parents: Ints, labels: Ints, layers: list[_Layer]) -> Nodes:
    """Only the nodes that hang in the tree and have labels below them (constraints on the output cut some off)."""
    alive = reached = labels >= 0
    for _ in layers:  # from below: whoever has a label below
        up, reached = parents[reached & (parents >= 0)], np.zeros(len(parents), bool)
        reached[up] = True
        alive = alive | reached
    for _ in layers:  # from above: whoever hangs in the tree
        alive = alive & ((parents == -1) | ((parents >= 0) & alive[parents]))
    number, remaining = np.cumsum(alive) - 1, parents[alive]
    weights = sp.vstack([layer.weights for layer in layers], format="csr")
    intercepts = np.concatenate([layer.intercepts for layer in layers])
    above = np.where(remaining >= 0, number[remaining], remaining)
    return Nodes(above, labels[alive], np.flatnonzero(alive), weights, intercepts)


def _combine(names: list[str], where: Path) -> str | list[str]:
    """Sylvan's words for libpecos's post-processors."""
    words, logarithms = [], set()
    for t, name in enumerate(names):
        if name == "noop":
            words.append("ranker")
            continue
        match = _POST_PROCESSOR.fullmatch(name)
        if match is None:
            raise ModelError(f"{str(where)!r}: layer {t} has the post-processor {name!r:.60}, which Sylvan has not.")
        logarithms.add(bool(match[1]))
        words.append(f"l{match[2]}_hinge" if match[2] else "sigmoid")
        if t and words[t - 1] == "ranker":
            raise ModelError(f"{str(where)!r}: layer {t} combines its scores with unbounded ones of layer {t - 1}.")
    if len(logarithms) > 1:
        raise ModelError(f"{str(where)!r}: some layers multiply scores, others add logarithms: {', '.join(names)}.")
    return words[0] if len(set(words)) == 1 else words
