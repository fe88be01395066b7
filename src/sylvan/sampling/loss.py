"""What every loss over classes has in common: shapes, ignored targets, several positives, the reduction."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from sylvan.errors import DataError
from sylvan.params import Choice, Constraint, Number, Parameterized

__all__ = ["ClassLoss"]


class ClassLoss(Parameterized, nn.Module):
    """Base of every loss: checks and flattens what it is given; a loss writes ``_losses``.

    Called as ``loss(queries, class_embeddings, targets, bias=None)`` like ``cross_entropy(queries @ W.T, targets)``.
    """

    constraints: ClassVar[dict[str, Constraint]] = {
        "reduction": Choice(("mean", "sum", "none")),
        "ignore_index": Number(int),
    }

    def __init__(self, *, reduction: str = "mean", ignore_index: int = -100) -> None:
        super().__init__()
        self.reduction = reduction
        self.ignore_index = ignore_index

    def forward(self, queries: Tensor, class_embeddings: Tensor, targets: Tensor, bias: Tensor | None = None) -> Tensor:
        """The loss of a batch.

        Parameters
        ----------
        queries : Tensor of float, shape (..., dim)
        class_embeddings : Tensor of float, shape (n_classes, dim)
        targets : Tensor of int64, shape (...), or (..., p) for up to p positives a query
            ``ignore_index`` marks a query to leave out, or a place without a positive.
        bias : Tensor of float, shape (n_classes,), optional

        Returns
        -------
        Tensor of float32
            A scalar, or for ``reduction="none"`` the shape of ``queries`` without its last dimension, with zeros where
            a query is left out. The mean is over the queries not left out, and 0 when there is none.
        """
        self._check(queries, class_embeddings, targets, bias)
        outer = queries.shape[:-1]
        flat = queries.reshape(-1, queries.shape[-1])
        wanted = targets.reshape(len(flat), -1)  # (batch, p)
        kept = (wanted != self.ignore_index).any(dim=1)
        whole = bool(kept.all())
        rows = flat if whole else flat[kept]
        losses = flat.new_zeros(0, dtype=torch.float32)
        if len(rows):
            losses = self._losses(rows, class_embeddings, wanted if whole else wanted[kept], bias)
        if self.reduction == "none":
            if whole:
                return losses.reshape(outer)
            return flat.new_zeros(len(flat), dtype=torch.float32).masked_scatter(kept, losses).reshape(outer)
        total = losses.sum() + 0.0 * flat[:0].sum()
        return total if self.reduction == "sum" else total / max(len(rows), 1)

    def _losses(self, queries: Tensor, table: Tensor, targets: Tensor, bias: Tensor | None) -> Tensor:
        """Loss of each query, float32 (batch,); targets (batch, p) hold at least one positive a row."""
        raise NotImplementedError

    def _check(self, queries: Tensor, table: Tensor, targets: Tensor, bias: Tensor | None) -> None:
        name = type(self).__name__
        if queries.dim() < 2 or table.dim() != 2 or queries.shape[-1] != table.shape[1]:
            raise DataError(
                f"{name} needs queries of the shape (..., dim) and class embeddings of the shape (n_classes, dim) with "
                f"the same dim. Got {tuple(queries.shape)} and {tuple(table.shape)} instead."
            )
        outer = queries.shape[:-1]
        if targets.shape != outer and targets.shape[:-1] != outer:
            raise DataError(
                f"The targets of {name} must have the shape {tuple(outer)}, or one dimension more for several "
                f"positives a query. Got {tuple(targets.shape)} instead."
            )
        if bias is not None and bias.shape != table.shape[:1]:
            raise DataError(f"The bias of {name} must have the shape ({len(table)},). Got {tuple(bias.shape)} instead.")
