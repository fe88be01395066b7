"""Adagrad for tables of embeddings: one step size a row, and only the rows that have a gradient are touched. Beside it
the warning of optimisers that undo what a sampled loss corrects."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sylvan.params.fields import Constraint, Flag, Number, check_values
from sylvan.sampling.losses.logits import distinct_rows
from sylvan.sampling.tensors import at_least_single

_NORMALISING = (
    torch.optim.Adam, torch.optim.AdamW, torch.optim.Adamax, torch.optim.NAdam, torch.optim.RAdam,
    torch.optim.RMSprop, torch.optim.SparseAdam,
)  # fmt: skip
_warned: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
_RANGES: dict[str, Constraint] = {
    "lr": Number(float, 0),
    "eps": Number(float, 0),
    "initial_accumulator": Number(float, 0),
    "elementwise": Flag(),
}


class RowwiseAdagrad(torch.optim.Optimizer):
    r"""Adagrad with one accumulator for each row of a table, for sparse gradients as the sampled losses give them.

    A row :math:`w` with the gradient :math:`g` of :math:`D` numbers moves by

    .. math:: s \leftarrow s + \tfrac{1}{D} \lVert g \rVert^2, \qquad
              w \leftarrow w - \frac{\mathrm{lr}}{\sqrt{s} + \epsilon}\, g,

    that is, Adagrad with the mean of the squares over the row in place of each square. The state is a number a class
    instead of a second table, and a step reads and writes only the rows in the gradient. Gradients that aren't sparse
    are taken too, and several entries for a row count as their sum.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        As for any optimiser of :mod:`torch.optim`. Of a parameter with one dimension (a bias) each number is a row.
    lr : float
        Step size, in [0, inf).
    eps : float
        Added to the root, in [0, inf).
    initial_accumulator : float
        What :math:`s` begins with, in [0, inf).
    elementwise : bool
        One accumulator for each number instead: what :class:`torch.optim.Adagrad` computes, at the memory of a second
        table, without its sorting of gradients that are sorted already.

    Raises
    ------
    ParameterError
        When a parameter is out of its range.

    See Also
    --------
    sylvan.sampling.check_optimizer : Warns of Adam on a class table with sampled losses.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import RowwiseAdagrad, SampledSoftmaxLoss, Uniform
    >>> table = torch.nn.Parameter(torch.randn(1000, 8))
    >>> optimizer = RowwiseAdagrad([table], lr=0.1)
    >>> loss = SampledSoftmaxLoss(Uniform(1000), 10)
    >>> loss(torch.randn(4, 8), table, torch.tensor([1, 2, 3, 4])).backward()
    >>> optimizer.step()
    >>> optimizer.state[table]["sum"].shape
    torch.Size([1000])
    """

    def __init__(
        self,
        params: Any,
        lr: float = 0.1,
        *,
        eps: float = 1e-10,
        initial_accumulator: float = 0.0,
        elementwise: bool = False,
    ) -> None:
        defaults = {"lr": lr, "eps": eps, "initial_accumulator": initial_accumulator, "elementwise": elementwise}
        super().__init__(params, defaults)
        for group in self.param_groups:
            check_values(_RANGES, "RowwiseAdagrad", **{name: group[name] for name in _RANGES})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move every row that has a gradient.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss again and returns it, as in :meth:`torch.optim.Optimizer.step`.

        Returns
        -------
        What ``closure`` returned, or None.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, parameter.grad, group)
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what ``state_dict`` gave; the sums, which would overflow in half precision, keep their dtype."""
        super().load_state_dict(state_dict)
        saved = [key for group in state_dict["param_groups"] for key in group["params"]]
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        for key, parameter in zip(saved, parameters, strict=True):
            sums = state_dict["state"].get(key, {}).get("sum")
            if sums is not None:
                self.state[parameter]["sum"] = sums.to(parameter.device, at_least_single(parameter), copy=True)

    def _move(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state, ids = self.state[parameter], None
        if "sum" not in state:
            shape = parameter.shape if group["elementwise"] else parameter.shape[:1]
            state["sum"] = parameter.new_full(shape, group["initial_accumulator"], dtype=at_least_single(parameter))
        sums: Tensor = state["sum"]
        if gradient.is_sparse:
            ids, gradient = distinct_rows(gradient)
        gradient = gradient.to(sums.dtype)
        if gradient.dim() <= sums.dim():
            squares = gradient.square()
        else:  # their mean over a row
            flat = gradient.flatten(sums.dim())
            squares = torch.linalg.vector_norm(flat, dim=-1).square_().div_(flat.shape[-1])
        updated = sums.add_(squares) if ids is None else sums.index_select(0, ids).add_(squares)
        sizes = updated.sqrt().add_(group["eps"]).reciprocal_().mul_(-group["lr"])
        move = (gradient * sizes.view(sizes.shape + (1,) * (gradient.dim() - sizes.dim()))).to(parameter.dtype)
        if ids is None:
            parameter += move
        else:
            sums.index_copy_(0, ids, updated)
            parameter.index_add_(0, ids, move)


class HarmfulOptimizerWarning(UserWarning):
    """An optimiser of Adam's kind trains a class table with a sampled loss."""


def check_optimizer(optimizer: torch.optim.Optimizer, class_embeddings: Tensor) -> bool:
    """Warn, once for each optimiser, when it is of Adam's kind and trains the class table of a sampled loss.

    A sampled loss gives the rare classes it draws a large gradient, to stand for all the times that they aren't drawn.
    Adam and its kin (RMSprop, NAdam, SparseAdam ...) divide each number's gradient by a running root of its square,
    which does harm twice: the weights are normalised away, and the noise of the draws stays in the table, where Adagrad
    averages it out. On Penn Treebank it ruined every sampled loss; on small problems, with a step size tuned for it, it
    came out much like Adagrad. Adagrad, row by row (:class:`~sylvan.sampling.RowwiseAdagrad`) or number by number, and
    SGD are safe. Adam is fine for the network that makes the queries, and with the full softmax for everything.

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
