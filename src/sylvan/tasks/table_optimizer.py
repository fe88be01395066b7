"""The optimiser of tables of embeddings, of which a batch touches few rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from sylvan.sampling import RowwiseAdagrad, check_optimizer
from sylvan.tasks.objective import ClassObjective

__all__ = ["TABLE_OPTIMIZERS", "objective_optimizers", "table_optimizer"]

TABLE_OPTIMIZERS = ("adagrad", "rowwise-adagrad", "sgd", "adam")


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
        Whether their gradients are sparse, which Adam has to know.
    warn : bool
        Whether they are class tables of a sampled loss, which Adam ruins: see
        :func:`sylvan.sampling.check_optimizer`.
    """
    made: torch.optim.Optimizer
    if name == "adagrad":
        made = RowwiseAdagrad(tables, lr=rate, elementwise=True)
    elif name == "rowwise-adagrad":
        made = RowwiseAdagrad(tables, lr=rate)
    elif name == "sgd":
        made = torch.optim.SGD(tables, lr=rate)
    else:
        made = torch.optim.SparseAdam(tables, lr=rate) if sparse else torch.optim.Adam(tables, lr=rate)
    if warn:
        check_optimizer(made, tables[0])
    return made


def objective_optimizers(name: str, objective: ClassObjective, rate: float) -> list[torch.optim.Optimizer]:
    """The optimiser of that name for what an objective has of tables, a head's weights among them; none without."""
    tables, headed = objective.tables(), objective.head is not None
    return [table_optimizer(name, tables, rate, sparse=headed, warn=headed)] if tables else []
