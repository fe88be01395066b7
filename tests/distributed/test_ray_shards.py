"""An index whose shards live on a Ray cluster answers as one in this process; what is lost is had again, or said."""

import copy
import gc
import os
import pickle
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from child_processes import python
from kit.errors import raises
from waiting import PATIENCE, until

import sylvan
from sylvan import IRLIIndex, ShardedIRLIIndex
from sylvan.distributed import ray_shards
from sylvan.distributed.ray_runner import array_bytes
from sylvan.errors import DataError, ModelError, NotFittedError, ParameterError, SylvanError
from sylvan.models.irli.shards import LostShardsError, SerialExecutor, ShardCall, run_calls

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

BASE = np.random.default_rng(0).normal(size=(301, 5)).astype(np.float32)
QUERIES = np.random.default_rng(1).normal(size=(20, 5)).astype(np.float32)
SHARD = IRLIIndex(
    "learned", n_buckets=8, n_repetitions=3, hidden=16, choices=3, probes=3, n_neighbors=10, rounds=1,
    epochs_per_round=1, n_jobs=1,
)  # fmt: skip
SHARDS = ray_shards(cpus_per_shard=0.2, start_timeout=PATIENCE)


def sharded(executor: Any = "serial", n_shards: int = 3) -> ShardedIRLIIndex:
    return ShardedIRLIIndex(copy.deepcopy(SHARD), n_shards, executor)


@pytest.fixture(scope="module")
def serial() -> ShardedIRLIIndex:
    return sharded().fit(BASE)


def same(first: Any, second: Any, **settings: Any) -> None:
    pairs = zip(first.search(QUERIES, 9, **settings), second.search(QUERIES, 9, **settings), strict=True)
    for a, b in pairs:
        np.testing.assert_array_equal(a, b)


@pytest.fixture
def index(cluster: Any, serial: ShardedIRLIIndex, tmp_path: Path) -> Iterator[ShardedIRLIIndex]:
    """The same, loaded from a folder of its own, its shards started."""
    serial.save(tmp_path / "index")
    with sylvan.load(tmp_path / "index").set_params(executor=SHARDS) as loaded:
        same(loaded, serial)
        yield loaded


def places(index: ShardedIRLIIndex) -> list[tuple[int, str]]:
    """The process and the node of each shard's actor."""
    import ray

    def place(_: Any) -> tuple[int, str]:
        return os.getpid(), ray.get_runtime_context().get_node_id()

    return [ray.get(actor.__ray_call__.remote(place)) for actor in index._running._actors]  # type: ignore[union-attr]


def ended(pids: list[int]) -> bool:
    """Whether these processes have ended, though their parent may not have looked yet."""
    states = [Path(f"/proc/{pid}/stat") for pid in pids]
    return all(not state.exists() or ") Z " in state.read_text() for state in states)


def owns_base(actor: Any) -> bool:
    """Whether a shard's vectors are in the memory of its process."""
    array = actor._worker.index.base_
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.base is None


def lose(index: ShardedIRLIIndex, number: int) -> None:
    """Kill the process of a shard."""
    os.kill(places(index)[number][0], signal.SIGKILL)


def test_answers_are_those_of_one_process(cluster: Any, serial: ShardedIRLIIndex, tmp_path: Path) -> None:
    plain = copy.deepcopy(serial)
    with sharded(SHARDS).fit(BASE) as index:
        assert len({os.getpid(), *(pid for pid, _ in places(index))}) == 4
        same(index, plain)
        assert index.add(QUERIES[:7]).tolist() == plain.add(QUERIES[:7]).tolist()
        same(index, plain)
        index.remove([5, 301])
        plain.remove([5, 301])
        same(index, plain)
        assert index.tune(QUERIES, 0.8, k=5) == plain.tune(QUERIES, 0.8, k=5)
        same(index, plain)
        assert [one.text() for one in index.report()] == [one.text() for one in plain.report()]
        with raises(ParameterError, "min_votes"):
            index.search(QUERIES, min_votes=9)
        index.save(tmp_path / "index")
        lose(index, 1)
        same(index, plain)
    loaded = sylvan.load(tmp_path / "index")
    assert loaded.executor == "processes"
    same(loaded.set_params(executor="serial"), plain)


def test_large_arguments_are_sent_once(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    base = np.random.default_rng(0).normal(size=(3000, 40)).astype(np.float32)
    queries = np.random.default_rng(1).normal(size=(1000, 40)).astype(np.float32)
    sizes: list[int] = []
    put = ray.put
    monkeypatch.setattr(ray, "put", lambda value: sizes.append(array_bytes(value)) or put(value))
    template = IRLIIndex(n_buckets=8, n_repetitions=3, probes=3, n_jobs=1)  # whose actors load no PyTorch
    with ShardedIRLIIndex(template, 3, SHARDS).fit(base) as index:
        assert sizes == [base.nbytes // 3] * 3
        sizes.clear()
        found = index.search(queries, 5)
        assert sizes == [queries.nbytes]
        index.search(queries[:5], 5)
        assert sizes == [queries.nbytes], "few queries travel with their call"
        again = pickle.loads(pickle.dumps(index))
    with again:
        np.testing.assert_array_equal(again.search(queries, 5)[0], found[0])
        assert len(sizes) == 5, "three shards, and queries"
        owned = [ray.get(actor.__ray_call__.remote(owns_base)) for actor in again._running._actors]  # type: ignore[union-attr]
        assert owned == [True] * 3, "no shard's vectors have a place in the object store any more"
    plain = ShardedIRLIIndex(copy.deepcopy(template), 3, "serial").fit(base)
    np.testing.assert_array_equal(found[0], plain.search(queries, 5)[0])


def test_lost_shards_come_back_from_the_folder(
    index: ShardedIRLIIndex, serial: ShardedIRLIIndex, tmp_path: Path
) -> None:
    lose(index, 1)
    same(index, serial)
    for pid in (places(index)[0][0], places(index)[2][0]):
        os.kill(pid, signal.SIGKILL)
    plain = copy.deepcopy(serial)
    assert index.add(QUERIES[:7]).tolist() == plain.add(QUERIES[:7]).tolist()
    same(index, plain)
    index.save(tmp_path / "index")
    lose(index, 0)
    same(index, plain)


def test_shards_of_a_lost_node_go_to_others(cluster: Any, serial: ShardedIRLIIndex, tmp_path: Path) -> None:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    serial.save(tmp_path / "index")
    taken = [
        ray.remote(num_cpus=0.6, scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False))(
            SimpleNamespace
        ).remote()
        for node in ray.nodes()
        if node["Alive"]
    ]
    ray.get([one.__ray_ready__.remote() for one in taken])
    added = cluster.add_node(num_cpus=2, object_store_memory=100 << 20)
    cluster.wait_for_nodes()
    wide = ray_shards(cpus_per_shard=0.5, start_timeout=PATIENCE)
    with sylvan.load(tmp_path / "index").set_params(executor=wide) as loaded:
        same(loaded, serial)
        assert {node for _, node in places(loaded)} == {added.node_id}
        pids = [pid for pid, _ in places(loaded)]
        for one in taken:
            ray.kill(one)
        cluster.remove_node(added, allow_graceful=False)
        until(lambda: ended(pids), "the processes of shards go on")
        same(loaded, serial)
        assert added.node_id not in {node for _, node in places(loaded)}


def test_what_was_not_saved_is_lost_with_its_shard(index: ShardedIRLIIndex) -> None:
    index.add(QUERIES[:2])
    pids = [pid for pid, _ in places(index)]
    lose(index, 1)
    with raises(SylvanError, "because", 1):
        index.search(QUERIES)
    with pytest.raises(NotFittedError):
        index.search(QUERIES)
    until(lambda: ended(pids), "the processes of shards go on")


def test_a_folder_that_a_node_does_not_see(index: ShardedIRLIIndex, serial: Any, tmp_path: Path) -> None:
    (tmp_path / "index").rename(tmp_path / "elsewhere")
    lose(index, 2)
    with raises(ModelError, "index"):
        index.search(QUERIES)
    (tmp_path / "elsewhere").rename(tmp_path / "index")
    same(index, serial)
    other = sharded(n_shards=2).fit(BASE[:50])
    other.save(tmp_path / "index")
    lose(index, 0)
    with raises(ModelError, "replaced"):
        index.search(QUERIES)


def test_shards_without_room_are_refused_at_once(cluster: Any) -> None:
    for parameters, words in (
        ({"cpus_per_shard": 2}, (0, 3, "2 CPUs", "1 CPU")),
        ({"cpus_per_shard": 1}, (2, 3, "1 CPU")),
        ({"cpus_per_shard": 0, "memory_per_shard": "1000TB"}, (0, 3, "0 CPUs", "1000000.0 GB")),
    ):
        with raises(SylvanError, words):
            sharded(ray_shards(**parameters, start_timeout=1e6)).fit(BASE)  # type: ignore[arg-type]


def test_shards_are_spread_over_the_nodes_and_room_that_they_take_is_not_waited_for_for_ever(
    index: ShardedIRLIIndex, serial: Any
) -> None:
    assert len({node for _, node in places(index)}) == 2
    other = sharded(ray_shards(cpus_per_shard=0.5, start_timeout=1))
    with raises(SylvanError, 1, "0.5", "CPUs"):
        other.fit(BASE)
    same(index, serial)


def test_a_fit_that_fails_leaves_no_actors(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from sylvan.distributed.shards import RayExecutor

    made: list[Any] = []
    close = RayExecutor.close

    def closing(self: Any) -> None:
        made.extend(pid for pid, _ in places(SimpleNamespace(_running=self)))  # type: ignore[arg-type]
        close(self)

    monkeypatch.setattr(RayExecutor, "close", closing)
    with pytest.raises(DataError):
        sharded(SHARDS).fit(BASE, QUERIES[:, :2])
    assert len(made) == 3
    until(lambda: ended(made), "the processes of shards go on")


def test_an_index_is_pickled_with_its_shards_and_actors_end_with_theirs(
    index: ShardedIRLIIndex, serial: ShardedIRLIIndex
) -> None:
    again = pickle.loads(pickle.dumps(index))
    assert again.executor == SHARDS
    pids = [pid for pid, _ in places(index)]
    assert not any(ended([pid]) for pid in pids)
    index.close()
    until(lambda: ended(pids), "the processes of shards go on")
    same(again, serial)
    lose(again, 1)
    same(again, serial)
    assert copy.deepcopy(again).set_params(executor="serial").search(QUERIES[:1], 1)[0].shape == (1, 1)
    pids = [pid for pid, _ in places(again)]
    del again
    gc.collect()
    until(lambda: ended(pids), "the processes of shards go on")


def test_a_connection_is_closed_by_the_last_that_needs_it(tmp_path: Path) -> None:
    """In a process of its own: here, Ray is connected to the tests' cluster."""
    pytest.importorskip("ray", reason='needs Ray: pip install "sylvan[ray]"')
    code = f"""
import sys
import numpy as np
import ray
import sylvan
from sylvan import IRLIIndex, ShardedIRLIIndex

if __name__ == "__main__":
    options = dict(num_cpus=1, object_store_memory=100 << 20, include_dashboard=False)
    shards = sylvan.distributed.ray_shards(cpus_per_shard=0.5, start_timeout=600, **options)
    base = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    shard = IRLIIndex(n_buckets=4, n_repetitions=2, probes=4)
    with sylvan.distributed.ray(**options):
        index = ShardedIRLIIndex(shard, 2, shards).fit(base)
        index.save({str(tmp_path / "index")!r})
    assert ray.is_initialized()
    assert index.search(base[:3], 1)[0].ravel().tolist() == [0, 1, 2]
    ray.shutdown()
    try:
        index.search(base[:3], 1)
    except sylvan.SylvanError as error:
        assert "connection to the Ray cluster" in str(error), error
    else:
        raise AssertionError("asked without a cluster")
    index.close()
    assert not ray.is_initialized()
    assert index.search(base[:3], 1)[0].ravel().tolist() == [0, 1, 2], "connected again"
    index.close()
    assert not ray.is_initialized()
    print("well")
"""
    script = tmp_path / "script.py"
    script.write_text(code, "utf-8")
    done = python(script)
    assert done.stdout.strip().endswith("well"), done.stderr


def test_parameters_are_checked() -> None:
    for parameters, words in (
        ({"cpus_per_shard": -1}, ("cpus_per_shard", "ray_shards", "[0, inf)", -1)),
        ({"memory_per_shard": "much"}, ("memory_per_shard", "much")),
        ({"start_timeout": 0}, ("start_timeout", "ray_shards", "(0, inf)", 0)),
    ):
        with raises(ParameterError, words):
            ray_shards(**parameters)  # type: ignore[arg-type]


class Losing:
    """Loses a shard in each of its first calls."""

    def __init__(self, n_shards: int, n_losses: int) -> None:
        self.inner, self.left = SerialExecutor(n_shards), n_losses

    def run(self, calls: Any) -> list[Any]:
        if self.left and calls[1] is not None:
            self.left -= 1
            raise LostShardsError({1: "of a test"}, self.inner.run([calls[0], None]))
        return self.inner.run(calls)

    def close(self) -> None:
        self.inner.close()


def test_a_shard_that_is_lost_again_and_again_is_given_up() -> None:
    sources = [ShardCall("take", {"index": copy.deepcopy(SHARD).fit(BASE[at::2]), "n_jobs": 1}) for at in range(2)]
    asked = [ShardCall("removed", {"ids": np.arange(3 + at)}) for at in range(2)]
    for n_losses in range(6):
        there = Losing(2, 0)
        run_calls(there, sources)
        there.left = n_losses
        assert [answer.size for answer in run_calls(there, asked, sources)] == [0, 0]
    there.left = 100
    with raises(SylvanError, "because", 1, 6):
        run_calls(there, asked, sources)
    assert isinstance(pickle.loads(pickle.dumps(LostShardsError({1: "a"}, [2]))), LostShardsError)
