"""The sampled losses against the papers' sums, draw by draw: their values, and their gradients by differences."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling.suite import Scripted

from reference import softmax_reference as reference
from sylvan.sampling import HeadAndTailLoss, SampledSoftmaxLoss, Subset

SAMPLED = ("all", "drawn:remove", "drawn:paper", "drawn:keep", "others")


@st.composite
def batches(draw: st.DrawFn) -> dict[str, np.ndarray]:
    """Scores of a few queries, the proposal, each query's draws, and one label or two of each."""
    n, n_classes, m = draw(st.integers(1, 4)), draw(st.integers(3, 8)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    q = rng.dirichlet(np.full(n_classes, draw(st.sampled_from([0.5, 5.0])))) + 1e-3
    n_positives = draw(st.sampled_from([1, 2]))
    return {
        "scores": rng.normal(size=(n, n_classes)) * draw(st.sampled_from([0.3, 2.0])),
        "q": q / q.sum(),
        "drawn": rng.choice(n_classes, (n, min(m, n_classes)), p=q / q.sum()),
        "labels": np.stack([rng.choice(n_classes, n_positives, replace=False) for _ in range(n)]),
    }


def compared(
    loss: torch.nn.Module, scores: np.ndarray, labels: np.ndarray, slow: Callable[[int, Sequence[float]], float]
) -> None:
    """Values and gradients of a loss that reduces to none, beside those of each query's slow loss."""
    # One-hot queries read their row of scores; the last class scores half by a bias, for the bias to be seen.
    table = torch.tensor(scores.T.copy(), requires_grad=True)
    bias = torch.zeros(len(table), dtype=torch.float64)
    with torch.no_grad():
        bias[-1] = 0.5
        table[-1] -= 0.5
    targets = torch.tensor(labels) if labels.shape[1] > 1 else torch.tensor(labels[:, 0])
    values = loss(torch.eye(len(scores), dtype=torch.float64), table, targets, bias)
    values.sum().backward()
    gradients = table.grad.to_dense().numpy()
    for i, o in enumerate(scores.tolist()):
        assert float(values[i].detach()) == pytest.approx(slow(i, o), rel=1e-9, abs=1e-9)
        expected = reference.gradient(lambda o, i=i: slow(i, o), o)
        np.testing.assert_allclose(gradients[:, i], expected, rtol=1e-6, atol=1e-8)


@settings(deadline=None, max_examples=25)
@given(batches(), st.sampled_from(SAMPLED), st.booleans())
def test_sampled_softmax_is_the_papers(case: dict[str, np.ndarray], kind: str, shared: bool) -> None:
    q, drawn, labels = case["q"].tolist(), case["drawn"], case["labels"]
    drawn = np.broadcast_to(drawn[:1], drawn.shape) if shared else drawn
    correction, _, accidental = kind.partition(":")

    def slow(i: int, o: Sequence[float]) -> float:
        given = o, q, drawn[i].tolist(), labels[i].tolist()
        if correction == "all":
            return reference.every_term_weighed(*given)
        if correction == "others":
            return reference.others_alone(*given)
        return reference.only_draws_corrected(*given, accidental)

    sampler = Scripted(torch.tensor(case["q"]), torch.tensor(drawn[0] if shared else drawn))
    loss = SampledSoftmaxLoss(
        sampler, drawn.shape[1], correction=correction, accidental=accidental or None, shared=shared, reduction="none"
    )
    compared(loss, case["scores"], labels, slow)


@settings(deadline=None, max_examples=25)
@given(batches(), st.integers(1, 4), st.integers(0, 2**32), st.booleans())
def test_head_and_tail_is_canes(case: dict[str, np.ndarray], n_head: int, seed: int, shared: bool) -> None:
    scores, labels = case["scores"], case["labels"]
    n_classes = scores.shape[1]
    order = np.random.default_rng(seed).permutation(n_classes)
    head, tail = np.sort(order[: min(n_head, n_classes - 1)]), order[min(n_head, n_classes - 1) :]
    shares = case["q"][tail] / case["q"][tail].sum()
    places = case["drawn"][:, : len(tail)] % len(tail)
    places = np.broadcast_to(places[:1], places.shape) if shared else places
    q = np.zeros(n_classes)
    q[tail] = shares

    def slow(i: int, o: Sequence[float]) -> float:
        return reference.head_and_tail(o, q.tolist(), tail[places[i]].tolist(), labels[i].tolist(), head.tolist())

    sampler = Subset(n_classes, Scripted(torch.tensor(shares), torch.tensor(places[0] if shared else places)), tail)
    loss = HeadAndTailLoss(sampler, places.shape[1], shared=shared, reduction="none")
    assert loss.head.tolist() == head.tolist()
    compared(loss, scores, labels, slow)
    assert float(loss.coverage) == pytest.approx(np.isin(labels, head).mean())


@pytest.mark.parametrize("n_draws", [1, 3])
def test_the_corrected_loss_is_ranking_nce_but_for_what_is_not_learned(n_draws: int) -> None:
    """The paper's loss is -ln p'; Sylvan's adds -ln((M + 1) q_y), so that it estimates the cross-entropy."""
    rng = np.random.default_rng(0)
    o, q = rng.normal(size=5), rng.dirichlet(np.ones(5))
    for y in range(5):
        drawn = rng.integers(0, 5, n_draws)
        loss = SampledSoftmaxLoss(Scripted(torch.tensor(q), torch.tensor(drawn[None])), n_draws)
        found = loss(torch.ones(1, 1, dtype=torch.float64), torch.tensor(o[:, None]), torch.tensor([y]))
        nce = reference.ranking_nce(o.tolist(), q.tolist(), drawn.tolist(), y)
        assert float(found) == pytest.approx(nce - np.log((n_draws + 1) * q[y]))
