"""Training of the small network that orders candidates (PyTorch)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sylvan.parallel import progress
from sylvan.ranking.layered_scorer import MOST_DEVIATIONS, LayeredScorer
from sylvan.ranking.tree_libraries import Growing, Rows

__all__ = ["train_network"]

_UNITS = 64
_EPOCHS = 12
_BATCH = 128  # rows
_LEAST_DEVIATION = 1e-6


def train_network(rows: Rows, growing: Growing) -> LayeredScorer:
    """A network that orders the candidates of each row.

    Parameters
    ----------
    rows : Rows
        With ``objective="rank"`` only rows with a right candidate teach anything.
    growing : Growing
        Of which ``objective``, ``learning_rate`` (the first step's rate is a tenth of it) and ``seed`` count.

    Returns
    -------
    LayeredScorer

    Notes
    -----
    ``objective="rank"`` is the softmax cross-entropy over a row's candidates, ListNet's top-one loss (Cao et al. 2007,
    "Learning to rank"); ``"right"`` the logistic loss of each. Adam, with steps that fall to 0 as a cosine does.
    """
    mean = rows.columns.mean(axis=0, dtype=np.float64).astype(np.float32)
    deviation = rows.columns.std(axis=0, dtype=np.float64).astype(np.float32)
    scale = np.where(deviation > _LEAST_DEVIATION, 1 / np.maximum(deviation, _LEAST_DEVIATION), 0).astype(np.float32)
    generator = torch.Generator().manual_seed(growing.seed)
    n_columns = rows.columns.shape[1]
    first = nn.Parameter(torch.randn((n_columns, _UNITS), generator=generator) / n_columns**0.5)
    first_bias = nn.Parameter(torch.zeros(_UNITS))
    second = nn.Parameter(torch.randn((_UNITS,), generator=generator) / _UNITS**0.5)
    second_bias = nn.Parameter(torch.zeros(()))
    parameters = [first, first_bias, second, second_bias]
    starts = np.concatenate(([0], np.cumsum(rows.groups)))
    used = np.flatnonzero(rows.groups > 0)
    if growing.objective == "rank":
        n_right = np.add.reduceat(rows.right, starts[:-1][used])
        used = used[n_right > 0]
    n_steps = _EPOCHS * -(-len(used) // _BATCH)
    optimizer = torch.optim.Adam(parameters, lr=growing.learning_rate / 10)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(n_steps, 1))
    rng = np.random.default_rng(growing.seed)
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # sums depend on it
    try:
        with torch.enable_grad(), progress("Learning to order candidates", n_steps) as bar:
            for _ in range(_EPOCHS):
                order = rng.permutation(used)
                for first_row in range(0, len(order), _BATCH):
                    batch = _padded(rows, starts, order[first_row : first_row + _BATCH])
                    standard = (batch[0] - torch.from_numpy(mean)) * torch.from_numpy(scale)
                    inputs = standard.clamp(-MOST_DEVIATIONS, MOST_DEVIATIONS)
                    scores = torch.relu(inputs @ first + first_bias) @ second + second_bias
                    loss = _loss(scores, *batch[1:], growing.objective)
                    optimizer.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]
                    optimizer.step()
                    schedule.step()
                    bar.update()
    finally:
        torch.set_num_threads(before)
    made = [np.ascontiguousarray(parameter.detach().numpy()) for parameter in parameters[:3]]
    return LayeredScorer(mean, scale, made[0], made[1], made[2], float(second_bias.detach()))


def _padded(
    rows: Rows, starts: npt.NDArray[np.int64], chosen: npt.NDArray[np.int64]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Columns (b, k, f), which candidates are right (b, k), which are there (b, k), and the rows' weights (b,)."""
    sizes = rows.groups[chosen]
    places = np.arange(sizes.max())
    there = places < sizes[:, None]
    at = np.where(there, starts[chosen][:, None] + places, 0)
    right = rows.right[at] & there
    weight = rows.weight[starts[chosen]]
    return (
        torch.from_numpy(rows.columns[at]), torch.from_numpy(right.astype(np.float32)), torch.from_numpy(there),
        torch.from_numpy(weight),
    )  # fmt: skip


def _loss(scores: Tensor, right: Tensor, there: Tensor, weight: Tensor, objective: str) -> Tensor:
    if objective == "rank":
        logs = torch.log_softmax(scores.masked_fill(~there, -1e9), dim=1)
        of_row = -(logs * right).sum(dim=1) / right.sum(dim=1)
    else:
        each = nn.functional.binary_cross_entropy_with_logits(scores, right, reduction="none")
        of_row = (each * there).sum(dim=1)
    return (of_row * weight).sum() / weight.sum().clamp_min(1e-12)
