"""Trainings whose jobs run in groups in other processes: the bits of one process, wherever they are interrupted."""

import functools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from elsewhere import Elsewhere, carried
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.bits import bits
from kit.errors import raises

from sylvan import Ensemble, IRLIClassifier, XRLinear, data
from sylvan.arrays import validate
from sylvan.errors import ModelError
from sylvan.runtime import ARRAY, Job, Once, Packing, Runner, checkpointed
from sylvan.runtime.checkpoint import Checkpoint
from sylvan.runtime.checkpointed import opened_runner
from sylvan.runtime.groups import grouped
from sylvan.runtime.jobs import using

RANDOM = np.random.default_rng(0)
X = validate.features(sp.random(90, 20, 0.25, "csr", np.float32, RANDOM))
Y = validate.labels(sp.random(90, 30, 0.08, "csr", np.float32, RANDOM) != 0)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("parts")
    data.save_parts(folder, X, Y, rows_per_part=17)
    return folder


# ---------------------------------------- groups


@given(
    costs=st.lists(st.sampled_from([0.0, 1e-9, 0.5, 1.0, 3.0, 1e12]), max_size=40), n_groups=st.integers(-1, 50),
    cut=st.booleans(),
)  # fmt: skip
def test_every_job_is_in_one_group_and_gives_its_result(costs: list[float], n_groups: int, cut: bool) -> None:
    base = np.arange(50)
    jobs = [
        Job(f"job{at}", _at, {"base": base, "at": at}, cost, cut=_cut if cut and at % 2 else None)
        for at, cost in enumerate(costs)
    ]
    groups = grouped(jobs, n_groups)
    assert sorted(number for _, numbers in groups for number in numbers) == list(range(len(jobs)))
    for group, numbers in groups:
        assert group.cost == sum(jobs[number].cost for number in numbers)
        assert group() == group.prepared()() == [jobs[number]() for number in numbers]
        assert carried((group.prepared().work, group.prepared().inputs))
    assert len(groups) <= 2 * max(1, n_groups) + len(jobs) // 256 + 1


def _at(base: Any, at: int) -> int:
    return int(base[at]) ** 2


def _cut(inputs: Any) -> dict[str, Any]:
    return {"base": inputs["base"][inputs["at"] :], "at": 0}


def test_very_many_jobs_of_one_cost() -> None:
    jobs = [Job(f"job{at}", pow, {"base": at, "exp": 2}) for at in range(1000)]
    assert max(len(numbers) for _, numbers in grouped(jobs, 1)) <= 256
    assert Elsewhere(1).run(jobs) == [at**2 for at in range(1000)]


@pytest.mark.parametrize("names", [("jobs", "packs"), ("paths", "work"), ("a.b", "0.a"), ("name", "title")])
def test_inputs_of_any_name(names: tuple[str, str], tmp_path: Path) -> None:
    jobs = [Job(f"job{at}", _sum, {names[0]: at, names[1]: 1}, packing=ARRAY) for at in range(3)]
    assert [int(one) for one in Elsewhere(1).run(jobs)] == [1, 2, 3]
    with using(Elsewhere(1)), opened_runner(checkpoint=tmp_path / "work") as runner:
        assert [int(one) for one in runner.run(jobs)] == [1, 2, 3]


def _sum(**inputs: int) -> np.ndarray:
    return np.array(sum(inputs.values()))


def test_what_several_build_on_is_sent(tmp_path: Path) -> None:
    once = Once(Job("base", np.arange, {"start": 0, "stop": 5}))
    jobs = [Job(f"job{at}", np.sum, {"a": once}) for at in range(3)]
    assert Elsewhere(2).run(jobs) == [10, 10, 10]


def test_results_of_different_fields_in_one_group(tmp_path: Path) -> None:
    packing: Packing[Any] = Packing(_packed, _unpacked)
    jobs = [Job(f"job{at}", _kind, {"at": at}, packing=packing) for at in range(6)]
    for _ in range(2):
        runner = Elsewhere(1)
        checkpoint = Checkpoint(tmp_path / "work")
        with using(runner), opened_runner(checkpoint=checkpoint) as stored:
            results = stored.run(jobs)
            assert [one.dtype.str for one in results] == ["<i8", "<f8", "<f4"] * 2
            assert [len(one) for one in results] == [0, 1, 2, 3, 4, 5]
    assert runner.names == []


def _kind(at: int) -> np.ndarray:
    return np.ones(at, ["<i8", "<f8", "<f4"][at % 3])


def _packed(result: Any) -> Any:
    return {"values": result}


def _unpacked(arrays: Any) -> Any:
    return np.array(arrays["values"])


# ---------------------------------------- the same bits


XR: list[dict[str, Any]] = [
    {"max_leaf": 4, "branching": 3},
    {"max_leaf": 4, "branching": 3, "negatives": "man"},
    {"max_leaf": 3, "n_trees": 2, "overlap": 2, "calibration": None},
    {"max_leaf": 4, "negatives": "tfn", "normalize": True, "tail": "psp"},
    {"max_leaf": 4, "embedding": "spectral", "spectral_dimensions": 5, "weight_dtype": "float32"},
    {"max_leaf": 3, "branching": 2, "calibration_folds": 3},
]
MODELS: list[Callable[[], Any]] = [
    *[lambda given=given: XRLinear(n_jobs=1, **given) for given in XR],
    lambda: Ensemble([XRLinear(max_leaf=5, seed=seed, n_jobs=1) for seed in (0, 1)]),
    lambda: IRLIClassifier(
        n_buckets=5, n_repetitions=3, hidden=8, rounds=2, epochs_per_round=1, final_epochs=1, n_jobs=1
    ),
]


@functools.cache
def bits_of_one_process(number: int) -> Any:
    return bits(MODELS[number]().fit(X, Y))


def rows_of(parts: Path, in_parts: bool) -> Any:
    return data.open_parts(parts) if in_parts else (X, Y)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(
    ("number", "in_parts"), [*((at, True) for at in range(len(XR))), *((at, False) for at in range(len(MODELS)))]
)
def test_models_have_the_bits_of_one_process(
    number: int, in_parts: bool, stored: bool, parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointed, "SECONDS", 0.0)
    several = Elsewhere(7, backwards=True)
    for at, runner in enumerate((several,) if stored else (Elsewhere(1), several, Elsewhere(1000))):
        given = {"checkpoint": tmp_path / str(at)} if stored else {}
        with using(runner):
            model = MODELS[number]().fit(*rows_of(parts, in_parts), **given)
        assert bits(model) == bits_of_one_process(number) and runner.n_groups
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", range(len(XR)))
def test_a_memory_limit_changes_no_bits_of_rows_in_parts(number: int, parts: Path) -> None:
    rows, labels = data.open_parts(parts)
    assert bits(MODELS[number]().fit(rows, labels, memory_limit="4GB")) == bits_of_one_process(number)


class Stopped(Exception):
    """What stands for a killed driver."""


def stop_from(first: int) -> Callable[[int], None]:
    """What a runner calls with the number of a group: it is stopped at the first from this number on."""

    def stop(number: int) -> None:
        if number >= first:
            raise Stopped

    return stop


@pytest.mark.parametrize(
    ("number", "in_parts", "after"),
    [
        (0, True, False), (0, True, True), (1, True, True), (2, True, False), (4, True, True),
        (2, False, True), (6, False, False), (6, False, True), (7, False, False),
    ],
)  # fmt: skip
def test_a_training_that_is_stopped_anywhere_is_gone_on_from(
    number: int, in_parts: bool, after: bool, parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointed, "SECONDS", 0.0)
    monkeypatch.setattr(checkpointed, "BLOCK_BYTES", 256)
    whole = Elsewhere(3)
    with using(whole):
        MODELS[number]().fit(*rows_of(parts, in_parts))
    stops = range(whole.n_groups) if whole.n_groups <= 7 else range(0, whole.n_groups, whole.n_groups // 5)
    for stop_at in stops:
        checkpoint = Checkpoint(tmp_path / f"work{stop_at}")
        runner = Elsewhere(3, **{"after" if after else "before": stop_from(stop_at)})
        with pytest.raises(Stopped), using(runner):
            MODELS[number]().fit(*rows_of(parts, in_parts), checkpoint=checkpoint)
        again: Runner = Elsewhere(5, backwards=True) if stop_at % 2 else Runner(1)  # on a cluster, or on one machine
        with using(again):
            model = MODELS[number]().fit(*rows_of(parts, in_parts), checkpoint=checkpoint)
        assert bits(model) == bits_of_one_process(number), stop_at
        checkpoint.remove()
        assert not (tmp_path / f"work{stop_at}").exists()


def test_stopped_again_and_again_it_ends(parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt does one group more than those before it."""
    monkeypatch.setattr(checkpointed, "SECONDS", 0.0)
    reading = len(data.open_parts(parts)[0].paths)
    for attempt in range(200):
        with using(Elsewhere(1000, before=stop_from(reading + 8))):
            try:
                model = MODELS[0]().fit(*data.open_parts(parts), checkpoint=tmp_path / "work")
                break
            except Stopped:
                assert attempt < 199
    assert attempt > 0 and bits(model) == bits_of_one_process(0)


# ---------------------------------------- damage


def spoil(path: Path, other: Path, how: str, random: np.random.Generator) -> None:
    content, others = bytearray(path.read_bytes()), other.read_bytes()
    if how == "flip":
        content[random.integers(len(content))] ^= 1 << random.integers(8)
    elif how == "cut":
        content = content[: random.integers(len(content))]
    elif how == "empty":
        content = bytearray()
    elif how == "swap":
        other.write_bytes(content)
        content = bytearray(others)
    path.write_bytes(content)
    if how == "unlink":
        path.unlink()


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), how=st.sampled_from(["flip", "cut", "unlink", "empty", "swap"]))
def test_a_damaged_checkpoint_gives_the_model_or_a_sentence(
    seed: int, how: str, half_done: dict[bool, Path], parts: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    work = tmp_path_factory.mktemp("damaged") / "work"
    shutil.copytree(half_done[True], work)
    random = np.random.default_rng(seed)
    files = sorted(
        path for path in work.rglob("*") if path.is_file() and path.stat().st_size and "training" not in str(path)
    )
    spoil(*(files[random.integers(len(files))] for _ in range(2)), how, random)
    with using(Elsewhere(5)):
        try:
            model = MODELS[0]().fit(*data.open_parts(parts), checkpoint=Checkpoint(work))
        except ModelError as error:
            assert str(error).endswith(".")
        else:
            assert bits(model) == bits_of_one_process(0)


def begun(work: Path, *rows: Any) -> Path:
    """The checkpoint of a training that was stopped after three quarters of its groups, in its last layer."""
    whole = Elsewhere(1000)
    with using(whole):
        MODELS[0]().fit(*rows)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(checkpointed, "SECONDS", 0.0)
        with using(Elsewhere(1000, before=stop_from(whole.n_groups * 3 // 4))):
            MODELS[0]().fit(*rows, checkpoint=Checkpoint(work))
    assert list(work.glob("block*"))
    return work


@pytest.fixture(scope="module")
def half_done(parts: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """Of rows in parts, or not."""
    folder = tmp_path_factory.mktemp("half")
    return {in_parts: begun(folder / str(in_parts), *rows_of(parts, in_parts)) for in_parts in (True, False)}


# ---------------------------------------- other data


def moved(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """With one value in another column, its row as long as before."""
    row = next(at for at in range(90) if 19 not in matrix[at].indices and matrix[at].nnz)
    matrix.indices[matrix.indptr[row + 1] - 1] = 19
    return matrix


ORDER = np.random.default_rng(1).permutation(90)
ALTERED: dict[str, Callable[[sp.csr_matrix, sp.csr_matrix], tuple[Any, Any]]] = {
    "columns": lambda X, Y: (X[:, ::-1], Y),
    "column": lambda X, Y: (moved(X.copy()), Y),
    "sign": lambda X, Y: (sp.csr_matrix((X.data * np.where(np.arange(X.nnz), 1, -1), X.indices, X.indptr)), Y),
    "order": lambda X, Y: (X[ORDER], Y[ORDER]),
    "labels": lambda X, Y: (X, Y[:, ::-1]),
    "features": lambda X, Y: (sp.hstack([X, sp.csr_matrix((90, 1))]), Y),
}


@pytest.mark.parametrize("what", ALTERED)
@pytest.mark.parametrize("in_parts", [True, False])
def test_another_training_is_refused(what: str, in_parts: bool, half_done: dict[bool, Path], tmp_path: Path) -> None:
    """Of data that look much like X and Y."""
    work = shutil.copytree(half_done[in_parts], tmp_path / "work")
    features, labels = ALTERED[what](X.to_scipy(), Y.to_scipy())
    other = validate.features(features.tocsr()), validate.labels(labels.tocsr())
    data.save_parts(tmp_path / "parts", *other, rows_per_part=17)
    with raises(ModelError, "training"):
        MODELS[0]().fit(*(data.open_parts(tmp_path / "parts") if in_parts else other), checkpoint=work)


@pytest.mark.parametrize("rows_per_part", [1, 30, 1000])
def test_another_division_is_the_same_training(rows_per_part: int, half_done: dict[bool, Path], tmp_path: Path) -> None:
    shutil.copytree(half_done[True], tmp_path / "work")
    data.save_parts(tmp_path / "parts", X, Y, rows_per_part=rows_per_part)
    with using(Elsewhere(3)):
        model = MODELS[0]().fit(*data.open_parts(tmp_path / "parts"), checkpoint=tmp_path / "work")
    assert bits(model) == bits_of_one_process(0)
