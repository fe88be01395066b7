"""The training loop: early stopping, limits, and resuming to the same bits (when it was killed: test_processes.py)."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from jobs import BATCH, PER_EPOCH, N, Points, last_bits, weights
from kit.bits import bits
from kit.errors import raises

from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.neural import Engine, load_tree, train
from sylvan.neural.loop import training
from sylvan.neural.loop.checkpoint import TrainingFolder
from sylvan.neural.loop.engine import AsItIs


def is_finite(job: Points) -> bool:
    return all(bool(torch.isfinite(tensor).all()) for tensor in job.module.state_dict().values())


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What three epochs without a stop come to."""
    folder = tmp_path_factory.mktemp("whole")
    train(Points(), epochs=3, folder=folder)
    return last_bits(folder)


def test_it_learns_and_keeps_the_best(tmp_path: Path) -> None:
    job = Points()
    history = train(job, epochs=12, folder=tmp_path / "run", clip_norm=5.0)
    assert history.stopped == "epochs" and len(history.epochs) == 12
    assert history.best is not None and history.best["accuracy"] > 0.5
    assert history.best["accuracy"] == max(entry["accuracy"] for entry in history.epochs)
    assert history.test["accuracy"] == history.best["accuracy"]  # both splits are the same points
    assert [entry["step"] for entry in history.epochs] == [PER_EPOCH * e for e in range(1, 13)]
    written = json.loads((tmp_path / "run" / "results.json").read_text())
    assert written["epochs"] == history.epochs and written["versions"]["torch"] == torch.__version__
    assert written["settings"] == {"points": N} and written["training"]["clip_norm"] == 5.0


def test_the_same_seed_gives_the_same_bits_and_another_others() -> None:
    runs = []
    for seed in (0, 0, 1):
        job = Points()
        train(job, epochs=2, seed=seed)
        runs.append(weights(job))
    assert runs[0] == runs[1] != runs[2]


def test_patience_counts_evaluations_without_a_better_one() -> None:
    job = Points(metrics=[0.1, 0.5, 0.4, 0.5, 0.6, 0.2])
    history = train(job, epochs=6, patience=2)
    assert history.stopped == "patience" and len(history.epochs) == 4
    assert history.best is not None and history.best["epoch"] == 2


class Beginning(Points):
    """Measured before the first step, and the later of equal models taken."""

    measures_start = later_of_equals = True


def test_the_later_of_equal_models_is_taken_and_patience_goes_on_waiting() -> None:
    given = [0.3, 0.5, 0.4, 0.5, 0.2, 0.6]
    first, later = Points(metrics=[*given]), Points(metrics=[*given])
    later.later_of_equals = True
    histories = [train(job, epochs=6, patience=3) for job in (first, later)]
    assert [(h.stopped, len(h.epochs)) for h in histories] == [("patience", 5)] * 2
    assert [h.best is not None and h.best["epoch"] for h in histories] == [2, 4]
    four = Points()
    train(four, epochs=4, max_steps=4 * PER_EPOCH, evaluate_every=10**6)
    assert weights(later) == weights(four) != weights(first)


def test_a_model_that_only_gets_worse_is_the_one_that_training_began_with(tmp_path: Path) -> None:
    job = Beginning(metrics=[0.5, 0.4, 0.3])
    history = train(job, epochs=9, patience=2, folder=tmp_path / "run")
    assert history.stopped == "patience" and [entry["step"] for entry in history.epochs] == [0, 12, 24]
    assert history.best is not None and (history.best["epoch"], history.best["step"]) == (0, 0)
    assert weights(job) == weights(Points()) and history.epochs[0]["loss"] != history.epochs[0]["loss"]
    again = Beginning(metrics=[])
    assert train(again, epochs=9, patience=2, folder=tmp_path / "run", resume=True).stopped == "patience"
    assert weights(again) == weights(Points()) and again.evaluated == ["test"]


def test_measuring_the_beginning_changes_no_bit_of_what_follows(tmp_path: Path) -> None:
    train(Points(), epochs=2, folder=tmp_path / "plain")
    train(Beginning(), epochs=2, folder=tmp_path / "measured")
    assert last_bits(tmp_path / "plain") == last_bits(tmp_path / "measured")


def test_the_best_model_is_what_is_left_in_the_module() -> None:
    short, long = Points(metrics=[0.1, 0.5]), Points(metrics=[0.1, 0.5, 0.4, 0.3])
    train(short, epochs=2)
    train(long, epochs=4)
    assert weights(short) == weights(long)


def test_a_measure_that_is_no_number_is_never_the_best() -> None:
    history = train(Points(metrics=[float("nan"), 0.2, float("nan")]), epochs=3)
    assert history.best is not None and history.best["epoch"] == 2


def test_a_loss_that_is_no_number_ends_the_training(tmp_path: Path) -> None:
    job = Points()
    step = job.step
    job.step = lambda batch, at: step(batch, at) * (float("nan") if at >= PER_EPOCH else 1.0)  # type: ignore[method-assign]
    history = train(job, epochs=5, folder=tmp_path / "run")
    assert history.stopped == "diverged" and len(history.epochs) == 2
    assert history.best is not None and history.best["epoch"] == 1
    assert is_finite(job)


def spoilt_from(at: int, metrics: list[float] | None = None) -> Points:
    """The loss is no number from a step on."""
    job = Points(metrics=metrics)
    step = job.step
    job.step = lambda batch, now: step(batch, now) * (float("inf") if now >= at else 1.0)  # type: ignore[method-assign]
    return job


def test_divergence_is_seen_long_before_an_epoch_ends() -> None:
    job = spoilt_from(13)
    job.batches = lambda epoch: (torch.arange(BATCH) for _ in range(1000))  # type: ignore[method-assign]
    job.steps_per_epoch = lambda: 1000  # type: ignore[method-assign]
    history = train(job, epochs=3, evaluate_every=900)
    assert history.stopped == "diverged" and len(job.steps) == 50
    assert [entry["step"] for entry in history.epochs] == [50] and history.best is None


def test_nothing_good_is_overwritten_by_what_diverged(tmp_path: Path) -> None:
    """A checkpoint after each step, and a measure that likes what is no model any more."""
    train(Points(), epochs=3, max_steps=PER_EPOCH + 4, folder=tmp_path / "good", checkpoint_every=0)
    job = spoilt_from(PER_EPOCH + 4, metrics=[0.2, 0.9])
    history = train(job, epochs=3, folder=tmp_path / "run", checkpoint_every=0)
    assert history.stopped == "diverged" and [entry["step"] for entry in history.epochs] == [PER_EPOCH, PER_EPOCH + 5]
    assert history.best is not None and history.best["accuracy"] == 0.2 and history.test["accuracy"] > 0.2
    assert last_bits(tmp_path / "good") == last_bits(tmp_path / "run")
    first = Points()
    train(first, epochs=1)
    assert weights(first) == weights(job)
    again = Points()
    train(again, epochs=3, folder=tmp_path / "run", resume=True)
    assert again.steps[0] == PER_EPOCH + 4


def test_weights_that_are_no_numbers_are_never_the_best() -> None:
    job = Points(metrics=[0.2, 0.9])
    job.module.out.weight.register_hook(
        lambda grad: grad * float("nan") if job.steps[-1] == 2 * PER_EPOCH - 1 else grad
    )
    history = train(job, epochs=2)
    assert history.stopped == "diverged" and history.best is not None and history.best["accuracy"] == 0.2
    assert history.epochs[-1]["loss"] < 10 and is_finite(job)


def test_evaluations_within_epochs() -> None:
    history = train(Points(), epochs=2, evaluate_every=5)
    assert [entry["step"] for entry in history.epochs] == [5, 10, 15, 20, 24]


@pytest.mark.parametrize("stop", [1, PER_EPOCH - 1, PER_EPOCH, PER_EPOCH + 5, 3 * PER_EPOCH])
def test_stopped_by_steps_it_resumes_to_the_same_bits(stop: int, uninterrupted: Any, tmp_path: Path) -> None:
    first = train(Points(), epochs=3, folder=tmp_path, max_steps=stop)
    assert first.stopped == ("epochs" if stop == 3 * PER_EPOCH else "steps") and first.epochs[-1]["step"] == stop
    again = Points()
    history = train(again, epochs=3, folder=tmp_path, resume=True)
    assert again.steps == list(range(stop, 3 * PER_EPOCH))
    assert last_bits(tmp_path) == uninterrupted
    assert history.epochs[-1]["step"] == 3 * PER_EPOCH and history.seconds >= first.seconds


@pytest.mark.parametrize(("stop", "before", "after"), [
    (PER_EPOCH + 5, [0.5, 0.9], [0.6, 0.55]), (PER_EPOCH + 5, [0.6, 0.9], [0.5, 0.4]), (5, [0.9], [0.5, 0.6, 0.55]),
])  # fmt: skip
def test_what_is_measured_because_of_a_stop_leaves_no_trace(
    stop: int, before: list[float], after: list[float], tmp_path: Path
) -> None:
    limits: dict[str, Any] = {"epochs": 3, "patience": 2}
    whole = train(Points(metrics=[*before[:-1], *after]), folder=tmp_path / "whole", **limits)
    stopped = train(Points(metrics=before), folder=tmp_path / "parts", max_steps=stop, **limits)
    again = train(Points(metrics=[0.9]), folder=tmp_path / "parts", max_steps=stop, resume=True, **limits)
    assert stopped.best is not None and again.best is not None and stopped.best["step"] == again.best["step"] == stop
    assert stopped.test == again.test
    resumed = train(Points(metrics=after), folder=tmp_path / "parts", resume=True, **limits)
    for history in (whole, resumed):
        for entry in history.epochs:
            del entry["seconds"]
    assert (resumed.epochs, resumed.test, resumed.stopped) == (whole.epochs, whole.test, whole.stopped)
    best = [load_tree(tmp_path / name / "best", kind="neural-model") for name in ("whole", "parts")]
    assert bits(best[0]) == bits(best[1])


@pytest.mark.parametrize("fail_at", [3, PER_EPOCH + 2])
def test_interrupted_it_goes_on_from_the_last_checkpoint(fail_at: int, uninterrupted: Any, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(Points(fail_at=fail_at), epochs=3, folder=tmp_path, checkpoint_every=0)
    again = Points()
    train(again, epochs=3, folder=tmp_path, resume=True)
    assert again.steps[0] == fail_at
    assert last_bits(tmp_path) == uninterrupted


def test_a_time_limit(tmp_path: Path) -> None:
    history = train(Points(), epochs=10**6, folder=tmp_path / "run", time_limit=0.2)
    assert history.stopped == "time" and history.seconds >= 0.2
    assert history.best is not None and history.test


def test_a_finished_training_resumed_is_finished(tmp_path: Path) -> None:
    before = train(Points(), epochs=2, folder=tmp_path / "run")
    job = Points()
    after = train(job, epochs=2, folder=tmp_path / "run", resume=True)
    assert job.steps == [] and after.epochs == before.epochs and after.test == before.test
    longer = train(Points(), epochs=3, folder=tmp_path / "run", resume=True)
    assert len(longer.epochs) == 3


def test_without_resume_it_begins_anew(tmp_path: Path) -> None:
    train(Points(), epochs=2, folder=tmp_path / "run")
    job = Points()
    train(job, epochs=1, folder=tmp_path / "run")
    assert job.steps[0] == 0


def test_another_training_is_refused(tmp_path: Path) -> None:
    train(Points(), epochs=1, folder=tmp_path / "run")
    other: Any = Points()
    other.settings = lambda: {"points": 5}
    with raises(ModelError, "points", 120, 5):
        train(other, epochs=2, folder=tmp_path / "run", resume=True)
    with raises(ModelError, "seed", 0, 3):
        train(Points(), epochs=2, folder=tmp_path / "run", resume=True, seed=3)
    with raises(ModelError, "clip_norm", None, 0.5):
        train(Points(), epochs=2, folder=tmp_path / "run", resume=True, clip_norm=0.5)


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    train(Points(), epochs=1, folder=tmp_path / "run")
    some = max((tmp_path / "run" / "checkpoint").glob("*.npy"), key=lambda path: path.stat().st_size)
    some.write_bytes(some.read_bytes()[:-1] + b"\x7f")
    with raises(ModelError, "checksum"):
        train(Points(), epochs=2, folder=tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("given", "piece"),
    [
        ({"epochs": 0}, ("epochs", "[1, inf)")),
        ({"epochs": 1, "patience": 0}, ("patience", 0)),
        ({"epochs": 1, "time_limit": 0}, ("time_limit", 0)),
        ({"epochs": 1, "clip_norm": -1.0}, ("clip_norm", "-1.0")),
        ({"epochs": 1, "seed": -1}, ("seed", -1)),
    ],
)
def test_wrong_parameters(given: dict[str, Any], piece: object) -> None:
    with raises(ParameterError, piece):
        train(Points(), **given)


def test_nothing_to_train_on() -> None:
    job: Any = Points()
    job.steps_per_epoch = lambda: 0
    with raises(DataError, "batch"):
        train(job, epochs=1)


def test_entries_are_reported_as_they_come() -> None:
    entries: list[dict[str, Any]] = []
    history = train(Points(), epochs=2, on_entry=entries.append)
    assert entries == history.epochs


class OneOfTwo(AsItIs):
    """The first process or the second, beside another one that measures something else."""

    def __init__(self, job: Points, process: int) -> None:
        super().__init__(job.module)
        self.process = process

    def everyone(self, value: Any) -> list[Any]:
        if isinstance(value, tuple) and isinstance(value[-1], dict):
            other = (*value[:-1], {"accuracy": -1.0})
            return [value, other] if self.process == 0 else [other, value]
        return [value, value]


@pytest.mark.parametrize("process", [0, 1])
def test_what_the_first_process_measures_is_everyones(process: int) -> None:
    job = Points(metrics=[0.25])
    history = train(job, epochs=1, engine=OneOfTwo(job, process))
    assert history.epochs[0]["accuracy"] == (-1 if process else 0.25)


def test_processes_draw_by_the_seed_and_each_its_own() -> None:
    seeds = []
    for seed, process in ((0, 0), (7, 0), (0, 1), (7, 1), (0, 2)):
        job = Points(metrics=[0.5])
        train(job, epochs=1, seed=seed, engine=OneOfTwo(job, process))
        seeds.append(torch.initial_seed())
    assert seeds[:2] == [0, 7] and len(set(seeds)) == 5


def test_a_folder_with_something_else_is_refused_before_a_training(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "mine.txt").write_text("")
    with raises(ModelError, "checkpoint"):
        TrainingFolder(tmp_path)
    TrainingFolder(tmp_path, writes=False)


@pytest.mark.parametrize(("limits", "accumulate", "steps"), [({}, 1, 36), ({"max_steps": 5}, 1, 5), ({}, 5, 9)])
def test_the_bar_has_as_many_steps_as_there_are(
    limits: dict[str, int], accumulate: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    totals, real = [], training.progress
    monkeypatch.setattr(
        training, "progress", lambda title, total, unit: totals.append(total) or real(title, total, unit)
    )
    train(Points(metrics=[0.1] * 3), epochs=3, engine=Engine(device="cpu", accumulate=accumulate), **limits)
    assert totals == [steps]
