"""Warns of optimisers that undo what a sampled loss corrects."""

from __future__ import annotations

import warnings
import weakref

import torch
from torch import Tensor

__all__ = ["HarmfulOptimizerWarning", "check_optimizer"]

_NORMALISING = (
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.Adamax,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.RMSprop,
    torch.optim.SparseAdam,
)
_warned: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()


class HarmfulOptimizerWarning(UserWarning):
    """An optimiser of Adam's kind trains a class table with a sampled loss."""


def check_optimizer(optimizer: torch.optim.Optimizer, class_embeddings: Tensor) -> bool:
    """Warn, once for each optimiser, when it is of Adam's kind and trains the class table of a sampled loss.

    A sampled loss gives the rare classes it draws a large gradient, one over the probability of the draw, to stand for
    all the times that they aren't drawn. Adam and its kin (RMSprop, NAdam, SparseAdam ...) divide each number's
    gradient by a running root of its square, which does harm twice. The weights are normalised away: a row drawn every
    hundredth step with a hundredfold gradient moves a tenth as far as one with the same mean gradient in every step,
    and a twentieth with SparseAdam, where SGD moves both alike. And the steps don't shrink as gradients of changing
    sign come in, so the noise of the draws stays in the table, where Adagrad averages it out. In a trial on Penn
    Treebank, Adam on the class table ruined every sampled loss; on small problems, with a step size tuned for it, it
    came out much like Adagrad, which is why this is a warning and not an error. Adagrad, row by row
    (:class:`~sylvan.sampling.RowwiseAdagrad`) or number by number, and SGD are safe. Adam is fine for the network that
    makes the queries, and with the full softmax for everything.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
    class_embeddings : Tensor
        The class table, or the bias, as the optimiser was given it.

    Returns
    -------
    bool
        Whether the optimiser is fit: it doesn't train the table, or isn't of Adam's kind.

    Warns
    -----
    HarmfulOptimizerWarning

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import RowwiseAdagrad, check_optimizer
    >>> table = torch.nn.Parameter(torch.zeros(10, 4))
    >>> check_optimizer(RowwiseAdagrad([table]), table)
    True
    """
    trained = any(parameter is class_embeddings for group in optimizer.param_groups for parameter in group["params"])
    if not trained or not isinstance(optimizer, _NORMALISING):
        return True
    if optimizer not in _warned:
        _warned.add(optimizer)
        warnings.warn(
            f"{type(optimizer).__name__} trains the class table of a sampled loss. It normalises the importance "
            "weights of rarely drawn classes away, which ruins what is learnt. Give the class table (and its bias) to "
            "sylvan.sampling.RowwiseAdagrad, torch.optim.Adagrad or SGD, and the rest of the network to "
            f"{type(optimizer).__name__}.",
            HarmfulOptimizerWarning,
            stacklevel=2,
        )
    return False
