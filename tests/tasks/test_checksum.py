"""Checksums tell sets of the same size apart, and a training doesn't go on with another set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.errors import raises
from tasks.small_jobs import recommender, sequences

from sylvan.errors import ModelError
from sylvan.neural import train
from sylvan.runtime.checkpoint import checksum
from sylvan.tasks import ExtremeClassification, SequentialRecommendation
from sylvan.tasks.extreme_classification import checksum_of_matrices


def matrices(seed: int = 0, n: int = 60) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """A feature and a label a row."""
    classes = np.random.default_rng(seed).permutation(np.arange(n) % 10)
    one = np.ones(n, np.float32)
    return tuple(sp.csr_matrix((one, (np.arange(n), classes)), shape=(n, 10)) for _ in range(2))  # type: ignore[return-value]


def classifier(part: str = "", seed: int = 0) -> ExtremeClassification:
    """Of one set, but for the part that is of another seed."""
    sets = {
        name: matrices(i + (50 if name == part else 0)) for i, name in enumerate(("training", "validation", "test"))
    }
    given: dict[str, Any] = {"sampler": "uniform", "n_samples": 3, "dim": 4, "batch_size": 16, "seed": seed}
    return ExtremeClassification(*sets["training"], validation=sets["validation"], test=sets["test"], **given)


@pytest.mark.parametrize("part", ["training", "validation", "test"])
def test_a_classifier_does_not_go_on_with_other_data(part: str, tmp_path: Any) -> None:
    train(classifier(), epochs=1, folder=tmp_path)
    assert len(train(classifier(), epochs=2, folder=tmp_path, resume=True).epochs) == 2
    with raises(ModelError, "data_checksum"):
        train(classifier(part), epochs=3, folder=tmp_path, resume=True)


def of_shift(shift: int) -> SequentialRecommendation:
    return recommender(shift, sampler="uniform", n_samples=3, dim=4, hidden=4, batch_size=8, max_length=4)


def test_a_recommender_does_not_go_on_with_other_data(tmp_path: Any) -> None:
    assert sequences(1).describe() == sequences(3).describe()
    train(of_shift(1), epochs=1, folder=tmp_path)
    assert len(train(of_shift(1), epochs=2, folder=tmp_path, resume=True).epochs) == 2
    with raises(ModelError, "data_checksum"):
        train(of_shift(3), epochs=3, folder=tmp_path, resume=True)


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
