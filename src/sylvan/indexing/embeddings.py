"""Label embeddings: one vector per label, computed from the rows with this label (PECOS, section 2.1.1)."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import kernels
from sylvan.arrays import validate
from sylvan.arrays.canonical import compressed, distinct
from sylvan.arrays.types import Array, Float32, Float64, Int32, Int64
from sylvan.arrays.validate import Csr
from sylvan.data.parts.row_parts import RowParts, Rows
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.parallel import map_parallel, resolve_jobs
from sylvan.params.fields import Number, check_value
from sylvan.runtime.jobs import Arrays, Job, Packing, Runner

_TASK_VALUES = 1 << 21  # feature values that one task of PIFA adds up
Embedding = Literal["pifa", "pii", "pifa_lf", "spectral"]


def members_of(y: Csr) -> Csr:
    """Y transposed: the instances of each label, in rising order."""
    return Csr.of(y.to_scipy().tocsc().T)


def task_edges(sizes: Int64, n_columns: int) -> list[int]:
    """Where the labels of each task begin, by the number of feature values of each label's instances."""
    task = max(_TASK_VALUES, 8 * n_columns)  # a task clears an array of all columns first
    cuts = np.searchsorted(np.cumsum(sizes), np.arange(task, int(sizes.sum()), task)) + 1
    return list(np.unique(np.concatenate(([0], cuts, [len(sizes)]))).tolist())


def _pifa_of_parts(
    x: RowParts, members: Csr, sizes: Int64, keep: int | None, runner: Runner, zeros: Callable[[int, Any], Array]
) -> Csr:
    """PIFA by jobs of some labels each, from the rows of these labels."""
    ranges = list(itertools.pairwise(task_edges(sizes, min(x.shape[1], _TASK_VALUES))))
    jobs = [
        Job(
            f"embeddings{first}", _some_embedded,
            {"features": x, "members": members, "labels": (first, last), "keep": keep},
            float(sizes[first:last].sum()), 8 * (x.shape[1] + 2 * int(sizes[first:last].sum())), _EMBEDDED,
            "embedding labels", cut=_own_members,
        )
        for first, last in ranges
    ]  # fmt: skip
    blocks = runner.run(jobs, "Embedding labels")
    lengths = [np.zeros(0, np.int64)] * len(jobs)
    for number, block in blocks.scan():
        lengths[number] = np.diff(block.indptr)
    indptr = np.concatenate(([0], np.cumsum(np.concatenate(lengths)))).astype(np.int64)
    columns, values = zeros(int(indptr[-1]), np.int32), zeros(int(indptr[-1]), np.float32)
    for number, block in blocks.drain(range(len(jobs))):
        entries = slice(int(indptr[ranges[number][0]]), int(indptr[ranges[number][1]]))
        columns[entries], values[entries] = block.indices, block.data
    return Csr(indptr, columns, values, (members.shape[0], x.shape[1]))


def _own_members(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The instances of some labels, and the ids of their rows, by whose places instances now go."""
    members = inputs["members"].take(np.arange(*inputs["labels"]))
    rows = distinct(members.indices)
    places = np.searchsorted(rows, members.indices).astype(np.int32)
    local = Csr(members.indptr, places, members.data, (members.shape[0], len(rows)))
    return {"features": inputs["features"], "keep": inputs["keep"], "members": local, "rows": rows}


def _some_embedded(features: RowParts, rows: Int32, members: Csr, keep: int | None) -> Csr:
    """The embeddings of some labels, from the rows that have them."""
    block, used = features.take(rows).used_columns()
    sizes = np.add.reduceat(np.append(np.diff(block.indptr)[members.indices], 0), members.indptr[:-1])
    sizes[np.diff(members.indptr) == 0] = 0
    n_entries = int(np.minimum(sizes, min(block.shape[1], keep or block.shape[1])).sum())
    lengths = np.zeros(members.shape[0], np.int64)
    columns, values = np.empty(n_entries, np.int32), np.empty(n_entries, np.float32)
    kernels.aggregate_features(
        block.indptr, block.indices, block.data, block.shape[1], members.indptr, members.indices, members.data,
        0, members.shape[0], keep or 0, False, lengths, columns, values,
    )  # fmt: skip
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    columns = columns[: indptr[-1]] if used is None else used[columns[: indptr[-1]]]
    return Csr(indptr, columns, values[: indptr[-1]].copy(), (members.shape[0], features.shape[1]))


def _pack(block: Csr) -> Arrays:
    return {"indptr": block.indptr, "indices": block.indices, "data": block.data, "shape": np.array(block.shape)}


def _unpack(arrays: Arrays) -> Csr:
    if set(arrays) != {"indptr", "indices", "data", "shape"} or arrays["shape"].shape != (2,):
        raise ModelError("A stored block of embeddings is damaged: its arrays don't agree.")
    indptr, indices, data = (np.array(arrays[name]) for name in ("indptr", "indices", "data"))
    shape = int(arrays["shape"][0]), int(arrays["shape"][1])
    if len(indptr) != shape[0] + 1 or kernels.check_compressed(indptr, indices, data, shape[1])[0]:
        raise ModelError("A stored block of embeddings is damaged: its rows aren't sorted, or not finite.")
    return Csr(indptr, indices, data, shape)


_EMBEDDED: Packing[Csr] = Packing(_pack, _unpack)


def pii(Y: Any) -> sp.csr_matrix:
    """Positive instance indices: a label is the set of its instances.

    Parameters
    ----------
    Y : label matrix of shape (n, L), lists of label ids, or Csr
        Which instances have which labels; values are relevances.

    Returns
    -------
    csr_matrix of float32, shape (L, n)
        Rows of length one; the row of a label without instances is empty.

    Raises
    ------
    DataError
        When Y is no label matrix.

    Notes
    -----
    Yu et al. (2022), "PECOS", section 2.1.1, PII.

    Examples
    --------
    >>> from sylvan import indexing
    >>> print(indexing.pii([[0], [0, 1]]).toarray().round(2))
    [[0.71 0.71]
     [0.   1.  ]]
    """
    return members_of(validate.labels(Y)).unit_rows().to_scipy()


def pifa(X: Any, Y: Any, *, max_features_per_label: int | None = 1024, n_jobs: int | None = 1) -> sp.csr_matrix:
    """Positive instance feature aggregation: a label is the sum of its instances' features.

    Parameters
    ----------
    X : feature matrix of shape (n, d), or Csr
    Y : label matrix of shape (n, L), lists of label ids, or Csr
        Its relevances weight the instances.
    max_features_per_label : int, optional
        Keep only this many values of each label, the largest; None keeps all, as the paper does. Labels with many
        instances have most features, which cost time and memory; docs/results has both beside the precision.
    n_jobs : int, optional
        Number of threads; the result does not depend on it.

    Returns
    -------
    csr_matrix of float32, shape (L, d)
        Rows of length one, columns sorted; the row of a label without instances is empty.

    Raises
    ------
    DataError
        When X or Y is malformed or they differ in their number of rows.
    ParameterError
        When a parameter is out of its range.

    Notes
    -----
    Yu et al. (2022), "PECOS", section 2.1.1, PIFA: the rows of Y^T X, scaled to length one.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import indexing
    >>> X = np.array([[3.0, 0.0], [0.0, 4.0], [0.0, 1.0]])
    >>> print(indexing.pifa(X, [[0], [0, 1], [1]]).toarray().round(2))
    [[0.6 0.8]
     [0.  1. ]]
    """
    check_value("max_features_per_label", max_features_per_label, Number(int, 1, optional=True))
    return pifa_rows(*validate.pair(X, Y), max_features_per_label, resolve_jobs(n_jobs)).to_scipy()


def embedding_bytes(n_labels: int, n_entries: int, n_label_entries: int, most: int | None = 1024) -> int:
    """PIFA at its peak: each label's values, and the labels' rows beside them. ``n_entries`` is how many feature values
    the rows of all labels hold together, ``n_label_entries`` the number of entries of Y. A label keeps ``most`` values,
    or all; labels that share columns need less than is counted."""
    return 8 * (n_entries if most is None else min(n_entries, n_labels * most)) + 16 * n_label_entries + 40 * n_labels


def pifa_rows(
    x: Rows, y: Csr, keep: int | None, n_jobs: int, zeros: Callable[[int, Any], Array] | None = None,
    runner: Runner | None = None, of_all: bool = False,
) -> Csr:  # fmt: skip
    """:func:`pifa` of verified matrices; ``zeros(size, dtype)`` gives the arrays, those of a file for instance. Of rows
    in parts, each job of the ``runner`` reads those of its labels. ``of_all``, not of rows in parts: each label's row
    is scaled to length 1 before values of it are dropped."""
    allocate: Callable[[int, Any], Array] = zeros or np.empty
    members, n_features = members_of(y), x.shape[1]
    counts = np.concatenate(([0], np.cumsum(np.diff(x.indptr)[members.indices])))
    sizes = np.diff(counts[members.indptr])  # feature values of each label's instances
    if isinstance(x, RowParts):
        return _pifa_of_parts(x, members, sizes, keep, Runner(n_jobs) if runner is None else runner, allocate)
    x, used = x.used_columns()
    most = keep or 0
    rooms = np.minimum(sizes, min(x.shape[1], most) if most else x.shape[1])
    edges = task_edges(sizes, x.shape[1])
    starts = np.concatenate(([0], np.cumsum(rooms)))
    columns, values = allocate(int(starts[-1]), np.int32), allocate(int(starts[-1]), np.float32)
    lengths = np.zeros(y.shape[1], np.int64)

    def work(labels: tuple[int, int]) -> None:
        first, last = labels
        entries = slice(starts[first], starts[last])
        kernels.aggregate_features(
            x.indptr, x.indices, x.data, x.shape[1], members.indptr, members.indices, members.data,
            first, last, most, of_all, lengths[first:last], columns[entries], values[entries],
        )  # fmt: skip

    ranges = list(itertools.pairwise(edges))
    costs = [float(sizes[first:last].sum()) for first, last in ranges]
    map_parallel(work, ranges, n_jobs, costs=costs, description="Embedding labels")
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    moves = [(int(starts[first]), int(indptr[first])) for first in edges]
    columns, values = (_without_gaps(array, moves, int(indptr[-1])) for array in (columns, values))
    if used is not None:
        columns = used[columns]
    return Csr(indptr, columns, values, (y.shape[1], n_features))


def _without_gaps(array: Array, moves: list[tuple[int, int]], total: int) -> Array:
    """Each task's values moved up to the end of the one before, in place, and what is left cut off. Rows that share
    columns need less room than was there for them. That room was never written to, so it never cost memory; a copy
    would."""
    for (old, new), (_, stop) in itertools.pairwise(moves):
        array[new:stop] = array[old : old + stop - new]
    if not array.flags.owndata:
        return array[:total]
    array.resize(total, refcheck=False)
    return array


def pifa_lf(
    X: Any, Y: Any, label_features: Any, alpha: float | npt.ArrayLike = 0.5, *,
    max_features_per_label: int | None = 1024, n_jobs: int | None = 1,
) -> sp.csr_matrix:  # fmt: skip
    """PIFA together with features of the labels themselves, such as their names' TF-IDF vectors.

    Parameters
    ----------
    X, Y, max_features_per_label, n_jobs
        As in :func:`pifa`.
    label_features : feature matrix of shape (L, d)
        In the same feature space as X.
    alpha : float or array of shape (L,)
        Weight of PIFA in [0, 1], one for all or one per label; the label's own features have weight ``1 - alpha``. A
        label without instances has only its own features.

    Returns
    -------
    csr_matrix of float32, shape (L, d)
        Rows of length one.

    Raises
    ------
    DataError
        When a matrix is malformed or the shapes do not fit each other.
    ParameterError
        When ``alpha`` is out of range or not one number per label.

    Notes
    -----
    Yu et al. (2022), "PECOS", section 2.1.1, PIFA + LF: (1 - alpha) Z + alpha PIFA.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import indexing
    >>> X, own = np.eye(2), np.array([[0.0, 1.0], [0.0, 1.0]])
    >>> print(indexing.pifa_lf(X, [[0], [1]], own, alpha=0.5).toarray().round(2))
    [[0.71 0.71]
     [0.   1.  ]]
    """
    instances = pifa(X, Y, max_features_per_label=max_features_per_label, n_jobs=n_jobs)
    n_labels, n_features = instances.shape
    features_of_labels = validate.features(label_features, n_features=n_features, name="label_features", owner="PIFA")
    if (shape := features_of_labels.shape)[0] != n_labels:
        raise DataError(f"label_features has shape {shape}, but one row for each label, of {n_labels:,}, is needed.")
    return _mixed(instances, features_of_labels, alpha)


def _mixed(instances: sp.csr_matrix, label_features: Csr, alpha: float | npt.ArrayLike) -> sp.csr_matrix:
    """PIFA and the labels' own features, weighted and scaled to length one."""
    n_labels = instances.shape[0]
    weights = np.asarray(alpha, dtype=np.float64)
    if weights.shape not in {(), (n_labels,)} or not bool(((weights >= 0) & (weights <= 1)).all()):
        raise ParameterError(
            f"The 'alpha' parameter must be a float in [0, 1], or an array of {n_labels} such floats, one a "
            f"label. Got {alpha!r} instead."
        )
    weights = np.where(np.diff(instances.indptr) > 0, weights, 0.0)
    mixed = sp.diags_array(1 - weights) @ label_features.to_scipy() + sp.diags_array(weights) @ instances
    return Csr.of(sp.csr_matrix(mixed, dtype=np.float32)).unit_rows().to_scipy()


def spectral(Y: Any, k: int = 64, *, seed: int = 0) -> Float32:
    """Spectral embeddings: co-clustering of the bipartite graph between instances and labels.

    Parameters
    ----------
    Y : label matrix of shape (n, L), lists of label ids, or Csr
    k : int
        Number of dimensions; fewer are returned if the graph has fewer.
    seed : int
        Seed of the start vector of the eigenvalue solver.

    Returns
    -------
    ndarray of float32, shape (L, k)
        The 2nd to k+1-st right singular vectors of D1^-1/2 Y D2^-1/2, scaled by D2^-1/2; a label without
        instances is the zero vector.

    Raises
    ------
    DataError
        When Y is no label matrix.
    ParameterError
        When ``k`` or ``seed`` is out of its range.

    Notes
    -----
    Yu et al. (2022), "PECOS", section 2.1.1, Spectral; Dhillon (2001), "Co-clustering documents and words using
    bipartite spectral graph partitioning", equation 12.

    Examples
    --------
    >>> from sylvan import indexing
    >>> Z = indexing.spectral([[0, 1], [0, 1], [1, 2], [2, 3], [2, 3]], k=1)
    >>> Z.shape, bool(Z[0, 0] * Z[3, 0] < 0)
    ((4, 1), True)
    """
    check_value("k", k, Number(int, 1))
    check_value("seed", seed, Number(int, 0, 2**63 - 1))
    y = validate.labels(Y).to_scipy().astype(np.float64)
    rows, columns = _inverse_roots(y.sum(axis=1)), _inverse_roots(y.sum(axis=0))
    scaled = sp.csr_matrix(sp.diags_array(rows) @ y @ sp.diags_array(columns))
    vectors = _right_singular_vectors(scaled, min(k + 1, *scaled.shape), seed)
    # A vector's sign is arbitrary; the largest entry is made positive so that the bits are one solver's own.
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]) if vectors.size else 1.0
    embeddings = (vectors * np.where(signs == 0, 1.0, signs))[:, 1 : k + 1] * columns[:, None]
    embeddings = embeddings if embeddings.shape[1] else np.zeros((y.shape[1], 1))
    return np.ascontiguousarray(embeddings, dtype=np.float32)


def _right_singular_vectors(matrix: sp.csr_matrix, k: int, seed: int) -> Float64:
    """The leading right singular vectors in falling order of their singular values, one a column."""
    if k == 0:
        return np.zeros((matrix.shape[1], 0))
    if k >= min(matrix.shape):
        return np.asarray(np.linalg.svd(matrix.toarray(), full_matrices=False)[2][:k].T)
    from scipy.sparse.linalg import LinearOperator, eigsh  # loaded only here: `import sylvan` stays light

    wide, generator = matrix.shape[0] < matrix.shape[1], np.random.default_rng(seed)
    first = sp.csr_matrix(matrix.T) if wide else matrix
    second = sp.csr_matrix(first.T)
    gram = LinearOperator((second.shape[0],) * 2, matvec=lambda x: second @ (first @ x), dtype=np.float64)
    start = generator.standard_normal(gram.shape[0])
    # A graph of several parts has a singular value several times, which ARPACK finds by starting again at random.
    random: dict[str, Any] = {"rng": generator} if "rng" in inspect.signature(eigsh).parameters else {}
    vectors = np.linalg.qr(eigsh(gram, k=k, v0=start, **random)[1])[0]
    left, _, turned = np.linalg.svd(first @ vectors, full_matrices=False)
    return np.asarray(left if wide else vectors @ turned.T)


def _inverse_roots(degrees: Any) -> Float64:
    """Degrees to the power -1/2; 0 where the degree is 0."""
    flat = np.asarray(degrees, dtype=np.float64).ravel()
    return np.divide(1.0, np.sqrt(flat), out=np.zeros_like(flat), where=flat > 0)


def embed_labels(
    features: Rows, labels: Csr, embedding: str, *, alpha: float | npt.ArrayLike = 0.5,
    max_features_per_label: int | None = 1024, spectral_dimensions: int = 64, label_features: Any = None,
    label_embeddings: Any = None, seed: int = 0, n_jobs: int = 1,
    zeros: Callable[[int, Any], Array] | None = None, runner: Runner | None = None,
) -> Any:  # fmt: skip
    """Embeddings of shape (L, dimensions): ``label_embeddings``, or those that ``embedding`` names.
    ``zeros(size, dtype)`` gives PIFA its large arrays; a ``runner`` its jobs, where the features are in parts."""
    if label_embeddings is not None:
        return _of_labels(label_embeddings, "label_embeddings", labels)
    if embedding == "pifa_lf":
        if label_features is None:
            raise DataError(
                "embedding='pifa_lf' needs label_features, a matrix of shape (n_labels, n_features) in the "
                "feature space of X."
            )
        features_of_labels = _of_labels(label_features, "label_features", labels)
        instances = pifa_rows(features, labels, max_features_per_label, n_jobs, runner=runner)
        return _mixed(instances.to_scipy(), features_of_labels, alpha)
    if embedding == "spectral":
        return spectral(labels, spectral_dimensions, seed=seed)
    if embedding == "pii":
        return pii(labels)
    result = pifa_rows(features, labels, max_features_per_label, n_jobs, zeros, runner)
    return compressed(result.indptr, result.indices, result.data, *result.shape, "embeddings", "row")


def _of_labels(matrix: Any, name: str, labels: Csr) -> Csr:
    """A matrix with one row a label."""
    rows = validate.features(matrix, name=name)
    if rows.shape[0] != labels.shape[1]:
        raise DataError(f"{name} has shape {rows.shape}, but Y has shape {labels.shape}: one row a label is needed.")
    return rows
