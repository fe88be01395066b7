"""Learned codewords: the shares and divergences against naive sums, and that learning brings MIDX nearer."""

import numpy as np
import pytest
import torch
from kit.chance import assert_mean
from kit.errors import raises

from sylvan.errors import NotFittedError, ParameterError, UnsupportedError
from sylvan.indexing.codebooks import reconstruct
from sylvan.sampling import MIDX, make_sampler
from sylvan.sampling.midx import multi_index
from sylvan.sampling.midx.multi_index import codeword_masses, largest_products


def made(n: int = 300, dim: int = 8, **parameters: object) -> tuple[MIDX, torch.Tensor, torch.Tensor]:
    """A sampler, embeddings longer for frequent classes, and queries in few of the directions."""
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(n, dim, generator=generator) * 3 / (1 + torch.arange(n)[:, None]).log1p()
    queries = torch.randn(400, 3, generator=generator) @ torch.randn(3, dim, generator=generator)
    torch.manual_seed(1)
    return MIDX(n, dim, **{"n_codewords": 6, **parameters}), table, queries  # type: ignore[arg-type]


def divergence(sampler: MIDX, queries: torch.Tensor, table: torch.Tensor) -> float:
    log_p = torch.log_softmax(queries @ table.t(), dim=1)
    log_q = sampler.log_prob(queries, torch.arange(len(table)))
    return float((log_p.exp() * (log_p - log_q)).sum(dim=1).mean())


@pytest.mark.parametrize("n_codebooks", [1, 2, 3])
def test_masses_are_the_softmax_s_sums_over_classes(n_codebooks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sylvan.sampling.tensors._IN_CACHE", 1000)  # several blocks
    sampler, table, queries = made(n_codebooks=n_codebooks)
    sampler.refresh(table)
    queries = queries[:20] * 5
    softmax = torch.softmax(queries.double() @ table.double().t(), dim=1).numpy()
    codes = sampler.index.cell_codes[sampler.index.class_cells.long()].numpy()
    for book, mass in enumerate(codeword_masses(queries, table, sampler.index)):
        for row in range(20):
            expected = np.bincount(codes[:, book], softmax[row], minlength=6)
            np.testing.assert_allclose(mass[row].numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("quantizer", ["pq", "rq"])
@pytest.mark.parametrize("n_codebooks", [1, 2, 3])
def test_the_divergence_and_its_gradient_are_those_of_a_sum_over_classes(quantizer: str, n_codebooks: int) -> None:
    sampler, table, queries = made(quantizer=quantizer, n_codebooks=n_codebooks)
    sampler.refresh(table)
    index, queries = sampler.index, queries[:30]
    words = [word.clone().requires_grad_() for word in index.codewords]
    counts = index.counts.double()
    found = multi_index._divergence(
        index.log_scores(queries, words), codeword_masses(queries, table, index), counts, index
    )
    gradients = torch.autograd.grad(found, words)
    codes = index.cell_codes[index.class_cells.long()]
    log_q = torch.log_softmax(queries.double() @ reconstruct(words, codes, quantizer).double().t(), dim=1)
    log_p = torch.log_softmax(queries.double() @ table.double().t(), dim=1)
    naive = -(log_p.exp() * log_q).sum(dim=1).mean()
    for gradient, expected in zip(gradients, torch.autograd.grad(naive, words), strict=True):
        torch.testing.assert_close(gradient, expected, atol=2e-5, rtol=1e-3)
    assert float(found.detach()) == pytest.approx(float(naive.detach()), abs=1e-4)


@pytest.mark.parametrize(("quantizer", "n_codebooks"), [("pq", 2), ("rq", 1), ("rq", 3)])
def test_a_refresh_learns_from_the_queries_before_it(quantizer: str, n_codebooks: int) -> None:
    results = []
    for learnable in (False, True):
        sampler, table, queries = made(learnable=learnable, quantizer=quantizer, n_codebooks=n_codebooks)
        torch.manual_seed(5)
        sampler.refresh(table)
        first = divergence(sampler, queries[300:], table)
        for batch in queries[:300].split(25):
            sampler.sample(batch, 3)
        sampler.refresh(table)
        results.append((first, divergence(sampler, queries[300:], table), sampler.index.class_cells.clone()))
    assert results[0][0] == results[1][0]  # nothing was seen before the first
    assert results[1][1] < 0.8 * results[0][1]
    assert torch.equal(results[0][2], results[1][2])  # the cells are k-means's


def test_learning_goes_on_from_refresh_to_refresh() -> None:
    sampler, table, queries = made(learnable="refresh", n_steps=1)
    sampler.refresh(table)
    sampler.sample(queries[:32], 1, shared=True)
    found = []
    for _ in range(6):
        sampler.refresh(table)
        found.append(divergence(sampler, queries[:32], table))
    assert found[-1] < 0.97 * found[0]


@pytest.mark.parametrize("quantizer", ["pq", "rq"])
@pytest.mark.parametrize("n_codebooks", [1, 2, 3])
def test_the_joint_loss_is_the_cross_entropy_of_the_draws(quantizer: str, n_codebooks: int) -> None:
    """The value by a sum over classes of a few of the queries, and the gradient by autograd through that sum."""
    sampler, table, queries = made(learnable="joint", quantizer=quantizer, n_codebooks=n_codebooks)
    sampler.refresh(table)
    found = sampler.learning_loss(queries.view(2, 200, 8), table)
    few = queries[torch.arange(32) * 400 // 32].double()
    log_q = sampler.log_prob(few.float(), torch.arange(300)).double()
    log_p = torch.log_softmax(few @ table.double().t(), dim=1)
    assert float(found.detach()) == pytest.approx(-float((log_p.exp() * log_q).sum(dim=1).mean()), abs=1e-4)
    codes = sampler.index.cell_codes[sampler.index.class_cells.long()]
    scores = few @ reconstruct(sampler.index.codewords, codes, quantizer).double().t()
    naive = -(log_p.exp() * torch.log_softmax(scores, dim=1)).sum(dim=1).mean()
    parameters = list(sampler.parameters())
    assert len(parameters) == n_codebooks
    for gradient, expected in zip(*(torch.autograd.grad(x, parameters) for x in (found, naive)), strict=True):
        torch.testing.assert_close(gradient, expected, atol=2e-5, rtol=1e-3)


@pytest.mark.parametrize("quantizer", ["pq", "rq"])
def test_joint_codewords_follow_embeddings_and_keep_what_they_learned(quantizer: str) -> None:
    """A model whose embeddings grow by far more than the codewords' optimiser moves: with learning draws are nearer."""
    found = {}
    for learnable in (False, "joint"):
        sampler, table, queries = made(learnable=learnable, quantizer=quantizer)
        optimizer = torch.optim.Adam(sampler.parameters(), lr=0.01) if learnable else None
        for step in range(120):
            grown = table * (0.1 + step / 60)
            if step % 5 == 0:
                sampler.refresh(grown)
            if optimizer is not None:
                optimizer.zero_grad()
                sampler.learning_loss(queries[step % 10 * 30 :][:30], grown).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        before = divergence(sampler, queries[300:], grown)
        sampler.refresh(grown)
        found[learnable] = before, divergence(sampler, queries[300:], grown)
    assert found["joint"][0] < 0.8 * found[False][0]
    assert found["joint"][1] < 0.8 * found[False][1]  # a refresh loses nothing of it


@pytest.mark.parametrize("quantizer", ["pq", "rq"])
def test_the_authors_loss_has_gumbel_noise_in_weights_that_stand_still(quantizer: str) -> None:
    sampler, table, queries = made(40, 6, learnable="joint-gumbel", quantizer=quantizer, n_codewords=3)
    sampler.refresh(table)
    torch.manual_seed(3)
    found = sampler.learning_loss(queries[:4, :6], table, reconstruction_weight=0.5)
    found.backward()  # type: ignore[no-untyped-call]
    gradients = [word.grad for word in sampler.parameters()]
    torch.manual_seed(3)
    words = [word.detach().clone().requires_grad_() for word in sampler.index.codewords]
    mixtures: list[torch.Tensor] = []
    for book, word in enumerate(words):
        if quantizer == "pq":
            part = table[:, 3 * book : 3 * book + 3]
        else:
            part = table - sum(mixture.detach() for mixture in mixtures)
        noise = -torch.empty(40, 3).exponential_().log()  # of a Gumbel distribution
        weight = torch.softmax(part @ word.detach().t() + noise, dim=1)
        mixtures.append(sum(weight[:, k, None] * word[k] for k in range(3)))  # type: ignore[arg-type]
    mixed = torch.cat(mixtures, dim=1) if quantizer == "pq" else mixtures[0] + mixtures[1]
    p, q = (torch.softmax(queries[:4, :6] @ rows.t(), dim=1) for rows in (table, mixed))
    expected = (p * p / q).sum(dim=1).log().mean() + 0.5 * (mixed - table).square().sum(dim=1).mean()
    expected.backward()  # type: ignore[no-untyped-call]
    assert float(found.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    for gradient, word in zip(gradients, words, strict=True):
        assert gradient is not None
        torch.testing.assert_close(gradient, word.grad, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("quantizer", ["pq", "rq"])
def test_without_k_means_a_class_goes_to_the_largest_inner_products(quantizer: str) -> None:
    sampler, table, queries = made(500, 6, learnable="joint-gumbel", quantizer=quantizer, n_codewords=40)
    words = torch.cat([word.detach().flatten() for word in sampler.index.codewords])
    many = MIDX(500, 200, learnable="joint-gumbel", quantizer=quantizer, n_codewords=40)
    for word in many.index.codewords:
        assert_mean(word.detach(), 0.0, off_by=0.002)
        assert_mean(word.detach().square(), 0.01**2, off_by=0.3 * 0.01**2)
    sampler.refresh(table)
    assert torch.equal(words, torch.cat([word.detach().flatten() for word in sampler.index.codewords]))
    first, second = (word.detach() for word in sampler.index.codewords)
    for i, code in enumerate(sampler.index.cell_codes[sampler.index.class_cells.long()]):
        one = table[i] if quantizer == "rq" else table[i, :3]
        best = max(range(40), key=lambda k: float(first[k] @ one))
        other = table[i] - first[best] if quantizer == "rq" else table[i, 3:]
        assert code.tolist() == [best, max(range(40), key=lambda k: float(second[k] @ other))]
    draw = sampler.sample(queries[:5, :6], 7)
    torch.testing.assert_close(draw.log_q, sampler.log_prob(queries[:5, :6], draw.ids))


@pytest.mark.parametrize("learnable", ["joint", "joint-gumbel"])
def test_joint_codewords_are_parameters_that_only_their_loss_moves(learnable: str) -> None:
    sampler, table, queries = made(learnable=learnable, n_codewords=4 if learnable == "joint-gumbel" else 12)
    with pytest.raises(NotFittedError):
        sampler.learning_loss(queries, table)
    sampler.refresh(table)
    assert len(list(sampler.parameters())) == 2
    table.requires_grad_()
    queries.requires_grad_()
    optimizer = torch.optim.Adam(sampler.parameters(), lr=0.05)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = sampler.learning_loss(queries[:64], table)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert table.grad is None and queries.grad is None
    of_few = torch.distributions.Categorical(logits=queries[:64][::2] @ table.t()).entropy().mean()
    least = float(of_few.detach()) if learnable == "joint" else 0.0  # of the joint loss, the cross-entropy
    assert 0 < losses[-1] - least < 0.7 * (losses[0] - least)
    learned = [word.detach().clone() for word in sampler.index.codewords]
    sampler.refresh(table)
    if learnable == "joint-gumbel":
        assert all(torch.equal(a, b) for a, b in zip(learned, sampler.index.codewords, strict=True))
        codes = sampler.index.cell_codes[sampler.index.class_cells.long()]
        assert torch.equal(codes, largest_products(table.detach(), learned, sampler.index))
    draw = sampler.sample(queries[:5], 7)
    torch.testing.assert_close(draw.log_q, sampler.log_prob(queries[:5], draw.ids))


def test_ways_that_there_are() -> None:
    sampler, table, queries = made(learnable=True, n_steps=3, n_iterations=2)
    sampler.refresh(table)
    with raises(UnsupportedError, "learnable='joint'", "joint-gumbel"):
        sampler.learning_loss(queries, table)
    sampler, table, queries = made(learnable="joint")
    sampler.refresh(table)
    with raises(UnsupportedError, "reconstruction_weight", 0.5, "learnable='joint'", "joint-gumbel"):
        sampler.learning_loss(queries, table, reconstruction_weight=0.5)
    with raises(ParameterError, "True", "False", "refresh", "'joint'", "joint-gumbel", "soft"):
        MIDX(10, 4, learnable="soft")
    with raises(ParameterError, "class_weights", "None", "learnable='joint-gumbel'"):
        MIDX(10, 4, learnable="joint-gumbel", class_weights=range(10))
    assert MIDX.constraints["learnable"].parse("joint") == "joint"
    assert MIDX.constraints["learnable"].parse("true") is True
    learned = make_sampler("midx-learned-rq", 50, 4, counts=range(50))
    assert isinstance(learned, MIDX) and learned.learner is not None
