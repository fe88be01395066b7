"""Matrix products that give the same bits for any number of threads."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["product", "products"]

# Products from which on they are dealt out whole, however many threads there may be.
_MANY_PRODUCTS = 128


def products(left: Tensor, right: Tensor) -> Tensor:
    """``left @ right.mT`` of (k, n, dim) and (k, m, dim) or (m, dim); the same bits for any number of threads.

    As found with MKL: many small products are dealt out whole, but few are cut to the threads, and the ends of rows
    and columns are then worked out differently. There are no ends when both sizes are multiples of 16.
    """
    n, m = left.shape[1], right.shape[-2]
    if len(left) < _MANY_PRODUCTS:
        left, right = _to_sixteens(left), _to_sixteens(right)
    return torch.bmm(left, right.expand(len(left), -1, -1).transpose(1, 2))[:, :n, :m]


def product(left: Tensor, right: Tensor) -> Tensor:
    """``left @ right.t()`` of (n, dim) and (m, dim), with the same bits for any number of threads."""
    whole = len(right) - len(right) % 16
    if 0 < whole < len(right):  # rather than copy all of a long matrix to make it a little longer
        ends = product(left, right[whole:])
        return torch.cat([products(left.unsqueeze(0), right[:whole])[0], ends], dim=1)
    return products(left.unsqueeze(0), right)[0]


def _to_sixteens(rows: Tensor) -> Tensor:
    """Zero rows added, where there is need, for a multiple of 16 rows (..., n, dim)."""
    missing = -rows.shape[-2] % 16
    return F.pad(rows, (0, 0, 0, missing)) if missing else rows
