"""Row-wise Adagrad: the dense formula, PyTorch's Adagrad, rows it leaves alone; and the warning against Adam."""

import copy
import warnings

import pytest
import torch
from kit.errors import raises, warns
from sampling.suite import LargestMade
from torch import Tensor, nn

from sylvan.errors import ParameterError
from sylvan.sampling import HarmfulOptimizerWarning, RowwiseAdagrad, SampledSoftmaxLoss, Uniform, check_optimizer


def gradients(shape: tuple[int, ...], steps: int) -> list[Tensor]:
    """Sparse, uncoalesced gradients with repeated rows."""
    random = torch.Generator().manual_seed(0)
    found = []
    for _ in range(steps):
        ids = torch.randint(shape[0], (1, 9), generator=random)
        values = torch.randn(9, *shape[1:], generator=random, dtype=torch.float64)
        found.append(torch.sparse_coo_tensor(ids, values, shape, check_invariants=True))
    return found


def trained(parameter: nn.Parameter, optimizer: torch.optim.Optimizer, given: list[Tensor]) -> Tensor:
    for gradient in given:
        parameter.grad = gradient
        optimizer.step()
    return parameter.detach()


@pytest.mark.parametrize("shape", [(6,), (6, 4), (6, 2, 2)])
@pytest.mark.parametrize("dense", [False, True])
def test_follows_the_formula(shape: tuple[int, ...], dense: bool) -> None:
    start = torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    given = gradients(shape, 5)
    parameter = nn.Parameter(start.clone())
    optimizer = RowwiseAdagrad([parameter], lr=0.3, eps=1e-3, initial_accumulator=0.5)
    found = trained(parameter, optimizer, [g.to_dense() for g in given] if dense else given)
    expected, sums = start.clone(), [0.5] * shape[0]
    for gradient in given:
        for row, values in enumerate(gradient.to_dense()):
            sums[row] += float(values.square().mean())
            expected[row] -= 0.3 / (sums[row] ** 0.5 + 1e-3) * values
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(optimizer.state[parameter]["sum"], torch.tensor(sums, dtype=torch.float64))


@pytest.mark.parametrize("dense", [False, True])
def test_elementwise_is_the_adagrad_of_pytorch(dense: bool) -> None:
    start = torch.randn(6, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    given = [g.to_dense() for g in gradients((6, 4), 5)] if dense else gradients((6, 4), 5)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    found = trained(ours, RowwiseAdagrad([ours], lr=0.3, elementwise=True), given)
    torch.testing.assert_close(found, trained(theirs, torch.optim.Adagrad([theirs], lr=0.3), given))


def test_state_dict_goes_on_where_it_stopped() -> None:
    given = gradients((6, 4), 6)
    parameter = nn.Parameter(torch.ones(6, 4, dtype=torch.float64))
    optimizer = RowwiseAdagrad([parameter], lr=0.3)
    trained(parameter, optimizer, given[:3])
    other = nn.Parameter(parameter.detach().clone())
    resumed = RowwiseAdagrad([other])
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert torch.equal(trained(parameter, optimizer, given[3:]), trained(other, resumed, given[3:]))


def test_a_closure_is_called_with_gradients() -> None:
    parameter = nn.Parameter(torch.ones(3, 2))
    optimizer = RowwiseAdagrad([{"params": [parameter], "lr": 0.5}])

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = parameter.square().sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 6
    assert torch.allclose(parameter, torch.full((3, 2), 0.5))


@pytest.mark.parametrize(("name", "value"), [("lr", -1.0), ("eps", float("nan")), ("elementwise", 1)])
def test_parameters_out_of_range(name: str, value: object) -> None:
    with raises(ParameterError, name, "RowwiseAdagrad"):
        RowwiseAdagrad([nn.Parameter(torch.ones(2))], **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(("optimizer_of", "shared"), [(RowwiseAdagrad, False), (torch.optim.SGD, True)])
def test_nothing_as_large_as_the_class_table_is_ever_made(shared: bool, optimizer_of: type) -> None:
    """Forward, backward and step with a million classes: the largest new tensor is that of what was drawn."""
    n_classes, dim, batch, m = 1_000_000, 4, 8, 5
    table, bias = nn.Parameter(torch.zeros(n_classes, dim)), nn.Parameter(torch.zeros(n_classes))
    queries = torch.randn(batch, dim, generator=torch.Generator().manual_seed(0)).requires_grad_()
    loss = SampledSoftmaxLoss(Uniform(n_classes), m, shared=shared)
    optimizer = optimizer_of([table, bias], lr=0.1)
    targets = torch.arange(batch) * 100_000
    for step in range(2):  # the first step of an optimiser may make its state
        optimizer.zero_grad()
        with LargestMade() as watch:
            loss(queries, table, targets, bias).backward()
        assert table.grad is not None and table.grad.is_sparse and bias.grad is not None and bias.grad.is_sparse
        with watch if step else LargestMade():
            optimizer.step()
        # A buffer of gathered rows, in bytes; the table has 16,000,000.
        assert 0 < watch.largest <= 8 * batch * (m + 1) * dim, watch.by
    assert int((bias != 0).sum()) <= 2 * batch * (m + 1)


def test_the_watch_sees_a_dense_gradient() -> None:
    table = nn.Parameter(torch.zeros(1000, 4))
    queries = torch.randn(8, 4).requires_grad_()
    with LargestMade() as watch:
        SampledSoftmaxLoss(Uniform(1000), 5)(queries, table * 1, torch.arange(8)).backward()
    assert watch.largest >= 4 * 1000 * 4


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SparseAdam, torch.optim.RMSprop])
def test_adam_on_the_class_table_is_warned_of_once(kind: type) -> None:
    table, network = nn.Parameter(torch.zeros(4, 2)), nn.Parameter(torch.zeros(2))
    optimizer = kind([table, network])
    with warns(HarmfulOptimizerWarning, kind.__name__, "RowwiseAdagrad") as caught:
        assert not check_optimizer(optimizer, table)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not check_optimizer(optimizer, table)
        assert check_optimizer(kind([network]), table)
        assert check_optimizer(torch.optim.Adagrad([table]), table)
        assert check_optimizer(torch.optim.SGD([table], lr=0.1), table)
        assert check_optimizer(RowwiseAdagrad([table]), table)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sums_of_a_half_table_keep_their_precision_in_a_checkpoint(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    table = torch.nn.Parameter(torch.randn(5, 4).to(dtype))
    optimizer = RowwiseAdagrad([table], lr=0.1, initial_accumulator=70_000.0)  # no number of float16
    table.grad = torch.randn(5, 4).to(dtype)
    optimizer.step()
    other = torch.nn.Parameter(table.detach().clone())
    again = RowwiseAdagrad([other], lr=0.1)
    again.load_state_dict(optimizer.state_dict())
    assert again.state[other]["sum"].dtype == torch.float32
    assert torch.equal(again.state[other]["sum"], optimizer.state[table]["sum"])
    for one, parameter in ((optimizer, table), (again, other)):
        parameter.grad = torch.ones(5, 4, dtype=dtype)
        one.step()
    assert torch.equal(table, other)
    assert torch.equal(again.state[other]["sum"], optimizer.state[table]["sum"])
