"""Blocks: the results of many jobs side by side in one model folder of a checkpoint."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.errors import ModelError
from sylvan.runtime.jobs import Arrays

_KIND = "training-block"
_NAMES, _SHAPES = "names", "shapes"


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


def read_block(state: store.State) -> Iterator[tuple[str, dict[str, npt.NDArray[Any]]]]:
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
