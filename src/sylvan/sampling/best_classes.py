"""The best classes of queries, with every class compared, a chunk of them at a time."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from sylvan.params.fields import Number, check_value
from sylvan.sampling.tensors import at_least_single, need_floats, need_shape, slices

_ROWS = 1024  # queries at a time


class BestClasses(NamedTuple):
    """The best classes of each query, best first.

    Attributes
    ----------
    classes : Tensor of int64, shape (..., k)
        A row with fewer than k answers ends in -1.
    scores : Tensor of float, shape (..., k)
        Their scores, falling; minus infinity where the class is -1.
    """

    classes: Tensor
    scores: Tensor


@torch.no_grad()
def topk(
    queries: Tensor, class_embeddings: Tensor, k: int, bias: Tensor | None = None, *, chunk_size: int | None = None
) -> BestClasses:
    """The classes of the highest scores ``queries @ class_embeddings.T + bias``, without ever holding all scores.

    Parameters
    ----------
    queries : Tensor of float, shape (..., dim)
    class_embeddings : Tensor of float, shape (n_classes, dim)
    k : int
    bias : Tensor of float, shape (n_classes,), optional
        Minus infinity leaves a class out.
    chunk_size : int, optional
        Classes at a time; by default as many as make about four million scores.

    Returns
    -------
    BestClasses
        ``classes`` and ``scores`` of the shape (..., k), in float32 (float64 for float64 inputs).

    Raises
    ------
    DataError
        When shapes or dtypes don't fit.
    ParameterError
        When ``k`` or ``chunk_size`` is no int of at least 1.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import topk
    >>> topk(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), k=2)
    BestClasses(classes=tensor([[2, 1]]), scores=tensor([[3., 2.]]))
    """
    need_floats(queries, "The queries given to topk")
    need_floats(class_embeddings, "The class embeddings given to topk")
    n_classes, outer, width = len(class_embeddings), queries.shape[:-1], queries.shape[-1:].numel()
    fits = queries.dim() > 0 and class_embeddings.shape == (n_classes, width)
    need_shape(fits, class_embeddings, "The class embeddings given to topk", f"(n_classes, {width})")
    if bias is not None:
        need_floats(bias, "The bias given to topk, one number a class,")
        need_shape(bias.shape == (n_classes,), bias, "The bias given to topk", f"({n_classes},)")
    check_value("k", k, Number(int, 1), "topk")
    check_value("chunk_size", chunk_size, Number(int, 1, optional=True), "topk")
    wide, rows = at_least_single(queries, class_embeddings), queries.reshape(-1, queries.shape[-1])
    classes = torch.full((len(rows), k), -1, dtype=torch.int64, device=rows.device)
    scores = torch.full((len(rows), k), -torch.inf, dtype=wide, device=rows.device)
    for part in slices(len(rows), 1, _ROWS):
        block = rows[part].to(wide)
        chunks = slices(n_classes, len(block)) if chunk_size is None else slices(n_classes, 1, chunk_size)
        for chunk in chunks:
            with torch.autocast(rows.device.type, enabled=False):
                found = block @ class_embeddings[chunk].to(wide).t()
            if bias is not None:
                found += bias[chunk].to(wide)
            ids = torch.arange(chunk.start, chunk.stop, device=rows.device).expand(len(block), -1)
            best = torch.cat([scores[part], found], dim=1).topk(k, dim=1)
            scores[part] = best.values
            classes[part] = torch.cat([classes[part], ids], dim=1).gather(1, best.indices)
    classes.masked_fill_(scores == -torch.inf, -1)
    return BestClasses(classes.reshape(*outer, k), scores.reshape(*outer, k))
