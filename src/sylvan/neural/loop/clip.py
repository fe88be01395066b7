"""The norm of all gradients held to a limit, sparse ones among them."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

__all__ = ["clip_gradients"]


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
