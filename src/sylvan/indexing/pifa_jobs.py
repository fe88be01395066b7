"""PIFA of rows in parts, as jobs: each embeds some labels from the rows that have them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import kernels
from sylvan.canonical import distinct
from sylvan.data.row_parts import RowParts
from sylvan.errors import ModelError
from sylvan.runtime.jobs import Arrays, Job, Packing, Runner
from sylvan.validate import Csr

__all__ = ["members_of", "pifa_of_parts", "task_edges"]

_TASK_VALUES = 1 << 21  # feature values that one task of PIFA adds up


def members_of(y: Csr) -> Csr:
    """Y transposed: the instances of each label, in rising order."""
    return Csr.of(y.to_scipy().tocsc().T)


def task_edges(sizes: npt.NDArray[np.int64], n_columns: int) -> list[int]:
    """Where the labels of each task begin, by the number of feature values of each label's instances."""
    task = max(_TASK_VALUES, 8 * n_columns)  # a task clears an array of all columns first
    cuts = np.searchsorted(np.cumsum(sizes), np.arange(task, int(sizes.sum()), task)) + 1
    edges: list[int] = np.unique(np.concatenate(([0], cuts, [len(sizes)]))).tolist()
    return edges


def pifa_of_parts(
    x: RowParts, y: Csr, keep: int | None, runner: Runner, zeros: Callable[[int, Any], npt.NDArray[Any]]
) -> Csr:
    """PIFA by jobs of some labels each, from the rows of these labels."""
    members = members_of(y)
    counts = np.concatenate(([0], np.cumsum(np.diff(x.indptr)[members.indices])))
    sizes = np.diff(counts[members.indptr])
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
        own = slice(int(indptr[ranges[number][0]]), int(indptr[ranges[number][1]]))
        columns[own], values[own] = block.indices, block.data
    return Csr(indptr, columns, values, (y.shape[1], x.shape[1]))


def _own_members(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The instances of some labels, and the ids of their rows, by whose places instances now go."""
    members = inputs["members"].take(np.arange(*inputs["labels"]))
    rows = distinct(members.indices)
    places = np.searchsorted(rows, members.indices).astype(np.int32)
    own = Csr(members.indptr, places, members.data, (members.shape[0], len(rows)))
    return {"features": inputs["features"], "keep": inputs["keep"], "members": own, "rows": rows}


def _some_embedded(features: RowParts, rows: npt.NDArray[np.int32], members: Csr, keep: int | None) -> Csr:
    """The embeddings of some labels, from the rows that have them."""
    block, used = features.take(rows).used_columns()
    sizes = np.add.reduceat(np.append(np.diff(block.indptr)[members.indices], 0), members.indptr[:-1])
    sizes[np.diff(members.indptr) == 0] = 0
    room = int(np.minimum(sizes, min(block.shape[1], keep or block.shape[1])).sum())
    lengths = np.zeros(members.shape[0], np.int64)
    columns, values = np.empty(room, np.int32), np.empty(room, np.float32)
    kernels.aggregate_features(
        block.indptr, block.indices, block.data, block.shape[1], members.indptr, members.indices, members.data,
        0, members.shape[0], keep or 0, lengths, columns, values,
    )  # fmt: skip
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    columns = columns[: indptr[-1]] if used is None else used[columns[: indptr[-1]]]
    return Csr(indptr, columns, values[: indptr[-1]].copy(), (members.shape[0], features.shape[1]))


def _pack(block: Csr) -> Arrays:
    return {"indptr": block.indptr, "indices": block.indices, "data": block.data, "shape": np.array(block.shape)}


def _unpack(arrays: Arrays) -> Csr:
    if set(arrays) != {"indptr", "indices", "data", "shape"} or arrays["shape"].shape != (2,):
        raise ModelError("A stored block of embeddings is damaged: its arrays don't agree.")
    indptr, indices, data = np.array(arrays["indptr"]), np.array(arrays["indices"]), np.array(arrays["data"])
    shape = (int(arrays["shape"][0]), int(arrays["shape"][1]))
    if len(indptr) != shape[0] + 1 or kernels.check_compressed(indptr, indices, data, shape[1])[0]:
        raise ModelError("A stored block of embeddings is damaged: its rows aren't sorted, or not finite.")
    return Csr(indptr, indices, data, shape)


_EMBEDDED: Packing[Csr] = Packing(_pack, _unpack)
