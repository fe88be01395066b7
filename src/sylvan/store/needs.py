"""What a kind asks of a loaded State before it trusts it; every breach is a sentence that names the file. The costs
matter, because a memory-mapped model should open in milliseconds: :func:`need_array` looks at dtype and shape alone,
the others read the array once."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

import numpy as np
import numpy.typing as npt

from sylvan import kernels
from sylvan.arrays.canonical import Csr
from sylvan.errors import ModelError
from sylvan.store import manifest
from sylvan.store.read import check_file
from sylvan.store.state import JSON, State

_Word = TypeVar("_Word", bound=str)


def _refuse(state: State, fault: str) -> NoReturn:
    """Raise the ModelError: which manifest, and what is wrong."""
    raise ModelError(f"{os.path.join(state.where, manifest.NAME)!r} is damaged: {fault}.")


def _refuse_array(state: State, name: str, fault: str) -> NoReturn:
    file = state.array_files.get(name, name)
    raise ModelError(f"{file!r} is damaged: array {name!r} of the {state.kind} {fault}.")


def need_kind(state: State, kind: str, version: int = 1) -> None:
    """The State is of this kind and of a layout up to ``version``."""
    where = state.where or "The model"
    if state.kind != kind:
        raise ModelError(f"{where!r} holds a model of kind {state.kind!r}, not {kind!r}.")
    if state.version > version:
        raise ModelError(
            f"{where!r} holds a {kind} of layout {state.version}, but this release reads layouts up to "
            f"{version}. Install the Sylvan that wrote it, or a later one."
        )
    if state.version < 1:
        _refuse(state, f"the version of {kind} must be an int from 1, not {state.version}")


def _stored(state: State, name: str) -> npt.NDArray[Any]:
    """The array ``name``, whatever it holds."""
    array = state.arrays.get(name)
    if array is None:
        _refuse(state, f"the {state.kind} needs an array {name!r}")
    return array


def need_array(
    state: State, name: str, dtype: npt.DTypeLike | tuple[npt.DTypeLike, ...], shape: Sequence[int | None]
) -> npt.NDArray[Any]:
    """The array ``name``, of this dtype (or one of several) and shape (``None`` for any size)."""
    array = _stored(state, name)
    wanted = [np.dtype(kind) for kind in (dtype if isinstance(dtype, tuple) else (dtype,))]
    if array.dtype not in wanted:
        words = " or ".join(str(kind) for kind in wanted)
        _refuse_array(state, name, f"must hold {words}. Got {array.dtype} instead")
    fits = len(shape) == array.ndim
    if not fits or any(want not in (None, got) for want, got in zip(shape, array.shape, strict=True)):
        words = ", ".join("any" if want is None else str(want) for want in shape)
        _refuse_array(state, name, f"must have shape ({words}). Got {array.shape} instead")
    return array


def need_offsets(state: State, name: str, total: int | None = None, length: int | None = None) -> npt.NDArray[np.int64]:
    """Offsets of consecutive runs, int64: at least one entry, from 0, never falling, ending at ``total``."""
    array = need_array(state, name, np.int64, (length,))
    if array.size == 0:
        _refuse_array(state, name, "must hold at least one offset")
    if array[0] != 0:
        _refuse_array(state, name, f"must start at 0. Got {array[0]} instead")
    falling = array[1:] < array[:-1]
    if falling.any():
        _refuse_array(state, name, f"holds offsets that fall at position {int(falling.argmax()) + 1}")
    if total is not None and int(array[-1]) != total:
        _refuse_array(state, name, f"must end at {total}. Got {int(array[-1])} instead")
    return array


def need_range(
    state: State, name: str, low: float, high: float, dtype: npt.DTypeLike | tuple[npt.DTypeLike, ...] | None = None,
    shape: Sequence[int | None] | None = None,
) -> npt.NDArray[Any]:  # fmt: skip
    """The array ``name`` with every value in [``low``, ``high``], both allowed; NaN lies in no range. Without ``dtype``
    and ``shape`` the array is taken as it is."""
    array = _stored(state, name)
    dtype, shape = array.dtype if dtype is None else dtype, (None,) * array.ndim if shape is None else shape
    need_array(state, name, dtype, shape)
    if array.size:
        least, most = array.min(), array.max()
        if not (least >= low and most <= high):
            worst = most if least >= low else least
            _refuse_array(state, name, f"must hold values in [{low}, {high}]. Got {worst} instead")
    return array


def need_rising(
    state: State, name: str, low: int, high: int, dtype: npt.DTypeLike | tuple[npt.DTypeLike, ...]
) -> npt.NDArray[Any]:
    """Ids of one dimension in [``low``, ``high``], each greater than the one before it."""
    array = need_range(state, name, low, high, dtype, (None,))
    falling = array[1:] <= array[:-1]
    if falling.any():
        _refuse_array(state, name, f"must rise, but doesn't at position {int(falling.argmax()) + 1}")
    return array


def need_finite(state: State, name: str) -> npt.NDArray[Any]:
    """The array ``name`` without NaN or infinity."""
    array = _stored(state, name)
    # min and max carry a NaN through and keep an infinity: two passes without a temporary.
    if array.size and array.dtype.kind == "f":
        least, most = array.min(), array.max()
        if not (math.isfinite(least) and math.isfinite(most)):
            _refuse_array(state, name, "holds a NaN or an infinity")
    return array


def _value(state: State, key: str, wanted: str, fits: Callable[[Any], bool]) -> Any:
    """The value ``key`` of ``meta`` (or else of ``params``)."""
    values = state.meta if key in state.meta else state.params
    if key not in values:
        _refuse(state, f"the {state.kind} needs a value {key!r}")
    if not fits(values[key]):
        _refuse(state, f"{key!r} of the {state.kind} must be {wanted}. Got {manifest.shortened(values[key])} instead")
    return values[key]


def need_int(state: State, key: str, low: int | None = None, high: int | None = None) -> int:
    """The int ``key`` of ``meta`` (or else of ``params``) in [``low``, ``high``]."""
    left, right = "(-inf" if low is None else f"[{low}", "inf)" if high is None else f"{high}]"
    least, most = -math.inf if low is None else low, math.inf if high is None else high

    def fits(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most

    return int(_value(state, key, f"an int in {left}, {right}", fits))


def need_float(state: State, key: str, low: float = -math.inf, high: float = math.inf) -> float:
    """The finite number ``key`` of ``meta`` (or else of ``params``) in [``low``, ``high``]."""

    def fits(value: Any) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high

    return float(_value(state, key, f"a number in [{low}, {high}]", fits))


def need_bool(state: State, key: str) -> bool:
    """The truth value ``key`` of ``meta`` (or else of ``params``)."""
    return bool(_value(state, key, "true or false", lambda value: isinstance(value, bool)))


def need_choice(state: State, key: str, options: Collection[_Word]) -> _Word:
    """The string ``key`` of ``meta`` (or else of ``params``), one of ``options``."""
    wanted = f"one of {', '.join(map(repr, options))}"
    return cast("_Word", _value(state, key, wanted, lambda value: isinstance(value, str) and value in options))


def need_params(state: State, names: Collection[str]) -> dict[str, JSON]:
    """The parameters, exactly these names; a parameter that is not there, or is not known, is refused."""
    missing = [name for name in names if name not in state.params]
    unknown = [name for name in state.params if name not in names]
    if missing:
        _refuse(state, f"the {state.kind} needs a parameter {missing[0]!r}")
    if unknown:
        _refuse(state, f"the {state.kind} has no parameter {manifest.shortened(unknown[0])}")
    return dict(state.params)


def need_files(state: State, folder: str) -> Path:
    """The folder in which the foreign files lie that are called ``folder/...``, every one as it was written. Their
    checksums are compared, whatever was asked of the load: whoever opens the folder reads them whole. To be asked for
    when they are opened, which may be long after the load."""
    chosen = {name: entry for name, entry in state.file_entries.items() if name.startswith(f"{folder}/")}
    if not chosen:
        _refuse(state, f"the {state.kind} needs files in {folder!r}")
    for name, entry in chosen.items():
        file = os.fspath(state.files[name])
        try:
            with open(file, "rb") as stream:
                check_file(stream, os.fsdecode(file), entry, checked=True)
        except FileNotFoundError:
            words = f"{file!r} is gone: another model was saved to {state.where!r} since this one was loaded."
            raise ModelError(f"{words} Load it again.") from None
        except OSError as error:
            raise ModelError(f"{file!r} cannot be read: {error.strerror or error}.") from error
    where = os.path.join(state.where, manifest.folder_of_files(next(iter(chosen.values())).file))
    names = {path.relative_to(where).as_posix() for path in Path(where).rglob("*") if not path.is_dir()}
    names -= {entry.file.partition("/")[2] for entry in chosen.values()}
    others = sorted(name for name in names if not any(step.startswith(".") for step in name.split("/")))
    if others:
        raise ModelError(f"{where!r} holds {others[0]!r}, which is none of the model's files. Take it out of there.")
    return Path(where)


def need_part(state: State, name: str, kind: str | None = None) -> State:
    """The nested model ``name``, of this kind when one is given."""
    part = state.parts.get(name)
    if part is None:
        _refuse(state, f"the {state.kind} needs a part {name!r}")
    if kind is not None and part.kind != kind:
        words = f"part {name!r} of the {state.kind} must be of kind {kind!r}"
        _refuse(state, f"{words}, not {part.kind!r}")
    return part


def need_csr(state: State, name: str, shape: tuple[int, int]) -> Csr:
    """The matrix in the arrays ``name.indptr``, ``name.indices`` and ``name.data``: columns rise, values are finite."""
    indptr = need_offsets(state, f"{name}.indptr", length=shape[0] + 1)
    size = (int(indptr[-1]),)
    indices = need_array(state, f"{name}.indices", np.int32, size)
    data = need_array(state, f"{name}.data", np.float32, size)
    fault, row = kernels.check_compressed(indptr, indices, data, shape[1])
    if fault:
        where = state.where or f"The {state.kind}"
        raise ModelError(
            f"{where!r} is damaged: row {row} of {name!r} must hold rising columns in [0, {shape[1] - 1}] and finite "
            "values."
        )
    return Csr(indptr, indices, data, shape)
