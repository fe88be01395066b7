"""map_parallel: what a long piece of work says while it runs, and how it ends when another fails."""

import threading
from typing import Any

import pytest
from kit.errors import raises
from waiting import PATIENCE

from sylvan import parallel
from sylvan.parallel import advance, map_parallel


class Bar:
    """A progress bar that counts."""

    drawn = True

    def __init__(self, *_: Any) -> None:
        self.updates: list[float] = []

    def update(self, amount: float = 1) -> None:
        self.updates.append(amount)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_work_says_how_far_it_has_come(n_jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bar = Bar()
    monkeypatch.setattr(parallel, "Progress", lambda *given: bar)

    def work(item: int) -> int:
        for _ in range(item):
            advance()
        return item

    assert map_parallel(work, [3, 0, 2], n_jobs, costs=[4.0, 1.0, 2.0], description="Counting") == [3, 0, 2]
    assert sum(bar.updates) == 7
    assert sorted(bar.updates) == [0, 1, 1, 1, 1, 1, 1, 1]


def test_work_ends_where_another_has_failed() -> None:
    begun, steps = threading.Event(), 0

    def work(item: int) -> None:
        nonlocal steps
        if item:
            begun.wait(PATIENCE)
            raise ValueError("the first error")
        begun.set()
        while steps < 10**9:
            steps += 1
            advance()

    with raises(ValueError, "error"):
        map_parallel(work, [0, 1], 2)
    assert 0 < steps < 10**9


def test_outside_of_it_nothing_happens() -> None:
    advance(5)
