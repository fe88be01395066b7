"""Learning in turns: gradients against PyTorch's own, and what the IRLI paper says happens round by round."""

import copy
from typing import Any

import kit.bits
import numpy as np
import pytest
import scipy.sparse as sp
from kit.errors import raises
from word_topics import all_logits

torch = pytest.importorskip("torch")

from sylvan.errors import DataError, ParameterError  # noqa: E402
from sylvan.models.irli.bucket_network import BucketNetwork  # noqa: E402
from sylvan.models.irli.buckets import (  # noqa: E402
    Buckets,
    find_candidates,
    hash_partition,
)
from sylvan.models.irli.learning import LearnedPartitions, learn_partitions  # noqa: E402
from sylvan.models.irli.rounds import (  # noqa: E402
    InputScale,
    LearningSettings,
    Lesson,
    RecallJudge,
    candidate_recall,
    network_of,
)
from sylvan.models.irli.training import GroupTrainer  # noqa: E402
from sylvan.runtime import Runner  # noqa: E402


def clusters(n: int = 600, n_clusters: int = 30, dim: int = 12, seed: int = 0) -> tuple[np.ndarray, sp.csr_matrix]:
    """Inputs around centres; the labels of an input are the three labels of its cluster."""
    random = np.random.default_rng(seed)
    own = random.integers(0, n_clusters, n)
    X = random.standard_normal((n_clusters, dim))[own] + 0.2 * random.standard_normal((n, dim))
    labels = (own[:, None] * 3 + np.arange(3)).ravel()
    truths = sp.csr_matrix((np.ones(3 * n, np.float32), labels, np.arange(0, 3 * n + 1, 3)), shape=(n, 3 * n_clusters))
    return X.astype(np.float32), truths


def neighbours(
    n: int = 500, n_base: int = 2000, dim: int = 8, k: int = 20
) -> tuple[np.ndarray, sp.csr_matrix, np.ndarray]:
    """Inputs, the ``k`` nearest vectors of a base to each, and the base."""
    random = np.random.default_rng(5)
    centres = random.standard_normal((60, dim))
    base = centres[random.integers(0, 60, n_base)] + 0.4 * random.standard_normal((n_base, dim))
    X = base[random.permutation(n_base)[:n]] + 0.05 * random.standard_normal((n, dim))
    nearest = np.argsort(((X[:, None] - base[None]) ** 2).sum(axis=2), axis=1)[:, :k]
    truths = sp.csr_matrix((np.ones(n * k), nearest.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n_base))
    return X.astype(np.float32), truths, base.astype(np.float32)


LAYERS = ("first", "first_bias", "second", "second_bias")
SMALL: dict[str, Any] = {"n_buckets": 15, "n_repetitions": 4, "hidden": 32, "choices": 3, "batch_size": 32}


def learn(X: Any, truths: Any, **options: Any) -> LearnedPartitions:
    """With settings and other arguments by name."""
    own = {name: options.pop(name) for name in LearningSettings.constraints.keys() & options.keys()}
    options.setdefault("runner", Runner(options.pop("n_jobs", 1)))
    return learn_partitions(X, truths, LearningSettings(**{**SMALL, "final_epochs": 1, **own}), **options)


def trained(trainer: GroupTrainer) -> BucketNetwork:
    return network_of([trainer.state()], trainer.scale)


def bits(learned: LearnedPartitions) -> Any:
    return kit.bits.bits({**learned.buckets.arrays(), **learned.network.arrays()})


# ---------------------------------------- training


def reference(trainer: GroupTrainer, X: np.ndarray, targets: np.ndarray, steps: int) -> list[Any]:
    """The same training with PyTorch's own gradients, every batch all rows."""
    weights = [getattr(trainer, name).clone().requires_grad_() for name in LAYERS]
    first, first_bias, second, second_bias = weights
    adam = torch.optim.Adam(weights[1:] if trainer.sparse else weights, lr=trainer.settings.learning_rate)
    sums = torch.zeros(len(first), len(second))
    for _ in range(steps):
        values = torch.relu(torch.from_numpy(X) @ first + first_bias).view(len(X), len(second), -1).transpose(0, 1)
        logits = torch.baddbmm(second_bias.unsqueeze(1), values, second)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, torch.from_numpy(targets), reduction="sum")
        for weight in weights:
            weight.grad = None
        (loss / len(X)).backward()
        adam.step()
        if trainer.sparse:
            gradient = first.grad.view(len(first), len(second), -1)
            sums += gradient.square().mean(dim=2)
            move = gradient / (sums + 1e-10).sqrt().unsqueeze(2) * trainer.settings.row_learning_rate
            first.data -= move.view(first.shape)
    return [weight.detach().numpy() for weight in weights]


@pytest.mark.parametrize("sparse", [False, True])
def test_steps_are_those_of_pytorchs_gradients(sparse: bool) -> None:
    X, truths = clusters(60)
    X = np.where(np.abs(X) > 0.7, X, 0).astype(np.float32)
    features: Any = sp.csr_matrix(X) if sparse else X
    scale = InputScale.of(features)
    own = LearningSettings(7, hidden=6, learning_rate=0.01, batch_size=60, row_learning_rate=0.05)
    trainer = GroupTrainer(Lesson(features, truths, own, scale), range(2, 5))
    assignment = hash_partition(truths.shape[1], 7, 3)
    targets = np.zeros((3, 60, 7), np.float32)
    for r in range(3):
        for i, label in zip(*truths.nonzero(), strict=True):
            targets[r, i, assignment[r, label]] = 1
    scaled = (X if scale.mean is None else X - scale.mean) * np.float32(scale.factor)
    expected = reference(trainer, scaled, targets, steps=4)
    loss = trainer.train(assignment, 4)
    for name, weight in zip(LAYERS, expected, strict=True):
        np.testing.assert_allclose(getattr(trainer, name).numpy(), weight, rtol=2e-3, atol=2e-5, err_msg=name)
    assert 0 < loss < 7


@pytest.mark.parametrize("sparse", [False, True])
def test_the_trained_network_computes_what_was_trained(sparse: bool) -> None:
    """The scale of the inputs is folded into its first layer."""
    X, truths = clusters(80)
    X = np.abs(X) * 100
    features: Any = sp.csr_matrix(X) if sparse else X
    own = LearningSettings(7, hidden=6, learning_rate=0.01, batch_size=16)
    trainer = GroupTrainer(Lesson(features, truths, own, InputScale.of(features)), range(3))
    trainer.train(hash_partition(truths.shape[1], 7, 3), 2)
    inputs = (features if sparse else X - trainer.scale.mean) * np.float32(trainer.scale.factor)
    values = torch.relu(torch.from_numpy(np.asarray(inputs @ trainer.first.numpy())) + trainer.first_bias)
    hidden = values.view(80, 3, -1).transpose(0, 1)
    logits = torch.baddbmm(trainer.second_bias.unsqueeze(1), hidden, trainer.second).transpose(0, 1)
    np.testing.assert_allclose(all_logits(trained(trainer), features), logits.numpy(), rtol=1e-3, atol=1e-3)


def test_a_repetition_learns_the_same_in_any_group() -> None:
    X, truths = clusters(100)
    own = LearningSettings(7, hidden=8, learning_rate=0.01, batch_size=16, dropout=0.2, seed=3)
    assignment = hash_partition(truths.shape[1], 7, 4)
    together = GroupTrainer(Lesson(X, truths, own, InputScale.of(X)), range(4))
    alone = GroupTrainer(Lesson(X, truths, own, InputScale.of(X)), range(2, 3))
    together.train(assignment, 2)
    alone.train(assignment[2:3], 2)
    np.testing.assert_allclose(trained(alone).second[0], trained(together).second[2], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("sparse", [False, True])
def test_training_goes_on_from_a_state(sparse: bool) -> None:
    X, truths = clusters(100)
    features: Any = sp.csr_matrix(X) if sparse else X
    assignment, scale = hash_partition(truths.shape[1], 7, 2), InputScale.of(features)
    own = LearningSettings(7, hidden=8, learning_rate=0.01, batch_size=16, dropout=0.1)
    trainer = GroupTrainer(Lesson(features, truths, own, scale), range(2))
    trainer.train(assignment, 1)
    state = copy.deepcopy(trainer.state())
    trainer.train(assignment, 2)
    once = trained(trainer)
    trainer = GroupTrainer(Lesson(features, truths, own, scale), range(2), state)
    trainer.train(assignment, 2)
    again = trained(trainer)
    assert again.first.tobytes() == once.first.tobytes()
    assert again.second.tobytes() == once.second.tobytes()


# ---------------------------------------- learning in turns


def test_affinity_and_recall_rise_and_loads_are_even() -> None:
    X, truths, base = neighbours()
    learned = learn(X, truths, label_vectors=base, n_buckets=40, rounds=3, choices=8, judge=RecallJudge(X, truths))
    affinities = [found.affinity_after for found in learned.record.rounds]
    assert affinities == sorted(affinities)
    assert affinities[-1] > affinities[0] + 0.1
    for before, after in zip(learned.record.rounds, learned.record.rounds[1:], strict=False):
        assert after.affinity_before == before.affinity_after
        assert min(after.moved) > 0
    assert learned.record.rounds[0].moved == (0, 0, 0, 0)
    scores = [found.holdout["score"] for found in learned.record.rounds if found.holdout]
    assert scores[1] > scores[0] + 0.1
    assert learned.record.best == int(np.argmax(scores))
    assert max(learned.record.rounds[1].load_deviation) < 0.2 * 2000 / 40


def test_sorted_labels_are_found_as_well_as_shuffled_ones() -> None:
    """Placed in the order of their ids, sorted labels would be found much less often."""
    random = np.random.default_rng(1)
    near = np.sort(random.integers(50, size=2000))
    base = (random.normal(size=(50, 16))[near] + 0.5 * random.normal(size=(2000, 16))).astype(np.float32)
    X = (base[random.permutation(2000)[:500]] + 0.1 * random.normal(size=(500, 16))).astype(np.float32)
    nearest = np.argsort(((X[:, None] - base[None]) ** 2).sum(axis=2), axis=1)[:, :10]
    truths = sp.csr_matrix((np.ones(5000), nearest.ravel(), np.arange(0, 5001, 10)), shape=(500, 2000))
    scores = []
    for order in (np.arange(2000), random.permutation(2000)):
        judge = RecallJudge(X, truths[:, order])
        learned = learn(X, truths[:, order], label_vectors=base[order], n_buckets=40, rounds=2, choices=10, judge=judge)
        scores.append(learned.record.rounds[-1].holdout["score"])
    assert scores[0] > 0.9 * scores[1] > 0.4, scores


@pytest.mark.parametrize("sparse", [False, True])
def test_labels_of_one_cluster_come_together(sparse: bool) -> None:
    """Without label vectors: what has the same inputs has the same buckets of most affinity."""
    X, truths = clusters()
    features: Any = sp.csr_matrix(np.maximum(X, 0)) if sparse else X
    learned = learn(features, truths, rounds=3, learning_rate=0.003)

    def together(buckets: Buckets) -> float:
        own = buckets.assignment.reshape(4, -1, 3)
        return float(np.mean(own[:, :, 0] == own[:, :, 1]))

    hashed = Buckets.from_assignment(hash_partition(90, 15, 4, 0), 15)
    assert together(learned.buckets) > together(hashed) + 0.1
    found = RecallJudge(features, truths)(learned.buckets, learned.network)
    assert found["recall at 2"] > 0.8 * 2 / 3
    assert found["recall at 5"] > 0.8


def test_labels_without_inputs_stay_where_hashing_put_them() -> None:
    X, truths = clusters()
    wide = sp.csr_matrix((truths.data, truths.indices, truths.indptr), shape=(600, 100))
    learned = learn(X, wide, rounds=2)
    assert (learned.buckets.assignment[:, 90:] == hash_partition(100, 15, 4, 0)[:, 90:]).all()


def test_rounds_end_by_themselves_and_the_best_counts() -> None:
    X, truths = clusters()
    scores = iter([0.1, 0.5, 0.4, 0.9])
    networks = []

    def judge(buckets: Buckets, network: Any) -> dict[str, float]:
        networks.append((buckets, network))
        return {"score": next(scores)}

    learned = learn(X, truths, judge=judge, final_epochs=0)
    assert [found.number for found in learned.record.rounds] == [0, 1, 2]
    assert learned.record.best == 1
    assert learned.buckets.assignment.tobytes() == networks[1][0].assignment.tobytes()
    assert learned.network.first.tobytes() == networks[1][1].first.tobytes()


def test_without_a_judge_labels_move_once() -> None:
    X, truths = clusters(100)
    record = learn(X, truths).record
    assert [found.holdout for found in record.rounds] == [{}, {}]
    assert record.best == 1


@pytest.mark.parametrize("sparse", [False, True])
def test_the_same_bits_for_any_number_of_threads(sparse: bool) -> None:
    X, truths = clusters(100)
    features: Any = sp.csr_matrix(np.maximum(X, 0)) if sparse else X
    options = {"rounds": 1, "hidden": 200, "n_repetitions": 5, "dropout": 0.1, "epochs_per_round": 2}
    one = bits(learn(features, truths, n_jobs=1, **options))
    assert bits(learn(features, truths, n_jobs=3, **options)) == one
    assert bits(learn(features, truths, n_jobs=1, seed=1, **options)) != one


def test_threads_of_pytorch_are_left_as_they_were() -> None:
    before = torch.get_num_threads()
    learn(*clusters(50), rounds=0, epochs_per_round=1)
    assert torch.get_num_threads() == before


def test_an_error_ends_all_threads() -> None:
    X, truths = clusters(200)
    X[17] = np.nan  # nobody checks it here; the judge then stops everything

    def judge(buckets: Buckets, network: Any) -> dict[str, float]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn(X, truths, judge=judge, n_jobs=2)


def test_rows_without_labels_change_nothing() -> None:
    X, truths = clusters(100)
    more = sp.vstack([truths, sp.csr_matrix((5, truths.shape[1]))]).tocsr()
    with_them = learn(np.concatenate([X, np.ones((5, 12), np.float32)]), more, rounds=1)
    assert bits(with_them) == bits(learn(X, truths, rounds=1))


def test_what_does_not_fit_is_refused() -> None:
    X, truths = clusters(50)
    with raises(DataError, "row"):
        learn(X, sp.csr_matrix(truths.shape))
    for name, value in (("rounds", "some"), ("rounds", -1), ("choices", 0), ("learning_rate", 0.0), ("hidden", 1.5)):
        with raises(ParameterError, name):
            learn(X, truths, **{name: value})


def test_recall_by_hand() -> None:
    buckets = Buckets.from_assignment([[0, 0, 1, 1], [0, 1, 1, 0]], 2)
    chosen = np.array([[[0], [0]], [[1], [1]], [[1], [1]]], np.int32)
    found = find_candidates(buckets, chosen, np.ones((3, 2, 1), np.float32))
    truths = sp.csr_matrix([[1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]])
    assert candidate_recall(found, truths, [1, 2, 3]).tolist() == [[0.5, 1, 1], [0, 0, 1], [1, 1, 1]]
