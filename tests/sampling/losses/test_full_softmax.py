"""The chunked full softmax against PyTorch's cross-entropy."""

import pytest
import torch
import torch.nn.functional as F
from sampling.suite import LargestMade
from torch import Tensor, nn

from sylvan.sampling import FullSoftmaxLoss

CLASSES, DIM, IGNORED = 23, 5, -100


def problem(dtype: torch.dtype = torch.float64) -> tuple[Tensor, nn.Parameter, nn.Parameter]:
    random = torch.Generator().manual_seed(0)
    queries = torch.randn(6, DIM, generator=random, dtype=dtype).requires_grad_()
    table = nn.Parameter(torch.randn(CLASSES, DIM, generator=random, dtype=dtype))
    return queries, table, nn.Parameter(torch.randn(CLASSES, generator=random, dtype=dtype))


ONE = torch.tensor([3, 22, IGNORED, 0, 3, 7])
SEVERAL = torch.tensor(
    [[3, 4, IGNORED], [22, IGNORED, IGNORED], [IGNORED] * 3, [IGNORED, 0, 1], [2, 3, 4], [7, IGNORED, IGNORED]]
)


def naive(scores: Tensor, targets: Tensor, reduction: str, label_smoothing: float = 0.0) -> Tensor:
    """Cross-entropy with probabilities for targets, rows without a positive skipped."""
    wanted = torch.zeros_like(scores)
    rows = targets.reshape(len(scores), -1).tolist()
    for row, labels in enumerate(rows):
        distinct = {label for label in labels if label != IGNORED}
        for label in distinct:
            wanted[row, label] = 1 / len(distinct)
    each = F.cross_entropy(scores, wanted, reduction="none", label_smoothing=label_smoothing)
    each = torch.where(wanted.any(dim=1), each, 0.0)
    used = sum(any(label != IGNORED for label in labels) for labels in rows)
    return {"none": each, "sum": each.sum(), "mean": each.sum() / used}[reduction]


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("chunk_size", [1, 7, 100, None])
@pytest.mark.parametrize(
    ("targets", "reduction", "with_bias"),
    [(ONE, "none", True), (SEVERAL, "mean", True), (SEVERAL, "none", False), (SEVERAL, "sum", True)],
    ids=str,
)
def test_equals_cross_entropy(
    chunk_size: int | None, targets: Tensor, reduction: str, with_bias: bool, label_smoothing: float
) -> None:
    queries, table, bias = problem()
    loss = FullSoftmaxLoss(chunk_size=chunk_size, reduction=reduction, label_smoothing=label_smoothing)
    got = loss(queries, table, targets, bias if with_bias else None)
    expected = naive(queries @ table.t() + (bias if with_bias else 0), targets, reduction, label_smoothing)
    torch.testing.assert_close(got, expected, atol=1e-9, rtol=1e-9)
    wrt = [queries, table, *([bias] if with_bias else [])]
    slope = torch.linspace(-1, 2, 6, dtype=torch.float64) if reduction == "none" else None
    for mine, other in zip(
        torch.autograd.grad(got, wrt, slope), torch.autograd.grad(expected, wrt, slope), strict=True
    ):
        torch.testing.assert_close(mine, other, atol=1e-9, rtol=1e-9)


def test_only_wanted_gradients_are_made() -> None:
    queries, table, bias = problem()
    table.requires_grad_(False)
    value = FullSoftmaxLoss(chunk_size=7)(queries, table, ONE, bias)
    expected = F.cross_entropy(queries @ table.t() + bias, ONE)
    for mine, other in zip(
        torch.autograd.grad(value, [queries, bias]), torch.autograd.grad(expected, [queries, bias]), strict=True
    ):
        torch.testing.assert_close(mine, other)


def test_the_scores_of_all_classes_are_never_held() -> None:
    n_classes, dim, batch = 20_000, 4, 64
    random = torch.Generator().manual_seed(0)
    table = nn.Parameter(torch.randn(n_classes, dim, generator=random))
    queries = torch.randn(batch, dim, generator=random).requires_grad_()
    targets = torch.randint(n_classes, (batch,), generator=random)
    with LargestMade() as watch:
        FullSoftmaxLoss(chunk_size=100)(queries, table, targets).backward()
    assert watch.largest == 4 * n_classes * dim, watch.by  # the table's own gradient; all scores have 16 times as many
    with LargestMade() as watch:
        F.cross_entropy(queries @ table.t(), targets).backward()
    assert watch.largest == 4 * n_classes * batch
