"""IRLIClassifier: what is learned, saved and asked of it beyond the contract."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from child_processes import python
from kit.errors import raises
from kit.watching import stopped
from word_topics import N_LABELS, SMALL, all_logits, topics

pytest.importorskip("torch")

import sylvan
from sylvan import IRLIClassifier, IRLIIndex, metrics
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.models.irli.bucket_network import BucketNetwork
from sylvan.models.irli.fitted import FLOOR
from sylvan.runtime import checkpointed
from sylvan.runtime.checkpoint import Checkpoint

CHOOSING = {**SMALL, "choices": 4}


@pytest.fixture(scope="module")
def model() -> IRLIClassifier:
    return IRLIClassifier(**CHOOSING).fit(*topics())


def test_unseen_rows_are_ranked_right(model: IRLIClassifier) -> None:
    X, Y = topics(300, seed=1)
    assert metrics.precision(Y, model.rank(X, k=2), at=(1, 2))[2] > 0.9


def test_dense_features_are_learned_as_well() -> None:
    random = np.random.default_rng(0)
    centres = random.standard_normal((N_LABELS, 12))
    own = random.integers(0, N_LABELS, 900)
    X = 50 + 10 * (centres[own] + 0.3 * random.standard_normal((900, 12)))  # neither around 0 nor of length 1
    model = IRLIClassifier(**CHOOSING).fit(X[:700], own[:700])
    assert np.mean(model.rank(X[700:], k=1).labels[:, 0] == own[700:]) > 0.9
    assert model.to_state().meta["dense"]


def test_sparse_first_layers_are_saved_in_four_bits(model: IRLIClassifier, tmp_path: Path) -> None:
    network = model.network_
    assert network.scales is not None
    model.save(tmp_path / "model")
    again = sylvan.load(tmp_path / "model")
    np.testing.assert_array_equal(again.network_.first, network.first)
    size = sum(file.stat().st_size for file in (tmp_path / "model").glob("**/*.npy"))
    assert size < network.first.nbytes / 4 + 4 * sum(part.size for part in (network.second, model.buckets_.assignment))
    X, Y = topics(300, seed=1)
    wanted = metrics.precision(Y, model.rank(X, k=2), at=(1, 2))
    plain = IRLIClassifier(**CHOOSING)
    whole = BucketNetwork(network.first, network.first_bias, network.second, network.second_bias)
    plain.__dict__.update(model.__dict__, network_=whole)
    assert metrics.precision(Y, plain.rank(X, k=2), at=(1, 2)) == wanted


def test_the_round_is_chosen_by_rows_holdout(model: IRLIClassifier) -> None:
    report = model.report(topics()[0][:50])
    scores = [one.holdout["score"] for one in report.rounds]
    assert report.best_round == int(np.argmax(scores))
    assert set(report.rounds[0].holdout) == {"score", "P@1", "P@3", "P@5"}
    assert report.n_labels == N_LABELS
    assert (report.candidates == N_LABELS).all()  # 50 probes are all of 12 buckets
    assert "best" in report.text()
    few = IRLIClassifier(**CHOOSING).fit(*(part[:150] for part in topics()))
    assert not few.report().rounds[0].holdout
    none = IRLIClassifier(**{**CHOOSING, "rounds": 0}).fit(*topics())
    assert len(none.report().rounds) == 1


def slow_scores(model: IRLIClassifier, X: Any, probes: int, order: str) -> np.ndarray:
    """The score of every label by the definition of each order; -1 where it isn't found."""
    network, assignment = model.network_, model.buckets_.assignment
    probabilities = 1 / (1 + np.exp(-all_logits(network, X).astype(np.float64)))
    n, R, _ = probabilities.shape
    found = np.zeros((n, N_LABELS))
    votes = np.zeros((n, N_LABELS))
    for i in range(n):
        for r in range(R):
            chosen = set(np.argsort(-probabilities[i, r], kind="stable")[:probes].tolist())
            for label in range(N_LABELS):
                bucket = assignment[r, label]
                p = probabilities[i, r, bucket]
                if bucket in chosen:
                    votes[i, label] += 1
                    found[i, label] += np.log(max(p, FLOOR) / FLOOR) if order == "likelihood" else p
    scores = {"likelihood": FLOOR * np.exp(found / R), "probability": found / R, "votes": (votes + found / R) / (R + 1)}
    return np.where(votes > 0, scores[order], -1)


@pytest.mark.parametrize("order", ["likelihood", "probability", "votes"])
@pytest.mark.parametrize("probes", [1, 3, 50])
def test_orders_are_what_they_are_said_to_be(model: IRLIClassifier, order: str, probes: int) -> None:
    X = topics(20, seed=2)[0]
    top = model.rank(X, k=N_LABELS, order=order, probes=probes)
    scores = slow_scores(model, X, probes, order)
    for row in range(20):
        labels = top.labels[row][top.labels[row] >= 0]
        assert sorted(labels.tolist()) == np.flatnonzero(scores[row] >= 0).tolist()
        np.testing.assert_allclose(top.scores[row][: len(labels)], scores[row][labels], rtol=1e-4, atol=1e-6)
        assert (np.diff(top.scores[row][: len(labels)]) <= 0).all()
    probabilities = model.predict_proba(X, order=order, probes=probes)
    assert probabilities.data.max() <= 1


def test_labels_with_fewer_votes_are_filtered(model: IRLIClassifier) -> None:
    X = topics(50, seed=4)[0]
    counts = [(model.rank(X, k=N_LABELS, probes=3, min_votes=votes).labels >= 0).sum() for votes in (1, 2, 4, 6)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]


def test_fewer_labels_than_buckets() -> None:
    X, Y = topics(100)
    model = IRLIClassifier(**{**CHOOSING, "n_buckets": 100}).fit(X, Y[:, :3])
    assert model.buckets_.n_buckets == 100
    assert (np.sort(model.rank(X[:5], k=3).labels, axis=1) == [0, 1, 2]).all()


@pytest.mark.parametrize(("n_labels", "expected"), [(1, 16), (40, 32), (4108, 512), (39_411, 1024), (10**6, 8192)])
def test_the_number_of_buckets_is_chosen_by_that_of_labels(n_labels: int, expected: int) -> None:
    from sylvan.models.irli.classifier import buckets_for

    assert buckets_for(n_labels) == expected


def test_rows_weigh_what_they_are_said_to() -> None:
    X = np.repeat(np.eye(4, dtype=np.float32)[:1], 200, axis=0)
    Y = np.arange(200) % 2  # the same input has two labels, half the rows each
    for heavy in (0, 1):
        weight = np.where(heavy == Y, 20.0, 1.0)
        model = IRLIClassifier(**{**CHOOSING, "rounds": 1}).fit(X, Y, sample_weight=weight)
        assert model.rank(X[:1], k=1).labels[0, 0] == heavy


def test_what_rank_refuses(model: IRLIClassifier) -> None:
    X = topics(2)[0]
    for options in ({"probes": 0}, {"min_votes": -1}, {"min_votes": 7}, {"order": "score"}):
        with raises(ParameterError, next(iter(options))):
            model.rank(X, k=1, **options)
    with raises(ParameterError, "min_votes", "[1, 6]", 7):
        IRLIClassifier(**CHOOSING, min_votes=7).fit(np.eye(2), [[0], [1]])
    with raises(DataError, "weight"):
        IRLIClassifier(**CHOOSING).fit(np.eye(2), [[0], []], sample_weight=[0, 1])


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import numpy as np, sylvan
model, index = (sylvan.load(path) for path in sys.argv[1:3])
X = np.load(sys.argv[3])
print(model.rank(X, k=2).labels.tolist())
index.tune(X); index.add(X); index.remove([1]); index.report().text()
print(index.search(X, 2)[0].shape)
print(sylvan.IRLIIndex().fit(np.eye(12)).search(np.eye(12), 1)[0].ravel().tolist())
for learning, given in ((model, [[0, 1]] * len(X)), (index, None)):
    try:
        learning.fit(X, given)
    except ImportError as error:
        print(error)
"""


def test_only_learning_needs_torch(model: IRLIClassifier, tmp_path: Path) -> None:
    X = topics(20, seed=6)[0].toarray()
    model.save(tmp_path / "model")
    IRLIIndex("learned", n_buckets=4, n_repetitions=2, hidden=8, rounds=0, n_jobs=1).fit(X).save(tmp_path / "index")
    np.save(tmp_path / "X.npy", X)
    done = python("-c", WITHOUT_TORCH, tmp_path / "model", tmp_path / "index", tmp_path / "X.npy")
    labels, shape, centers, *errors = done.stdout.splitlines() or ("", "", done.stderr)
    assert (labels, shape) == (str(model.rank(X, k=2).labels.tolist()), "(20, 2)")
    assert centers == str(list(range(12))), "an index around centres learns nothing"
    assert len(errors) == 2 and all("needs PyTorch" in error and "sylvan[neural]" in error for error in errors)


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How one goes on is in tests/runtime and test_irli_resuming.py."""
    X, Y = topics(100)
    small = {**CHOOSING, "rounds": 1, "epochs_per_round": 1, "final_epochs": 1}
    monkeypatch.setattr(checkpointed, "SECONDS", 0.0)  # each result is stored as soon as it is there
    with stopped(Checkpoint, "write", 3):
        IRLIClassifier(**small, n_jobs=1).fit(X, Y, checkpoint=tmp_path / "work")
    with raises(ModelError, "hidden"):
        IRLIClassifier(**{**small, "hidden": 8}).fit(X, Y, checkpoint=tmp_path / "work")
    with raises(ParameterError, "path", 3):
        IRLIClassifier(**small).fit(X, Y, checkpoint=3)
