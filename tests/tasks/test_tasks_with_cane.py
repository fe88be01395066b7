"""CANE by name in a task: its candidates get counts and dimensions, and evaluation sums the scores over the path."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sylvan.sampling import CANELoss
from sylvan.tasks import LanguageModel, build_corpus


@pytest.mark.parametrize("learning", ["path", "own"])
def test_a_language_model_with_cane(learning: str) -> None:
    rng = np.random.default_rng(0)
    texts = [[f"w{(start + step) % 20}" for step in range(6)] for start in rng.integers(20, size=200)]
    corpus = build_corpus(texts, texts[:20], texts[:20])
    task = LanguageModel(
        corpus, embedding=12, hidden=10, length=6, batch_size=8, sampler="unigram", loss="cane", n_samples=6,
        loss_parameters={"n_subsets": 4, "learning": learning, "beam": 4},
    )  # fmt: skip
    before = task.evaluate("validation")["perplexity"]
    torch.manual_seed(0)
    for epoch in range(6):
        for step, batch in enumerate(task.batches(epoch)):
            for optimizer in task.optimizers:
                optimizer.zero_grad()
            task.step(batch, step).backward()
            for optimizer in task.optimizers:
                optimizer.step()
    after = task.evaluate("validation")["perplexity"]
    assert after < 0.8 * before
    loss = task._objective.loss
    assert isinstance(loss, CANELoss) and loss.sampler is loss.noise
    whole = loss.output_embeddings(task.table_)
    assert (whole is task.table_) == (learning == "own")
    sentence = ["w3", "w4", "w5"]
    surprises = task.log_probabilities(sentence)
    with torch.no_grad():
        task.table_.copy_(whole)
        if learning == "path":
            loss.candidates.subset_vectors.zero_()
    assert torch.allclose(task.log_probabilities(sentence), surprises, atol=1e-5)
    assert task.evaluate("validation")["perplexity"] == pytest.approx(after, rel=1e-5)
