"""From the vectors of a text's tokens to one vector of the text."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["POOLINGS", "pool"]


def _mean(hidden: Tensor, mask: Tensor) -> Tensor:
    weights = mask.unsqueeze(-1).to(hidden.dtype)  # (n, length, 1)
    return (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


def _mean_of_square_root(hidden: Tensor, mask: Tensor) -> Tensor:
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1).sqrt()


def _weighted_mean(hidden: Tensor, mask: Tensor) -> Tensor:
    places = torch.arange(1, mask.shape[1] + 1, device=mask.device)
    weights = (mask * places).unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


def _largest(hidden: Tensor, mask: Tensor) -> Tensor:
    return hidden.masked_fill(mask.unsqueeze(-1) == 0, float("-inf")).amax(dim=1)


def _first(hidden: Tensor, mask: Tensor) -> Tensor:
    return hidden[:, 0]


def _last(hidden: Tensor, mask: Tensor) -> Tensor:
    return hidden[torch.arange(len(hidden), device=hidden.device), mask.sum(dim=1) - 1]


# By name; tokens stand on the left of a row and padding on the right, as TokenRows.dense lays them.
POOLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mean": _mean,
    "cls": _first,
    "max": _largest,
    "last": _last,
    "mean_sqrt_len": _mean_of_square_root,
    "weighted_mean": _weighted_mean,
}


def pool(hidden: Tensor, mask: Tensor, modes: tuple[str, ...]) -> Tensor:
    """One vector a text, of several ways of pooling side by side.

    Parameters
    ----------
    hidden : Tensor of float, shape (n, length, dim)
        The tokens' vectors.
    mask : Tensor of int64, shape (n, length)
        1 at tokens, 0 at the padding on their right; every text has a token.
    modes : tuple of str
        Names of :data:`POOLINGS`.

    Returns
    -------
    Tensor of float32, shape (n, dim * len(modes))
    """
    found = [POOLINGS[mode](hidden.float(), mask) for mode in modes]
    return found[0] if len(found) == 1 else torch.cat(found, dim=1)
