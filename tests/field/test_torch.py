"""Losses over classes as networks meet them: masked classes, narrow dtypes of targets, batches of padding alone.

Right values are those of torch's own cross_entropy, and of the same call with int64 targets.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from kit.errors import raises
from torch import Tensor, nn

from sylvan.errors import DataError
from sylvan.indexing import balanced_tree
from sylvan.sampling import (
    BeamTreeHead,
    BlackOutLoss,
    CANELoss,
    FrequencySubsets,
    FullSoftmaxLoss,
    HeadAndTailLoss,
    InBatch,
    NCELoss,
    NegativeSamplingLoss,
    OneVsEachLoss,
    RowwiseAdagrad,
    SampledSoftmaxLoss,
    Subset,
    Uniform,
    make_tail_sampler,
)

N, DIM, BATCH = 300, 4, 12
COUNTS = torch.arange(N, 0, -1)


def first_ten(queries: Tensor, table: Tensor) -> Tensor:
    return torch.arange(10).expand(len(queries), -1)


SAMPLED: dict[str, Callable[..., Any]] = {
    "sampled": lambda **more: SampledSoftmaxLoss(Uniform(N), 5, **more),
    "sampled, drawn": lambda **more: SampledSoftmaxLoss(Uniform(N), 5, correction="drawn", **more),
    "sampled, keep": lambda **more: SampledSoftmaxLoss(Uniform(N), 5, correction="drawn", accidental="keep", **more),
    "sampled, others": lambda **more: SampledSoftmaxLoss(Uniform(N), 5, correction="others", **more),
    "sampled, shared": lambda **more: SampledSoftmaxLoss(Uniform(N), 5, shared=True, **more),
    "head and tail": lambda **more: HeadAndTailLoss(
        make_tail_sampler("unigram", N, counts=COUNTS, n_head=50), 5, **more
    ),
    "head and tail, shared": lambda **more: HeadAndTailLoss(
        make_tail_sampler("uniform", N, counts=COUNTS, n_head=50), 5, shared=True, **more
    ),
    "nce": lambda **more: NCELoss(Uniform(N), 5, learn_normalizer=True, **more),
    "negative sampling": lambda **more: NegativeSamplingLoss(Uniform(N), 5, **more),
    "blackout": lambda **more: BlackOutLoss(Uniform(N), 5, **more),
    "one vs each": lambda **more: OneVsEachLoss(Uniform(N), 5, **more),
    "cane": lambda **more: CANELoss(first_ten, Uniform(N), n_noises=3, **more),
    "cane, together": lambda **more: CANELoss(first_ten, Uniform(N), n_noises=3, together=True, **more),
    "cane, subsets": lambda **more: CANELoss(FrequencySubsets(COUNTS, 5, 6, DIM), Uniform(N), **more),
}
LOSSES = {"full": FullSoftmaxLoss, "full, chunk 7": lambda **more: FullSoftmaxLoss(chunk_size=7, **more), **SAMPLED}
MASKS = {
    "the padding item": [0], "the first half": range(N // 2), "the end of a padded vocabulary": range(N - 20, N),
    "every second": range(0, N, 2), "all but two": range(2, N),
}  # fmt: skip


def problem(mask: Any, seed: int = 0) -> tuple[Tensor, nn.Parameter, Tensor, Tensor]:
    """Queries, a table, targets that aren't masked, and the bias."""
    torch.manual_seed(seed)
    bias = torch.randn(N)
    bias[list(mask)] = -torch.inf
    free = (bias != -torch.inf).nonzero().squeeze(1)
    targets = free[torch.randint(len(free), (BATCH,))]
    return torch.randn(BATCH, DIM, requires_grad=True), nn.Parameter(torch.randn(N, DIM)), targets, bias


def dense(gradient: Tensor | None) -> Tensor:
    assert gradient is not None
    return gradient.to_dense()


@pytest.mark.parametrize("p", [1, 3])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("chunk", [None, 7])
def test_the_full_softmax_with_masked_classes_is_cross_entropy(mask: str, chunk: int | None, p: int) -> None:
    queries, table, targets, bias = problem(MASKS[mask])
    bias.requires_grad_()
    free = (bias != -torch.inf).nonzero().squeeze(1)
    several = torch.stack([torch.cat((one.view(1), free[free != one][: p - 1])) for one in targets])
    FullSoftmaxLoss(chunk_size=chunk)(queries, table, several if p > 1 else targets, bias).backward()
    got = [dense(tensor.grad) for tensor in (queries, table, bias)]
    for tensor in (queries, table, bias):
        tensor.grad = None
    log_p = F.log_softmax(queries @ table.T + bias, dim=1)
    means = [row[few.unique()].mean() for few, row in zip(several[:, :p], log_p, strict=True)]
    (-torch.stack(means).mean()).backward()
    for one, tensor in zip(got, (queries, table, bias), strict=True):
        torch.testing.assert_close(one, dense(tensor.grad), atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", SAMPLED)
def test_masked_classes_get_no_gradient_from_sampled_losses(name: str, mask: str) -> None:
    queries, table, targets, bias = problem(MASKS[mask])
    loss = SAMPLED[name]()
    for _ in range(3):
        loss(queries, table, targets, bias).backward()
    gradient = dense(table.grad)
    assert bool(torch.isfinite(gradient).all()) and bool(torch.isfinite(queries.grad).all())
    assert not gradient[bias == -torch.inf].any()
    if mask == "the padding item":  # in others it happens that nothing unmasked is drawn
        assert gradient[targets].any()


@pytest.mark.parametrize("name", LOSSES)
def test_masked_targets_have_an_infinite_loss(name: str) -> None:
    """As in cross_entropy, each for itself; and no NaN in gradients, though all classes be masked."""
    queries, table, targets, bias = problem([3])
    targets[:2] = torch.tensor([3, 4])
    loss = LOSSES[name](reduction="none")
    assert torch.isinf(loss(queries, table, targets, bias)).nonzero().tolist() == [[0]]
    several = torch.stack([targets, targets.roll(1), torch.full_like(targets, -100)], dim=1)
    assert torch.isinf(loss(queries, table, several, bias)).nonzero().tolist() == [[0], [1]]
    losses = loss(queries, table, targets, torch.full((N,), -torch.inf))
    assert bool((losses == torch.inf).all())
    losses.sum().backward()
    assert bool(torch.isfinite(dense(table.grad)).all())


def test_masked_edges_of_a_head() -> None:
    torch.manual_seed(0)
    head = BeamTreeHead(DIM, balanced_tree(range(20), branching=4), n_candidates=6, n_noises=4)
    nn.init.normal_(head.edge_weights)
    leaf = head._paths.edges[7, -1]
    with torch.no_grad():
        head.edge_biases[leaf] = -torch.inf  # class 7
    features = torch.randn(50, DIM, requires_grad=True)
    targets = torch.arange(50) % 7
    head(features, targets).backward()
    assert bool(torch.isfinite(features.grad).all())
    assert not dense(head.edge_weights.grad)[leaf].any()
    head.reduction = "none"
    assert torch.isinf(head(features, targets + 1)).nonzero().squeeze(1).tolist() == list(range(6, 50, 7))
    assert 7 not in head.topk(features, k=20, beam=20).classes


DTYPES = [torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint64]


@pytest.mark.parametrize(
    ("name", "dtype"),
    # All of them with two losses and a head, one or two with each of the others.
    [(name, dtype) for at, name in enumerate([*LOSSES, "head"]) for number, dtype in enumerate(DTYPES)
     if name in ("full", "sampled", "head") or number in (at % 6, (at * 2 + 1) % 6)],
)  # fmt: skip
def test_targets_of_narrow_dtypes_are_those_of_int64(name: str, dtype: torch.dtype) -> None:
    queries, table, _, bias = problem([5])
    if name == "head":
        head = BeamTreeHead(DIM, balanced_tree(range(N), branching=8), n_candidates=4)
        call: Callable[[Tensor], Tensor] = lambda targets: head(queries, targets)  # noqa: E731
    else:
        loss = LOSSES[name]()
        call = lambda targets: loss(queries, table, targets, bias)  # noqa: E731
    for targets in (torch.arange(BATCH) * 10, torch.arange(2 * BATCH).view(-1, 2) * 3 + 6):
        values = []
        for given in (targets, targets.to(dtype)):
            torch.manual_seed(1)
            values.append(call(given))
        torch.testing.assert_close(*values, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("dtype", "wrong", "said"),
    [
        (torch.uint8, 156, 156),  # -100 in 8 bits, which is the ignored target
        (torch.int8, -1, (-1, "[0, 50)")),
        (torch.int16, 60, (60, "[0, 50)")),
        (torch.uint16, 65436, 65436),
        (torch.uint64, 2**64 - 100, 18446744073709551516),
    ],
)
@pytest.mark.parametrize("name", ["full", "sampled"])
def test_narrow_targets_out_of_range_are_named(name: str, dtype: torch.dtype, wrong: int, said: object) -> None:
    table, queries = torch.randn(50, DIM), torch.randn(3, DIM)
    loss = FullSoftmaxLoss() if name == "full" else SampledSoftmaxLoss(Uniform(50), 5)
    with raises(DataError, said):
        loss(queries, table, torch.tensor([1, 0, wrong], dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32])
def test_samplers_take_ids_of_narrow_dtypes(dtype: torch.dtype) -> None:
    ids, queries = torch.tensor([1, 2, 100]), torch.zeros(2, DIM)
    of_some = Subset(40_000, Uniform(50), torch.arange(100, 150))
    for sampler in (Uniform(40_000), of_some):
        assert torch.equal(sampler.log_prob(queries, ids.to(dtype)), sampler.log_prob(queries, ids))
        assert torch.equal(sampler.shared_log_prob(queries, ids.to(dtype)), sampler.shared_log_prob(queries, ids))
    batch = InBatch(40_000)
    batch.observe(ids.to(dtype))
    assert batch.batch.tolist() == [1, 2, 100]
    of_some.observe(ids.to(dtype))
    with raises(DataError, "[0, 40000)"):
        Uniform(40_000).log_prob(queries, torch.tensor([40_000], dtype=torch.int32))


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("name", LOSSES)
def test_a_batch_of_padding_alone_gives_every_parameter_a_gradient(name: str, sparse: bool) -> None:
    """Of zeros, as cross_entropy does: DistributedDataParallel waits for each; and the optimiser goes on."""
    queries, table, targets, bias = problem([])
    bias.requires_grad_()
    loss = LOSSES[name](**({"sparse": sparse} if name in SAMPLED else {}))
    value = loss(queries, table, torch.full_like(targets, -100), bias)
    value.backward()
    assert value.item() == 0
    for parameter in (queries, table, bias, *loss.parameters()):
        assert not dense(parameter.grad).any()
    assert table.grad.is_sparse == (name in SAMPLED and sparse)
    before = table.detach().clone()
    RowwiseAdagrad([table], lr=0.1).step()
    assert torch.equal(table, before)


@pytest.mark.parametrize("name", SAMPLED)
def test_dense_gradients_are_the_sparse_ones(name: str) -> None:
    gradients = []
    for sparse in (True, False):
        queries, table, targets, bias = problem([])
        bias.requires_grad_()
        loss = SAMPLED[name](sparse=sparse)
        torch.manual_seed(1)
        loss(queries, table, targets, bias).backward()
        assert table.grad.is_sparse == bias.grad.is_sparse == sparse
        gradients.append((dense(table.grad), dense(bias.grad)))
    torch.testing.assert_close(*gradients, rtol=0, atol=0)


@pytest.mark.parametrize("sparse", [True, False])
def test_a_head_on_padding_alone(sparse: bool) -> None:
    head = BeamTreeHead(DIM, balanced_tree(range(20), branching=4), sparse=sparse)
    head(torch.randn(3, DIM), torch.full((3,), -100)).backward()
    for parameter in head.parameters():
        assert parameter.grad.is_sparse == sparse and not dense(parameter.grad).any()
    head(torch.randn(3, DIM), torch.arange(3)).backward()
    assert all(parameter.grad.is_sparse == sparse for parameter in head.parameters())


@pytest.mark.parametrize("shared", [True, False])
def test_in_batch_negatives_with_an_exact_head(shared: bool) -> None:
    """Where the head holds all targets of a batch, it is the head's softmax alone."""
    queries, table, _, bias = problem([])
    loss = HeadAndTailLoss(make_tail_sampler("in-batch", N, counts=COUNTS, n_head=100), 20, shared=shared)
    targets = torch.arange(BATCH)
    value = loss(queries, table, targets, bias)
    torch.testing.assert_close(value, F.cross_entropy((queries @ table.T + bias)[:, :100], targets))
    value.backward()
    assert dense(table.grad)[:100].any(dim=1).all() and not dense(table.grad)[100:].any()
    targets[0] = 200
    assert bool(torch.isfinite(loss(queries, table, targets, bias)))
