"""Jobs and runners: order, names, errors; what a checkpoint skips, what it makes anew, and what damaged blocks do."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.bits import same_bits
from kit.errors import raises

from sylvan import store
from sylvan.errors import DataError, MemoryLimitError, ModelError, ParameterError
from sylvan.runtime import ARRAY, Checkpoint, Checkpointed, Job, Once, Packing, Runner, WithinMemory, opened_runner
from sylvan.runtime import checkpointed as checkpointing
from sylvan.runtime.groups import block_names, block_state, read_block
from sylvan.runtime.jobs import Arrays

CALLS: list[int] = []


def squares(base: int, size: int = 3) -> np.ndarray:
    CALLS.append(base)
    return np.arange(size, dtype=np.int64) + base * base


def fail(base: int) -> np.ndarray:
    raise {0: ZeroDivisionError, 1: DataError}[base]("no such thing")


def jobs(n: int = 5, packing: Packing[Any] | None = ARRAY) -> list[Job[np.ndarray]]:
    return [
        Job(f"square{i}", squares, {"base": i, "size": i % 3}, cost=i, peak_bytes=10, packing=packing) for i in range(n)
    ]


def right(results: Any) -> bool:
    return [each.tolist() for each in results] == [(np.arange(i % 3) + i * i).tolist() for i in range(len(results))]


@pytest.mark.parametrize("n_jobs", [1, 2, 4])
def test_results_come_in_the_order_of_the_jobs(n_jobs: int, tmp_path: Path) -> None:
    assert right(Runner(n_jobs).run(jobs(9)))
    limited = WithinMemory(Runner(n_jobs), limit=1000, taken=100, folder=os.fspath(tmp_path))
    assert right(limited.run(jobs(9))) and right(limited.within("part").run(jobs(9)))
    assert list(Runner(n_jobs).run([])) == []


def test_each_result_is_made_when_it_is_asked_for_unless_elsewhere(tmp_path: Path) -> None:
    class Elsewhere(Runner):
        elsewhere = True

    for make, n_made in ((Runner, 2), (Elsewhere, 5)):
        CALLS.clear()
        each = make().within("part").each(jobs())
        assert right([each[0](), each[1]()]) and len(CALLS) == n_made
    with opened_runner(checkpoint=tmp_path / "checkpoint") as runner:
        CALLS.clear()
        assert right([ask() for ask in runner.each(jobs())]) and right([ask() for ask in runner.each(jobs())])
        assert len(CALLS) == 5, "stored, and not made again"


def test_a_failing_job_names_itself() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        Runner().within("tree3").run([Job("layer1", fail, {"base": 0}, title="dividing")])
    assert caught.value.__notes__ == ["It was raised in the job 'tree3.layer1' (dividing)."]  # type: ignore[attr-defined]
    with pytest.raises(DataError) as raised:
        Job("layer1", fail, {"base": 1})()
    assert not hasattr(raised.value, "__notes__")  # already a sentence


def test_what_is_made_once_is_made_when_it_is_asked_for() -> None:
    CALLS.clear()
    once = Once(Job("base", squares, {"base": 7}))
    assert not CALLS
    users = [Job(f"user{i}", np.sum, {"a": once}) for i in range(3)]
    assert Runner().run(users) == [150, 150, 150] and CALLS == [7]


@pytest.mark.parametrize("spill", [False, True])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_what_is_stored_is_not_run_again(spill: bool, n_jobs: int, tmp_path: Path) -> None:
    def run(n: int) -> list[np.ndarray]:
        checkpoint = Checkpoint(tmp_path / "work")
        checkpoint.open({"training": 1})
        runner = Checkpointed(Runner(n_jobs), checkpoint, block_bytes=1, spill=spill).within("part")
        found = dict(runner.run(jobs(n)).scan())
        assert runner.one(jobs(n)[-1]).tolist() == found[n - 1].tolist()
        checkpoint.close()
        return [found[i] for i in range(n)]

    CALLS.clear()
    assert right(run(4)) and sorted(set(CALLS)) == [0, 1, 2, 3]
    CALLS.clear()
    assert right(run(6)) and sorted(CALLS) == [4, 5]
    CALLS.clear()
    assert right(run(6)) and not CALLS
    for block in list((tmp_path / "work").glob("block*"))[:2]:
        array = next(path for path in block.glob("*.npy"))
        array.write_bytes(array.read_bytes()[:-1] + b"\x7f")
    assert right(run(6)) and 1 <= len(CALLS) <= 4  # what isn't whole any more is made again


def test_results_without_a_packing_are_made_by_every_training(tmp_path: Path) -> None:
    for _ in range(2):
        checkpoint = Checkpoint(tmp_path / "work")
        checkpoint.open({})
        CALLS.clear()
        assert right(Checkpointed(Runner(), checkpoint, block_bytes=1, spill=True).run(jobs(3, packing=None)))
        assert CALLS == [2, 1, 0]
        checkpoint.close()
    assert not (tmp_path / "work").exists()


def test_nothing_is_written_before_a_block_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened_runner(1, checkpoint=tmp_path / "work") as runner:
        assert right(runner.run(jobs(4)))
        assert not (tmp_path / "work").exists()
    monkeypatch.setattr(checkpointing, "SECONDS", 0.0)
    with opened_runner(1, checkpoint=tmp_path / "work") as runner:
        assert right(runner.run(jobs(4)))
        assert (tmp_path / "work").exists()
    assert not (tmp_path / "work").exists()  # all done: a path is removed


def test_an_interrupt_writes_what_is_done_where_anything_was_written(tmp_path: Path) -> None:
    def interrupted(base: int) -> np.ndarray:
        raise KeyboardInterrupt

    checkpoint = Checkpoint(tmp_path / "work")
    with pytest.raises(KeyboardInterrupt), opened_runner(1, checkpoint=checkpoint) as runner:
        assert isinstance(runner, Checkpointed)
        folder = runner.folder("begun")
        assert folder is not None and not checkpoint.begun
        folder.begin()
        runner.run([*jobs(4)[1:], Job("stop", interrupted, {"base": 0}, cost=0)])
    again = Checkpoint(tmp_path / "work")
    again.open({})
    CALLS.clear()
    assert right(Checkpointed(Runner(), again).run(jobs(4))) and CALLS == [0]


def test_processes_beside_the_first_read_and_write_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointing, "SECONDS", 0.0)
    with opened_runner(1, checkpoint=tmp_path / "work", writes=False) as runner:
        assert right(runner.run(jobs(3))) and (folder := runner.folder("encoder")) is not None
        assert folder.path == str(tmp_path / "work" / "encoder")
    assert not list(tmp_path.iterdir())
    checkpoint = Checkpoint(tmp_path / "work")
    with opened_runner(1, checkpoint=checkpoint) as runner:
        runner.run(jobs(3))
        before = sorted(path.name for path in (tmp_path / "work").iterdir())
        CALLS.clear()
        with opened_runner(1, checkpoint=tmp_path / "work", writes=False) as reader:
            assert right(reader.run(jobs(5))) and sorted(CALLS) == [3, 4]
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == before


@pytest.mark.parametrize(("others", "made"), [(True, []), (False, [1])])
def test_a_stored_result_is_taken_where_all_processes_agree(
    tmp_path: Path, others: bool, made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointing, "SECONDS", 0.0)
    asked: list[bool] = []

    def agree(stored: bool) -> bool:
        asked.append(stored)
        return others and stored

    first, second = jobs(3)[1:]
    with opened_runner(1, checkpoint=tmp_path / "work") as main:
        main.one(first)
        with opened_runner(1, checkpoint=tmp_path / "work", writes=False) as runner:
            CALLS.clear()
            assert runner.one(first, agree).tolist() == [1] and (asked, CALLS) == ([True], made)
            assert runner.one(second, agree).tolist() == [4, 5] and (asked, CALLS) == ([True, False], [*made, 2])


def test_a_job_beyond_the_limit_is_refused_by_name(tmp_path: Path) -> None:
    runner = WithinMemory(Runner(), limit=10**6, taken=4 * 10**5, folder=os.fspath(tmp_path))
    big: Job[Any] = Job("big", squares, {"base": 1}, peak_bytes=10**6, title="making a large thing")
    for run in (runner.one, lambda job: runner.run([job])):
        with raises(MemoryLimitError, "memory_limit", "1.0 MB", "400 kB"):
            run(big)


def test_jobs_that_do_not_fit_together_wait(tmp_path: Path) -> None:
    runner = WithinMemory(Runner(4), limit=1000, taken=0, folder=os.fspath(tmp_path))
    inside, most, lock = [0], [0], threading.Lock()

    def work(size: int) -> int:
        with lock:
            inside[0] += size
            most[0] = max(most[0], inside[0])
        with lock:
            inside[0] -= size
        return size

    sizes = [300, 250, 500, 100, 600, 400] * 5
    found = runner.run([Job(f"{i}", work, {"size": size}, peak_bytes=size) for i, size in enumerate(sizes)])
    assert list(found) == sizes and most[0] <= 625


def test_shared_arrays_are_the_same_in_files(tmp_path: Path) -> None:
    runner = WithinMemory(Runner(), limit=100, taken=0, folder=os.fspath(tmp_path))
    value = [np.arange(1000, dtype=np.int32).reshape(10, 100), (np.zeros(0, np.float32), "plain")]
    shared = runner.one(Job("value", lambda: value, {}, shared=True))
    assert shared[0].tolist() == value[0].tolist() and shared[0].shape == (10, 100)  # type: ignore[union-attr]
    assert shared[1][0].size == 0 and shared[1][1] == "plain" and not list(tmp_path.iterdir())


def test_beside_a_runner_nothing_else_is_taken() -> None:
    with raises(ParameterError, "runner", "memory_limit", "checkpoint"):  # noqa: SIM117
        with opened_runner(1, runner=Runner(), memory_limit="1GB"):
            pass


arrays = st.builds(
    lambda shape, dtype, seed: np.random.default_rng(seed).integers(0, 100, shape).astype(dtype),
    st.lists(st.integers(0, 4), max_size=3), st.sampled_from(["int32", "float32"]), st.integers(0, 99),
)  # fmt: skip


@given(st.lists(st.tuples(arrays, arrays), min_size=1, max_size=6))
def test_blocks_give_back_what_was_put_into_them(pairs: list[tuple[np.ndarray, np.ndarray]]) -> None:
    results: list[tuple[str, Arrays]] = [
        (f"job{i}", {"one": a.astype(np.int32), "two": b.astype(np.float32)}) for i, (a, b) in enumerate(pairs)
    ]
    state = block_state(results)
    assert block_names(state) == [name for name, _ in results]
    same_bits(list(read_block(state)), results)


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("shapes", lambda array: array[:-1]), ("field.values", lambda array: array[:-1]),
        ("shapes", lambda array: -array - 1), ("shapes", lambda array: np.full_like(array, 2**62)),
    ],
    ids=["too few shapes", "too few values", "negative", "huge"],
)  # fmt: skip
def test_a_damaged_block_is_a_sentence(field: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    state = block_state([("a", {"values": np.arange(6).reshape(2, 3)}), ("b", {"values": np.arange(4)})])
    state.arrays[field] = change(np.asarray(state.arrays[field]))
    with raises(ModelError, "damaged"):
        list(read_block(state))


def test_what_a_loop_goes_on_from_replaces_what_it_went_on_from(tmp_path: Path) -> None:
    def opened() -> tuple[Checkpoint, Runner]:
        checkpoint = Checkpoint(tmp_path / "work")
        checkpoint.open({})
        return checkpoint, Checkpointed(Runner(), checkpoint, block_bytes=1).within("part")

    def blocks() -> int:
        return len(list((tmp_path / "work").glob("block*")))

    checkpoint, runner = opened()
    assert runner.load(["step"], ARRAY) is None
    for step in range(3):
        runner.run(jobs(5))
        runner.save("step", np.array([step]), ARRAY)
        runner.forget(["square1", "square2", "no such thing"])
        assert blocks() == 4
    checkpoint.close()
    (tmp_path / "work" / "block000099").mkdir()  # what a kill can leave of a deletion
    checkpoint, runner = opened()
    assert blocks() == 4
    assert [each.tolist() for each in runner.load(["step", "square4"], ARRAY) or []] == [[2], [16]]
    assert runner.load(["step", "square1"], ARRAY) is None
    checkpoint.close()
    plain = Runner().within("part")
    plain.save("step", np.zeros(1), ARRAY)
    plain.forget(["step"])
    assert plain.load(["step"], ARRAY) is None


def test_results_that_share_a_block_stay_until_none_is_needed(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "work")
    checkpoint.open({})
    runner = Checkpointed(Runner(), checkpoint, block_bytes=1 << 20)
    runner.run(jobs(3))
    runner.forget(["square0"])  # it waits in memory
    checkpoint.begin()
    runner.flush()
    assert [sorted(block_names(store.load(path))) for path in (tmp_path / "work").glob("block*")] == [
        ["square1", "square2"]
    ]
    runner.forget(["square1"])
    assert runner.load(["square2"], ARRAY) is not None
    runner.forget(["square2"])
    assert not list((tmp_path / "work").glob("block*"))
    checkpoint.close()
