"""Trainings on paper: a simulated cluster by hand and by its laws, tasks, the jobs of real trainings, the tables."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.cluster import compared, simulation
from benchmarks.cluster.costs import Costs, shape_of
from benchmarks.cluster.events import Machines, Task, critical_path, simulate
from benchmarks.cluster.on_paper import Shape
from benchmarks.cluster.phases import Splits, training_tasks
from benchmarks.cluster.rates import measured_rates, sizes
from benchmarks.cluster.recorded import Recorder
from benchmarks.common import datasets, synthetic
from benchmarks.report.simulation import simulation_section
from sylvan import XRLinear
from sylvan.arrays.validate import Csr
from sylvan.ranking.linear import LEAST_COST

RAY = {"overhead_s": 0.001, "handing_s": 0.001, "copying": 1e-9, "tasks": 1}
SHAPE = Shape(200_000, 300_000, 100_000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared set of 900 rows and 400 labels."""
    path = tmp_path_factory.mktemp("cache") / "synthetic-900x400"
    path.mkdir()
    datasets.save(path, synthetic.generate(path.name))
    return path


@pytest.fixture(scope="module")
def rates(folder: Path) -> dict[str, Any]:
    """What the parts of a training of this set cost."""
    return {**measured_rates(folder), "ray": RAY}


@pytest.fixture(scope="module")
def costs(rates: dict[str, Any]) -> Costs:
    return replace(Costs.of(rates, "tfn+man"), searching=1e-8, iterating=1e-8, assigning=1e-8)


def test_rates_are_of_the_set_and_positive(rates: dict[str, Any], folder: Path) -> None:
    X, Y = (Csr.of(matrix) for matrix in datasets.load(folder, "X.trn", "Y.trn"))
    for setting, run in rates["settings"].items():
        assert {name: run[name] for name in sizes(X, Y)} == sizes(X, Y)
        model = XRLinear(n_jobs=1, calibration=None, negatives="tfn" if setting == "tfn" else "paper").fit(X, Y)
        assert [layer["clusters"] for layer in run["layers"]] == [1, *model.tree_.layer_sizes[:-1]]
        assert all(layer["rate"] > 0 and layer["weights"] > 0 for layer in run["layers"])
        assert run["layers"][0]["pairs"] == run["rows"]
    man, tfn = (rates["settings"][name]["layers"][-1]["pairs"] for name in ("tfn+man", "tfn"))
    assert man > tfn
    own = Costs.of(rates, "tfn")
    assert own.searching == 0 < Costs.of(rates, "tfn+man").searching
    fewer = {**rates, "clustering": {**rates["clustering"], "values_a_label": 100.0}}
    values = shape_of(rates["settings"]["tfn"]).embedding_values(Costs.of(fewer, "tfn").embedding_power)
    assert values == pytest.approx(100.0 * rates["clustering"]["labels"], rel=1e-6)


@pytest.mark.parametrize("searched", [False, True])
def test_the_work_is_the_same_however_it_is_divided(costs: Costs, searched: bool) -> None:
    def spent(n_workers: int, **splits: Any) -> dict[str, float]:
        return simulation.by_phase(
            training_tasks(SHAPE, costs, n_workers, searched=searched, splits=Splits(**splits))
        )  # fmt: skip

    costs = replace(costs, last=1e-3)  # clusters that take longer than a task should
    alone = spent(1)
    assert set(alone) >= {"embeddings", "clustering", "sorting", "solving", "layout"}
    assert ("search" in alone) == ("upper layers" in alone) == searched
    for other in (spent(50), spent(50, assigning=True, children=True, layout=True)):
        assert other == pytest.approx(alone)


def test_a_recorded_training_has_sylvans_own_jobs_and_bits(folder: Path) -> None:
    X, Y = datasets.load(folder, "X.trn", "Y.trn")
    recorder = Recorder()
    model = XRLinear(n_jobs=1).fit(X, Y, runner=recorder)
    recorder.finish()
    assert (model.rank(X[:50]).scores == XRLinear(n_jobs=1).fit(X, Y).rank(X[:50]).scores).all()
    lists = [step for step in recorder.steps if step.kind == "list" and step.name.startswith("Training")]
    assert len(lists) == 2  # the layers above, and the last one after its search
    names = [step.name.rpartition(".")[2] for step in recorder.steps if step.kind == "one"]
    assert names[:3] == ["embeddings", "tree", "positives"] and "beam" in names
    assert [step.shared_bytes > X.data.nbytes for step in lists] == [True, False]  # rows are sent once a training
    for step in lists:
        assert step.shared_bytes > 0
        for job in step.jobs:
            assert job.cost > 0 and job.seconds > 0 and job.peak_bytes > 0 and job.bytes_in > 0 and job.bytes_out > 0
    pairs = recorder.pairs["tree0.layer0"]
    assert pairs[:3] == (900, 900, 1)
    assert sum(job.cost for job in lists[0].jobs) >= LEAST_COST / 10


def _measured(path: Path, name: str) -> Path:
    """The JSON of a cluster's benchmark, by hand."""
    medians = [
        {"setting": "fast", "nodes": nodes, "rows": where, "wall_s": 1.0, "cpu_s": 1.0,
         "phases": [{"bytes_shared": 2, "bytes_sent": 1}, {"bytes_shared": 0, "bytes_sent": 4}]}
        for nodes, where in ((0, "memory"), (1, "memory"), (1, "parts"), (2, "memory"), (2, "parts"))
    ]  # fmt: skip
    record = {"set": name, "date": "2026-01-01", "machine": {"cpu": "c", "cores": 2}, "medians": medians}
    path.write_text(json.dumps(record))
    return path


def test_measured_trainings_are_predicted(folder: Path, tmp_path: Path) -> None:
    own = compared.compared(_measured(tmp_path / "cluster.json", folder.name), tmp_path, folder.parent, RAY)
    wanted = [("memory", 1), ("memory", 2), ("parts", 1), ("parts", 2)]
    assert [(row["where"], row["nodes"]) for row in own["rows"]] == wanted
    one, two, parts, _ = own["rows"]
    assert one["paper_s"] >= two["paper_s"] > 0 and one["paper_s"] > 0.5 and one["bytes"] == 7
    X = datasets.load(folder, "X.trn")[0]
    assert one["paper_bytes"] == two["paper_bytes"] > X.data.nbytes + X.indices.nbytes
    assert 0 < parts["paper_bytes"] < one["paper_bytes"]  # workers read the rows where they lie


def test_the_command_writes_what_the_tables_show(
    rates: dict[str, Any], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulation, "LABELS", (10**6,))
    monkeypatch.setattr(simulation, "WORKERS", (1, 3))
    monkeypatch.setattr(simulation, "SPLIT_WORKERS", (2,))
    shapes = simulation.shape_rows(folder.name, rates["settings"])
    record = {"costs": rates, "shapes": shapes, **simulation.records.about()}
    path = tmp_path / "cluster-simulation.json"
    path.write_text(json.dumps(record))
    assert simulation_section(tmp_path) == []  # nothing is simulated yet
    scale = {"runs": [{"rows": 900, "labels": 400, "setting": "balanced", "machine": {"cpu": "c"}, "model_mb": 1.0,
                       "phases": {"clustering": {"cpu_s": 2.0}, "solving": {"cpu_s": 1.0}}}]}  # fmt: skip
    (tmp_path / "scale.json").write_text(json.dumps(scale))
    _measured(tmp_path / "cluster.json", folder.name)
    command = f"simulation --results {tmp_path} --cache {folder.parent} --data {tmp_path}"
    for more in ("", f" --measured {tmp_path / 'cluster.json'}"):
        monkeypatch.setattr(sys, "argv", (command + more).split())
        simulation.main()
    written = json.loads(path.read_text())
    assert len(written["rows"]) == 4 and written["costs"] == json.loads(json.dumps(rates))
    assert len(written["splits"]) == 2 * len(simulation.STEPS) and len(written["troubles"]) == 2 * 7
    assert written["check"][0]["phases"]["solving"]["measured_s"] == 1.0
    lines = simulation_section(tmp_path)
    text = "\n".join(lines)
    assert sum(line.startswith("| 1,000,000 | 3 |") for line in lines) == 2
    assert "long clusters by 8 children" in text and "a tenth of the store" in text and "900 × 400" in text
    assert f"### On paper: {folder.name} on one to three nodes" in text and "| fast | 2 | parts |" in text


def task(cpu_s: float, *after: int, **more: object) -> Task:
    return Task("task", "phase", cpu_s, after=after, **more)  # type: ignore[arg-type]


THREE = [task(2), task(2), task(2)]
READING = [task(0, bytes_in=30), task(0, bytes_in=30), task(0, bytes_in=30)]
FOUR = [task(1), task(1), task(1), task(1)]
# Tasks, machines, and what comes of them.
BY_HAND: dict[str, tuple[list[Task], Machines, dict[str, Any]]] = {
    "the most expensive first": (
        [task(2), task(3)], Machines(1), {"starts": [3, 0], "ends": [5, 3], "seconds": 5, "busy_s": 5}),
    "a lower stage before what is more expensive": ([task(5, stage=1), task(1)], Machines(1), {"ends": [6, 1]}),
    "a task waits for what it builds on": (
        [task(2), task(1), task(3, 0, 1)], Machines(3),
        {"ready": [0, 0, 2], "ends": [2, 1, 5], "chain": [(0, 2), (2, 3)]}),
    "the end waits for a busy worker": (
        [task(4), task(3), task(2)], Machines(2), {"ends": [4, 3, 5], "chain": [(1, 3), (2, 2)]}),
    "a straggler: the fast worker has taken two by then": (THREE, Machines(2, slow={0: 3.0}), {"ends": [6, 2, 4]}),
    "one network for all of a node": (READING, Machines(3, per_node=3, network=10), {"seconds": 9}),
    "a network for each node": (READING, Machines(3, network=10), {"seconds": 3}),
    "the store is saturated": (READING, Machines(3, network=10, store=15), {"seconds": 6}),
    "5 each, and then 10 for the one that is left": (
        [task(0, bytes_in=10), task(0, bytes_in=20)], Machines(2, network=10, store=10), {"ends": [2, 3]}),
    "a task reads, computes and writes": (
        [task(5, bytes_in=20, bytes_out=10)], Machines(1, network=10), {"seconds": 2 + 5 + 1}),
    "those that compute share the cores": (THREE, Machines(3, cores=2), {"seconds": 3}),
    "no task uses more than one core": ([task(2)], Machines(3, cores=2), {"seconds": 2}),
    "a lost worker is replaced, its task begins anew": (
        [task(5), task(4)], Machines(2, losses=[(1.0, 0)], away_s=2), {"starts": [3, 0], "ends": [8, 4], "n_lost": 1}),
    "the other worker takes it": ([task(5), task(4)], Machines(2, losses=[(1.0, 0)], away_s=100), {"ends": [9, 4]}),
    "what is ready when a worker is free, not what was lost before": (
        [task(4), task(3), task(10, 1)], Machines(2, losses=[(1.0, 0)], away_s=100, ahead=1),
        {"ends": [17, 3, 13], "chain": [(1, 3), (2, 10), (0, 4)]}),
    "an idle worker that is lost takes no task with it": (
        [task(5)], Machines(2, losses=[(1.0, 1), (2.0, 1)]), {"ends": [5], "n_lost": 0}),
    "a task is lost while it reads": (
        [task(1, bytes_in=100)], Machines(1, network=10, losses=[(5.0, 0)], away_s=1), {"seconds": 5 + 1 + 10 + 1}),
    "the driver hands over one after the other": (FOUR, Machines(4, handing_s=0.5), {"ends": [1.5, 2, 2.5, 3]}),
    "ahead: the next one is there already": (FOUR, Machines(1, handing_s=0.5, ahead=2), {"seconds": 4.5}),
    "not ahead": (FOUR, Machines(1, handing_s=0.5, ahead=1), {"seconds": 6}),
    "handing over takes a task's own time": (
        [task(1, handing_s=1.0), task(0.9)], Machines(2, handing_s=0.5), {"ends": [2.5, 2.9]}),
    "on the core of the first": (FOUR[:2], Machines(1, cores=1, handing_s=0.5), {"ends": [2, 3]}),
    "an overhead, and none for those of the driver": (
        [task(1), task(2, on_driver=True), task(1, 1)], Machines(1, overhead_s=0.5), {"ends": [1.5, 2, 3.5]}),
}  # fmt: skip


@pytest.mark.parametrize("case", BY_HAND)
def test_by_hand(case: str) -> None:
    tasks, machines, expected = BY_HAND[case]
    outcome = simulate(tasks, machines)
    found = {name: outcome.chain(tasks) if name == "chain" else getattr(outcome, name) for name in expected}
    assert found == expected
    assert simulate(tasks, machines) == outcome


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
