"""What users hand to samplers and losses: the wrong kinds of things, told in a sentence that says what to give."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sylvan.errors import DataError

__all__ = ["need_floats", "need_integers", "need_tensor"]


def need_tensor(value: Any, what: str) -> None:
    """Hold that ``value`` is a tensor.

    Parameters
    ----------
    value : object
    what : str
        What the error calls it, as the beginning of a sentence: "The queries given to MIDX".

    Raises
    ------
    DataError
        When it isn't one, with what would make it one.
    """
    if not isinstance(value, Tensor):
        raise DataError(f"{what} must be a torch.Tensor. Got {_told(value)}")


def need_floats(value: Any, what: str) -> None:
    """Hold that ``value`` is a tensor of real floating numbers."""
    need_tensor(value, what)
    if not value.is_floating_point():
        raise DataError(f"{what} must be of a floating dtype. Got {value.dtype} instead.")


def need_integers(value: Any, what: str) -> None:
    """Hold that ``value`` is a tensor of integers."""
    need_tensor(value, what)
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        raise DataError(f"{what} must be of an integer dtype. Got {value.dtype} instead.")


def _told(value: Any) -> str:
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
