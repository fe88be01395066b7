"""CANE by name in a task: its candidates come from the task's counts, and evaluation sees the whole scores."""

from __future__ import annotations

import torch

from sylvan.neural import train
from sylvan.tasks import LanguageModel
from sylvan.tasks.corpus import build_corpus


def test_a_language_model_with_cane() -> None:
    text = [["the", "cat", "sat"], ["the", "dog", "ran"]] * 40
    corpus = build_corpus(text, text[:4], text[:4])
    job = LanguageModel(
        corpus, loss="cane", sampler="uniform", n_samples=2, embedding=8, hidden=8, length=5, batch_size=4, seed=1
    )
    loss = job._objective.loss
    train(job, epochs=8)
    subsets = loss.candidates
    assert float(subsets.subset_vectors.detach().abs().max()) > 0
    whole = job.table_ + subsets.subset_vectors[subsets.subset_of]
    torch.testing.assert_close(job._objective.output_embeddings(job.table_), whole)
    before = job.evaluate("test")["perplexity"]
    assert before < 4
    with torch.no_grad():
        subsets.subset_vectors.add_(torch.linspace(-1, 1, 8))
        subsets.subset_vectors[0].mul_(-2)
    assert job.evaluate("test")["perplexity"] != before
