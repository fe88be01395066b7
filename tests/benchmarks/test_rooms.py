"""The rooms of benchmarks/: every module can be imported, and imports point down from report to common."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path

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
