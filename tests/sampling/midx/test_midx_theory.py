"""The distributions of the MIDX paper, compared with the samplers (numbers of equations and theorems are the paper's).

The exact values are in ``theory_reference.py``; the gradients are in ``losses/test_bias_theorems.py``.
"""

import itertools

import numpy as np
import pytest
import sampling.theory_reference as theory
import torch
from sampling.theory_samplers import contexts, distribution, index_of, midx, refreshed, trained

from sylvan.sampling import MIDX, ExactMIDX, Uniform, Unigram

QUANTIZERS = ("pq", "rq")
CODEWORDS = (4, 8, 16, 32)


@pytest.mark.parametrize("quantizer", QUANTIZERS)
@pytest.mark.parametrize("n_codebooks", [1, 2, 3])
def test_the_exact_sampler_is_the_softmax(quantizer: str, n_codebooks: int) -> None:
    """Theorem 1."""
    rng = np.random.default_rng(0)
    classes, queries = rng.normal(size=(300, 12)), rng.normal(size=(20, 12))
    torch.manual_seed(0)
    sampler = ExactMIDX(300, 12, n_codewords=5, n_codebooks=n_codebooks, quantizer=quantizer)
    found = distribution(refreshed(sampler, classes), queries)
    np.testing.assert_allclose(found, theory.softmax(queries @ classes.T), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("quantizer", QUANTIZERS)
@pytest.mark.parametrize("n_codebooks", [1, 2, 3])
def test_probabilities_are_those_of_equation_6(quantizer: str, n_codebooks: int) -> None:
    """Theorem 2, path by path and in its last form, the softmax of the scores without the residuals."""
    rng = np.random.default_rng(1)
    classes, queries = rng.normal(size=(80, 12)), rng.normal(size=(6, 12))
    torch.manual_seed(0)
    sampler = MIDX(80, 12, n_codewords=4, n_codebooks=n_codebooks, quantizer=quantizer)
    found = distribution(refreshed(sampler, classes), queries)
    codebooks, codes = index_of(sampler)
    expected = np.stack([theory.equation_6(query, codebooks, codes, quantizer) for query in queries])
    np.testing.assert_allclose(found, expected, rtol=2e-5)
    without_residuals = queries @ theory.reconstruct(codebooks, codes, quantizer).T
    np.testing.assert_allclose(expected, theory.softmax(without_residuals), rtol=1e-9)


def test_divergence_bounds() -> None:
    """Theorems 3, 4 and 5."""
    classes, frequency, queries = trained().classes, trained().frequency, contexts()
    scores = queries @ classes.T
    softmax, highest = theory.softmax(scores), np.abs(scores).max(axis=1)
    uniform = theory.kl(distribution(Uniform(len(classes)), queries), softmax)
    assert (uniform >= 0).all() and (uniform <= 2 * highest).all()
    unigram = theory.kl(distribution(Unigram(len(classes), frequency), queries), softmax)
    assert (unigram >= 0).all() and (unigram <= 2 * highest + np.log(len(classes) * frequency.max())).all()
    for quantizer in QUANTIZERS:
        for n_codewords in CODEWORDS:
            sampler = midx(n_codewords, quantizer)
            divergence = theory.kl(distribution(sampler, queries), softmax)
            residuals = classes - theory.reconstruct(*index_of(sampler), quantizer)
            bound = 2 * np.abs(queries @ residuals.T).max(axis=1)
            assert (divergence >= 0).all() and (divergence <= bound).all()
            if n_codewords >= 16:  # on trained embeddings the residuals' scores are well below the scores
                assert bound.mean() < 0.8 * 2 * highest.mean()


def test_divergences_fall_with_codewords_and_from_product_to_residual() -> None:
    """KL(Q ‖ P), and ln d₂(P ‖ Q), in the mean over contexts.

    And over four k-means: with four codewords, which of them a start finds weighs as much as the quantiser does, so
    that single ones of product codes come out below single ones of residual codes.
    """
    queries = contexts()
    softmax = theory.softmax(queries @ trained().classes.T)
    found = {}
    for quantizer in QUANTIZERS:
        for n_codewords in CODEWORDS:
            drawn = [distribution(midx(n_codewords, quantizer, seed), queries) for seed in range(4)]
            found[quantizer, n_codewords] = tuple(
                np.mean([measure(q) for q in drawn])
                for measure in (lambda q: theory.kl(q, softmax), lambda q: np.log(theory.d2(softmax, q)))
            )
    for measure in (0, 1):
        for quantizer in QUANTIZERS:
            falling = [found[quantizer, n][measure] for n in CODEWORDS]
            assert all(after < 0.95 * before for before, after in itertools.pairwise(falling)), falling
        for n in CODEWORDS:
            assert found["rq", n][measure] < 0.95 * found["pq", n][measure], (n, found)
