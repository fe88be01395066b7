"""Trainings on a Ray cluster have the same bits as on threads; whatever is lost is done again, or said."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.bits import same_bits, same_models
from kit.books import load_sample
from kit.errors import raises
from ray_work import dies, dies_once, slow, squared, wrong

import sylvan
from sylvan import IRLIClassifier, TextModel, XRLinear, data
from sylvan.distributed import ray_runner
from sylvan.distributed.ray_runner import RayRunner
from sylvan.errors import DataError, MemoryLimitError, SylvanError
from sylvan.runtime import Job, Runner

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.fixture(scope="module")
def matrices() -> tuple[Any, Any]:
    train, _ = load_sample()
    model = TextModel().fit(train.texts[:700], train.labels[:700])
    return model.vectorizer.transform(train.texts[:700]), model.vocabulary_.encode(train.labels[:700])


IRLI = {"n_buckets": 16, "n_repetitions": 3, "hidden": 16, "rounds": 1, "epochs_per_round": 1, "final_epochs": 1}
MODELS: dict[str, Callable[[], Any]] = {
    "tfn": lambda: XRLinear(n_jobs=1, negatives="tfn"),
    "tfn+man": lambda: XRLinear(n_jobs=1, negatives="tfn+man"),
    "two trees": lambda: XRLinear(n_jobs=1, n_trees=2),
    "uncalibrated": lambda: XRLinear(n_jobs=1, calibration=None, max_leaf=20),
    "ensemble": lambda: sylvan.Ensemble([XRLinear(max_leaf=20, seed=seed, n_jobs=1) for seed in (0, 1)]),
    "irli": lambda: IRLIClassifier(**IRLI, n_jobs=1),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_have_the_bits_of_one_process(cluster: Any, matrices: tuple[Any, Any], name: str) -> None:
    X, Y = matrices if name != "irli" else (rows[:400] for rows in matrices)
    plain = MODELS[name]().fit(X, Y)
    with sylvan.distributed.ray() as runner:
        spread = MODELS[name]().fit(X, Y)
        assert sum(phase.bytes_shared for phase in runner.phases) > 0
    same_bits(plain, spread)


def test_a_given_runner_and_a_checkpoint(cluster: Any, matrices: tuple[Any, Any], tmp_path: Path) -> None:
    X, Y = matrices
    plain = XRLinear(n_jobs=1).fit(X, Y)
    with sylvan.distributed.ray() as runner:
        same_bits(plain, XRLinear(n_jobs=1).fit(X, Y, runner=runner))
        same_bits(plain, XRLinear(n_jobs=1).fit(X, Y, checkpoint=tmp_path / "checkpoint"))


def test_jobs_run_elsewhere_and_what_they_share_is_sent_once(cluster: Any) -> None:
    base = np.arange(100_000.0)
    jobs = [Job(f"job{at}", squared, {"base": base, "at": at}) for at in range(20)]
    with sylvan.distributed.ray() as runner:
        results = runner.run(jobs)
    assert [result[0] for result in results] == [at**2 for at in range(20)]
    assert os.getpid() not in {result[1] for result in results}
    assert [(phase.bytes_shared, phase.bytes_sent) for phase in runner.phases] == [(base.nbytes, 0)]


def test_rows_are_sent_once_for_a_training_and_anew_for_the_next(cluster: Any, matrices: tuple[Any, Any]) -> None:
    X, Y = matrices[0].copy(), matrices[1]
    plain = [XRLinear(n_jobs=1).fit(rows, Y) for rows in (X, 2 * X)]
    with sylvan.distributed.ray() as runner:
        first = XRLinear(n_jobs=1).fit(X, Y)
        n_bytes = X.indptr.size * 8 + X.indices.nbytes + X.data.nbytes
        assert [phase.bytes_shared > n_bytes for phase in runner.phases].count(True) == 1 < len(runner.phases)
        X.data *= 2  # in place: what was sent for the first training must not be used again
        second = XRLinear(n_jobs=1).fit(X, Y)
    same_bits(plain[0], first)
    same_bits(plain[1], second)


def test_a_lost_worker_is_replaced(cluster: Any, tmp_path: Path) -> None:
    jobs = [Job("dies", dies_once, {"mark": str(tmp_path / "mark")}), Job("lives", pow, {"base": 2, "exp": 3})]
    with sylvan.distributed.ray() as runner:
        assert runner.run(jobs) == [7, 8]
    assert (tmp_path / "mark").exists()


def test_errors_are_those_of_the_job(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_runner, "_RETRIES", 1)
    with sylvan.distributed.ray() as runner:
        with raises(DataError, "row 7"):
            runner.run([Job("a", wrong, {"what": "row 7"})])
        with raises(ValueError, "another"):
            runner.run([Job("a", wrong, {"what": "another"})])
        with raises(SylvanError, "'a'", 2):
            runner.run([Job("a", dies, {}, title="dying")])


def test_too_little_memory_is_said_at_once(cluster: Any) -> None:
    with sylvan.distributed.ray() as runner, raises(MemoryLimitError, "largest"):
        runner.run([Job("a", pow, {"base": 1, "exp": 1}, peak_bytes=1 << 50)])


def test_a_node_that_is_removed_loses_nothing(cluster: Any) -> None:
    node = cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
    jobs = [Job(f"job{at}", slow, {"at": at}) for at in range(12)]
    seen: list[int] = []

    with sylvan.distributed.ray() as runner:

        def deliver(number: int, result: int) -> None:
            seen.append(result)
            if len(seen) == 2:
                cluster.remove_node(node, allow_graceful=False)

        runner.stream(jobs, deliver)
    assert sorted(seen) == list(range(12))


def test_jobs_that_fit_no_node_any_more_end_in_a_sentence(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_runner, "_PATIENCE", 2.0)
    large = 1 << 46
    node = cluster.add_node(num_cpus=1, memory=large, object_store_memory=100 << 20)
    jobs = [Job(f"job{at}", slow, {"at": at}, peak_bytes=large // 2) for at in range(12)]
    removed: list[int] = []

    def deliver(number: int, result: int) -> None:
        if not removed:
            cluster.remove_node(node, allow_graceful=False)
        removed.append(number)

    with sylvan.distributed.ray() as runner, raises(MemoryLimitError, "largest"):
        runner.stream(jobs, deliver)
    assert len(removed) < 12


def test_an_address_without_a_cluster_is_said() -> None:
    ray = pytest.importorskip("ray")
    if ray.is_initialized():
        with raises(SylvanError, "connected"), sylvan.distributed.ray("10.0.0.1:1"):
            pass


def test_without_a_block_nothing_changes() -> None:
    from sylvan.runtime.jobs import current_runner

    assert type(current_runner(1)) is Runner and not isinstance(current_runner(1), RayRunner)


@pytest.mark.parametrize("verb", ["train xr-linear", "tune --max-trials 1"])
def test_the_command_line_trains_on_a_cluster(cluster: Any, verb: str, tmp_path: Path, call: Any) -> None:
    pytest.importorskip("optuna")
    train, _ = load_sample()
    data.write_jsonl(tmp_path / "train.jsonl", train.texts[:500], train.labels[:500])
    command = f"{verb} {tmp_path}/train.jsonl --quiet --threads 1 --model {tmp_path}"
    call(f"{command}/plain")
    call(f"{command}/spread --ray {cluster.address}")
    same_models(tmp_path / "plain", tmp_path / "spread")


def test_a_memory_limit_is_not_for_a_cluster(cluster: Any, matrices: tuple[Any, Any]) -> None:
    X, Y = matrices
    with sylvan.distributed.ray(), raises(SylvanError, "node"):
        XRLinear(n_jobs=1).fit(X, Y, memory_limit="8GB")
