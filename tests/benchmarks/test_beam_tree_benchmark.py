"""What benchmarks.beam_tree plans, prepares, tunes, and makes of finished rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.beam_tree import defaults, plan, sets, short_texts


def tuned(contender: str, optimizer: str, marks: dict[float, list[float]], **more: Any) -> dict[str, Any]:
    """A finished row of tuning on clinc150: for each rate, what was right after half an epoch and at last."""
    points = [{"rate": rate, "marks": [[0.5, half], [1.0, 0.0], [5.0, last]]} for rate, (half, last) in marks.items()]
    return {"set": "clinc150", "contender": contender, "optimizer": optimizer, "epochs": 5, "seed": 0,
            "points": points, **more}  # fmt: skip


def test_rates_are_chosen_by_the_rule_and_the_lower_of_equals() -> None:
    marks = {0.1: [50.0, 91.0], 0.3: [60.0, 90.0], 1.0: [60.0, 80.0]}
    book = [tuned("CANE-9v1", "adagrad", marks)]
    assert plan.chosen(book, "clinc150", "CANE-9v1", "adagrad", "half", rows=None) == {"rate": 0.3}
    assert plan.chosen(book, "clinc150", "CANE-9v1", "adagrad", "long", rows=None) == {"rate": 0.1}
    assert plan.chosen(book, "clinc150", "CANE-9v1", "sgd", "half", rows=None) is None
    assert plan.chosen(book, "clinc150", "CANE-9v1", "adagrad", "half", rows=100) is None


def test_a_rate_that_was_refused_is_not_chosen() -> None:
    book = [tuned("softmax", "sgd", {1.0: [70.0, 80.0], 30.0: [75.0, 0.0]})]
    book[0]["points"][1]["error"] = "out of bounds"
    assert plan.chosen(book, "clinc150", "softmax", "sgd", "half", rows=None) == {"rate": 1.0}


def test_trainings_wait_for_their_rate() -> None:
    assert plan.planned("accuracy", [], seeds=[0]) == []
    book = [tuned("HSM", "adagrad", {0.1: [50.0, 91.0], 0.3: [60.0, 90.0]})]
    rows = [row for row in plan.planned("accuracy", book, seeds=[0, 1]) if row["contender"] == "HSM"]
    assert [(row["rate"], row["seed"]) for row in rows] == [(0.3, 0), (0.3, 1), (0.1, 0)]


def test_every_row_of_tuning_and_speed_is_planned_once() -> None:
    for part in ("tuning", "speed"):
        rows = plan.planned(part, [], seeds=[0])
        assert rows
        assert all(sum(plan.same(row, other) for other in rows) == 1 for row in rows)
        assert all(plan.describe(row) for row in rows)


def test_a_prepared_set_has_the_training_rows_classes_and_unit_length(tmp_path: Path) -> None:
    X = sp.csr_matrix(np.array([[2.0, 0.0], [0.0, 4.0], [2.0, 0.0], [4.0, 0.0]], np.float32))
    sets._write(tmp_path, "some", X, np.array(["b", "a", "b", "a"]), X, np.array(["z", "a", "0", "b"]))
    found = sets.load(tmp_path)
    assert found.n_classes == 2 and found.skipped == 2
    assert found.y.tolist() == [1, 0, 1, 0] and found.y_test.tolist() == [0, 1]
    assert found.X.power(2).sum() == pytest.approx(4.0)
    part = sets.split(found, share=0.25)
    assert part.X.shape == (3, 2) and part.X_test.shape == (1, 2) and part.n_classes == 2


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
