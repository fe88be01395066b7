"""Two processes do what one does with the whole batch; when one comes to nothing, the other says so and ends."""

from __future__ import annotations

import importlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from process_worker import Rows

import sylvan
from sylvan.errors import ParameterError
from sylvan.neural import Engine, train

pytest.importorskip("accelerate")
pytestmark = pytest.mark.skipif(os.name == "nt", reason="starts processes that find each other by gloo")
WORKER = Path(__file__).parent / "process_worker.py"


def launch(scenario: str, folder: Path, seconds: float = 120.0) -> list[subprocess.CompletedProcess[str]]:
    """Both processes of a scenario, ended."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    places = [str(WORKER.parent), str(Path(sylvan.__file__).parents[1])]
    shared = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(places),
        "OMP_NUM_THREADS": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": "2",
    }
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "error::RuntimeWarning", str(WORKER), scenario, str(folder)],
            env={**shared, "RANK": str(process), "LOCAL_RANK": str(process)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for process in range(2)
    ]
    ended = []
    try:
        for process in started:
            out, error = process.communicate(timeout=seconds)
            ended.append(subprocess.CompletedProcess(process.args, process.returncode, out, error))
    finally:
        for process in started:
            process.kill()
    return ended


def result(folder: Path, process: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"result.{process}.json").read_text())
    return found


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("training")
    for ended in launch("training", folder):
        assert ended.returncode == 0, ended.stderr[-3000:]
    return [result(folder, process) for process in range(2)]


def close(found: list[Any], wanted: Any) -> None:
    for one, other in zip(found, wanted.module.state_dict().values(), strict=True):
        torch.testing.assert_close(torch.tensor(one), other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_two_processes_do_what_one_does(both: list[dict[str, Any]], accumulate: int) -> None:
    """Slow twin: one process, whole batches. Dense and sparse gradients, clipped, with a schedule."""
    alone = Rows()
    history = train(alone, epochs=3, clip_norm=2.0, engine=Engine(device="cpu", accumulate=accumulate))
    begun = [tensor.clone() for tensor in Rows().module.state_dict().values()]
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
    alone = Rows()
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
def test_the_other_does_not_wait_for_one_that_ended(how: str, tmp_path: Path) -> None:
    ended = launch(how, tmp_path)
    found = result(tmp_path, 0)
    assert ended[0].returncode == 0 and found["seconds"] < 40
    assert "Process 0 of 2 lost the others: one of them ended" in found["error"] and "resume" in found["error"]
    assert ended[1].returncode != 0
    assert sylvan.store.load(tmp_path / "run" / "checkpoint", mmap=False).meta["tree"]["position"][2] == 3


def test_nobody_waits_for_ever(tmp_path: Path) -> None:
    launch("hang", tmp_path)
    found = result(tmp_path, 0)
    assert "gave no sign for 2 seconds" in found["error"] and 1.5 < found["seconds"] < 7.5


def test_without_accelerate_several_processes_are_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("WORLD_SIZE", "2"), ("RANK", "0"), ("LOCAL_RANK", "0")):
        monkeypatch.setenv(name, value)
    real = importlib.import_module

    def without(name: str, package: str | None = None) -> Any:
        if name.startswith("accelerate"):
            raise ImportError(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(
        ParameterError, match=r"2 processes were launched, which needs Accelerate.*sylvan\[transformers\]"
    ):
        Engine(device="cpu")
    monkeypatch.delenv("LOCAL_RANK")
    assert Engine(device="cpu").n_processes == 1  # no launcher's variables


def test_others_that_never_come(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "from sylvan.neural import Engine\nfrom sylvan.errors import SylvanError\n"
        "try:\n    Engine(device='cpu', timeout=1.0)\nexcept SylvanError as error:\n    print(error)\n"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = {**os.environ, "PYTHONPATH": str(Path(sylvan.__file__).parents[1]), "MASTER_ADDR": "127.0.0.1"}
    environment.update(MASTER_PORT=port, WORLD_SIZE="2", RANK="0", LOCAL_RANK="0", OMP_NUM_THREADS="1")
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=100)
    assert "The 2 processes could not find each other within 1 seconds" in ended.stdout, ended.stderr[-2000:]
