"""The one place where class counts, or other weights of classes, are checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sylvan.errors import DataError


def class_counts(values: Any, n_classes: int | None, *, owner: str, name: str = "counts") -> Tensor:
    """One weight a class, checked."""
    # Shape: values (n_classes,); returns (n_classes,)
    many = "" if n_classes is None else f"{n_classes} "
    wanted = f"The {name!r} of {owner} must be {many}numbers in [0, inf), one a class, not all zero."
    if isinstance(values, Tensor):
        if values.is_complex():
            raise DataError(f"{wanted} Got {values.dtype} instead.")
        weights = values.detach().to(torch.float64)
    else:
        try:
            array = np.asarray(values)
            if array.dtype.kind not in "buif":
                raise TypeError
            weights = torch.from_numpy(array.astype(np.float64))
        except (TypeError, ValueError):
            raise DataError(f"{wanted} Got {type(values).__name__} that isn't an array of such.") from None
    if weights.dim() != 1 or len(weights) != (n_classes or max(1, len(weights))):
        raise DataError(f"{wanted} Got the shape {tuple(weights.shape)} instead.")
    if not bool(torch.isfinite(weights).all()):
        raise DataError(f"{wanted} There is a NaN or an infinity among them.")
    lowest = float(weights.min())
    if lowest < 0:
        raise DataError(f"{wanted} Class {int(weights.argmin())} has {lowest:g}.")
    total = float(weights.sum())
    if not 0 < total < float("inf"):
        raise DataError(f"{wanted} Got a sum of {total:g}.")
    return weights
