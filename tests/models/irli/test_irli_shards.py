"""ShardedIRLIIndex: its answers are those of its parts together, wherever these live."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from child_processes import start
from kit.errors import raises
from waiting import alive, until, used_seconds
from word_topics import share_found

import sylvan
from sylvan import IRLIIndex, ShardedIRLIIndex
from sylvan.errors import DataError, ModelError, NotFittedError, ParameterError, SylvanError
from sylvan.models.irli.shards import SerialExecutor, ShardCall
from sylvan.models.irli.vectors import exact_neighbors

BASE = np.random.default_rng(0).normal(size=(301, 5)).astype(np.float32)
QUERIES = np.random.default_rng(1).normal(size=(20, 5)).astype(np.float32)
SHARD = IRLIIndex(
    "learned", n_buckets=8, n_repetitions=3, hidden=16, choices=3, probes=3, n_neighbors=10, rounds=1,
    epochs_per_round=1, n_jobs=1,
)


def sharded(n_shards: int = 3, executor: Any = "serial", **params: Any) -> ShardedIRLIIndex:
    return ShardedIRLIIndex(copy.deepcopy(SHARD).set_params(**params), n_shards, executor)


@pytest.fixture(scope="module")
def index() -> ShardedIRLIIndex:
    return sharded().fit(BASE)


def same(first: Any, second: Any, **settings: Any) -> None:
    pairs = zip(first.search(QUERIES, 9, **settings), second.search(QUERIES, 9, **settings), strict=True)
    for a, b in pairs:
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("metric", ["euclidean", "angular", "inner_product"])
def test_all_buckets_give_the_exact_neighbours(metric: str) -> None:
    whole = copy.deepcopy(SHARD).set_params(metric=metric, probes=8).fit(BASE)
    parts = sharded(metric=metric, probes=8).fit(BASE)
    same(parts, whole)
    assert (parts.search(QUERIES, 5, return_counts=True)[2] == 301).all()
    given = (whole.base_, QUERIES / np.linalg.norm(QUERIES, axis=1, keepdims=True)) if metric == "angular" else ()
    base, queries = given or (BASE, QUERIES)
    np.testing.assert_array_equal(parts.search(QUERIES, 5)[0], exact_neighbors(queries, base, 5, metric)[0])


def test_each_shard_is_the_index_of_its_own_vectors(index: ShardedIRLIIndex) -> None:
    counts = index.search(QUERIES, 4, return_counts=True)[2]
    own = [copy.deepcopy(SHARD).fit(BASE[shard::3]) for shard in range(3)]
    found = [one.search(QUERIES, 4, return_counts=True) for one in own]
    np.testing.assert_array_equal(counts, sum(one[2] for one in found))
    ids, distances = index.search(QUERIES, 4)
    for row in range(len(QUERIES)):
        both = sorted(
            (float(distance), int(own) * 3 + shard)
            for shard, one in enumerate(found)
            for own, distance in zip(one[0][row], one[1][row], strict=True)
        )
        assert [i for _, i in both[:4]] == ids[row].tolist()
        np.testing.assert_array_equal(np.array([d for d, _ in both[:4]], np.float32), distances[row])


def test_neighbours_of_the_whole_are_parted() -> None:
    nearest = exact_neighbors(QUERIES, BASE, 30, "euclidean")[0]
    index = sharded().fit(BASE, QUERIES, nearest)
    own = [np.where(nearest % 3 == shard, nearest // 3, -1) for shard in range(3)]
    for shard, ids in enumerate(own):
        alone = copy.deepcopy(SHARD).fit(BASE[shard::3], QUERIES, ids)
        report = index.report(QUERIES)[shard]
        np.testing.assert_array_equal(report.candidates, alone.search(QUERIES, return_counts=True)[2])
    nearest[nearest % 3 == 1] = -1  # shard 1 has none, and computes its own
    for part in (sharded(), ShardedIRLIIndex(IRLIIndex(n_jobs=1), 3, executor="serial")):
        index, alone = part.fit(BASE, QUERIES, nearest), copy.deepcopy(part.index).fit(BASE[1::3], QUERIES)
        counts = alone.search(QUERIES, return_counts=True)[2]
        np.testing.assert_array_equal(index.search(QUERIES, return_counts=True)[2] > counts, True)
        np.testing.assert_array_equal(index.report(QUERIES)[1].candidates, counts)


def test_adding_removing_and_tuning(index: ShardedIRLIIndex) -> None:
    index = copy.deepcopy(index)
    new = QUERIES[:7]
    assert index.add(new).tolist() == list(range(301, 308)) and index.n_vectors_ == 308
    assert index.search(new, 1)[0].ravel().tolist() == list(range(301, 308))
    for ids, words in (([5, 400], "[0, 307]"), ([5, 5], ("once", 5))):
        with raises(DataError, words):
            index.remove(ids)
    assert index.search(BASE[5:6], 1)[0].item() == 5, "nothing was removed"
    index.remove([5, 301, 302])
    assert index.n_vectors_ == 305
    assert not np.isin(index.search(BASE, 10, probes=8)[0], [5, 301, 302]).any()
    with raises(DataError, 302):
        index.remove([7, 302])
    assert index.search(BASE[7:8], 1)[0].item() == 7
    there = np.setdiff1d(np.arange(308), [5, 301, 302])
    both = np.concatenate([BASE, new])[there]
    tunings = index.tune(QUERIES, 0.8, k=5)
    assert all(tuning.recall >= 0.8 for tuning in tunings)
    true = there[exact_neighbors(QUERIES, both, 5, "euclidean")[0]]
    assert share_found(index.search(QUERIES, 5)[0], true) >= 0.8


def test_processes_train_what_one_does(index: ShardedIRLIIndex) -> None:
    with sharded(executor="processes").fit(BASE) as there:
        same(there, index)


def test_processes_answer_alike_and_outlive_what_goes_wrong(tmp_path: Path) -> None:
    index = sharded(2).fit(BASE)
    index.save(tmp_path / "index")
    with sylvan.load(tmp_path / "index").set_params(executor="processes") as there:
        same(there, index)
        with raises(ParameterError, "min_votes", 9):
            there.search(QUERIES, min_votes=9)
        same(there, index)
        there._running._send(1, ShardCall("report", {"queries": None}))  # type: ignore[union-attr]  # as after a Ctrl-C
        same(there, index)
        assert there.add(QUERIES[:2]).tolist() == [301, 302]
        again = pickle.loads(pickle.dumps(there))
        again.set_params(executor="serial")
        same(again, there)
        there.save(tmp_path / "index")
        os.kill(there._running._processes[1].pid, signal.SIGKILL)  # type: ignore[union-attr]
        with raises(SylvanError, "shard 1", -9):
            there.search(QUERIES)
        processes = there._running._processes  # type: ignore[union-attr]
        there.close()
        assert not any(process.is_alive() for process in processes)
        loaded = sylvan.load(tmp_path / "index")
        assert loaded.executor == "processes" and loaded.n_vectors_ == 303
        same(loaded.set_params(executor="serial"), again)


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_processes_end_with_a_parent_that_is_killed() -> None:
    code = """
import sys, numpy as np
from sylvan.models.irli.shards import ProcessExecutor, ShardCall
if __name__ == "__main__":
    there = ProcessExecutor(1)
    params = {"partition": "learned", "n_buckets": 4, "n_repetitions": 1, "hidden": 8, "epochs_per_round": 10000}
    there._send(0, ShardCall("build", {"params": params | {"n_jobs": 1}, "base": np.eye(9, dtype=np.float32)}))
    print(there._processes[0].pid, flush=True)
    sys.stdin.read()
"""
    pipe = subprocess.PIPE
    parent = start([sys.executable, "-c", code], stdin=pipe, stdout=pipe, encoding="utf-8")
    assert parent.stdout is not None
    shard = int(parent.stdout.readline())
    until(lambda: used_seconds(shard) > 1, "the shard doesn't work")
    assert alive(shard)
    parent.kill()
    parent.wait()
    until(lambda: not alive(shard), "the shard's process lives on")


class Recording:
    """An executor of somebody else's."""

    made: ClassVar[list[Recording]] = []

    def __init__(self, n_shards: int) -> None:
        self.inner, self.methods, self.open = SerialExecutor(n_shards), [], True
        self.made.append(self)

    def run(self, calls: Sequence[ShardCall | None]) -> list[Any]:
        assert self.open
        self.methods.append([None if call is None else call.method for call in calls])
        return self.inner.run(pickle.loads(pickle.dumps(list(calls))))

    def close(self) -> None:
        self.open = False


def test_an_engine_of_ones_own(index: ShardedIRLIIndex, tmp_path: Path) -> None:
    mine = sharded(executor=Recording).fit(BASE)
    engine = Recording.made[-1]
    same(mine, index)
    assert engine.methods == [["build"] * 3, ["search"] * 3]
    mine.add(QUERIES[:1])
    assert engine.methods[-1] == [None, "add", None], "301 is 1 modulo 3"
    mine.save(tmp_path / "index")
    mine.close()
    assert not engine.open
    assert mine.search(QUERIES[:1], 1)[0].item() == 301, "started again from the folder"
    assert Recording.made[-1] is not engine
    failing = sharded(executor=Recording)
    with pytest.raises(DataError):
        failing.fit(BASE, QUERIES[:, :2])
    assert not Recording.made[-1].open, "no engine is left behind"


def test_saving_loading_and_closing(index: ShardedIRLIIndex, tmp_path: Path) -> None:
    index = copy.deepcopy(index)
    index.save(tmp_path / "index")
    for mmap in (True, False):
        loaded = sylvan.load(tmp_path / "index", mmap=mmap)
        assert repr(loaded) == repr(index)
        same(loaded, index)
        assert [report.text() for report in loaded.report()] == [report.text() for report in index.report()]
    loaded = sylvan.load(tmp_path / "index")
    other = sharded(2).fit(BASE[:50])
    other.save(tmp_path / "index")
    with raises(ModelError, "replaced"):
        loaded.search(QUERIES)
    lost = sharded(2).fit(BASE[:50])
    lost.close()
    with pytest.raises(NotFittedError):
        lost.search(QUERIES)
    same(lost.fit(BASE[:50]), other)


def test_parameters_after_fit_change_nothing(index: ShardedIRLIIndex) -> None:
    other = copy.deepcopy(index)
    other.set_params(n_shards=5, index__probes=8, index__metric="angular")
    same(other, index)
    assert other.add(QUERIES[:1]).tolist() == [301] and other.search(QUERIES[:1], 1)[0].item() == 301


def test_bad_input(index: ShardedIRLIIndex, tmp_path: Path) -> None:
    with raises(DataError, "rows", 2, 3):
        sharded().fit(BASE[:2])
    zero = BASE.copy()
    zero[100] = 0
    with raises(DataError, "row 100"):
        sharded().fit(zero, metric="angular")
    with raises(DataError, "queries", "without"):
        sharded().fit(BASE, neighbors=[[1]])
    with raises(DataError, 301, "row 0"):
        sharded().fit(BASE, QUERIES, np.full((20, 1), 301))
    with raises(DataError, "queries", 4):
        index.search(QUERIES[:, :4])
    for params, words in (
        ({"n_shards": 0}, ("n_shards", 0)),
        ({"executor": "threads"}, ("executor", "threads")),
        ({"index": 3}, ("index", 3)),
    ):
        with raises(ParameterError, words):
            ShardedIRLIIndex(**params).fit(BASE)
    for action in ("search", "add", "remove", "tune", "report"):
        with pytest.raises(NotFittedError):
            getattr(ShardedIRLIIndex(), action)(QUERIES)
    with pytest.raises(NotFittedError):
        ShardedIRLIIndex().save(tmp_path / "index")
    with raises(ParameterError, "'k'", 0):
        index.search(QUERIES, 0)
    ids, distances = index.search(QUERIES, 400, probes=8)
    assert (ids[:, 301:] == -1).all() and np.isposinf(distances[:, 301:]).all() and (ids[:, :301] >= 0).all()
