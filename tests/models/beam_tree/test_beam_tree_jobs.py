"""BeamTreeClassifier's training as jobs: the runners that run them, checkpoints, and going on from one."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.bits import bits
from kit.errors import raises

from sylvan import BeamTreeClassifier
from sylvan.errors import ModelError, ParameterError
from sylvan.models.beam_tree import training
from sylvan.runtime import Checkpoint, Job, Runner, WithinMemory, checkpointed

y = np.arange(240) % 12
X = sp.csr_matrix(np.eye(12, dtype=np.float32)[y] + np.random.default_rng(0).normal(size=(240, 12)) / 20)
SPARSE = sp.random(240, 60, 0.1, format="csr", random_state=0, dtype=np.float32)


@pytest.fixture(autouse=True)
def all_passes() -> Iterator[None]:
    """Trainings of a known length: early stopping has tests of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "_best_pass", lambda marks: 6)
        yield


def make(**params: Any) -> BeamTreeClassifier:
    return BeamTreeClassifier(**{"branching": 3, "n_candidates": 3, "epochs": 6, "n_jobs": 1, **params})


class Recording(Runner):
    """Notes the jobs, and runs copies of them as another process would get them, twice."""

    def __init__(self, n_jobs: int = 1) -> None:
        super().__init__(n_jobs)
        self.names: list[str] = []

    def one(self, job: Job[Any]) -> Any:
        self.names.append(job.name)
        pickle.loads(pickle.dumps(job))()
        return pickle.loads(pickle.dumps(job))()

    def stream(self, jobs: Sequence[Job[Any]], deliver: Callable[[int, Any], None], description: Any = None) -> None:
        for number, job in enumerate(jobs):
            deliver(number, self.one(job))


@pytest.mark.parametrize("params", [{}, {"optimizer": "sgd", "noise": "unigram"}, {"loss": "softmax"}, {"loss": "hsm"}])
def test_any_runner_gives_the_same_bits(params: dict[str, Any]) -> None:
    runner = Recording(2)
    for rows in (X, SPARSE):
        assert bits(make(**params).fit(rows, y, runner=runner)) == bits(make(**params).fit(rows, y))
    trials = {
        "averaged_sgd": [f"first-averaged_sgd{number}" for number in range(3)],
        "adagrad": [f"first-adagrad{number}" for number in range(3)],
        "sgd": [f"first-sgd{number}" for number in range(5)],
    }
    optimizers = [params["optimizer"]] if "optimizer" in params else ["averaged_sgd", "adagrad"]
    expected = [name for optimizer in optimizers for name in trials[optimizer]]
    expected += [f"final-{optimizer}{number}" for optimizer in optimizers for number in range(2)]
    assert runner.names[: len(expected) + 2] == ["tree", *expected, "passes"]
    limited = WithinMemory(Runner(1), 1 << 32, 0, ".")
    assert bits(make(**params).fit(X, y, runner=limited)) == bits(make(**params).fit(X, y))


def test_a_given_rate_is_not_looked_for() -> None:
    runner = Recording()
    make(learning_rate=0.5).fit(X, y, runner=runner)
    assert runner.names == ["tree", "passes"]
    one = make().fit(X[:5], [0] * 5, runner=runner)
    assert runner.names[2:] == ["tree", "passes"] and one.history_.shape == (0, 2)


class Beside(Runner):
    """Runs all jobs of a list at once, as a cluster does."""

    elsewhere = True


def test_higher_rates_than_one_that_fails_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, ran = training._tried, []

    def failing(trials: Any, training: Any, n_passes: int, rows: Any) -> Any:
        ran.append(training.learning_rate)
        marks = tried(trials, training, n_passes, rows)
        if training.optimizer == "averaged_sgd" and n_passes == 1 and len(set(ran)) % 3 == 2:
            return np.full((1, 2), np.nan)  # of the second rate alone
        return marks

    monkeypatch.setattr(training, "_tried", failing)
    plain = make().fit(X, y)
    n_plain, ran[:] = len(ran), []
    assert bits(make().fit(X, y, runner=Beside())) == bits(plain)
    assert len(ran) == n_plain + 1, "the third rate of the optimiser whose second failed"


def stopped_at(monkeypatch: pytest.MonkeyPatch, number: int) -> list[int]:
    """Ctrl-C in so many passes of the next trainings; gives the steps of those that are begun."""
    begun: list[int] = []
    train_pass = training.train_pass

    def stopping(trainer: Any, rows: Any, in_order: bool) -> Any:
        begun.append(trainer.step)
        if len(begun) == number:
            trainer.run(rows[: len(rows) // 2])  # weights are in the middle of a pass
            raise KeyboardInterrupt
        return train_pass(trainer, rows, in_order)

    monkeypatch.setattr(training, "train_pass", stopping)
    return begun


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("params", [{}, {"optimizer": "sgd"}, {"loss": "softmax"}, {"class_weight": {3: 2.0}}])
def test_an_interrupted_training_goes_on(
    params: dict[str, Any], n_jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointed, "SECONDS", 0.0)
    for rows in (X, SPARSE):
        whole = make(**params).fit(rows, y)
        begun = stopped_at(monkeypatch, 4)
        with pytest.raises(KeyboardInterrupt):
            make(**params).fit(rows, y, checkpoint=tmp_path / "work")
        assert (tmp_path / "work" / "passes").is_dir()
        begun.clear()
        monkeypatch.setattr(training, "_tried", None)  # rates aren't tried again
        again = make(**{**params, "n_jobs": n_jobs}).fit(rows, y, checkpoint=tmp_path / "work")
        assert begun == [3 * 240, 4 * 240, 5 * 240] and bits(again) == bits(whole)
        assert not (tmp_path / "work").exists()
        monkeypatch.undo()
        monkeypatch.setattr(checkpointed, "SECONDS", 0.0)


def test_what_is_damaged_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointed, "SECONDS", 0.0)
    whole, checkpoint = make().fit(X, y), Checkpoint(tmp_path / "work")
    begun = stopped_at(monkeypatch, 4)
    with pytest.raises(KeyboardInterrupt):
        make().fit(X, y, checkpoint=checkpoint)
    for file in (tmp_path / "work" / "passes").rglob("*.npy"):
        file.write_bytes(file.read_bytes()[:-4] + b"oops")
    assert bits(make().fit(X, y, checkpoint=checkpoint)) == bits(whole)
    assert begun[4:] == [240 * epoch for epoch in range(6)]
    assert checkpoint.exists(), "one that was given as such is left to its owner"


def test_a_checkpoint_is_of_one_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointed, "SECONDS", 0.0)
    stopped_at(monkeypatch, 3)
    with pytest.raises(KeyboardInterrupt):
        make(class_weight={1: 2.0}).fit(X, y, checkpoint=tmp_path / "work")
    for model, rows, ids, difference in (
        (make(class_weight={1: 2.0}, seed=1), X, y, ("seed", 0, 1)),
        (make(class_weight={1: 3.0}), X, y, "training"),
        (make(class_weight={1: 2.0}), SPARSE, y, "X"),
        (make(class_weight={1: 2.0}), X, (y + 1) % 12, "y"),
    ):
        with raises(ModelError, difference):
            model.fit(rows, ids, checkpoint=tmp_path / "work")
    with raises(ParameterError, "runner"):
        make().fit(X, y, checkpoint=tmp_path / "work", runner=Runner())
