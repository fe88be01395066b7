"""Nested values with tensors in them as a folder of :mod:`sylvan.store`: arrays and JSON, nothing pickled.
``state_dict`` of modules and optimisers, generators and positions are dicts and lists of tensors and plain values. The
tensors become the folder's arrays; around them stands JSON, in which what JSON has no word for is an object with one
key that begins with ``$``."""

from __future__ import annotations

import json
import math
import os
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sylvan import store
from sylvan.errors import ModelError, ParameterError
from sylvan.runtime.jobs import Arrays, Packing
from sylvan.store import JSON

# What NumPy has no type for, or a store none, travels as the bits of something that both have.
_CARRIERS = {torch.bfloat16: torch.int16, torch.bool: torch.uint8}
_DTYPES = {
    str(dtype).partition(".")[2]: dtype
    for dtype in (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
        torch.bfloat16, torch.float16, torch.float32, torch.float64,
    )
}  # fmt: skip
_SMALL = 2**62  # ints beyond it are written as text


def save_tree(folder: str | os.PathLike[str], tree: Any, *, kind: str, params: dict[str, JSON] | None = None) -> None:
    """Write nested dicts, lists and tuples of tensors, arrays and plain values, whole or not at all.

    Parameters
    ----------
    folder : path
    tree : Any
        Of None, bool, int, float (infinities and NaN too), str, tensors, arrays, and lists, tuples and dicts (with keys
        that are str or int) of these.
    kind : str
        What this is, asked for again by :func:`load_tree`.
    params : dict, optional
        Plain values that stand in the manifest for people to read.

    Raises
    ------
    ParameterError
        When ``tree`` holds anything else.
    ModelError
        When the folder can't be written; what was there before is then still there.

    Examples
    --------
    >>> import tempfile, torch
    >>> from sylvan.neural import load_tree, save_tree
    >>> folder = tempfile.mkdtemp()
    >>> save_tree(folder, {"weights": torch.ones(2), "step": 3}, kind="example")
    >>> load_tree(folder, kind="example")
    {'weights': tensor([1., 1.]), 'step': 3}
    """
    store.save(folder, tree_state(tree, kind=kind, params=params))


def tree_state(tree: Any, *, kind: str, params: dict[str, JSON] | None = None) -> store.State:
    """What :func:`save_tree` writes, for those who write it themselves; parameters and errors as there."""
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    packed = _pack(tree, arrays, "")
    return store.State(kind, 1, params=params or {}, meta={"tree": packed}, arrays=arrays)


def load_tree(folder: str | os.PathLike[str], *, kind: str) -> Any:
    """What :func:`save_tree` wrote; tensors are copies in the memory of the CPU.

    Raises
    ------
    ModelError
        When the folder is missing, damaged, or of another kind.
    """
    return state_tree(store.load(folder, mmap=False), kind=kind)


def state_tree(state: store.State, *, kind: str) -> Any:
    """What :func:`tree_state` made; errors as those of :func:`load_tree`."""
    store.need_kind(state, kind)
    if "tree" not in state.meta:
        raise ModelError(f"{state.where!r} is damaged: its manifest holds no 'tree'.")
    return _unpack(state.meta["tree"], state)


def _pack_nested(tree: Any) -> Arrays:
    state = tree_state(tree, kind="")
    return {**state.arrays, "tree": np.frombuffer(json.dumps(state.meta["tree"]).encode(), np.uint8)}


def _unpack_nested(arrays: Arrays) -> Any:
    try:
        meta = {"tree": json.loads(bytes(arrays["tree"]))}
    except (KeyError, ValueError) as error:
        raise ModelError("A stored result of nested values is damaged: it doesn't say how they are nested.") from error
    return state_tree(store.State("", 1, meta=meta, arrays=dict(arrays)), kind="")


NESTED: Packing[Any] = Packing(_pack_nested, _unpack_nested)  # of a job whose result is what save_tree writes


def _pack(value: Any, arrays: dict[str, npt.NDArray[np.generic]], at: str) -> JSON:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if -_SMALL < value < _SMALL else {"$int": str(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, Tensor):
        return {"$tensor": [_add(arrays, _array_of(value, at)), str(value.dtype).partition(".")[2]]}
    if isinstance(value, np.ndarray):
        return {"$array": _add(arrays, value)}
    if isinstance(value, list):
        return [_pack(item, arrays, f"{at}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, tuple):
        return {"$tuple": [_pack(item, arrays, f"{at}[{i}]") for i, item in enumerate(value)]}
    if isinstance(value, dict):
        if not all(isinstance(key, str | int) for key in value):
            raise ParameterError(f"Keys in a checkpoint must be str or int; there are others at {at or 'its top'}.")
        items = {key: _pack(item, arrays, f"{at}[{key!r}]") for key, item in value.items()}
        if all(isinstance(key, str) and not key.startswith("$") for key in items):
            return items
        return {"$dict": [[key, item] for key, item in items.items()]}
    raise ParameterError(
        f"A checkpoint holds numbers, texts, tensors, arrays, and lists and dicts of these. Got a "
        f"{type(value).__name__} at {at or 'its top'} instead."
    )


def _add(arrays: dict[str, npt.NDArray[np.generic]], array: npt.NDArray[np.generic]) -> str:
    name = f"a{len(arrays)}"
    arrays[name] = array
    return name


def _array_of(tensor: Tensor, at: str) -> npt.NDArray[np.generic]:
    if tensor.layout != torch.strided or tensor.dtype not in _DTYPES.values():
        raise ParameterError(
            f"A checkpoint holds dense tensors of ints, floats or truth values. Got a {tensor.layout} tensor of "
            f"{tensor.dtype} at {at or 'its top'} instead."
        )
    plain = tensor.detach().cpu().contiguous()
    if plain.dtype in _CARRIERS:
        plain = plain.view(_CARRIERS[plain.dtype])
    array: npt.NDArray[np.generic] = plain.numpy()
    return array


def _unpack(value: JSON, state: store.State) -> Any:
    if isinstance(value, list):
        return [_unpack(item, state) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1 or not next(iter(value)).startswith("$"):
        return {key: _unpack(item, state) for key, item in value.items()}
    ((word, inner),) = value.items()
    try:
        return _unpack_marked(word, inner, state)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{state.where!r} is damaged: {word} {inner!r} is nothing that a checkpoint holds.") from error


def _unpack_marked(word: str, inner: Any, state: store.State) -> Any:
    if word == "$tensor":
        name, written = inner
        array = state.arrays[name]
        # A copy, because the store's arrays can't be written to; of the same shape, which copies of scalars lose.
        tensor = torch.from_numpy(np.array(array, order="C").reshape(array.shape))
        dtype = _DTYPES[written]
        return tensor.view(dtype) if dtype in _CARRIERS else tensor.to(dtype)
    if word == "$array":
        return np.array(state.arrays[inner])
    if word == "$tuple":
        return tuple(_unpack(item, state) for item in inner)
    if word == "$dict":
        return {key: _unpack(item, state) for key, item in inner}
    return {"$int": int, "$float": float}[word](inner)
