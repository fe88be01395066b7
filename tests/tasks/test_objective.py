"""What tasks train towards: names that are checked, codewords that learn from real queries; checksums of their data."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from kit.errors import raises
from tasks.small_jobs import JOBS, classifier, language_model, recommender, sequences

from sylvan.errors import ModelError, ParameterError
from sylvan.neural import RefreshSchedule, train
from sylvan.runtime.checkpoint import checksum
from sylvan.sampling import Uniform
from sylvan.sampling.losses.sampled_softmax import CrossEntropyEstimate
from sylvan.tasks import ExtremeClassification, SequentialRecommendation
from sylvan.tasks.base import ClassObjective, usual_loss
from sylvan.tasks.extreme_classification import checksum_of_matrices


def objective(**given: Any) -> ClassObjective:
    defaults: dict[str, Any] = {"sampler": "uniform", "loss": "sampled-softmax", "n_samples": 5}
    return ClassObjective(30, 6, counts=np.ones(30, np.int64), **{**defaults, **given})


def test_a_wrong_sampler_is_told_of_where_none_is_used() -> None:
    for loss in ("full", "sampled-softmax"):
        with raises(ParameterError, "nope"):
            objective(loss=loss, sampler="nope")
    assert objective(loss="full", sampler="midx-rq").sampler is None
    with raises(ParameterError, "takes no 'sampler'"):
        objective(loss="full", sampler=Uniform(30))


@pytest.mark.parametrize("n_positives", [None, 2])
def test_codewords_learn_from_queries_with_a_target_alone(n_positives: int | None) -> None:
    torch.manual_seed(0)
    queries, table = torch.randn(2, 4, 6), torch.randn(30, 6)
    targets = torch.randint(30, (2, 4) if n_positives is None else (2, 4, n_positives))
    targets[0, 3], targets[1, 1:] = -100, -100
    if n_positives is not None:
        targets[0, 0, 1] = -100  # one positive is left
    gradients = []
    for scale in (1.0, 5.0):  # of what no loss looks at
        torch.manual_seed(1)
        made = objective(
            sampler="midx-rq", codewords=4, sampler_parameters={"learnable": "joint"}, refresh=RefreshSchedule(every=9)
        )
        given = queries.clone()
        given[0, 3] *= scale
        given[1, 1:] *= scale
        made(given, table, targets, 0).backward()
        gradients.append([parameter.grad for parameter in made.inner_parameters()])
    assert gradients[0]
    for one, other in zip(*gradients, strict=True):
        assert one is not None and other is not None and one.any()
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("sampler", ["midx-joint-rq", "midx-gumbel-rq"])
def test_a_batch_without_any_target_teaches_codewords_nothing(sampler: str) -> None:
    made = objective(sampler=sampler, codewords=4)
    assert made.inner_parameters()
    table = torch.nn.Parameter(torch.randn(30, 6))
    assert float(made(torch.randn(4, 6), table, torch.full((4,), -100), 0).detach()) == 0.0
    assert float(made(torch.randn(4, 6), table, torch.full((4,), -100), 1).detach()) == 0.0
    made(torch.randn(4, 6), table, torch.arange(4), 2).backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in made.inner_parameters())


def test_few_classes_want_fewer_negatives() -> None:
    for made, n in ((language_model(), 10), (recommender(), 5), (classifier(), 5)):
        assert made._objective.loss.n_samples == made.settings()["n_samples"] == n
    assert classifier(n_samples=9).settings()["n_samples"] == 9
    with raises(ParameterError, "count", 11):
        classifier(n_samples=11)


def test_the_usual_loss_has_a_head_where_a_tail_can_be_drawn() -> None:
    assert usual_loss("unigram", 30) == "head-and-tail"
    assert usual_loss("in-batch", 30) == usual_loss("unigram", 3) == usual_loss(Uniform(30), 30) == "sampled-softmax"


def test_a_head_is_the_most_frequent_classes() -> None:
    counts = np.arange(30)
    made = ClassObjective(30, 6, sampler="unigram", loss="head-and-tail", n_samples=5, counts=counts)
    loss: Any = made.loss
    assert loss.head.tolist() == list(range(15, 30)) and made.sampler is loss.sampler
    more = {"loss_parameters": {"n_head": 4, "shared": True}}
    wide: Any = ClassObjective(30, 6, sampler="unigram", loss="head-and-tail", n_samples=29, counts=counts, **more).loss
    assert wide.head.tolist() == [26, 27, 28, 29] and wide.shared and wide.n_samples == 29
    with raises(ParameterError, "n_head", "make_tail_sampler", "[1, 29]"):
        ClassObjective(
            30, 6, sampler="unigram", loss="head-and-tail", n_samples=5, counts=counts, loss_parameters={"n_head": 30}
        )


def test_a_head_s_size_is_among_the_known_parameters() -> None:
    with raises(ParameterError, "n_heads", "n_head"):
        objective(loss="head-and-tail", sampler="unigram", loss_parameters={"n_heads": 5})


def test_the_true_loss_is_looked_at_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    made, looked = objective(), []
    monkeypatch.setattr(CrossEntropyEstimate, "check", lambda self, *given: looked.append(step))
    table, targets = torch.nn.Parameter(torch.randn(30, 6)), torch.randint(30, (4,))
    for step in range(300):
        made(torch.randn(4, 6), table, targets, step)
    assert looked == [64, 128, 256]


@pytest.mark.parametrize("task", JOBS)
def test_a_task_depends_on_its_seed_and_goes_on_where_it_stopped(task: str, tmp_path: Any) -> None:
    def trained(seed: int = 0, **given: Any) -> tuple[dict[str, float], list[float]]:
        history = train(JOBS[task](seed=seed), epochs=2, seed=seed, **given)
        return history.test, [entry["loss"] for entry in history.epochs]

    whole = trained()
    assert trained() == whole and trained(seed=1)[1] != whole[1]
    trained(folder=tmp_path, max_steps=3)
    test, losses = trained(folder=tmp_path, resume=True)
    assert test == whole[0] and losses[-1] == pytest.approx(whole[1][-1])


TABLES: dict[str, Any] = {
    "language model": lambda job: (job.table_, job.encoder_.inputs.weight),
    "recommender": lambda job: (job.encoder_.items,),
    "classifier": lambda job: (job.encoder_.features, job.classes_),
}


@pytest.mark.parametrize("task", JOBS)
def test_tables_have_sparse_gradients_of_what_was_there(task: str) -> None:
    job = JOBS[task](loss="sampled-softmax", sampler="softmax")  # which a step refreshes
    batch = next(job.batches(0))
    job.step(batch, 0).backward()
    assert all(table.grad is not None and table.grad.is_sparse for table in TABLES[task](job))
    if task == "classifier":
        rows = job.encoder_.features.grad.coalesce().indices().flatten().tolist()
        assert rows == sorted(set(batch[0].tolist()))


def matrices(seed: int = 0, n: int = 60) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """A feature and a label a row."""
    classes = np.random.default_rng(seed).permutation(np.arange(n) % 10)
    one = np.ones(n, np.float32)
    return tuple(sp.csr_matrix((one, (np.arange(n), classes)), shape=(n, 10)) for _ in range(2))  # type: ignore[return-value]


def classifier_of(part: str = "", seed: int = 0) -> ExtremeClassification:
    """Of one set, but for the part that is of another seed."""
    sets = {
        name: matrices(i + (50 if name == part else 0)) for i, name in enumerate(("training", "validation", "test"))
    }
    given: dict[str, Any] = {"sampler": "uniform", "n_samples": 3, "dim": 4, "batch_size": 16, "seed": seed}
    return ExtremeClassification(*sets["training"], validation=sets["validation"], test=sets["test"], **given)


def recommender_of(shift: int = 1) -> SequentialRecommendation:
    return recommender(shift, sampler="uniform", n_samples=3, dim=4, hidden=4, batch_size=8, max_length=4)


@pytest.mark.parametrize(
    ("task", "others"), [(classifier_of, ("training", "validation", "test")), (recommender_of, (3,))]
)
def test_a_task_does_not_go_on_with_other_data(task: Any, others: tuple[Any, ...], tmp_path: Any) -> None:
    assert sequences(1).describe() == sequences(3).describe()
    train(task(), epochs=1, folder=tmp_path)
    assert len(train(task(), epochs=2, folder=tmp_path, resume=True).epochs) == 2
    for other in others:
        with raises(ModelError, "data_checksum"):
            train(task(other), epochs=3, folder=tmp_path, resume=True)


def test_what_a_seed_keeps_apart_changes_no_checksum() -> None:
    made = [ExtremeClassification(*matrices(), sampler="uniform", n_samples=3, dim=4, seed=seed) for seed in (0, 1)]
    assert made[0].settings()["data_checksum"] == made[1].settings()["data_checksum"]


def test_any_change_of_places_and_all_but_the_last_digits_of_values_are_seen() -> None:
    X, Y = matrices()
    known = checksum_of_matrices(X, Y)
    assert checksum_of_matrices(X.copy(), Y.astype(np.float64)) == known
    assert checksum_of_matrices(sp.csr_matrix(X * np.float32(1 + 2e-7)), Y) == known
    assert checksum_of_matrices(sp.csr_matrix(X * np.float32(1.01)), Y) != known
    swapped = X.copy()
    swapped.data[:2] = 2, 1
    other = X.copy()
    other.data[:2] = 1, 2
    assert checksum_of_matrices(swapped, Y) != checksum_of_matrices(other, Y) != known
    moved = Y.copy()
    moved.indices[3] = (moved.indices[3] + 1) % 10
    assert checksum_of_matrices(X, moved) != known
    assert checksum_of_matrices(Y, X) == known  # alike here
    assert checksum_of_matrices(X, Y[:-1]) != known


def test_arrays_are_told_apart_by_where_they_end() -> None:
    def whole(*arrays: Any) -> str:
        return checksum(*arrays, any_integer=True)

    one, two = np.array([1, 2, 3]), np.array([4])
    assert whole(one, two) != whole(one[:2], np.array([3, 4]))
    assert whole(one.astype(np.int32)) == whole(one.astype(">i8"))
    long = np.arange(3_000_000)
    assert whole(long) == whole(long.astype(np.int32)) != whole(long[::-1])
