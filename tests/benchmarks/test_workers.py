"""Measurements in processes of their own: what they are given, what they answer, and how they fail."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from child_processes import python
from kit.errors import raises

from benchmarks.common import process
from benchmarks.common.datasets import made_once

WORKER = """
import os, sys, time
from benchmarks.common import process

def work(job):
    if "wait" in job:
        time.sleep(job["wait"])
    if "fail" in job:
        raise ValueError(job["fail"])
    return {"threads": os.environ["OMP_NUM_THREADS"], "more": os.environ.get("MORE"), "scratch": job["scratch"]}

process.serve(work)
"""


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "some_worker.py").write_text(WORKER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)  # benchmarks are found from everywhere
    return "some_worker"


def test_a_worker_answers(worker: str) -> None:
    figures = process.run(sys.executable, worker, {}, threads=3, MORE="said")
    assert figures["threads"] == "3" and figures["more"] == "said"
    assert not Path(figures["scratch"]).exists()  # it is gone with the process


@pytest.mark.parametrize(
    ("job", "timeout", "message"),
    [({"fail": "no such thing"}, None, "exit 1: ValueError: no such thing"), ({"wait": 60}, 0.5, "took more than 0.5")],
)
def test_a_worker_that_fails_says_why(worker: str, job: dict[str, Any], timeout: float | None, message: str) -> None:
    assert process.run(sys.executable, worker, job, timeout=timeout)["error"].startswith(message)


def test_the_first_interpreter_that_answers_is_taken(worker: str) -> None:
    asked = []

    def ask(python: str) -> dict[str, Any]:
        asked.append(python)
        return {"error": "no"} if python == "one" else {}

    assert process.first_with(["one", "two", "three"], ask) == "two" and asked == ["one", "two"]
    assert process.first_with(["one"], ask) is None


def test_a_person_is_told_who_starts_a_worker(worker: str) -> None:
    done = python("-m", worker, env=process.environment())
    assert done.returncode == 1 and "starts it with --job" in done.stderr


def test_a_folder_is_made_once_and_whole(tmp_path: Path) -> None:
    def write(folder: Path) -> None:
        (folder / "a.json").write_text("1")
        (folder / "b.json").write_text("2")

    def fail(folder: Path) -> None:
        (folder / "a.json").write_text("1")
        raise ValueError("no")

    target = tmp_path / "sets" / "one"
    with raises(ValueError, "no"):
        made_once(target, ["a.json", "b.json"], fail)
    assert list((tmp_path / "sets").iterdir()) == []
    assert made_once(target, ["a.json", "b.json"], write) == target
    assert made_once(target, ["a.json", "b.json"], fail) == target
    (target / "b.json").unlink()  # as a set of an earlier kind may lack a part
    assert made_once(target, ["a.json", "b.json"], write) == target
    assert json.loads((target / "b.json").read_text()) == 2
