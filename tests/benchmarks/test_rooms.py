"""The rooms of benchmarks/: every module can be imported, and imports point down from report to common."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import ROOT

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


def imported(path: Path) -> Iterator[str]:
    """The modules of benchmarks that a file imports, inside functions too."""
    modules = {name_of(file) for file in FILES}
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "benchmarks":
            found = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in modules else str(node.module) for name in found)


@pytest.mark.parametrize("name", [name_of(path) for path in FILES])
def test_modules_can_be_imported(name: str) -> None:
    try:
        assert importlib.import_module(name).__doc__, "it has no docstring"
    except ModuleNotFoundError as error:
        if error.name not in PEERS:
            raise
        pytest.skip(f"no {error.name}")


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_what_is_taken_of_sylvan_is_there(path: Path) -> None:
    missing = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):  # inside functions too, which no other test may run
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sylvan":
            module = importlib.import_module(str(node.module))
            for name in (alias.name for alias in node.names):
                if not hasattr(module, name) and importlib.util.find_spec(f"{node.module}.{name}") is None:
                    missing.append(f"{node.module}.{name}")
    assert missing == []


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
