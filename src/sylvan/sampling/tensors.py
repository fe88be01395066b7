"""Marks what ``torch.compile`` leaves as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

__all__ = ["eagerly", "without_gradient"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def eagerly(function: _Function) -> _Function:
    """``function`` never compiled: its shapes depend on data, or it makes sparse tensors."""
    disable: Any = torch.compiler.disable
    return cast(_Function, disable(function))


def without_gradient(function: _Function) -> _Function:
    """``function`` run eagerly and without gradients: draws change Python state and have data-dependent shapes."""
    return eagerly(torch.no_grad()(function))
