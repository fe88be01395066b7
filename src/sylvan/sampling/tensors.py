"""Helpers for tensors: checks of arguments, work in slices, products, and code that isn't compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sylvan.errors import DataError

_IN_CACHE = 1 << 18  # numbers that fit the cache
_AT_ONCE = 1 << 22  # numbers that fit memory anywhere and keep a kernel busy: 16 MiB of float32
# Products from which on they are dealt out whole, however many threads there may be.
_MANY_PRODUCTS = 128
_Function = TypeVar("_Function", bound=Callable[..., Any])


def eagerly(function: _Function) -> _Function:
    """``function`` never compiled: its shapes depend on data, or it makes sparse tensors."""
    disable: Any = torch.compiler.disable
    return cast(_Function, disable(function))


def without_gradient(function: _Function) -> _Function:
    """``function`` run eagerly and without gradients: draws change Python state and have data-dependent shapes."""
    return eagerly(torch.no_grad()(function))


def need_tensor(value: Any, name: str) -> None:
    """Check that ``value`` is a tensor."""
    if not isinstance(value, Tensor):
        raise DataError(f"{name} must be a torch.Tensor. Got {_received(value)}")


def need_floats(value: Any, name: str) -> None:
    """Check that ``value`` is a tensor of real floating numbers."""
    need_tensor(value, name)
    if not value.is_floating_point():
        raise DataError(f"{name} must be of a floating dtype. Got {value.dtype} instead.")


def need_integers(value: Any, name: str) -> Tensor:
    """``value`` as int64, after a check that it is a tensor of integers. Before any comparison: PyTorch wraps a bound
    to the dtype of the tensor that it is compared with, so that no uint8 is below 40,000."""
    need_tensor(value, name)
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        raise DataError(f"{name} must be of an integer dtype. Got {value.dtype} instead.")
    integers: Tensor = value.long()
    if value.dtype == torch.uint64 and integers.device.type == "cpu" and bool((integers < 0).any()):
        raise DataError(f"{name} must be below 2**63. Got {int(integers[integers < 0][0]) + 2**64} instead.")
    return integers


def need_shape(fits: bool, tensor: Tensor, name: str, shape: str) -> None:
    """Raise ``DataError`` with the wanted shape, in words, and the tensor's own unless it ``fits``."""
    if not fits:
        raise DataError(f"{name} must have the shape {shape}. Got {tuple(tensor.shape)} instead.")


def outsider(ids: Tensor, n_classes: int) -> int | None:
    """One of ``ids`` (at least one) that lies outside of [0, n_classes); None where all are within."""
    low, high = (int(end) for end in torch.aminmax(ids))
    return low if low < 0 else high if high >= n_classes else None


def _received(value: Any) -> str:
    name = type(value).__name__
    if isinstance(value, nn.Module):
        if isinstance(getattr(value, "weight", None), Tensor):
            return f"the module {name} instead: give its .weight."
        return f"the module {name} instead: give what it returns, or its parameter."
    if isinstance(value, np.ndarray):
        return "a NumPy array instead: torch.from_numpy makes a tensor of it."
    if isinstance(value, (list, tuple, range)):
        return f"a {name} instead: torch.tensor makes a tensor of it."
    return f"{'None' if value is None else f'the {name} {value!r}'} instead."


def at_least_single(*tensors: Tensor) -> torch.dtype:
    """The dtype that scores and sums of these tensors have: float64 where one of them has it, else float32."""
    return functools.reduce(torch.promote_types, (tensor.dtype for tensor in tensors), torch.float32)


def slices(n: int, size_of_one: int, at_once: int = _AT_ONCE) -> Iterator[slice]:
    """Slices of ``range(n)`` that hold at most ``at_once`` numbers each, where one item takes ``size_of_one``."""
    step = max(1, at_once // max(1, size_of_one))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def blocks(n: int, size_of_one: int) -> Iterator[slice]:
    """:func:`slices` of so few numbers (2**18) that intermediate results stay in the cache."""
    return slices(n, size_of_one, _IN_CACHE)


def products(left: Tensor, right: Tensor) -> Tensor:
    """``left @ right.mT`` of (k, n, dim) and (k, m, dim) or (m, dim); the same bits for any number of threads. As found
    with MKL: many small products are dealt out whole, but few are cut to the threads, and the ends of rows and columns
    are then worked out differently. There are no ends when both sizes are multiples of 16."""
    n, m = left.shape[1], right.shape[-2]
    if len(left) < _MANY_PRODUCTS:
        left, right = _to_sixteens(left), _to_sixteens(right)
    return torch.bmm(left, right.expand(len(left), -1, -1).transpose(1, 2))[:, :n, :m]


def product(left: Tensor, right: Tensor) -> Tensor:
    """``left @ right.t()`` of (n, dim) and (m, dim), with the same bits for any number of threads."""
    n_aligned = len(right) - len(right) % 16
    if 0 < n_aligned < len(right):  # rather than copy all of a long matrix to make it a little longer
        ends = product(left, right[n_aligned:])
        return torch.cat([products(left.unsqueeze(0), right[:n_aligned])[0], ends], dim=1)
    return products(left.unsqueeze(0), right)[0]


def _to_sixteens(rows: Tensor) -> Tensor:
    """Zero rows added, where there is need, for a multiple of 16 rows (..., n, dim)."""
    missing = -rows.shape[-2] % 16
    return F.pad(rows, (0, 0, 0, missing)) if missing else rows


def invert(heights: Tensor, coins: Tensor) -> tuple[Tensor, Tensor]:
    """Where uniform numbers fall among running sums, and how far into that part each lies, from 0 to below 1."""
    # Shapes: heights (..., m); coins (..., n); returns places (..., n), rest (..., n)
    total = heights[..., -1:]
    # Strictly below the total: a coin that rounding carries to it would fall off the end.
    marks = torch.minimum(coins * total, torch.nextafter(total, torch.zeros_like(total)))
    places = torch.searchsorted(heights, marks, right=True).clamp_(max=heights.shape[-1] - 1)  # NaN queries
    below = torch.where(places > 0, heights.gather(-1, (places - 1).clamp_(min=0)), 0.0)
    width = heights.gather(-1, places) - below
    return places, ((marks - below) / width).clamp_(0, 1 - 2**-53)
