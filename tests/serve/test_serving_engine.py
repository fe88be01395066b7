"""The engine: idle, it answers at once; busy, it gathers what comes; one at fault spoils no other."""

import asyncio
import threading
from typing import Any

import pytest
from waiting import PATIENCE

from sylvan.serve.engine import MOST_ROWS, Engine, Work, _first_batch
from sylvan.serve.problems import Problem


class Model:
    """Doubles numbers; holds its first batch until it is let go, and notes what it is asked together."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.begun, self.go = threading.Event(), threading.Event()

    def answer(self, rows: list[Any]) -> list[Any]:
        self.batches.append(list(rows))
        self.begun.set()
        assert self.go.wait(PATIENCE)
        if "bad" in rows:
            raise ValueError("a bad row")
        return [2 * row for row in rows]


def run(work: Any) -> Any:
    return asyncio.run(asyncio.wait_for(work, PATIENCE))


async def _begun(model: Model) -> None:
    await asyncio.get_running_loop().run_in_executor(None, model.begun.wait, PATIENCE)


def answered(engine: Engine, model: Model, *asked: tuple[str, list[Any]]) -> list[Any]:
    """What each is answered, a key and rows; all but the first come while that one is worked at."""

    async def ask() -> list[Any]:
        tasks = [asyncio.create_task(engine.ask(*asked[0], model.answer))]
        await _begun(model)
        tasks += [asyncio.create_task(engine.ask(*one, model.answer)) for one in asked[1:]]
        await asyncio.sleep(0)
        assert engine.waiting == len(asked)
        model.go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    results = run(ask())
    assert engine.waiting == 0
    engine.close()
    return results


def test_what_comes_meanwhile_is_answered_together() -> None:
    model = Model()
    together = [("k", [i, i + 100]) for i in range(2, 7)]
    results = answered(Engine("m", 100, PATIENCE), model, ("k", [1]), *together, ("l", [50]))
    assert results == [[2], *([2 * i, 2 * i + 200] for i in range(2, 7)), [100]]
    assert model.batches == [[1], [2, 102, 3, 103, 4, 104, 5, 105, 6, 106], [50]]


def test_batches_have_a_most() -> None:
    model = Model()
    sizes: list[int] = []
    asked = [("k", [0]), *[("k", [1] * 100)] * 5, ("k", [1] * (MOST_ROWS + 1))]
    answered(Engine("m", 1000, 60, sizes.append), model, *asked)
    assert sizes == [1, 200, 200, 100, MOST_ROWS + 1] or sizes == [1, 200, 200, MOST_ROWS + 1, 100]
    assert [len(batch) for batch in model.batches] == sizes


def test_one_at_fault_spoils_no_other() -> None:
    asked = [("k", [1]), ("k", [2]), ("k", ["bad"]), ("k", [3])]
    one, two, bad, three = answered(Engine("m", 100, PATIENCE), Model(), *asked)
    assert (one, two, three) == ([2], [4], [6])
    assert isinstance(bad, ValueError)


def test_a_full_queue_refuses_the_next() -> None:
    model = Model()
    engine = Engine("m", 2, PATIENCE)

    async def ask() -> None:
        waiting = [asyncio.create_task(engine.ask("k", [row], model.answer)) for row in (1, 2)]
        await _begun(model)
        with pytest.raises(Problem) as error:
            await engine.ask("k", [3], model.answer)
        assert error.value.status == 429 and error.value.headers["Retry-After"] == "1"
        assert 0.4 <= error.value.pause <= 1.2
        model.go.set()
        assert await asyncio.gather(*waiting) == [[2], [4]]
        assert await engine.ask("k", [3], model.answer) == [6]

    run(ask())
    engine.close()


def test_who_waits_too_long_is_told_and_not_ranked() -> None:
    model = Model()
    engine = Engine("m", 10, 0.05)

    async def ask() -> None:
        first = asyncio.create_task(engine.ask("k", [1], model.answer))
        await _begun(model)
        results = await asyncio.gather(first, engine.ask("k", [2], model.answer), return_exceptions=True)
        assert [error.status for error in results] == [503, 503]  # type: ignore[union-attr]
        model.go.set()

    run(ask())
    engine.close()
    assert model.batches == [[1]]


def test_a_client_that_leaves_is_not_ranked() -> None:
    model = Model()
    engine = Engine("m", 10, PATIENCE)

    async def ask() -> None:
        first = asyncio.create_task(engine.ask("k", [1], model.answer))
        await _begun(model)
        leaving = asyncio.create_task(engine.ask("k", [2], model.answer))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        model.go.set()
        assert await first == [2]

    run(ask())
    engine.close()
    assert model.batches == [[1]] and engine.waiting == 0


def test_those_of_another_key_make_no_room_in_a_batch() -> None:
    def work(key: str, n_rows: int) -> Any:
        return Work(key, [0] * n_rows, list, None, None, 0.0)  # type: ignore[arg-type]

    works = [work("a", MOST_ROWS - 2), work("b", 3), work("a", 1), work("b", 1), work("a", 2), work("a", 1)]
    batch, others = _first_batch(works)
    assert batch == [works[0], works[2], works[5]] and others == [works[1], works[3], works[4]]
