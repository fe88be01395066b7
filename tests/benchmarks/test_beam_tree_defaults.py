"""The benchmark of Beam Tree's defaults: its splits, its tuning, and its table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.beam_tree import defaults, short_texts


def test_splits_are_of_all_rows_and_another_for_each_seed(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", np.arange(200, dtype=np.float32)[:, None])
    np.save(tmp_path / "y.npy", np.arange(200, dtype=np.int32))
    parts = [short_texts.load(tmp_path, seed) for seed in (0, 0, 1)]
    for X, y, X_test, y_test in parts:
        assert len(y_test) == 30 and sorted([*y, *y_test]) == list(range(200))
        assert X.ravel().tolist() == y.tolist() and X_test.ravel().tolist() == y_test.tolist()
    assert parts[0][3].tolist() == parts[1][3].tolist() != parts[2][3].tolist()


def test_tuning_takes_what_ranks_the_tenth_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defaults, "EPOCHS", 2)
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=200)
    X = (np.eye(3)[y] + rng.normal(size=(200, 3)) / 3).astype(np.float32)
    marks = iter([10.0, 20.0, 50.0, 40.0, *[30.0] * 20])
    monkeypatch.setattr(defaults, "right", lambda model, X, y: next(marks))
    best = defaults.tune({"contender": "softmax", "seed": 0}, X, y)
    assert (best["optimizer"], best["epochs"], best["right"]) == ("averaged_sgd", 1, 50.0)
    assert best["rate"] == pytest.approx(3 / (float(np.square(X).sum()) / 200 + 1), rel=1e-5)


def test_rows_of_the_table() -> None:
    rows = list(defaults.planned((0, 1)))
    assert len(rows) == 2 * len(defaults.SETS) * len(defaults.CONTENDERS)
    assert all(row["step"] == "train" for row in rows), "which tells them from tunings"
