"""BeamTreeHead against its equations written out, and beam search against a loop; what else a layer must do."""

import copy
import io
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises
from sampling.suite import LargestMade, Recorded, noises_of, same_when_compiled
from torch import Tensor
from tree_reference import BATCH, DIM, batch, edge_scores, made, path, searched, uneven_tree

from sylvan import LabelTree
from sylvan.errors import DataError, ParameterError
from sylvan.indexing import balanced_tree
from sylvan.matching.class_beam import ClassWeights, rank_classes
from sylvan.sampling import BeamTreeHead, FullSoftmaxLoss, RowwiseAdagrad, Softmax, Uniform, Unigram

IGNORED = -100


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("n_noises", [1, 3])
@pytest.mark.parametrize("n_candidates", [1, 4])
def test_loss_and_gradients_are_those_of_the_equations(n_candidates: int, n_noises: int, bias: bool) -> None:
    """Losses (2), (3) of scores that are sums along the paths, and their gradients, (7), (8), (10), (11)."""
    n_classes = 17
    tree = balanced_tree(np.random.default_rng(3).permutation(n_classes), branching=3)
    counts = list(range(1, n_classes + 1))
    noise = Recorded(counts)
    head = made(tree, n_candidates=n_candidates, n_noises=n_noises, noise=noise, bias=bias, reduction="sum")
    features, targets = batch(n_classes)
    targets[:3] = torch.tensor([searched(head, x, n_candidates, 1)[0] for x in features[:3]])
    features.requires_grad_()
    torch.manual_seed(5)
    loss = head(features, targets)
    loss.backward()
    candidates = [searched(head, x, n_candidates, n_candidates) for x in features.detach()]
    noises = noises_of(noise.drawn, candidates, n_noises)
    given = [tensor.detach().requires_grad_() for tensor in (features, *head.parameters())]
    edges = given[0] @ given[1].t() + (given[2] if bias else 0)
    scores = torch.stack([edges[:, path(tree, k)].sum(dim=1) for k in range(n_classes)], dim=1)
    whole, covered, selected = torch.zeros(()), [], []
    for row, y in enumerate(targets.tolist()):
        mass = sum(counts[k] for k in range(n_classes) if k not in candidates[row])
        covered.append(y in candidates[row])
        stand_ins = noises[row] if covered[-1] else [y]
        selected.append({*candidates[row], *stand_ins})
        for j in stand_ins:
            total = scores[row, candidates[row]].exp().sum() + scores[row, j].exp() / (counts[j] / mass)
            whole = whole - (scores[row, y] - total.log()) / len(stand_ins)
    assert True in covered and False in covered
    assert loss.item() == pytest.approx(whole.item(), rel=1e-5)
    for found, expected in zip((features, *head.parameters()), torch.autograd.grad(whole, given), strict=True):
        assert found.grad is not None and torch.allclose(found.grad.to_dense(), expected, rtol=1e-5, atol=1e-6)
    assert head.coverage.item() == pytest.approx(np.mean(covered))
    # Proposition 1, over the batch: nothing but edges on some but not all of a query's selected paths is touched.
    touched: set[int] = set()
    for classes in selected:
        paths = [set(path(tree, k)) for k in classes]
        touched |= set.union(*paths) - set.intersection(*paths)
    assert set(head.edge_weights.grad.coalesce().indices()[0].tolist()) == touched


@pytest.mark.parametrize("covered", [True, False])
def test_an_edge_on_every_selected_path_has_gradient_zero(covered: bool) -> None:
    """Proposition 1, to the last bit: two subtrees, of which the second is out of sight."""
    tree = balanced_tree(range(8), branching=2)
    head = made(tree, n_candidates=2, noise=Unigram(8, [1, 1, 1, 1, 0, 0, 0, 0]))
    with torch.no_grad():
        head.edge_biases[0] += 50.0
    features, _ = batch(8)
    seen = [searched(head, x, 2, 2) for x in features]
    assert all(set(row) < {0, 1, 2, 3} for row in seen)
    others = [next(c for c in range(4) if c not in row) for row in seen]
    targets = torch.tensor([row[0] for row in seen] if covered else others)
    head(features, targets).backward()
    assert head.coverage.item() == float(covered)
    gradient = head.edge_weights.grad.coalesce()
    assert not {0, 1} & set(gradient.indices()[0].tolist())
    assert bool((gradient.to_dense()[[0, 1]] == 0).all()) and bool((gradient.values() != 0).any())


@pytest.mark.parametrize("n_candidates", [29, 1000])
def test_all_classes_as_candidates_give_the_softmax(n_candidates: int) -> None:
    head = made(balanced_tree(np.random.default_rng(0).permutation(29), branching=4), n_candidates=n_candidates)
    features, targets = batch(29)
    features.requires_grad_()
    loss = head(features, targets)
    parameters = [*head.parameters(), features]
    got = torch.autograd.grad(loss, parameters)
    expected = torch.nn.functional.nll_loss(head.log_prob(features), targets)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    for ours, theirs in zip(got, torch.autograd.grad(expected, parameters), strict=True):
        assert torch.allclose(ours.to_dense(), theirs, rtol=1e-9, atol=1e-12)
    assert head.coverage.item() == 1.0


def test_a_step_makes_nothing_for_every_class() -> None:
    n_classes = 20_000
    head = made(balanced_tree(range(n_classes), branching=10), dtype=torch.float32)
    features, targets = batch(n_classes, dtype=torch.float32)
    optimizer = RowwiseAdagrad(head.parameters())
    head(features, targets).backward()
    optimizer.step()
    optimizer.zero_grad()
    with LargestMade() as made_by:
        head(features, targets).backward()
        optimizer.step()
    assert made_by.largest < 4 * n_classes, made_by.by


def test_ignored_targets_reductions_and_several_positives() -> None:
    tree = balanced_tree(range(11), branching=3)
    features, targets = batch(11)
    targets[[1, 4]] = IGNORED
    values = {}
    for reduction in ("none", "sum", "mean"):
        torch.manual_seed(2)
        values[reduction] = made(tree, reduction=reduction, n_candidates=2)(features.view(3, 4, -1), targets.view(3, 4))
    assert values["none"].shape == (3, 4)
    assert (values["none"] == 0).flatten().tolist() == (targets == IGNORED).tolist()
    assert values["sum"].item() == pytest.approx(values["none"].sum().item())
    assert values["mean"].item() == pytest.approx(values["none"].sum().item() / (BATCH - 2))
    head = made(tree, n_candidates=2, reduction="none")
    outside = [[c for c in range(11) if c not in searched(head, x, 2, 2)] for x in features]
    several = torch.tensor([[row[0], IGNORED, row[3], IGNORED] for row in outside])  # without noises: nothing is random
    mean = (head(features, several[:, 0]) + head(features, several[:, 2])) / 2
    assert torch.allclose(head(features, several), mean)
    nothing = head(features, torch.full((BATCH,), IGNORED))
    assert nothing.tolist() == [0.0] * BATCH


def test_noises_together_stand_in_one_sum() -> None:
    """Every noise beside the candidates is drawn from one class: then several count as one."""
    tree, features = balanced_tree(range(6), branching=2), batch(6)[0]
    one = made(tree, n_candidates=2, noise=Uniform(6))
    targets = torch.tensor([searched(one, x, 2, 1)[0] for x in features])
    counts = [1.0] + [0.0] * 5
    with torch.no_grad():
        for edge in path(tree, 0):
            one.edge_biases[edge] -= 9.0
    assert all(0 not in searched(one, x, 2, 2) for x in features)
    many = made(tree, n_candidates=2, n_noises=4, noise=Unigram(6, counts), together=True)
    one.noise = Unigram(6, counts)
    many.load_state_dict(one.state_dict(), strict=False)
    assert many(features, targets).item() == pytest.approx(one(features, targets).item(), rel=1e-6)


def test_the_same_bits_for_any_number_of_threads() -> None:
    head = made(balanced_tree(range(500), 6), dtype=torch.float32)
    features = torch.randn(300, DIM, generator=torch.Generator().manual_seed(1))
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            torch.manual_seed(0)
            loss = head(features, torch.arange(300))
            gradient = torch.autograd.grad(loss, head.edge_weights)[0].to_dense()
            found.append((loss, gradient, head.topk(features, 4).scores))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_compiled_it_is_the_same(caplog: pytest.LogCaptureFixture) -> None:
    head = made(balanced_tree(range(50), 4), dtype=torch.float32, n_candidates=5, n_noises=2)
    network = torch.nn.Linear(DIM, DIM)
    features, targets = batch(50, dtype=torch.float32)
    targets[2] = IGNORED

    def whole(features: Tensor, targets: Tensor) -> Tensor:
        loss: Tensor = head(network(features), targets)
        return loss

    gradients = same_when_compiled(whole, (features, targets), [head.edge_weights, network.weight], caplog)
    assert gradients[0].is_sparse
    searched_too = torch.compile(head.topk, backend="aot_eager")(features, 3)
    assert torch.equal(searched_too.classes, head.topk(features, 3).classes)


def test_a_state_without_a_tree_is_refused() -> None:
    head = BeamTreeHead(4, balanced_tree(range(9), branching=3), n_candidates=2)
    with raises(DataError, "tree"):
        head.set_extra_state({})


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 60), st.integers(1, 4), st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 12))
def test_beam_search_is_the_loops(n_classes: int, depth: int, seed: int, beam: int, k: int) -> None:
    head = made(uneven_tree(n_classes, depth, seed), seed=seed)
    features, _ = batch(n_classes, seed)
    classes, scores = head.topk(features, k, beam=beam)
    every = head.log_prob(features).exp()
    for row, x in enumerate(features):
        wanted = searched(head, x, beam, k)
        assert classes[row].tolist() == wanted + [-1] * (k - len(wanted))
        total = [sum(edge_scores(head, x)[e] for e in path(head.tree, c)) for c in wanted]
        assert scores[row, : len(wanted)].tolist() == pytest.approx(total, rel=1e-9, abs=1e-9)
        assert scores[row, len(wanted) :].tolist() == [-math.inf] * (k - len(wanted))
    widest = max(head.tree.layer_sizes)
    exhaustive = head.topk(features, min(k, n_classes), beam=widest).classes
    assert exhaustive.tolist() == every.topk(min(k, n_classes), dim=1).indices.tolist()


def test_large_layers_are_searched_by_the_nodes_alone() -> None:
    """Layers that are many times what the beam looks at aren't multiplied whole; the answers are the same."""
    head = made(balanced_tree(np.random.default_rng(1).permutation(3000), branching=8), dtype=torch.float32)
    features, _ = batch(3000, dtype=torch.float32)
    with LargestMade() as made_by:
        found = head.topk(features, 2, beam=3)
    assert made_by.largest <= 4 * BATCH * 8 * 3 * 8, made_by.by
    assert found.classes.tolist() == [searched(head, x, 3, 2) for x in features]


def test_the_compiled_engine_finds_the_same() -> None:
    """The linear classifier's kernel and the head, with the same weights."""
    tree = balanced_tree(np.random.default_rng(1).permutation(700), branching=6)
    head = made(tree, dtype=torch.float32)
    columns = torch.cat([head.edge_weights, head.edge_biases[:, None]], dim=1).detach().numpy()
    features, _ = batch(700, dtype=torch.float32)
    for beam in (1, 4, 300):
        ours = head.topk(features, 5, beam)
        theirs = rank_classes(ClassWeights(tree, np.ascontiguousarray(columns)), features.numpy(), 5, beam)
        assert ours.classes.tolist() == theirs.labels.tolist()
        np.testing.assert_allclose(ours.scores.numpy(), theirs.scores, rtol=1e-5, atol=1e-5)


def test_probabilities() -> None:
    head = made(balanced_tree(range(23), branching=3), n_candidates=5)
    features, _ = batch(23)
    embeddings, biases = head.class_embeddings()
    assert biases is not None
    exact = head.log_prob(features.view(3, 4, DIM))
    assert exact.shape == (3, 4, 23)
    expected = (features @ embeddings.t() + biases).log_softmax(dim=1)
    assert torch.allclose(exact.view(BATCH, 23), expected)
    exact.sum().backward()
    assert head.edge_weights.grad is not None and not head.edge_weights.grad.is_sparse
    beam = head.log_prob(features, exact=False)
    best = head.topk(features, 5, beam=5)
    assert torch.allclose(beam.gather(1, best.classes), best.scores.log_softmax(dim=1))
    assert (beam > -math.inf).sum(dim=1).tolist() == [5] * BATCH
    assert torch.allclose(beam.exp().sum(dim=1), torch.ones(BATCH, dtype=torch.float64))
    assert torch.allclose(head.log_prob(features, exact=False, beam=100), expected)
    assert not beam.requires_grad


def test_nan_is_told_by_the_loss_and_the_scores() -> None:
    head = made(balanced_tree(range(20), 3), dtype=torch.float32)
    features, targets = batch(20, dtype=torch.float32)
    sound = head.topk(features, 2)
    features[3] = math.nan
    assert math.isnan(head(features, targets).item())
    found = head.topk(features, 2)
    assert bool(found.scores[3].isnan().all())
    rest = [row for row in range(BATCH) if row != 3]
    assert found.classes[rest].tolist() == sound.classes[rest].tolist()


def test_no_queries() -> None:
    head = made(balanced_tree(range(5), 2))
    features = torch.zeros(0, DIM, dtype=torch.float64)
    assert head(features, torch.zeros(0, dtype=torch.int64)).item() == 0.0
    assert head.topk(features, 3).classes.shape == (0, 3)
    assert head.log_prob(features).shape == head.log_prob(features, exact=False).shape == (0, 5)


def test_the_state_carries_the_tree() -> None:
    head = made(balanced_tree(np.random.default_rng(0).permutation(40), branching=4), dtype=torch.float32)
    features, _ = batch(40, dtype=torch.float32)
    file = io.BytesIO()
    torch.save(head.state_dict(), file)
    file.seek(0)
    other = BeamTreeHead(DIM, balanced_tree(range(40), branching=4))
    other.load_state_dict(torch.load(file, weights_only=True))
    assert other.tree == head.tree
    for again in (other, copy.deepcopy(head), pickle.loads(pickle.dumps(head))):
        assert torch.equal(again.topk(features, 5).classes, head.topk(features, 5).classes)
    with raises(DataError, "(3, 10, 40)", "(2, 8, 40)"):
        BeamTreeHead(DIM, balanced_tree(range(40), branching=5)).load_state_dict(head.state_dict(), strict=False)


def test_wrong_parameters_are_sentences() -> None:
    tree = balanced_tree(range(5), 2)
    with raises(ParameterError, "tree", "BeamTreeHead", "LabelTree", 5):
        BeamTreeHead(DIM, 5)  # type: ignore[arg-type]
    with raises(ParameterError, "noise", 5, 6):
        BeamTreeHead(DIM, tree, noise=Uniform(6))
    twice = LabelTree((np.array([0, 2]), np.array([0, 2, 4])), np.array([0, 1, 1, 2]), 3)
    with raises(DataError, "tree", "BeamTreeHead"):
        BeamTreeHead(DIM, twice)
    head = BeamTreeHead(DIM, tree)
    features = torch.zeros(2, DIM)
    for call in (lambda: head.topk(features, 1, beam=0), lambda: head.log_prob(features, False, beam=0)):
        with raises(ParameterError, "beam", "BeamTreeHead", "[1, inf)"):
            call()
    for k in (0, 10**12, 2.0):  # what only pads a gigabyte a query is a slip
        with raises(ParameterError, "'k'", "BeamTreeHead", "[1, 1000000]", k):  # fmt: skip
            head.topk(features, k)  # type: ignore[arg-type]
    assert head.topk(features, 1000, beam=10**12).classes.shape == (2, 1000)
    with raises(ParameterError, "exact", "BeamTreeHead", "True", "False", "no"):
        head.log_prob(features, exact="no")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("features", "targets", "words"),
    [
        ([[0.0]], torch.zeros(1).long(), ("BeamTreeHead", "torch.Tensor")),
        (torch.zeros(2, DIM).long(), torch.zeros(2).long(), ("torch.int64", "floating")),
        (torch.zeros(2, 5), torch.zeros(2).long(), ("(..., 4)", "(2, 5)")),
        (torch.zeros(DIM), torch.zeros(()).long(), "(4,)"),
        (torch.zeros(2, DIM), torch.zeros(2), ("BeamTreeHead", "integer")),
        (torch.zeros(2, DIM), torch.zeros(3).long(), ("BeamTreeHead", "(2,)", "(3,)")),
        (torch.zeros(2, DIM), torch.tensor([0, 5]), ("[0, 5)", 5)),
        (torch.zeros(2, DIM), torch.tensor([0, -1]), ("ignore_index", -100, -1)),
        (torch.zeros(2, DIM, device="meta"), torch.zeros(2).long(), ("meta", "weights")),
        (torch.zeros(2, DIM), torch.zeros(2, device="meta").long(), "cpu"),
    ],
)
def test_wrong_inputs_are_sentences(features: Any, targets: Any, words: object) -> None:
    with raises(DataError, words):
        BeamTreeHead(DIM, balanced_tree(range(5), 2))(features, targets)


def test_other_losses_and_samplers_take_its_class_embeddings() -> None:
    head = made(balanced_tree(range(23), branching=3), dtype=torch.float32, noise=Softmax(23, DIM))
    features, targets = batch(23, dtype=torch.float32)
    embeddings, biases = head.class_embeddings()
    full = FullSoftmaxLoss()(features, embeddings, targets, biases)
    assert full.item() == pytest.approx(torch.nn.functional.nll_loss(head.log_prob(features), targets).item(), rel=1e-5)
    full.backward()
    head.noise.refresh(embeddings)
    head(features, targets).backward()


def test_one_class() -> None:
    head = made(balanced_tree([0]))
    features, _ = batch(1)
    loss = head(features, torch.zeros(BATCH, dtype=torch.int64))
    loss.backward()
    assert loss.item() == 0.0 and bool((head.edge_weights.grad.to_dense() == 0).all())
    assert head.topk(features, 2).classes.tolist() == [[0, -1]] * BATCH


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_no_nan_under_autocast_with_large_scores(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    linear = torch.nn.Linear(DIM, DIM)
    counts = [1.0] * 19 + [0.0]  # a class that is never noise, though it may be a target
    head = made(balanced_tree(range(20), 3), dtype=torch.float32, noise=Unigram(20, counts), n_noises=2, n_candidates=4)
    with torch.autocast("cpu", dtype=dtype):
        features = linear(100.0 * torch.randn(60, DIM))
        value = head(100.0 * features, torch.randint(20, (60,)))
        assert head.log_prob(features).dtype == head.topk(features, 3).scores.dtype == torch.float32
    value.backward()
    assert value.dtype == torch.float32 and bool(torch.isfinite(value))
    for parameter in (*head.parameters(), linear.weight):
        assert parameter.grad is not None and bool(torch.isfinite(parameter.grad.to_dense()).all())
