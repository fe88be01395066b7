"""The contract that every sampler keeps (a new one joins by a line in ``suite.CASES``); samplers and losses by name."""

import copy
import warnings
from typing import Any

import pytest
import torch
from kit.errors import raises, warns
from sampling.suite import CASES, Case, loss_by_name
from torch import Tensor

from sylvan.errors import DataError, NotFittedError, ParameterError
from sylvan.sampling import Draw, StaleSamplerWarning, make_loss, make_sampler, make_tail_sampler
from sylvan.sampling.by_name import _LOSSES, _SAMPLERS, LOSSES, SAMPLERS
from sylvan.sampling.tensors import product, products

pytestmark = pytest.mark.usefixtures("torch_threads")


@pytest.fixture(params=CASES, ids=lambda case: case.title)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


# One of each class, for what the class alone decides.
KINDS = {_SAMPLERS[case.name].kind: case for case in CASES}
of_each_kind = pytest.mark.parametrize("case", KINDS.values(), ids=KINDS)


def seeded(case: Case, sampler: Any, n: int = 50, **more: Any) -> Draw:
    torch.manual_seed(5)
    return sampler.sample(case.queries(3), n, **more)


def all_ids(case: Case) -> Tensor:
    return torch.arange(case.n_classes)


def test_shapes_dtypes_and_range(case: Case) -> None:
    sampler = case.ready()
    for draw, shape in [
        (sampler.sample(case.queries(3), 7), (3, 7)),
        (sampler.sample(case.queries(1), 1), (1, 1)),
        (sampler.sample(case.queries(6).reshape(2, 3, case.dim), 4), (2, 3, 4)),
        (sampler.sample(case.queries(3), 7, shared=True), (7,)),
        (sampler.sample(case.queries(6).reshape(2, 3, case.dim), 4, shared=True), (4,)),
    ]:
        assert draw.ids.shape == draw.log_q.shape == shape
        assert draw.ids.dtype == torch.int64
        assert draw.log_q.dtype == torch.float32
        assert int(draw.ids.min()) >= 0
        assert int(draw.ids.max()) < case.n_classes
        assert bool(torch.isfinite(draw.log_q).all())
        assert bool((draw.log_q <= 1e-6).all())


def test_log_q_is_log_prob_at_what_was_drawn(case: Case) -> None:
    sampler, queries = case.ready(), case.queries(6).reshape(2, 3, case.dim)
    draw = sampler.sample(queries, 200)
    torch.testing.assert_close(sampler.log_prob(queries, draw.ids), draw.log_q, atol=1e-5, rtol=0)
    shared = sampler.sample(queries, 200, shared=True)
    torch.testing.assert_close(sampler.shared_log_prob(queries, shared.ids), shared.log_q, atol=1e-5, rtol=0)


def test_log_prob_sums_to_one_and_shared_is_its_mean(case: Case) -> None:
    sampler, queries = case.ready(), case.queries(6)
    log_prob = sampler.log_prob(queries, all_ids(case))
    assert log_prob.shape == (6, case.n_classes)
    assert log_prob.dtype == torch.float32
    torch.testing.assert_close(torch.logsumexp(log_prob, 1), torch.zeros(6), atol=1e-4, rtol=0)
    mean = log_prob.double().exp().mean(0).log().float()
    torch.testing.assert_close(sampler.shared_log_prob(queries, all_ids(case)), mean, atol=1e-5, rtol=0)
    boxed = sampler.log_prob(queries.reshape(2, 3, case.dim), all_ids(case).expand(2, 3, -1).int())
    torch.testing.assert_close(boxed.reshape(6, -1), log_prob, atol=1e-5, rtol=0)
    if not sampler.adaptive:
        assert bool((log_prob == log_prob[0]).all())


def test_the_seed_or_a_generator_decides_and_the_default_one_is_left_alone(case: Case) -> None:
    sampler = case.ready()
    first, again = seeded(case, sampler), seeded(case, sampler)
    assert torch.equal(first.ids, again.ids)
    assert torch.equal(first.log_q, again.log_q)
    assert not torch.equal(first.ids, sampler.sample(case.queries(3), 50).ids)
    before = torch.random.get_rng_state()
    for shared in (False, True):
        one, same, other = (
            sampler.sample(case.queries(3), 50, shared=shared, generator=torch.Generator().manual_seed(seed)).ids
            for seed in (1, 1, 2)
        )
        assert torch.equal(one, same)
        assert not torch.equal(one, other)
    assert torch.equal(before, torch.random.get_rng_state())


def test_the_same_bits_for_any_number_of_threads(case: Case) -> None:
    if "n_codebooks" in case.parameters or not case.weighted:
        pytest.skip("of these kernels another case asks")
    large = case.larger()
    draws, log_probs = [], []
    for count in (1, 2):
        torch.set_num_threads(count)
        sampler = large.prepare(large.make())
        torch.manual_seed(5)
        for shared in (False, True):
            draws += [sampler.sample(large.queries(8), 200, shared=shared)]
        log_probs.append(sampler.log_prob(large.queries(8), all_ids(large)))
    for one, two in zip(draws[:2], draws[2:], strict=True):
        assert torch.equal(one.ids, two.ids)
        assert torch.equal(one.log_q, two.log_q)
    assert torch.equal(*log_probs)


def test_state_dict_carries_it_over(case: Case) -> None:
    sampler, other = case.ready(), case.make()
    other.load_state_dict(sampler.state_dict())
    one, same = (seeded(case, case.observe(either)) for either in (sampler, other))
    assert torch.equal(one.ids, same.ids)
    assert torch.equal(one.log_q, same.log_q)
    assert torch.equal(*(either.log_prob(case.queries(3), all_ids(case)) for either in (sampler, other)))
    one, same = (seeded(case, case.prepare(either)) for either in (sampler, other))  # they learn on from the same
    assert torch.equal(one.ids, same.ids)


def test_deep_copies_and_moves(case: Case) -> None:
    sampler = case.ready()
    wanted = seeded(case, sampler)
    copied = copy.deepcopy(sampler)
    for other in (copied, copied.to("cpu"), copied.half(), copied.double(), copied.to(torch.bfloat16)):
        found = seeded(case, other)
        assert torch.equal(wanted.ids, found.ids)
        assert torch.equal(wanted.log_q, found.log_q)
    before = sampler.log_prob(case.queries(3), all_ids(case))
    case.prepare(copied, case.table(seed=9))  # which it follows; it doesn't reach the original
    assert torch.equal(wanted.ids, seeded(case, sampler).ids)
    after = copied.log_prob(case.queries(3), all_ids(case))
    assert sampler.adaptive != torch.equal(before, after)


@of_each_kind
def test_what_was_never_refreshed_refuses(case: Case) -> None:
    sampler = case.make()
    if not sampler.adaptive:
        pytest.skip("depends on no class embeddings")
    for call in (lambda: sampler.sample(case.queries(3), 5), lambda: sampler.log_prob(case.queries(3), all_ids(case))):
        with pytest.raises(NotFittedError):
            call()


@of_each_kind
def test_wrong_numbers_of_draws_are_refused(case: Case) -> None:
    sampler = case.ready()
    wrong: Any
    for wrong in (0, -1, 1.5, True, "3", None):
        with raises(ParameterError, "[1, inf)"):
            sampler.sample(case.queries(3), wrong)


@of_each_kind
def test_wrong_queries_are_refused(case: Case) -> None:
    sampler = case.ready()
    wrong = [torch.zeros(case.dim), torch.zeros(0, case.dim), torch.zeros(2, 0, case.dim)]
    if sampler.adaptive:
        wrong.append(torch.zeros(3, case.dim + 1))
    for queries in wrong:
        for call in (lambda q: sampler.sample(q, 5), lambda q: sampler.log_prob(q, all_ids(case))):
            with raises(DataError, "queries", "shape"):
                call(queries)
    with raises(DataError, "floating"):
        sampler.sample(torch.zeros(3, case.dim, dtype=torch.int64), 5)


@of_each_kind
def test_wrong_ids_are_refused(case: Case) -> None:
    sampler = case.ready()
    for ids, message in (
        (torch.zeros(2, 4, dtype=torch.int64), ("shape", 3)),
        (torch.zeros(3, 1, 4, dtype=torch.int64), ("shape", 3)),
        (torch.zeros(4), "integer"),
        (torch.zeros(4, dtype=torch.bool), "integer"),
        (torch.tensor([0, -1]), ("[0, 60)", -1)),
        (torch.tensor([0, 60]), ("[0, 60)", 60)),
    ):
        with raises(DataError, message):
            sampler.log_prob(case.queries(3), ids)


@of_each_kind
def test_wrong_tables_are_refused(case: Case) -> None:
    sampler = case.make()
    wrong = [case.table()[:-1], case.table()[0], case.table()[None]]
    if sampler.adaptive:
        wrong.append(case.table()[:, :-1])
    for table in wrong:
        with raises(DataError, "refresh", "shape"):
            sampler.refresh(table)
    with raises(DataError, "floating"):
        sampler.refresh(torch.zeros(case.n_classes, case.dim, dtype=torch.int64))
    if sampler.adaptive:
        for value in (float("nan"), float("inf")):
            table = case.table()
            table[3, 2] = value
            with raises(DataError, "NaN"):
                sampler.refresh(table)
        with pytest.raises(NotFittedError):
            sampler.sample(case.queries(3), 5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions(case: Case, dtype: torch.dtype) -> None:
    sampler = case.ready()
    sampler.refresh(case.table().to(dtype))
    queries = case.queries(3).to(dtype)
    for draw in (sampler.sample(queries, 200), sampler.sample(queries, 200, shared=True)):
        assert draw.log_q.dtype == torch.float32
        assert bool(torch.isfinite(draw.log_q).all())
    log_prob = sampler.log_prob(queries, all_ids(case))
    torch.testing.assert_close(torch.logsumexp(log_prob, 1), torch.zeros(3), atol=1e-4, rtol=0)


def test_autocast_changes_nothing_no_gradient_flows_and_class_embeddings_are_left_alone(case: Case) -> None:
    sampler, table = case.ready(), case.table().requires_grad_()
    wanted = seeded(case, sampler)
    with torch.autocast("cpu", torch.bfloat16):
        found = seeded(case, sampler)
        inside = case.prepare(case.make(), table)
    assert torch.equal(wanted.ids, found.ids)
    assert torch.equal(wanted.log_q, found.log_q)
    assert torch.equal(wanted.ids, seeded(case, inside).ids)
    queries = case.queries(3).requires_grad_()
    assert not inside.sample(queries, 5).log_q.requires_grad
    assert not inside.log_prob(queries, all_ids(case)).requires_grad
    assert torch.equal(table, case.table())


def test_a_stale_sampler_warns_once(case: Case) -> None:
    if not type(case.make()).adaptive:
        pytest.skip("never stale")
    sampler = case.ready()
    sampler.stale_after = 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seeded(case, sampler)
        seeded(case, sampler)
        case.prepare(sampler)
        seeded(case, sampler)
        seeded(case, sampler)
    with warns(StaleSamplerWarning, "refresh", 2):
        sampler.sample(case.queries(3), 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seeded(case, sampler)


def test_large_scores_give_no_nan(case: Case) -> None:
    sampler = case.prepare(case.make(), case.table(scale=100.0))
    queries = 30 * case.queries(3)  # scores up to some ±1e4
    assert float((queries @ case.table(scale=100.0).t()).abs().max()) > 1e4
    for shared in (False, True):
        draw = sampler.sample(queries, 200, shared=shared)
        assert bool(torch.isfinite(draw.log_q).all())
    log_prob = sampler.log_prob(queries, all_ids(case))
    assert not bool(torch.isnan(log_prob).any())
    torch.testing.assert_close(torch.logsumexp(log_prob, 1), torch.zeros(3), atol=2e-3, rtol=0)


def test_zero_queries_and_tables(case: Case) -> None:
    sampler = case.prepare(case.make(), torch.zeros(case.n_classes, case.dim))
    draw = sampler.sample(torch.zeros(3, case.dim), 100)
    assert bool(torch.isfinite(draw.log_q).all())
    log_prob = sampler.log_prob(torch.zeros(3, case.dim), all_ids(case))
    torch.testing.assert_close(torch.logsumexp(log_prob, 1), torch.zeros(3), atol=1e-4, rtol=0)


def test_a_single_class(case: Case) -> None:
    codes = {"n_codewords": 1} if "midx" in case.name else {}
    lone = Case(case.name, {**case.parameters, **codes}, case.weighted, n_classes=1)
    draw = lone.ready().sample(lone.queries(3), 5)
    assert draw.ids.tolist() == [[0] * 5] * 3
    torch.testing.assert_close(draw.log_q, torch.zeros(3, 5), atol=1e-5, rtol=0)


def test_what_learns_from_queries_has_learned_when_it_is_tried(case: Case) -> None:
    sampler = case.ready()
    learns = "learned" in case.name or "aware" in case.name
    assert learns == (getattr(sampler, "recent", None) is not None)
    if not learns:
        return
    plain = Case(case.name.replace("-learned", "").replace("-aware", ""), {**case.parameters, "class_weights": None})
    assert sampler.recent.n_stored == 32  # type: ignore[union-attr]
    found, other = (one.log_prob(case.queries(3), all_ids(case)) for one in (sampler, plain.ready()))
    assert float((found - other).abs().max()) > 0.1


def test_a_state_of_another_size_is_refused(case: Case) -> None:
    if not case.make().state_dict() or case.name in ("uniform", "log-uniform"):
        pytest.skip("has no index")
    other = Case(case.name, case.parameters, case.weighted, n_classes=70)
    with raises(DataError, "n_classes=70"):
        other.make().load_state_dict(case.ready().state_dict())


@of_each_kind
def test_wrong_kinds_of_things_are_told(case: Case) -> None:
    sampler = case.ready()
    queries, table = case.queries(3), case.table()
    for wrong, message in [(queries.numpy(), "torch.from_numpy"), (queries.tolist(), "torch.tensor")]:
        with raises(DataError, "queries", "torch.Tensor", message):
            sampler.sample(wrong, 5)  # type: ignore[arg-type]
        for call in (sampler.log_prob, sampler.shared_log_prob):
            with raises(DataError, "queries", "torch.Tensor", message):
                call(wrong, all_ids(case))  # type: ignore[arg-type]
    for call in (sampler.log_prob, sampler.shared_log_prob):
        with raises(DataError, "torch.Tensor", "torch"):
            call(queries, [1, 2])  # type: ignore[arg-type]
    for module in (torch.nn.Embedding(*table.shape), torch.nn.Linear(case.dim, case.n_classes)):
        with raises(DataError, "module"):
            sampler.refresh(module)  # type: ignore[arg-type]
    if sampler.adaptive:
        with raises(DataError, "sampler.to", "'meta'"):
            sampler.refresh(table.to("meta"))


COUNTS = [9, 4, 1, 0, 16, 1, 1, 4, 9, 25]


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_is_made(name: str) -> None:
    parameters: dict[str, Any] = {"n_codewords": 3} if "midx" in name else {}
    sampler = make_sampler(name, 10, 4, counts=COUNTS, **parameters)
    assert type(sampler).__name__ == _SAMPLERS[name].kind
    assert sampler.n_classes == 10
    assert not sampler.adaptive or sampler.dim == 4
    for key, value in _SAMPLERS[name].fixed.items():
        assert getattr(sampler, key) == value


def test_midx_is_weighted_by_the_root_of_the_counts_unless_told_otherwise() -> None:
    weighted: Any = make_sampler("midx-rq", 10, 4, counts=COUNTS, n_codewords=3)
    assert torch.as_tensor(weighted.class_weights).tolist() == [count**0.5 for count in COUNTS]
    plain: Any = make_sampler("midx-rq", 10, 4, counts=COUNTS, n_codewords=3, class_weights=None)
    assert plain.class_weights is None
    joint: Any = make_sampler("midx-joint-rq", 10, 4, counts=COUNTS, n_codewords=3)
    assert joint.learnable == "joint" and torch.equal(joint.class_weights, weighted.class_weights)
    gumbel: Any = make_sampler("midx-gumbel-rq", 10, 4, counts=COUNTS, n_codewords=3)
    assert gumbel.learnable == "joint-gumbel" and gumbel.class_weights is None
    without: Any = make_sampler("midx-rq", 10, 4, n_codewords=3)
    assert without.class_weights is None


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "cane"])
def test_every_loss_is_made(name: str) -> None:
    if name == "full":
        assert type(make_loss(name)).__name__ == "FullSoftmaxLoss"
        with raises(ParameterError, "sampler"):
            make_loss(name, make_sampler("uniform", 10), 5)
        return
    loss: Any = loss_by_name(name, 10, 5, counts=COUNTS, dim=4)
    assert type(loss).__name__ == _LOSSES[name].kind
    assert loss.n_samples == 5
    for key, value in _LOSSES[name].fixed.items():
        assert getattr(loss, key) == value
    with raises(ParameterError, "sampler"):
        make_loss(name, None, 5)
    with raises(ParameterError, "n_samples"):
        make_loss(name, loss.sampler)


def test_a_tail_is_all_but_the_most_frequent_classes() -> None:
    sampler = make_tail_sampler("unigram", 10, counts=COUNTS, n_head=4)
    assert sampler.drawn.tolist() == [1, 2, 3, 5, 6, 7]  # of the two nines both are in the head; ties by their ids
    own: Any = sampler.sampler
    assert own.counts.tolist() == [4, 1, 0, 1, 1, 4]
    assert make_tail_sampler("uniform", 5, counts=[1, 1, 1, 1, 1], n_head=2).drawn.tolist() == [2, 3, 4]
    for wrong in (0, 10, 2.0, True):
        with raises(ParameterError, "n_head", "make_tail_sampler", "[1, 9]"):
            make_tail_sampler("unigram", 10, counts=COUNTS, n_head=wrong)  # type: ignore[arg-type]
    for name, said in (("head-and-tail", "HeadAndTailLoss"), ("full", "takes no")):
        with raises(ParameterError, "sampler", said, "type Unigram") as caught:
            make_loss(name, make_sampler("unigram", 10, counts=COUNTS), 5)
        assert "tensor" not in str(caught.value)


def test_cane_gets_its_candidates() -> None:
    noise = make_sampler("uniform", 10)
    loss: Any = make_loss("cane", noise, 3, counts=COUNTS, dim=4, n_noises=2, split="count", n_subsets=3)
    assert (loss.n_noises, loss.noise) == (2, noise)
    assert (loss.candidates.n_candidates, loss.candidates.n_subsets, loss.candidates.split) == (3, 3, "count")
    assert make_loss("cane", noise, 3, counts=COUNTS, dim=4).candidates.n_subsets == 5
    own: Any = make_loss("cane", noise, candidates=lambda queries, table: torch.zeros(len(queries), 1).long())
    assert own.n_noises == 1
    for missing, needed in [({"counts": COUNTS}, "dim"), ({"dim": 4}, "counts")]:
        with raises(ParameterError, "cane", needed):
            make_loss("cane", noise, 3, **missing)
    with raises(ParameterError, "cane", "n_samples"):
        make_loss("cane", noise, counts=COUNTS, dim=4)
    with raises(ParameterError, "cane", "sampler"):
        make_loss("cane", None, 3, counts=COUNTS, dim=4)
    with raises(ParameterError, "n_noise"):
        make_loss("cane", noise, 3, counts=COUNTS, dim=4, n_noise=1)


def test_unknown_names_and_parameters_are_told_with_the_known_ones() -> None:
    with raises(ParameterError, "unifrom"):
        make_sampler("unifrom", 10)
    with raises(ParameterError, "'softmax'", "eq1"):
        make_loss("softmax")
    with raises(ParameterError, "unigram", "pwoer"):
        make_sampler("unigram", 10, counts=COUNTS, pwoer=1.0)


def test_what_is_missing_is_told() -> None:
    with raises(ParameterError, "counts"):
        make_sampler("unigram", 10)
    with raises(ParameterError, "dim"):
        make_sampler("softmax", 10)


@pytest.mark.parametrize("batch", [1, 7, 16, 39])
@pytest.mark.parametrize("n", [1, 16, 4097])
@pytest.mark.parametrize("dim", [3, 100])
def test_product(batch: int, n: int, dim: int) -> None:
    torch.manual_seed(0)
    left, right = torch.randn(batch, dim), torch.randn(n, dim)
    found = []
    for count in (1, 2, 3, 8):
        torch.set_num_threads(count)
        found.append(product(left, right))
        assert torch.equal(found[0], found[-1])
    torch.testing.assert_close(found[0], left @ right.t(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("k", [1, 3, 200])
def test_products(k: int) -> None:
    torch.manual_seed(0)
    left, right = torch.randn(k, 9, 20), torch.randn(k, 37, 20)
    found = []
    for count in (1, 2, 3, 8):
        torch.set_num_threads(count)
        found.append((products(left, right), products(left, right[0])))
        assert torch.equal(found[0][0], found[-1][0])
        assert torch.equal(found[0][1], found[-1][1])
    torch.testing.assert_close(found[0][0], left @ right.mT)
    torch.testing.assert_close(found[0][1], left @ right[0].t())


def test_gradients_pass() -> None:
    left, right = torch.randn(3, 4, requires_grad=True), torch.randn(21, 4, requires_grad=True)
    product(left, right).sum().backward()
    torch.testing.assert_close(left.grad, right.detach().sum(dim=0).expand(3, -1))
    torch.testing.assert_close(right.grad, left.detach().sum(dim=0).expand(21, -1))
