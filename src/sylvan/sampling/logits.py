"""Scores of chosen classes: what every sampled loss computes instead of all scores."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["class_logits"]


def class_logits(queries: Tensor, table: Tensor, ids: Tensor, bias: Tensor | None = None) -> Tensor:
    """Inner products of queries with the embeddings of chosen classes, in float32.

    The gradient of ``table`` (and of ``bias``) is a sparse tensor when it is a leaf, so that neither backward nor
    an optimiser that understands sparse gradients touches rows of classes that weren't chosen.

    Parameters
    ----------
    queries : Tensor of float, shape (batch, dim)
    table : Tensor of float, shape (n_classes, dim)
    ids : Tensor of int64, shape (batch, m), or (m,) when the batch shares the classes
    bias : Tensor of float, shape (n_classes,), optional

    Returns
    -------
    Tensor of float32, shape (batch, m)
    """
    rows = F.embedding(ids, table, sparse=table.is_leaf)
    if ids.dim() == 1:
        scores = queries @ rows.t()  # (batch, m)
    else:
        scores = torch.bmm(rows, queries.unsqueeze(-1)).squeeze(-1)  # (batch, m)
    scores = scores.float()
    if bias is None:
        return scores
    return scores + F.embedding(ids, bias.unsqueeze(-1), sparse=False).squeeze(-1).float()
