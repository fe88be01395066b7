"""What every loss over classes has in common: shapes, ignored targets, several positives, the reduction."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from sylvan.errors import DataError
from sylvan.params import Choice, Constraint, Number, Parameterized

__all__ = ["ClassLoss", "Positives", "positives"]


class Positives(NamedTuple):
    """The positives of queries, each once.

    Attributes
    ----------
    ids : Tensor of int64, shape (batch, p)
        Classes; a place that holds none repeats a positive of its row, so that it may be gathered without touching
        anything else.
    present : Tensor of bool, shape (batch, p)
        Which places hold a positive; the first of each row does.
    """

    ids: Tensor
    present: Tensor

    @property
    def shares(self) -> Tensor:
        """Float32 (batch, p): one over the number of the row's positives where there is one, else zero."""
        return self.mass(torch.float32)

    def mass(self, dtype: torch.dtype) -> Tensor:
        """:attr:`shares` in another dtype."""
        return self.present.to(dtype) / self.present.sum(dim=1, keepdim=True)


def positives(targets: Tensor, ignore_index: int) -> Positives:
    """The distinct positives of targets (batch, p), of which every row holds at least one."""
    present = targets != ignore_index
    if targets.shape[1] == 1:
        return Positives(targets, present)
    last = torch.iinfo(targets.dtype).max
    ascending = torch.where(present, targets, last).sort(dim=1).values
    present = ascending != last
    present[:, 1:] &= ascending[:, 1:] != ascending[:, :-1]
    return Positives(torch.where(present, ascending, ascending[:, :1]), present)


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
            a query is left out. The mean is over the queries not left out, and 0 when there is none; the class table
            then gets no gradient, which an optimiser takes for zero.

        Raises
        ------
        DataError
            When shapes or dtypes don't fit together, or (looked at on the CPU only, where it costs next to nothing) a
            target is neither a class nor ``ignore_index``. On CUDA such a target ends in PyTorch's own device-side
            assertion when its row is gathered.
        """
        self._check(queries, class_embeddings, targets, bias)
        outer = queries.shape[:-1]
        flat = queries.reshape(-1, queries.shape[-1])
        wanted = targets.reshape(len(flat), -1).long()  # (batch, p)
        kept = (wanted != self.ignore_index).any(dim=1)
        count = int(kept.sum())
        whole = count == len(flat)
        if count:
            rows, labels = (flat, wanted) if whole else (flat[kept], wanted[kept])
            losses = self._losses(rows, class_embeddings, labels, bias)
        else:
            losses = flat[:0].sum(dim=1).float()  # nothing to learn from, but still a part of the graph
        if self.reduction == "none":
            if whole:
                return losses.reshape(outer)
            return losses.new_zeros(len(flat)).masked_scatter(kept, losses).reshape(outer)
        return losses.sum() if self.reduction == "sum" else losses.sum() / max(count, 1)

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
        if targets.is_floating_point() or targets.is_complex() or targets.dtype == torch.bool:
            raise DataError(f"The targets of {name} must be class numbers of an integer dtype. Got {targets.dtype}.")
        if targets.device.type == "cpu":
            self._check_range(targets, len(table))
        if bias is not None and bias.shape != table.shape[:1]:
            raise DataError(f"The bias of {name} must have the shape ({len(table)},). Got {tuple(bias.shape)} instead.")

    def _check_range(self, targets: Tensor, n_classes: int) -> None:
        wrong = ((targets < 0) | (targets >= n_classes)) & (targets != self.ignore_index)
        if bool(wrong.any()):
            raise DataError(
                f"The targets of {type(self).__name__} must lie in [0, {n_classes}), like the rows of the class "
                f"embeddings, or be the ignore_index {self.ignore_index}. Got {int(targets[wrong][0])} instead."
            )
