"""Samplers that look at no embedding, and that of some classes: closed forms, slow loops, ends of ranges, errors."""

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from kit.errors import raises
from sampling.suite import SOME, normal, subset
from torch import Tensor

from sylvan.errors import DataError, NotFittedError, ParameterError
from sylvan.sampling import InBatch, LogUniform, Sampler, Softmax, Subset, Uniform, Unigram, make_tail_sampler
from sylvan.sampling.samplers.base import class_counts
from sylvan.sampling.samplers.static import alias_table

QUERIES = torch.zeros(1, 4)


@pytest.mark.parametrize("n", [1, 2, 10, 1000])
def test_log_uniform_is_its_closed_form(n: int) -> None:
    found = LogUniform(n).log_prob(QUERIES, torch.arange(n))[0].double().exp()
    wanted = [math.log((k + 2) / (k + 1)) / math.log(n + 1) for k in range(n)]
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 1000, 12_345_678])
def test_log_uniform_stays_in_range_at_both_ends(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = torch.tensor([[0.0, math.nextafter(0, 1), math.nextafter(1, 0), 0.5]], dtype=torch.float64)
    monkeypatch.setattr(torch, "rand", lambda *shape, **_: ends)
    ids = LogUniform(n).sample(QUERIES, 4).ids[0].tolist()
    assert ids[0] == ids[1] == 0
    assert ids[2] == n - 1
    assert 0 <= ids[3] < n


@pytest.mark.parametrize("power", [0.0, 0.5, 0.75, 1.0, 3.0])
def test_unigram_is_its_closed_form(power: float) -> None:
    counts = [7.0, 0.0, 1.0, 4.0, 1e6]
    weights = [count**power if count else 0.0 for count in counts]
    found = Unigram(5, counts, power).log_prob(QUERIES, torch.arange(5))[0].exp().tolist()
    assert found == pytest.approx([weight / sum(weights) for weight in weights], rel=1e-5)
    assert Unigram(5, counts, power).log_prob(QUERIES, torch.tensor([1]))[0].item() == -math.inf


def test_unigram_takes_counts_whose_powers_leave_every_float() -> None:
    found = Unigram(3, [1e300, 1e300, 1e200], power=4.0).log_prob(QUERIES, torch.arange(3)).exp()
    assert found[0].tolist() == [0.5, 0.5, 0.0]


def test_softmax_is_torchs_own_in_chunks_too() -> None:
    g = torch.Generator().manual_seed(0)
    table, queries = torch.randn(300, 8, generator=g), torch.randn(50, 8, generator=g)
    wanted = torch.log_softmax(queries.double() @ table.double().t(), 1).float()
    for chunk_size in (1, 700, 1 << 22):
        sampler = Softmax(300, 8, chunk_size=chunk_size)
        sampler.refresh(table)
        torch.testing.assert_close(sampler.log_prob(queries, torch.arange(300)), wanted, atol=1e-5, rtol=0)


def test_softmax_keeps_what_it_saw() -> None:
    table = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    sampler = Softmax(20, 4)
    sampler.refresh(table)
    before = sampler.log_prob(torch.ones(1, 4), torch.arange(20))
    table.mul_(-3)
    assert torch.equal(before, sampler.log_prob(torch.ones(1, 4), torch.arange(20)))


def test_log_prob_takes_no_number_alone() -> None:
    with raises(DataError, "Uniform.log_prob", "ids"):
        Uniform(7).log_prob(torch.zeros(2, 3), torch.tensor(3))


def weights_of(kind: str, n: int) -> Tensor:
    g = torch.Generator().manual_seed(n)
    plain = torch.rand(n, generator=g, dtype=torch.float64)
    if kind == "skewed":
        return plain**12
    if kind == "half zeros":
        plain[torch.rand(n, generator=g) < 0.5] = 0
        plain[-1] = 1
        return plain
    if kind == "equal":
        return torch.full((n,), 0.1, dtype=torch.float64)
    if kind == "one":
        return torch.eye(n, dtype=torch.float64)[n // 2]
    return plain


@pytest.mark.parametrize("n", [1, 2, 3, 10, 3000])
@pytest.mark.parametrize("kind", ["plain", "skewed", "half zeros", "equal", "one"])
def test_cells_give_each_class_its_probability(kind: str, n: int) -> None:
    weights = weights_of(kind, n)
    threshold, alias = alias_table(weights)
    cells = threshold.tolist()
    for cell, other in enumerate(alias.tolist()):  # the slow way to add up what the cells give
        cells[other] += 1 - float(threshold[cell])
    given = torch.tensor(cells, dtype=torch.float64)
    wanted = weights / weights.sum()
    assert torch.all((threshold >= 0) & (threshold <= 1))
    torch.testing.assert_close(given / n, wanted, rtol=0, atol=1e-10 * float(wanted.max()))
    assert torch.all(given[weights == 0] == 0)


@pytest.mark.parametrize(
    "values",
    [
        [2, 0, 1], (2.0, 0.0, 1.0), np.array([2, 0, 1], np.uint16), np.array([2, 0, 1], np.float16),
        torch.tensor([2, 0, 1]), torch.tensor([2, 0, 1], dtype=torch.bfloat16),
    ],
)  # fmt: skip
def test_every_form_gives_the_same(values: Any) -> None:
    found = class_counts(values, 3, owner="Unigram")
    assert found.dtype == torch.float64
    assert found.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, 2], "(2,)"), ([[1, 2, 3]], "(1, 3)"), (5, ("counts", "()")), ([1, -2, 3], (1, -2)),
        ([1, float("nan"), 3], "NaN"), ([1, float("inf"), 3], "NaN"), ([0, 0, 0], ("sum", 0)),
        (["a", "b", "c"], ("counts", "list")), (None, "NoneType"), ([1, [2], 3], ("counts", "list")),
        ([1e308, 1e308, 1e308], ("inf", "sum")), (torch.tensor([1j, 1, 1]), ("counts", "torch.complex64")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("sampler", [Unigram, InBatch])
def test_wrong_counts_are_refused_in_a_sentence(sampler: Any, values: Any, message: object) -> None:
    if values is None and sampler is InBatch:
        pytest.skip("None means that InBatch estimates")
    with raises(DataError, message) as caught:
        sampler(3, values)
    assert f"'counts' of {sampler.__name__} must be 3 numbers in [0, inf)" in str(caught.value)


def test_the_users_counts_are_left_alone() -> None:
    values = np.array([3.0, 1.0])
    Unigram(2, values, power=0.5)
    assert values.tolist() == [3.0, 1.0]


def probabilities(sampler: InBatch) -> Tensor:
    return sampler.log_prob(QUERIES, torch.arange(sampler.n_classes))[0].exp()


def stream(n_batches: int, size: int, frequency: Tensor, seed: int = 0) -> list[Tensor]:
    g = torch.Generator().manual_seed(seed)
    return [torch.multinomial(frequency, size, replacement=True, generator=g) for _ in range(n_batches)]


def slow_estimate(batches: list[Tensor], n_classes: int, step_size: float) -> Tensor:
    """The estimate class by class, from the definition: a moving mean of the targets between occurrences."""
    interval, seen_at, occurrences = [math.inf] * n_classes, [0] * n_classes, [0] * n_classes
    position = 0
    for batch in batches:
        position += len(batch)
        for label in sorted(set(batch.tolist())):
            times = batch.tolist().count(label)
            occurrences[label] += times
            new = (position - seen_at[label]) / times
            weight = max(1 - (1 - step_size) ** times, times / occurrences[label])
            old = interval[label]
            interval[label] = new if weight == 1 or old == math.inf else old + weight * (new - old)
            seen_at[label] = position
    rate = torch.tensor([1 / value for value in interval], dtype=torch.float64)
    return (rate / rate.sum()).float()


@pytest.mark.parametrize("step_size", [0.01, 0.2, 1.0])
def test_the_estimate_is_that_of_a_plain_loop(step_size: float) -> None:
    frequency = 1 / torch.arange(1, 21.0)
    batches = stream(30, 7, frequency)
    sampler = InBatch(25, step_size=step_size)
    for batch in batches:
        sampler.observe(batch)
    torch.testing.assert_close(probabilities(sampler), slow_estimate(batches, 25, step_size), atol=1e-6, rtol=1e-5)
    assert probabilities(sampler)[20:].tolist() == [0.0] * 5


def test_the_estimate_comes_to_the_frequencies() -> None:
    frequency = 1 / torch.arange(1, 51.0)
    frequency = frequency / frequency.sum()
    sampler = InBatch(50, step_size=0.001)
    for batch in stream(400, 500, frequency):
        sampler.observe(batch)
    torch.testing.assert_close(probabilities(sampler), frequency, atol=0, rtol=0.1)


def test_evaluation_leaves_the_estimate_but_for_new_classes() -> None:
    sampler = InBatch(5)
    sampler.observe(torch.tensor([0, 0, 0, 1]))
    before = probabilities(sampler)
    sampler.eval()
    sampler.observe(torch.tensor([1, 1, 1, 1]))
    assert torch.equal(probabilities(sampler), before)
    sampler.observe(torch.tensor([4, 1]))
    assert bool(torch.isfinite(sampler.sample(QUERIES, 20).log_q).all())


def test_it_draws_among_the_batch_only() -> None:
    sampler = InBatch(100, torch.ones(100))
    sampler.observe(torch.tensor([[3, 7], [7, 90]]))
    draw = sampler.sample(torch.zeros(2, 4), 200)
    assert set(draw.ids.unique().tolist()) == {3, 7, 90}
    torch.testing.assert_close(draw.log_q, torch.full((2, 200), -math.log(100)))


def test_errors_are_sentences() -> None:
    with pytest.raises(NotFittedError):
        InBatch(5).sample(QUERIES, 3)
    with raises(DataError, "targets", "without"):
        InBatch(5).observe(torch.zeros(0, dtype=torch.int64))
    for wrong in (-1, 5):
        with raises(DataError, "[0, 5)", wrong):
            InBatch(5).observe(torch.tensor([0, wrong]))
    with raises(DataError, "target", 2):
        InBatch(3, [1, 1, 0]).observe(torch.tensor([0, 2]))


def test_it_has_the_inner_samplers_distribution_on_its_classes() -> None:
    sampler, table = subset()
    assert sampler.adaptive and sampler.dim == 6
    queries = normal(5, 6, seed=3)
    expected = torch.full((5, 10), -torch.inf)
    expected[:, SOME] = (queries @ table[SOME].T).log_softmax(dim=1)
    torch.testing.assert_close(sampler.log_prob(queries, torch.arange(10)), expected, atol=1e-5, rtol=1e-5)
    mean = expected.exp().mean(dim=0)
    torch.testing.assert_close(sampler.shared_log_prob(queries, torch.arange(10)).exp(), mean, atol=1e-5, rtol=1e-5)


def test_what_is_no_sampler_of_queries_needs_no_refresh() -> None:
    sampler = Subset(5, Unigram(2, [3, 1]), torch.tensor([4, 0]))
    assert not sampler.adaptive and sampler.dim is None
    assert sampler.log_prob(torch.zeros(1, 3), torch.arange(5)).exp()[0].tolist() == [0.25, 0, 0, 0, 0.75]


def test_the_inner_sampler_sees_those_targets_that_it_draws() -> None:
    sampler = Subset(10, InBatch(4), SOME)
    sampler.observe(torch.tensor([0, 9, 2, 9, 1]))
    found = sampler.log_prob(torch.zeros(1, 3), torch.tensor(SOME)).exp()[0]
    assert found[2] > found[1] > 0 and found[0] == found[3]


def test_copies_and_states_carry_it_over() -> None:
    sampler, _ = subset()
    fresh = Subset(10, Softmax(4, 6), [0, 1, 2, 3])
    fresh.load_state_dict(sampler.state_dict())
    queries = normal(5, 6, seed=3)
    for other in (fresh, copy.deepcopy(sampler)):
        assert torch.equal(other.log_prob(queries, torch.arange(10)), sampler.log_prob(queries, torch.arange(10)))


def test_a_tail_of_midx_learns_from_its_own_classes() -> None:
    torch.manual_seed(0)
    sampler: Any = make_tail_sampler("midx-joint-pq", 60, 8, counts=range(60), n_head=20, n_codewords=4)
    table = normal(60, 8)
    sampler.refresh(table)
    assert sampler.learnable == "joint"
    queries = normal(16, 8, seed=3)
    assert torch.equal(sampler.learning_loss(queries, table), sampler.sampler.learning_loss(queries, table[:40]))
    assert set(sampler.sample(queries, 50).ids.flatten().tolist()) <= set(range(40))


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([0, 1, 2], (4, 3)), ([0, 1, 2, 10], ("[0, 10)", 10)), ([0, 1, 2, -1], ("[0, 10)", -1)),
        ([0, 1, 2, 2], "distinct"), ([0.0, 1.0, 2.0, 3.0], ("torch.float64", "class")), ([[0, 1], [2, 3]], "(2, 2)"),
    ],
)  # fmt: skip
def test_wrong_classes_are_told(classes: Any, message: object) -> None:
    with raises(DataError, message):
        Subset(10, Uniform(4), classes)


def test_a_sampler_is_needed() -> None:
    with raises(ParameterError, "'sampler'", "None"):
        Subset(10, None, [1])  # type: ignore[arg-type]
    assert isinstance(Subset(3, Uniform(1), [1]), Sampler)
