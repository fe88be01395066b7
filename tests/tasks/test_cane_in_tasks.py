"""CANE by name in a task: its candidates get counts and dimensions, and evaluation sums the scores over the path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from sylvan.data import build_sequences
from sylvan.neural import train
from sylvan.sampling import CANELoss, RowwiseAdagrad
from sylvan.tasks import ExtremeClassification, LanguageModel, SequentialRecommendation, build_corpus

CANE: dict[str, Any] = {"loss": "cane", "sampler": "unigram", "n_samples": 4}


def jobs() -> dict[str, Any]:
    text = [["the", "cat", "sat"], ["the", "dog", "ran"]] * 20
    users = [user for user in range(20) for _ in range(10)]
    sequences = build_sequences(users, [(user + place) % 10 for user in range(20) for place in range(10)])
    classes = np.arange(60) % 10
    return {
        "language model": lambda **given: LanguageModel(
            build_corpus(text, text, text), embedding=8, hidden=8, length=4, batch_size=4, **CANE, **given
        ),
        "recommender": lambda **given: SequentialRecommendation(sequences, dim=8, hidden=8, **CANE, **given),
        "classifier": lambda **given: ExtremeClassification(
            sp.csr_matrix(np.eye(10, dtype=np.float32)[classes]), classes, dim=8, hidden=8, **CANE, **given
        ),
    }


@pytest.mark.parametrize("optimizer", ["adagrad", "rowwise-adagrad", "sgd"])
@pytest.mark.parametrize("task", jobs())
def test_vectors_of_subsets_are_trained_as_the_class_table_is(task: str, optimizer: str) -> None:
    job = jobs()[task](optimizer=optimizer, table_learning_rate=0.25)
    vectors = job._objective.loss.candidates.subset_vectors
    theirs = [one for one in job.optimizers for group in one.param_groups for p in group["params"] if p is vectors]
    assert len(theirs) == 1 and theirs[0].param_groups[0]["lr"] == 0.25
    assert type(theirs[0]) is (torch.optim.SGD if optimizer == "sgd" else RowwiseAdagrad)
    all_of_them = [id(p) for one in job.optimizers for group in one.param_groups for p in group["params"]]
    assert sorted(all_of_them) == sorted(id(p) for p in job.module.parameters())
    train(job, epochs=1, max_steps=1)
    assert float(vectors.detach().abs().max()) > 0


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
    train(task, epochs=6)
    after = task.evaluate("validation")["perplexity"]
    assert after < 0.8 * before
    loss = task._objective.loss
    assert isinstance(loss, CANELoss) and loss.sampler is loss.noise
    assert float(loss.candidates.subset_vectors.detach().abs().max()) > 0
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
