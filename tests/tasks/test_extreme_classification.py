"""The extreme classification task: what it learns, its measures against loops, holdout parts, errors."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from kit.errors import raises

from sylvan.errors import DataError, ParameterError
from sylvan.neural import train
from sylvan.tasks import ExtremeClassification


def made_up(n: int = 300, n_classes: int = 25, seed: int = 0) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Two classes a row; each shows itself in one of its three features, among noise."""
    rng = np.random.default_rng(seed)
    labels = np.stack([rng.choice(n_classes, 2, replace=False) for _ in range(n)])
    own = labels * 3 + rng.integers(3, size=labels.shape)
    noise = 3 * n_classes + rng.integers(20, size=(n, 2))
    columns = np.concatenate([own, noise], axis=1)
    rows = np.repeat(np.arange(n), 4)
    X = sp.csr_matrix((np.ones(4 * n, np.float32), (rows, columns.ravel())), shape=(n, 3 * n_classes + 20))
    Y = sp.csr_matrix((np.ones(2 * n, np.float32), (np.repeat(np.arange(n), 2), labels.ravel())), shape=(n, n_classes))
    return X, Y


X, Y = made_up()
ENOUGH, THEIR_TEST = made_up(300, 10), made_up(80, 10, seed=1)  # rows to get more than nine in ten right
HOLDOUT = made_up(80, seed=1)


def job(rows: tuple[sp.csr_matrix, sp.csr_matrix] = (X, Y), **given: Any) -> ExtremeClassification:
    defaults = {"sampler": "uniform", "n_samples": 12, "batch_size": 32, "dim": 16, "optimizer": "adagrad"}
    return ExtremeClassification(*rows, **{**defaults, **given})


@pytest.mark.parametrize("given", [{"loss": "full"}, {"hidden": 24, "learning_rate": 0.01}], ids=str)
def test_it_learns_several_labels_a_row(given: dict[str, Any]) -> None:
    found = train(job(ENOUGH, test=THEIR_TEST, n_samples=6, table_learning_rate=0.4, **given), epochs=12)
    assert found.test["P@1"] > 0.9
    assert 0.5 < found.test["P@3"] <= 2 / 3 and 0.35 < found.test["P@5"] <= 0.4  # of 2 right ones among 3 and 5


def test_measures_agree_with_a_naive_reference() -> None:
    made = job(test=HOLDOUT)
    found = made.evaluate("test")
    with raises(ParameterError, "split", "'valid'"):
        made.evaluate("valid")
    with torch.no_grad():
        dense = torch.from_numpy(HOLDOUT[0].toarray())
        queries = (dense / dense.norm(dim=1, keepdim=True)) @ made.encoder_.features + made.encoder_.constant
        scores = (queries @ made.classes_.T).numpy()
    for k in (1, 3, 5):
        right = [
            len(set(np.argsort(-row)[:k]) & set(truth.indices)) for row, truth in zip(scores, HOLDOUT[1], strict=True)
        ]
        assert found[f"P@{k}"] == pytest.approx(np.sum(right) / (k * len(right)))
    np.testing.assert_array_equal(made.rank(HOLDOUT[0], 3).labels, np.argsort(-scores, axis=1)[:, :3])
    assert made.rank(HOLDOUT[0][:0], 3).labels.shape == (0, 3)


def test_validation_is_kept_apart_where_none_is_given() -> None:
    made = job(validation_share=0.2)
    held_X, held_Y = made._parts["validation"]
    assert held_X.shape[0] == 60 and made._X.shape[0] == 240
    assert made._parts["test"] is made._parts["validation"]
    everything = sp.vstack([made._Y, held_Y]).toarray()
    assert sorted(map(tuple, everything)) == sorted(map(tuple, Y.toarray()))
    assert job(validation=HOLDOUT)._X.shape[0] == 300


def test_rows_without_labels_are_skipped_and_labels_unknown_from_training_dropped() -> None:
    labels = sp.vstack([Y[:100], sp.csr_matrix((200, 25), dtype=np.float32)], format="csr")
    wide = sp.csr_matrix((np.ones(3, np.float32), ([0, 0, 1], [3, 30, 31])), shape=(80, 40))
    made = ExtremeClassification(
        X, labels, validation=(HOLDOUT[0], wide), sampler="uniform", n_samples=5, batch_size=32, dim=8
    )
    assert made._X.shape[0] == 100
    labels_of = made._parts["validation"][1]
    assert labels_of.shape == (1, 25) and labels_of.indices.tolist() == [3]
    with raises(DataError, "validation"):
        ExtremeClassification(X, labels, validation=(HOLDOUT[0][1:], wide[1:]), sampler="uniform", n_samples=5)


def test_class_ids_and_lists_of_labels() -> None:
    by_id = ExtremeClassification(X, Y.indices[::2], sampler="uniform", n_samples=5, dim=8)
    lists = [row.indices.tolist() for row in Y]
    by_list = ExtremeClassification(X, lists, sampler="uniform", n_samples=5, dim=8)
    assert by_id._Y.nnz == by_id._X.shape[0] and by_list._Y.nnz == 2 * by_list._X.shape[0]


def test_targets_are_padded_with_what_losses_ignore() -> None:
    labels = [[1], [2, 4, 7], [0, 3]]
    made = ExtremeClassification(
        X[:3], labels, validation=(X[:3], labels), sampler="uniform", n_samples=2, dim=4, batch_size=3
    )
    *_, targets = next(made.batches(0))
    assert sorted(tuple(row) for row in targets.tolist()) == [(0, 3, -100), (1, -100, -100), (2, 4, 7)]


def test_fewer_classes_than_cutoffs() -> None:
    made = ExtremeClassification(X[:40], np.arange(40) % 4, sampler="uniform", n_samples=2, dim=4)
    assert list(made.evaluate("validation")) == ["P@1", "P@3"]


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        ({"n_samples": 0}, ParameterError, ("n_samples", "ExtremeClassification")),
        ({"validation_share": 1.0}, ParameterError, ("validation_share", "1.0")),
        ({"test": (X[:, :5], Y)}, DataError, ("test", 5, 95)),
        ({"test": (X[:5], Y)}, DataError, (5, 300)),
    ],
)
def test_errors(given: dict[str, Any], error: Any, sentence: object) -> None:
    with raises(error, sentence):
        job(**given)
