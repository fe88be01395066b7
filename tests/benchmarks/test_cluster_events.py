"""The simulated cluster: small cases by hand, and what is true of any list of tasks."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.errors import raises

from benchmarks.cluster.events import LostTaskError, Machines, Task, critical_path, simulate
from benchmarks.cluster.sharing import Sharing


def task(cpu_s: float, *after: int, **more: object) -> Task:
    return Task("task", "phase", cpu_s, after=after, **more)  # type: ignore[arg-type]


def test_two_tasks_on_one_worker_the_most_expensive_first() -> None:
    outcome = simulate([task(2), task(3)], Machines(1))
    assert outcome.starts == [3, 0] and outcome.ends == [5, 3] and outcome.seconds == outcome.busy_s == 5


def test_a_lower_stage_goes_before_what_is_more_expensive() -> None:
    assert simulate([task(5, stage=1), task(1)], Machines(1)).ends == [6, 1]


def test_a_task_waits_for_what_it_builds_on() -> None:
    tasks = [task(2), task(1), task(3, 0, 1)]
    outcome = simulate(tasks, Machines(3))
    assert outcome.ready == [0, 0, 2] and outcome.ends == [2, 1, 5]
    assert outcome.chain(tasks) == [(0, 2), (2, 3)]
    assert critical_path(tasks) == (5, [0, 2])


def test_the_end_waits_for_a_busy_worker() -> None:
    tasks = [task(4), task(3), task(2)]
    outcome = simulate(tasks, Machines(2))
    assert outcome.ends == [4, 3, 5] and outcome.chain(tasks) == [(1, 3), (2, 2)]


def test_a_straggler_takes_longer_and_gets_less() -> None:
    outcome = simulate([task(2), task(2), task(2)], Machines(2, slow={0: 3.0}))
    assert sorted(outcome.ends) == [2, 4, 6]  # the fast worker has taken two by then


def test_nodes_divide_their_network_and_all_of_them_the_store() -> None:
    tasks = [task(0, bytes_in=30), task(0, bytes_in=30), task(0, bytes_in=30)]
    assert simulate(tasks, Machines(3, per_node=3, network=10)).seconds == 9  # one network for all
    assert simulate(tasks, Machines(3, network=10)).seconds == 3
    assert simulate(tasks, Machines(3, network=10, store=15)).seconds == 6  # the store is saturated: 5 for each
    several = simulate([task(0, bytes_in=10), task(0, bytes_in=20)], Machines(2, network=10, store=10))
    assert several.ends == [2, 3]  # 5 each, and then 10 for the one that is left


def test_a_task_reads_computes_and_writes() -> None:
    assert simulate([task(5, bytes_in=20, bytes_out=10)], Machines(1, network=10)).seconds == 2 + 5 + 1


def test_tasks_that_compute_share_the_cores() -> None:
    assert simulate([task(2), task(2), task(2)], Machines(3, cores=2)).seconds == 3
    assert simulate([task(2)], Machines(3, cores=2)).seconds == 2  # no task uses more than one


def test_a_lost_worker_is_replaced_and_its_task_begins_anew() -> None:
    outcome = simulate([task(5), task(4)], Machines(2, losses=[(1.0, 0)], away_s=2))
    assert outcome.starts == [3, 0] and outcome.ends == [8, 4] and outcome.n_lost == 1
    elsewhere = simulate([task(5), task(4)], Machines(2, losses=[(1.0, 0)], away_s=100))
    assert elsewhere.ends == [9, 4]  # the other worker takes it


def test_a_lost_worker_is_no_reason_to_hand_over_ahead() -> None:
    tasks = [task(4), task(3), task(10, 1)]
    outcome = simulate(tasks, Machines(2, losses=[(1.0, 0)], away_s=100, ahead=1))
    assert outcome.ends == [17, 3, 13]  # what is ready when a worker is free, and not what was lost before
    assert outcome.chain(tasks) == [(1, 3), (2, 10), (0, 4)]


def test_an_idle_worker_that_is_lost_takes_no_task_with_it() -> None:
    outcome = simulate([task(5)], Machines(2, losses=[(1.0, 1), (2.0, 1)]))
    assert outcome.ends == [5] and outcome.n_lost == 0


def test_a_task_is_lost_while_it_reads() -> None:
    outcome = simulate([task(1, bytes_in=100)], Machines(1, network=10, losses=[(5.0, 0)], away_s=1))
    assert outcome.seconds == 5 + 1 + 10 + 1


def test_a_task_that_is_lost_too_often_ends_the_training() -> None:
    losses = [(float(at), 0) for at in range(1, 9)]
    with raises(LostTaskError, "lost", 6):
        simulate([task(5)], Machines(1, losses=losses, away_s=0))
    assert simulate([task(5)], Machines(1, losses=losses[:5], away_s=0)).n_lost == 5


def test_the_driver_hands_over_one_after_the_other() -> None:
    tasks = [task(1) for _ in range(4)]
    assert simulate(tasks, Machines(4, handing_s=0.5)).ends == [1.5, 2, 2.5, 3]
    ahead = simulate(tasks, Machines(1, handing_s=0.5, ahead=2))
    assert ahead.seconds == 4.5  # the next one is there already
    assert simulate(tasks, Machines(1, handing_s=0.5, ahead=1)).seconds == 6
    slower = [task(1, handing_s=1.0), task(0.9)]
    assert simulate(slower, Machines(2, handing_s=0.5)).ends == [2.5, 2.9]
    assert simulate(tasks[:2], Machines(1, cores=1, handing_s=0.5)).ends == [2, 3]  # on the core of the first


def test_tasks_have_an_overhead_and_those_of_the_driver_none() -> None:
    tasks = [task(1), task(2, on_driver=True), task(1, 1)]
    assert simulate(tasks, Machines(1, overhead_s=0.5)).ends == [1.5, 2, 3.5]


def test_a_task_can_only_build_on_earlier_ones() -> None:
    with raises(ValueError, "tasks", 0):
        simulate([task(1, 1), task(1)], Machines(1))


def test_what_is_shared_is_shared_anew_when_somebody_comes() -> None:
    sharing = Sharing(2, 10.0, total=15.0)
    assert sharing.first() == (math.inf, -1)
    sharing.add(0, 20, 7)
    sharing.advance(1)  # 10 of 20
    sharing.add(1, 30, 8)
    assert sharing.first() == (10 / 7.5, 0)
    sharing.remove(1, 8)
    assert sharing.first() == (1, 0)
    assert sharing.pop(0) == 7 and sharing.first() == (math.inf, -1)


COSTS = st.floats(0.01, 100, allow_nan=False)


@st.composite
def task_lists(draw: st.DrawFn) -> list[Task]:
    """Up to a dozen tasks, each after some of the earlier ones."""
    n = draw(st.integers(1, 12))
    return [task(draw(COSTS), *draw(st.sets(st.integers(0, at - 1), max_size=3) if at else st.just(set())))
            for at in range(n)]  # fmt: skip


@given(task_lists(), st.integers(1, 5), st.integers(1, 3))
def test_the_bounds_of_list_scheduling(tasks: list[Task], n_workers: int, ahead: int) -> None:
    seconds = simulate(tasks, Machines(n_workers, ahead=ahead)).seconds
    path, total = critical_path(tasks)[0], sum(one.cpu_s for one in tasks)
    assert seconds >= path * (1 - 1e-9) and seconds >= total / n_workers * (1 - 1e-9)
    assert seconds <= (total / n_workers + (1 - 1 / n_workers) * path) * (1 + 1e-9)  # Graham's


@given(st.lists(COSTS, min_size=1, max_size=12), st.integers(1, 5))
def test_another_worker_does_not_delay_independent_tasks(costs: list[float], n_workers: int) -> None:
    tasks = [task(cost) for cost in costs]
    fewer, more = (simulate(tasks, Machines(n)).seconds for n in (n_workers, n_workers + 1))
    assert more <= fewer * (1 + 1e-9)


@given(task_lists(), st.integers(1, 4), st.integers(0, 3), st.floats(1, 4))
def test_each_task_is_done_once_all_it_builds_on_is(
    tasks: list[Task], n_workers: int, worker: int, when: float
) -> None:
    tasks = [Task(one.name, one.phase, one.cpu_s, 10, 5, one.after) for one in tasks]
    losses = [(when, worker % n_workers)]
    outcome = simulate(tasks, Machines(n_workers, 2, network=20, store=30, losses=losses, away_s=3, handing_s=0.1))
    assert outcome.seconds == max(outcome.ends) < math.inf and outcome.n_lost <= 1
    for number, one in enumerate(tasks):
        assert outcome.ends[number] >= outcome.starts[number] + one.cpu_s
        assert all(outcome.starts[number] >= outcome.ends[before] for before in one.after)
    assert sum(spent for _, spent in outcome.chain(tasks)) == pytest.approx(outcome.seconds)


def test_the_same_again() -> None:
    tasks = [task(1 + at % 7, bytes_in=at, bytes_out=1) for at in range(50)]
    machines = Machines(7, 3, network=5, store=11, slow={2: 2.0}, losses=[(3.0, 1)], handing_s=0.01)
    assert simulate(tasks, machines) == simulate(tasks, machines)
