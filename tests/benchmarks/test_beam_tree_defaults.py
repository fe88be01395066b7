"""The benchmark of Beam Tree's defaults: its splits, its tuning, and its table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.beam_tree import defaults, short_texts
from benchmarks.beam_tree.defaults_table import defaults_section


def run(contender: str, accuracy: float, seed: int = 0, **more: Any) -> dict[str, Any]:
    about = {"set": "tenders", "step": "train", "rows": 900, "n_features": 40, "n_classes": 7, "dense": False}
    return {**about, "contender": contender, "seed": seed, "accuracy": accuracy, "cpu_s": 1.25, **more}


def test_the_table_says_how_far_the_default_is_from_the_softmax(tmp_path: Path) -> None:
    assert defaults_section(tmp_path) == []
    runs = [
        run("softmax", 60.0), run("softmax", 62.0, 1), run("BeamTreeClassifier", 59.8, passes=4, optimizer="adagrad"),
        run("BeamTreeClassifier", 61.6, 1, passes=6, optimizer="averaged_sgd"), run("BeamTreeClassifier", 10.0, 2),
        {"set": "tenders", "contender": "softmax", "seed": 0, "step": "tune", "settings": {}},
    ]  # fmt: skip
    book = {"date": "2026-01-01", "machine": {"cpu": "x", "cores": 1, "system": "y", "machine": "z"}, "runs": runs}
    (tmp_path / "beam_tree_defaults.json").write_text(json.dumps(book))
    text = "\n".join(defaults_section(tmp_path))
    assert "tenders: 900 rows of 40 features, sparse, 7 classes." in text
    assert "| softmax over all classes, tuned | 2 | 61.00 ± 1.41 | 1.2 ± 0.0 | – | – | – |" in text
    assert "| adagrad, averaged_sgd | 5 | – |" in text
    assert "beside the tuned softmax: -0.30 points; wanted at least -0.5: reached." in text, "of the splits of both"


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
