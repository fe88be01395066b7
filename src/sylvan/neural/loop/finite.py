"""Whether a network's weights are numbers at all."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["finite"]


@torch.no_grad()
def finite(module: nn.Module) -> bool:
    """Whether every parameter is finite.

    Sums are looked at, which need no memory of a table's size, and the device is waited for once.

    Parameters
    ----------
    module : nn.Module

    Examples
    --------
    >>> import torch
    >>> from sylvan.neural.loop.finite import finite
    >>> layer = torch.nn.Linear(2, 2)
    >>> finite(layer)
    True
    >>> _ = torch.nn.init.constant_(layer.bias, float("nan"))
    >>> finite(layer)
    False
    """
    sums = [
        parameter.sum(dtype=torch.promote_types(parameter.dtype, torch.float32))
        for parameter in module.parameters()
        if parameter.is_floating_point()
    ]
    return not sums or bool(torch.isfinite(torch.stack([each.double().to(sums[0].device) for each in sums])).all())
