"""Whether two things are the same to the last bit: arrays, sparse matrices, answers, tensors, models, folders, and
containers of these."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import sylvan


def bits(thing: Any) -> Any:
    """``thing`` as nested tuples and dicts of its types, shapes and bytes, to be compared by ``==``.

    Of a model all that it would save but its parameters: arrays by their names, and values; of a folder the bytes of
    each file by its path.
    """
    if hasattr(thing, "to_state"):
        return bits(thing.to_state())
    if hasattr(thing, "arrays") and hasattr(thing, "parts"):  # a state
        # Not rounds and histories, which have seconds, nor the form of the labels that fit was given.
        left_out = ("rounds", "history", "single_label")
        values = {name: value for name, value in thing.meta.items() if name not in left_out}
        own = {name: bits(np.asarray(array)) for name, array in thing.arrays.items()}
        own["values"] = json.dumps(values, sort_keys=True, default=repr)
        return own | {f"{name}/{path}": it for name, part in thing.parts.items() for path, it in bits(part).items()}
    if hasattr(thing, "labels") and hasattr(thing, "scores"):  # a TopK
        return bits((thing.labels, thing.scores))
    if hasattr(thing, "detach"):
        thing = thing.detach().cpu().numpy()
    if sp.issparse(thing) or hasattr(thing, "indptr"):
        return (thing.shape, *bits((thing.indptr, thing.indices, thing.data)))
    if isinstance(thing, Path) and thing.is_dir():
        return {str(path.relative_to(thing)): path.read_bytes() for path in sorted(thing.rglob("*")) if path.is_file()}
    if isinstance(thing, np.ndarray) and thing.dtype != object:
        return str(thing.dtype), thing.shape, thing.tobytes()
    if isinstance(thing, Mapping):
        return {name: bits(value) for name, value in thing.items()}
    if isinstance(thing, Sequence) and not isinstance(thing, str | bytes):
        return tuple(bits(value) for value in thing)
    if isinstance(thing, np.ndarray):
        return thing.shape, bits(thing.ravel().tolist())
    return repr(thing) if isinstance(thing, float) else thing  # NaN is NaN


def same_bits(first: Any, second: Any) -> None:
    """Fail, naming the first part that differs, unless both have the same types, shapes and bytes."""
    one, other = bits(first), bits(second)
    if isinstance(one, dict) and isinstance(other, dict):
        assert one.keys() == other.keys()
        differing = [name for name in one if one[name] != other[name]]
        assert not differing, f"these differ: {differing}"
    assert one == other


def same_models(first: str | Path, second: str | Path) -> None:
    """Fail unless two folders hold models of the same bits."""
    same_bits(sylvan.load(first), sylvan.load(second))
