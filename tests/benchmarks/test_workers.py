"""What all benchmarks share: processes that measure, books of rows, rooms that import downwards, tables in docs."""

import ast
import importlib.util
import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from child_processes import python
from kit.errors import raises

from benchmarks import RESULTS, ROOT
from benchmarks.common import measure, process, records
from benchmarks.common.datasets import made_once
from benchmarks.report.__main__ import documents, with_table
from benchmarks.report.sampling import output_layer_summary

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


def test_rows_and_books_name_the_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "book.json"
    for at, cpu in enumerate(("first", "second", "first")):
        monkeypatch.setattr(measure, "processor", lambda cpu=cpu: {"cpu": cpu, "cores": 2})
        records.Book(path).add({"row": at})
    written = json.loads(path.read_text())
    assert written["machine"] == {"cpu": "first and second", "cores": 2}
    assert [(run["row"], run["cpu"]) for run in written["runs"]] == [(0, "first"), (1, "second"), (2, "first")]
    assert records.Book(path).find({"row": 1}) == {"row": 1, "cpu": "second"}


FILES = sorted((ROOT / "benchmarks").rglob("*.py"))
# What a room may import beside itself.
BELOW = {
    "common": set(), "lexical": {"common", "annif"},
    "report": {"common", "beam_tree", "irli", "linear", "mutation", "sampling", "transformers"},
}  # fmt: skip
# What some environments lack.
PEERS = ("faiss", "fastapi", "hnswlib", "pecos", "sklearn", "torch", "threadpoolctl", "fcntl")


def name_of(path: Path) -> str:
    """A module's name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def taken(path: Path, package: str) -> list[tuple[str, str]]:
    """What a file imports from a package, module and name, inside functions too, which no other test may run."""
    return [
        (str(node.module), alias.name)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == package
        for alias in node.names
    ]


def imported(path: Path) -> Iterator[str]:
    """The modules of benchmarks that a file imports."""
    modules = {name_of(file) for file in FILES}
    found = [(module, f"{module}.{name}") for module, name in taken(path, "benchmarks")]
    yield from (name if name in modules else module for module, name in found)


def test_modules_can_be_imported() -> None:
    for name in map(name_of, FILES):
        try:
            assert importlib.import_module(name).__doc__, f"{name} has no docstring"
        except ModuleNotFoundError as error:
            assert error.name in PEERS, f"{name}: {error}"


def test_what_is_taken_of_sylvan_is_there() -> None:
    for path in FILES:
        for place, name in taken(path, "sylvan"):
            there = hasattr(importlib.import_module(place), name) or importlib.util.find_spec(f"{place}.{name}")
            assert there, f"{name_of(path)} imports {place}.{name}"


def test_imports_point_down() -> None:
    for path in FILES:
        room = path.relative_to(ROOT / "benchmarks").parts[0]
        for name in imported(path):
            target = name.split(".")[1] if "." in name else room
            assert target in {room, *BELOW.get(room, {"common"})}, f"{name_of(path)} imports {name}"


def test_imports_make_no_circle() -> None:
    graph = {name_of(path): set(imported(path)) for path in FILES}

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            new = graph.get(todo.pop(), set()) - seen
            seen |= new
            todo += new
        return seen

    for name in graph:
        assert name not in reach(name), f"{name} imports itself in the end"


PAGES = ROOT / "docs" / "results"


def test_the_tables_are_generated() -> None:
    page = (ROOT / "docs" / "sampling.md").read_text("utf-8")
    assert "<!-- output-layer:begin -->" in page
    table = output_layer_summary(RESULTS)
    assert with_table(page, table, "output-layer") == page, "docs/sampling.md: run python -m benchmarks.report"


def test_the_results_are_written() -> None:
    made = documents(RESULTS)
    assert {path.stem for path in PAGES.glob("*.md")} == made.keys(), "docs/results: run python -m benchmarks.report"
    for name, text in made.items():
        page = (PAGES / f"{name}.md").read_text("utf-8")
        assert text == page, f"docs/results/{name}.md is out of date: run python -m benchmarks.report"
