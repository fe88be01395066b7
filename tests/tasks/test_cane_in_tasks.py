"""CANE by name in a task: its candidates get counts and dimensions, and evaluation sums the scores over the path."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tasks.small_jobs import JOBS, language_model

from sylvan.neural import train
from sylvan.sampling import CANELoss, RowwiseAdagrad

CANE: dict[str, Any] = {"loss": "cane", "sampler": "unigram", "n_samples": 4}


@pytest.mark.parametrize(("task", "optimizer"), [*zip(JOBS, ["adagrad", "rowwise-adagrad", "sgd"], strict=True)])
def test_vectors_of_subsets_are_trained_as_the_class_table_is(task: str, optimizer: str) -> None:
    job = JOBS[task](**CANE, optimizer=optimizer, table_learning_rate=0.25)
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
    parameters = {"n_subsets": 4, "learning": learning, "beam": 4}
    rates = {"learning_rate": 0.01, "table_learning_rate": 0.4}
    task = language_model(sampler="unigram", loss="cane", n_samples=6, loss_parameters=parameters, **rates)
    before = task.evaluate("validation")["perplexity"]
    train(task, epochs=2)
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
