"""The sampled softmax against a naive reference, and what it does with hits, several positives and half precision."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from sampling.scripted import Given, Scripted
from torch import Tensor, nn

from sylvan.errors import DataError, NotFittedError, ParameterError
from sylvan.sampling import FullSoftmaxLoss, SampledSoftmaxLoss, Softmax
from sylvan.sampling.losses.loss import positives
from sylvan.sampling.losses.sampled_softmax import accidental_hits

CLASSES, DIM = 12, 5
IGNORED = -100


def problem(dtype: torch.dtype = torch.float64) -> tuple[Tensor, nn.Parameter, nn.Parameter, Tensor]:
    """Queries, table, bias, the sampler's probabilities."""
    random = torch.Generator().manual_seed(0)
    queries = torch.randn(4, DIM, generator=random, dtype=dtype).requires_grad_()
    table = nn.Parameter(torch.randn(CLASSES, DIM, generator=random, dtype=dtype))
    bias = nn.Parameter(torch.randn(CLASSES, generator=random, dtype=dtype))
    return queries, table, bias, torch.randn(CLASSES, generator=random, dtype=torch.float64).softmax(0)


OPTIONS: dict[str, dict[str, Any]] = {
    "all": {},
    "paper": {"correction": "drawn", "accidental": "paper"},
    "keep": {"correction": "drawn", "accidental": "keep"},
    "remove": {"correction": "drawn"},
    "corrected": {"correction": "others"},
}


def naive(scores: Tensor, labels: list[int], drawn: list[int], q: Tensor, rule: str) -> Tensor:
    """One query's loss as the docstring says, a term at a time, from the scores of all classes."""
    labels = sorted(set(labels))
    if rule == "all":
        losses = []
        for label in labels:
            logits = [scores[k] - math.log((len(drawn) + 1) * float(q[k])) for k in [label, *drawn]]
            losses.append(torch.stack(logits).exp().sum().log() - scores[label])
        return sum(losses[1:], losses[0]) / len(losses)
    terms = [scores[label] for label in labels]
    others = [k for k in drawn if k not in labels]
    for k in drawn:
        hit = k in labels
        if rule == "corrected":
            if not hit:
                mass = sum(float(q[label]) for label in labels)
                terms.append(scores[k] - math.log(len(others) * float(q[k]) / (1 - mass)))
        elif hit and rule == "paper":
            terms.append(scores[k])
        elif not hit or rule == "keep":
            terms.append(scores[k] - math.log(len(drawn) * float(q[k])))
    total = torch.stack(terms).exp().sum().log()
    return total - sum(scores[label] for label in labels) / len(labels)


TARGETS = {
    "one": torch.tensor([3, 0, 7, 3]),
    "several": torch.tensor([[3, 1, IGNORED], [IGNORED, 0, IGNORED], [7, 8, 2], [5, IGNORED, 3]]),
}
DRAWS = torch.tensor([[3, 4, 3, 9, 1], [5, 6, 5, 2, 11], [7, 8, 2, 2, 7], [1, 3, 2, 3, 10]])


@pytest.mark.parametrize("rule", OPTIONS)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", ["one", "several"])
@pytest.mark.parametrize("with_bias", [False, True])
def test_equals_the_naive_reference(rule: str, shared: bool, kind: str, with_bias: bool) -> None:
    queries, table, bias, q = problem()
    targets, drawn = TARGETS[kind], DRAWS[1] if shared else DRAWS
    options: dict[str, Any] = OPTIONS[rule]
    loss = SampledSoftmaxLoss(Scripted(q, drawn), 5, shared=shared, reduction="none", **options)
    scores = queries @ table.t() + (bias if with_bias else 0)
    rows = drawn.expand(4, -1).tolist()
    lists = [[label for label in row if label != IGNORED] for row in targets.reshape(4, -1).tolist()]
    expected = torch.stack([naive(scores[i], lists[i], rows[i], q, rule) for i in range(4)])
    got = loss(queries, table, targets, bias if with_bias else None)
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-6)
    wrt = [queries, table, *([bias] if with_bias else [])]
    slope = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    ours, theirs = torch.autograd.grad(got, wrt, slope), torch.autograd.grad(expected, wrt, slope)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.to_dense(), other, atol=1e-6, rtol=1e-6)


def test_the_gradient_of_the_table_is_sparse_and_holds_touched_classes_only() -> None:
    queries, table, bias, q = problem()
    targets = TARGETS["one"]
    SampledSoftmaxLoss(Scripted(q, DRAWS), 5)(queries, table, targets, bias).backward()
    assert table.grad is not None and table.grad.is_sparse and bias.grad is not None and bias.grad.is_sparse
    touched = torch.cat([DRAWS.flatten(), targets]).unique()
    assert torch.equal(table.grad.coalesce().indices()[0], touched)
    assert torch.equal(bias.grad.coalesce().indices()[0], touched)


def test_the_sampler_hears_of_the_positives() -> None:
    queries, table, _, q = problem()
    sampler = Given(q)
    SampledSoftmaxLoss(sampler, 5)(queries, table, TARGETS["several"])
    assert sampler.observed is not None and sorted(sampler.observed.tolist()) == [0, 1, 2, 3, 3, 5, 7, 8]


@pytest.mark.parametrize("options", [OPTIONS["remove"], OPTIONS["corrected"]])
def test_many_draws_come_to_the_full_softmax(options: dict[str, Any]) -> None:
    """With as many draws as classes and 2,000 batches' mean, the sum's mean is the softmax's denominator."""
    queries, table, bias, q = problem()
    targets = TARGETS["one"]
    loss = SampledSoftmaxLoss(Given(q), CLASSES, reduction="none", **options)
    torch.manual_seed(1)
    repeats = 5_000
    values = loss(queries.repeat(repeats, 1), table, targets.repeat(repeats), bias).view(repeats, 4)
    scores = queries @ table.t() + bias
    own = scores.gather(1, targets[:, None]).squeeze(1)
    sums = (values + own).exp().mean(dim=0)
    torch.testing.assert_close(sums, scores.exp().sum(dim=1), rtol=0.03, atol=0)


@pytest.mark.parametrize("options", OPTIONS.values())
def test_a_positive_that_is_never_drawn_may_have_no_probability(options: dict[str, Any]) -> None:
    queries, table, bias, q = problem()
    q = q.clone()
    q[3] = 0.0
    loss = SampledSoftmaxLoss(Given(q / q.sum()), 5, **options)
    torch.manual_seed(0)
    value = loss(queries, table, torch.tensor([3, 3, 3, 3]), bias)
    value.backward()
    assert torch.isfinite(value) and table.grad is not None and torch.isfinite(table.grad.to_dense()).all()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("certain", [False, True])
def test_corrected_when_every_draw_is_the_positive(shared: bool, certain: bool) -> None:
    queries, table, bias, q = problem()
    drawn = torch.full((5,), 3) if shared else torch.full((4, 5), 3)
    probabilities = F.one_hot(torch.tensor(3), CLASSES).double() if certain else q
    loss = SampledSoftmaxLoss(Scripted(probabilities, drawn), 5, shared=shared, correction="others")
    value = loss(queries, table, torch.full((4,), 3), bias)
    value.backward()
    assert value.item() == 0.0
    assert table.grad is not None and torch.isfinite(table.grad.to_dense()).all()


def test_corrected_has_the_gradient_of_the_weighted_contrast() -> None:
    """What the docstring's notes derive: the gradient of the form with a constant weight."""
    queries, table, bias, q = problem()
    targets = TARGETS["one"]
    loss = SampledSoftmaxLoss(Scripted(q, DRAWS), 5, correction="others", reduction="sum")
    ours = torch.autograd.grad(loss(queries, table, targets, bias), [queries, table, bias])
    total = torch.zeros((), dtype=torch.float64)
    for i, label in enumerate(targets.tolist()):
        scores = table @ queries[i] + bias
        others = [k for k in DRAWS[i].tolist() if k != label]
        if not others:
            continue
        share = 1 - float(q[label])
        corrected = torch.stack([scores[k] - math.log(len(others) * float(q[k]) / share) for k in others])
        wrong = 1 - (scores[label].exp() / (scores[label].exp() + corrected.exp().sum())).detach()
        total = total + wrong * (corrected.logsumexp(0) - scores[label])
    theirs = torch.autograd.grad(total, [queries, table, bias])
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.to_dense(), other, atol=1e-6, rtol=1e-6)


def mean_gradient(q: Tensor, scores: Tensor, label: int, n_samples: int, **options: Any) -> Tensor:
    """Mean over many draws of the gradient wrt one query's scores: the query is 1, the table the scores."""
    repeats = 40_000
    table = nn.Parameter(scores.view(-1, 1))
    loss = SampledSoftmaxLoss(Given(q), n_samples, **options)
    torch.manual_seed(5)
    loss(torch.ones(repeats, 1, dtype=torch.float64), table, torch.full((repeats,), label)).backward()
    assert table.grad is not None
    return table.grad.to_dense().squeeze(1)


def test_corrected_comes_nearest_to_the_full_gradient() -> None:
    """A positive that is drawn often: other rules count it too much, or scale the rest by chance."""
    scores = torch.randn(CLASSES, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    scores[4] = 2.0
    q = torch.full((CLASSES,), 0.5 / (CLASSES - 1), dtype=torch.float64)
    q[4] = 0.5
    full = scores.softmax(0) - F.one_hot(torch.tensor(4), CLASSES)
    every = {name: options for name, options in OPTIONS.items() if name != "all"}
    bias = {name: float((mean_gradient(q, scores, 4, 8, **options) - full).norm()) for name, options in every.items()}
    assert bias["corrected"] < 0.5 * bias["paper"], bias
    assert bias["corrected"] < 0.5 * bias["keep"], bias
    assert bias["corrected"] < 0.8 * bias["remove"], bias


@pytest.mark.parametrize("kind", ["one", "several"])
def test_corrected_with_draws_from_the_softmax_is_the_full_loss(kind: str) -> None:
    """Every negative's term is then the same share of the others' sum, whichever were drawn."""
    queries, table, _, _ = problem()
    sampler = Softmax(CLASSES, DIM)
    loss = SampledSoftmaxLoss(sampler, CLASSES, correction="others", reduction="none")
    with pytest.raises(NotFittedError, match="refresh"):
        loss(queries, table, TARGETS[kind])
    sampler.refresh(table)
    torch.manual_seed(0)
    full = FullSoftmaxLoss(reduction="none")(queries, table, TARGETS[kind])
    torch.testing.assert_close(loss(queries, table, TARGETS[kind]), full, atol=1e-5, rtol=1e-5)


def test_shared_draws_of_an_adaptive_sampler_are_corrected_by_the_mixture() -> None:
    queries, table, bias, q = problem()
    sampler = Given(q, tilted=True)
    loss = SampledSoftmaxLoss(sampler, 5, shared=True, correction="others", reduction="none")
    targets = TARGETS["one"]
    torch.manual_seed(2)
    got = loss(queries, table, targets, bias)
    torch.manual_seed(2)
    drawn = sampler.sample(queries.float(), 5, shared=True).ids.tolist()
    mixture = sampler.shares(queries.detach()).mean(dim=0)
    scores = queries @ table.t() + bias
    expected = [naive(scores[i], [int(targets[i])], drawn, mixture, "corrected") for i in range(4)]
    torch.testing.assert_close(got, torch.stack(expected), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("options", OPTIONS.values())
def test_half_precision_gives_no_nan(dtype: torch.dtype, shared: bool, options: dict[str, Any]) -> None:
    queries, table, bias, q = problem(torch.float32)
    layer = nn.Linear(DIM, DIM)
    loss = SampledSoftmaxLoss(Given(q.float(), tilted=True), 8, shared=shared, **options)
    with torch.autocast("cpu", dtype):
        value = loss(layer(queries), table, TARGETS["several"], bias)
    assert value.dtype == torch.float32 and torch.isfinite(value)
    value.backward()
    assert table.grad is not None and torch.isfinite(table.grad.to_dense()).all()
    assert torch.isfinite(layer.weight.grad).all()
    halved = nn.Parameter(table.detach().to(dtype))
    value = loss(queries.to(dtype), halved, TARGETS["one"])
    value.backward()
    assert torch.isfinite(value) and halved.grad is not None and torch.isfinite(halved.grad.to_dense()).all()


@pytest.mark.parametrize("options", OPTIONS.values())
def test_huge_scores_give_no_nan(options: dict[str, Any]) -> None:
    queries, table, _, q = problem(torch.float32)
    wide = (queries.detach() * 100).requires_grad_()
    tall = nn.Parameter(table.detach() * 100)
    assert (wide @ tall.t()).abs().max() > 1e4
    value = SampledSoftmaxLoss(Given(q), 8, **options)(wide, tall, TARGETS["one"])
    value.backward()
    assert torch.isfinite(value) and tall.grad is not None and wide.grad is not None
    assert torch.isfinite(tall.grad.to_dense()).all() and torch.isfinite(wide.grad).all()


def test_reductions_and_ignored_queries() -> None:
    queries, table, bias, q = problem()
    targets = torch.tensor([3, IGNORED, 7, IGNORED])

    def value(**options: Any) -> Tensor:
        result: Tensor = SampledSoftmaxLoss(Scripted(q, DRAWS[1]), 5, shared=True, **options)(
            queries, table, options.pop("targets", targets), bias
        )
        return result

    each = value(reduction="none")
    assert each.shape == (4,) and each[1] == 0 and each[3] == 0 and each[0] > 0 and each[2] > 0
    torch.testing.assert_close(value(reduction="sum"), each.sum())
    torch.testing.assert_close(value(), each.sum() / 2)
    value().backward()
    assert queries.grad is not None
    assert (queries.grad[[1, 3]] == 0).all() and (queries.grad[[0, 2]] != 0).any()
    with_seven = SampledSoftmaxLoss(Scripted(q, DRAWS[1]), 5, shared=True, reduction="none", ignore_index=7)
    assert with_seven(queries, table, torch.tensor([3, 7, 2, 7]), bias)[[1, 3]].tolist() == [0, 0]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_batch_of_nothing_but_ignored_queries(reduction: str) -> None:
    queries, table, _, q = problem()
    value = SampledSoftmaxLoss(Given(q), 5, reduction=reduction)(queries, table, torch.full((4,), IGNORED))
    assert value.shape == ((4,) if reduction == "none" else ())
    value.sum().backward()
    assert value.sum() == 0 and queries.grad is not None and (queries.grad == 0).all()
    assert table.grad is not None and table.grad.is_sparse and len(table.grad.coalesce().values()) == 0


def test_queries_with_more_dimensions() -> None:
    random = torch.Generator().manual_seed(4)
    queries = torch.randn(2, 3, DIM, generator=random, dtype=torch.float64)
    _, table, _, q = problem()
    targets = torch.rand((2, 3, CLASSES), generator=random).argsort(dim=-1)[..., :2]
    loss = SampledSoftmaxLoss(Scripted(q, DRAWS[1]), 5, shared=True, reduction="none")
    flat = loss(queries.reshape(6, DIM), table, targets.reshape(6, 2))
    assert torch.equal(loss(queries, table, targets), flat.view(2, 3))


def test_distinct_positives_and_hits() -> None:
    wanted = positives(TARGETS["several"], IGNORED)
    known = [sorted(row[mask].tolist()) for row, mask in zip(wanted.ids, wanted.present, strict=True)]
    assert known == [[1, 3], [0], [2, 7, 8], [3, 5]]
    assert all(set(row.tolist()) == set(labels) for row, labels in zip(wanted.ids, known, strict=True))
    assert wanted.present[:, 0].all()
    assert wanted.shares().sum(dim=1).tolist() == pytest.approx([1, 1, 1, 1])
    hits = accidental_hits(DRAWS, wanted)
    assert hits.tolist() == [[k in labels for k in row] for row, labels in zip(DRAWS.tolist(), known, strict=True)]
    assert accidental_hits(DRAWS[0], wanted).tolist() == [[k in labels for k in DRAWS[0].tolist()] for labels in known]


def test_the_same_seed_gives_the_same_loss() -> None:
    queries, table, bias, q = problem()
    loss = SampledSoftmaxLoss(Given(q), 5)
    values = []
    for seed in (7, 7, 8):
        torch.manual_seed(seed)
        values.append(loss(queries, table, TARGETS["one"], bias).item())
    assert values[0] == values[1] != values[2]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiles(backend: str) -> None:
    queries, table, bias, q = problem(torch.float32)
    loss = SampledSoftmaxLoss(Given(q), 5, correction="others")
    found = []
    for function in (loss, torch.compile(loss, backend=backend)):
        torch.manual_seed(7)
        value = function(queries, table, TARGETS["several"], bias)
        found.append((value, *torch.autograd.grad(value, [queries, table, bias])))
    for mine, other in zip(*found, strict=True):
        torch.testing.assert_close(mine.to_dense(), other.to_dense())


def test_parameters_out_of_range() -> None:
    q = torch.full((12,), 1 / 12)
    with pytest.raises(ParameterError, match=r"above the class count: it must be an int in \[1, 12\].*Got 13"):
        SampledSoftmaxLoss(Given(q), 13)
    with pytest.raises(ParameterError, match="'n_samples' parameter of SampledSoftmaxLoss must be an int in"):
        SampledSoftmaxLoss(Given(q), 0)
    with pytest.raises(ParameterError, match="'sampler' parameter of SampledSoftmaxLoss must be a sampler"):
        SampledSoftmaxLoss(None, 5)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="'accidental' parameter of SampledSoftmaxLoss must be one of"):
        SampledSoftmaxLoss(Given(q), 5, correction="drawn", accidental="drop")
    with pytest.raises(ParameterError, match=r"for correction='drawn' alone: .* are kept. Got accidental='keep'"):
        SampledSoftmaxLoss(Given(q), 5, accidental="keep")
    with pytest.raises(ParameterError, match="'reduction' parameter"):
        SampledSoftmaxLoss(Given(q), 5, reduction="max")


def test_data_that_does_not_fit() -> None:
    queries, table, bias, q = problem()
    loss = SampledSoftmaxLoss(Given(q), 5)
    with pytest.raises(DataError, match="have 11 rows, but its Given draws from 12 classes"):
        loss(queries, table[:11], torch.zeros(4, dtype=torch.int64))
    with pytest.raises(DataError, match=r"targets of SampledSoftmaxLoss must lie in \[0, 12\).*Got 12 instead"):
        loss(queries, table, torch.tensor([3, 12, 0, 1]))
    with pytest.raises(DataError, match="Got -1 instead"):
        loss(queries, table, torch.tensor([3, -1, 0, 1]))
    with pytest.raises(DataError, match="integer dtype"):
        loss(queries, table, torch.ones(4))
    with pytest.raises(DataError, match="with the same dim"):
        loss(queries[:, :3], table, TARGETS["one"])
    with pytest.raises(DataError, match=r"targets of SampledSoftmaxLoss must have the shape \(4,\)"):
        loss(queries, table, torch.zeros(3, dtype=torch.int64))
    with pytest.raises(DataError, match=r"bias of SampledSoftmaxLoss must have the shape \(12,\)"):
        loss(queries, table, TARGETS["one"], bias[:5])


def test_reads_as_it_was_written() -> None:
    loss = SampledSoftmaxLoss(Given(torch.full((4,), 0.25)), 2, shared=True)
    assert "n_samples=2, shared=True" in repr(loss)
    assert list(loss.get_params(deep=False)) == [
        "sampler", "n_samples", "correction", "accidental", "shared", "sparse", "reduction", "ignore_index",
    ]  # fmt: skip
