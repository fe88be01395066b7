"""From the vectors of a text's tokens to one vector of the text."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

__all__ = ["ACTIVATIONS", "POOLINGS", "Dense", "pool"]


def _mean(hidden: Tensor, mask: Tensor) -> Tensor:
    weights = mask.unsqueeze(-1).to(hidden.dtype)  # (n, length, 1)
    return (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


def _sum_by_square_root(hidden: Tensor, mask: Tensor) -> Tensor:
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


# By sentence-transformers' names, in the order in which it puts several side by side. Tokens stand on the left of a
# row and padding on the right, as TokenRows.dense lays them.
POOLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cls": _first,
    "max": _largest,
    "mean": _mean,
    "mean_sqrt_len_tokens": _sum_by_square_root,
    "weightedmean": _weighted_mean,
    "lasttoken": _last,
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


ACTIVATIONS: dict[str, type[nn.Module]] = {
    kind.__name__: kind for kind in (nn.Identity, nn.Tanh, nn.ReLU, nn.GELU, nn.SiLU, nn.Sigmoid)
}


class Dense(nn.Module):
    """A linear map and what is done to each of its results: a layer behind the pooling.

    Parameters
    ----------
    dim_in, dim_out : int
    bias : bool
    activation : str
        A name of :data:`ACTIVATIONS`.
    """

    def __init__(self, dim_in: int, dim_out: int, bias: bool = True, activation: str = "Tanh") -> None:
        super().__init__()
        self.linear = nn.Linear(dim_in, dim_out, bias=bias)
        self.activation = ACTIVATIONS[activation]()

    def forward(self, pooled: Tensor) -> Tensor:
        """Vectors (n, dim_out) of vectors (n, dim_in)."""
        found: Tensor = self.activation(self.linear(pooled))
        return found
