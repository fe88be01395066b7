"""Two processes do what one does with the whole batch; when one comes to nothing, the other says so and ends."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from child_processes import environment, python
from jobs import Points, last_bits
from process_worker import TIMEOUT, uneven

import sylvan
from sylvan.neural import Engine, train

pytest.importorskip("accelerate")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks processes that find each other by gloo")
WORKER = Path(__file__).parent / "process_worker.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the processes of all scenarios wrote."""
    place = tmp_path_factory.mktemp("processes")
    ended = python("-W", "error::RuntimeWarning", WORKER, place, env=environment(WORKER.parent, WORKER.parents[2]))
    assert ended.returncode == 0, ended.stderr[-3000:]
    codes = json.loads((place / "codes.json").read_text())
    assert codes["training"] == [0, 0], ended.stderr[-3000:]
    assert {name: code[0] for name, code in codes.items()} == dict.fromkeys(codes, 0), ended.stderr[-3000:]
    return place


def result(folder: Path, scenario: str, process: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{scenario}.{process}.json").read_text())
    return found


@pytest.fixture(scope="module")
def both(folder: Path) -> list[dict[str, Any]]:
    return [result(folder, "training", process) for process in range(2)]


def close(found: list[Any], wanted: Any) -> None:
    for one, other in zip(found, wanted.module.state_dict().values(), strict=True):
        torch.testing.assert_close(torch.tensor(one), other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_two_processes_do_what_one_does(both: list[dict[str, Any]], accumulate: int) -> None:
    """Slow reference: one process, whole batches. Dense and sparse gradients, clipped, with a schedule."""
    alone = uneven()
    history = train(alone, epochs=3, clip_norm=2.0, engine=Engine(device="cpu", accumulate=accumulate))
    begun = [tensor.clone() for tensor in uneven().module.state_dict().values()]
    assert any(
        float((x - y).abs().max()) > 0.02 for x, y in zip(begun, alone.module.state_dict().values(), strict=True)
    )
    for process in both:
        found = process if accumulate == 1 else process["accumulated"]
        close(found["numbers"], alone)
        for entry, wanted in zip(found["epochs"], history.epochs, strict=True):
            assert entry["step"] == wanted["step"] and entry["loss"] == pytest.approx(wanted["loss"], rel=1e-4)
            assert entry["accuracy"] == pytest.approx(wanted["accuracy"], abs=0.02)
        assert found["test"] == (both[0] if accumulate == 1 else both[0]["accumulated"])["test"]


def test_each_process_has_its_rows(both: list[dict[str, Any]]) -> None:
    alone = uneven()
    train(alone, epochs=3)
    first, second = both[0]["seen"], both[1]["seen"]
    assert len(first) == 15 and len(second) == 12  # of a batch of one row the second process has none
    assert [len(rows) for rows in first[:5]] == [10, 10, 10, 4, 1]
    assert [len(rows) for rows in second[:4]] == [10, 10, 10, 3]
    assert [*first[0], *second[0]] == alone.seen[0] and [*first[3], *second[3]] == alone.seen[3]


def test_the_same_bits_in_each_process_and_each_time(both: list[dict[str, Any]]) -> None:
    assert all(process["same"] and process["again"] for process in both)
    assert "n_processes=2" in both[0]["engine"]


def test_gradients_of_every_sort(both: list[dict[str, Any]]) -> None:
    for process in both:
        kinds, values = process["gradients"]["kinds"], process["gradients"]["values"]
        assert kinds == {
            **dict.fromkeys(("dense", "half", "only_first", "mixed", "scalar"), False),
            **dict.fromkeys(("sparse", "sparse_only_second"), True),
            "nowhere": None,
        }
        column = {
            name: [row[0] for row in value]
            for name, value in values.items()
            if name not in ("half", "scalar") and value
        }
        assert column["dense"] == [2.0] * 6 and values["half"] == [2.0] * 3 and values["scalar"] == 2.0
        assert column["only_first"] == [0.5] * 6
        assert column["sparse"] == [0, 1.0, 0, 0, 2.0, 0]  # row 1 stood there twice
        assert column["sparse_only_second"] == [1.5, 0, 0, 0, 0, 1.5]
        assert column["mixed"] == [0.5, 0.5, 2.0, 0.5, 0.5, 0.5]


def test_what_is_shared_is_gathered_whole(both: list[dict[str, Any]]) -> None:
    first, second = both[0]["rows"], both[1]["rows"]
    assert first["wrong"] == second["wrong"] == []
    assert (first["ids"], second["ids"]) == ([7, 8], [9])
    assert (first["tokens"], second["tokens"]) == ([0, 1, 2], [3, 4, 5])
    assert (first["pair"], second["pair"]) == ([[0, 1], 5.0], [[2], 5.0])
    assert first["agreed"] == second["agreed"] == {"process": 0}
    assert first["everyone"] == second["everyone"] == [0, 1]


def test_both_resume_to_the_same_bits(both: list[dict[str, Any]]) -> None:
    for process in both:
        found = process["resumed"]
        assert found["stopped"] == "steps" and found["steps"] == list(range(5, 24))
        assert found["same"] and found["different"] and found["module"] == both[0]["resumed"]["module"]
        assert found["files"] == ["best", "checkpoint", "results.json"]


def test_a_device_that_is_not_this_process_s(both: list[dict[str, Any]]) -> None:
    for number, process in enumerate(both):
        assert f"this is process {number} of 2, whose device is 'cpu'. Take 'auto'." in process["refused"]


@pytest.mark.parametrize("how", ["killed", "interrupted"])
def test_the_other_does_not_wait_for_one_that_ended(how: str, folder: Path) -> None:
    found = result(folder, how, 0)
    assert "Process 0 of 2 lost the others: one of them ended" in found["error"] and "resume" in found["error"]
    assert found["seconds"] < 0.8 * TIMEOUT
    assert sylvan.store.load(folder / how / "checkpoint", mmap=False).meta["tree"]["position"][2] == 3


def test_killed_it_goes_on_from_the_last_checkpoint(folder: Path, tmp_path: Path) -> None:
    job = Points()
    train(job, epochs=3, folder=folder / "alone", resume=True)
    assert job.steps[0] == 7
    train(Points(), epochs=3, folder=tmp_path)
    assert last_bits(folder / "alone") == last_bits(tmp_path)


def test_nobody_waits_for_ever(folder: Path) -> None:
    found = result(folder, "hang", 0)
    assert "gave no sign for 8 seconds" in found["error"] and found["seconds"] > 7


def test_others_that_never_come(folder: Path) -> None:
    assert "The 2 processes could not find each other within 1 seconds" in result(folder, "never", 0)["error"]
