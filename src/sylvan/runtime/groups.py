"""Several jobs as one, so that each message to another machine, and each file written, is worth its overhead."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from sylvan import store
from sylvan.arrays.types import Array
from sylvan.errors import ModelError
from sylvan.runtime.jobs import Arrays, Job

_KIND = "training-block"
_NAMES, _SHAPES = "names", "shapes"
_MOST = 256  # jobs of a group
_Cut = Callable[[Mapping[str, Any]], Mapping[str, Any]] | None


def block_state(results: Sequence[tuple[str, Arrays]]) -> store.State:
    """Results by their jobs' names, all with the same fields; each field's values lie one behind the other."""
    fields = sorted(results[0][1])
    shapes: list[int] = []
    for _, arrays in results:
        for field in fields:
            shapes += [arrays[field].ndim, *arrays[field].shape]
    names = np.frombuffer("\n".join(name for name, _ in results).encode(), np.uint8)
    arrays = {f"field.{field}": np.concatenate([each[field].reshape(-1) for _, each in results]) for field in fields}
    return store.State(_KIND, 1, arrays={_NAMES: names, _SHAPES: np.array(shapes, np.int64), **arrays})


def block_names(state: store.State) -> list[str]:
    """The names of a block's jobs."""
    store.need_kind(state, _KIND)
    try:
        return bytes(store.need_array(state, _NAMES, np.uint8, (None,))).decode().split("\n")
    except UnicodeDecodeError as error:
        raise ModelError(f"{state.where!r} is damaged: its names are no text.") from error


def read_block(state: store.State) -> Iterator[tuple[str, dict[str, Array]]]:
    """Each job's name and arrays, which are parts of the block's."""
    fields = sorted(name for name in state.arrays if name.startswith("field."))
    shapes = iter(store.need_array(state, _SHAPES, np.int64, (None,)).tolist())
    ends = dict.fromkeys(fields, 0)
    try:
        for name in block_names(state):
            arrays = {}
            for field in fields:
                n_dims = next(shapes)
                shape = [next(shapes) for _ in range(n_dims)]
                size = math.prod(shape) if min(shape, default=0) >= 0 <= n_dims else -1
                part = state.arrays[field][ends[field] : ends[field] + size]
                if size < 0 or len(part) != size:
                    raise ValueError("an array ends before its last result")
                arrays[field.removeprefix("field.")] = part.reshape(shape)
                ends[field] += size
            yield name, arrays
        if next(shapes, None) is not None or any(ends[field] < len(state.arrays[field]) for field in fields):
            raise ValueError("it holds more than its results")
    except (StopIteration, RuntimeError, ValueError) as error:
        raise ModelError(f"{state.where!r} is damaged: {error or 'it has too few shapes'}.") from error


class SentAlong(tuple[Any, ...]):
    """Something small that belongs to one job, and is best sent with it."""

    __slots__ = ()


def grouped(jobs: Sequence[Job[Any]], n_groups: int) -> list[tuple[Job[list[Any]], list[int]]]:
    """Jobs that run several others one after the other, and the numbers of these; the most expensive first. Each has
    about one of ``n_groups`` equal shares of the cost, unless one job has more. Its result is the list of theirs."""
    grain = sum(job.cost for job in jobs) / max(1, n_groups)
    groups: list[list[int]] = []
    filled = 0.0
    for number in sorted(range(len(jobs)), key=lambda number: -jobs[number].cost):
        if not groups or filled + jobs[number].cost > grain or len(groups[-1]) == _MOST:
            groups.append([])
            filled = 0.0
        groups[-1].append(number)
        filled += jobs[number].cost
    return [(_together([jobs[number] for number in numbers]), numbers) for numbers in groups]


def _together(jobs: Sequence[Job[Any]]) -> Job[list[Any]]:
    first = jobs[0]
    inputs = {f"{number}.{name}": value for number, job in enumerate(jobs) for name, value in job.inputs.items()}
    cuts: list[_Cut] = [job.cut for job in jobs]
    return Job(
        first.name if len(jobs) == 1 else f"{first.name} and {len(jobs) - 1} more",
        _one_by_one,
        {**inputs, "jobs": SentAlong((job.name, job.work, job.title) for job in jobs)},
        sum(job.cost for job in jobs),
        max(job.peak_bytes for job in jobs),
        title=first.title,
        cut=partial(_cut_each, cuts) if any(cuts) else None,
    )


def _cut_each(cuts: Sequence[_Cut], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of each job cut, as it asks for."""
    result = {name: value for name, value in inputs.items() if "." not in name}  # of all of them
    for number, (cut, arguments) in enumerate(zip(cuts, _of_each(inputs, len(cuts)), strict=True)):
        result.update(
            (f"{number}.{name}", value) for name, value in (arguments if cut is None else cut(arguments)).items()
        )
    return result


def _of_each(inputs: Mapping[str, Any], n_jobs: int) -> list[dict[str, Any]]:
    """The inputs by their jobs."""
    job_inputs: list[dict[str, Any]] = [{} for _ in range(n_jobs)]
    for key, value in inputs.items():
        number, dot, name = key.partition(".")
        if dot:
            job_inputs[int(number)][name] = value
    return job_inputs


def _one_by_one(jobs: SentAlong, **inputs: Any) -> list[Any]:
    inputs_of = _of_each(inputs, len(jobs))
    return [
        Job(name, work, arguments, title=title)()
        for (name, work, title), arguments in zip(jobs, inputs_of, strict=True)
    ]


def storing_group(
    group: Job[list[Any]], jobs: Sequence[Job[Any]], paths: Sequence[str]
) -> Job[list[tuple[str, list[str]]]]:
    """A group that writes its jobs' results as blocks of a checkpoint, and answers with their places and names."""
    packs = SentAlong((job.name, job.packing.pack) for job in jobs if job.packing is not None)
    inputs = {**group.inputs, "packs": packs, "paths": tuple(paths)}
    return dataclasses.replace(group, work=_stored, inputs=inputs)


def _stored(packs: SentAlong, paths: tuple[str, ...], **inputs: Any) -> list[tuple[str, list[str]]]:
    results = _one_by_one(**inputs)
    packed = [(name, pack(result)) for (name, pack), result in zip(packs, results, strict=True)]
    del results
    written = []
    for path, block in zip(paths, by_fields(packed), strict=False):
        store.save(path, block_state(block))
        written.append((path, [name for name, _ in block]))
    return written


def by_fields(results: Sequence[tuple[str, Arrays]]) -> list[list[tuple[str, Arrays]]]:
    """Results by name, those with the same fields together, as a block has them."""
    groups: dict[tuple[Any, ...], list[tuple[str, Arrays]]] = {}
    for name, arrays in results:
        fields = tuple((field, arrays[field].dtype.str) for field in sorted(arrays))
        groups.setdefault(fields, []).append((name, arrays))
    return list(groups.values())
