"""The optimiser of tables of embeddings, of which a batch touches few rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import nn

__all__ = ["TABLE_OPTIMIZERS", "AdamOnClassesWarning", "table_optimizer"]

TABLE_OPTIMIZERS = ("adagrad", "rowwise-adagrad", "sgd", "adam")


class AdamOnClassesWarning(UserWarning):
    """Adam was chosen for the class table of a sampled loss."""


def table_optimizer(
    name: str, tables: Sequence[nn.Parameter], rate: float, *, sparse: bool, warn: bool = False
) -> torch.optim.Optimizer:
    """The optimiser of that name.

    Parameters
    ----------
    name : str
        One of :data:`TABLE_OPTIMIZERS`.
    tables : sequence of nn.Parameter
    rate : float
    sparse : bool
        Whether their gradients are sparse.
    warn : bool
        Whether they are class tables of a sampled loss, for which Adam is a mistake.
    """
    if name == "adagrad":
        return torch.optim.Adagrad(tables, lr=rate)
    if name == "rowwise-adagrad":
        from sylvan.sampling import RowwiseAdagrad

        made: torch.optim.Optimizer = RowwiseAdagrad(tables, lr=rate)
        return made
    if name == "sgd":
        return torch.optim.SGD(tables, lr=rate)
    if warn:
        warnings.warn(
            "Adam on the class table of a sampled loss normalises the importance weights away on rarely drawn rows, "
            "and the model becomes much worse. Choose 'adagrad' or 'sgd'.",
            AdamOnClassesWarning,
            stacklevel=5,
        )
    return torch.optim.SparseAdam(tables, lr=rate) if sparse else torch.optim.Adam(tables, lr=rate)
