"""Beam Tree and CANE as a task's loss: weights that are trained as the class table is, scores, search, errors."""

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from kit.errors import raises
from tasks import small_jobs
from tasks.small_jobs import JOBS

from sylvan.errors import ParameterError
from sylvan.indexing import balanced_tree
from sylvan.neural import load_best, train
from sylvan.sampling import BeamTreeHead, CANELoss, RowwiseAdagrad, Uniform, make_head, make_loss
from sylvan.tasks import LanguageModel
from sylvan.tasks.base import context_centers
from sylvan.tasks.language_model import END

TREE: dict[str, Any] = {"loss": "beam-tree", "sampler": "unigram", "n_samples": 4}


def language_model(**given: Any) -> LanguageModel:
    return small_jobs.language_model(**{**TREE, **given})


def trained_by(job: Any, weights: torch.Tensor) -> type:
    """The optimiser whose first step moves weights, at the table's rate; every parameter has one optimiser."""
    groups = [(one, p) for one in job.optimizers for group in one.param_groups for p in group["params"]]
    assert sorted(id(p) for _, p in groups) == sorted(id(p) for p in job.module.parameters())
    (found,) = [one for one, p in groups if p is weights]
    assert found.param_groups[0]["lr"] == 0.25
    train(job, epochs=1, max_steps=1)
    assert float(weights.detach().abs().max()) > 0
    return type(found)


@pytest.mark.parametrize(("task", "tree"), [*zip(JOBS, ["frequency", "kmeans", "random"], strict=True)])
def test_edges_are_trained_as_the_class_table_is(task: str, tree: str) -> None:
    job = JOBS[task](**TREE, table_learning_rate=0.25, loss_parameters={"tree": tree, "branching": 3})
    head = job._objective.head
    assert isinstance(head, BeamTreeHead) and head.n_candidates == 4 and head.edge_biases is None
    assert trained_by(job, head.edge_weights) is RowwiseAdagrad


@pytest.mark.parametrize("given", [{}, {"tree": "kmeans", "branching": 4, "n_noises": 3, "together": True}])
def test_a_language_model_with_a_tree(given: dict[str, Any]) -> None:
    job = language_model(n_samples=6, loss_parameters=given, table_learning_rate=0.4, learning_rate=0.02)
    before = job.evaluate("validation")["perplexity"]
    train(job, epochs=2)
    after = job.evaluate("validation")["perplexity"]
    assert after < 0.5 * before
    head = job._objective.head
    assert head is not None and job.table_ is head.edge_weights
    words, sentence = job.corpus.words, ["w3", "w4", "w5"]
    end, *wanted = [words.index(word) for word in (END, *sentence, END)]
    with torch.no_grad():  # by the head's own words: all scores, and a beam as wide as the tree
        queries = job.encoder_(torch.tensor([[end, *wanted[:-1]]]), None)[0]
        exact = head.log_prob(queries)[0]
    torch.testing.assert_close(job.log_probabilities(sentence), exact[torch.arange(4), wanted], atol=1e-5, rtol=0)
    best = head.topk(queries, 3, beam=len(words))
    assert torch.equal(best.classes[0, :, 0], exact.argmax(dim=1))


def test_perplexity_is_that_of_a_plain_table_with_the_same_scores() -> None:
    job = language_model(table_learning_rate=0.2)
    train(job, epochs=1, max_steps=5)
    head = job._objective.head
    assert head is not None
    plain = language_model(loss="full")
    plain.encoder_.load_state_dict(job.encoder_.state_dict())
    with torch.no_grad():
        plain.table_.copy_(head.class_embeddings()[0])
    ours, theirs = (one.evaluate("test")["perplexity"] for one in (job, plain))
    assert ours == pytest.approx(theirs, rel=1e-5) and math.isfinite(ours)


def test_the_classifier_ranks_by_the_search() -> None:
    job = small_jobs.classifier(**TREE, loss_parameters={"branching": 3}, table_learning_rate=0.5)
    train(job, epochs=15)
    X = sp.csr_matrix(np.eye(10, dtype=np.float32))
    top, head = job.rank(X, k=3), job._objective.head
    assert head is not None and (top.labels[:, 0] == np.arange(10)).mean() >= 0.9
    with torch.no_grad():
        queries = job.encoder_(*job._bags(job._checked(X, np.zeros(10, int), "given")[0]))
    found = head.topk(queries, 3)
    assert np.array_equal(top.labels, found.classes.numpy()) and np.array_equal(top.scores, found.scores.numpy())


def test_the_recommender_has_no_places_without_an_item() -> None:
    job = small_jobs.recommender(**{**TREE, "n_samples": 1}, loss_parameters={"branching": 2})
    train(job, epochs=1)
    # A beam of one reaches two items, of which one may be filtered.
    found = job.recommend([[0, 1], [5]], k=9)
    assert all(len(set(items)) == len(items) and 1 <= len(items) <= 9 for items in found)


@pytest.mark.parametrize("sampler", ["midx-rq", "midx-joint-rq", "softmax"])
def test_a_sampler_that_adapts_sees_whole_scores(sampler: str) -> None:
    job = language_model(sampler=sampler, codewords=4)
    train(job, epochs=1, max_steps=3)
    head, noise = job._objective.head, job._objective.sampler
    assert head is not None and noise is head.noise and noise.adaptive
    if sampler == "softmax":
        queries = torch.randn(2, 10)
        noise.refresh(head.class_embeddings()[0].detach())
        torch.testing.assert_close(
            noise.log_prob(queries, torch.arange(4).expand(2, 4)), head.log_prob(queries)[:, :4].detach()
        )


def test_the_best_model_comes_back(tmp_path: Any) -> None:
    job = language_model()
    train(job, epochs=1, max_steps=5, folder=tmp_path)
    again = language_model(seed=0)
    load_best(tmp_path, again.module)
    assert not again.module.training, "so that dropout is off"
    assert torch.equal(again.table_, job.table_) and again.table_ is again._objective.head.edge_weights  # type: ignore[union-attr]
    assert again.evaluate("test") == job.evaluate("test")


def test_a_head_given_as_an_object() -> None:
    n_words = len(small_jobs.corpus().words)
    head = BeamTreeHead(10, balanced_tree(range(n_words), 4), 5, bias=False)
    job = language_model(loss=head)
    assert job._objective.head is head and job.table_ is head.edge_weights
    for wrong, piece in (
        (BeamTreeHead(10, balanced_tree(range(n_words), 4), 5), "bias=False"),
        (BeamTreeHead(9, balanced_tree(range(n_words), 4), 5, bias=False), f"for {n_words} classes and 10 dimensions"),
        (torch.nn.Linear(2, 2), ("ClassLoss", "BeamTreeHead")),
    ):
        with raises(ParameterError, piece):
            language_model(loss=wrong)


@pytest.mark.parametrize(
    ("given", "piece"),
    [
        ({"tree": "kmean"}, ("'tree'", "beam-tree", "frequency", "kmeans", "random")),
        ({"branching": 1}, "branching"),
        ({"n_noise": 2}, ("beam-tree", "n_noise", "n_noises")),
        ({"bias": True}, "bias=False"),
    ],
)
def test_wrong_parameters_of_the_head(given: dict[str, Any], piece: object) -> None:
    with raises(ParameterError, piece):
        language_model(loss_parameters=given)


def test_heads_by_name() -> None:
    head = make_head("beam-tree", 30, 4, Uniform(30), 7, counts=np.arange(30), branching=3, n_noises=2)
    assert (head.n_candidates, head.n_noises, head.n_classes) == (7, 2, 30)
    assert head.tree.leaf_labels.tolist() == list(range(29, -1, -1))
    assert make_head("beam-tree", 30, 4, tree=head.tree).tree is head.tree
    with raises(ParameterError, "frequency", "beam-tree", "counts"):
        make_head("beam-tree", 30, 4)
    with raises(ParameterError, "centers"):
        make_head("beam-tree", 30, 4, tree="kmeans")
    with raises(ParameterError, "make_head"):
        make_loss("beam-tree", Uniform(30), 4)
    with raises(ParameterError, "cane"):
        make_head("cane", 30, 4)


def test_words_in_like_places_are_alike() -> None:
    rng = np.random.default_rng(0)
    kinds = rng.integers(3, size=4000)  # after words 0 to 2 come words of their kind: 3 to 5, 6 to 8, 9 to 11
    targets = 3 + 3 * kinds + rng.integers(3, size=4000)
    centers = context_centers(np.stack([kinds, np.full(4000, -1)], axis=1), targets, 13, dim=4)
    assert centers.shape == (13, 4) and centers.dtype == np.float32 and not centers[12].any()
    apart = np.linalg.norm(centers[3:12, None] - centers[None, 3:12], axis=2)
    same = np.equal.outer(np.arange(9) // 3, np.arange(9) // 3)
    assert apart[same].max() < 1e-5 < 0.5 < apart[~same].min()
    again = context_centers(np.stack([kinds, np.full(4000, -1)], axis=1), targets, 13, dim=4)
    assert np.array_equal(centers, again)


CANE: dict[str, Any] = {"loss": "cane", "sampler": "unigram", "n_samples": 4}


@pytest.mark.parametrize(("task", "optimizer"), [*zip(JOBS, ["adagrad", "rowwise-adagrad", "sgd"], strict=True)])
def test_vectors_of_subsets_are_trained_as_the_class_table_is(task: str, optimizer: str) -> None:
    job = JOBS[task](**CANE, optimizer=optimizer, table_learning_rate=0.25)
    vectors = job._objective.loss.candidates.subset_vectors
    assert trained_by(job, vectors) is (torch.optim.SGD if optimizer == "sgd" else RowwiseAdagrad)


@pytest.mark.parametrize("learning", ["path", "own"])
def test_a_language_model_with_cane(learning: str) -> None:
    parameters = {"n_subsets": 4, "learning": learning, "beam": 4}
    rates = {"learning_rate": 0.01, "table_learning_rate": 0.4}
    task = small_jobs.language_model(sampler="unigram", loss="cane", n_samples=6, loss_parameters=parameters, **rates)
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
