"""Scores of chosen classes against fancy indexing, and sparse gradients that touch chosen rows only."""

import pytest
import torch
import torch.nn.functional as F
from kit.errors import raises
from torch import Tensor, nn

from sylvan.sampling.losses import logits
from sylvan.sampling.losses.logits import bag_sums, bags_of_equal, class_logits, distinct_rows, gradient_of_whole


def problem(shared: bool, dtype: torch.dtype = torch.float64) -> tuple[Tensor, nn.Parameter, Tensor, nn.Parameter]:
    """Queries, table, ids with repetitions, bias."""
    random = torch.Generator().manual_seed(0)
    queries = torch.randn(5, 6, generator=random, dtype=dtype).requires_grad_()
    table = nn.Parameter(torch.randn(11, 6, generator=random, dtype=dtype))
    bias = nn.Parameter(torch.randn(11, generator=random, dtype=dtype))
    ids = torch.randint(8, (7,) if shared else (5, 7), generator=random)
    return queries, table, ids, bias


def naive(queries: Tensor, table: Tensor, ids: Tensor, bias: Tensor | None) -> Tensor:
    """All scores, then the chosen ones."""
    scores = queries @ table.t()
    if bias is not None:
        scores = scores + bias
    return scores.gather(1, ids.expand(len(queries), -1))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("buffer", [1, 100, 1 << 19])
def test_equals_naive_and_its_gradients(
    shared: bool, with_bias: bool, buffer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(logits._BUFFER, "cpu", buffer)
    queries, table, ids, bias = problem(shared)
    given = bias if with_bias else None
    scores = class_logits(queries, table, ids, given)
    expected = naive(queries, table, ids, given)
    torch.testing.assert_close(scores, expected)
    slope = torch.randn(scores.shape, dtype=scores.dtype, generator=torch.Generator().manual_seed(1))
    wrt = [queries, table, *([bias] if with_bias else [])]
    got = torch.autograd.grad(scores, wrt, slope)
    want = torch.autograd.grad(expected, wrt, slope)
    torch.testing.assert_close(got[0], want[0])
    for ours, theirs in zip(got[1:], want[1:], strict=True):
        assert ours.is_sparse and ours.is_coalesced()
        assert ours.indices()[0].tolist() == ids.unique().tolist()
        torch.testing.assert_close(ours.to_dense(), theirs)


@pytest.mark.parametrize("with_bias", [False, True])
def test_own_classes_beside_shared_ones(with_bias: bool) -> None:
    queries, table, ids, bias = problem(shared=True)
    own = torch.tensor([[3, 9], [9, 9], [0, 1], [2, 10], [7, 7]])
    given = bias if with_bias else None
    scores = class_logits(queries, table, ids, given, own=own)
    expected = naive(queries, table, torch.cat([own, ids.expand(5, -1)], dim=1), given)
    torch.testing.assert_close(scores, expected)
    wrt = [queries, table, *([bias] if with_bias else [])]
    got = torch.autograd.grad(scores.pow(2).sum(), wrt)
    want = torch.autograd.grad(expected.pow(2).sum(), wrt)
    torch.testing.assert_close(got[0], want[0])
    for ours, theirs in zip(got[1:], want[1:], strict=True):
        assert ours.is_coalesced() and ours.indices()[0].tolist() == torch.cat([own.flatten(), ids]).unique().tolist()
        torch.testing.assert_close(ours.to_dense(), theirs)


@pytest.mark.parametrize("shared", [False, True])
def test_a_computed_table_gets_a_dense_gradient(shared: bool) -> None:
    queries, table, ids, bias = problem(shared)
    class_logits(queries, table * 2, ids, bias * 1).sum().backward()
    assert table.grad is not None and not table.grad.is_sparse
    expected = torch.autograd.grad(naive(queries, table * 2, ids, bias).sum(), [table, bias])
    torch.testing.assert_close(table.grad, expected[0])
    torch.testing.assert_close(bias.grad, expected[1])


def test_second_derivatives_are_refused() -> None:
    queries, table, ids, _ = problem(shared=False)
    (slope,) = torch.autograd.grad(class_logits(queries, table, ids).pow(2).sum(), queries, create_graph=True)
    with raises(RuntimeError, "once_differentiable"):
        slope.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shared", [False, True])
def test_half_precision_is_multiplied_in_single(dtype: torch.dtype, shared: bool) -> None:
    queries, table, ids, bias = problem(shared, dtype)
    scores = class_logits(queries, table, ids, bias)
    expected = naive(queries.float(), table.float(), ids, bias.float())
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, expected, atol=1e-5, rtol=1e-5)
    scores.sum().backward()
    want = torch.autograd.grad(expected.sum(), [queries, table])
    assert queries.grad is not None and queries.grad.dtype == dtype and table.grad is not None
    torch.testing.assert_close(queries.grad, want[0])
    torch.testing.assert_close(table.grad.to_dense(), want[1])


def test_autocast_leaves_the_scores_single() -> None:
    queries, table, ids, _ = problem(shared=False, dtype=torch.float32)
    plain = class_logits(queries, table, ids)
    with torch.autocast("cpu", torch.bfloat16):
        cast = class_logits(queries, table, ids)
        mixed = class_logits(queries.bfloat16(), table, ids)
    assert torch.equal(plain, cast)
    assert mixed.dtype == torch.float32
    torch.testing.assert_close(mixed, plain, atol=0.1, rtol=0.05)


def test_the_same_bits_for_any_number_of_threads() -> None:
    random = torch.Generator().manual_seed(2)
    queries = torch.randn(64, 32, generator=random)
    table = nn.Parameter(torch.randn(50, 32, generator=random))
    ids = torch.randint(50, (64, 40), generator=random)
    found = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            scores = class_logits(queries, table, ids)
            found.append((scores, *torch.autograd.grad(scores.pow(2).sum(), table)))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1].to_dense(), found[1][1].to_dense())


def test_bags_hold_every_place_once_by_value() -> None:
    ids = torch.tensor([4, 1, 4, 0, 1, 4])
    bags = bags_of_equal(ids)
    assert bags.values.tolist() == [0, 1, 4]
    assert bags.order.tolist() == [3, 1, 4, 0, 2, 5]
    assert bags.starts.tolist() == [0, 1, 3]
    rows = torch.arange(12.0).view(6, 2)
    assert bag_sums(rows, bags.order, bags.starts).tolist() == [[6, 7], [10, 12], [14, 17]]
    weighted = bag_sums(rows, bags.order, bags.starts, torch.tensor([1.0, 0, 2, 0, 0, 1]))
    assert weighted.tolist() == [[6, 7], [16, 18], [10, 11]]


def test_bags_of_nothing() -> None:
    bags = bags_of_equal(torch.zeros(0, dtype=torch.int64))
    assert [len(part) for part in bags] == [0, 0, 0]
    assert bag_sums(torch.ones(3, 2), bags.order, bags.starts).shape == (0, 2)


@pytest.mark.parametrize("shape", [(9,), (9, 3), (9, 3, 2)])
def test_distinct_rows_of_any_sparse_gradient(shape: tuple[int, ...]) -> None:
    ids = torch.tensor([[7, 2, 7, 7, 0]])
    values = torch.randn(5, *shape[1:], generator=torch.Generator().manual_seed(0))
    repeated = torch.sparse_coo_tensor(ids, values, shape, check_invariants=True)
    rows, sums = distinct_rows(repeated)
    once = repeated.coalesce()
    assert rows.tolist() == once.indices()[0].tolist() == [0, 2, 7]
    torch.testing.assert_close(sums, once.values())
    # A coalesced gradient that lost its mark comes back as it is.
    unmarked = torch.sparse_coo_tensor(once.indices(), once.values(), shape, check_invariants=True)
    assert distinct_rows(unmarked)[1].data_ptr() == once.values().data_ptr()
    torch.testing.assert_close(gradient_of_whole(rows, sums, torch.zeros(shape), True).to_dense(), repeated.to_dense())


@pytest.mark.parametrize("sparse", [False, True])
def test_a_table_that_is_the_input_embedding_too(sparse: bool) -> None:
    """Tied weights: what the embedding gives and what the scores give add up, sparse only if both are."""
    _, table, ids, _ = problem(shared=False)
    words = torch.tensor([1, 2, 2, 10, 0])
    class_logits(F.embedding(words, table, sparse=sparse), table, ids).pow(2).sum().backward()
    assert table.grad is not None and table.grad.is_sparse == sparse
    (expected,) = torch.autograd.grad(naive(table[words], table, ids, None).pow(2).sum(), table)
    torch.testing.assert_close(table.grad.to_dense(), expected)
