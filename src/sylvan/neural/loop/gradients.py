"""Gradients, dense and sparse: their mean over processes, their norm clipped; and whether weights are still finite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

_BUCKET = 1 << 23  # numbers that travel together: 32 MiB of float32


@torch.no_grad()
def average_gradients(parameters: Sequence[Tensor], n_processes: int, control: Any) -> None:
    """Replace each parameter's gradient by the mean over all processes, those without one counted as zeros. Dense
    gradients travel in a few flat buffers. Of sparse ones the rows that a process has travel, filled up to the longest
    process's number of them, so that nothing of a table's own size is ever made."""
    kinds = torch.zeros((2, len(parameters)), dtype=torch.int32)
    for i, parameter in enumerate(parameters):
        if parameter.grad is not None:
            kinds[int(parameter.grad.is_sparse), i] = 1
    dist.all_reduce(kinds, op=dist.ReduceOp.MAX, group=control)
    dense = [p for p, has in zip(parameters, kinds[0].tolist(), strict=True) if has]
    sparse = [p for p, d, s in zip(parameters, *kinds.tolist(), strict=True) if s and not d]
    for bucket in _buckets(dense):
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
        flat = torch.cat([(grad.to_dense() if grad.is_sparse else grad).reshape(-1) for grad in grads])
        dist.all_reduce(flat, group=control if flat.device.type == "cpu" else None)
        flat /= n_processes
        for parameter, mean in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
            grad = torch.empty_like(parameter) if parameter.grad is None or parameter.grad.is_sparse else parameter.grad
            parameter.grad = grad.copy_(mean.view_as(grad))
    if sparse:
        _average_sparse(sparse, n_processes, control)


def _buckets(parameters: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Neighbours of the same type and device, up to the most that travels together."""
    bucket: list[Tensor] = []
    size = 0
    for parameter in parameters:
        alike = not bucket or (parameter.dtype, parameter.device) == (bucket[0].dtype, bucket[0].device)
        if bucket and (not alike or size + parameter.numel() > _BUCKET):
            yield bucket
            bucket, size = [], 0
        bucket.append(parameter)
        size += parameter.numel()
    if bucket:
        yield bucket


def _average_sparse(parameters: list[Tensor], n_processes: int, control: Any) -> None:
    grads = [None if p.grad is None else p.grad.coalesce() for p in parameters]
    mine = torch.tensor([[0 if g is None else g.indices().shape[1], 0 if g is None else g.sparse_dim()] for g in grads])
    every = [torch.empty_like(mine) for _ in range(n_processes)]
    dist.all_gather(every, mine, group=control)
    for i, parameter in enumerate(parameters):
        counts = [int(each[i, 0]) for each in every]
        group = control if parameter.device.type == "cpu" else None
        n_indices = max(int(each[i, 1]) for each in every)
        indices = torch.zeros((n_indices, max(counts)), dtype=torch.int64, device=parameter.device)
        values = parameter.new_zeros((max(counts), *parameter.shape[n_indices:]))
        grad = grads[i]
        if grad is not None:
            count = counts[dist.get_rank()]
            indices[:, :count], values[:count] = grad.indices(), grad.values()
        places, terms = ([torch.empty_like(tensor) for _ in counts] for tensor in (indices, values))
        dist.all_gather(places, indices, group=group)
        dist.all_gather(terms, values, group=group)
        whole = torch.cat([each[:, :count] for each, count in zip(places, counts, strict=True)], 1)
        summed = torch.cat([each[:count] for each, count in zip(terms, counts, strict=True)]) / n_processes
        parameter.grad = torch.sparse_coo_tensor(whole, summed, parameter.shape, check_invariants=False).coalesce()


@torch.no_grad()
def clip_gradients(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """Scale all gradients so that their common 2-norm is at most ``max_norm``.

    As :func:`torch.nn.utils.clip_grad_norm_`, which fails on sparse gradients: of those only the rows that are there
    are touched. Nothing waits for the device.

    Parameters
    ----------
    parameters : iterable of Tensor
        Those without a gradient are passed over. A sparse gradient is replaced by its coalesced form.
    max_norm : float
        Above 0.

    Returns
    -------
    Tensor of float32, shape ()
        The norm before.

    Examples
    --------
    >>> import torch
    >>> from sylvan.neural import clip_gradients
    >>> weight = torch.zeros(2, requires_grad=True)
    >>> weight.grad = torch.tensor([3.0, 4.0])
    >>> float(clip_gradients([weight], 1.0)), weight.grad
    (5.0, tensor([0.6000, 0.8000]))
    """
    values: list[Tensor] = []
    for parameter in parameters:
        if parameter.grad is None:
            continue
        if parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
            values.append(parameter.grad.values())
        else:
            values.append(parameter.grad)
    if not values:
        return torch.zeros(())
    device = values[0].device
    norms = [torch.linalg.vector_norm(value, dtype=torch.float32).to(device) for value in values]
    total: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    scale = (max_norm / (total + 1e-6)).clamp(max=1.0)
    for value in values:
        value.mul_(scale.to(value.device, value.dtype))
    return total


@torch.no_grad()
def finite(module: nn.Module) -> bool:
    """Whether every parameter is finite. Sums are looked at, which need no memory of a table's size, and the device is
    waited for once."""
    sums = [
        parameter.sum(dtype=torch.promote_types(parameter.dtype, torch.float32))
        for parameter in module.parameters()
        if parameter.is_floating_point()
    ]
    return not sums or bool(torch.isfinite(torch.stack([each.double().to(sums[0].device) for each in sums])).all())
